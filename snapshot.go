package workqueue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ItemInfo is what a queue knows of an item. A field is zero where it does not apply
// or is not known, and JSON leaves it out then. The times in JSON are those of
// encoding/json: an Age in nanoseconds, a Due in RFC 3339.
type ItemInfo[T comparable] struct {
	Item  T         `json:"item"`
	State ItemState `json:"state,omitzero"`

	// Age is how long the item has been in that state; an item that is in
	// flight, since its Get. A queue notes times only if it has metrics or
	// KeepTimes.
	Age time.Duration `json:"age,omitzero"`

	// Due is when a waiting item will be added.
	Due time.Time `json:"due,omitzero"`

	// Position is 1 for the item that is handed out or added next, 2 for the one
	// behind it, and so on. It is 0 for an item in flight, and where a [Queue]
	// decides the order.
	Position int `json:"position,omitzero"`

	// Failures is what the limiter of a [TypedRateLimiting] says, if it has one.
	Failures int `json:"failures,omitzero"`

	// Priority is that which the item is queued or waits with, or was handed out
	// with, or that of the add that its Done will queue it for. It is 0 if nobody
	// has named one and no order knows one. What a [PrioritizedQueue] of another make
	// stores has the highest that its adds have named.
	Priority int `json:"priority,omitzero"`
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
	Queued   []ItemInfo[T] `json:"queued,omitempty"`
	InFlight []ItemInfo[T] `json:"inFlight,omitempty"`
	Waiting  []ItemInfo[T] `json:"waiting,omitempty"`
	// Failed has what has failed when no retry could come any more. Only what a Run
	// has left has it, see [RunOptions].OnStop.
	Failed []ItemInfo[T] `json:"failed,omitempty"`

	QueuedTotal   int `json:"queuedTotal"`
	InFlightTotal int `json:"inFlightTotal"`
	WaitingTotal  int `json:"waitingTotal"`
	FailedTotal   int `json:"failedTotal,omitzero"`
}

// String returns the totals and a line for each item, to be printed.
func (s Snapshot[T]) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d queued, %d in flight, %d waiting", s.QueuedTotal, s.InFlightTotal, s.WaitingTotal)
	if s.FailedTotal > 0 {
		fmt.Fprintf(&b, ", %d failed", s.FailedTotal)
	}
	for _, info := range slices.Concat(s.InFlight, s.Queued, s.Failed, s.Waiting) {
		fmt.Fprintf(&b, "\n%v: %v", info.Item, info.State)
		if info.Age > 0 {
			fmt.Fprintf(&b, " for %v", info.Age)
		}
		if info.State == ItemWaiting && !info.Due.IsZero() {
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
	slices.SortStableFunc(s.InFlight, func(a, b ItemInfo[T]) int { return cmp.Compare(b.Age, a.Age) })
}

// Snapshot returns what the queue and the one below it hold, with at most limit
// items of each state; for the rest see [Typed.Snapshot]. If the queue below
// was configured and is not a [Typed] without a [Queue], it is looked into
// first, and not at the same instant.
func (q *TypedDelaying[T]) Snapshot(limit int) Snapshot[T] {
	now := q.now()
	c := census[T]{limit: max(0, limit)}
	var s Snapshot[T]
	if q.typed == nil {
		s = below[snapshotter[T]](q.queue, "Snapshot").Snapshot(limit)
		c.makeRoomForWaiting(q.waits())
		q.collectWaiting(&c)
	} else {
		typedNow := q.typedNow(now)
		q.typed.makeRoom(&c)
		c.makeRoomForWaiting(q.waits())
		q.collect(&c)
		c.describe(&s, typedNow, q.typed.metrics != nil)
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
