package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
)

// undo removes the copy last, so a second undo can finish a killed undo. The directory
// third_party stays: the user may have made the directory.
func (c *call) undo(ctx context.Context, p *program) error {
	n, a, err := c.begin(ctx, p)
	if err != nil {
		return err
	}
	if n == nil && !a.swapped && !unnoted(p.copied()) {
		return errors.New("the program is not swapped")
	}
	if n != nil {
		if err := n.begin(a); err != nil {
			return err
		}
	}
	if err := a.replace(); err != nil {
		return err
	}
	if err := p.revendor(ctx); err != nil {
		return err
	}
	if err := removeCopy(p.copied()); err != nil {
		return err
	}
	c.say("took back the swap of %s", p.root)
	return nil
}

// unswap brings an alternate go.mod to the state that the program would have without the
// swap: to the text of before if nobody but swap has changed go.mod and go.sum, else by lines.
func (a *alternate) unswap(ctx context.Context, n *notes) error {
	found, err := readMod(a.mod)
	if err != nil {
		return err
	}
	if n != nil && n.know(found) {
		return n.Before.write(a.mod)
	}
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
	if _, err := a.edit(ctx, now.takeBack(n)...); err != nil {
		return err
	}
	if err := a.markIndirect(n.Changed); err != nil {
		return err
	}
	return a.tidy(ctx)
}

// markIndirect adds the comment for indirect requirements to each restored requirement,
// as `go mod edit` has no flag for the comment. Without the comment, the block of indirect
// requirements would be mixed, and a tidy would add the next requirement outside of the block. A
// tidy removes the comment from a direct requirement.
func (a *alternate) markIndirect(changed map[string][2]string) error {
	text, err := os.ReadFile(a.mod)
	if err != nil {
		return err
	}
	for line, v := range changed {
		if name, found := strings.CutPrefix(line, "-require="); found && v[1] == "" {
			// A replace that pins a module has the same words behind its arrow.
			for _, start := range []string{"\n\t", "\nrequire "} {
				back := start + strings.TrimSuffix(name, "@") + " " + v[0]
				text = bytes.ReplaceAll(text, []byte(back+"\n"), []byte(back+" // indirect\n"))
			}
		}
	}
	return os.WriteFile(a.mod, text, 0o666)
}
