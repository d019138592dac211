package workqueue

import (
	"context"
	"fmt"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// This file has the waits for the work of a queue: until nothing is left (WaitIdle, WaitEmpty),
// and until all items of a moment are done (Barrier).

// WaitIdle waits until no item is queued and no item is held, and returns nil. A queue that is
// idle only for a moment counts. If ctx ends first, WaitIdle returns a [*WaitError]. A shutdown does
// not end the wait.
//
// Any number of calls can wait. Nothing is polled, and a call costs the other methods nothing
// but a look at each Done.
func (q *Typed[T]) WaitIdle(ctx context.Context) error {
	for {
		w := q.awaitIdle()
		if w == nil {
			return nil
		}
		waitWithin(ctx, w.over)
		switch {
		case !isClosed(w.over):
			return &WaitError{q.Snapshot(0).Totals, ctx.Err(), "the queue is not idle"}
		case w.idle:
			return nil
		}
	}
}

// An idleWait is shared by all that wait for an idle queue.
type idleWait struct {
	over chan struct{} // closed when the queue is idle, or by a ShutDown, which ends drains
	idle bool          // which of the two; not written after the close
}

// awaitIdle returns the wait of an idle queue, or nil if the queue is idle now.
func (q *Typed[T]) awaitIdle() *idleWait {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fifo.Idle() {
		return nil
	}
	return q.whenIdle()
}

// whenIdle returns the wait of an idle queue. The caller holds q.mu and calls settle, unless
// the queue is not idle.
func (q *Typed[T]) whenIdle() *idleWait {
	if q.idling == nil {
		q.idling = &idleWait{over: make(chan struct{})}
	}
	return q.idling
}

// Barrier waits until each item that is queued or held at the call has been done once, whatever
// is added, raised or queued again meanwhile, and returns nil. A held item that was added again
// counts once. A queued item that is removed does not count any more. Items that wait for a due time do
// not count.
//
// An item whose work was cut short, and which is queued again, was not done: Barrier goes on to wait.
// If the end of a [Run] drops one of the items, Barrier returns an error that wraps
// [ErrShutDown]. If ctx ends first, Barrier returns a [*WaitError], which also says how many of the items
// are left. A shutdown alone does not end the wait.
//
// Any number of calls can wait. From the 32,767th on, of those with adds in between, they share a barrier, and wait
// for each other's items. Barrier takes constant time, amortized: at most one of 32,768 calls numbers the barriers
// anew, and for this holds the lock while it looks at all items, a few ms for a million. Each Done and Remove of such
// an item takes time in proportion to the number of calls that wait.
func (q *Typed[T]) Barrier(ctx context.Context) error {
	b := q.raiseBarrier()
	if b == nil {
		return nil
	}
	waitWithin(ctx, b.Over)
	switch left := q.leaveBarrier(b); {
	case left > 0:
		return &WaitError{q.Snapshot(0).Totals, ctx.Err(), fmt.Sprintf("%d of the items before the barrier are left", left)}
	case b.Dropped:
		return fmt.Errorf("workqueue: an item before the barrier was dropped: %w", ErrShutDown)
	}
	return nil
}

func (q *Typed[T]) raiseBarrier() *slab.Barrier {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.RaiseBarrier()
}

// leaveBarrier ends a call of Barrier, and returns how many items are left.
func (q *Typed[T]) leaveBarrier(b *slab.Barrier) (left int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.Barriers.Leave(b)
}

// WaitIdle waits until the queue below is idle, see [Typed.WaitIdle]. Waiting items do not
// count, see WaitEmpty.
func (q *TypedDelaying[T]) WaitIdle(ctx context.Context) error {
	return q.below("WaitIdle").WaitIdle(ctx)
}

// WaitEmpty waits until no item waits and the queue below is idle at the same moment, and returns
// nil. If ctx ends first, WaitEmpty returns a [*WaitError]. Nothing is polled. If items come and go all the time,
// WaitEmpty can miss a moment between two items.
func (q *TypedDelaying[T]) WaitEmpty(ctx context.Context) error {
	low := q.below("WaitEmpty")
	for {
		starts := q.countStarts()
		waitWithin(ctx, q.loops.AllLeft(&q.mu)) // The goroutine runs while items wait.
		err := low.WaitIdle(ctx)
		switch {
		case q.isEmpty(err == nil, starts):
			return nil
		case ctx.Err() != nil:
			return &WaitError{q.Snapshot(0).Totals, ctx.Err(), "the queue is not empty"}
		case err != nil: // Of a foreign queue, for a reason of its own.
			return err
		}
	}
}

// isEmpty reports whether nothing is left. idle counts for a queue below whose state cannot be
// read with the lock held. If the goroutine runs, or was started since WaitEmpty has counted the starts, an item may have
// been on its way to such a queue.
func (q *TypedDelaying[T]) isEmpty(idle bool, starts uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	idle = idle && !q.running && q.starts == starts
	if q.typed != nil {
		q.typed.mu.Lock()
		defer q.typed.mu.Unlock()
		idle = q.typed.fifo.Idle()
	}
	return idle && q.agenda.Len() == 0
}

// countStarts returns how often the goroutine has been started.
func (q *TypedDelaying[T]) countStarts() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.starts
}

// Barrier waits for the items of the queue below, see [Typed.Barrier].
func (q *TypedDelaying[T]) Barrier(ctx context.Context) error {
	return q.below("Barrier").Barrier(ctx)
}

// WaitIdle waits until nothing is queued or held, see [Typed.WaitIdle]. Waiting items do not
// count.
func (q *TypedRateLimiting[T]) WaitIdle(ctx context.Context) error {
	return q.below("WaitIdle").WaitIdle(ctx)
}

// WaitEmpty waits until nothing is queued, held or waiting, see [TypedDelaying.WaitEmpty].
func (q *TypedRateLimiting[T]) WaitEmpty(ctx context.Context) error {
	return q.below("WaitEmpty").WaitEmpty(ctx)
}

// Barrier waits until all items of the moment are done, see [Typed.Barrier].
func (q *TypedRateLimiting[T]) Barrier(ctx context.Context) error {
	return q.below("Barrier").Barrier(ctx)
}

// A WaitError is the error of WaitIdle, WaitEmpty and Barrier if their context ends first. Its text also says
// how many items a Barrier still waits for. It holds no items: an error may be logged or kept for long.
type WaitError struct {
	Left Totals // what the queue had when the context had ended
	Err  error  // the error of the context

	what string
}

// Error returns what the call has waited for, and the numbers.
func (e *WaitError) Error() string {
	return fmt.Sprintf("workqueue: %s: %d queued, %d in flight, %d waiting: %v", e.what, e.Left.QueuedTotal, e.Left.InFlightTotal, e.Left.WaitingTotal, e.Err)
}

// Unwrap returns Err.
func (e *WaitError) Unwrap() error { return e.Err }
