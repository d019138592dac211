package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// check is -check.
func (c *call) check(ctx context.Context, p *program) error {
	why, err := p.outdated(ctx)
	if err == nil && why != "" {
		err = errors.New(why)
	}
	if err == nil {
		c.say("%s is swapped and current", p.root)
	}
	return err
}

// outdated says why what is built is not swapped, or not current, and "" if it is. It
// asks go in the environment of the caller, with its vendor folder and its workspace:
// what counts is what is built.
func (p *program) outdated(ctx context.Context) (why string, err error) {
	n, err := readNotes(p.copied())
	if err != nil || n == nil {
		return "not swapped: run swap -w", err
	}
	built, err := p.list(ctx, nil)
	if err != nil {
		return "", err
	}
	if built.Version != n.Version {
		return fmt.Sprintf("not swapped: %s %s is built, and %s was swapped: run swap -w", theirModule, built.Version, n.Version), nil
	}
	if why, err := p.otherFile(ctx, nil); err != nil || why != "" {
		return why, err
	}
	if why, err := n.edited(p.copied()); err != nil || why != "" {
		return why, err
	}
	return p.otherSource(ctx, n)
}

// otherFile says what is wrong with the file that an environment builds in the place of
// client-go's.
func (p *program) otherFile(ctx context.Context, env []string) (string, error) {
	out, err := p.run(ctx, env, "list", "-find", "-f", "{{.Dir}}", theirPackage)
	if err != nil {
		return "", err
	}
	dir := strings.TrimSpace(string(out))
	text, err := os.ReadFile(filepath.Join(dir, filepath.Base(swappedFile)))
	if err != nil {
		return "not swapped: " + dir + " is built", nil
	}
	if sumText(text) != sumText([]byte(aliases)) {
		return "swapped, but not by this version of swap: run swap -w", nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		return fmt.Sprintf("not swapped: %s has other files", dir), err
	}
	return "", nil
}

// otherSource says whether go.mod has come to name another source for client-go than
// the one that was copied. The replace of the copy hides the source from go, and has
// taken the place of a replace of this very version.
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
			named.Replace, named.Dir = &r.New, filepath.FromSlash(r.New.Path)
		}
	}
	if !filepath.IsAbs(named.Dir) {
		named.Dir = filepath.Join(p.root, named.Dir)
	}
	source, err := named.source()
	if err == nil && source != n.Source {
		return fmt.Sprintf("not current: go.mod names %s, and %s was copied: run swap -w", source, n.Source), nil
	}
	return "", err
}
