package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	ourModule    = "github.com/seed16c08ea7/workqueue"
	theirModule  = "k8s.io/client-go"
	theirPackage = theirModule + "/util/workqueue"
)

// A program is the main module of the current directory, as the go command sees it.
// All paths are absolute.
type program struct {
	dir   string   // where the go command runs
	root  string   // the directory of go.mod
	mod   string   // go.mod, or what -modfile in GOFLAGS has put in its place
	work  string   // go.work, or "" if none is in force
	flags []string // GOFLAGS without -mod and -modfile
}

// A module is what `go list -m -json` says of one.
type module struct {
	Path, Version, Dir string
	Main               bool
	Replace            *module
}

// open finds the program of the directory.
func (c *call) open(ctx context.Context) (*program, error) {
	p := &program{dir: c.dir}
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
	p.root, p.mod = filepath.Dir(env.GOMOD), env.GOMOD
	if env.GOWORK != "off" {
		p.work = env.GOWORK
	}
	return p, p.takeFlags(env.GOFLAGS)
}

// takeFlags takes GOFLAGS apart.
func (p *program) takeFlags(goflags string) error {
	flags, err := splitFlags(goflags)
	if err != nil {
		return fmt.Errorf("GOFLAGS: %w", err)
	}
	for _, flag := range flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "-"), "=")
		switch strings.TrimPrefix(name, "-") {
		case "mod":
		case "modfile":
			if p.mod = value; !filepath.IsAbs(value) {
				p.mod = filepath.Join(p.root, value)
			}
		default:
			p.flags = append(p.flags, flag)
		}
	}
	return nil
}

// settings returns the environment in which go uses other files, with more flags.
func (p *program) settings(work string, flags ...string) ([]string, error) {
	joined, err := joinFlags(append(p.flags[:len(p.flags):len(p.flags)], flags...))
	if err != nil {
		return nil, err
	}
	return []string{"GOWORK=" + work, "GOFLAGS=" + joined}, nil
}

// alone is the environment in which go sees go.mod and nothing else: no workspace, and
// no vendor folder. It may change go.mod and go.sum.
func (p *program) alone() ([]string, error) { return p.settings("off", "-mod=mod") }

// unvendored is the environment in which go sees the workspace, if there is one, but
// no vendor folder, and changes nothing.
func (p *program) unvendored() ([]string, error) { return p.settings(p.work, "-mod=readonly") }

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
		if m, err = p.list(ctx, env); err != nil {
			return nil, err
		}
	}
	if m.Dir == "" {
		return nil, fmt.Errorf("%s %s is not in the module cache", m.Path, m.Version)
	}
	return m, nil
}

func (p *program) list(ctx context.Context, env []string) (*module, error) {
	out, err := p.run(ctx, env, "list", "-m", "-json", theirModule)
	if err != nil {
		return nil, fmt.Errorf("the program has no %s, or go does not find it: %w", theirModule, err)
	}
	m := new(module)
	return m, json.Unmarshal(out, m)
}

// packageDir returns where an environment finds the package that is swapped.
func (p *program) packageDir(ctx context.Context, env []string) (string, error) {
	out, err := p.run(ctx, env, "list", "-find", "-f", "{{.Dir}}", theirPackage)
	return strings.TrimSpace(string(out)), err
}

// source says in words, and for a comparison, what was copied: a version, or what
// replaces it.
func (m *module) source() string {
	r := m.Replace
	switch {
	case r == nil:
		return m.Path + " " + m.Version
	case r.Version == "":
		return r.Path
	}
	return r.Path + " " + r.Version
}

// isDir reports whether the module is a directory of the user's, which can change.
func (m *module) isDir() bool { return m.Replace != nil && m.Replace.Version == "" }
