package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

// edits brings the library into a go.mod, by more flags of `go mod edit`. A requirement
// that is there already stays: if its version is too low, the go command lifts it, as the
// copy of client-go requires the library too. A go.work, nil here, requires nothing.
func (l *library) edits(now *modFile, flags ...string) []string {
	if now != nil {
		if required, _ := now.requires(ourModule); required == "" {
			flags = append(flags, "-require="+ourModule+"@"+l.version)
		}
	}
	if l.dir != "" {
		flags = append(flags, "-replace="+ourModule+"="+l.dir)
	}
	return flags
}

// The releases of client-go that the aliases were compared with, by the second number
// of their version.
const oldest, newest = 28, 37

// known returns an error if the aliases may not do for a client-go.
//
// A directory, and a fork with versions of its own, says nothing by its number. There
// the names decide that its package exports.
func known(m *module) error {
	minor := 0
	_, err := fmt.Sscanf(m.used().Version, "v0.%d.", &minor)
	numbered := err == nil && minor != 0
	if !numbered && m.Replace == nil || numbered && (minor < oldest || minor > newest) {
		return fmt.Errorf("%s is not known: swap knows client-go v0.%d to v0.%d. A newer swap may know more", m.used().at(), oldest, newest)
	}
	unknown, err := lacking(filepath.Join(m.Dir, filepath.Dir(swappedFile)))
	if err == nil && len(unknown) > 0 {
		err = fmt.Errorf("the package util/workqueue of %s exports what ours lacks: %s", m.used().at(), strings.Join(unknown, ", "))
	}
	return err
}

// lacking returns the exported declarations of a package that the aliases lack.
func lacking(dir string) (unknown []string, err error) {
	files, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("there is no Go file in %s", dir)
	}
	var text strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		text.Write(append(data, '\n'))
	}
	ours := exported.FindAllString(aliases, -1)
	return slices.DeleteFunc(exported.FindAllString(text.String(), -1), func(name string) bool {
		return slices.Contains(ours, name)
	}), nil
}

// exported matches declarations as gofmt writes them. The compiler finds what it misses,
// such as names in a group.
var exported = regexp.MustCompile(`(?m)^(func|type|var|const) [A-Z]\w*`)
