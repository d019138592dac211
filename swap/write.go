package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/version"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// write first computes the change in a temporary directory, so most failures leave the
// program unchanged. From install on, git is the way back.
func (c *call) write(ctx context.Context, p *program) error {
	if err := c.library.resolve(ctx, p); err != nil {
		return err
	}
	if c.isCurrent(ctx, p) {
		c.say("%s is swapped and current", p.root)
		return nil
	}
	if err := p.committed(ctx); err != nil && !c.force {
		return fmt.Errorf("git is the way back from swap write: %w", err)
	}
	// Without a vendor folder, go does nothing under -mod=vendor, and a write changes that not.
	if p.vendor == "" {
		if _, err := p.run(ctx, nil, "list", "-m"); err != nil {
			return err
		}
	}
	old, a, err := c.begin(ctx, p)
	if err != nil {
		return err
	}
	if old != nil && old.Vendor != "" && !c.force {
		return errors.New("a write or an undo did not come to its end: run swap undo first")
	}
	n, copied, err := c.prepare(ctx, a)
	if err != nil {
		return err
	}
	if err := a.makeRoom(old, n); err != nil {
		return err
	}
	if err := install(ctx, a, n, copied); err != nil {
		return fmt.Errorf("%w\nthe write did not come to its end; take it back: %s", err, p.wayBack(ctx))
	}
	c.whatNext(ctx, p, n)
	return nil
}

// isCurrent reports whether a write has nothing to do.
func (c *call) isCurrent(ctx context.Context, p *program) bool {
	why, err := p.outdated(ctx)
	return err == nil && why == "" && c.library.isNamedBy(ctx, p)
}

// begin returns the notes of the present copy, and an alternate go.mod without the swap.
// Begin fails if a write or an undo would lose an edit of the copy or of the vendor folder:
// go makes the whole folder anew, so patches would be lost and pruned files would come back.
func (c *call) begin(ctx context.Context, p *program) (*notes, *alternate, error) {
	if filepath.Base(p.mod) != "go.mod" || filepath.Dir(p.mod) != p.root {
		return nil, nil, fmt.Errorf("GOFLAGS has -modfile=%s: swap changes go.mod only", p.mod)
	}
	n, err := readNotes(p.copied())
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Lstat(p.copied()); err == nil && n == nil && !unnoted(p.copied()) {
		return nil, nil, fmt.Errorf("%s is there already, and not by swap", thirdParty)
	}
	if n != nil && n.Vendor != "" {
		p.vendor = strings.TrimPrefix(n.Vendor, "none")
	}
	if err := c.mayLose(ctx, p, n); err != nil {
		return nil, nil, err
	}
	a, err := p.alternate(c.tmp)
	if err != nil {
		return nil, nil, err
	}
	if err := a.unswap(ctx, n); err != nil {
		return nil, nil, err
	}
	a.before, err = readMod(a.mod)
	return n, a, err
}

func (c *call) mayLose(ctx context.Context, p *program, n *notes) error {
	if c.force {
		return nil
	}
	// A third_party that is a link is the user's, and the copy in there is the program's.
	if info, err := os.Lstat(p.copied()); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return fmt.Errorf("%s is a link, perhaps to the copy of another module: remove the link, or let -force change the files behind it", thirdParty)
	}
	if n != nil && n.Vendor != "" { // A call that was killed has begun to change both.
		return nil
	}
	if n != nil {
		if why, err := n.edited(p.copied()); err != nil || why != "" {
			return cmp.Or(err, fmt.Errorf("%s: take the edit back, or let -force overwrite the copy", why))
		}
	}
	if p.vendor == "" {
		return nil
	}
	tmp := filepath.Join(c.tmp, "vendor")
	if err := p.revendor(ctx, "-o", tmp); err != nil {
		return fmt.Errorf("the vendor folder cannot be compared, which -force does without: %w", err)
	}
	want, err := sums(tmp)
	if err != nil {
		return err
	}
	got, err := sums(filepath.Join(p.root, p.vendorDir()))
	if other := slices.Sorted(maps.Keys(changes(want, got))); err == nil && len(other) > 0 {
		err = fmt.Errorf("%d files of the vendor folder differ from those that `go mod vendor` makes; -force overwrites them:\n%s", len(other), firstLines(other))
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
	built, err := a.built()
	if err != nil {
		return nil, "", err
	}
	if err := a.tidy(ctx, c.library.replaces(n.Version, copied)...); err != nil {
		return nil, "", err
	}
	after, err := a.edit(ctx, c.library.replaces(n.Version, "./"+thirdParty)...)
	if err != nil {
		return nil, "", err
	}
	// A tidy looks for a missing package in newer versions.
	if v := after.requires(theirModule).Version; v != "" && v != n.Version {
		return nil, "", fmt.Errorf("the program needs a package of %s %s that a copy has not: examples and hidden directories are left out", theirModule, n.Version)
	}
	n.Changed = changes(before.lines(), after.lines())
	if n.Raised, err = a.built(); err != nil {
		return nil, "", err
	}
	maps.DeleteFunc(n.Raised, func(path, version string) bool {
		return version == built[path] || after.requires(path).Version != ""
	})
	return n, copied, a.p.allows(ctx, after)
}

// allows returns an error if the workspace has a lower go line than a go.mod. Go builds
// nothing then.
func (p *program) allows(ctx context.Context, after *modFile) error {
	if p.work == "" {
		return nil
	}
	work, err := p.read(ctx, "work", p.work)
	if err == nil && version.Compare("go"+cmp.Or(work.Go, "1.18"), "go"+after.Go) < 0 {
		err = fmt.Errorf("the write raises the module to go %[1]s, and the workspace has go %[2]s: go work edit -go=%[1]s", after.Go, cmp.Or(work.Go, "1.18"))
	}
	return err
}

