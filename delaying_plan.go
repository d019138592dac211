package workqueue

import (
	"math"
	"time"
)

// This file has what a TypedDelaying can do with a waiting item and client-go's
// cannot.

// Reschedule makes the item due after the duration, and not when it was: it
// replaces the due time of a waiting item, by an earlier or a later one. An item that
// does not wait starts to wait. If the duration is zero or negative, the wait ends
// and the item is added now.
//
// What is queued or held stays so, see docs/semantics.md. For the rest Reschedule is
// like [TypedDelaying.AddAfter].
func (q *TypedDelaying[T]) Reschedule(item T, duration time.Duration) {
	hash := hashOf(item)
	if q.queue.ShuttingDown() {
		return
	}
	priority := q.resolve(item, 0)
	if duration <= 0 {
		q.promote(hash, item, rank{priority, false})
		return
	}
	r := q.readClock()
	q.observePromotion(q.reschedule(hash, item, r, dueAfter(r.now, duration), priority))
}

func (q *TypedDelaying[T]) reschedule(hash uint32, item T, r reading, due time.Duration, priority int) promotion {
	added := q.typedNow(r.now)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.hasEntryLocked(hash, item) {
		return promotion{}
	}
	first := q.agenda.reschedule(hash, item, r.now, due, priority)
	return q.arrangeLocked(first, r, added)
}

// Debounce adds the item when Debounce has not been called for it for the time
// quiet, and at the latest when the time most has passed since the first of
// these calls. So a series of events is handled once, when it is over or has gone on
// for too long. If most is zero or negative, there is no such limit: events that do
// not end keep the item waiting for ever. If quiet is zero or negative, the item is
// added now.
//
// The first call of a series decides the value of most. A series ends when the item
// is added.
//
// Debounce does not put off an item that waits because of an AddAfter, an
// AddRateLimited or a Reschedule, but may make it due earlier. After such a call, an
// item that waits because of Debounce is due no later than the call says. For the
// rest Debounce is like [TypedDelaying.AddAfter].
func (q *TypedDelaying[T]) Debounce(item T, quiet, most time.Duration) {
	hash := hashOf(item)
	if q.queue.ShuttingDown() {
		return
	}
	priority := q.resolve(item, 0)
	if quiet <= 0 {
		q.promote(hash, item, rank{priority, false})
		return
	}
	r := q.readClock()
	latest := time.Duration(math.MaxInt64)
	if most > 0 {
		latest = dueAfter(r.now, most)
	}
	q.observePromotion(q.debounce(hash, item, r, dueAfter(r.now, quiet), latest, priority))
}

func (q *TypedDelaying[T]) debounce(hash uint32, item T, r reading, due, latest time.Duration, priority int) promotion {
	added := q.typedNow(r.now)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return promotion{}
	}
	if q.hasEntryLocked(hash, item) {
		return q.raiseLocked(hash, item, added, priority)
	}
	first := q.agenda.debounce(hash, item, r.now, due, latest, priority)
	return q.arrangeLocked(first, r, added)
}

// Remove takes the item back: it no longer waits, and is removed from the queue
// below, see [Typed.Remove]. It reports whether there was anything to take back. It takes
// O(log n) time in the number of waiting items.
//
// If the queue below was configured, and is not a [Typed] without a [Queue], an
// item that is due may be on its way there. Remove misses it then.
func (q *TypedDelaying[T]) Remove(item T) bool {
	hash := hashOf(item)
	if q.typed == nil {
		low := below[remover[T]](q.queue, "Remove")
		_, waited := q.unplan(hash, item)
		return low.Remove(item) || waited
	}
	waited, added := q.removeTyped(hash, item)
	if added {
		q.typed.metrics.removed()
	}
	return waited || added
}

func (q *TypedDelaying[T]) removeTyped(hash uint32, item T) (waited, added bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, waited = q.unplanLocked(hash, item)
	return waited, q.typed.remove(hash, item)
}
