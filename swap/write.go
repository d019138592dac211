package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// change runs a function that changes the program, and takes all of that back if the
// function fails.
func (c *call) change(ctx context.Context, p *program, f func(j *journal) error) (err error) {
	if filepath.Base(p.mod) != "go.mod" || filepath.Dir(p.mod) != p.root {
		return fmt.Errorf("GOFLAGS has -modfile=%s: swap changes go.mod only", p.mod)
	}
	vendor, err := p.vendor()
	if err != nil {
		return err
	}
	j, err := begin(p.root, []string{"go.mod", "go.sum"}, []string{thirdParty, vendor})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.rollback())
		}
	}()
	if err := f(j); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return j.commit()
}

// write is -w.
func (c *call) write(ctx context.Context, p *program) error {
	if err := cmp.Or(c.library.resolve(), putBack(p.root, c.say)); err != nil {
		return err
	}
	if why, err := c.outdated(ctx, p); err == nil && why == "" {
		c.say("%s is swapped and current", p.root)
		return nil
	}
	if err := p.mayOverwrite(); err != nil {
		return err
	}
	err := c.change(ctx, p, func(j *journal) error { return c.rewrite(ctx, p, j) })
	if err == nil {
		c.say("swapped; commit go.mod, go.sum and %s", thirdParty)
	}
	return err
}

// rewrite swaps anew, from what the program is without a swap.
func (c *call) rewrite(ctx context.Context, p *program, j *journal) error {
	if err := p.unswap(ctx, j); err != nil {
		return err
	}
	if err := c.swap(ctx, p); err != nil {
		return err
	}
	if err := p.revendor(ctx, j); err != nil {
		return err
	}
	why, err := c.outdated(ctx, p)
	if err == nil && why != "" {
		err = fmt.Errorf("the swap has no effect: %s", why)
	}
	return err
}

// mayOverwrite returns an error if the place of the copy holds something else.
func (p *program) mayOverwrite() error {
	dir := filepath.Join(p.root, filepath.FromSlash(thirdParty))
	if _, err := os.Lstat(dir); err != nil {
		return nil
	}
	s, err := readState(p.root)
	if err != nil {
		return err
	}
	if s == nil {
		return fmt.Errorf("%s is there already, and not by swap", thirdParty)
	}
	sum, err := sumCopy(p.root)
	if err == nil && sum != s.Copy {
		err = fmt.Errorf("%s was changed since swap made it: take that back, or remove it", thirdParty)
	}
	return err
}

// swap makes the copy and changes go.mod and go.sum, which are not swapped yet.
func (c *call) swap(ctx context.Context, p *program) error {
	env, err := p.alone()
	if err != nil {
		return err
	}
	m, err := c.same(ctx, p, env)
	if err != nil {
		return err
	}
	before, err := p.read(ctx, "mod", p.mod)
	if err != nil {
		return err
	}
	s, err := c.place(ctx, p, m)
	if err != nil {
		return err
	}
	required, _ := before.requires(ourModule)
	s.Had, s.Replaced = required != "", before.replaces(m.Version)
	edits := append([]string{"mod", "edit", replacement(m.Version, "./"+thirdParty)}, c.library.edits(s.Had)...)
	if _, err := p.run(ctx, nil, append(edits, p.mod)...); err != nil {
		return err
	}
	if _, err := p.run(ctx, env, "mod", "tidy"); err != nil {
		return err
	}
	return s.noteAfter(ctx, p, before)
}

// place makes the copy in the program, and returns what there is to say of it.
func (c *call) place(ctx context.Context, p *program, m *module) (*state, error) {
	if err := known(m); err != nil {
		return nil, err
	}
	s := &state{Version: m.Version, Source: m.source(), Library: c.library.String()}
	if m.isDir() {
		var err error
		if s.SourceSum, err = sumTree(m.Dir); err != nil {
			return nil, err
		}
	}
	copied := filepath.Join(p.root, filepath.FromSlash(thirdParty))
	if err := c.copyModule(ctx, p, m, copied); err != nil {
		return nil, err
	}
	if err := keepBefore(p, copied, m); err != nil {
		return nil, err
	}
	var err error
	s.Copy, err = sumCopy(p.root)
	return s, err
}

