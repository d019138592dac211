package workqueue

import (
	"slices"
	"time"
)

// A census is what a Snapshot is made from. Every call waits while the locks are
// held, so only copying happens then. The memory is allocated before, and sorting
// and describing come after.
type census[T comparable] struct {
	limit                  int
	queued, held, waiting  []censusEntry[T]
	order                  []node // of waiting, by their places there
	lined                  int    // how many of queued are in the order of their hand-out
	turns                  turns[T]
	queuedTotal, heldTotal int
	waitingTotal           int
	timed                  bool // since when is known of waiting
}

// A censusEntry is what a queue knows of an item. It has no [ItemInfo] yet, which is
// larger: less is copied with the lock held.
type censusEntry[T comparable] struct {
	item  T
	state ItemState
	ref   uint32        // the record, for turns
	since time.Duration // if times are kept

	priority int
}

// denseWaiting decides between two ways to find the first waiting items. To copy an
// item takes some 20 ns, and all are sorted later. To find the next one in the heap
// takes some 600 ns. So all are copied if there are up to this many for each item
// that is asked for.
const denseWaiting = 16

// census makes the census of the queue. Items may come between the two critical
// sections. Then the memory does not suffice and is allocated with the lock held,
// which is rare and only slower.
func (q *Typed[T]) census(limit int) census[T] {
	c := census[T]{limit: max(0, limit)}
	q.makeRoom(&c)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fifo.enterIn(&c)
	return c
}

// makeRoom makes room for what there is at the moment, by a look of its own: to allocate
// with the lock held would keep every call waiting for the memory.
func (q *Typed[T]) makeRoom(c *census[T]) {
	queued, flying := q.sizes()
	c.makeRoom(queued, flying)
	if g := q.fifo.storage; g != nil && g.ranks != nil && g.ranks.age.every > 0 {
		c.turns.aged = roomFor[censusEntry[T]](min(queued, c.limit))
	}
}

// sizes returns how much there is at the moment. Both numbers come from one section: an
// item that goes from the one to the other in between would be missed by a drain.
func (q *Typed[T]) sizes() (queued, flying int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.len(), len(q.fifo.held)
}

// makeRoom makes room for so many items, up to the limit for each state. What comes between
// this and the census is appended, and allocated then.
func (c *census[T]) makeRoom(queued, flying int) {
	c.queued = roomFor[censusEntry[T]](min(queued, c.limit))
	c.held = roomFor[censusEntry[T]](min(flying, c.limit))
}

// roomFor returns a slice with room for n elements. It writes to the memory: fresh
// memory of the system gets its pages at the first write, which would otherwise
// happen with the lock held.
func roomFor[E any](n int) []E {
	s := make([]E, n)
	clear(s)
	return s[:0]
}

// makeRoomForWaiting makes room for what addWaiting will enter.
func (c *census[T]) makeRoomForWaiting(waiting int) {
	if waiting/denseWaiting > c.limit {
		waiting = c.limit
	}
	c.waiting, c.order = roomFor[censusEntry[T]](waiting), roomFor[node](waiting)
}

// addWaiting enters the first waiting items, or all of them if they are not many more
// than the limit, see denseWaiting. The caller holds the lock of the queue, or owns the
// agenda of one that is drained.
func (c *census[T]) addWaiting(a *agenda[T]) {
	c.waitingTotal, c.timed = a.len(), a.timed
	if a.len()/denseWaiting > c.limit {
		for _, n := range a.earliest(c.limit) {
			c.enter(a, n)
		}
		return
	}
	for p := range uint32(a.nodes.n) {
		c.enter(a, *a.nodes.at(p))
	}
}

// enter copies the item of a node, with the lock held. The copy of the node refers to
// the entry, so that the order can be found when the agenda is long unlocked.
func (c *census[T]) enter(a *agenda[T], n node) {
	e := censusEntry[T]{item: a.items.records.at(n.ref).item, state: ItemWaiting}
	if a.timed {
		e.since = *a.starts.at(n.ref)
	}
	e.priority = a.priority(n.ref)
	n.ref = uint32(len(c.waiting))
	c.waiting = append(c.waiting, e)
	c.order = append(c.order, n)
}

// describe adds what a FIFO has entered to the Snapshot, when the lock is free. The
// places are those of the hand-out, so only items that are in that order have one.
// timed says whether that FIFO keeps times: otherwise Age is not known.
func (c *census[T]) describe(s *Snapshot[T], now time.Duration, timed bool) {
	c.interleave()
	s.QueuedTotal, s.InFlightTotal = c.queuedTotal, c.heldTotal
	s.Queued, s.InFlight = infosOf(c.queued, now, timed), infosOf(c.held, now, timed)
	for place := range s.Queued[:c.lined] {
		s.Queued[place].Position = 1 + place
	}
	s.sortInFlight()
}

// describeWaiting adds the waiting items to the Snapshot. It sorts them, as most come
// in the order of the heap, and leaves out those beyond the limit.
func (c *census[T]) describeWaiting(s *Snapshot[T], now time.Duration, epoch time.Time) {
	slices.SortFunc(c.order, node.compare)
	s.WaitingTotal += c.waitingTotal
	first := c.order[:min(c.limit, len(c.order))]
	s.Waiting = slices.Grow(s.Waiting, len(first))
	for place, n := range first {
		info := c.waiting[n.ref].info(now, c.timed)
		info.Position, info.Due = 1+place, epoch.Add(n.due)
		s.Waiting = append(s.Waiting, info)
	}
}

// infosOf makes the infos when the locks are free: an info is larger than what was copied
// of the item, and to make room for it costs more than the copy.
func infosOf[T comparable](entries []censusEntry[T], now time.Duration, timed bool) (infos []ItemInfo[T]) {
	infos = slices.Grow(infos, len(entries))
	for _, e := range entries {
		infos = append(infos, e.info(now, timed))
	}
	return infos
}

// info has an Age of 0 at least: an injected clock may have been set back since.
func (e censusEntry[T]) info(now time.Duration, timed bool) ItemInfo[T] {
	info := ItemInfo[T]{Item: e.item, State: e.state, Priority: e.priority}
	if timed {
		info.Age = max(0, now-e.since)
	}
	return info
}
