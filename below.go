package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// This file is how a layer passes on the methods that the interface of the
// layer below does not have. A queue that was configured there may lack any of
// them. What can be done without them is; what cannot says so, as the caller of
// a queue that was put together wrongly should learn of it at the first call.

// get returns an item of a queue below.
func get[T comparable](ctx context.Context, queue TypedInterface[T]) (T, error) {
	if q, ok := queue.(interface {
		GetContext(ctx context.Context) (T, error)
	}); ok {
		return q.GetContext(ctx)
	}
	return *new(T), fmt.Errorf("workqueue: GetContext of %T: %w", queue, errors.ErrUnsupported)
}

// as returns the queue as one that has a method of the given name.
func as[Q any](queue any, method string) Q {
	q, ok := queue.(Q)
	if !ok {
		panic(fmt.Sprintf("workqueue: %T has no %s", queue, method))
	}
	return q
}

// removeFrom removes the item from a queue below, if that is possible.
func removeFrom[T comparable](queue TypedInterface[T], item T) bool {
	q, ok := queue.(interface{ Remove(item T) bool })
	return ok && q.Remove(item)
}

// look returns a snapshot of a queue below, or what its Len says.
func look[T comparable](queue TypedInterface[T], limit int) Snapshot[T] {
	if q, ok := queue.(interface{ Snapshot(limit int) Snapshot[T] }); ok {
		return q.Snapshot(limit)
	}
	return Snapshot[T]{QueuedTotal: queue.Len()}
}

// watch watches an item of a queue below.
func watch[T comparable](queue TypedInterface[T], item T, f func()) bool {
	q, ok := queue.(watcher[T])
	return ok && q.watch(item, f)
}

// GetContext returns an item of the queue below, see [Typed.GetContext]. If that
// was configured and has no GetContext, the error wraps
// [errors.ErrUnsupported].
func (q *TypedDelaying[T]) GetContext(ctx context.Context) (T, error) { return get(ctx, q.queue) }

// TryGet returns an item of the queue below, see [Typed.TryGet]. It panics if
// that was configured and has no TryGet.
func (q *TypedDelaying[T]) TryGet() (item T, ok bool) {
	return as[interface{ TryGet() (T, bool) }](q.queue, "TryGet").TryGet()
}

func (q *TypedDelaying[T]) dropWaiting() (dropped func(*Snapshot[T]), release func()) {
	return q.closeToDrain().addTo, q.endDrain
}

func (q *TypedDelaying[T]) watch(item T, f func()) bool { return watch(q.queue, item, f) }

// GetContext returns a queued item, see [TypedDelaying.GetContext].
func (q *TypedRateLimiting[T]) GetContext(ctx context.Context) (T, error) {
	return get[T](ctx, q.queue)
}

// TryGet returns a queued item if there is one, see [TypedDelaying.TryGet].
func (q *TypedRateLimiting[T]) TryGet() (item T, ok bool) {
	return as[interface{ TryGet() (T, bool) }](q.queue, "TryGet").TryGet()
}

// AddAll adds the items, see [TypedDelaying.AddAll]; one by one if the delaying
// queue was configured and is not one.
func (q *TypedRateLimiting[T]) AddAll(items ...T) {
	if d, ok := q.queue.(*TypedDelaying[T]); ok {
		d.AddAll(items...)
		return
	}
	for _, item := range items {
		q.queue.Add(item)
	}
}

// Reschedule replaces the due time of the item, see [TypedDelaying.Reschedule].
// The limiter is not asked, and does not count it. It panics if the delaying
// queue was configured and has no Reschedule.
func (q *TypedRateLimiting[T]) Reschedule(item T, duration time.Duration) {
	as[interface {
		Reschedule(item T, duration time.Duration)
	}](q.queue, "Reschedule").Reschedule(item, duration)
}

// Debounce adds the item when a series of calls is over, see
// [TypedDelaying.Debounce]. It panics if the delaying queue was configured and
// has no Debounce.
func (q *TypedRateLimiting[T]) Debounce(item T, quiet, most time.Duration) {
	as[interface {
		Debounce(item T, quiet, most time.Duration)
	}](q.queue, "Debounce").Debounce(item, quiet, most)
}

// Remove takes the item back, see [TypedDelaying.Remove]; a delaying queue that
// was configured and has no Remove is not asked. The count of failures that [Run]
// keeps for MaxAttempts starts anew. The limiter goes on to know the item's
// failures: call Forget to have it start anew too.
func (q *TypedRateLimiting[T]) Remove(item T) bool {
	removed := removeFrom[T](q.queue, item)
	// Afterwards: a worker who counts first and has the item retried then would
	// leave the count of an item that is gone.
	q.forgetAttempts(item)
	return removed
}

// Snapshot returns what the delaying queue holds, see [TypedDelaying.Snapshot],
// with the failures that the limiter knows. It is asked for each item after the
// instant of the rest.
func (q *TypedRateLimiting[T]) Snapshot(limit int) Snapshot[T] {
	s := look[T](q.queue, limit)
	q.addFailures(s)
	return s
}

func (q *TypedRateLimiting[T]) addFailures(s Snapshot[T]) {
	if q.limiter == nil {
		return // Who asks what a queue holds wants the rest all the same.
	}
	for _, infos := range [][]ItemInfo[T]{s.Queued, s.InFlight, s.Waiting} {
		for i := range infos {
			infos[i].Failures = q.limiter.NumRequeues(infos[i].Item)
		}
	}
}

// Drain drains the delaying queue, see [TypedDelaying.Drain].
func (q *TypedRateLimiting[T]) Drain(ctx context.Context) error {
	err := drain[T](ctx, q.queue, &q.drains)
	if e, ok := err.(*DrainError[T]); ok {
		q.addFailures(e.Snapshot)
	}
	return err
}

func (q *TypedRateLimiting[T]) dropWaiting() (dropped func(*Snapshot[T]), release func()) {
	if d, ok := q.queue.(dropper[T]); ok {
		return d.dropWaiting()
	}
	return nil, func() {}
}

func (q *TypedRateLimiting[T]) watch(item T, f func()) bool { return watch[T](q.queue, item, f) }

// A watcher is a queue that tells when an item is added again.
type watcher[T comparable] interface {
	// watch has f called when the item, which the caller holds, is added again:
	// at once if that has happened since it was handed out, so that no Add is
	// missed, and otherwise within the Add, with the lock of the queue held. It
	// is called at most once, and not after Done. watch reports false if the
	// queue cannot tell; with a nil f it does nothing else.
	watch(item T, f func()) bool
}
