package workqueue

import "time"

// This file is how a fifo keeps an order by priority itself: its records go to the
// levels of ranks and not to a foreign storage. A cycle of Add, Get and Done takes
// half the time so, see docs/decisions.md.
//
// The storage of such a fifo is a guard without a [Queue], whose ranks are set. All
// that is foreign is the Of of the options.

// newRanked returns the storage of a fifo that keeps the order itself.
func (f *fifo[T]) newRanked(options PriorityOptions[T], leave func()) *storageGuard[T] {
	place := func(i uint32) *uint32 { return &f.items.records.at(i).pos }
	r := newRanks(options.OldestEvery, place)
	return &storageGuard[T]{ranks: r, priorities: &r.priorities, of: options.Of, leave: leave}
}

// keepTimes makes a fifo one that keeps times. It has to be called before all else.
func (f *fifo[T]) keepTimes() {
	f.timed = true
	if f.storage != nil && f.storage.ranks != nil {
		f.storage.ranks.elders.added = func(i uint32) time.Duration { return f.stamps.at(i).added }
	}
}

// native reports whether no storage is called, which is foreign code.
func (f *fifo[T]) native() bool { return f.storage == nil || f.storage.ranks != nil }

// resolve returns the priority of an add of the item.
func (g *storageGuard[T]) resolve(k rank, item T) int {
	if k.named || g.of == nil {
		return k.priority
	}
	returned := false
	defer g.leaveUnless(&returned)
	p := g.of(item)
	returned = true
	return p
}

// rank puts a record that has no place yet at the end of its level.
func (f *fifo[T]) rank(i uint32, r *record[T]) {
	k := f.storage.ask()
	if !k.named && f.storage.of != nil {
		k.priority = f.classify(i, r)
	}
	r.state = ranked
	f.stored++
	r.pos = f.storage.ranks.push(i, k.priority)
}

// classify asks for the priority of a record. It is in line until Of has returned, see
// store.
func (f *fifo[T]) classify(i uint32, r *record[T]) int {
	f.storage.priorities.set(i, 0)
	r.pos = f.line.push(i)
	p := f.storage.resolve(rank{}, r.item)
	f.line.unpush()
	return p
}

// takeRanked hands out the next item in the order.
func (f *fifo[T]) takeRanked(now time.Duration) (item T, waited time.Duration, ok bool) {
	if f.stored == 0 {
		return item, 0, false
	}
	g := f.storage
	i := g.ranks.pop()
	f.stored--
	g.took = g.priorities.of(i)
	r := f.items.records.at(i)
	if f.timed {
		waited = f.stampStarted(i, now)
	}
	if !f.reflexive && !equal(r.item, r.item) {
		return f.takeUnfindable(i, r), waited, true
	}
	f.hold(i, r)
	return r.item, waited, true
}

// enterRanked enters what ranks holds, in the order of the levels, and if the oldest
// has its turns, as many by their age.
func (f *fifo[T]) enterRanked(c *census[T]) {
	r := f.storage.ranks
	c.turns.from = len(c.queued)
	r.each(func(i uint32, _ int) bool {
		if len(c.queued) >= c.limit {
			return false
		}
		c.queued = append(c.queued, f.entry(i, ItemQueued))
		return true
	})
	c.lined = len(c.queued)
	if r.age.every == 0 {
		return
	}
	c.turns.every, c.turns.since = r.age.every, r.age.since
	for i := range r.age.line.all() {
		if c.turns.from+len(c.turns.aged) >= c.limit {
			return
		}
		c.turns.aged = append(c.turns.aged, f.entry(i, ItemQueued))
	}
}
