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
	// upgrade has the arguments of a `go get` after the write.
	upgrade []string
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
}
