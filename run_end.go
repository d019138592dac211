package workqueue

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/agenda"
)

// This file has the end of Run: how the queue is drained, and which items are left. Some are
// still in the queue, some were dropped by the shutdown, and some are in the notes of workers.

// keeps reports whether the queue goes on when this Run ends: for the next Run, or for
// another Run that drains the queue. If the queue goes on, this Run gives its items back, below the seal.
func (r *runner[T]) keeps() bool {
	switch r.options.AtEnd {
	case EndKeep:
		return true
	case EndDrain:
		return r.gaveWay.Load() || r.limiting.sealed.holders.Load() > 1
	}
	return r.limiting.sealed.Load()
}

// end ends Run after ctx has ended. It waits for the workers, and shuts the queue down
// unless the queue goes on. A queue that somebody else has shut down is closed too, or
// nobody would name its items.
func (r *runner[T]) end() error {
	drains := r.options.AtEnd == EndDrain
	if drains {
		r.limiting.sealed.holders.Add(1) // Before the grace period can be over, see keeps.
	}
	if r.options.Grace > 0 {
		defer time.AfterFunc(r.options.Grace, func() { r.cancel(context.Cause(r.ctx)) }).Stop()
	}
	if drains && r.finish(dueAfter(r.delaying.now(), r.options.Grace)) || !drains && r.keeps() {
		<-r.working
		if kept, err := r.keep(); kept {
			return err
		}
	}
	return r.close()
}

// keep ends a Run whose queue goes on, and reports false if the queue does not go on. The Run
// leaves an item behind only if the item could not be given back. OnStop is told of the items in the queue,
// unless another Run drains the queue: the other Run handles or names these items. Without an OnStop the log has
// the end, as adds are still taken, and nobody may handle them.
//
// keep looks at the queue last: a shutdown before the Snapshot may have dropped items.
func (r *runner[T]) keep() (kept bool, err error) {
	if r.options.AtEnd != EndKeep || r.limiting.sealed.Load() {
		if !r.isOpen() {
			return false, nil
		}
		return true, r.leftBehind(nil, true)
	}
	var s Snapshot[T]
	if r.options.OnStop != nil {
		s = r.limiting.Snapshot(math.MaxInt)
	}
	if !r.isOpen() {
		return false, nil
	}
	if r.options.OnStop != nil {
		r.options.OnStop(context.WithoutCancel(r.ctx), s)
	} else {
		queued, _ := r.typed.sizes()
		r.logger.Info("Run has ended, and the queue stays open", "queued", queued)
	}
	return true, r.err
}

// isOpen reports whether nobody has shut the queue down.
func (r *runner[T]) isOpen() bool { return !r.typed.ShuttingDown() }

// finish waits until nothing is queued, nothing is held, and nothing waits after a failure.
// It reports true if the grace period was over first and another Run goes on to drain the
// queue.
//
// WaitIdle does not wait for the items that wait after a failure, and WaitEmpty also waits for the
// planned ones. So finish asks, at first every millisecond and then less often.
//
// Once nothing can come before graceEnd, a time of the delaying queue, the grace period is over early. The
// look is not the first step: other Runs that end at the same time must have sealed the queue, as the last
// one to drain ends the queue for all.
func (r *runner[T]) finish(graceEnd time.Duration) (handedOver bool) {
	const most = 16 * time.Millisecond
	for wait := time.Millisecond; r.hasWork(); wait = min(2*wait, most) {
		select {
		case <-r.handling.Done():
		case <-r.working: // The workers end with handling, or after a shutdown by somebody else.
		case <-time.After(wait):
			if r.nanWork.Load() == 0 && r.delaying.isQuietUntil(graceEnd) {
				r.cancel(context.Cause(r.ctx))
			}
			continue
		}
		if r.handling.Err() == nil {
			return false
		}
		r.gaveWay.Store(true) // Before holders says that no other Run drains.
		handedOver = r.limiting.sealed.handOver()
		r.gaveWay.Store(handedOver)
		return handedOver
	}
	return false
}

