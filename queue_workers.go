package workqueue

import (
	"context"
	"errors"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/slab"

	"github.com/seed16c08ea7/workqueue/internal/gate"
)

// This file is how workers get items. A worker looks for one with the lock held.
// If there is none, it counts itself in parked, gives the lock back, and waits for
// the token in q.wake. The rules about that token stand at the fields of Typed.
//
// Counting and looking happen in one critical section. If they did not, an Add
// between the two would see nobody to wake, and the worker would park beside an
// item.

// getContext is GetContext, with the receipt of the item.
func (q *Typed[T]) getContext(ctx context.Context) (item T, r receipt, err error) {
	if err := ctx.Err(); err != nil {
		return item, r, err
	}
	item, r, err = q.get(ctx.Done())
	if err == errCanceled {
		err = ctx.Err()
	}
	return item, r, err
}

// errCanceled is what get returns when its cancel channel was closed. It does not
// leave the package: GetContext puts the error of the context in its place. get
// takes a channel and no context, so that Get needs no context at all.
var errCanceled = errors.New("workqueue: canceled")

// get takes an item, and waits for one until cancel is closed. A nil channel is never
// closed.
func (q *Typed[T]) get(cancel <-chan struct{}) (item T, r receipt, err error) {
	item, r, what := q.tryTake(q.metrics.now(), visitStaying)
	if what == tookNothing {
		return q.await(cancel)
	}
	return q.receive(item, r, what)
}

// stay is the rest of Get when there is no item: it parks, or reports the
// shutdown. The caller holds q.mu, and stay gives it back.
//
// It is a function of its own to keep Get short, see BenchmarkCycle.
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
	item, _, err := q.await(nil)
	return item, err != nil
}

// await is the rest of get for a worker that is counted in parked. Being woken
// promises nothing: another worker may have taken the item in the meantime, as
// Get does not wait its turn. Then the worker parks again.
func (q *Typed[T]) await(cancel <-chan struct{}) (item T, r receipt, err error) {
	for {
		if !q.park(cancel) {
			return item, receipt{}, errCanceled
		}
		how := visitWoken
		if q.metrics.foreign() {
			q.passOn()
			how = visitStaying
		}
		if item, r, what := q.tryTake(q.metrics.now(), how); what != tookNothing {
			return q.receive(item, r, what)
		}
	}
}

// passOn makes a worker that has taken the token an ordinary one, before it has
// looked for an item. The next worker is woken if there is an item.
//
// A woken worker that reads an injected clock calls foreign code. That may block
// or panic, and with waking still set no worker would be woken again. The price
// is a worker that is woken for nothing, now and then. The real clock does
// neither, so its worker arrives and looks in one critical section.
func (q *Typed[T]) passOn() {
	q.mu.Lock()
	q.arrive()
	q.settle()
	q.mu.Unlock()
}

// receive is the end of every blocking hand-out. The metrics come after the lock,
// as they are foreign code.
func (q *Typed[T]) receive(item T, r receipt, what took) (T, receipt, error) {
	if what == tookEnd {
		return item, receipt{}, ErrShutDown
	}
	q.observeGet(item, r.waited)
	return item, r, nil
}

// A receipt says how an item was queued that was handed out.
type receipt struct {
	waited time.Duration // the time that it was queued
	rank   rank
}

// A visit says how a worker comes to look for an item, and a took what it has got.
type (
	visit uint8
	took  uint8
)

const (
	visitPassing visit = iota // does not wait
	visitStaying              // will park if there is no item
	visitWoken                // has parked, was woken, and will park again
)

const (
	tookNothing took = iota // no item; a worker that will park has been counted
	tookItem                // an item, with its receipt
	tookEnd                 // no item, and there will be none
)

// tryTake looks for an item once. In the same critical section it also ends the
// way of a woken worker and counts one that will park: after it, either the worker
// has an item, or it is counted and any later Add wakes it.
func (q *Typed[T]) tryTake(now time.Duration, how visit) (item T, r receipt, what took) {
	if !q.mu.TryLock() {
		gate.LockSoon(&q.mu)
	}
	if how == visitWoken {
		q.arrive()
	}
	item, waited, ok := q.fifo.take(now)
	switch {
	case ok:
		what = tookItem
		r = receipt{waited, q.fifo.taken}
		if q.durations != nil {
			q.durations.queued.Observe(waited)
		}
	case how == visitPassing:
	case q.fifo.closed:
		what = tookEnd
	default:
		q.enlist()
	}
	q.settle()
	q.mu.Unlock()
	return item, r, what
}

// enlist counts a worker that is about to park. The caller must hold q.mu.
//
// The channel is made by the first one: the zero value of a Typed is usable, and a
// queue whose workers only poll needs none.
func (q *Typed[T]) enlist() {
	q.parked++
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
	}
}

// arrive ends the way of a worker that was woken. The next worker can be woken
// from now on. The caller must hold q.mu, and settles: if more items are left,
// that wakes the next one.
func (q *Typed[T]) arrive() {
	q.parked--
	q.waking = false
}

// park waits until woken, and reports false when cancel was closed first. A token
// may be in the channel then. It stays there for another worker that is parked. If
// none is, waking stays set until one parks and takes the token at once.
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

// settle is the exit of every critical section that has changed something. It
// wakes a parked worker if there is an item for it, and ends a drain that is
// done. The caller must hold q.mu, and must not change anything after it.
//
// One exit for all makes it impossible to forget one of the two. It must stay small
// enough to be inlined, which TestHotPathIsInlined checks: most sections have
// nobody to wake and no drain, and BenchmarkCycle would pay for the call.
func (q *Typed[T]) settle() {
	if q.parked > 0 && !q.waking || q.drained != nil {
		q.settleDue()
	}
}

// settleDue is the rest of settle.
//
// The send never blocks: waking was false, so the channel is empty. To send after
// Unlock would keep the section shorter, but every method would have to carry the
// duty to its return, also past a panic of a storage.
//
// A closed queue wakes workers without an item too, one after the other: each finds
// the end, settles, and so wakes the next.
func (q *Typed[T]) settleDue() {
	if q.parked > 0 && !q.waking && (q.fifo.ready() || q.fifo.closed) {
		q.waking = true
		q.wake <- struct{}{}
	}
	if q.drained != nil && q.fifo.idle() {
		q.endDrains()
	}
}

// unlock ends a critical section in which a method of a [Queue] has panicked or has
// ended its goroutine, see storage. The fifo is in a consistent state before
// each such call, so that this exit is an ordinary one.
func (q *Typed[T]) unlock() {
	q.settle()
	q.mu.Unlock()
}

// heldFor returns the rank of an item that is held, and how long it was queued before, see
// fifo.heldFor. A handler asks by its context, if at all, and Run when an item comes again.
// So the item is looked up, and workers do not carry both for each item.
func (q *Typed[T]) heldFor(item T) (waited time.Duration, k rank) {
	hash := slab.HashOf(item)
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.heldFor(hash, item)
}
