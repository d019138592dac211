package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
)

// try runs a command with the swap in force. The tree of the program is only read.
func (c *call) try(ctx context.Context, p *program, command []string) error {
	if err := c.library.resolve(); err != nil {
		return err
	}
	swapped := c.inModule
	if p.work != "" {
		swapped = c.inWorkspace
	}
	env, err := swapped(ctx, p)
	if err != nil {
		return err
	}
	why, err := p.otherFile(ctx, env)
	if err != nil {
		return err
	}
	if why != "" {
		return fmt.Errorf("the swap has no effect: %s", why)
	}
	return p.pass(ctx, env, command)
}

// inModule writes an alternate go.mod, and returns the environment that uses it.
func (c *call) inModule(ctx context.Context, p *program) ([]string, error) {
	a, err := p.alternate(c.tmp)
	if err != nil {
		return nil, err
	}
	n, copied, err := c.copyOf(ctx, p, a.env)
	if err != nil {
		return nil, err
	}
	now, err := a.edit(ctx)
	if err == nil {
		_, err = a.edit(ctx, c.library.edits(now, replacement(n.Version, copied))...)
	}
	return a.env, err
}

// inWorkspace writes an alternate go.work. The other modules of the workspace see it too,
// so the command may go to another directory.
func (c *call) inWorkspace(ctx context.Context, p *program) ([]string, error) {
	n, copied, err := c.copyOf(ctx, p, p.unvendored)
	if err != nil {
		return nil, err
	}
	work := filepath.Join(c.tmp, "go.work")
	if err := copyMod(p.work, work); err != nil {
		return nil, err
	}
	before, err := p.read(ctx, "work", work)
	if err != nil {
		return nil, err
	}
	anchor := filepath.Join(c.tmp, "anchor")
	if err := writeFile(filepath.Join(anchor, "go.mod"), []byte(fmt.Sprintf(anchorText, c.library.version))); err != nil {
		return nil, err
	}
	edits := c.library.edits(nil, append(moved(before, filepath.Dir(p.work)), replacement(n.Version, copied), "-use="+anchor)...)
	if _, err := p.run(ctx, nil, slices.Concat([]string{"work", "edit"}, edits, []string{work})...); err != nil {
		return nil, err
	}
	return p.settings(work, "-mod=readonly")
}

// anchorText is a module that only requires the library. A go.work cannot require, and
// the go command looks for the requirements of our copy only if a module of the workspace
// requires the library too.
const anchorText = "module workqueue.swap/anchor\n\ngo 1.25\n\nrequire " + ourModule + " %s\n"

// moved are the edits of a go.work that has left its directory: relative paths in it
// become absolute.
func moved(work *modFile, dir string) (edits []string) {
	for _, use := range work.Use {
		if path := filepath.FromSlash(use.DiskPath); !filepath.IsAbs(path) {
			edits = append(edits, "-dropuse="+use.DiskPath, "-use="+filepath.Join(dir, path))
		}
	}
	for _, r := range work.Replace {
		path := filepath.FromSlash(r.New.Path)
		if r.New.Version == "" && !filepath.IsAbs(path) {
			edits = append(edits, "-replace="+r.Old.at()+"="+filepath.Join(dir, path))
		}
	}
	return edits
}

// replacement is the edit that puts a directory in the place of one version. A replace
// without the version would stay in force when client-go is upgraded, and build the old
// client-go.
func replacement(version, dir string) string {
	return "-replace=" + theirModule + "@" + version + "=" + dir
}
