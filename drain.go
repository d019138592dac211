package workqueue

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// DrainError says what a drain has left behind because it was ended early. Queued
// items and held ones are not lost: workers may go on to get the former, and still
// owe Done for the latter. Waiting items are: the shutdown has dropped them.
type DrainError[T comparable] struct {
	// Err is the error of the context, or [ErrShutDown] if a ShutDown has ended
	// the drain.
	Err error

	// Snapshot has all items, as of the instant when the drain ended. Its waiting
	// items are those of the instant when the drain began.
	Snapshot[T]
}

// Error returns the numbers, and the first items in flight by name.
func (e *DrainError[T]) Error() string {
	const names = 3
	var b strings.Builder
	fmt.Fprintf(&b, "workqueue: drain left %d queued, %d in flight", e.QueuedTotal, e.InFlightTotal)
	for i, info := range e.InFlight[:min(names, len(e.InFlight))] {
		b.WriteString([]string{" (", ", "}[min(i, 1)])
		fmt.Fprint(&b, info.Item)
		if info.Age > 0 {
			fmt.Fprintf(&b, " for %v", info.Age)
		}
	}
	switch {
	case e.InFlightTotal > names:
		b.WriteString(", ...)")
	case len(e.InFlight) > 0:
		b.WriteString(")")
	}
	fmt.Fprintf(&b, ", %d waiting", e.WaitingTotal)
	if e.FailedTotal > 0 {
		fmt.Fprintf(&b, ", %d failed", e.FailedTotal)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns Err.
func (e *DrainError[T]) Unwrap() error { return e.Err }

// Is makes [errors.Is] find [ErrNotDrained] in any DrainError, whatever its T.
func (e *DrainError[T]) Is(target error) bool { return target == ErrNotDrained }

// String is Error: that of the Snapshot would hide it.
func (e *DrainError[T]) String() string { return e.Error() }

// Drain is ShutDownWithDrain with an end: it shuts the queue down and waits
// until it is empty and no item is held, and then returns nil. If ctx is done
// first, or ShutDown is called, it returns a *[DrainError] that has what is
// left.
//
// It may be called more than once, concurrently, and beside ShutDownWithDrain:
// all calls wait for the same. They wait for the goroutine that sets the gauges
// too. If a metric keeps that until ctx is done, it ends when the metric returns.
func (q *Typed[T]) Drain(ctx context.Context) error {
	drained := q.shutDown(true)
	waitWithin(ctx, drained)
	waitWithin(ctx, q.reporter.allLeft(&q.mu))
	q.retire()
	s := q.remains(ErrShutDown)
	if s == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		s.Err = err
	}
	return s
}

// waitWithin waits until the channel is closed or ctx is done.
func waitWithin(ctx context.Context, closed <-chan struct{}) {
	select {
	case <-closed:
	case <-ctx.Done():
	}
}

// remains returns a DrainError if anything is left.
func (q *Typed[T]) remains(err error) *DrainError[T] {
	s := q.snapshot(math.MaxInt, q.metrics.now())
	if s.QueuedTotal+s.InFlightTotal == 0 {
		return nil
	}
	return &DrainError[T]{Err: err, Snapshot: s}
}

// Drain drops the waiting items, drains the queue below, see [Typed.Drain], and
// ends the goroutine, for which it waits until ctx is done at the latest. The
// dropped items are listed in the *[DrainError] if there is one. They alone do not
// make Drain return an error. To list them takes time after ctx is done, 0.4 us an
// item for millions of them, but no other call waits for that.
//
// A queue below that was configured and has no Drain is drained by its
// ShutDownWithDrain, its Len and its ShutDownWithDrain again, as the first may
// return while items are queued. When ctx is done and no other call waits, its
// ShutDown ends that. The error then knows its Len and nothing else.
func (q *TypedDelaying[T]) Drain(ctx context.Context) error {
	dropped := q.closeToDrain()
	defer q.endDrain()
	err := drainBelow(ctx, q.queue, &q.drains)
	waitWithin(ctx, q.loops.allLeft(&q.mu))
	q.retire()
	if e, ok := err.(*DrainError[T]); ok {
		dropped.addTo(&e.Snapshot)
	}
	return err
}

// closeToDrain closes the queue, and returns what waited when the first of the
// drains under way did. It hands over the agenda itself and not a list of it. To make
// the list takes more than a second for 4 million items, every call would wait for
// that, and nobody reads it if the drain is complete.
func (q *TypedDelaying[T]) closeToDrain() (dropped *leftover[T]) {
	now := q.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.draining++
	if q.agenda.len() > 0 {
		q.dropped = &leftover[T]{agenda: q.agenda, now: now, epoch: q.epoch}
	}
	q.closeLocked()
	return q.dropped
}

// endDrain forgets what was dropped when the last of the drains under way is over.
func (q *TypedDelaying[T]) endDrain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.draining--
	if q.draining == 0 {
		q.dropped = nil
	}
}

// A leftover is what waited in a queue when a drain began. Nobody changes it, so
// that the calls of Drain that share it need no lock.
type leftover[T comparable] struct {
	agenda agenda[T]
	now    time.Duration
	epoch  time.Time
}

// addTo adds the items to a snapshot; nil has none.
func (l *leftover[T]) addTo(s *Snapshot[T]) {
	if l != nil {
		c := census[T]{limit: math.MaxInt}
		c.makeRoomForWaiting(l.agenda.len())
		c.addWaiting(&l.agenda)
		c.describeWaiting(s, l.now, l.epoch)
	}
}
