package workqueue

import (
	"math"
	"runtime"
	"time"
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

// AddAfter adds the item once the duration has passed, at once if it is zero
// or negative. An item that already waits stays due at the earlier of the two
// times; an Add does not change when, or that, it is due, unless OneEntry is set. A
// duration that ends beyond the range of the clock never ends.
//
// Items due at different times are added in the order of these, those due at
// the same time in the order of their AddAfter. After a shutdown, AddAfter
// does nothing, and items that still wait are dropped.
//
// AddAfter does not block, and the item waits when it returns. It takes
// O(log n) time in the number of waiting items.
func (q *TypedDelaying[T]) AddAfter(item T, duration time.Duration) {
	q.addAfterWith(item, duration, 0)
}

// addAfterWith is AddAfter, with the Priority of [AddOptions].
func (q *TypedDelaying[T]) addAfterWith(item T, duration time.Duration, priority int) {
	hash := hashOf(item)
	if q.queue.ShuttingDown() {
		return
	}
	if q.retries == nil {
		q.addAfter(hash, item, duration, priority)
		return
	}
	defer q.addAfter(hash, item, duration, priority) // Even if the metric does not return.
	q.retries.Inc()
}

// addAfter is AddAfter without the metric. For a delay that is over when the clock
// is read again, the item is due by now.
func (q *TypedDelaying[T]) addAfter(hash uint32, item T, duration time.Duration, priority int) {
	if duration <= 0 {
		q.addNow(hash, item, priority)
		return
	}
	priority = q.resolve(item, priority)
	r := q.readClock()
	due := dueAfter(r.now, duration)
	if duration <= instantDelay && q.real {
		r.now = q.now()
	}
	q.observePromotion(q.schedule(hash, item, r, due, priority))
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
func (q *TypedDelaying[T]) schedule(hash uint32, item T, r reading, due time.Duration, priority int) promotion {
	added := q.typedNow(r.now)
	if !q.mu.TryLock() {
		lockAwake(&q.mu)
	}
	defer q.mu.Unlock()
	if q.closed {
		return promotion{}
	}
	if q.hasEntryLocked(hash, item) {
		return q.raiseLocked(hash, item, added, priority)
	}
	if due <= r.now && q.typed != nil && q.agenda.len() == 0 {
		q.metrics.observeLateness(r.now - due)
		return q.promoteLocked(hash, item, added, rank{priority, true})
	}
	first := q.agenda.schedule(hash, item, r.now, due, priority)
	return q.arrangeLocked(first, r, added)
}

// A promotion is what is left to do once the locks are free, after items have gone
// from the agenda to the queue below: metrics are foreign code, and must not run
// with a lock held.
type promotion struct {
	added int  // how many were no duplicates
	yield bool // a woken worker needs this goroutine's processor
}

// arrangeLocked follows each change of the agenda. It ensures that a goroutine runs
// while items wait, and that it wakes up in time. first says whether the change was
// one of the earliest due time: only then may the timer be set too late.
func (q *TypedDelaying[T]) arrangeLocked(first bool, r reading, added time.Duration) promotion {
	if !q.real {
		q.planned.Store(q.agenda.plans())
	}
	a := q.hurryLocked(r, added)
	switch {
	case q.agenda.len() == 0:
		if q.running {
			q.poke()
		}
	case !q.running:
		q.running = true
		q.loops.enter()
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
	case q.typed == nil || !q.typed.fifo.native():
		a.yield = behind
	case behind:
		a = q.moveDueLocked(r, added)
		q.urgent = a.yield
	case q.urgent:
		q.urgent = q.typed.wakes()
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
		hash, item, priority := q.agenda.pop()
		if q.typed.addRankedLocked(hash, item, added, rank{priority, true}) {
			a.added++
		}
	}
	q.typed.settle()
	a.yield = q.typed.waking
	q.typed.mu.Unlock()
	return a
}

// wakes reports whether a worker has been woken and is not there yet.
func (q *Typed[T]) wakes() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waking
}

// promoteLocked adds the item to typed, and ends its wait if it waits. Both happen
// under both locks, or a Snapshot could show the item twice or not at all.
func (q *TypedDelaying[T]) promoteLocked(hash uint32, item T, added time.Duration, k rank) (a promotion) {
	waited, ok := q.unplanLocked(hash, item)
	lockSoon(&q.typed.mu)
	if q.typed.addRankedLocked(hash, item, added, rank{k.after(waited, ok), true}) {
		a.added = 1
	}
	q.typed.settle()
	q.typed.mu.Unlock()
	return a
}

// unplanLocked ends the wait of the item, and reports whether it waited, and with which
// priority. If that was the last one, the goroutine has to look again, and ends.
func (q *TypedDelaying[T]) unplanLocked(hash uint32, item T) (priority int, waited bool) {
	if q.agenda.len() == 0 {
		return 0, false
	}
	if priority, waited = q.agenda.remove(hash, item); waited && q.agenda.len() == 0 {
		q.poke()
	}
	return priority, waited
}

// observePromotion does what is left to do when the locks are free.
func (q *TypedDelaying[T]) observePromotion(a promotion) {
	if a.added > 0 {
		q.typed.observeAdds(a.added)
	}
	if a.yield {
		runtime.Gosched()
	}
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
	return q.oneEntry && q.typed.queues(hash, item)
}

// raiseLocked follows a delayed add that has found an entry. Nothing waits for it, but
// its priority counts, and an order is told of it as of any other add.
func (q *TypedDelaying[T]) raiseLocked(hash uint32, item T, added time.Duration, priority int) (a promotion) {
	if q.typed.fifo.storage != nil {
		a = q.promoteLocked(hash, item, added, rank{priority, true})
	}
	return a
}

// queues reports whether the item is queued, or will be by its Done.
func (q *Typed[T]) queues(hash uint32, item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.queues(hash, item)
}

// Add adds the item to the queue below. If it waits, it goes on waiting, unless
// OneEntry is set.
func (q *TypedDelaying[T]) Add(item T) {
	if q.oneEntry {
		q.promote(hashOf(item), item, rank{q.resolve(item, 0), true})
		return
	}
	q.queue.Add(item)
}

// AddAll adds the items in their order, in one critical section if the queue
// below is a [Typed] and OneEntry is not set, and one by one otherwise.
func (q *TypedDelaying[T]) AddAll(items ...T) {
	if q.typed != nil && !q.oneEntry {
		q.typed.AddAll(items...)
		return
	}
	for _, item := range items {
		q.Add(item)
	}
}

// promote adds the item and ends its wait. If adding is foreign code, these are two
// steps, as no lock may be held in the second. The wait ends first: in the other
// order the loop could add the item once more, after a worker has got it.
func (q *TypedDelaying[T]) promote(hash uint32, item T, k rank) {
	if q.typed == nil {
		q.addBelow(item, k.after(q.unplan(hash, item)))
		return
	}
	q.observePromotion(q.promoteTyped(hash, item, q.typedNow(q.now()), k))
}

func (q *TypedDelaying[T]) promoteTyped(hash uint32, item T, added time.Duration, k rank) promotion {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.promoteLocked(hash, item, added, k)
}

// unplan ends the wait of the item, and reports whether it waited, and with which
// priority.
func (q *TypedDelaying[T]) unplan(hash uint32, item T) (priority int, waited bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unplanLocked(hash, item)
}