// hasWork asks for the items at work first: an item that fails waits before it leaves them.
func (r *runner[T]) hasWork() bool {
	return r.nanWork.Load() > 0 || r.delaying.hasWork(&r.failed, r.nanFailed.Load())
}

// hasWork reports whether an item is queued, or held, or waits after a failure. A failure is
// counted before its item waits, and the item waits before its Done. A due item goes to the
// queue below with the lock held, so one look finds the item in one of the two queues.
//
// The failures of an item that differs from itself are not counted. Once such an item has
// failed, nan is true, and each waiting item that differs from itself counts.
func (q *TypedDelaying[T]) hasWork(failed *attempts[T], nan bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if queued, held := q.typed.sizes(); queued+held > 0 {
		return true
	}
	return failed.waiting(&q.agenda, nan, 1) > 0
}

// isQuietUntil reports whether nothing is queued or held, and no item is due before the time. It is false
// with an injected clock, which can leap.
func (q *TypedDelaying[T]) isQuietUntil(at time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	queued, held := q.typed.sizes()
	return q.real && queued+held == 0 && q.agenda.Len() > 0 && q.agenda.Next() > at
}

// close shuts the queue down, waits for the workers, and takes the remaining items out of
// the queue. OnStop or the error of Run names the items. If the items stayed in the queue, a
// later drain would wait for them for ever.
//
// The drains of other callers go on until the workers have ended. The shutdown then ends
// these drains, as nobody handles the rest.
func (r *runner[T]) close() error {
	r.delaying.close(true, func(l *leftover[T]) { r.dropped = r.claim(l) })
	<-r.working
	r.limiting.ShutDown()
	return r.leftBehind(r.takeQueued(), false)
}

// claim returns the items that the shutdown has dropped, for one of the Runs with an OnStop.
// A Run without an OnStop leaves the names to another Run.
func (r *runner[T]) claim(l *leftover[T]) *leftover[T] {
	if r.options.OnStop == nil {
		return l
	}
	return l.claim()
}

// takeQueued takes all items out of the queue. It returns the queued items in their order, if
// somebody may want the list. An item of a full group, which a foreign worker keeps full, comes
// out by Remove.
func (r *runner[T]) takeQueued() (before []ItemInfo[T]) {
	if r.names() {
		before = r.typed.Snapshot(math.MaxInt).Queued
	}
	for {
		item, ok := r.typed.takeOut()
		if !ok {
			break
		}
		r.queued = append(r.queued, item)
	}
	if r.typed.Len() > 0 {
		for _, info := range r.typed.Snapshot(math.MaxInt).Queued {
			if r.typed.drop(info.Item) {
				r.queued = append(r.queued, info.Item)
			}
		}
	}
	return before
}

// takeHeldBack removes the items of groups that are held back, after a shutdown by somebody else and once nobody
// holds an item. No worker gets such an item any more: a drain would wait for ever, and OnStop would name nothing.
// All other items stay for the workers of others.
func (r *runner[T]) takeHeldBack() (before []ItemInfo[T]) {
	if queued, held := r.typed.sizes(); queued == 0 || held > 0 {
		return nil
	}
	s := r.typed.Snapshot(math.MaxInt)
	for _, info := range s.Queued {
		if info.Why != "" && s.InFlightTotal == 0 && r.typed.drop(info.Item) {
			r.queued = append(r.queued, info.Item)
		}
	}
	return s.Queued
}

