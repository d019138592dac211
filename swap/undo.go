package main

import (
	"context"
	"errors"
	"os"
)

// undo is -undo. The copy goes last, so that a second undo finishes one that was
// interrupted. The directory third_party stays: it may be the user's.
func (c *call) undo(ctx context.Context, p *program) error {
	now, err := p.read(ctx, "mod", p.mod)
	if err != nil {
		return err
	}
	if n, err := readNotes(p.copied()); err == nil && n == nil && len(now.replacedByCopy()) == 0 {
		return errors.New("the program is not swapped")
	}
	_, a, err := c.begin(ctx, p)
	if err != nil {
		return err
	}
	if err := copyMod(a.mod, p.mod); err != nil {
		return err
	}
	if err := p.revendor(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(p.copied()); err != nil {
		return err
	}
	c.say("took back the swap of %s", p.root)
	return nil
}

// unswap brings an alternate go.mod to what the program would have without the swap. It
// does nothing to a go.mod that is not swapped.
func (a *alternate) unswap(ctx context.Context, n *notes) error {
	now, err := a.edit(ctx)
	if err != nil {
		return err
	}
	var edits []string
	if n != nil {
		edits = now.takeBack(n.Changed)
	} else if len(now.replacedByCopy()) > 0 {
		// Without notes, only the library is known to be added.
		edits = now.takeBack(map[string][2]string{"-require=" + ourModule + "@": {}})
	}
	if len(edits) == 0 {
		return nil
	}
	if _, err := a.edit(ctx, edits...); err != nil {
		return err
	}
	return a.tidy(ctx)
}
