package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// write is -w. Swap first computes the change in a directory of its own, so most failures
// leave the program as it was. From install on, git is the way back.
func (c *call) write(ctx context.Context, p *program) error {
	if err := c.library.resolve(); err != nil {
		return err
	}
	if why, err := p.outdated(ctx); err == nil && why == "" {
		c.say("%s is swapped and current", p.root)
		return nil
	}
	if err := p.committed(ctx); err != nil && !c.force {
		return fmt.Errorf("git is the way back from -w: %w", err)
	}
	old, a, err := c.begin(ctx, p)
	if err != nil {
		return err
	}
	n, copied, err := c.prepare(ctx, a)
	if err != nil {
		return err
	}
	if err := p.makeRoom(old); err != nil {
		return err
	}
	if err := install(ctx, a, n, copied); err != nil {
		return fmt.Errorf("%w\nthe write did not come to its end; take it back: %s", err, p.wayBack(ctx))
	}
	c.whatNext(ctx, p, n)
	return nil
}

// begin returns the notes of the copy that is there, and an alternate go.mod without the
// swap. It is an error if a write or an undo would lose an edit of the copy, or one of the
// vendor folder: go makes that folder anew as a whole, so patches would be lost and files
// that the program has pruned would come back.
func (c *call) begin(ctx context.Context, p *program) (*notes, *alternate, error) {
	if filepath.Base(p.mod) != "go.mod" || filepath.Dir(p.mod) != p.root {
		return nil, nil, fmt.Errorf("GOFLAGS has -modfile=%s: swap changes go.mod only", p.mod)
	}
	n, err := readNotes(p.copied())
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Lstat(p.copied()); err == nil && n == nil {
		return nil, nil, fmt.Errorf("%s is there already, and not by swap", thirdParty)
	}
	if err := c.mayLose(ctx, p, n); err != nil {
		return nil, nil, err
	}
	a, err := p.alternate(c.tmp)
	if err != nil {
		return nil, nil, err
	}
	return n, a, a.unswap(ctx, n)
}

// mayLose returns an error if there are edits in the copy or in the vendor folder.
func (c *call) mayLose(ctx context.Context, p *program, n *notes) error {
	if c.force {
		return nil
	}
	if n != nil {
		why, err := n.edited(p.copied())
		if err != nil {
			return err
		}
		if why != "" {
			return fmt.Errorf("%s: take that back, or let -force overwrite it", why)
		}
	}
	other, err := p.vendorEdits(ctx, filepath.Join(c.tmp, "vendor"))
	if err == nil && len(other) > 0 {
		err = fmt.Errorf("%d files of the vendor folder are not as `go mod vendor` makes them; -force lets it make them anew:\n%s", len(other), firstLines(other))
	}
	return err
}

// prepare makes the copy, and puts the swap into an alternate go.mod.
func (c *call) prepare(ctx context.Context, a *alternate) (n *notes, copied string, err error) {
	n, copied, err = c.copyOf(ctx, a.p, a.env)
	if err != nil {
		return nil, "", err
	}
	if err := a.p.agrees(ctx, n.Version); err != nil {
		return nil, "", err
	}
	before, err := a.edit(ctx)
	if err != nil {
		return nil, "", err
	}
	if _, err := a.edit(ctx, c.library.edits(before, replacement(n.Version, copied))...); err != nil {
		return nil, "", err
	}
	if err := a.tidy(ctx); err != nil {
		return nil, "", err
	}
	after, err := a.edit(ctx, replacement(n.Version, "./"+thirdParty))
	if err != nil {
		return nil, "", err
	}
	n.Changed = changes(before.lines(), after.lines())
	return n, copied, nil
}

// agrees returns an error if the workspace that is in force builds another version of
// client-go than the module: a replace of the one would have no effect on the other.
func (p *program) agrees(ctx context.Context, version string) error {
	if p.work == "" {
		return nil
	}
	built, err := p.list(ctx, p.unvendored)
	if err == nil && built.Version != version {
		err = fmt.Errorf("the workspace builds %s %s, and the module %s: run `go work sync`, or with GOWORK=off", theirModule, built.Version, version)
	}
	return err
}

