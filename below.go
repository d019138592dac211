package workqueue

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// A layer calls methods of the queue below beyond [TypedInterface] and [TypedDelayingInterface]. A
// queue from a config is full and has all of the methods, or counts as a queue without any of them.
//
// The rule: above a queue that is not full, a method of the layer with a need for more panics at the
// first call. The panic names the method and the type below. A weaker result would look like the truth:
// false from Remove, a Snapshot of a single layer, an error as at the end. AddAll and Drain work above
// any queue. Drain calls a Drain of the queue below if there is one.
type (
	fullTyped[T comparable] interface {
		TypedInterface[T]
		AddWith(options AddOptions, items ...T) (taken int)
		GetContext(ctx context.Context) (T, error)
		GetInfo(ctx context.Context) (ItemInfo[T], error)
		TryGet() (item T, ok bool)
		ReAddContext(ctx context.Context, item T) (context.Context, context.CancelFunc)
		Remove(item T) bool
		RemoveFunc(del func(item T) bool) (removed int)
		LimitsChanged()
		Find(item T) (ItemInfo[T], bool)
		Snapshot(limit int) Snapshot[T]
		Items() iter.Seq[ItemInfo[T]]
		Stats() QueueStats
		WaitIdle(ctx context.Context) error
		Barrier(ctx context.Context) error
	}
	fullDelaying[T comparable] interface {
		fullTyped[T]
		Reschedule(item T, duration time.Duration) (taken bool)
		Debounce(item T, quiet, maxWait time.Duration) (taken bool)
		Wake(items ...T) (woken int)
		WakeFunc(match func(item T) bool) (woken int)
		WaitEmpty(ctx context.Context) error
	}
)

// A configField is a field of a config, and whether the config sets the field.
type configField struct {
	name string
	set  bool
}

// mustBeUnset panics if a config sets one of the fields beside a queue below. The field belongs
// in the config of that queue.
func mustBeUnset(beside string, fields ...configField) {
	for _, f := range fields {
		if f.set {
			panic(fmt.Sprintf("workqueue: %s has no effect in a config with %s", f.name, beside))
		}
	}
}

// full returns a queue below with the methods of Q, and panics if the queue lacks any. The panic names
// the method of the caller.
func full[Q any](queue any, method string) Q {
	q, ok := queue.(Q)
	if !ok {
		panic(fmt.Sprintf("workqueue: %s needs all methods of a queue of this package below, and %T lacks some", method, queue))
	}
	return q
}

func (q *TypedDelaying[T]) below(method string) fullTyped[T] {
	return full[fullTyped[T]](q.queue, method)
}

func (q *TypedRateLimiting[T]) below(method string) fullDelaying[T] {
	return full[fullDelaying[T]](q.queue, method)
}

// addBelow adds an item to a queue below, with a priority if the add has named one. A foreign
// queue does not tell whether the queue took the item. The item then counts as taken.
func addBelow[T comparable](queue TypedInterface[T], item T, k fifo.Rank) (taken bool) {
	if q, ok := queue.(*Typed[T]); ok {
		return q.addSlow(slab.HashOf(item), item, k)
	}
	if k.Named {
		return full[fullTyped[T]](queue, "AddWith").AddWith(AddOptions{Priority: priorityOf(k)}, item) == 1
	}
	queue.Add(item)
	return true
}

// addAllBelow adds items to a queue below. A foreign queue gets the items one by one, unless
// a priority is named.
func addAllBelow[T comparable](queue TypedInterface[T], items []T, k fifo.Rank) (taken int) {
	if t, ok := queue.(*Typed[T]); ok {
		return t.addAll(items, k)
	}
	if k.Named {
		return full[fullTyped[T]](queue, "AddWith").AddWith(AddOptions{Priority: priorityOf(k)}, items...)
	}
	for _, item := range items {
		if !queue.ShuttingDown() {
			queue.Add(item)
			taken++
		}
	}
	return taken
}

// checkRankBelow panics if a priority is named and a queue below takes none. Without this
// check an item could wait first, and the panic would end the program when the item is due.
func checkRankBelow[T comparable](queue any, k fifo.Rank) {
	if !k.Named {
		return
	}
	if q, ok := queue.(interface{ checkRank(k fifo.Rank) }); ok {
		q.checkRank(k)
		return
	}
	full[fullTyped[T]](queue, "AddWith")
}

// checkRank panics if a priority is named and the queue below knows none.
func (q *TypedDelaying[T]) checkRank(k fifo.Rank) { checkRankBelow[T](q.queue, k) }

func (q *TypedRateLimiting[T]) checkRank(k fifo.Rank) { checkRankBelow[T](q.queue, k) }
