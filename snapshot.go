package workqueue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ItemState is what a queue has an item for.
type ItemState uint8

// An item can be waiting beside being any of the others.
const (
	ItemQueued        ItemState = 1 + iota // in line for a worker
	ItemInFlight                           // held by a worker
	ItemInFlightAgain                      // the same, and added again since
	ItemWaiting                            // waiting for its due time
)

// String returns the state in words.
func (s ItemState) String() string {
	switch s {
	case ItemQueued:
		return "queued"
	case ItemInFlight:
		return "in flight"
	case ItemInFlightAgain:
		return "in flight, added again"
	case ItemWaiting:
		return "waiting"
	}
	return fmt.Sprintf("ItemState(%d)", uint8(s))
}

// ItemInfo is what a queue knows of an item.
type ItemInfo[T comparable] struct {
	Item  T
	State ItemState
	// For is how long the item has been in that state; an item that is in
	// flight, since its Get. It is negative if not known: a queue notes times
	// only if it has metrics or KeepTimes.
	For time.Duration
	// Due is when a waiting item will be added.
	Due time.Time
	// Place is how many items come before a queued or waiting one, and -1 where
	// a [Queue] decides the order or the item is in flight.
	Place int
	// Failures is what the limiter of a [TypedRateLimiting] says, if it has one.
	Failures int
}

// Snapshot is what a queue holds at one instant. It is for people, tests and
// reports: by the time it is looked at, the queue has gone on.
//
// The slices hold no more items than the limit that was asked for, and the
// totals count all of them. Queued and Waiting are in the order in which the
// items will be handed out or added, InFlight has those held longest first.
// Where there are more items in flight, or in a [Queue], than the limit, it is
// not specified which of them are shown.
//
// A Snapshot is a copy: it may be changed, and does not change.
type Snapshot[T comparable] struct {
	Queued, InFlight, Waiting                []ItemInfo[T]
	QueuedTotal, InFlightTotal, WaitingTotal int
}

// String returns the totals and a line for each item, to be printed.
func (s Snapshot[T]) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d queued, %d in flight, %d waiting", s.QueuedTotal, s.InFlightTotal, s.WaitingTotal)
	for _, info := range slices.Concat(s.InFlight, s.Queued, s.Waiting) {
		fmt.Fprintf(&b, "\n%v: %v", info.Item, info.State)
		if info.For >= 0 {
			fmt.Fprintf(&b, " for %v", info.For)
		}
		if info.State == ItemWaiting {
			fmt.Fprintf(&b, ", due %v", info.Due.Format(time.RFC3339Nano))
		}
		if info.Failures > 0 {
			fmt.Fprintf(&b, ", %d failures", info.Failures)
		}
	}
	return b.String()
}

// Snapshot returns what the queue holds, with at most limit items of each
// state. All of it is of one instant. Everybody waits while it is copied, for a
// time in proportion to limit, and beside a [Queue] to the number of items.
func (q *Typed[T]) Snapshot(limit int) Snapshot[T] {
	return q.snapshot(limit, q.metrics.now())
}

func (q *Typed[T]) snapshot(limit int, now time.Duration) (s Snapshot[T]) {
	c := q.census(limit)
	c.describe(&s, now, q.metrics != nil)
	return s
}

// sortInFlight puts first what has been held longest. The fifo keeps no order of what
// is held.
func (s *Snapshot[T]) sortInFlight() {
	slices.SortStableFunc(s.InFlight, func(a, b ItemInfo[T]) int { return cmp.Compare(b.For, a.For) })
}

// Snapshot returns what the queue and the one below it hold, with at most limit
// items of each state; for the rest see [Typed.Snapshot]. If the queue below
// was configured and is not a [Typed] without a [Queue], it is looked into
// first, and not at the same instant; one that has no Snapshot has only its Len
// as the total of what is queued.
func (q *TypedDelaying[T]) Snapshot(limit int) Snapshot[T] {
	now := q.now()
	c := census[T]{limit: max(0, limit)}
	var s Snapshot[T]
	if q.typed == nil {
		s = snapshotBelow(q.queue, limit)
		c.makeRoomForWaiting(q.waits())
		q.collectWaiting(&c)
	} else {
		stamp := q.stamp(now)
		c.makeRoom(q.typed.sizes())
		c.makeRoomForWaiting(q.waits())
		q.collect(&c)
		c.describe(&s, stamp, q.typed.metrics != nil)
	}
	c.describeWaiting(&s, now, q.epoch)
	return s
}

// waits returns how many items wait at the moment, to make room for them.
func (q *TypedDelaying[T]) waits() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.agenda.len()
}

func (q *TypedDelaying[T]) collectWaiting(c *census[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.addWaiting(&q.agenda)
}

// collect enters both layers at one instant, so that an item that becomes due is in
// one of them.
func (q *TypedDelaying[T]) collect(c *census[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.typed.mu.Lock()
	defer q.typed.mu.Unlock()
	q.typed.fifo.enterIn(c)
	c.addWaiting(&q.agenda)
}
