package workqueue

import (
	"context"
	"errors"
	"slices"
	"time"
)

// This file is the end of Run: how it comes about, and what it leaves behind.

// end shuts the queue down after ctx has ended, and waits for the workers.
func (r *runner[T]) end() error {
	if r.options.Grace > 0 {
		defer time.AfterFunc(r.options.Grace, func() { r.cancel(context.Cause(r.ctx)) }).Stop()
	}
	if q, ok := r.queue.(drainer); ok {
		return r.leftBehind(r.drain(q))
	}
	end(r.queue, r.queue.ShutDown)
	<-r.working.Done()
	return r.leftBehind(&DrainError[T]{Snapshot: Snapshot[T]{QueuedTotal: r.sweep()}})
}

// sweep takes out what is queued, to be left behind by name, and returns how many
// then still are: a queue may keep them to itself once it is shut down.
func (r *runner[T]) sweep() (kept int) {
	for shutdown := false; !shutdown; {
		var item T
		item, shutdown = r.queue.Get()
		r.decline(item, shutdown)
	}
	return r.queue.Len()
}

// drain drains the queue until the workers are gone, when there is nobody left
// to get what is queued.
func (r *runner[T]) drain(q drainer) error {
	err := q.Drain(r.working)
	<-r.working.Done()
	first, ok := err.(*DrainError[T])
	if !ok {
		return err
	}
	last := first
	if errors.Is(err, ErrShutDown) {
		// A ShutDown has cut the drain short, and the workers have gone on since.
		err = q.Drain(r.working)
		if last, ok = err.(*DrainError[T]); !ok {
			return err
		}
	}
	if last.QueuedTotal > len(last.Queued) { // It knows the number alone.
		last.Queued, last.QueuedTotal = nil, r.sweep()
	}
	// What waited is known to the first of the drains alone.
	last.Waiting, last.WaitingTotal = first.Waiting, first.WaitingTotal
	// Nobody works off what is left. Whoever else waits for that has to learn.
	end(r.queue, r.queue.ShutDown)
	return last
}

// leaveQueued and leaveFailed note an item that a worker has, and will not
// handle, or has not been able to.
func (r *runner[T]) leaveQueued(item T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queued = append(r.queued, item)
}

func (r *runner[T]) leaveFailed(item T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failedLate = append(r.failedLate, item)
}

// leaveOut takes back leaveFailed for an item that was added again in the moment
// between the end of ctx and the shutdown, and that has succeeded then.
func (r *runner[T]) leaveOut(item T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failedLate = slices.DeleteFunc(r.failedLate, func(failed T) bool { return failed == item })
}

// leftBehind returns what Run returns: what Drain has said, with what the
// workers have noted. An item can be in both, and twice with the workers, if it
// has failed and was queued again by an Add or a retry without a delay.
func (r *runner[T]) leftBehind(err error) error {
	left, ok := err.(*DrainError[T])
	if err != nil && !ok || r.err != nil {
		return errors.Join(err, r.err)
	}
	if !ok {
		left = new(DrainError[T])
	}
	// A drain of a queue that cannot tell what is left may have been cut off
	// when nothing was.
	if left.QueuedTotal+left.InFlightTotal+len(r.queued)+len(r.failedLate) == 0 {
		return nil
	}
	if left.Err = r.ctx.Err(); left.Err == nil {
		left.Err = ErrShutDown
	}
	r.add(&left.Queued, &left.QueuedTotal, ItemQueued, r.queued, left.Queued)
	r.add(&left.Waiting, &left.WaitingTotal, ItemWaiting, r.failedLate, left.Queued, left.Waiting)
	return left
}

// add adds the items that are not among those named to the list and its total.
// Nothing is known of them but what the limiter says, as they are done.
func (r *runner[T]) add(list *[]ItemInfo[T], total *int, state ItemState, items []T, named ...[]ItemInfo[T]) {
	seen := make(map[T]bool)
	for _, info := range slices.Concat(named...) {
		seen[info.Item] = true
	}
	for _, item := range items {
		if seen[item] {
			continue
		}
		seen[item] = true
		*total++
		*list = append(*list, ItemInfo[T]{
			Item:     item,
			State:    state,
			For:      -1,
			Place:    -1,
			Failures: r.queue.NumRequeues(item),
		})
	}
}
