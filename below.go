package workqueue

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// A layer uses methods of the queue below beyond TypedInterface and TypedDelayingInterface. A
// queue from a config may lack any of these methods.
//
// The rule: a method that needs a method of the queue below panics at the first call if the
// queue lacks it. The panic names the type and the method. A weaker result would look like
// the truth: false from Remove, a Snapshot of one layer, an error that looks like the end.
// AddAll and Drain need no method of the queue below and work above any queue.
type (
	getter[T comparable] interface {
		GetContext(ctx context.Context) (T, error)
	}
	infoGetter[T comparable] interface {
		GetInfo(ctx context.Context) (ItemInfo[T], error)
	}
	tryGetter[T comparable] interface {
		TryGet() (item T, ok bool)
	}
	remover[T comparable] interface {
		Remove(item T) bool
	}
	funcRemover[T comparable] interface {
		RemoveFunc(del func(item T) bool) (removed int)
	}
	snapshotter[T comparable] interface {
		Snapshot(limit int) Snapshot[T]
	}
	walker[T comparable] interface {
		Items() iter.Seq[ItemInfo[T]]
	}
	statser interface {
		Stats() QueueStats
	}
	reAdder[T comparable] interface {
		ReAddContext(ctx context.Context, item T) (context.Context, context.CancelFunc)
	}
	rescheduler[T comparable] interface {
		Reschedule(item T, duration time.Duration) (taken bool)
	}
	debouncer[T comparable] interface {
		Debounce(item T, quiet, most time.Duration) (taken bool)
	}
	withAdder[T comparable] interface {
		AddWith(options AddOptions, items ...T) (taken int)
	}
	waker[T comparable] interface {
		Wake(items ...T) (woken int)
	}
	funcWaker[T comparable] interface {
		WakeFunc(match func(item T) bool) (woken int)
	}
	finder[T comparable] interface {
		Find(item T) (ItemInfo[T], bool)
	}
	limitsChanger interface {
		LimitsChanged()
	}
	drainer interface {
		Drain(ctx context.Context) error
	}
	idleWaiter interface {
		WaitIdle(ctx context.Context) error
	}
	emptyWaiter interface {
		WaitEmpty(ctx context.Context) error
	}
	barrier interface {
		Barrier(ctx context.Context) error
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

// below returns the queue below with the interface Q, and panics if the queue lacks the
// method of the given name.
func below[Q any](queue any, method string) Q {
	q, ok := queue.(Q)
	if !ok {
		panic(fmt.Sprintf("workqueue: %T has no %s", queue, method))
	}
	return q
}

// addBelow adds an item to a queue below, with a priority if the add has named one. A foreign
// queue does not tell whether the queue took the item. The item then counts as taken.
func addBelow[T comparable](queue TypedInterface[T], item T, k fifo.Rank) (taken bool) {
	if q, ok := queue.(*Typed[T]); ok {
		return q.addSlow(slab.HashOf(item), item, k)
	}
	if k.Named {
		return below[withAdder[T]](queue, "AddWith").AddWith(AddOptions{Priority: priorityOf(k)}, item) == 1
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
		return below[withAdder[T]](queue, "AddWith").AddWith(AddOptions{Priority: priorityOf(k)}, items...)
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
	below[withAdder[T]](queue, "AddWith")
}

// checkRank panics if a priority is named and the queue below knows none.
func (q *TypedDelaying[T]) checkRank(k fifo.Rank) { checkRankBelow[T](q.queue, k) }

func (q *TypedRateLimiting[T]) checkRank(k fifo.Rank) { checkRankBelow[T](q.queue, k) }
