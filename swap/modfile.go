package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A modFile is an answer of `go mod edit -json` or `go work edit -json`.
type modFile struct {
	Module        struct{ Path string }
	Go, Toolchain string
	Require       []requirement
	Replace       []struct{ Old, New module }
	Use           []struct{ DiskPath string }
}

type requirement struct {
	Path, Version string
	Indirect      bool
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
	p       *program
	mod     string   // the copy of go.mod
	env     []string // makes go use the copies, and neither a workspace nor a vendor folder
	swapped bool     // reports whether go.mod names the copy of client-go, see unswap
	before  modText  // without the swap, see unswap
}

func (p *program) alternate(dir string) (*alternate, error) {
	mod := filepath.Join(dir, "go.mod")
	if err := copyMod(p.mod, mod); err != nil {
		return nil, err
	}
	return &alternate{p: p, mod: mod, env: p.settings("off", "-mod=mod", "-modfile="+mod)}, nil
}

// edit changes the copy of go.mod by flags of `go mod edit`, and returns the new content.
func (a *alternate) edit(ctx context.Context, edits ...string) (*modFile, error) {
	if len(edits) > 0 {
		if _, err := a.p.run(ctx, nil, slices.Concat([]string{"mod", "edit"}, edits, []string{a.mod})...); err != nil {
			return nil, err
		}
	}
	return a.p.read(ctx, "mod", a.mod)
}

// tidy changes the copy of go.mod by flags of `go mod edit`, and tidies.
func (a *alternate) tidy(ctx context.Context, edits ...string) error {
	_, err := a.edit(ctx, edits...)
	if err == nil {
		_, err = a.p.run(ctx, a.env, "mod", "tidy")
	}
	return err
}

// built returns the versions of the modules that go.sum has the files of, which are those
// that a tidy has looked at.
func (a *alternate) built() (map[string]string, error) {
	text, err := os.ReadFile(sumsOf(a.mod))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	versions := map[string]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && !strings.HasSuffix(fields[1], "/go.mod") && (versions[fields[0]] == "" || older(versions[fields[0]], fields[1])) {
			versions[fields[0]] = fields[1]
		}
	}
	return versions, nil
}

// sumsOf is the file of sums beside a go.mod or go.work.
func sumsOf(mod string) string { return strings.TrimSuffix(mod, ".mod") + ".sum" }

// replace gives the program the copies of go.mod and go.sum. A program that needs no sums has no go.sum.
func (a *alternate) replace() error {
	text, err := readMod(a.mod)
	switch {
	case err != nil:
		return err
	case len(text.Sum) == 0:
		err = os.RemoveAll(sumsOf(a.p.mod))
	default:
		err = replaceFile(sumsOf(a.p.mod), text.Sum)
	}
	if err != nil {
		return err
	}
	return replaceFile(a.p.mod, text.Mod)
}

// A modText is a go.mod and its go.sum, with the ends of lines that go writes. A go.sum that is
// missing is empty.
type modText struct{ Mod, Sum []byte }

func readMod(mod string) (text modText, err error) {
	if text.Mod, err = os.ReadFile(mod); err != nil {
		return text, err
	}
	if text.Sum, err = os.ReadFile(sumsOf(mod)); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return modText{withoutReturns(text.Mod), withoutReturns(text.Sum)}, err
}

func (t modText) write(mod string) error {
	if err := writeFile(sumsOf(mod), t.Sum); err != nil {
		return err
	}
	return writeFile(mod, t.Mod)
}

func (t modText) sums() []string { return []string{sumText(t.Mod), sumText(t.Sum)} }

// copyMod copies a go.mod or go.work, and its file of sums if there is one.
func copyMod(src, dst string) error {
	err := copyFile(sumsOf(src), sumsOf(dst))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = copyFile(src, dst)
	}
	return err
}

// lines are the lines of a go.mod that a write may change. The key of a line is the flag of
// `go mod edit` for the line, up to the value: "-go=", "-require=path@", "-replace=path=".
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

// changes returns the entries that differ, before and after. An absent entry is "".
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
func (m *modFile) takeBack(n *notes) (edits []string) {
	for _, old := range m.replacedByCopy() {
		edits = append(edits, "-dropreplace="+old)
	}
	for _, path := range slices.Sorted(maps.Keys(n.Raised)) {
		if r := m.requires(path); r.Indirect && r.Version == n.Raised[path] {
			edits = append(edits, "-droprequire="+path)
		}
	}
	now := m.lines()
	for _, line := range slices.Sorted(maps.Keys(n.Changed)) {
		before, after := n.Changed[line][0], n.Changed[line][1]
		kind, name, _ := strings.Cut(line, "=")
		drop := "-drop" + kind[1:] + "=" + strings.TrimRight(name, "@=")
		switch {
		case before == "" && kind == "-require":
			// Requirements of the write go before the tidy, at whatever version: each
			// would hold up its own requirements. A program that imports the module
			// by now keeps the requirement.
			if m.requires(strings.TrimRight(name, "@")).Indirect {
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

// requires returns the requirement of a module, or an empty one.
func (m *modFile) requires(path string) (found requirement) {
	for _, r := range m.Require {
		if r.Path == path {
			found = r
		}
	}
	return found
}

// older reports whether a version of a module comes before another. A release comes after
// its pre-releases, and a number before any other part of a pre-release.
func older(a, b string) bool {
	parts := func(version string) (release, pre []string) {
		version, _, _ = strings.Cut(strings.TrimPrefix(version, "v"), "+")
		version, before, found := strings.Cut(version, "-")
		if !found {
			before = "~" // follows all that a pre-release may have
		}
		return strings.Split(version, "."), strings.Split(before, ".")
	}
	compare := func(a, b string) int {
		x, noNumber := strconv.ParseUint(a, 10, 64)
		y, neither := strconv.ParseUint(b, 10, 64)
		switch {
		case noNumber == nil && neither == nil:
			return cmp.Compare(x, y)
		case noNumber == nil:
			return -1
		case neither == nil:
			return 1
		}
		return strings.Compare(a, b)
	}
	releaseA, preA := parts(a)
	releaseB, preB := parts(b)
	return cmp.Or(slices.CompareFunc(releaseA, releaseB, compare), slices.CompareFunc(preA, preB, compare)) < 0
}
