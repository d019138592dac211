package workqueue

import (
	"hash/maphash"
	"time"
)

// This file is what a worker of Run does between two items: Done of the one and Get of
// the next, in one critical section instead of two.

// passes reports whether pass may be used. It calls no foreign code, and so not for a
// queue with metrics that are told, with an injected clock, or with a storage.
func (q *Typed[T]) passes() bool {
	return q.fifo.storage == nil && !q.metrics.pushes() && !q.metrics.foreign()
}

// pass is Done of the item, and then GetContext with what ctx.Done has returned.
//
// No other worker sees a state between the two. So an item that was added again may
// come back to the same worker at once, and a drain goes on if there is a next item. It
// blocks while there is none, and only then takes the lock a second time.
//
// The steps of Done and Get are written out as they are there, since each item of a Run
// passes here: BenchmarkRun compares it with a loop by hand, which it must not exceed.
func (q *Typed[T]) pass(item T, cancel <-chan struct{}) (next T, err error) {
	hash := uint32(maphash.Comparable(hashSeed, item)) // hashOf is not inlined.
	now := q.metrics.now()
	if !q.mu.TryLock() {
		lockSoon(&q.mu)
	}
	at, r := q.fifo.items.probe(q.fifo.items.slots, hash, item)
	if r == nil && q.fifo.items.old != nil {
		r = q.fifo.items.fetch(at, hash, item)
	}
	if worked, ok := q.fifo.done(at, r, now); ok && q.durations != nil {
		q.durations.held.observe(worked)
	}
	next, waited, ok := q.fifo.take(now)
	if !ok {
		return q.passIdle(cancel)
	}
	if q.durations != nil {
		q.durations.queued.observe(waited)
	}
	// Nobody has to be woken: done queues one item at most, and take takes one. But what
	// differs from itself is forgotten when it is taken, and that can end a drain.
	if q.drained != nil {
		q.settle()
	}
	q.mu.Unlock()
	return next, nil
}

// passIdle is the rest of pass when there is no item. The caller holds q.mu, and
// passIdle gives it back. The worker is enlisted in the section in which it has found
// nothing: with a gap, an Add in between would wake nobody. And settle comes after
// that, as the queue may be idle now, which ends a drain.
func (q *Typed[T]) passIdle(cancel <-chan struct{}) (next T, err error) {
	closed := q.fifo.closed
	if !closed {
		q.enlist()
	}
	q.settle()
	q.mu.Unlock()
	if closed {
		return next, ErrShutDown
	}
	next, _, err = q.await(cancel)
	return next, err
}

// heldFor returns the priority of an item that is held, and how long it was queued before.
// What is not known is 0: an Add since then has taken the place of the one before. A
// handler asks for it by its context, if at all, so it looks the item up, and is not
// kept for each item that is passed on.
func (q *Typed[T]) heldFor(item T) (waited time.Duration, priority int) {
	if q.metrics == nil && q.fifo.storage == nil {
		return 0, 0
	}
	hash := hashOf(item)
	q.mu.Lock()
	defer q.mu.Unlock()
	at, r := q.fifo.items.find(hash, item)
	if r == nil || r.state != processing && r.state != watched {
		return 0, 0
	}
	i := q.fifo.items.index(at)
	if q.fifo.timed {
		s := q.fifo.stamps.at(i)
		waited = max(0, s.started-s.added)
	}
	if q.fifo.storage != nil {
		priority = q.fifo.storage.priorities.of(i)
	}
	return waited, priority
}
