package workqueue

import (
	"math"
	"runtime"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/slab"

	"github.com/seed16c08ea7/workqueue/internal/gate"
)

// This file has the two moves of a delayed item: into the agenda of a TypedDelaying,
// by an AddAfter, and from there to the queue below, when it is due. If that queue is
// a Typed, the second move takes both locks, first that of the delaying queue: the
// item is at any time in exactly one of the two, and Remove and Snapshot find it.

const (
	// dueBatch is how many due items are added at a time, in one critical section
	// of both queues. It bounds how long an AddAfter waits for the lock. Not tuned.
	dueBatch = 32

	// instantDelay is the longest delay for which AddAfter reads the clock twice, to
	// see whether it is over already: the readings lie some 20 ns apart. An item
	// with such a delay then needs no goroutine.
	instantDelay = 100 * time.Nanosecond
)

// addAfter is AddAfter with a rank, and reports whether the item was taken.
func (q *TypedDelaying[T]) addAfter(item T, duration time.Duration, k rank) (taken bool) {
	hash := slab.HashOf(item)
	if q.queue.ShuttingDown() {
		return false
	}
	if duration <= 0 {
		defer func() { taken = q.addNow(hash, item, k) }() // Even if the metric does not return.
		q.countRetry()
		return taken
	}
	var place placement
	return q.delay(hash, item, duration, q.place(&place, item, k))
}

// addAllAfter is addAfter for several items and a positive duration. All are hashed and the
// order is asked about all of them before the first one waits, as both can panic.
func (q *TypedDelaying[T]) addAllAfter(items []T, duration time.Duration, k rank) (taken int) {
	return q.eachPlaced(items, k, func(hash uint32, item T, p *placement) bool {
		return !q.queue.ShuttingDown() && q.delay(hash, item, duration, p)
	})
}

// eachPlaced calls add for each item with its hash and its placement, and returns how many
// of the items were taken.
func (q *TypedDelaying[T]) eachPlaced(items []T, k rank, add func(hash uint32, item T, p *placement) bool) (taken int) {
	var few [64]uint32
	hashes := few[:0]
	for _, item := range items {
		hashes = append(hashes, slab.HashOf(item))
	}
	var each []placement
	if q.typed != nil && q.typed.order != nil {
		each = q.typed.order.placeAll(items, k)
	}
	var same placement
	p := rankOnly(&same, k)
	for i, item := range items {
		if each != nil {
			p = &each[i]
		}
		if add(hashes[i], item, p) {
			taken++
		}
	}
	return taken
}

func (q *TypedDelaying[T]) countRetry() {
	if q.retries != nil {
		q.retries.Inc()
	}
}

// delay counts a retry and makes the item wait, also if the metric does not return.
func (q *TypedDelaying[T]) delay(hash uint32, item T, duration time.Duration, p *placement) (taken bool) {
	if q.retries == nil {
		return q.delayUncounted(hash, item, duration, p)
	}
	defer func() { taken = q.delayUncounted(hash, item, duration, p) }()
	q.retries.Inc()
	return taken
}

// delayUncounted is delay without the metric. For a delay that is over when the clock is
// read again, the item is due by now.
func (q *TypedDelaying[T]) delayUncounted(hash uint32, item T, duration time.Duration, p *placement) (taken bool) {
	r := q.readClock()
	due := dueAfter(r.now, duration)
	if duration <= instantDelay && q.real {
		r.now = q.now()
	}
	return q.observePromotion(q.schedule(hash, item, r, due, p))
}

// place asks the order of typed about an item, see [Order.place]. Later, when the wait ends,
// that would be with both locks held.
func (q *TypedDelaying[T]) place(p *placement, item T, k rank) *placement {
	if q.typed != nil {
		return q.typed.place(p, item, k)
	}
	return rankOnly(p, k)
}

// dueAfter returns now + duration, or the end of time if that overflows. now can be
// negative, as an injected clock may be set back to before the epoch. duration is
// not negative.
func dueAfter(now, duration time.Duration) time.Duration {
	if now > math.MaxInt64-duration {
		return math.MaxInt64
	}
	return now + duration
}

// schedule makes the item wait, or adds it if it is due by now. If no other item
// waits, it is added without a detour through the agenda. Otherwise it takes its
// place there, behind items that were due before it.
func (q *TypedDelaying[T]) schedule(hash uint32, item T, r reading, due time.Duration, p *placement) promotion {
	added := q.typedNow(r.now)
	if !q.mu.TryLock() {
		gate.LockAwake(&q.mu)
	}
	defer q.mu.Unlock()
	if q.closed {
		return promotion{}
	}
	if q.hasEntryLocked(hash, item) {
		return q.raiseLocked(hash, item, added, p)
	}
	if due <= r.now && q.typed != nil && q.agenda.len() == 0 {
		q.metrics.observeLateness(r.now - due)
		return q.promoteLocked(hash, item, added, p, false)
	}
	first := q.agenda.schedule(hash, item, r.now, due, p)
	return q.arrangeLocked(first, r, added)
}

