package workqueue

import (
	"context"
	"errors"
	"slices"
	"time"
)

// This file is the end of Run: how it comes about, and what it leaves behind.

// end shuts the queue down after ctx has ended, waits for the workers, and takes
// out what they leave behind: what Run names it does not leave in the queue too,
// where a drain would wait for it for ever.
func (r *runner[T]) end() error {
	if r.options.Grace > 0 {
		defer time.AfterFunc(r.options.Grace, func() { r.cancel(context.Cause(r.ctx)) }).Stop()
	}
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

// drain drains the queue until the workers are gone, when there is nobody left to
// get what is queued, and returns what is left then as far as the queue can tell.
// The error is one of its own.
//
// The queue is shut down afterwards in any case: whoever else waits for what is
// left has to learn that nobody works it off, and a drain of client-go's queue
// leaves its goroutine to that.
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

// leaveQueued notes an item that a worker has, and will not handle.
func (r *runner[T]) leaveQueued(item T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queued = append(r.queued, item)
}

// A lateItem is one that was handled when no retry could come any more.
type lateItem[T comparable] struct {
	item     T
	failures int // in a row; 0 if the item did not fail but was put off
}

func (r *runner[T]) leaveLate(item T, failures int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = append(r.late, lateItem[T]{item, failures})
}

// leaveOut takes back leaveLate for an item that was added again in the moment
// between the end of ctx and the shutdown, and that has been handled since.
func (r *runner[T]) leaveOut(item T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = slices.DeleteFunc(r.late, func(l lateItem[T]) bool { return l.item == item })
}

// leftBehind returns what Run returns: what the drain knows to be left, with what
// the workers have noted and what was taken out, and errors of other kinds.
func (r *runner[T]) leftBehind(left *DrainError[T], err error) error {
	r.nameQueued(left)
	err = errors.Join(err, r.err)
	failed := slices.ContainsFunc(r.late, func(l lateItem[T]) bool { return l.failures > 0 })
	if left.QueuedTotal+left.InFlightTotal == 0 && !failed {
		return err
	}
	r.nameWaiting(left)
	if left.Err = r.ctx.Err(); left.Err == nil {
		left.Err = ErrShutDown
	}
	if err == nil {
		return left
	}
	return errors.Join(left, err)
}

// nameQueued lists what was queued and is not any more. Somebody else may have got
// what the drain has seen, and added again what he held. A queue that knows no
// more than a number may keep the items to itself.
func (r *runner[T]) nameQueued(left *DrainError[T]) {
	kept := 0
	if left.QueuedTotal > len(left.Queued) {
		kept = r.queue.Len()
	}
	left.QueuedTotal = len(left.Queued) + kept
	if slices.EqualFunc(left.Queued, r.queued, func(info ItemInfo[T], item T) bool { return info.Item == item }) {
		return // As nearly always, and there may be millions.
	}
	known := make(map[T]ItemInfo[T], len(left.Queued))
	for _, info := range left.Queued {
		known[info.Item] = info
	}
	left.Queued = nil
	for _, item := range r.queued {
		info, ok := known[item]
		if !ok {
			info = ItemInfo[T]{Item: item, State: ItemQueued, For: -1, Place: -1, Failures: r.queue.NumRequeues(item)}
		}
		left.Queued = append(left.Queued, info)
	}
	left.Queued = withoutRepeats(left.Queued)
	left.QueuedTotal = len(left.Queued) + kept
}

// nameWaiting lists what waited and what was to wait, if it is not queued.
func (r *runner[T]) nameWaiting(left *DrainError[T]) {
	if r.dropped != nil && left.WaitingTotal == 0 {
		r.dropped(&left.Snapshot)
		for i, info := range left.Waiting {
			left.Waiting[i].Failures = r.queue.NumRequeues(info.Item)
		}
	}
	if len(r.late) == 0 {
		return
	}
	named := r.countLate(left.Queued, left.Waiting)
	for _, l := range r.late {
		if !named[l.item] {
			left.Waiting = append(left.Waiting, ItemInfo[T]{Item: l.item, State: ItemWaiting, For: -1, Place: -1, Failures: l.failures})
			left.WaitingTotal++
		}
	}
}

// countLate counts the last failure of items that are listed, which the limiter was
// not told of, and returns which items are.
func (r *runner[T]) countLate(lists ...[]ItemInfo[T]) (listed map[T]bool) {
	failures := make(map[T]int, len(r.late))
	for _, l := range r.late {
		failures[l.item] = l.failures
	}
	listed = make(map[T]bool)
	for _, list := range lists {
		for i, info := range list {
			listed[info.Item] = true
			list[i].Failures = max(info.Failures, failures[info.Item])
		}
	}
	return listed
}

// withoutRepeats returns the first of all infos of an item. A worker can have left an item
// that was added again, and then was taken out.
func withoutRepeats[T comparable](infos []ItemInfo[T]) []ItemInfo[T] {
	seen := make(map[T]bool, len(infos))
	return slices.DeleteFunc(infos, func(info ItemInfo[T]) bool {
		again := seen[info.Item]
		seen[info.Item] = true
		return again
	})
}
