package workqueue

import (
	"context"
	"errors"
	"time"
)

// This file is how workers come by items: a look under the lock, and if it finds
// nothing, a wait outside of it for the one token of q.wake.

// ErrShutDown is returned by GetContext when the queue has been shut down and
// has no item left to hand out.
var ErrShutDown = errors.New("workqueue: queue is shut down")

// GetContext is Get with an end: when ctx is done before there is an item, it
// returns ctx's error, and after a shutdown [ErrShutDown]. It takes nothing
// from the queue unless it returns it with a nil error.
func (q *Typed[T]) GetContext(ctx context.Context) (T, error) {
	if err := ctx.Err(); err != nil {
		return *new(T), err
	}
	item, err := q.get(ctx.Done())
	if err == errCanceled {
		err = ctx.Err()
	}
	return item, err
}

// TryGet is Get without the wait: it reports false when no item is queued,
// whether or not the queue is shut down.
func (q *Typed[T]) TryGet() (item T, ok bool) {
	item, waited, outcome := q.tryTake(q.metrics.now(), visitPassing)
	if outcome != tookItem {
		return item, false
	}
	q.observeGet(item, waited)
	return item, true
}

// errCanceled is what get returns when its cancel channel was closed.
var errCanceled = errors.New("workqueue: canceled")

// get takes an item, waiting for one until cancel is closed; a nil channel
// never is.
func (q *Typed[T]) get(cancel <-chan struct{}) (T, error) {
	item, waited, outcome := q.tryTake(q.metrics.now(), visitStaying)
	if outcome == tookNothing {
		return q.await(cancel)
	}
	return q.receive(item, waited, outcome)
}

// stay is Get for a worker that has found nothing. It gives back q.mu, which the
// caller holds.
func (q *Typed[T]) stay() (item T, shutdown bool) {
	closed := q.fifo.closed
	if !closed {
		q.enlist()
	}
	q.settle()
	q.mu.Unlock()
	if closed {
		return item, true
	}
	item, err := q.await(nil)
	return item, err != nil
}

// await is get for a worker that has found nothing and is counted in parked.
func (q *Typed[T]) await(cancel <-chan struct{}) (T, error) {
	for {
		if !q.park(cancel) {
			return *new(T), errCanceled
		}
		how := visitWoken
		if q.metrics.foreign() {
			q.passOn()
			how = visitStaying
		}
		if item, waited, outcome := q.tryTake(q.metrics.now(), how); outcome != tookNothing {
			return q.receive(item, waited, outcome)
		}
	}
}

// passOn ends the duty of a worker that has taken the token, and wakes the next
// one if there is something left. A clock that is foreign code may block or
// panic: with waking left set, no worker would be woken again. If it does
// neither, workers are woken for nothing, which the real clock spares them.
func (q *Typed[T]) passOn() {
	q.mu.Lock()
	q.arrive()
	q.settle()
	q.mu.Unlock()
}

func (q *Typed[T]) receive(item T, waited time.Duration, outcome outcome) (T, error) {
	if outcome == tookEnd {
		return item, ErrShutDown
	}
	q.observeGet(item, waited)
	return item, nil
}

// What a worker that looks for an item is, and what comes of it.
type (
	visit   uint8
	outcome uint8
)

const (
	visitPassing visit = iota // does not wait
	visitStaying              // will park if there is no item
	visitWoken                // has parked, was woken, and will park again
)

const (
	tookNothing outcome = iota // no item; a worker that will park has been counted
	tookItem                   // an item, with the time that it was queued
	tookEnd                    // no item, and there will be none
)

// tryTake is one look for an item.
func (q *Typed[T]) tryTake(now time.Duration, how visit) (item T, waited time.Duration, what outcome) {
	if !q.mu.TryLock() {
		lockSoon(&q.mu)
	}
	if how == visitWoken {
		q.arrive()
	}
	item, waited, ok := q.fifo.take(now)
	switch {
	case ok:
		what = tookItem
		if q.durations != nil {
			q.durations.queued.observe(waited)
		}
	case how == visitPassing:
	case q.fifo.closed:
		what = tookEnd
	default:
		q.enlist()
	}
	q.settle()
	q.mu.Unlock()
	return item, waited, what
}

// enlist counts a worker that has found nothing. The caller must hold q.mu.
func (q *Typed[T]) enlist() {
	q.parked++
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
	}
}

// arrive ends the way of a worker that was woken. The caller must hold q.mu.
func (q *Typed[T]) arrive() {
	q.parked--
	q.waking = false
}

// park waits until woken, and reports false when cancel was closed first.
func (q *Typed[T]) park(cancel <-chan struct{}) bool {
	if cancel == nil {
		<-q.wake
		return true
	}
	select {
	case <-q.wake:
		return true
	case <-cancel:
		q.mu.Lock()
		q.parked--
		q.mu.Unlock()
		return false
	}
}

// settle is the way out of every critical section that has changed something. It
// wakes a worker if one waits for what is there, and ends a drain that is done.
// The caller must hold q.mu, and must not change anything after it.
//
// It is small enough to be inlined, and does nothing in most sections.
func (q *Typed[T]) settle() {
	if q.parked > 0 && !q.waking || q.drained != nil {
		q.settleDue()
	}
}

// settleDue is the rest of settle.
//
// The send makes the section longer by a send to a channel that has room. A send
// after it would have to be carried through every return value, panics included.
func (q *Typed[T]) settleDue() {
	if q.parked > 0 && !q.waking && (q.fifo.ready() || q.fifo.closed) {
		q.waking = true
		q.wake <- struct{}{}
	}
	if q.drained != nil && q.fifo.idle() {
		q.endDrains()
	}
}

// leave ends a critical section in which foreign code has not returned.
func (q *Typed[T]) leave() {
	q.settle()
	q.mu.Unlock()
}
