package workqueue

import (
	"context"
	"errors"
	"slices"
	"time"
)

// This file has the end of Run: how the queue is drained, and how the error is made
// that names what is left. It has two sources: the DrainError of the queue, and the
// notes of the workers about items that the queue no longer has.

// end shuts the queue down after ctx has ended, waits for the workers, and takes out
// of the queue what they leave behind. The error names these items. If they stayed in
// the queue too, a drain after Run would wait for them for ever.
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

// leaveLate notes an item whose retry the queue has dropped, or would drop.
func (r *runner[T]) leaveLate(item T, failures int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = append(r.late, lateItem[T]{item, failures})
}

// leaveOut takes back leaveLate for an item that is handled once more: it was added
// again in the moment between the end of ctx and the shutdown. Only its last outcome
// counts.
func (r *runner[T]) leaveOut(item T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = slices.DeleteFunc(r.late, func(l lateItem[T]) bool { return l.item == item })
}

// leftBehind makes the error of Run from what the drain has found, what the workers
// have noted, and errors of other kinds. Items that only waited or were put off do
// not make an error by themselves, but are listed if there is one.
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

// nameQueued lists the items that Run has taken out of the queue. The drain's list may
// differ from that: since then another caller may have got an item of the list, or an
// item that it held may have been queued by its Done. Infos of the drain are kept for
// items that are on both lists. A foreign queue may report a number of items and hand
// none of them out; they count without a name.
func (r *runner[T]) nameQueued(left *DrainError[T]) {
	kept := 0
	if left.QueuedTotal > len(left.Queued) {
		kept = r.queue.Len()
	}
	left.QueuedTotal = len(left.Queued) + kept
	if slices.EqualFunc(left.Queued, r.queued, func(info ItemInfo[T], item T) bool { return info.Item == item }) {
		return // The usual case. With millions of items the map below is slow.
	}
	known := make(map[T]ItemInfo[T], len(left.Queued))
	for _, info := range left.Queued {
		known[info.Item] = info
	}
	left.Queued = nil
	for _, item := range r.queued {
		info, ok := known[item]
		if !ok {
			info = ItemInfo[T]{Item: item, State: ItemQueued, Failures: r.queue.NumRequeues(item)}
		}
		left.Queued = append(left.Queued, info)
	}
	left.Queued = withoutRepeats(left.Queued)
	left.QueuedTotal = len(left.Queued) + kept
}

// nameWaiting lists the items that waited, and those whose handling came too late for
// a retry. Such an item is left out if it is listed as queued or waiting already.
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
			left.Waiting = append(left.Waiting, ItemInfo[T]{Item: l.item, State: ItemWaiting, Failures: l.failures})
			left.WaitingTotal++
		}
	}
}

// countLate adds the last failure to infos of listed items, as the limiter was not
// told of it, and returns the set of listed items.
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