// leftBehind tells OnStop or the log about the items that are left, and returns the error of a
// Run that drains. Items that wait without a failure do not make an error. before lists the
// queued items at the moment when Run began to take them out. With notesOnly, another Run has the queue, and
// this Run leaves only what its workers have noted.
//
// The workers have ended, so their notes are read without the lock. The lists are made only
// for somebody who gets them, as millions of items take long.
func (r *runner[T]) leftBehind(before []ItemInfo[T], notesOnly bool) error {
	r.addLate()
	var others Snapshot[T]
	held := 0
	if !notesOnly {
		if r.dropped == nil {
			r.dropped = r.claim(r.delaying.leftover())
		}
		others, held = r.heldByOthers()
	}
	failed, retries, planned := r.countLate()
	something := len(r.queued)+held+failed+retries > 0
	undrained := r.options.AtEnd == EndDrain && something
	left := new(DrainError[T])
	if undrained || r.options.OnStop != nil {
		left.Left = r.nameLeft(before, others)
	}
	if left.Left.RefusedTotal = int(r.limiting.sealed.refused.Swap(0)); left.Left.RefusedTotal > 0 {
		r.logger.Info("Run has refused adds while it drained the queue", "refused", left.Left.RefusedTotal)
	}
	if r.options.OnStop != nil {
		r.options.OnStop(context.WithoutCancel(r.ctx), left.Left)
	} else {
		end := "Run has ended, and the queue is shut down"
		if notesOnly {
			end = "Run has ended, and another Run drains the queue"
		}
		r.logger.Info(end, "queued", len(r.queued), "inFlight", held, "failed", failed, "retries", retries, "planned", planned)
	}
	var err error
	switch end := r.ctx.Err(); {
	case undrained:
		left.Err = cmp.Or(end, ErrShutDown)
		err = left
	case end == nil && r.err == nil: // nil would say that the caller has ended this Run.
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

// addLate takes the notes of the workers. Items that were declined or cut short come before queued items.
//
// An item that was added again afterwards is left as queued, and once: a shutdown has taken it out of
// the queue.
func (r *runner[T]) addLate() {
	late := r.takeLate()
	for _, item := range r.queued {
		delete(late, item)
	}
	var first []T
	r.lost = make(map[T]lateItem[T]) // A NaN cannot be deleted from a map.
	for _, l := range inOrderOfNotes(maps.Values(late)) {
		if l.state == ItemQueued {
			first = append(first, l.item)
		} else {
			r.lost[l.item] = l
		}
	}
	r.queued = append(first, r.queued...)
}

// takeLate takes the notes of this Run. From then on nothing is noted for this Run.
func (r *runner[T]) takeLate() map[T]lateItem[T] {
	r.typed.mu.Lock()
	defer r.typed.mu.Unlock()
	late := r.late.of[r]
	delete(r.late.of, r)
	return late
}

// forgetLate takes back what any Run has noted of an item: the item is handled once more.
func (r *runner[T]) forgetLate(item T) {
	if !r.late.any.Load() {
		return
	}
	r.typed.mu.Lock()
	defer r.typed.mu.Unlock()
	r.late.forget(item)
}

// heldByOthers returns how many items others hold, and the list of these items if somebody may want the
// list. The number is the length of the list: an item that is done in between would make an error that
// names nothing.
func (r *runner[T]) heldByOthers() (s Snapshot[T], held int) {
	if !r.names() {
		_, held = r.typed.sizes()
		return s, held
	}
	s = r.typed.Snapshot(math.MaxInt)
	return s, s.InFlightTotal
}

// names reports whether OnStop or the error of a drain may name what is left.
func (r *runner[T]) names() bool { return r.options.OnStop != nil || r.options.AtEnd == EndDrain }

// A lateItem is an item whose handler has ended, or did not begin, when the item could not come again any
// more.
type lateItem[T comparable] struct {
	item     T
	by       *runner[T]
	number   int       // of notes before
	state    ItemState // failed, waiting for what was put off, or queued for what was declined or cut short
	failures int
	due      time.Time // of what was put off, if known
}

// lateItems are the late items of all Runs on a queue. An item that is handled once more is late no
// more, whatever Run handles the item: an add has come before the shutdown, and only the last outcome
// counts. Nor is an item that is removed.
//
// The lock of the Typed guards all fields but any: a conclusion and its note are one step, and so are a
// removal and the end of the note.
type lateItems[T comparable] struct {
	any   atomic.Bool // there have been items
	of    map[*runner[T]]map[T]lateItem[T]
	notes int
}

// note notes an item whose retry the queue has dropped, or would drop.
func (ls *lateItems[T]) note(l lateItem[T]) {
	ls.forget(l.item)
	if ls.of[l.by] == nil {
		ls.of[l.by] = make(map[T]lateItem[T])
	}
	l.number = ls.notes
	ls.notes++
	ls.of[l.by][l.item] = l
	ls.any.Store(true)
}

func (ls *lateItems[T]) forget(item T) {
	for _, items := range ls.of {
		delete(items, item)
	}
}

// lateItems returns the late items of the queue. The first Run makes them.
func (q *Typed[T]) lateItems() *lateItems[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.late == nil {
		q.late = &lateItems[T]{of: make(map[*runner[T]]map[T]lateItem[T])}
	}
	return q.late
}

func inOrderOfNotes[T comparable](items iter.Seq[lateItem[T]]) []lateItem[T] {
	return slices.SortedFunc(items, func(a, b lateItem[T]) int { return cmp.Compare(a.number, b.number) })
}

// countLate returns how many items have failed when no retry could come any more, how many are left waiting
// after a failure, and how many are left waiting for their time. The last number alone makes no error of Run.
// Each item counts once, as nameLate lists each item once.
func (r *runner[T]) countLate() (failed, retries, planned int) {
	r.dropped.look(func(a *agenda.Agenda[T]) {
		retries = r.failed.waiting(a, r.nanFailed.Load(), math.MaxInt)
		planned = a.Len() - retries
		for item := range r.lost {
			switch dropped := a.Has(item); {
			case dropped && r.failed.number(item) > 0:
				retries--
			case dropped:
				planned--
			}
		}
	})
	for _, l := range r.lost {
		switch {
		case l.state == ItemFailed:
			failed++
		case l.failures > 0:
			retries++
		default:
			planned++
		}
	}
	return failed, retries, planned
}

// nameLeft adds the items that are left to the items of others.
func (r *runner[T]) nameLeft(before []ItemInfo[T], s Snapshot[T]) Snapshot[T] {
	s.Queued = r.nameQueued(before)
	s.QueuedTotal = len(s.Queued)
	r.dropped.addTo(&s)
	r.limiting.addFailures(s)
	r.nameLate(&s)
	return s
}

// nameQueued lists the items that Run has taken out. The queue knew most of them. The others
// were declined by a worker, or given back by another caller.
func (r *runner[T]) nameQueued(before []ItemInfo[T]) (infos []ItemInfo[T]) {
	if slices.EqualFunc(before, r.queued, func(info ItemInfo[T], item T) bool { return info.Item == item }) {
		return before // The usual case. For millions of items the map below is slow.
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

// nameLate lists the items that have failed, or were put off, when they could not come again
// any more. An item is listed once: as queued if it was added again, and as failed rather
// than as waiting. The queue knows when a waiting item was due. A worker knows only if its
// handler has said a time.
func (r *runner[T]) nameLate(s *Snapshot[T]) {
	if len(r.lost) == 0 {
		return
	}
	late := maps.Clone(r.lost)
	s.Waiting = slices.DeleteFunc(s.Waiting, func(info ItemInfo[T]) bool {
		l := late[info.Item]
		if l.state == ItemWaiting {
			delete(late, info.Item)
		}
		return l.state == ItemFailed
	})
	for _, l := range inOrderOfNotes(maps.Values(late)) {
		info := ItemInfo[T]{Item: l.item, State: l.state, Failures: l.failures, Due: l.due}
		if l.state == ItemWaiting {
			s.Waiting = append(s.Waiting, info)
		} else {
			s.Failed = append(s.Failed, info)
		}
	}
	s.WaitingTotal, s.FailedTotal = len(s.Waiting), len(s.Failed)
}
