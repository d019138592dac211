package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// check is -check.
func (c *call) check(ctx context.Context, p *program) error {
	if _, err := os.Stat(filepath.Join(p.root, journalDir)); err == nil {
		return errors.New("a call of swap was interrupted: run swap -w or swap -undo")
	}
	why, err := c.outdated(ctx, p)
	if err != nil {
		return err
	}
	if why != "" {
		return errors.New(why)
	}
	c.say("%s is swapped and current", p.root)
	return nil
}

// outdated says why what is built is not swapped, or not current, and "" if it is. It
// asks go in the environment of the caller, with its vendor folder and its workspace:
// what counts is what is built.
func (c *call) outdated(ctx context.Context, p *program) (why string, err error) {
	s, err := readState(p.root)
	if err != nil || s == nil {
		return "not swapped: run swap -w", err
	}
	built, err := p.list(ctx, nil)
	if err != nil {
		return "", err
	}
	if built.Version != s.Version {
		return fmt.Sprintf("not swapped: %s %s is built, and %s was swapped: run swap -w", theirModule, built.Version, s.Version), nil
	}
	if why, err := p.otherFile(ctx); err != nil || why != "" {
		return why, err
	}
	if sum, err := sumCopy(p.root); err != nil || sum != s.Copy {
		return thirdParty + " was changed since swap made it", err
	}
	return p.otherSource(ctx, s)
}

// otherFile says what is wrong with the file that is built in the place of client-go's.
func (p *program) otherFile(ctx context.Context) (string, error) {
	dir, err := p.packageDir(ctx, nil)
	if err != nil {
		return "", err
	}
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
// the one that was copied. The replace of the copy hides it from go.
func (p *program) otherSource(ctx context.Context, s *state) (string, error) {
	now, err := p.read(ctx, "mod", p.mod)
	if err != nil {
		return "", err
	}
	source := now.sourceOf(s.Version)
	if s.Replaced == "" && source.source() != s.Source {
		return fmt.Sprintf("not current: go.mod names %s, and %s was copied: run swap -w", source.source(), s.Source), nil
	}
	if !source.isDir() || s.SourceSum == "" {
		return "", nil
	}
	dir := filepath.FromSlash(source.Replace.Path)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(p.root, dir)
	}
	if sum, err := sumTree(dir); err != nil || sum != s.SourceSum {
		return fmt.Sprintf("not current: %s has changed: run swap -w", source.Replace.Path), err
	}
	return "", nil
}

// sourceOf returns the client-go of a go.mod that is swapped, as it would be otherwise.
func (m *modFile) sourceOf(version string) *module {
	source := &module{Path: theirModule, Version: version}
	for _, r := range m.Replace {
		if r.Old.Path == theirModule && r.Old.Version == "" {
			source.Replace = &r.New
		}
	}
	return source
}
