package workqueue

import "time"

// This file is what a fifo with a storage or ranks does around a hand-out: what it
// tells a storage that holds items back, and with which priority an item that was
// added again is queued.

// touch is addAgain for an item that is queued.
func (f *fifo[T]) touch(i uint32, r *record[T]) {
	g := f.storage
	k := g.ask()
	switch r.state {
	case ranked:
		g.ranks.lift(i, g.resolve(k, r.item))
	case inStorage:
		f.dry = false
		g.touch(r.item, k)
		g.learn(i, k)
		f.askReady()
	default: // In line, where the order is not its priority's.
		if k.named {
			g.priorities.set(i, max(g.priorities.of(i), k.priority))
		}
	}
}

// rankAgain notes the priority of the add of an item that is held, for done: that of
// this add, or of several the highest. What the add says of it is noted before the
// order is asked, which may not return.
func (f *fifo[T]) rankAgain(i uint32, r *record[T], several bool) {
	g := f.storage
	k := g.ask()
	if g.ranks == nil && g.prioritized == nil {
		return
	}
	before := g.priorities.of(i)
	if !several {
		g.priorities.set(i, k.priority)
	}
	p := g.resolve(k, r.item)
	if several {
		p = max(p, before)
	}
	g.priorities.set(i, p)
}

// enqueueAgain is enqueue for a record that was held and added again. The storage hears
// that the hand-out is over before the item is pushed, and when it is in line.
func (f *fifo[T]) enqueueAgain(i uint32, r *record[T]) {
	g := f.storage
	switch {
	case g == nil:
		r.pos = f.line.push(i)
	case g.ranks != nil:
		r.state = ranked
		f.stored++
		r.pos = g.ranks.pushAgain(i, g.priorities.of(i))
	default:
		r.pos = f.line.push(i)
		g.done(r.item)
		g.asked = rankOf(g.priorities.of(i))
		f.store(i, r)
	}
}

// doneHolding is the rest of done for a record that was not added again. It is
// forgotten before the storage hears of it.
func (f *fifo[T]) doneHolding(at uint32, r *record[T]) {
	item := r.item
	f.forget(at, r)
	f.storage.done(item)
	f.askReady()
}

// tellPutBack tells a storage that the hand-out of an item is over which has left the
// line without one. It may have come there by putBack. If it has not, the storage does
// not know of it.
func (f *fifo[T]) tellPutBack(item T) {
	if f.storage != nil {
		f.storage.done(item)
		f.askReady()
	}
}

// askReadyAfterTake is askReady after a hand-out. The item is the caller's only if that returns.
// So a panic in it counts for false, and comes again when a worker looks next. If the
// goroutine ends in it, the item goes back. One that differs from itself does so as one that
// is added now, as it lost its record when it was stored.
//
// The storage is told that the hand-out of an item that differs from itself is over,
// as nobody can name it in a Done.
func (f *fifo[T]) askReadyAfterTake(item T, now time.Duration) {
	if f.storage.holding == nil {
		return
	}
	returned := false
	defer func() {
		if !returned && recover() == nil {
			f.putBack(item, now)
			f.storage.leave()
		}
	}()
	f.dry = true
	if !f.reflexive && !equal(item, item) {
		f.storage.holding.Done(item)
	}
	f.dry = !f.storage.holding.Ready()
	returned = true
}

// priorityTaken returns the priority of the item that take has just returned.
func (f *fifo[T]) priorityTaken(item T) int {
	if f.storage == nil {
		return 0
	}
	if last := len(f.held) - 1; last >= 0 {
		if i := f.held[last]; f.items.records.at(i).item == item {
			return f.storage.priorities.of(i)
		}
	}
	return f.storage.took // The item differs from itself.
}

// renumber returns what a compaction calls for each record.
func (g *storageGuard[T]) renumber() (moved func(from, to uint32, in bool)) {
	switch {
	case g == nil:
		return func(uint32, uint32, bool) {}
	case g.ranks != nil:
		return g.ranks.renumber()
	}
	old := *g.priorities
	*g.priorities = priorities{}
	return func(from, to uint32, _ bool) {
		if old.n > 0 {
			g.priorities.set(to, old.of(from))
		}
	}
}
