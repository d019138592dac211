package workqueue

import (
	"context"
	"errors"
	"time"
)

// This file is how workers come by items: an attempt under the lock, and if it
// finds nothing, a wait outside of it, for the one token of q.wake.

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
	item, waited, outcome := q.attempt(q.metrics.now(), tries)
	if outcome != taken {
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
	item, waited, outcome := q.attempt(q.metrics.now(), waits)
	if outcome == none {
		return q.await(cancel)
	}
	return q.receive(item, waited, outcome)
}

// await is get for a worker that has found nothing and is counted as waiting.
func (q *Typed[T]) await(cancel <-chan struct{}) (T, error) {
	for {
		if !q.park(cancel) {
			return *new(T), errCanceled
		}
		how := woken
		if q.metrics.foreign() {
			q.passOn()
			how = waits
		}
		if item, waited, outcome := q.attempt(q.metrics.now(), how); outcome != none {
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
	defer q.mu.Unlock()
	q.arriveLocked()
	q.relayLocked()
}

func (q *Typed[T]) receive(item T, waited time.Duration, outcome outcome) (T, error) {
	if outcome == ended {
		return item, ErrShutDown
	}
	q.observeGet(item, waited)
	return item, nil
}

// What a worker that looks for an item is, and what comes of it.
type (
	attempt uint8
	outcome uint8
)

const (
	tries attempt = iota // does not wait
	waits                // will park if there is no item
	woken                // has parked, was woken, and will park again

	none  outcome = iota // no item; one who waits has been counted in waiting
	taken                // an item, with the time it was queued
	ended                // no item, and there will be none
)

func (q *Typed[T]) attempt(now time.Duration, how attempt) (item T, waited time.Duration, _ outcome) {
	lockSoon(&q.mu)
	defer q.mu.Unlock()
	if how == woken {
		q.arriveLocked()
	}
	if item, waited, ok := q.takeLocked(now); ok {
		q.relayLocked()
		return item, waited, taken
	}
	if how == tries {
		return item, 0, none
	}
	return item, 0, q.enlistLocked()
}

// enlistLocked counts a worker that has found nothing as waiting, unless the
// queue is shut down; it then wakes the next, so that all of them learn of it.
func (q *Typed[T]) enlistLocked() outcome {
	if q.shuttingDown.Load() {
		q.wakeLocked()
		return ended
	}
	q.waiting++
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
	}
	return none
}

// takeLocked hands out the first item, if there is one. The line comes before
// the storage: beside a storage it holds only what that failed to take.
func (q *Typed[T]) takeLocked(now time.Duration) (item T, waited time.Duration, ok bool) {
	if q.line.empty() {
		if q.storage == nil {
			return item, 0, false
		}
		return q.takeStoredLocked(now)
	}
	i := q.nextLocked()
	waited = q.startLocked(i, now)
	return q.holdLocked(i), waited, true
}

// nextLocked takes the first record out of the line, which must not be empty.
func (q *Typed[T]) nextLocked() uint32 {
	i := q.line.pop()
	if q.line.holes > 0 {
		q.line.tidy(q.placeLocked)
	}
	return i
}

// startLocked stamps the hand-out and returns for how long the item was queued.
func (q *Typed[T]) startLocked(i uint32, now time.Duration) (waited time.Duration) {
	if q.metrics == nil {
		return 0
	}
	s := q.stamps.at(i)
	s.started = now
	waited = max(0, now-s.added)
	if q.durations != nil {
		q.durations.queued.observe(waited)
	}
	return waited
}

// holdLocked makes a record that has left line or storage one that is held.
func (q *Typed[T]) holdLocked(i uint32) (item T) {
	r := q.items.records.at(i)
	if r.state == unfindable {
		return q.forgetLocked(i, r)
	}
	r.state = processing
	r.pos = uint32(len(q.held))
	q.held = append(q.held, i)
	return r.item
}

// forgetLocked hands out an item that Done cannot name. It is not a part of
// holdLocked lest that, which every item passes, saves registers for its calls:
// a cycle takes 1.4 ns less.
func (q *Typed[T]) forgetLocked(i uint32, r *record[T]) T {
	item := r.item
	q.items.release(i, r)
	if q.items.sparse() {
		q.compactLocked()
	}
	q.settleLocked()
	return item
}

// arriveLocked ends the way of a worker that was woken.
func (q *Typed[T]) arriveLocked() {
	q.waiting--
	q.waking = false
}

// relayLocked wakes the next worker if there is something left for it: an item,
// or the news of a shutdown, which found this one on its way and woke nobody.
func (q *Typed[T]) relayLocked() {
	if q.line.len()+q.stored > 0 || q.shuttingDown.Load() {
		q.wakeLocked()
	}
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
		q.waiting--
		q.mu.Unlock()
		return false
	}
}

// wakeLocked wakes a worker unless none waits or one is on its way.
//
// The send under the lock makes the section longer by a send to a channel that
// has room; a send after it would have to be carried through every return
// value, panics included.
func (q *Typed[T]) wakeLocked() {
	if q.waiting > 0 && !q.waking {
		q.waking = true
		q.wake <- struct{}{}
	}
}
