package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// A modFile is what `go mod edit -json` and `go work edit -json` say of a file.
type modFile struct {
	Go, Toolchain string
	Require       []struct {
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

// An alternate is a copy of go.mod and go.sum in another directory. The go command works
// on the copies, and relative paths in them still start at the program. So swap computes
// a change before it touches the first file of the program.
type alternate struct {
	p   *program
	mod string   // the copy of go.mod
	env []string // in which go uses the copies, and neither a workspace nor a vendor folder
}

func (p *program) alternate(dir string) (*alternate, error) {
	mod := filepath.Join(dir, "go.mod")
	if err := copyMod(p.mod, mod); err != nil {
		return nil, err
	}
	env, err := p.settings("off", "-mod=mod", "-modfile="+mod)
	return &alternate{p, mod, env}, err
}

// edit changes the copy of go.mod by flags of `go mod edit`, and returns what it says now.
func (a *alternate) edit(ctx context.Context, edits ...string) (*modFile, error) {
	if len(edits) > 0 {
		if _, err := a.p.run(ctx, nil, slices.Concat([]string{"mod", "edit"}, edits, []string{a.mod})...); err != nil {
			return nil, err
		}
	}
	return a.p.read(ctx, "mod", a.mod)
}

func (a *alternate) tidy(ctx context.Context) error {
	_, err := a.p.run(ctx, a.env, "mod", "tidy")
	return err
}

// copyMod copies a go.mod or go.work, and the sums that belong to it if there are any.
func copyMod(src, dst string) error {
	if err := copyFile(src, dst); err != nil {
		return err
	}
	sums := func(file string) string { return strings.TrimSuffix(file, ".mod") + ".sum" }
	if err := copyFile(sums(src), sums(dst)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// lines are the lines of a go.mod that a write may change. The key of a line is the flag
// of `go mod edit` that sets it, up to the value: "-go=", "-require=path@", "-replace=path=".
func (m *modFile) lines() map[string]string {
	lines := map[string]string{"-go=": m.Go, "-toolchain=": m.Toolchain}
	for _, r := range m.Require {
		lines["-require="+r.Path+"@"] = r.Version
	}
	for _, r := range m.Replace {
		lines["-replace="+r.Old.at()+"="] = r.New.at()
	}
	return lines
}

// changes returns the entries that differ, before and after. What is absent is "".
func changes(before, after map[string]string) map[string][2]string {
	changed := map[string][2]string{}
	for _, entries := range []map[string]string{before, after} {
		for key := range entries {
			if before[key] != after[key] {
				changed[key] = [2]string{before[key], after[key]}
			}
		}
	}
	return changed
}

// takeBack returns the edits that take back changed lines. A line that somebody has
// changed since then stays. A replace by our copy always goes, as the copy goes too.
func (m *modFile) takeBack(changed map[string][2]string) (edits []string) {
	for _, old := range m.replacedByCopy() {
		edits = append(edits, "-dropreplace="+old)
	}
	now := m.lines()
	for _, line := range slices.Sorted(maps.Keys(changed)) {
		before, after := changed[line][0], changed[line][1]
		kind, name, _ := strings.Cut(line, "=")
		drop := "-drop" + kind[1:] + "=" + strings.TrimRight(name, "@=")
		switch {
		case before == "" && kind == "-require":
			// Requirements that the write added go before the tidy, at whatever
			// version: they would hold up what they require themselves. A program
			// that imports the module by now keeps it.
			if _, indirect := m.requires(strings.TrimRight(name, "@")); indirect {
				edits = append(edits, drop)
			}
		case now[line] != after:
		case before == "" && kind == "-replace":
			edits = append(edits, drop)
		case before == "":
			edits = append(edits, line+"none")
		default:
			edits = append(edits, line+before)
		}
	}
	return edits
}

// replacedByCopy returns the modules that a go.mod replaces by our copy.
func (m *modFile) replacedByCopy() (old []string) {
	for _, r := range m.Replace {
		if r.Old.Path == theirModule && r.New.Path == "./"+thirdParty {
			old = append(old, r.Old.at())
		}
	}
	return old
}

// requires returns the version that a go.mod requires of a module, or "".
func (m *modFile) requires(path string) (version string, indirect bool) {
	for _, r := range m.Require {
		if r.Path == path {
			return r.Version, r.Indirect
		}
	}
	return "", false
}
