package workqueue

import (
	"context"
	"errors"
	"math"
	"time"
)

// This file has the end of Run: how the queue is drained, and how what is left is
// gathered. run_left.go names it.

// end is what Run does when ctx has ended. It waits for the workers, and shuts the
// queue down unless that is to be kept. A queue that somebody else has shut down is
// closed as any other, as what is left in it would be named by nobody.
func (r *runner[T]) end() error {
	if r.options.Grace > 0 {
		defer time.AfterFunc(r.options.Grace, func() { r.cancel(context.Cause(r.ctx)) }).Stop()
	}
	if r.options.KeepQueue {
		<-r.working.Done()
		if !r.queue.ShuttingDown() {
			return r.keep()
		}
	}
	if r.options.Drain {
		r.finish()
	}
	return r.close()
}

// keep ends a Run that leaves the queue open. Nothing is left behind then: the next Run
// finds it in the queue.
func (r *runner[T]) keep() error {
	if r.options.OnStop != nil {
		r.options.OnStop(r.snapshot())
	}
	return r.err
}

// snapshot returns what the queue holds, as far as it can tell.
func (r *runner[T]) snapshot() Snapshot[T] {
	if hasMethod[snapshotter[T]](r.queue) {
		return r.queue.(snapshotter[T]).Snapshot(math.MaxInt)
	}
	return Snapshot[T]{QueuedTotal: r.queue.Len()}
}

// heldByOthers returns what is in flight when all workers have ended.
func (r *runner[T]) heldByOthers() Snapshot[T] {
	s := r.snapshot()
	return Snapshot[T]{InFlight: s.InFlight, InFlightTotal: s.InFlightTotal}
}

// finish waits until there is nothing to do any more but what waits for other
// reasons than a failure, or until the grace period is over. The queue has to stay open
// for that, as a shutdown would drop the retries. A queue of ours is sealed: callers
// find it shut down already.
//
// No queue tells when it has nothing to do, so it is asked, at first every millisecond
// and then less often.
func (r *runner[T]) finish() {
	const most = 16 * time.Millisecond
	if r.ours != nil {
		r.ours.sealed.Store(true)
	}
	for wait := time.Millisecond; !r.isFinished(); wait = min(2*wait, most) {
		select {
		case <-r.handling.Done():
			return
		case <-r.working.Done(): // Somebody has shut the queue down.
			return
		case <-time.After(wait):
		}
	}
}

// isFinished reports whether nothing is queued, held or to be retried. The order of the
// questions matters: a failure is counted before its Done, so that an item is at any
// time found by one of them.
func (r *runner[T]) isFinished() bool {
	if r.typed != nil {
		if queued, held := r.typed.sizes(); queued+held > 0 {
			return false
		}
	} else if r.queue.Len() > 0 || r.inHand.Load() > 0 {
		return false
	}
	return r.failed.failing.Load() == 0
}

// close shuts the queue down, waits for the workers, and takes out of the queue what
// they leave behind. That is named in what Run says is left. If it stayed in the queue
// too, a drain after Run would wait for it for ever.
func (r *runner[T]) close() error {
	r.closing.Store(true)
	if q, ok := r.queue.(dropper[T]); ok {
		dropped, release := q.dropWaiting()
		defer release()
		r.dropped = dropped
	}
	left, err := r.drain()
	for shutdown := false; !shutdown; {
		var item T
		item, shutdown = r.queue.Get()
		r.decline(item, shutdown)
	}
	return r.leftBehind(left, err)
}

// drain drains the queue until the workers are gone: nobody gets what is queued from
// then on. It returns what is left, as far as the queue can tell, and any other error
// of the queue's Drain.
//
// The queue is shut down afterwards in any case, for two reasons. Other callers that
// wait in a drain have to learn that nobody handles the rest. And the goroutine of
// client-go's delaying queue ends only with a ShutDown.
func (r *runner[T]) drain() (left *DrainError[T], err error) {
	q, ok := r.queue.(drainer)
	if !ok {
		endBelow(r.queue, r.queue.ShutDown)
		<-r.working.Done()
		return &DrainError[T]{Snapshot: Snapshot[T]{QueuedTotal: r.queue.Len()}}, nil
	}
	err = q.Drain(r.working)
	<-r.working.Done()
	first, _ := err.(*DrainError[T])
	if errors.Is(err, ErrShutDown) {
		// A ShutDown has cut the drain short, and the workers have gone on since.
		err = q.Drain(r.working)
	}
	endBelow(r.queue, r.queue.ShutDown)
	if left, ok = err.(*DrainError[T]); ok {
		err = nil
	} else {
		left = new(DrainError[T])
	}
	if first != nil { // What waited may be known to the first of the drains alone.
		left.Waiting, left.WaitingTotal = first.Waiting, first.WaitingTotal
	}
	return left, err
}

// noteQueued notes an item that a worker has, and will not handle. The workers note at
// once, since nothing else knows of the item any more: for the queue it is in flight, and
// Done comes next.
func (r *runner[T]) noteQueued(item T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queued = append(r.queued, item)
}

// A lateItem is one that was handled when it could not come again any more.
type lateItem[T comparable] struct {
	item     T
	failures int
	putOff   bool      // and has not failed
	due      time.Time // of what was put off, if known
}

// noteLate notes an item whose retry the queue has dropped, or would drop. An item is noted
// once: account takes back what was noted of it before, as only its last outcome counts.
func (r *runner[T]) noteLate(late lateItem[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = append(r.late, late)
	r.anyLate.Store(true)
}
