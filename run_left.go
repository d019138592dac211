package workqueue

import (
	"errors"
	"slices"
)

// This file names what a Run leaves behind. It has three sources: the DrainError of the
// queue, the notes of the workers about items that the queue no longer has, and the
// count of failures, which knows what waits for a retry in a queue that cannot tell. None
// has everything. Each is right about what it has, and the rules below say which of two
// counts if they differ.
//
// The workers are gone when it runs, except in forgetLate. So r.queued, r.late and r.err
// are read without the lock: the end of working orders these readings after their notes.

// forgetLate takes back noteLate for an item that is handled once more: it was added
// again before the shutdown. Only its last outcome counts.
func (r *runner[T]) forgetLate(item T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = slices.DeleteFunc(r.late, func(l lateItem[T]) bool { return l.item == item })
}

// leftBehind says what is left, from what the drain has found, what the workers
// have noted, and errors of other kinds: to OnStop, or to the log, and in the error of
// Run if that was to drain and something is left. What only waits or was put off
// does not count as left.
//
// The lists are made only if somebody gets them, as that takes long for millions of
// items. Their order matters: nameQueued takes the place of a list that others look at,
// and each of the others leaves out what is on a list before it.
func (r *runner[T]) leftBehind(left *DrainError[T], err error) error {
	err = errors.Join(err, r.err)
	r.nameQueued(left)
	failed, retries := r.countFailed(), int(r.failed.failing.Load())
	something := left.QueuedTotal+left.InFlightTotal+failed+retries > 0
	undrained := r.options.Drain && something
	if undrained || r.options.OnStop != nil {
		r.nameWaiting(left)
		r.nameLate(left)
		r.nameRetries(left)
	}
	if r.options.OnStop != nil {
		r.options.OnStop(left.Snapshot)
	} else if something {
		r.logger.Info("Run has ended and left items behind", "queued", left.QueuedTotal,
			"inFlight", left.InFlightTotal, "failed", failed, "retries", retries)
	}
	if !undrained {
		return err
	}
	if left.Err = r.ctx.Err(); left.Err == nil {
		left.Err = ErrShutDown
	}
	if err == nil {
		return left
	}
	return errors.Join(left, err)
}

// countFailed returns how many items have failed when no retry could come any more. What
// was put off has not failed: it waits, and does not make Run return an error.
func (r *runner[T]) countFailed() (n int) {
	for _, l := range r.late {
		if !l.putOff {
			n++
		}
	}
	return n
}

// nameQueued lists the items that Run has taken out of the queue. The drain's list may
// differ from that: since then another caller may have got an item of the list, or an
// item that it held may have been queued by its Done. Infos of the drain are kept for
// items that are on both lists. A foreign queue may report a number of items and hand
// none of them out; they count without a name.
func (r *runner[T]) nameQueued(left *DrainError[T]) {
	// All that is named was taken out. What a queue still counts then, it keeps to itself.
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

// nameWaiting lists the items that waited when ctx ended, as far as the queue says so. The
// drain may have done so. It does not know the failures that Run has counted. Limiter and
// Run may both count, and the greater number is the one that a reader looks for.
func (r *runner[T]) nameWaiting(left *DrainError[T]) {
	if r.dropped != nil && left.WaitingTotal == 0 {
		r.dropped(&left.Snapshot)
	}
	for i, info := range left.Waiting {
		left.Waiting[i].Failures = max(r.queue.NumRequeues(info.Item), r.failuresOf(info.Item))
	}
}

// nameLate lists what has failed when no retry could come any more, and what was put
// off then. An item is listed once: as queued if it was added again, and as failed
// rather than as waiting.
func (r *runner[T]) nameLate(left *DrainError[T]) {
	late := make(map[T]lateItem[T], len(r.late))
	for _, l := range r.late {
		late[l.item] = l
	}
	for i, info := range left.Queued {
		if l, ok := late[info.Item]; ok {
			left.Queued[i].Failures = max(info.Failures, l.failures)
			delete(late, info.Item)
		}
	}
	left.dropLate(late)
	for _, l := range r.late {
		if _, ok := late[l.item]; ok {
			left.addLate(l)
		}
	}
}

// dropLate takes what has failed out of the waiting items, and what waits there already
// out of the late ones. The queue knows when the latter were due, and the
// worker only when it has asked for them.
func (s *Snapshot[T]) dropLate(late map[T]lateItem[T]) {
	before := len(s.Waiting)
	s.Waiting = slices.DeleteFunc(s.Waiting, func(info ItemInfo[T]) bool {
		l, ok := late[info.Item]
		if ok && l.putOff {
			delete(late, info.Item)
		}
		return ok && !l.putOff
	})
	s.WaitingTotal -= before - len(s.Waiting)
}

// addLate adds a late item to the list of its state, and counts it there: the totals have
// to be those of the lists. An item that was put off is one that
// waits, with the time that its handler has asked for.
func (s *Snapshot[T]) addLate(l lateItem[T]) {
	info := ItemInfo[T]{Item: l.item, State: ItemFailed, Failures: l.failures}
	if l.putOff {
		info.State, info.Due = ItemWaiting, l.due
		s.Waiting = append(s.Waiting, info)
		s.WaitingTotal++
		return
	}
	s.Failed = append(s.Failed, info)
	s.FailedTotal++
}

// nameRetries lists what is known to wait for a retry and is on no list yet. That is
// so in a queue that does not say what it has dropped. It comes last, since the count of
// failures alone cannot tell an item that waits from one that is on another list.
func (r *runner[T]) nameRetries(left *DrainError[T]) {
	retries := r.failed.all()
	if len(retries) == 0 {
		return
	}
	listed := make(map[T]bool)
	for _, infos := range [][]ItemInfo[T]{left.Queued, left.InFlight, left.Waiting, left.Failed} {
		for _, info := range infos {
			listed[info.Item] = true
		}
	}
	for item, failures := range retries {
		if !listed[item] {
			left.Waiting = append(left.Waiting, ItemInfo[T]{Item: item, State: ItemWaiting, Failures: failures})
			left.WaitingTotal++
		}
	}
}

// withoutRepeats returns the first of all infos of an item, and keeps their order. It
// changes the slice that it is given. A worker can have left an item
// that was added again, and then was taken out.
func withoutRepeats[T comparable](infos []ItemInfo[T]) []ItemInfo[T] {
	seen := make(map[T]bool, len(infos))
	return slices.DeleteFunc(infos, func(info ItemInfo[T]) bool {
		again := seen[info.Item]
		seen[info.Item] = true
		return again
	})
}