// same returns the client-go of the program, and an error if the workspace that is in
// force builds another version: a replace of one would be without effect in the other.
func (c *call) same(ctx context.Context, p *program, env []string) (*module, error) {
	m, err := p.clientGo(ctx, env)
	if err != nil || p.work == "" {
		return m, err
	}
	shared, err := p.unvendored()
	if err != nil {
		return nil, err
	}
	w, err := p.list(ctx, shared)
	if err != nil {
		return nil, err
	}
	if w.Version != m.Version {
		return nil, fmt.Errorf("the workspace builds %s %s, and the module %s: run `go work sync`, or with GOWORK=off", theirModule, w.Version, m.Version)
	}
	return m, nil
}

// keepBefore puts into the copy what -undo and a reader need.
func keepBefore(p *program, copied string, m *module) error {
	readme := fmt.Sprintf(readmeText, m.source())
	if err := writeFile(filepath.Join(copied, readmeFile), []byte(readme)); err != nil {
		return err
	}
	if err := copyFile(p.mod, filepath.Join(copied, modBefore)); err != nil {
		return err
	}
	return copyIfThere(sumOf(p.mod), filepath.Join(copied, sumBefore))
}

const readmeText = `# A copy of %s

Its package util/workqueue consists of names for github.com/seed16c08ea7/workqueue, so
that all dependencies of this program use that queue. Tests and examples are left out,
and nothing else is changed.

It was made by ` + "`swap -w`" + ` of that module. Do not edit it. After an upgrade of client-go,
run ` + "`swap -w`" + ` again; ` + "`swap -check`" + ` says whether that is due, and ` + "`swap -undo`" + ` takes the
copy out. The files swap.* are what that needs.
`

// noteAfter completes the state with what has come of go.mod, and writes it.
func (s *state) noteAfter(ctx context.Context, p *program, before *modFile) (err error) {
	after, err := p.read(ctx, "mod", p.mod)
	if err != nil {
		return err
	}
	s.Lifted = lifted(before, after)
	if s.ModAfter, err = sumFile(p.mod); err != nil {
		return err
	}
	if s.SumAfter, err = sumFile(sumOf(p.mod)); err != nil {
		return err
	}
	return s.write(p.root)
}

// lifted returns the requirements that are in both files with different versions, and
// the go line.
func lifted(before, after *modFile) map[string][2]string {
	changed := map[string][2]string{}
	if before.Go != after.Go {
		changed["go"] = [2]string{before.Go, after.Go}
	}
	for _, r := range before.Require {
		if now, _ := after.requires(r.Path); now != "" && now != r.Version {
			changed[r.Path] = [2]string{r.Version, now}
		}
	}
	return changed
}

// replaces returns by what a go.mod replaces this version of client-go alone.
func (m *modFile) replaces(version string) string {
	for _, r := range m.Replace {
		if r.Old.Path == theirModule && r.Old.Version == version {
			return strings.TrimSuffix(r.New.Path+"@"+r.New.Version, "@")
		}
	}
	return ""
}

// vendor returns the vendor folder that builds use: that of the workspace if it is in
// force and has one.
func (p *program) vendor() (string, error) {
	if p.work == "" {
		return "vendor", nil
	}
	rel, err := filepath.Rel(p.root, filepath.Join(filepath.Dir(p.work), "vendor"))
	if err != nil {
		return "", err
	}
	list, err := os.ReadFile(filepath.Join(p.root, rel, "modules.txt"))
	if err == nil && bytes.HasPrefix(list, []byte("## workspace")) {
		return filepath.ToSlash(rel), nil
	}
	return "vendor", nil
}

// revendor makes the vendor folder anew, if there is one that go has made.
func (p *program) revendor(ctx context.Context, j *journal) error {
	vendor, err := p.vendor()
	if err != nil {
		return err
	}
	list, err := os.ReadFile(filepath.Join(j.path(vendor), "modules.txt"))
	if err != nil {
		return nil
	}
	if err := j.setAside(vendor); err != nil {
		return err
	}
	kind, work := "mod", "off"
	if bytes.HasPrefix(list, []byte("## workspace")) {
		kind, work = "work", p.work
	}
	env, err := p.settings(work)
	if err != nil {
		return err
	}
	_, err = p.run(ctx, env, kind, "vendor")
	return err
}
