package workqueue

import (
	"math"
	"runtime"
	"time"
)

// This file is how items come to wait in a TypedDelaying, and how they go from
// there to the queue below.

const (
	// dueBatch is how many due items are added at a time, in one critical section
	// of both queues. Not tuned.
	dueBatch = 32

	// instantDelay is the longest delay for which AddAfter reads the clock twice, to
	// see whether it has not passed meanwhile: the readings lie some 20 ns
	// apart. A delay of a nanosecond then costs no start of a goroutine.
	instantDelay = 100 * time.Nanosecond
)

// AddAfter adds the item once the duration has passed, at once if it is zero
// or negative. An item that already waits stays due at the earlier of the two
// times; an Add does not change when, or that, it is due. A duration that ends
// beyond the range of the clock never ends.
//
// Items due at different times are added in the order of these, those due at
// the same time in the order of their AddAfter. After a shutdown, AddAfter
// does nothing, and items that still wait are dropped.
//
// AddAfter does not block, and the item waits when it returns. It takes
// O(log n) time in the number of waiting items.
func (q *TypedDelaying[T]) AddAfter(item T, duration time.Duration) {
	hash := hashOf(item)
	if q.queue.ShuttingDown() {
		return
	}
	if q.retries == nil {
		q.addAfter(hash, item, duration)
		return
	}
	defer q.addAfter(hash, item, duration) // Even if the metric does not return.
	q.retries.Inc()
}

func (q *TypedDelaying[T]) addAfter(hash uint32, item T, duration time.Duration) {
	if duration <= 0 {
		q.Add(item)
		return
	}
	r := q.read()
	due := dueAfter(r.now, duration)
	if duration <= instantDelay && q.real {
		r.now = q.now()
	}
	q.observeArrival(q.schedule(hash, item, r, due))
}

// dueAfter returns now + duration, or the end of time. now can be negative: an
// injected clock may be set back to before the epoch. duration cannot.
func dueAfter(now, duration time.Duration) time.Duration {
	if now > math.MaxInt64-duration {
		return math.MaxInt64
	}
	return now + duration
}

// schedule makes the item wait, or adds it if it is due by now. Where nothing
// waits, it need not pass through the agenda for that.
func (q *TypedDelaying[T]) schedule(hash uint32, item T, r reading, due time.Duration) arrival {
	stamp := q.stamp(r.now)
	if !q.mu.TryLock() {
		lockAwake(&q.mu)
	}
	defer q.mu.Unlock()
	if q.closed {
		return arrival{}
	}
	if due <= r.now && q.typed != nil && q.agenda.len() == 0 {
		q.metrics.observeLateness(r.now - due)
		return q.promoteLocked(hash, item, stamp)
	}
	first := q.agenda.schedule(hash, item, r.now, due)
	return q.arrangeLocked(first, r, stamp)
}

// An arrival is what there is to do without the lock after items have gone from
// the agenda to the queue below.
type arrival struct {
	added int  // how many were no duplicates
	yield bool // somebody has been woken who should not have to wait
}

// arrangeLocked sees to it that what waits will be added, after a change of the
// agenda; first is whether that was of the earliest due time.
func (q *TypedDelaying[T]) arrangeLocked(first bool, r reading, stamp time.Duration) arrival {
	if !q.real {
		q.planned.Store(q.agenda.plans())
	}
	a := q.hurryLocked(r, stamp)
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

// hurryLocked sees to what is due by now. There waitingLoop is behind, and its
// timer does not suffice: processors look at timers when they look for work,
// and where each is taken up by goroutines that do nothing but AddAfter, that
// is every 10 ms or more. So whoever comes by adds what is due. The worker that
// was woken for it is in the same position, and so all yield until it has
// arrived: once does not suffice, as a goroutine that is given a lock goes
// before it. With 8 such goroutines on two processors, 1 of 100 items is then
// late by 0.4 ms, and by 80 if only the one that woke the worker yields. If
// adding is foreign code, they yield to the loop.
func (q *TypedDelaying[T]) hurryLocked(r reading, stamp time.Duration) (a arrival) {
	behind := q.dueLocked(r)
	switch {
	case q.typed == nil:
		a.yield = behind
	case behind:
		a = q.moveDueLocked(r, stamp)
		q.urgent = a.yield
	case q.urgent:
		q.urgent = q.typed.wakes()
		a.yield = q.urgent
	}
	return a
}

// moveDueLocked moves up to a batch of due items to typed. There is no Get
// between them.
func (q *TypedDelaying[T]) moveDueLocked(r reading, stamp time.Duration) (a arrival) {
	q.typed.mu.Lock()
	for n := 0; n < dueBatch && q.agenda.len() > 0 && q.dueLocked(r); n++ {
		q.metrics.observeLateness(r.now - q.agenda.next())
		hash, item := q.agenda.pop()
		if q.typed.addLocked(hash, item, stamp) {
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

// promoteLocked adds the item to typed, and ends its wait if it waits.
func (q *TypedDelaying[T]) promoteLocked(hash uint32, item T, stamp time.Duration) (a arrival) {
	q.unplanLocked(hash, item)
	lockSoon(&q.typed.mu)
	if q.typed.addLocked(hash, item, stamp) {
		a.added = 1
	}
	q.typed.settle()
	q.typed.mu.Unlock()
	return a
}

// unplanLocked ends the wait of the item, and reports whether it waited.
func (q *TypedDelaying[T]) unplanLocked(hash uint32, item T) bool {
	if q.agenda.len() == 0 || !q.agenda.remove(hash, item) {
		return false
	}
	if q.agenda.len() == 0 {
		q.poke()
	}
	return true
}

// observeArrival observes items that have been added.
func (q *TypedDelaying[T]) observeArrival(a arrival) {
	if a.added > 0 {
		q.typed.observeAdds(a.added)
	}
	if a.yield {
		runtime.Gosched()
	}
}

// stamp returns the time for typed to stamp an item with that is added now. It
// may have been configured with a clock of its own.
func (q *TypedDelaying[T]) stamp(now time.Duration) time.Duration {
	if q.aligned || q.typed == nil {
		return now
	}
	return q.typed.metrics.now()
}

// Add adds the item to the queue below. If it waits, it goes on waiting, unless
// AddCancelsWaiting is set.
func (q *TypedDelaying[T]) Add(item T) {
	if q.absorbs {
		q.promote(hashOf(item), item)
		return
	}
	q.queue.Add(item)
}

// AddAll adds the items in their order, in one critical section if the queue
// below is a [Typed] and AddCancelsWaiting is not set, and one by one otherwise.
func (q *TypedDelaying[T]) AddAll(items ...T) {
	if q.typed != nil && !q.absorbs {
		q.typed.AddAll(items...)
		return
	}
	for _, item := range items {
		q.Add(item)
	}
}

// promote adds the item and ends its wait.
func (q *TypedDelaying[T]) promote(hash uint32, item T) {
	if q.typed == nil {
		q.unplan(hash, item)
		q.queue.Add(item)
		return
	}
	q.observeArrival(q.promoteTyped(hash, item, q.stamp(q.now())))
}

func (q *TypedDelaying[T]) promoteTyped(hash uint32, item T, stamp time.Duration) arrival {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.promoteLocked(hash, item, stamp)
}

// unplan ends the wait of the item, and reports whether it waited.
func (q *TypedDelaying[T]) unplan(hash uint32, item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unplanLocked(hash, item)
}
