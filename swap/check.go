package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func (c *call) check(ctx context.Context, p *program) error {
	why, err := p.outdated(ctx)
	if err != nil || why != "" {
		return cmp.Or(err, errors.New(why))
	}
	c.say("%s is swapped and current", p.root)
	return nil
}

// outdated says why a build is not swapped or not current, and "" if the build is both.
// The go command answers in the environment of the caller, with its vendor folder and
// workspace. In a workspace without a vendor folder, go would add lines to go.work.sum.
func (p *program) outdated(ctx context.Context) (why string, err error) {
	n, err := readNotes(p.copied())
	if err != nil || n == nil {
		return "not swapped: run swap write", err
	}
	env := p.asCalled()
	if n.Vendor != "" {
		return "a write or an undo did not come to its end: run swap undo", nil
	}
	if why, err := n.edited(p.copied()); err != nil || why != "" {
		return why, err
	}
	built, err := p.list(ctx, env)
	if err != nil {
		return "", err
	}
	if built.Version != n.Version {
		return fmt.Sprintf("not swapped: %s %s is built, and %s was swapped: run swap write", theirModule, built.Version, n.Version), nil
	}
	if why, err := p.otherFile(ctx, env); err != nil || why != "" {
		return why, err
	}
	return p.otherSource(ctx, n)
}

// asCalled is the environment in which go builds what the caller would build.
func (p *program) asCalled() []string {
	if p.work != "" && p.vendor != "work" {
		return p.unvendored
	}
	return nil
}

// otherFile says how the package that an environment builds as client-go's differs from the
// aliases, and "" if the package is the aliases.
func (p *program) otherFile(ctx context.Context, env []string) (string, error) {
	out, err := p.run(ctx, env, "list", "-find", "-f", "{{.Dir}}", theirPackage)
	if err != nil {
		return "", err
	}
	dir := strings.TrimSpace(string(out))
	text, err := os.ReadFile(filepath.Join(dir, filepath.Base(swappedFile)))
	// Git leaves the file in a vendor folder when git brings back the files of client-go.
	if files, _ := os.ReadDir(dir); err != nil || len(files) != 1 {
		return "not swapped: the build uses " + dir, nil
	}
	if sumText(text) != sumText([]byte(aliases)) {
		return "swapped, but by another version of swap: run swap write", nil
	}
	return "", nil
}

// otherSource says whether go.mod names another source for client-go than at the write. Go
// does not see the source behind the replace of the copy. If that replace took the place of
// another replace of the same version, go.mod names no source.
func (p *program) otherSource(ctx context.Context, n *notes) (string, error) {
	if n.Changed["-replace="+theirModule+"@"+n.Version+"="][0] != "" {
		return "", nil
	}
	now, err := p.read(ctx, "mod", p.mod)
	if err != nil {
		return "", err
	}
	named := &module{Path: theirModule, Version: n.Version}
	for _, r := range now.Replace {
		if r.Old.at() == theirModule {
			named.Replace, named.Dir = &r.New, absolute(p.root, r.New.Path)
		}
	}
	source, err := named.source()
	if err == nil && source != n.Source {
		return fmt.Sprintf("not current: go.mod names %s, and %s was copied: run swap write", source, n.Source), nil
	}
	return "", err
}
