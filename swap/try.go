package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// try runs a command with the swap in force. The tree of the program is only read.
func (c *call) try(ctx context.Context, p *program, command []string) error {
	if err := c.library.resolve(); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "swap-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	alternate := p.inModule
	if p.work != "" {
		alternate = p.inWorkspace
	}
	env, err := alternate(ctx, c, tmp)
	if err != nil {
		return err
	}
	if err := p.expect(ctx, env, c.cached); err != nil {
		return err
	}
	return p.pass(ctx, env, command)
}

// inModule writes an alternate go.mod, and returns the environment that uses it.
func (p *program) inModule(ctx context.Context, c *call, tmp string) ([]string, error) {
	mod := filepath.Join(tmp, "go.mod")
	if err := copyFile(p.mod, mod); err != nil {
		return nil, err
	}
	if err := copyIfThere(sumOf(p.mod), sumOf(mod)); err != nil {
		return nil, err
	}
	env, err := p.settings("off", "-mod=mod", "-modfile="+mod)
	if err != nil {
		return nil, err
	}
	m, err := c.cache(ctx, p, env)
	if err != nil {
		return nil, err
	}
	before, err := p.read(ctx, "mod", mod)
	if err != nil {
		return nil, err
	}
	required, _ := before.requires(ourModule)
	edits := append([]string{"mod", "edit", replacement(m.Version, c.cached)}, c.library.edits(required != "")...)
	_, err = p.run(ctx, nil, append(edits, mod)...)
	return env, err
}

// inWorkspace writes an alternate go.work. That is what other modules of the workspace
// see too, so the command may go to another directory.
func (p *program) inWorkspace(ctx context.Context, c *call, tmp string) ([]string, error) {
	env, err := p.unvendored()
	if err != nil {
		return nil, err
	}
	m, err := c.cache(ctx, p, env)
	if err != nil {
		return nil, err
	}
	work := filepath.Join(tmp, "go.work")
	if err := copyFile(p.work, work); err != nil {
		return nil, err
	}
	if err := copyIfThere(p.work+".sum", work+".sum"); err != nil {
		return nil, err
	}
	before, err := p.read(ctx, "work", work)
	if err != nil {
		return nil, err
	}
	anchor := filepath.Join(tmp, "anchor")
	if err := writeFile(filepath.Join(anchor, "go.mod"), []byte(fmt.Sprintf(anchorText, c.library.version))); err != nil {
		return nil, err
	}
	edits := append([]string{"work", "edit"}, moved(before, filepath.Dir(p.work))...)
	edits = append(edits, replacement(m.Version, c.cached), "-use="+anchor)
	edits = append(edits, c.library.edits(true)...) // A go.work requires nothing.
	if _, err := p.run(ctx, nil, append(edits, work)...); err != nil {
		return nil, err
	}
	return p.settings(work, "-mod=readonly")
}

// anchorText is a module that only requires the library. A go.work cannot, and what
// the copy of client-go requires, the modules of the workspace do not require
// themselves: go would not look for the requirements of that.
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
		if r.New.Version != "" || filepath.IsAbs(path) {
			continue
		}
		old := r.Old.Path
		if r.Old.Version != "" {
			old += "@" + r.Old.Version
		}
		edits = append(edits, "-replace="+old+"="+filepath.Join(dir, path))
	}
	return edits
}

// replacement is the edit that puts a directory in the place of one version. Without
// the version it would stay in force when client-go is upgraded, and build the old one.
func replacement(version, dir string) string {
	return "-replace=" + theirModule + "@" + version + "=" + dir
}

// expect returns an error if an environment builds the package from elsewhere.
func (p *program) expect(ctx context.Context, env []string, dir string) error {
	got, err := p.packageDir(ctx, env)
	if err != nil {
		return err
	}
	if want := filepath.Join(dir, filepath.Dir(swappedFile)); !sameFile(got, want) {
		return fmt.Errorf("go would build %s from %s, not from %s", theirPackage, got, want)
	}
	return nil
}

// sameFile reports whether two paths lead to one place.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// sumOf is the path of the go.sum that belongs to a go.mod.
func sumOf(mod string) string { return mod[:len(mod)-len(filepath.Ext(mod))] + ".sum" }

func copyIfThere(src, dst string) error {
	if err := copyFile(src, dst); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
