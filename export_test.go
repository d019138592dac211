package workqueue

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"github.com/seed16c08ea7/workqueue/internal/agenda"
	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// The tests are in another package. This file shows them what has no visible effect: the invariants
// that stand above the types, and the sizes that have a budget.

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

// Lanes returns the number of lanes, levels and groups, or the room for them.
func (q *Typed[T]) Lanes() (lanes, levels, groups int) {
	return q.fifo.Lanes()
}

// checkWaits checks that no worker waits while an item is there. The check holds whenever mu is
// free, and needs no quiescence.
func (q *Typed[T]) checkWaits(errs *slab.Check) {
	errs.That(q.parked >= 0, "%d workers wait", q.parked)
	errs.That(q.waking || len(q.wake) == 0, "a token for nobody")
	errs.That(q.parked == 0 || !q.mayWake() || q.waking, "%d workers wait beside %d items, closed: %v, and none is woken", q.parked, q.fifo.Len(), q.fifo.Closed)
	errs.That(q.pace == nil || !q.pace.Kept || q.parked > 0, "a keeper that is not parked")
	errs.That(q.idling == nil || !q.fifo.Idle(), "a wait for an idle queue in an idle queue")
	errs.That(q.fifo.Closed == q.shut.Load(), "closed: %v, ShuttingDown: %v", q.fifo.Closed, q.shut.Load())
}

// CheckQuiet returns an error if an invariant breaks that holds only while no goroutine is about to
// run: a woken worker has arrived, or no worker was there to take the token.
func (q *Typed[T]) CheckQuiet() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waking != (len(q.wake) == 1) || q.waking && q.parked > 0 {
		return fmt.Errorf("waking %v, %d tokens, %d workers wait", q.waking, len(q.wake), q.parked)
	}
	return nil
}

// Parked returns how many workers are parked or about to park.
func (q *Typed[T]) Parked() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int(q.parked)
}

// Approach makes a worker count as woken, and on its way, until the returned function is called.
func (q *Typed[T]) Approach() (arrive func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.parked++
	q.waking = true
	return func() { q.passOn(visitWoken) }
}

// Watch has f called when the held item is added again or removed by a RemoveFunc.
func (q *Typed[T]) Watch(item T, f func(cause error)) {
	if cause := q.watch(slab.HashOf(item), item, fifo.Watcher{Ctx: context.Background(), Cancel: f}); cause != nil {
		f(cause)
	}
}

// Times returns when a queued or held item was added and handed out, if the queue keeps times.
func (q *Typed[T]) Times(item T) (added, started time.Duration, kept bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.Times(slab.HashOf(item), item)
}

// PriorityNamed reports whether an add has named the priority of the item.
func (info ItemInfo[T]) PriorityNamed() bool { return info.named }

// WithNamed returns the info of an item whose priority an add has named, or not.
func (info ItemInfo[T]) WithNamed(named bool) ItemInfo[T] {
	info.named = named
	return info
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

// Attempts returns the number of items of which Run knows failures or cancels.
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
	return q.agenda.Len()
}

// Drains returns how many calls of Drain are under way, and how many items are kept for them.
func (q *TypedDelaying[T]) Drains() (drains, dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dropped != nil {
		dropped = q.dropped.agenda.Len()
	}
	return int(q.keepers), dropped
}

// Locked reports whether a goroutine has the lock.
func (q *Typed[T]) Locked() bool {
	if q.mu.TryLock() {
		q.mu.Unlock()
		return false
	}
	return true
}

// Locked is Typed.Locked.
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
	errs.That(q.agenda.Len() == 0 || q.running, "%d items wait and no goroutine does", q.agenda.Len())
	errs.That(!q.closed || q.agenda.Len() == 0, "%d items wait in a closed queue", q.agenda.Len())
	errs.That(q.keepers > 0 || q.dropped == nil, "dropped items are kept without a drain")
	errs.That(q.moves == nil, "what becomes due is noted for a RemoveFunc that has ended")
	t := q.typed
	if t == nil {
		return errs.Err()
	}
	errs.Add("", t.CheckInvariants())
	if paces := t.paces; paces != nil {
		errs.Add("paces: ", paces.full.CheckInvariants())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := uint32(0); int(i) < q.agenda.Room(); i++ {
		item := q.agenda.Items.Records.At(i).Item
		e, waits := q.agenda.Find(slab.HashOf(item), item)
		if !waits { // A free record, or a NaN.
			continue
		}
		s := t.fifo.StandOf(slab.HashOf(item), item)
		errs.That(!q.oneEntry && !e.Firm || !s.Has(fifo.StandQueued|fifo.StandAgain), "%v is queued and waits, firm %v", item, e.Firm)
		errs.That(e.Firm == s.Has(fifo.StandFirm), "%v waits, firm %v, and the queue below says %v", item, e.Firm, s.Has(fifo.StandFirm))
	}
	errs.That(q.closed || q.agenda.Firms == t.fifo.Kept(), "%d firm waits, and the queue below keeps %d", q.agenda.Firms, t.fifo.Kept())
	return errs.Err()
}

// Paced returns how many items have a bucket.
func (q *TypedDelaying[T]) Paced() int {
	t := q.typed
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paces == nil {
		return 0
	}
	return t.paces.full.Len()
}

// Sizes returns the bytes of a record for strings, of an index slot, of a waiting node, and of the
// times of an item.
func Sizes() (record_, slot_, node_, stamp_ uintptr) {
	record_, stamp_ = fifo.Sizes()
	return record_, unsafe.Sizeof(slab.Slot{}), agenda.NodeSize(), stamp_
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

// Room returns how many items there are records for.
func (r *TypedItemExponentialFailureRateLimiter[T]) Room() int { return r.failures.items.Records.N }

// Counted returns the count of failures after n.
func Counted(n uint32) uint32 { return oneMore(n) }

// LimiterSizes returns the bytes that the limiters keep for an item, without the slot and the
// record.
func LimiterSizes() (streak_, due uintptr) {
	return unsafe.Sizeof(streak{}) + 4, unsafe.Sizeof(int64(0)) + 4
}
