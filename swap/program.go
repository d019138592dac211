package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	ourModule    = "github.com/seed16c08ea7/workqueue"
	theirModule  = "k8s.io/client-go"
	theirPackage = theirModule + "/util/workqueue"
)

// A program is the main module of the current directory, as the go command sees it.
// All paths are absolute.
type program struct {
	root  string // the directory of go.mod
	mod   string // go.mod, or what -modfile in GOFLAGS has put in its place
	work  string // go.work, or "" if none is in force
	flags string // GOFLAGS
	// unvendored is the environment in which go sees the workspace, if there is one, but
	// no vendor folder, and changes nothing.
	unvendored []string
}

// A module is what `go list -m -json` says of one.
type module struct {
	Path, Version, Dir string
	Main               bool
	Replace            *module
}

// open finds the program of the current directory.
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
	if env.GOMOD == "" || env.GOMOD == os.DevNull {
		return nil, errors.New("there is no go.mod here: run it in the module of the program")
	}
	p.root, p.mod, p.flags = filepath.Dir(env.GOMOD), env.GOMOD, env.GOFLAGS
	if env.GOWORK != "off" {
		p.work = env.GOWORK
	}
	if p.unvendored, err = p.settings(cmp.Or(p.work, "off"), "-mod=readonly"); err != nil || p.work != "" {
		return p, err
	}
	// GOMOD leaves out a -modfile in GOFLAGS, which only a module by itself can have.
	if out, err = p.run(ctx, p.unvendored, "list", "-m", "-f", "{{.GoMod}}"); err != nil {
		return nil, err
	}
	p.mod, err = filepath.Abs(strings.TrimSpace(string(out)))
	return p, err
}

// thirdParty is where -w puts the copy, as go.mod names the place.
const thirdParty = "third_party/client-go"

// copied is the directory of the copy.
func (p *program) copied() string { return filepath.Join(p.root, filepath.FromSlash(thirdParty)) }

// settings returns the environment in which go uses other files. The flags win against
// those of the caller, as the last of two equal ones in GOFLAGS does.
func (p *program) settings(work string, flags ...string) ([]string, error) {
	all := p.flags
	for _, flag := range flags {
		quote := "'" // A path may have spaces. GOFLAGS has no escapes.
		if strings.Contains(flag, quote) {
			quote = `"`
		}
		if strings.Contains(flag, quote) {
			return nil, fmt.Errorf("GOFLAGS cannot hold %s, which has both kinds of quotes", flag)
		}
		all += " " + quote + flag + quote
	}
	return []string{"GOWORK=" + work, "GOFLAGS=" + all}, nil
}

// clientGo returns the client-go that an environment builds.
func (p *program) clientGo(ctx context.Context, env []string) (*module, error) {
	m, err := p.list(ctx, env)
	if err != nil {
		return nil, err
	}
	if m.Main {
		return nil, fmt.Errorf("this is %s itself", theirModule)
	}
	if m.Dir == "" { // Nobody has built it yet.
		if _, err := p.run(ctx, env, "mod", "download", theirModule); err != nil {
			return nil, err
		}
		m, err = p.list(ctx, env)
	}
	return m, err
}

func (p *program) list(ctx context.Context, env []string) (*module, error) {
	out, err := p.run(ctx, env, "list", "-m", "-json", theirModule)
	if err != nil {
		return nil, fmt.Errorf("the program has no %s, or go does not find it: %w", theirModule, err)
	}
	m := new(module)
	return m, json.Unmarshal(out, m)
}

// at is how the go command writes a module: path, or path@version.
func (m *module) at() string { return strings.TrimSuffix(m.Path+"@"+m.Version, "@") }

// used is what a build takes for the module: what replaces it, or the module itself.
func (m *module) used() *module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

// source identifies what is copied: a module and a version, or a directory of the user's
// and its content, which can change.
func (m *module) source() (string, error) {
	if m.used().Version != "" {
		return m.used().at(), nil
	}
	all, err := sums(m.Dir)
	return m.used().Path + " (files of sum " + sumOfSums(all)[:16] + ")", err
}

// run runs the go command with some variables on top of the environment, and returns what
// it prints.
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
		return nil, fmt.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return stdout.Bytes(), nil
}

// pass runs a command as if the caller had, with some variables on top.
func (p *program) pass(ctx context.Context, env, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// The command has got the interrupt of a terminal itself, but not that of a
	// supervisor. It may take its time to clean up.
	cmd.Cancel = func() error { return cmd.Process.Signal(terminate) }
	cmd.WaitDelay = time.Minute
	return cmd.Run()
}

// terminate is how supervisors end a program. Windows has it in name only.
const terminate = syscall.SIGTERM
