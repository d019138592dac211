package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// undo is -undo.
func (c *call) undo(ctx context.Context, p *program) error {
	if err := putBack(p.root, c.say); err != nil {
		return err
	}
	s, now, err := p.swapped(ctx)
	if err != nil {
		return err
	}
	if s == nil && len(ourReplaces(now)) == 0 {
		return errors.New("the program is not swapped")
	}
	if err := p.mayOverwrite(); err != nil {
		return err
	}
	err = c.change(ctx, p, func(j *journal) error {
		if err := p.unswap(ctx, j); err != nil {
			return err
		}
		return p.revendor(ctx, j)
	})
	if err == nil {
		removeEmpty(filepath.Join(p.root, "third_party"), p.root)
		c.say("took back the swap of %s", p.root)
	}
	return err
}

// swapped returns the state, or nil if there is none, and go.mod.
func (p *program) swapped(ctx context.Context) (*state, *modFile, error) {
	s, err := readState(p.root)
	if err != nil {
		return nil, nil, err
	}
	now, err := p.read(ctx, "mod", p.mod)
	return s, now, err
}

// ourReplaces returns the versions of client-go that a go.mod replaces by the copy.
func ourReplaces(m *modFile) (versions []string) {
	for _, r := range m.Replace {
		if r.Old.Path == theirModule && r.New.Path == "./"+thirdParty {
			versions = append(versions, r.Old.Version)
		}
	}
	return versions
}

// unswap brings go.mod and go.sum to where they would be without the swap, and sets
// the copy aside. It does nothing to a program that is not swapped.
func (p *program) unswap(ctx context.Context, j *journal) error {
	s, now, err := p.swapped(ctx)
	if err != nil {
		return err
	}
	if s == nil && len(ourReplaces(now)) == 0 {
		return nil
	}
	if s != nil && s.untouched(p.root) {
		return cmp.Or(p.restore(), j.setAside(thirdParty))
	}
	if err := j.setAside(thirdParty); err != nil {
		return err
	}
	if _, err := p.run(ctx, nil, append(append([]string{"mod", "edit"}, without(now, s)...), p.mod)...); err != nil {
		return err
	}
	env, err := p.alone()
	if err != nil {
		return err
	}
	_, err = p.run(ctx, env, "mod", "tidy")
	return err
}

// restore writes go.mod and go.sum as they were.
func (p *program) restore() error {
	copied := filepath.Join(p.root, filepath.FromSlash(thirdParty))
	if err := copyFile(filepath.Join(copied, modBefore), p.mod); err != nil {
		return err
	}
	err := copyFile(filepath.Join(copied, sumBefore), sumOf(p.mod))
	if errors.Is(err, fs.ErrNotExist) {
		return os.Remove(sumOf(p.mod))
	}
	return err
}

// without are the edits that take the swap out of a go.mod that has changed since.
// What the swap had lifted falls to where it was, if nobody has moved it since. The
// library goes too, unless somebody has begun to import it.
func without(now *modFile, s *state) (edits []string) {
	for _, version := range ourReplaces(now) {
		old := theirModule
		if version != "" {
			old += "@" + version
		}
		edits = append(edits, "-dropreplace="+old)
	}
	if s == nil {
		return edits
	}
	return append(edits, s.without(now)...)
}

// without are the edits for what the state knows.
func (s *state) without(now *modFile) (edits []string) {
	if s.Replaced != "" {
		edits = append(edits, "-replace="+theirModule+"@"+s.Version+"="+s.Replaced)
	}
	if required, indirect := now.requires(ourModule); required != "" && indirect && !s.Had {
		edits = append(edits, "-droprequire="+ourModule)
		if now.replacesBy(ourModule, s.Library) {
			edits = append(edits, "-dropreplace="+ourModule)
		}
	}
	return append(edits, s.lower(now)...)
}

// lower are the edits that let fall what was lifted.
func (s *state) lower(now *modFile) (edits []string) {
	for path, versions := range s.Lifted {
		if required, _ := now.requires(path); required == versions[1] {
			edits = append(edits, "-require="+path+"@"+versions[0])
		}
	}
	if versions := s.Lifted["go"]; versions[1] != "" && now.Go == versions[1] {
		edits = append(edits, "-go="+versions[0])
	}
	return edits
}
