package workqueue

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// This file has the end of Run: how the queue is drained, and what is left. That is what
// the queue holds, or has dropped, and what the workers have noted of items that the queue
// no longer has.

// end is what Run does when ctx has ended. It waits for the workers, and shuts the
// queue down unless that is to be kept. A queue that somebody else has shut down is
// closed as any other, as what is left in it would be named by nobody.
func (r *runner[T]) end() error {
	if r.options.Grace > 0 {
		defer time.AfterFunc(r.options.Grace, func() { r.cancel(context.Cause(r.ctx)) }).Stop()
	}
	if r.options.AtEnd == EndKeep {
		<-r.working
		if !r.typed.ShuttingDown() { // Another Run may have sealed the queue to drain it.
			return r.keep()
		}
	}
	if r.options.AtEnd == EndDrain {
		r.finish()
	}
	return r.close()
}

// keep ends a Run that leaves the queue open. Nothing is left behind then: the next Run
// finds it in the queue.
func (r *runner[T]) keep() error {
	if r.options.OnStop != nil {
		r.options.OnStop(r.limiting.Snapshot(math.MaxInt))
	}
	return r.err
}

// finish waits until there is nothing to do any more but what waits for other
// reasons than a failure, or until the grace period is over. The queue has to stay open
// for that, as a shutdown would drop the retries. So it is sealed: callers find it shut
// down already.
//
// No queue tells when it has nothing to do, so it is asked, at first every millisecond
// and then less often.
func (r *runner[T]) finish() {
	const most = 16 * time.Millisecond
	r.limiting.sealed.Store(true)
	for wait := time.Millisecond; r.delaying.hasWork(r.failed); wait = min(2*wait, most) {
		select {
		case <-r.handling.Done():
			return
		case <-r.working: // Somebody has shut the queue down.
			return
		case <-time.After(wait):
		}
	}
}

// hasWork reports whether an item is queued, or held, or waits after a failure. A failure
// is counted before it waits, and waits before its Done. An item that is due goes to the
// queue below with the lock held, so that one look finds it in one place or the other. With
// a storage below that is foreign code, and the item is in neither for a moment: then any
// failure counts.
func (q *TypedDelaying[T]) hasWork(failed *failures[T]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if queued, held := q.queue.(*Typed[T]).sizes(); queued+held > 0 {
		return true
	}
	if q.typed == nil {
		return failed.failing.Load() > 0
	}
	return q.agenda.countOf(failed, 1) > 0
}

// countOf returns how many failed items wait, or most if there are more.
func (a *agenda[T]) countOf(failed *failures[T], most int) int {
	if failed.failing.Load() == 0 {
		return 0
	}
	return failed.count(most, func(item T) bool {
		_, r := a.items.Find(slab.HashOf(item), item)
		return r != nil
	})
}

// close shuts the queue down, waits for the workers, and takes out of the queue what
// they leave behind. That is named in what Run says is left. If it stayed in the queue
// too, a drain after Run would wait for it for ever.
//
// The drains of other callers go on until the workers have ended. Then the shutdown ends
// them: nobody handles the rest.
func (r *runner[T]) close() error {
	r.closing.Store(true)
	r.delaying.close()
	r.typed.shutDown(true)
	<-r.working
	r.limiting.ShutDown()
	return r.leftBehind(r.takeQueued())
}

// takeQueued takes all items out of the queue, and returns them as they were in it, if
// somebody may want to know. What a limit holds back while somebody else has its group
// comes out by Remove.
func (r *runner[T]) takeQueued() (before []ItemInfo[T]) {
	if r.options.OnStop != nil || r.options.AtEnd == EndDrain {
		before = r.typed.Snapshot(math.MaxInt).Queued
	}
	declined := len(r.queued)
	for {
		item, shutdown := r.typed.Get()
		if shutdown {
			break
		}
		r.queued = append(r.queued, item)
		r.typed.Done(item)
	}
	if r.typed.Len() > 0 {
		for _, info := range r.typed.Snapshot(math.MaxInt).Queued {
			if r.typed.Remove(info.Item) {
				r.queued = append(r.queued, info.Item)
			}
		}
	}
	if declined > 0 {
		r.queued = withoutRepeats(r.queued)
	}
	return before
}

