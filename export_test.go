package workqueue

import (
	"context"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// This file is the keyhole through which the tests, which are in a package of
// their own, see what has no effect of its own: the invariants that stand
// above the types, and the sizes that have a budget. There is one line for
// each formula.

// HashOf is the hash that a queue uses.
func HashOf[T comparable](item T) uint32 { return slab.HashOf(item) }

// An Agenda is the set of waiting items.
type Agenda[T comparable] = agenda[T]

func (a *agenda[T]) Schedule(item T, due time.Duration) (first bool) {
	return a.schedule(slab.HashOf(item), item, 0, &timing{due: due}, nil)
}
func (a *agenda[T]) Reschedule(item T, due time.Duration) (first bool) {
	return a.reschedule(slab.HashOf(item), item, 0, &timing{due: due}, nil)
}
func (a *agenda[T]) Debounce(item T, due, latest time.Duration) (first bool) {
	return a.debounce(slab.HashOf(item), item, 0, &timing{due: due, latest: latest}, nil)
}
func (a *agenda[T]) Remove(item T) bool {
	_, ok := a.remove(slab.HashOf(item), item, nil)
	return ok
}

// Earliest returns the first items in the order of Pop.
func (a *agenda[T]) Earliest(limit int) (items []T) {
	for _, n := range a.earliest(limit) {
		items = append(items, a.items.Records.At(n.ref).Item)
	}
	return items
}

func (a *agenda[T]) Pop() T {
	_, item, _ := a.pop(nil)
	return item
}
func (a *agenda[T]) Len() int            { return a.len() }
func (a *agenda[T]) Next() time.Duration { return a.next() }
func (a *agenda[T]) Ticket() uint32      { return a.ticket }
func (a *agenda[T]) Room() int           { return a.items.Records.N }
func (a *agenda[T]) Plans() uint64       { return a.plans() }

func (a *agenda[T]) PlannedBefore(plans uint64) bool { return a.due(reading{math.MaxInt64, plans}) }

// SetTicket sets the ticket of the next node, which must not be lower than that of
// a node there is.
func (a *agenda[T]) SetTicket(ticket uint32) { a.ticket = ticket }

// CheckInvariants returns what is wrong with the agenda, or nil.
func (a *agenda[T]) CheckInvariants() error {
	var errs slab.Check
	errs.Add("agenda: ", a.items.CheckInvariants())
	errs.Add("nodes: ", a.nodes.CheckInvariants())
	errs.That(a.nodes.N == a.items.Live, "agenda: %d nodes for %d records", a.nodes.N, a.items.Live)
	errs.That(a.starts.N == a.items.Records.N || !a.timed && a.starts.N == 0, "agenda: %d starts for %d records", a.starts.N, a.items.Records.N)
	for _, n := range a.sizesOfNotes() {
		errs.That(slab.PageSize*n < a.items.Records.N+slab.PageSize, "agenda: %d pages of notes for %d records", n, a.items.Records.N)
	}
	for p := range uint32(a.nodes.N) {
		n := *a.nodes.At(p)
		if p > 0 {
			parent := *a.nodes.At((p - 1) / 4)
			errs.That(!n.before(parent), "agenda: node %d %+v comes before its parent %+v", p, n, parent)
		}
		r := a.items.Records.At(n.ref)
		errs.That(r.Pos == p && r.State >= waiting && r.State <= strict, "agenda: record %d of node %d has pos %d, state %d", n.ref, p, r.Pos, r.State)
		if r.State == debounced {
			latest := *a.extras.latest.At(n.ref)
			errs.That(n.due <= latest, "agenda: %v is due at %v, the latest is %v", r.Item, n.due, latest)
		}
		if a.extras != nil {
			floor := a.extras.floors.Get(n.ref)
			errs.That(floor == 0 || floor <= n.due, "agenda: %v is due at %v, before its floor %v", r.Item, n.due, floor)
		}
		errs.That(n.ticket < a.ticket, "agenda: node %d has ticket %d of %d", p, n.ticket, a.ticket)
	}
	return errs.Err()
}

// CheckInvariants returns what is wrong with the queue, or nil.
func (q *Typed[T]) CheckInvariants() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var errs slab.Check
	errs.Add("", q.fifo.CheckInvariants())
	q.checkWaits(&errs)
	return errs.Err()
}