// makeRoom makes an empty directory for the copy. Of several calls at once, one makes the
// directory, and the others end here.
func (p *program) makeRoom(old *notes) error {
	if old != nil {
		if err := os.RemoveAll(p.copied()); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(p.copied()), 0o777); err != nil {
		return err
	}
	return os.Mkdir(p.copied(), 0o777)
}

// install changes the program. Go.mod comes after the copy that go.mod names.
func install(ctx context.Context, a *alternate, n *notes, copied string) error {
	dir := a.p.copied()
	if err := os.CopyFS(dir, os.DirFS(copied)); err != nil {
		return err
	}
	if err := n.write(dir); err != nil {
		return err
	}
	if err := copyMod(a.mod, a.p.mod); err != nil {
		return err
	}
	if err := a.p.revendor(ctx); err != nil {
		return err
	}
	why, err := a.p.outdated(ctx)
	if err == nil && why != "" {
		err = fmt.Errorf("the swap has no effect: %s", why)
	}
	return err
}

// whatNext says what the write raised, what to commit, and how to go back.
func (c *call) whatNext(ctx context.Context, p *program, n *notes) {
	c.say("swapped %s", n.Source)
	for _, line := range slices.Sorted(maps.Keys(n.Changed)) {
		if v := n.Changed[line]; v[0] != "" && v[1] != "" && !strings.HasPrefix(line, "-replace=") {
			c.say("raised %s from %s to %s", strings.TrimPrefix(strings.Trim(line, "-@="), "require="), v[0], v[1])
		}
	}
	add, left := p.commit(ctx)
	if left != "" {
		c.say("a .gitignore leaves out files that a build needs, such as %s: add them by -f", left)
	}
	c.say("commit it: %s", add)
	c.say("take it back before the commit: %s", p.wayBack(ctx))
	c.say("take it back after the commit: git revert; at any time: swap -undo")
}

// vendor returns the vendor folder that builds use, and what made it: `go mod vendor`, or
// `go work vendor` where a workspace is in force. Both are "" without such a folder.
func (p *program) vendor() (dir, kind string) {
	made := func(dir string) (by string) {
		list, err := os.ReadFile(filepath.Join(p.root, dir, "modules.txt"))
		switch {
		case err != nil:
			return ""
		case bytes.HasPrefix(list, []byte("## workspace")):
			return "work"
		}
		return "mod"
	}
	if p.work != "" {
		shared, err := filepath.Rel(p.root, filepath.Join(filepath.Dir(p.work), "vendor"))
		if err == nil && made(shared) == "work" {
			return shared, "work"
		}
	}
	if made("vendor") == "mod" {
		return "vendor", "mod"
	}
	return "", ""
}

// revendor makes the vendor folder anew, if there is one.
func (p *program) revendor(ctx context.Context, flags ...string) error {
	_, kind := p.vendor()
	work := "off"
	if kind == "work" {
		work = p.work
	}
	env, err := p.settings(work)
	if err != nil || kind == "" {
		return err
	}
	_, err = p.run(ctx, env, append([]string{kind, "vendor"}, flags...)...)
	return err
}

// vendorEdits returns the files in which the vendor folder is not as go makes it. Tmp is
// the place for a folder to compare with.
func (p *program) vendorEdits(ctx context.Context, tmp string) ([]string, error) {
	vendor, kind := p.vendor()
	if kind == "" {
		return nil, nil
	}
	if err := p.revendor(ctx, "-o", tmp); err != nil {
		return nil, fmt.Errorf("the vendor folder cannot be compared, which -force does without: %w", err)
	}
	want, err := sums(tmp)
	if err != nil {
		return nil, err
	}
	got, err := sums(filepath.Join(p.root, vendor))
	return slices.Sorted(maps.Keys(changes(want, got))), err
}
