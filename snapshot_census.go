package workqueue

import (
	"slices"
	"time"
)

// A census is what a Snapshot is made of: what has to be looked up while the
// locks are held, and no more, as everybody waits for that. Its room is made
// before, and the order and the infos after.
type census[T comparable] struct {
	limit                    int
	queued, flying, waiting  []entry[T]
	order                    []node // of waiting, by their places there
	lined                    int    // how many of queued are in line
	queuedTotal, flyingTotal int
	waitingTotal             int
	timed                    bool // since when is known of waiting
}

// An entry is what a queue knows of an item.
type entry[T comparable] struct {
	item  T
	state ItemState
	since time.Duration // if times are kept
}

// denseWaiting is how many waiting items there may be for each that is asked for if all
// of them are copied, at some 20 ns each, to be sorted later. To look for the
// first ones takes some 600 ns each.
const denseWaiting = 16

// census returns that of the queue.
func (q *Typed[T]) census(limit int) census[T] {
	c := census[T]{limit: max(0, limit)}
	c.makeRoom(q.sizes())
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fifo.enterIn(&c)
	return c
}

// sizes returns how much there is at the moment.
func (q *Typed[T]) sizes() (queued, flying int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.len(), len(q.fifo.held)
}

// makeRoom makes room for so many items, of which no more than the limit count.
func (c *census[T]) makeRoom(queued, flying int) {
	c.queued = roomFor[entry[T]](min(queued, c.limit))
	c.flying = roomFor[entry[T]](min(flying, c.limit))
}

// roomFor returns a slice with room for n elements. Its memory is written to, as
// what has come from the system has no pages until then.
func roomFor[E any](n int) []E {
	s := make([]E, n)
	clear(s)
	return s[:0]
}

func (c *census[T]) makeRoomForWaiting(waiting int) {
	if waiting/denseWaiting > c.limit {
		waiting = c.limit
	}
	c.waiting, c.order = roomFor[entry[T]](waiting), roomFor[node](waiting)
}

// addWaiting enters what waits: the first items, or all if they are not many
// more.
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

func (c *census[T]) enter(a *agenda[T], n node) {
	e := entry[T]{item: a.items.records.at(n.ref).item, state: ItemWaiting}
	if a.timed {
		e.since = *a.starts.at(n.ref)
	}
	n.ref = uint32(len(c.waiting))
	c.waiting = append(c.waiting, e)
	c.order = append(c.order, n)
}

// describe adds what a FIFO has entered to the Snapshot. In one that keeps no
// times nobody knows since when.
func (c *census[T]) describe(s *Snapshot[T], now time.Duration, timed bool) {
	s.QueuedTotal, s.InFlightTotal = c.queuedTotal, c.flyingTotal
	s.Queued, s.InFlight = infosOf(c.queued, now, timed), infosOf(c.flying, now, timed)
	for place := range s.Queued[:c.lined] {
		s.Queued[place].Place = place
	}
	s.sortInFlight()
}

// describeWaiting adds what waits.
func (c *census[T]) describeWaiting(s *Snapshot[T], now time.Duration, epoch time.Time) {
	slices.SortFunc(c.order, node.compare)
	s.WaitingTotal += c.waitingTotal
	first := c.order[:min(c.limit, len(c.order))]
	s.Waiting = slices.Grow(s.Waiting, len(first))
	for place, n := range first {
		info := c.waiting[n.ref].info(now, c.timed)
		info.Place, info.Due = place, epoch.Add(n.due)
		s.Waiting = append(s.Waiting, info)
	}
}

func infosOf[T comparable](entries []entry[T], now time.Duration, timed bool) (infos []ItemInfo[T]) {
	infos = slices.Grow(infos, len(entries))
	for _, e := range entries {
		infos = append(infos, e.info(now, timed))
	}
	return infos
}

func (e entry[T]) info(now time.Duration, timed bool) ItemInfo[T] {
	info := ItemInfo[T]{Item: e.item, State: e.state, Place: -1, For: -1}
	if timed {
		info.For = max(0, now-e.since)
	}
	return info
}