// SkipMarks makes the queue, which must be empty, go on with a mark.
func (q *Typed[T]) SkipMarks(mark uint16) { q.fifo.Barriers.Mark = mark }

// Lanes returns how many lanes, levels and groups there are, or for how many there is room.
func (q *Typed[T]) Lanes() (lanes, levels, groups int) {
	return q.fifo.Lanes()
}

// checkWaits checks that nobody waits for what is there. That holds whenever
// mu is free, and so needs no quiescence.
func (q *Typed[T]) checkWaits(errs *slab.Check) {
	errs.That(q.parked >= 0, "%d workers wait", q.parked)
	errs.That(q.waking || len(q.wake) == 0, "a token for nobody")
	errs.That(q.parked == 0 || !q.mayWake() || q.waking, "%d workers wait beside %d items, closed: %v, and none is woken", q.parked, q.fifo.Len(), q.fifo.Closed)
	errs.That(q.pace == nil || !q.pace.Kept || q.parked > 0, "a keeper that is not parked")
	errs.That(q.idling == nil || !q.fifo.Idle(), "a wait for an idle queue in an idle queue")
	errs.That(q.fifo.Closed == q.shut.Load(), "closed: %v, ShuttingDown: %v", q.fifo.Closed, q.shut.Load())
}

// CheckQuiet returns what is wrong when no goroutine is about to do anything:
// a worker that was woken has then arrived, or there was none to take the token.
func (q *Typed[T]) CheckQuiet() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waking != (len(q.wake) == 1) || q.waking && q.parked > 0 {
		return fmt.Errorf("waking %v, %d tokens, %d workers wait", q.waking, len(q.wake), q.parked)
	}
	return nil
}

// Waiting returns how many workers are parked or about to.
func (q *Typed[T]) Parked() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int(q.parked)
}

// Approach makes a worker be on its way, woken, until it is told to arrive.
func (q *Typed[T]) Approach() (arrive func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.parked++
	q.waking = true
	return func() { q.passOn(visitWoken) }
}

// Watch has f called when the item, if it is held, is added again.
func (q *Typed[T]) Watch(item T, f func()) {
	if q.watch(slab.HashOf(item), item, fifo.Watcher{Ctx: context.Background(), Cancel: func(error) { f() }}) != nil {
		f()
	}
}

// Times returns when a queued or held item was added and handed out, if that is
// kept.
func (q *Typed[T]) Times(item T) (added, started time.Duration, kept bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.Times(slab.HashOf(item), item)
}

// FIFO returns the queue below, if it is a Typed.
func (q *TypedDelaying[T]) FIFO() *Typed[T] {
	t, _ := q.queue.(*Typed[T])
	return t
}

// Delaying returns the queue below, if it is a TypedDelaying.
func (q *TypedRateLimiting[T]) Delaying() *TypedDelaying[T] {
	d, _ := q.queue.(*TypedDelaying[T])
	return d
}

// Attempts returns of how many items Run knows failures or cancels.
func (q *TypedRateLimiting[T]) Attempts() int {
	t := q.runTallies()
	return max(t.failed.len(), int(t.failed.failing.Load())) + t.cancels.len()
}

// Held returns how many items are handed out.
func (q *Typed[T]) Held() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.Held()
}

// Waiting returns how many items wait for their time.
func (q *TypedDelaying[T]) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.agenda.len()
}

// Drains returns how many calls of Drain are under way, and how many items are
// kept for them.
func (q *TypedDelaying[T]) Drains() (drains, dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dropped != nil {
		dropped = q.dropped.agenda.len()
	}
	return int(q.keepers), dropped
}

// Locked reports whether somebody has the lock.
func (q *Typed[T]) Locked() bool {
	if q.mu.TryLock() {
		q.mu.Unlock()
		return false
	}
	return true
}

// Locked is that of Typed.
func (q *TypedDelaying[T]) Locked() bool {
	if q.mu.TryLock() {
		q.mu.Unlock()
		return false
	}
	return true
}

// Hold takes the lock, and returns what gives it back.
func (q *Typed[T]) Hold() (release func()) {
	q.mu.Lock()
	return q.mu.Unlock
}

