package fifo

import "context"

// A Watcher is told of the next add of a held item: the add ends the context of the
// watcher. An item may have more than one watcher.
type Watcher struct {
	Ctx    context.Context
	Cancel context.CancelCauseFunc
	more   *Watcher
}

// Endings are the causes with which the contexts of watchers end.
type Endings struct {
	ReAdded error // the item was added again
	Removed error // LetGoOfHeld has let go of the item
}

// live returns the watchers whose contexts have not ended, nil for none. The zero Watcher
// counts as ended.
func (w Watcher) live() (more *Watcher) {
	if w.more != nil {
		more = w.more.live()
	}
	if w.Ctx == nil || w.Ctx.Err() != nil {
		return more
	}
	return &Watcher{w.Ctx, w.Cancel, more}
}