// A promotion is what is left to do once the locks are free, after items have gone
// from the agenda to the queue below: metrics are foreign code, and must not run
// with a lock held.
type promotion struct {
	taken bool // the item of the call was taken: it waits, or is in the queue below
	added int  // how many items were no duplicates
	yield bool // a woken worker needs this goroutine's processor
}

// arrangeLocked follows each change of the agenda. It ensures that a goroutine runs
// while items wait, and that it wakes up in time. The item of the call waits. first says whether the change was
// one of the earliest due time: only then may the timer be set too late.
func (q *TypedDelaying[T]) arrangeLocked(first bool, r reading, added time.Duration) promotion {
	if !q.real {
		q.planned.Store(q.agenda.plans())
	}
	a := q.hurryLocked(r, added)
	a.taken = true
	switch {
	case q.agenda.len() == 0:
		if q.running {
			q.poke()
		}
	case !q.running:
		q.running = true
		q.loops.Enter()
		go q.loop()
	case first || q.agenda.next() <= r.now:
		q.poke()
	}
	return a
}

// hurryLocked adds items that are due by now, in place of waitingLoop. The loop may
// be late: processors look at timers only when they look for work. If all of them
// are busy with goroutines that call AddAfter in a loop, that is every 10 ms or more.
// So each AddAfter adds what is due.
//
// The worker that is woken for it is late for the same reason. So every AddAfter
// yields until the worker has arrived. To yield once is not enough, because a
// goroutine that is handed a lock runs before the worker. See
// TestFloodOfAddAfterDoesNotHoldUpWhatIsDue and docs/decisions.md.
//
// If adding calls foreign code, they yield to the loop instead: it must not run with
// the lock held, and if it panicked, arrangeLocked would not come to its end.
func (q *TypedDelaying[T]) hurryLocked(r reading, added time.Duration) (a promotion) {
	behind := q.agenda.due(r)
	switch {
	case q.typed == nil || q.typed.fifo.storage != nil:
		a.yield = behind
	case behind:
		a = q.moveDueLocked(r, added)
		q.urgent = a.yield
	case q.urgent:
		q.urgent = q.typed.isWaking()
		a.yield = q.urgent
	}
	return a
}

// moveDueLocked moves up to a batch of due items to typed. It is one critical section
// of typed, with one wake-up at its end. waking is read after settle, which may have
// set it.
func (q *TypedDelaying[T]) moveDueLocked(r reading, added time.Duration) (a promotion) {
	q.typed.mu.Lock()
	for n := 0; n < dueBatch && q.agenda.len() > 0 && q.agenda.due(r); n++ {
		q.metrics.observeLateness(r.now - q.agenda.next())
		var place placement
		hash, item, p := q.agenda.pop(&place)
		if q.typed.addLocked(hash, item, added, p) {
			a.added++
		}
	}
	q.typed.settle()
	a.yield = q.typed.waking
	q.typed.mu.Unlock()
	return a
}

// isWaking reports whether a worker has been woken and is not there yet.
func (q *Typed[T]) isWaking() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waking
}

// promoteLocked adds the item to typed, and ends its wait if it waits. Both happen
// under both locks, or a Snapshot could show the item twice or not at all.
func (q *TypedDelaying[T]) promoteLocked(hash uint32, item T, added time.Duration, p *placement, keep bool) (a promotion) {
	var place placement
	said := p
	if wait, waited := q.unplanLocked(hash, item, &place); waited {
		p = p.endWait(wait, keep)
	}
	gate.LockSoon(&q.typed.mu)
	a.taken = !q.typed.fifo.closed
	q.typed.fifo.hear(said)
	if q.typed.addLocked(hash, item, added, p) {
		a.added = 1
	}
	q.typed.settle()
	q.typed.mu.Unlock()
	return a
}

// endWait returns the placement of an add that ends a wait. The wait keeps its group, and
// with keep its rank. Otherwise the higher priority counts. Of the group of the wait, the add
// knows better.
func (p *placement) endWait(wait *placement, keep bool) *placement {
	higher := !keep && p.number() > wait.number()
	switch {
	case wait == nil && higher:
		return p
	case wait == nil:
		return nil
	case higher:
		wait.rank = p.rankOf()
	}
	if p != nil && p.weight > 0 && p.group == wait.group {
		wait.weight, wait.limit, wait.waited = p.weight, p.limit, false
	}
	return wait
}

