// Package apiserver builds kube-apiserver and etcd from their Go modules.
package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The modules of the two programs. Kubernetes v1.36 does not resolve through the module
// proxy.
const (
	kubernetes = "k8s.io/kubernetes@v1.35.4"
	staging    = "v0.35.4" // of the modules published from the repository of Kubernetes
	etcd       = "go.etcd.io/etcd/server/v3@v3.6.5"
)

// Bounds far above the usual time of a build. They end a build that hangs.
const (
	fetchTime = 10 * time.Minute // for the modules of one program
	buildTime = 40 * time.Minute // for the whole build
)

// Programs returns a directory with kube-apiserver and etcd. The first call of a user
// builds the programs, and writes each step to progress. Later calls find the directory.
//
// The name of the directory contains the versions. The build works in a temporary
// directory, and renames its result at the end. So a directory of the final name is
// always complete, also after a crash or with another run at the same time.
func Programs(ctx context.Context, progress io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil { // No home directory, as in some build services.
		cache = os.TempDir()
	}
	_, server, _ := strings.Cut(kubernetes, "@")
	_, store, _ := strings.Cut(etcd, "@")
	dir := filepath.Join(cache, "workqueue-integration", "apiserver-"+server+"-etcd-"+store)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "apiserver-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	ctx, cancel := context.WithTimeoutCause(ctx, buildTime, fmt.Errorf("the build has taken longer than %v", buildTime))
	defer cancel()
	b := builder{ctx: ctx, work: work, bin: filepath.Join(work, "bin"), progress: progress}
	if err := b.checkSpace(); err != nil {
		return "", err
	}
	fmt.Fprintln(progress, "Building kube-apiserver and etcd for", dir+":", "4 to 7 minutes, once.")
	for _, program := range []func() error{b.etcd, b.apiserver} { // The smaller first: a broken setup fails sooner.
		if err := program(); err != nil {
			return "", err
		}
	}
	if err := os.Rename(b.bin, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return dir, nil
}

// A builder builds programs of other projects. Each program is built within a new module,
// made for the build: `go install` cannot add the replacements that Kubernetes needs, see
// replaceStaging.
type builder struct {
	ctx       context.Context
	work, bin string
	progress  io.Writer
}

func (b builder) etcd() error {
	m, err := b.module("etcd", etcd)
	if err != nil {
		return err
	}
	return m.build("etcd", "go.etcd.io/etcd/server/v3", "")
}

// apiserver builds kube-apiserver. Clients ask the server for its version. The source
// leaves the version open, so the linker sets it.
func (b builder) apiserver() error {
	m, err := b.module("kubernetes", kubernetes)
	if err != nil {
		return err
	}
	if err := m.replaceStaging(); err != nil {
		return err
	}
	_, version, _ := strings.Cut(kubernetes, "@")
	const variables = "k8s.io/component-base/version."
	major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	return m.build("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", fmt.Sprintf(
		"-X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s", variables, version, major, minor))
}

// A module is made for a build. It requires only the module of the program.
type module struct {
	builder
	dir   string
	goMod string // the go.mod file of the program's module
}

// module makes a module that requires the given module. The copied go.sum of the required
// module has most of the checksums for the build.
func (b builder) module(name, requires string) (*module, error) {
	m := &module{builder: b, dir: filepath.Join(b.work, name)}
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		return nil, err
	}
	if err := m.run(nil, "mod", "init", "build.invalid/"+name); err != nil {
		return nil, err
	}
	var download struct{ Dir, GoMod string }
	if err := m.run(&download, "mod", "download", "-json", requires); err != nil {
		return nil, err
	}
	m.goMod = download.GoMod
	sums, err := os.ReadFile(filepath.Join(download.Dir, "go.sum"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(m.dir, "go.sum"), sums, 0o644); err != nil {
		return nil, err
	}
	return m, m.run(nil, "mod", "edit", "-require", requires)
}

// replaceStaging replaces the modules in the repository of Kubernetes by their published
// versions. Kubernetes requires them as v0.0.0, and finds them in its own directories.
// For a module that requires Kubernetes, v0.0.0 does not exist.
func (m *module) replaceStaging() error {
	var file struct {
		Require []struct{ Path, Version string }
	}
	if err := m.run(&file, "mod", "edit", "-json", m.goMod); err != nil {
		return err
	}
	edit := []string{"mod", "edit"}
	for _, r := range file.Require {
		if r.Version == "v0.0.0" {
			edit = append(edit, "-replace", r.Path+"="+r.Path+"@"+staging)
		}
	}
	if len(edit) == 2 {
		return fmt.Errorf("%s requires no module of version v0.0.0, so that none is to be replaced", kubernetes)
	}
	return m.run(nil, edit...)
}

func (m *module) build(name, pkg, variables string) error {
	if err := m.fetch(pkg); err != nil {
		return err
	}
	fmt.Fprintln(m.progress, "go build", pkg)
	return m.run(nil, "build", "-mod=mod", "-trimpath", "-ldflags", "-s -w "+variables,
		"-o", filepath.Join(m.bin, name), pkg)
}

// fetch downloads the modules of a package. The build could download the modules too, but
// the go command waits for ever for a silent proxy. So the download has a time bound of
// its own.
func (m *module) fetch(pkg string) error {
	fmt.Fprintln(m.progress, "Fetching the modules of", pkg)
	ctx, cancel := context.WithTimeoutCause(m.ctx, fetchTime,
		fmt.Errorf("the module proxy has not delivered the modules of %s in %v", pkg, fetchTime))
	defer cancel()
	bounded := *m
	bounded.ctx = ctx
	return bounded.run(nil, "list", "-mod=mod", "-deps", pkg)
}

// run runs the go command in the directory of the module.
func (m *module) run(result any, args ...string) error { return m.builder.run(m.dir, result, args...) }

// run runs the go command in a directory. A result that is not nil receives the decoded
// output. Messages of the command appear only in the error. An enclosing workspace and
// the user's flags would change the build, so GOWORK and GOFLAGS are cleared.
//
// When the context ends, the command is interrupted, and killed only 20 seconds later:
// after an interrupt the go command deletes its gigabytes of temporary files.
func (b builder) run(dir string, result any, args ...string) error {
	command := exec.CommandContext(b.ctx, "go", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 20 * time.Second
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		if b.ctx.Err() != nil {
			err = context.Cause(b.ctx)
		}
		return fmt.Errorf("go %s: %w\n%s%s", strings.Join(args, " "), err, stderr.String(), stdout.String())
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal([]byte(stdout.String()), result)
}
