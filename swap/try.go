package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
	library, err := p.library(ctx, env)
	if err != nil {
		return err
	}
	if err := c.forgetSums(p); err != nil {
		return err
	}
	c.say("%s is built on the queue of %s", n.Source, library)
	if c.tells == nil || c.tells() {
		return p.pass(ctx, env, c.command)
	}
	if err = p.pass(ctx, env, c.command); !c.tells() {
		c.say("no build of the command used the queue of %s: the command built nothing with client-go's queue, or has set GOFLAGS, GOWORK, -mod or -modfile", library)
	} else if ctx.Err() == nil {
		c.say("a build of the command used the queue of %s", library)
	}
	return err
}

// forgetSums gives the copy of go.mod or go.work the sums of before: questions add sums too.
func (c *call) forgetSums(p *program) error {
	from, to := p.mod, filepath.Join(c.tmp, "go.mod")
	if p.work != "" {
		from, to = p.work, p.aside
	}
	err := os.RemoveAll(sumsOf(to))
	if err == nil {
		err = copyFile(sumsOf(from), sumsOf(to))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// library names the library that an environment builds. Where go.mod requires a newer version
// than the trial, or replaces the library, go takes what go.mod names.
func (p *program) library(ctx context.Context, env []string) (string, error) {
	out, err := p.run(ctx, env, "list", "-m", "-json", ourModule)
	if err != nil {
		return "", err
	}
	m := new(module)
	err = json.Unmarshal(out, m)
	return m.used().at(), err
}

func (c *call) inModule(ctx context.Context, p *program) (*notes, []string, error) {
	a, err := p.alternate(c.tmp)
	if err != nil {
		return nil, nil, err
	}
	n, copied, err := c.copyOf(ctx, p, a.env)
	if err != nil {
		return nil, nil, err
	}
	now, err := a.edit(ctx)
	if err != nil {
		return nil, nil, err
	}
	if now.requires(ourModule).Version == "" {
		c.tellBy(a.mod)
	}
	// With the requirements, go finds all packages in modules that go.mod names. Without them,
	// go would read the go.mod of each module in the graph, and a build may need fewer.
	_, err = a.edit(ctx, append(c.library.replaces(n.Version, copied), c.library.requirements(now)...)...)
	return n, a.env, err
}

// tellBy looks into the file of sums of a go.mod or go.work. The first build that loads a
// package of the library adds the sum of the library, also if the build cache has all packages. There
// are no sums of a directory, nor a new sum of a library that is required already.
func (c *call) tellBy(mod string) {
	if c.library.dir != "" {
		return
	}
	c.tells = func() bool {
		text, _ := os.ReadFile(sumsOf(mod)) // Go makes the file for the first sum.
		return strings.Contains(string(text), ourModule+" "+c.library.version+" h1:")
	}
}

// inWorkspace swaps in the copy of go.work. All modules of the workspace are swapped, so the
// command may change its directory.
func (c *call) inWorkspace(ctx context.Context, p *program) (*notes, []string, error) {
	n, copied, err := c.copyOf(ctx, p, p.unvendored)
	if err != nil {
		return nil, nil, err
	}
	if _, err := p.run(ctx, p.unvendored, "list", "-m", ourModule); err != nil {
		c.tellBy(p.aside)
	}
	return n, p.unvendored, p.editAside(ctx, c.library.replaces(n.Version, copied)...)
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
