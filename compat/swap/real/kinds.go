package main

// A kind is a trait that makes a swap harder, with a program of the trait. The zip of a module
// has neither a vendor folder nor a go.work, so the command makes both.
type kind struct {
	name string
	program
	// edit has flags of `go mod edit` for the program.
	edit []string
	// beside is a program that shares a workspace with the program.
	beside *program
	// forked programs have a directory with a changed copy of client-go.
	forked bool
	// committed is a release of client-go whose files have a pseudo-version, see
	// commitOfClientGo.
	committed string
	// vendored programs have a vendor folder, without the files that nobody compiles.
	vendored bool
	// upgrade has the arguments of a `go get` after the write. Renewed tells that the
	// upgrade changes client-go, so the swap has no effect any more.
	upgrade []string
	renewed bool
	// more is left to -all.
	more bool
}

// The cheapest programs have only what the tests need, and the client-go of another program
// of this command, whose builds they share.
var (
	extensions = program{
		module: "k8s.io/apiextensions-apiserver", version: "v0.37.2", narrow: true,
		packages: []string{"./pkg/controller/status"}, into: "pkg/controller/status", name: "status",
	}
	aggregator = program{
		module: "k8s.io/kube-aggregator", version: "v0.37.2", narrow: true,
		packages: []string{"./pkg/controllers/autoregister"}, into: "pkg/controllers/autoregister", name: "autoregister",
	}
	lasso = program{
		module: "github.com/rancher/lasso", version: "v0.2.10",
		packages: []string{"./pkg/controller", "./pkg/metrics"}, into: "pkg/controller", name: "controller",
	}
	sample = program{
		module: "k8s.io/sample-controller", version: "v0.36.0",
		packages: []string{"."}, into: ".", name: "main",
	}
	cloud = program{
		module: "k8s.io/cloud-provider", version: "v0.34.2",
		packages: []string{"./controllers/node", "./controllers/service"}, into: "controllers/service", name: "service",
	}
	oldExtensions = program{
		module: "k8s.io/apiextensions-apiserver", version: "v0.29.15", narrow: true,
		packages: []string{"./pkg/controller/apiapproval", "./pkg/controller/nonstructuralschema", "./pkg/controller/status"},
		into:     "pkg/controller/status", name: "status", untyped: true,
	}
	oldSample = program{
		module: "k8s.io/sample-controller", version: "v0.29.15",
		packages: []string{"."}, into: ".", name: "main", untyped: true,
	}
	oldCloud = program{
		module: "k8s.io/cloud-provider", version: "v0.29.15",
		packages: []string{"./controllers/node", "./controllers/service"}, into: "controllers/service", name: "service", untyped: true,
	}
)

var kinds = []kind{
	{
		name: "vendored and pruned", program: extensions, vendored: true,
		upgrade: []string{"github.com/google/go-cmp@v0.7.0", "k8s.io/klog/v2@v2.140.0"},
	},
	{
		name: "workspace", program: extensions, beside: &aggregator,
		upgrade: []string{"k8s.io/klog/v2@v2.140.0"},
	},
	{
		name: "fork", program: extensions, forked: true,
		upgrade: []string{"k8s.io/klog/v2@v2.140.0"},
	},
	{
		name: "pseudo-version", program: extensions, committed: "v0.37.2",
		edit:    []string{"-replace=k8s.io/client-go=k8s.io/client-go@" + pseudo},
		upgrade: []string{"k8s.io/klog/v2@v2.140.0"},
	},
	{
		// Another client-go is compiled from the beginning, which takes as long as all others.
		name: "client-go v0.29", more: true, program: oldExtensions,
		upgrade: []string{"k8s.io/client-go@v0.30.1", "k8s.io/api@v0.30.1"}, renewed: true,
	},

	{
		name: "vendored and pruned", more: true, program: lasso, vendored: true,
		upgrade: []string{"k8s.io/client-go@v0.37.2", "k8s.io/api@v0.37.2"}, renewed: true,
	},
	{
		name: "vendored and pruned", more: true, program: sample, vendored: true,
		upgrade: []string{"k8s.io/klog/v2@v2.140.0"},
	},
	{
		name: "workspace", more: true, program: oldSample, beside: &oldCloud,
		upgrade: []string{"k8s.io/client-go@v0.30.1", "k8s.io/api@v0.30.1"}, renewed: true,
	},
	{
		name: "fork", more: true, program: oldExtensions,
		edit:    []string{"-replace=k8s.io/client-go=github.com/k3s-io/kubernetes/staging/src/k8s.io/client-go@v1.29.9-k3s2"},
		upgrade: []string{"k8s.io/klog/v2@v2.120.1"},
	},
	{
		name: "fork", more: true, program: cloud,
		edit:    []string{"-replace=k8s.io/client-go=github.com/kcp-dev/kubernetes/staging/src/k8s.io/client-go@v0.0.0-20251209073509-71e0f2506325"},
		upgrade: []string{"k8s.io/klog/v2@v2.140.0"},
	},
	{
		name: "pseudo-version", more: true, program: oldSample, committed: "v0.29.15",
		edit:    []string{"-require=k8s.io/client-go@" + pseudo},
		upgrade: []string{"k8s.io/client-go@v0.30.1", "k8s.io/api@v0.30.1"}, renewed: true,
	},
	{
		name: "client-go v0.29", more: true, program: oldSample,
		upgrade: []string{"k8s.io/klog/v2@v2.120.1"},
	},
	{
		name: "client-go v0.29", more: true, program: oldCloud,
		upgrade: []string{"k8s.io/klog/v2@v2.120.1"},
	},
}
