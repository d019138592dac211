package workqueue

import (
	"context"
	"fmt"
	"time"
)

// This file has what a layer asks of the queue below it beyond the interface of that
// queue. A queue that was configured may lack any of these methods.
//
// The rule: a method that cannot do all of what it says without that of the queue
// below panics at its first call, with the type and the method. A result that says
// less than the truth would pass for the truth: false of a Remove, a Snapshot of a
// part, an error that looks like an end. What a layer can do by itself it does, so
// AddAll and Drain work above any queue.

// What a layer or Run uses of a queue beyond its interface.
type (
	getter[T comparable] interface {
		GetContext(ctx context.Context) (T, error)
	}
	tryGetter[T comparable] interface {
		TryGet() (item T, ok bool)
	}
	remover[T comparable] interface {
		Remove(item T) bool
	}
	snapshotter[T comparable] interface {
		Snapshot(limit int) Snapshot[T]
	}
	reAdder[T comparable] interface {
		ReAddContext(ctx context.Context, item T) (context.Context, context.CancelFunc)
	}
	rescheduler[T comparable] interface {
		Reschedule(item T, duration time.Duration)
	}
	debouncer[T comparable] interface {
		Debounce(item T, quiet, most time.Duration)
	}
	withAdder[T comparable] interface {
		AddWith(options AddOptions, items ...T)
	}
	drainer interface {
		Drain(ctx context.Context) error
	}
)

// below returns the queue below as one that has a method of the given name, and panics
// if it has not.
func below[Q any](queue any, method string) Q {
	q, ok := queue.(Q)
	if !ok {
		panic(fmt.Sprintf("workqueue: %T has no %s", queue, method))
	}
	return q
}

// A layer passes calls on.
type layer interface {
	below() any
}

func (q *TypedDelaying[T]) below() any     { return q.queue }
func (q *TypedRateLimiting[T]) below() any { return q.queue }

// hasMethod reports whether a method that layers pass on works: the queue has it, and so has
// what is below it.
func hasMethod[Q any](queue any) bool {
	if _, ok := queue.(Q); !ok {
		return false
	}
	l, ok := queue.(layer)
	return !ok || hasMethod[Q](l.below())
}

// A dropper is a queue whose drains drop the waiting items. Run asks it for these: a
// Drain lists them only in an error, and one after a ShutDown no longer knows them.
type dropper[T comparable] interface {
	// dropWaiting drops what waits and returns what adds that to a snapshot,
	// together with what the drains under way have dropped. The owner has to call
	// release.
	dropWaiting() (dropped func(*Snapshot[T]), release func())
}