// leftBehind says what is left: to OnStop, or to the log, and in the error of Run if that
// was to drain and something is left. What only waits or was put off does not count as
// left. before is what was queued when Run began to take it out.
//
// The workers are gone, so their notes are read without the lock. The lists are made only if
// somebody gets them, as that takes long for millions of items.
func (r *runner[T]) leftBehind(before []ItemInfo[T]) error {
	dropped := r.delaying.leftover()
	failed, retries := r.countFailed(), dropped.retries(r.failed)
	_, held := r.typed.sizes()
	something := len(r.queued)+held+failed+retries > 0
	undrained := r.options.AtEnd == EndDrain && something
	left := new(DrainError[T])
	if undrained || r.options.OnStop != nil {
		left.Snapshot = r.nameLeft(before, dropped)
	}
	if r.options.OnStop != nil {
		r.options.OnStop(left.Snapshot)
	} else if something {
		r.logger.Info("Run has ended and left items behind", "queued", len(r.queued),
			"inFlight", held, "failed", failed, "retries", retries)
	}
	var err error
	switch end := r.ctx.Err(); {
	case undrained:
		left.Err = cmp.Or(end, ErrShutDown)
		err = left
	case end == nil: // nil would tell a caller that it was he who has ended this Run.
		err = ErrShutDown
	}
	switch {
	case r.err == nil:
		return err
	case err == nil:
		return r.err
	}
	return errors.Join(err, r.err)
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

// retries returns how many items waited after a failure.
func (l *leftover[T]) retries(failed *failures[T]) int {
	if l == nil {
		return 0
	}
	return l.agenda.countOf(failed, math.MaxInt)
}

// nameLeft lists what is left. Limiter and Run may both count failures, and the greater
// number is the one that a reader looks for.
func (r *runner[T]) nameLeft(before []ItemInfo[T], dropped *leftover[T]) Snapshot[T] {
	s := r.typed.Snapshot(math.MaxInt)
	s.Queued = r.nameQueued(before)
	s.QueuedTotal = len(s.Queued)
	dropped.addTo(&s)
	for _, infos := range [][]ItemInfo[T]{s.Queued, s.InFlight, s.Waiting} {
		for i := range infos {
			infos[i].Failures = max(r.limiting.NumRequeues(infos[i].Item), r.failed.number(infos[i].Item))
		}
	}
	r.nameLate(&s)
	return s
}

// nameQueued lists the items that Run has taken out. The queue knew most of them. It did
// not know what a worker has declined, or what another caller has given back since.
func (r *runner[T]) nameQueued(before []ItemInfo[T]) (infos []ItemInfo[T]) {
	if slices.EqualFunc(before, r.queued, func(info ItemInfo[T], item T) bool { return info.Item == item }) {
		return before // The usual case. With millions of items the map below is slow.
	}
	known := make(map[T]ItemInfo[T], len(before))
	for _, info := range before {
		known[info.Item] = info
	}
	for _, item := range r.queued {
		info := known[item]
		info.Item, info.State = item, ItemQueued
		infos = append(infos, info)
	}
	return infos
}

// nameLate lists what has failed when no retry could come any more, and what was put
// off then. An item is listed once: as queued if it was added again, and as failed
// rather than as waiting. The queue knows when a waiting item was due, and the worker
// only when it has asked for it.
func (r *runner[T]) nameLate(s *Snapshot[T]) {
	if len(r.late) == 0 {
		return
	}
	late := maps.Clone(r.late)
	for i, info := range s.Queued {
		if l, ok := late[info.Item]; ok {
			s.Queued[i].Failures = max(info.Failures, l.failures)
			delete(late, info.Item)
		}
	}
	s.Waiting = slices.DeleteFunc(s.Waiting, func(info ItemInfo[T]) bool {
		l, ok := late[info.Item]
		if ok && l.putOff {
			delete(late, info.Item)
		}
		return ok && !l.putOff
	})
	inOrder := slices.SortedFunc(maps.Values(late), func(a, b lateItem[T]) int { return cmp.Compare(a.number, b.number) })
	for _, l := range inOrder {
		if l.putOff {
			s.Waiting = append(s.Waiting, ItemInfo[T]{Item: l.item, State: ItemWaiting, Failures: l.failures, Due: l.due})
		} else {
			s.Failed = append(s.Failed, ItemInfo[T]{Item: l.item, State: ItemFailed, Failures: l.failures})
		}
	}
	s.WaitingTotal, s.FailedTotal = len(s.Waiting), len(s.Failed)
}

// withoutRepeats returns the first of all mentions of an item, in their order. A worker can
// have declined an item that was added again, and that then was taken out.
func withoutRepeats[T comparable](items []T) []T {
	seen := make(map[T]bool, len(items))
	return slices.DeleteFunc(items, func(item T) bool {
		again := seen[item]
		seen[item] = true
		return again
	})
}
