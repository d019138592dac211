// Package apiserver builds the programs of a Kubernetes control plane.
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

// The modules that the programs are built from. Kubernetes v1.36 does not resolve
// through the module proxy.
const (
	kubernetes = "k8s.io/kubernetes@v1.35.4"
	staging    = "v0.35.4" // of the modules that live in the repository of Kubernetes
	etcd       = "go.etcd.io/etcd/server/v3@v3.6.5"
)

// Bounds of the build. They end one that hangs, and are far from what it takes.
const (
	fetchTime = 10 * time.Minute // for the modules of one program
	buildTime = 40 * time.Minute // for all of it
)

// Programs returns a directory with kube-apiserver and etcd, and builds them if no
// earlier call of this user has done so. What it does goes to progress.
//
// The programs are built beside the directory, which has their versions in its name and
// gets that when it is complete: whoever finds it, after a crash or beside another run,
// finds all of it.
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
	for _, program := range []func() error{b.etcd, b.apiserver} { // etcd is the smaller one.
		if err := program(); err != nil {
			return "", err
		}
	}
	if err := os.Rename(b.bin, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return dir, nil
}

// A builder makes programs of modules of others. Each gets a module of its own to be
// built in: `go install` refuses a module that has replacements, as Kubernetes has.
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

// apiserver builds kube-apiserver. It is told its version, which clients ask for and
// which the source leaves open.
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

// A module is one that requires nothing but the module that is to be built.
type module struct {
	builder
	dir   string
	goMod string // of the module that is to be built
}

// module makes a module that requires the given one. It takes the checksums of that
// module over, as these are most of what go.sum has to have.
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

// replaceStaging gives the modules that Kubernetes takes from its own repository the
// version that was published with it: a replacement by a directory is without effect
// for a module that requires Kubernetes.
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

// fetch fetches the modules that a package needs. The build would do so too, but with
// no bound of its own: the command go waits for ever for a proxy that does not answer.
func (m *module) fetch(pkg string) error {
	fmt.Fprintln(m.progress, "Fetching the modules of", pkg)
	ctx, cancel := context.WithTimeoutCause(m.ctx, fetchTime,
		fmt.Errorf("the module proxy has not delivered the modules of %s in %v", pkg, fetchTime))
	defer cancel()
	bounded := *m
	bounded.ctx = ctx
	return bounded.run(nil, "list", "-mod=mod", "-deps", pkg)
}

// run runs a command of go in the directory of the module.
func (m *module) run(result any, args ...string) error { return m.builder.run(m.dir, result, args...) }

// run runs a command of go in a directory, and decodes what it prints into result if
// that is not nil. Its messages appear only in the error. An enclosing workspace and
// the flags of the user would change what is built.
//
// When the context ends the command is interrupted, and not killed at once: it deletes
// the gigabytes that it has in the directory for temporary files.
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
