package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
)

// try runs a command with the swap in force. Swap only reads the tree of the program.
func (c *call) try(ctx context.Context, p *program) error {
	if err := c.library.resolve(ctx, p); err != nil {
		return err
	}
	swapped := c.inModule
	if p.work != "" {
		swapped = c.inWorkspace
	}
	n, env, err := swapped(ctx, p)
	if err != nil {
		return err
	}
	if why, err := p.otherFile(ctx, env); err != nil || why != "" {
		return cmp.Or(err, fmt.Errorf("the swap has no effect: %s", why))
	}
	c.say("%s is built on the queue of %s", n.Source, c.library.at())
	// The first build that loads a package of the library adds the requirement to the
	// alternate go.mod, also if the build cache has all packages. A workspace has no
	// alternate go.mod: a command that sets GOFLAGS is swapped there all the same.
	unused := func() bool {
		now, err := p.read(ctx, "mod", filepath.Join(c.tmp, "go.mod"))
		return err == nil && now.requires(ourModule).Version == ""
	}
	if !unused() {
		return p.pass(ctx, env, c.command)
	}
	if err = p.pass(ctx, env, c.command); unused() {
		c.say("no build of the command used the queue of %s: the command built nothing with client-go's queue, or has set GOFLAGS, -mod or -modfile", c.library.at())
	} else if ctx.Err() == nil {
		c.say("a build of the command used the queue of %s", c.library.at())
	}
	return err
}

func (c *call) inModule(ctx context.Context, p *program) (*notes, []string, error) {
	a, err := p.alternate(c.tmp)
	if err != nil {
		return nil, nil, err
	}
	n, copied, err := c.copyOf(ctx, p, a.env)
	if err == nil {
		_, err = a.edit(ctx, c.library.replaces(n.Version, copied)...)
	}
	return n, a.env, err
}

// inWorkspace writes an alternate go.work. All modules of the workspace are swapped, so the
// command may change its directory.
func (c *call) inWorkspace(ctx context.Context, p *program) (*notes, []string, error) {
	n, copied, err := c.copyOf(ctx, p, p.unvendored)
	if err != nil {
		return nil, nil, err
	}
	work := filepath.Join(c.tmp, "go.work")
	if err := copyMod(p.work, work); err != nil {
		return nil, nil, err
	}
	before, err := p.read(ctx, "work", work)
	if err != nil {
		return nil, nil, err
	}
	edits := append(before.moved(filepath.Dir(p.work)), c.library.replaces(n.Version, copied)...)
	if _, err := p.run(ctx, nil, slices.Concat([]string{"work", "edit"}, edits, []string{work})...); err != nil {
		return nil, nil, err
	}
	return n, p.settings(work, "-mod=readonly"), nil
}

// moved are the edits of a go.work that has left its directory: relative paths in the file
// become absolute.
func (m *modFile) moved(dir string) (edits []string) {
	for _, use := range m.Use {
		if path := absolute(dir, use.DiskPath); path != use.DiskPath {
			edits = append(edits, "-dropuse="+use.DiskPath, "-use="+path)
		}
	}
	for _, r := range m.Replace {
		if path := absolute(dir, r.New.Path); r.New.Version == "" && path != r.New.Path {
			edits = append(edits, "-replace="+r.Old.at()+"="+path)
		}
	}
	return edits
}