// agrees returns an error if a replace in the module has no effect on the workspace: the
// workspace builds another version of client-go, or the copy of another module.
func (p *program) agrees(ctx context.Context, version string) error {
	if p.work == "" {
		return nil
	}
	built, err := p.list(ctx, p.unvendored)
	if err != nil {
		return err
	}
	if built.Version != version {
		return fmt.Errorf("the workspace builds %s %s, and the module %s: run `go work sync`, or swap with GOWORK=off", theirModule, built.Version, version)
	}
	copied, err := filepath.Rel(filepath.Dir(p.work), built.Dir)
	if built.Dir == p.copied() || err != nil || !strings.HasSuffix(filepath.ToSlash(copied), thirdParty) {
		return err
	}
	work, err := p.read(ctx, "work", p.work)
	if err == nil && !strings.Contains(fmt.Sprint(work.Replace), theirModule) {
		err = fmt.Errorf("another module of the workspace is swapped, and go refuses two replaces of %[1]s %[2]s. Let go.work decide: go work edit -replace=%[1]s@%[2]s=./%[3]s",
			theirModule, version, filepath.ToSlash(copied))
	}
	return err
}

// makeRoom makes a directory for the copy, with the notes. Of several first writes at once, only one
// can make the directory, and the others fail. The notes of an old copy stay until the new notes
// replace them: without notes, an undo would not know what the old write has raised.
func (a *alternate) makeRoom(old, n *notes) error {
	dir := a.p.copied()
	if old == nil {
		err := os.MkdirAll(filepath.Dir(dir), 0o777)
		if err = cmp.Or(err, os.Mkdir(dir, 0o777)); err != nil {
			return err
		}
	}
	if err := n.begin(a); err != nil {
		return err
	}
	return removePackages(dir)
}

// begin notes that a write or an undo changes the program from now on, and all that a kill may leave.
func (n *notes) begin(a *alternate) error {
	n.Vendor, n.Before, n.Known = cmp.Or(a.p.vendor, "none"), a.before, nil
	for _, mod := range []string{a.p.mod, a.mod} {
		text, err := readMod(mod)
		if err != nil {
			return err
		}
		n.Known = append(n.Known, text.sums()...)
	}
	n.Known = append(n.Known, n.Before.sums()...)
	return n.write(a.p.copied())
}

// know reports whether a go.mod and its go.sum are as a write or an undo leaves them.
func (n *notes) know(found modText) bool {
	return !slices.ContainsFunc(found.sums(), func(sum string) bool { return !slices.Contains(n.Known, sum) })
}

// install changes the program. The copy comes first, as go.mod names the copy. The go.mod of the copy
// comes before its packages, which would be packages of the program without it.
func install(ctx context.Context, a *alternate, n *notes, copied string) error {
	dir := a.p.copied()
	for _, path := range append([]string{"go.mod"}, slices.Collect(maps.Keys(n.Sums))...) {
		if err := copyFile(absolute(copied, path), absolute(dir, path)); err != nil {
			return err
		}
	}
	if err := a.replace(); err != nil {
		return err
	}
	if err := a.p.revendor(ctx); err != nil {
		return err
	}
	n.Vendor = ""
	if err := n.write(dir); err != nil {
		return err
	}
	why, err := a.p.outdated(ctx)
	if why != "" {
		err = fmt.Errorf("the swap has no effect: %s", why)
	}
	return err
}

// whatNext lists the requirements that the write changed, and says how to commit the write
// and how to take the write back.
func (c *call) whatNext(ctx context.Context, p *program, n *notes) {
	c.say("swapped %s", n.Source)
	for _, line := range slices.Sorted(maps.Keys(n.Changed)) {
		name, v := strings.TrimPrefix(strings.Trim(line, "-@="), "require="), n.Changed[line]
		switch {
		case strings.HasPrefix(line, "-replace="):
		case v[0] == "":
			c.say("added %s %s", name, v[1])
		case v[1] == "":
			c.say("removed %s %s", name, v[0])
		default:
			c.say("raised %s from %s to %s", name, v[0], v[1])
		}
	}
	if c.library.dir != "" {
		c.say("go.mod names the library by the absolute path %s, which other machines lack: before a commit, take the write back, and write with a version", c.library.dir)
	}
	c.say("commit the write: %s", p.add(ctx))
	c.say("take the write back before the commit: %s", p.wayBack(ctx))
	c.say("take the write back after the commit: git revert; at any time: swap undo")
}

// findVendor returns the kind of the vendor folder that builds use, see program.vendor.
func (p *program) findVendor() string {
	made := func(dir string) (by string) {
		list, err := os.ReadFile(filepath.Join(dir, "vendor", "modules.txt"))
		switch {
		case err != nil:
			return ""
		case bytes.HasPrefix(list, []byte("## workspace")):
			return "work"
		}
		return "mod"
	}
	switch {
	case p.work != "" && made(filepath.Dir(p.work)) == "work":
		return "work"
	case made(p.root) == "mod":
		return "mod"
	}
	return ""
}

// vendorDir is the path of the vendor folder, from the directory of go.mod.
func (p *program) vendorDir() string {
	if shared, err := filepath.Rel(p.root, filepath.Join(filepath.Dir(p.work), "vendor")); err == nil && p.vendor == "work" {
		return shared
	}
	return "vendor"
}

// revendor makes the vendor folder anew if the program has one.
func (p *program) revendor(ctx context.Context, flags ...string) error {
	if p.vendor == "" {
		return nil
	}
	work := "off"
	if p.vendor == "work" {
		work = p.work
	}
	_, err := p.run(ctx, p.settings(work), append([]string{p.vendor, "vendor"}, flags...)...)
	return err
}
