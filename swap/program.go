package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	ourModule    = "github.com/seed16c08ea7/workqueue"
	theirModule  = "k8s.io/client-go"
	theirPackage = theirModule + "/util/workqueue"
)

// A program is the main module of the current directory, as the go command sees the module.
// All paths are absolute.
type program struct {
	root  string // the directory of go.mod, or "" at the root of a workspace without a module
	mod   string // go.mod, or the file that -modfile in GOFLAGS names
	work  string // go.work, or "" without a workspace
	flags string // GOFLAGS
	// vendor is the kind of the vendor folder before the first change of the program:
	// "mod" by `go mod vendor`, "work" by `go work vendor`, or "" without a folder.
	vendor string
	// aside is a copy of go.work in another directory, or "" without a workspace.
	aside string
	// unvendored is the environment in which go uses the workspace, if there is one, but
	// no vendor folder, and changes nothing of the program.
	unvendored []string
}

// A module is an answer of `go list -m -json`.
type module struct {
	Path, Version, Dir string
	Main               bool
	Replace            *module
}

func open(ctx context.Context) (*program, error) {
	p := new(program)
	out, err := p.run(ctx, nil, "env", "-json", "GOMOD", "GOWORK", "GOFLAGS")
	if err != nil {
		return nil, err
	}
	var env struct{ GOMOD, GOWORK, GOFLAGS string }
	if err := json.Unmarshal(out, &env); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	p.flags = env.GOFLAGS
	if env.GOWORK != "off" {
		p.work = env.GOWORK
	}
	if env.GOMOD != "" && env.GOMOD != os.DevNull {
		p.root, p.mod = filepath.Dir(env.GOMOD), env.GOMOD
	} else if p.work == "" {
		return nil, errors.New("there is no go.mod here: run swap in the module of the program")
	}
	if p.work != "" {
		return p, nil
	}
	p.unvendored = p.settings("off", "-mod=readonly")
	// GOMOD leaves out a -modfile in GOFLAGS, which go allows only without a workspace.
	if out, err = p.run(ctx, p.unvendored, "list", "-m", "-f", "{{.GoMod}}"); err != nil {
		return nil, err
	}
	p.mod, err = filepath.Abs(strings.TrimSpace(string(out)))
	return p, err
}

// setAside copies go.work to another directory. In a workspace, go adds lines to the
// go.work.sum beside go.work, also where go only answers a question.
func (p *program) setAside(ctx context.Context, dir string) error {
	if p.work == "" {
		return nil
	}
	p.aside = filepath.Join(dir, "go.work")
	p.unvendored = p.settings(p.aside, "-mod=readonly")
	if err := copyMod(p.work, p.aside); err != nil {
		return err
	}
	work, err := p.read(ctx, "work", p.aside)
	if err != nil {
		return err
	}
	return p.editAside(ctx, work.moved(filepath.Dir(p.work))...)
}

func (p *program) editAside(ctx context.Context, edits ...string) error {
	_, err := p.run(ctx, nil, slices.Concat([]string{"work", "edit"}, edits, []string{p.aside})...)
	return err
}

// thirdParty is the path of the copy that a write makes, as go.mod names the copy.
const thirdParty = "third_party/client-go"

// copied is the directory of the copy.
func (p *program) copied() string { return absolute(p.root, thirdParty) }

// absolute is a path of a go.mod or go.work in a directory.
func absolute(dir, path string) string {
	if path = filepath.FromSlash(path); filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// settings returns the environment in which go uses other files. In GOFLAGS the last of two
// equal flags wins, so these win against the caller's. GOFLAGS has quotes and no escapes.
func (p *program) settings(work string, flags ...string) []string {
	all := p.flags
	for _, flag := range flags {
		quote := "'"
		if strings.Contains(flag, quote) {
			quote = `"`
		}
		all += " " + quote + flag + quote
	}
	return []string{"GOWORK=" + work, "GOFLAGS=" + all}
}

// clientGo returns the client-go that an environment builds. Unlike list, it downloads the
// module if the module cache lacks it.
func (p *program) clientGo(ctx context.Context, env []string) (*module, error) {
	m, err := p.list(ctx, env)
	if err == nil && m.Dir == "" {
		if _, err = p.run(ctx, env, "mod", "download", theirModule); err == nil {
			m, err = p.list(ctx, env)
		}
	}
	return m, err
}

func (p *program) list(ctx context.Context, env []string) (*module, error) {
	out, err := p.run(ctx, env, "list", "-m", "-json", theirModule)
	if err != nil {
		return nil, fmt.Errorf("the program has no %s, or go does not find the module: %w", theirModule, err)
	}
	m := new(module)
	if err := json.Unmarshal(out, m); err != nil || !m.Main {
		return m, err
	}
	if p.work == "" {
		return nil, fmt.Errorf("this is %s itself", theirModule)
	}
	return nil, fmt.Errorf("the workspace %s builds %s from its own directory %s, and swap replaces released versions only: run swap with GOWORK=off", p.work, theirModule, m.Dir)
}

// at is how the go command writes a module: path, or path@version.
func (m *module) at() string { return strings.TrimSuffix(m.Path+"@"+m.Version, "@") }

// used is the module that a build takes: the replacement, or the module itself.
func (m *module) used() *module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

// source identifies the files of a copy: a module and a version, or a directory of the user
// and its content, which can change.
func (m *module) source() (string, error) {
	if m.used().Version != "" {
		return m.used().at(), nil
	}
	all, err := sums(m.Dir)
	return m.used().Path + " (files of sum " + sumOfSums(all) + ")", err
}

// run runs the go command with more variables, and returns its output, also after a failure.
func (p *program) run(ctx context.Context, env []string, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, errors.New("interrupted")
		}
		said := strings.TrimSpace(stderr.String())
		return stdout.Bytes(), fmt.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return stdout.Bytes(), nil
}

// pass runs a command as the caller would, with some variables added to the environment.
func (p *program) pass(ctx context.Context, env, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// A terminal interrupts the command too, and a supervisor does not. The command gets
	// time to clean up.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	return cmd.Run()
}