// unplanLocked ends the wait of the item, and reports whether it waited, and its placement,
// for which the caller gives the memory. If that was the last wait, the goroutine has to
// look again, and ends.
func (q *TypedDelaying[T]) unplanLocked(hash uint32, item T, memory *placement) (p *placement, waited bool) {
	if q.agenda.len() == 0 {
		return nil, false
	}
	if p, waited = q.agenda.remove(hash, item, memory); waited && q.agenda.len() == 0 {
		q.poke()
	}
	return p, waited
}

// observePromotion does what is left to do when the locks are free, and reports whether the
// item of the call was taken.
func (q *TypedDelaying[T]) observePromotion(a promotion) (taken bool) {
	if a.added > 0 {
		q.typed.observeAdds(a.added)
	}
	if a.yield {
		runtime.Gosched()
	}
	return a.taken
}

// typedNow returns the time that typed notes for an item that is added now. If typed has
// a clock of its own, that is read, and before any lock is taken: it may be foreign
// code.
func (q *TypedDelaying[T]) typedNow(now time.Duration) time.Duration {
	if q.aligned || q.typed == nil {
		return now
	}
	return q.typed.metrics.now()
}

// hasEntryLocked reports whether OneEntry keeps the item from waiting. The caller
// plans it in the same critical section: an Add takes the lock too, and so cannot come
// in between.
func (q *TypedDelaying[T]) hasEntryLocked(hash uint32, item T) bool {
	return q.oneEntry && q.typed.isQueued(hash, item)
}

// raiseLocked follows a delayed add that has found an entry. Nothing waits for it, but
// its priority counts, and a Queue is told of it as of any other add.
func (q *TypedDelaying[T]) raiseLocked(hash uint32, item T, added time.Duration, p *placement) (a promotion) {
	if p != nil || q.typed.hasOrder() {
		a = q.promoteLocked(hash, item, added, p, false)
	}
	a.taken = true
	return a
}

// isQueued reports whether the item is queued, or will be by its Done.
func (q *Typed[T]) isQueued(hash uint32, item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.isQueued(hash, item)
}

// hasOrder reports whether the items are in anything but the line.
func (q *Typed[T]) hasOrder() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.lanes != nil || q.fifo.storage != nil
}

// addNow adds the item at once. With OneEntry that ends the wait of the item.
func (q *TypedDelaying[T]) addNow(hash uint32, item T, k rank) (taken bool) {
	if !q.oneEntry {
		return addBelow(q.queue, item, k)
	}
	var place placement
	return q.promote(hash, item, q.place(&place, item, k), false)
}

// promote adds the item and ends its wait. With keep, the item keeps the rank that it waits
// with. If adding is foreign code, these are two steps, as no lock may be held in the
// second. The wait ends first: in the other order the loop could add the item once more,
// after a worker has got it.
func (q *TypedDelaying[T]) promote(hash uint32, item T, p *placement, keep bool) (taken bool) {
	if q.typed == nil {
		var place placement
		if wait, waited := q.unplan(hash, item, &place); waited {
			p = p.endWait(wait, keep)
		}
		return addBelow(q.queue, item, p.rankOf())
	}
	return q.observePromotion(q.promoteTyped(hash, item, q.typedNow(q.now()), p, keep))
}

func (q *TypedDelaying[T]) promoteTyped(hash uint32, item T, added time.Duration, p *placement, keep bool) promotion {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.promoteLocked(hash, item, added, p, keep)
}

// unplan is unplanLocked for a caller without the lock.
func (q *TypedDelaying[T]) unplan(hash uint32, item T, memory *placement) (p *placement, waited bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unplanLocked(hash, item, memory)
}

func (q *TypedDelaying[T]) reschedule(hash uint32, item T, r reading, due time.Duration, p *placement) promotion {
	added := q.typedNow(r.now)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.hasEntryLocked(hash, item) {
		return promotion{taken: !q.closed}
	}
	first := q.agenda.reschedule(hash, item, r.now, due, p)
	return q.arrangeLocked(first, r, added)
}

func (q *TypedDelaying[T]) debounce(hash uint32, item T, r reading, due, latest time.Duration, p *placement) promotion {
	added := q.typedNow(r.now)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return promotion{}
	}
	if q.hasEntryLocked(hash, item) {
		return q.raiseLocked(hash, item, added, p)
	}
	first := q.agenda.debounce(hash, item, r.now, due, latest, p)
	return q.arrangeLocked(first, r, added)
}

func (q *TypedDelaying[T]) removeTyped(hash uint32, item T) (waited, added bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, waited = q.unplanLocked(hash, item, nil)
	return waited, q.typed.remove(hash, item)
}
