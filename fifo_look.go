package workqueue

import "time"

// This file has what only reads a fifo, for snapshots and metrics.

// enterIn enters what the fifo holds in a census: the first items in line, items of
// the storage, and the first that are held. Most storages cannot be asked, so their
// items are found by a look at every record, and are in any order.
func (f *fifo[T]) enterIn(c *census[T]) {
	c.queuedTotal, c.heldTotal = f.len(), len(f.held)
	for i := range f.line.all() {
		if len(c.queued) >= c.limit {
			break
		}
		c.queued = append(c.queued, f.entry(i, ItemQueued))
	}
	c.lined = len(c.queued)
	if f.stored > 0 {
		f.enterStored(c)
	}
	for _, i := range f.held[:min(c.limit, len(f.held))] {
		state := ItemInFlight
		if f.items.records.at(i).state == reprocess {
			state = ItemInFlightAgain
		}
		c.held = append(c.held, f.entry(i, state))
	}
}

// enterStored enters the items of the storage, or of ranks.
func (f *fifo[T]) enterStored(c *census[T]) {
	if f.native() {
		f.enterRanked(c)
		return
	}
	if f.enterOrdered(c) {
		return
	}
	for i := uint32(0); int(i) < f.items.records.n && len(c.queued) < c.limit; i++ {
		if f.items.records.at(i).state == inStorage {
			c.queued = append(c.queued, f.entry(i, ItemQueued))
		}
	}
}

func (f *fifo[T]) entry(i uint32, state ItemState) censusEntry[T] {
	e := censusEntry[T]{item: f.items.records.at(i).item, state: state, ref: i}
	if f.storage != nil {
		e.priority = f.storage.priorities.of(i)
	}
	switch {
	case !f.timed:
	case state == ItemQueued:
		e.since = f.stamps.at(i).added
	default:
		e.since = f.stamps.at(i).started
	}
	return e
}

// queues reports whether the item is queued, or will be by its done.
func (f *fifo[T]) queues(hash uint32, item T) bool {
	_, r := f.items.find(hash, item)
	return r != nil && (r.state == queued || r.state == inStorage || r.state == ranked || r.state == reprocess)
}

// heldAgain returns how many of the held items have been added again.
func (f *fifo[T]) heldAgain() (n int) {
	for _, i := range f.held {
		if f.items.records.at(i).state == reprocess {
			n++
		}
	}
	return n
}

// inFlight returns for how long the held items have been held, added up and at
// most. It takes time in proportion to their number.
func (f *fifo[T]) inFlight(now time.Duration) (total, longest time.Duration) {
	for _, i := range f.held {
		held := max(0, now-f.stamps.at(i).started)
		total += held
		longest = max(longest, held)
	}
	return total, longest
}

// oldest returns the age of the item at the head of the line, which has the oldest
// stamp there, or of the oldest of all levels. A storage has an order of its own, so each
// record is looked at.
func (f *fifo[T]) oldest(now time.Duration, levels []LevelStats) (age time.Duration) {
	for _, l := range levels {
		age = max(age, l.OldestItem)
	}
	if levels != nil {
		return age
	}
	if !f.line.empty() {
		age = max(0, now-f.stamps.at(f.line.first()).added)
	}
	if f.stored == 0 {
		return age
	}
	for i := range uint32(f.items.records.n) {
		if f.items.records.at(i).state == inStorage {
			age = max(age, now-f.stamps.at(i).added)
		}
	}
	return age
}
