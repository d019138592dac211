package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// aliases is what stands in the place of client-go's package: names for ours. The
// compat module generates it, and tests that it is complete.
//
//go:embed internal/aliases/aliases.go
var aliases string

// A library is the module that is built in.
type library struct {
	named   string // by the flag -library
	version string
	dir     string // of a checkout, instead of a released version
}

// unreleased is the version of a module that is required and always replaced.
const unreleased = "v0.0.0-00010101000000-000000000000"

// resolve finds the version. That of this command fits its aliases.
func (l *library) resolve() error {
	switch {
	case strings.HasPrefix(l.named, "v") && !strings.ContainsAny(l.named, `/\`):
		l.version = l.named
		return nil
	case l.named != "":
		dir, err := filepath.Abs(l.named)
		l.version, l.dir = unreleased, dir
		return err
	}
	m, err := builtFrom()
	if err != nil {
		return err
	}
	l.version = m.Version
	if r := m.Replace; r != nil {
		l.version = r.Version
		if r.Version == "" {
			l.version, l.dir = unreleased, r.Path
		}
	}
	return nil
}

// builtFrom returns the module that this command was built from, if that says where
// to find it again.
func builtFrom() (*debug.Module, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, errors.New("this command does not know its version: name one by -library")
	}
	for _, dep := range info.Deps { // go run in a module that requires it
		if dep.Path == ourModule {
			return dep, nil
		}
	}
	if v := info.Main.Version; v == "" || v == "(devel)" || strings.HasSuffix(v, "+dirty") {
		return nil, errors.New("this command was built from a checkout: name that, or a version, by -library")
	}
	return &info.Main, nil
}

func (l *library) String() string {
	if l.dir != "" {
		return l.dir
	}
	return l.version
}

// edits are the flags of `go mod edit` that bring the library into a go.mod. A
// requirement that is there already stays: if it is too low, the go command lifts it,
// as client-go's copy requires ours too.
func (l *library) edits(required bool) (flags []string) {
	if !required {
		flags = append(flags, "-require="+ourModule+"@"+l.version)
	}
	if l.dir != "" {
		flags = append(flags, "-replace="+ourModule+"="+l.dir)
	}
	return flags
}

// A modFile is what `go mod edit -json` and `go work edit -json` say of a file.
type modFile struct {
	Module  struct{ Path string }
	Go      string
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct{ Old, New module }
	Use     []struct{ DiskPath string }
}

// read parses a go.mod, or a go.work if kind is "work".
func (p *program) read(ctx context.Context, kind, file string) (*modFile, error) {
	out, err := p.run(ctx, nil, kind, "edit", "-json", file)
	if err != nil {
		return nil, err
	}
	m := new(modFile)
	return m, json.Unmarshal(out, m)
}

// replacesBy reports whether a go.mod puts a directory in the place of a module.
func (m *modFile) replacesBy(path, dir string) bool {
	return slices.ContainsFunc(m.Replace, func(r struct{ Old, New module }) bool {
		return r.Old.Path == path && r.New.Path == dir
	})
}

// requires returns the version that is required of a module, or "".
func (m *modFile) requires(path string) (version string, indirect bool) {
	for _, r := range m.Require {
		if r.Path == path {
			return r.Version, r.Indirect
		}
	}
	return "", false
}
