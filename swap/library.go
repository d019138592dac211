package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
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

// aliases is the text of the package that replaces client-go's: names for ours. TestAliasesAreOurs of
// the module compat compares the names with client-go's. The first line is for the programs that get the
// file: here people edit the file.
//
//go:embed internal/aliases/aliases.go
var aliases string

// A library is the module for the build.
type library struct {
	named   string // by the flag -library
	version string
	dir     string // of a checkout, instead of a released version
	mod     *modFile
}

// unreleased is the version of a required module with a replace in any case.
const unreleased = "v0.0.0-00010101000000-000000000000"

// resolve finds the library, by default the version of the running command, whose aliases fit.
func (l *library) resolve(ctx context.Context, p *program) (err error) {
	switch {
	case l.named == "":
		err = l.builtFrom()
	case strings.HasPrefix(l.named, "v") && !strings.ContainsAny(l.named, `/\`):
		l.version = l.named
	default:
		l.version = unreleased
		l.dir, err = filepath.Abs(l.named)
	}
	if err != nil {
		return err
	}
	fetched := struct{ GoMod, Error string }{GoMod: filepath.Join(l.dir, "go.mod")}
	if l.dir == "" {
		out, err := p.run(ctx, p.unvendored, "mod", "download", "-json", ourModule+"@"+l.version)
		if unread := json.Unmarshal(out, &fetched); fetched.Error != "" {
			said, _, _ := strings.Cut(fetched.Error, "\n")
			return fmt.Errorf("-library %s: go has no such version of %s: %s", l.version, ourModule, said)
		} else if err != nil || unread != nil {
			return cmp.Or(err, unread)
		}
	}
	if l.mod, err = p.read(ctx, "mod", fetched.GoMod); l.dir != "" && (err != nil || l.mod.Module.Path != ourModule) {
		return fmt.Errorf("-library %s: the directory %s has no go.mod of %s", l.named, l.dir, ourModule)
	}
	return err
}

// isNamedBy reports whether the go.mod of a swapped program names the library that the flag -library names. Without
// the flag any will do: the program chooses the version of what it requires.
func (l *library) isNamedBy(ctx context.Context, p *program) bool {
	if l.named == "" {
		return true
	}
	mod, err := p.read(ctx, "mod", p.mod)
	if err != nil {
		return true // The write would fail too.
	}
	for _, r := range mod.Replace {
		if r.Old.Path == ourModule {
			return l.dir != "" && absolute(p.root, r.New.Path) == l.dir
		}
	}
	return l.dir == "" && slices.ContainsFunc(mod.Require, func(r requirement) bool { return r.Path == ourModule && r.Version == l.version })
}

// builtFrom finds the version of the running command.
func (l *library) builtFrom() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("this command does not know its version: name one by -library")
	}
	for _, dep := range info.Deps { // go run in a module that requires the library
		if dep.Path == ourModule && dep.Replace != nil && dep.Replace.Version == "" {
			l.version, l.dir = unreleased, dep.Replace.Path
			return nil
		} else if dep.Path == ourModule {
			l.version = cmp.Or(dep.Replace, dep).Version
			return nil
		}
	}
	if l.version = info.Main.Version; l.version == "" || l.version == "(devel)" || strings.HasSuffix(l.version, "+dirty") {
		return errors.New("this command was built from a checkout: name the checkout, or a version, by -library")
	}
	return nil
}

// requirements are the edits of a go.mod that require the library and its modules, except
// modules that the go.mod has in the same version or a later one.
func (l *library) requirements(now *modFile) []string {
	var edits []string
	for _, r := range append(l.mod.Require, requirement{Path: ourModule, Version: l.version}) {
		if v := now.requires(r.Path).Version; v == "" || older(v, r.Version) {
			edits = append(edits, "-require="+r.Path+"@"+r.Version)
		}
	}
	return edits
}

// replaces are the edits that put a directory in the place of one version of client-go, and
// the checkout, if there is one, in the place of the library. A replace without a version
// would stay in force after an upgrade of client-go, and build the old client-go.
func (l *library) replaces(version, dir string) []string {
	edits := []string{"-replace=" + theirModule + "@" + version + "=" + dir}
	if l.dir != "" {
		edits = append(edits, "-replace="+ourModule+"="+l.dir)
	}
	return edits
}

// The releases of client-go with names that the aliases have, by the second number of
// the version, and the newest pre-release whose names were compared with ours.
const (
	oldest, newest = 28, 37
	ahead          = "v0.38.0-alpha.2"
)

// knows returns an error if the aliases may not do for a client-go, and warns if the client-go
// is no release.
//
// The version says nothing for a directory, for a fork with versions of its own, for a
// commit, and for a pre-release of the next client-go. Then the exported names decide.
func (c *call) knows(m *module) error {
	if copied, err := readNotes(m.Dir); err == nil && copied != nil {
		return nil // The write has known the copied client-go.
	}
	version, minor := m.used().Version, 0
	_, err := fmt.Sscanf(version, "v0.%d.", &minor)
	numbered := err == nil && minor != 0
	unknown, err := lacking(filepath.Join(m.Dir, filepath.Dir(swappedFile)))
	switch {
	case minor == newest+1 && preRelease.MatchString(version):
		c.say("%s is a pre-release: its exported names are known, and its behaviour is not; swap has compared %s", version, ahead)
	case numbered && (minor < oldest || minor > newest), !numbered && m.Replace == nil && !strings.HasPrefix(version, "v0.0.0-"):
		return fmt.Errorf("%s is not known: swap knows client-go v0.%d to v0.%d. A newer swap may know more", m.used().at(), oldest, newest)
	case !numbered:
		c.say("%s is no release: its exported names are known, and its behaviour is not", m.used().at())
	}
	if len(unknown) > 0 {
		return fmt.Errorf("the package util/workqueue of %s exports names that ours lacks: %s", m.used().at(), strings.Join(unknown, ", "))
	}
	return err
}

var preRelease = regexp.MustCompile(`^v0\.\d+\.0-(alpha|beta|rc)\.`)

// lacking returns the exported declarations of a package that the aliases lack.
func lacking(dir string) (unknown []string, err error) {
	files, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("there is no Go file in %s", dir)
	}
	ours := exported.FindAllString(aliases, -1)
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		for _, name := range exported.FindAllString(string(text), -1) {
			if !strings.HasSuffix(file, "_test.go") && !slices.Contains(ours, name) {
				unknown = append(unknown, name)
			}
		}
	}
	return unknown, nil
}

// exported matches declarations as gofmt writes them, but for a name in a group. The
// compiler finds a missing name of a group.
var exported = regexp.MustCompile(`(?m)^(func|type|var|const) [A-Z]\w*`)
