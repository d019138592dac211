package workqueue

import (
	"context"
	"errors"
	"fmt"
)

// This file has what a layer asks of the queue below it beyond the interface of that
// queue. A queue that was configured may lack any of these methods. Where a layer can
// do without one, it does. Where it cannot, it returns an error or panics at the first
// call, so that the mistake in the construction is noticed early.

// getBelow returns an item of a queue below.
func getBelow[T comparable](ctx context.Context, queue TypedInterface[T]) (T, error) {
	if q, ok := queue.(interface {
		GetContext(ctx context.Context) (T, error)
	}); ok {
		return q.GetContext(ctx)
	}
	return *new(T), fmt.Errorf("workqueue: GetContext of %T: %w", queue, errors.ErrUnsupported)
}

// asMethod returns the queue as one that has a method of the given name.
func asMethod[Q any](queue any, method string) Q {
	q, ok := queue.(Q)
	if !ok {
		panic(fmt.Sprintf("workqueue: %T has no %s", queue, method))
	}
	return q
}

// removeBelow removes the item from a queue below, if that is possible.
func removeBelow[T comparable](queue TypedInterface[T], item T) bool {
	q, ok := queue.(interface{ Remove(item T) bool })
	return ok && q.Remove(item)
}

// snapshotBelow returns a snapshot of a queue below, or what its Len says.
func snapshotBelow[T comparable](queue TypedInterface[T], limit int) Snapshot[T] {
	if q, ok := queue.(interface{ Snapshot(limit int) Snapshot[T] }); ok {
		return q.Snapshot(limit)
	}
	return Snapshot[T]{QueuedTotal: queue.Len()}
}

// watchBelow watches an item of a queue below.
func watchBelow[T comparable](queue TypedInterface[T], item T, f func()) bool {
	q, ok := queue.(watcher[T])
	return ok && q.watch(item, f)
}

// A watcher is a queue that tells when an item is added again.
type watcher[T comparable] interface {
	// watch has f called when the item, which the caller holds, is added again:
	// at once if that has happened since it was handed out, so that no Add is
	// missed, and otherwise within the Add, with the lock of the queue held. It
	// is called at most once, and not after Done. watch reports false if the
	// queue cannot tell; with a nil f it does nothing else.
	watch(item T, f func()) bool
}

// A dropper is a queue whose drains drop the waiting items. Run asks it for these: a
// Drain lists them only in an error, and one after a ShutDown no longer knows them.
type dropper[T comparable] interface {
	// dropWaiting drops what waits and returns what adds that to a snapshot,
	// together with what the drains under way have dropped. The owner has to call
	// release.
	dropWaiting() (dropped func(*Snapshot[T]), release func())
}
