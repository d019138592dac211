package fifo

import (
	"context"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// A Watcher is told of the next add of a held item: the add ends the context of the
// Watcher. An item may have more than one Watcher.
type Watcher struct {
	Ctx    context.Context
	Cancel context.CancelCauseFunc // of Ctx; called with the lock of the owner held
	more   *Watcher
}

// Endings are the causes with which the contexts of watchers end.
type Endings struct {
	ReAdded error // the item was added again
	Removed error // Remove was called for the item
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

// Watch tells the Watcher of the next add of a held item, until Done. Watch returns why the
// Watcher is not kept: the item was added already since the Take, or Remove was called for the
// item. Watchers of the item that have ended are forgotten here, so they do not pile up. All
// calls must give the same endings: a pointer of the FIFO takes less memory than one of each Watcher.
func (f *FIFO[T]) Watch(hash uint32, item T, w Watcher, endings *Endings) (over error) {
	_, r := f.Items.Find(hash, item)
	switch {
	case r == nil || !isHeld(r.State):
		return nil // Not held, or different from itself: no add can be of the same item.
	case r.State == reprocess:
		return endings.ReAdded
	case r.Note&removedNote != 0:
		return endings.Removed
	}
	if f.watchers == nil {
		f.watchers = make(map[T]Watcher)
	}
	f.endings = endings
	r.State = watched
	w.more = f.watchers[item].live()
	f.watchers[item] = w
	f.watches = max(f.watches, len(f.watchers))
	return nil
}

// tellWatchers ends the contexts of all watchers of the item.
func (f *FIFO[T]) tellWatchers(item T, cause error) {
	first := f.watchers[item]
	f.forgetWatchers(item)
	for w := &first; w != nil; w = w.more {
		w.Cancel(cause)
	}
}

// forgetWatchers forgets all watchers of the item. An empty map that was large is dropped:
// a map never shrinks.
func (f *FIFO[T]) forgetWatchers(item T) {
	delete(f.watchers, item)
	if f.watches > slab.MinRecords && len(f.watchers) == 0 {
		f.watchers, f.watches = nil, 0
	}
}
