package main

import (
	"context"
	"errors"
	"os"
)

// undo removes the copy last, so a second undo can finish an interrupted undo. The directory
// third_party stays: the user may have made the directory.
func (c *call) undo(ctx context.Context, p *program) error {
	n, a, err := c.begin(ctx, p)
	if err != nil {
		return err
	}
	if n == nil && !a.swapped {
		return errors.New("the program is not swapped")
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

// unswap brings an alternate go.mod to the state that the program would have without the
// swap. A go.mod that is not swapped stays as it is.
func (a *alternate) unswap(ctx context.Context, n *notes) error {
	now, err := a.edit(ctx)
	if err != nil {
		return err
	}
	if a.swapped = len(now.replacedByCopy()) > 0; n == nil && !a.swapped {
		return nil
	}
	if n == nil { // Then only the requirement of the library is known to be added.
		n = &notes{Changed: map[string][2]string{"-require=" + ourModule + "@": {}}}
	}
	edits := now.takeBack(n.Changed)
	if len(edits) == 0 {
		return nil
	}
	return a.tidy(ctx, edits...)
}