// Hold takes the lock, and returns what gives it back.
func (q *TypedDelaying[T]) Hold() (release func()) {
	q.mu.Lock()
	return q.mu.Unlock
}

// CheckInvariants returns what is wrong with the queue, or nil.
func (q *TypedDelaying[T]) CheckInvariants() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var errs slab.Check
	errs.Add("", q.agenda.CheckInvariants())
	errs.That(q.agenda.len() == 0 || q.running, "%d items wait and no goroutine does", q.agenda.len())
	errs.That(!q.closed || q.agenda.len() == 0, "%d items wait in a closed queue", q.agenda.len())
	errs.That(q.keepers > 0 || q.dropped == nil, "dropped items are kept without a drain")
	errs.That(q.moves == nil, "what becomes due is noted for a RemoveFunc that has ended")
	if q.typed != nil {
		errs.Add("", q.typed.CheckInvariants())
	}
	for p := uint32(0); q.oneEntry && int(p) < q.agenda.nodes.N; p++ {
		item := q.agenda.items.Records.At(q.agenda.nodes.At(p).ref).Item
		q.typed.mu.Lock()
		errs.That(!q.typed.fifo.IsQueued(slab.HashOf(item), item), "%v is queued and waits", item)
		q.typed.mu.Unlock()
	}
	return errs.Err()
}

// Sizes returns the bytes of a record for strings, an index slot, a waiting
// node and the times of an item.
func Sizes() (record_, slot_, node_, stamp_ uintptr) {
	record_, stamp_ = fifo.Sizes()
	return record_, unsafe.Sizeof(slab.Slot{}), unsafe.Sizeof(node{}), stamp_
}

// ResetProvider undoes SetProvider.
func ResetProvider() { defaultProvider.Store(nil) }

// Room returns for how many items the queue has records.
func (q *Typed[T]) Room() int { return q.fifo.Items.Records.N }

// Watchers returns how many contexts are kept for an item.
func (q *Typed[T]) Watchers(item T) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.Watchers(item)
}

// CheckInvariants returns what is wrong with the limiter, or nil.
func (r *TypedItemBackoffRateLimiter[T]) CheckInvariants() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.items.CheckInvariants()
}

// CheckInvariants returns what is wrong with the limiter, or nil.
func (r *TypedExpiringRateLimiter[T]) CheckInvariants() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.expiries.CheckInvariants()
}

// CheckInvariants returns what is wrong with the limiter, or nil.
func (r *TypedKeyBucketRateLimiter[T]) CheckInvariants() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs slab.Check
	errs.Add("promised: ", r.promised.CheckInvariants())
	errs.Add("returned: ", r.returned.CheckInvariants())
	b := &r.bucket
	errs.That(b.tokens <= float64(b.burst), "key bucket: %v tokens, burst %d", b.tokens, b.burst)
	errs.That(b.extra >= 0 && b.extra <= b.burst, "key bucket: %d extra tokens, burst %d", b.extra, b.burst)
	errs.That(b.extra == 0 || b.tokens < 0, "key bucket: %d extra tokens beside %v", b.extra, b.tokens)
	return errs.Err()
}

// CheckInvariants returns what is wrong with the limiter, or nil.
func (r *TypedItemBucketRateLimiter[T]) CheckInvariants() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.full.CheckInvariants()
}

// Room returns how many items there are records for.
func (r *TypedItemExponentialFailureRateLimiter[T]) Room() int { return r.failures.items.Records.N }

// Counted returns the count of failures after n.
func Counted(n uint32) uint32 { return oneMore(n) }

// Returned returns how many places have been given back.
func (r *TypedKeyBucketRateLimiter[T]) Returned() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.returned.len()
}

// LimiterSizes returns the bytes that the limiters keep of an item, beside its
// slot and record.
func LimiterSizes() (streak_, due uintptr) {
	return unsafe.Sizeof(streak{}) + 4, unsafe.Sizeof(int64(0)) + 4
}

// sizesOfNotes returns how many pages of notes an agenda may have.
func (a *agenda[T]) sizesOfNotes() []int {
	if a.extras == nil {
		return nil
	}
	return []int{len(a.extras.latest), len(a.extras.priorities), len(a.extras.groups), len(a.extras.floors)}
}
