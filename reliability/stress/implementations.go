package main

import (
	"context"
	"iter"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// A queue has the methods of all layers. Type assertions find out which of the interfaces below a
// layer has too.
type queue interface {
	Add(item int)
	Len() int
	Get() (item int, shutdown bool)
	Done(item int)
	ShutDown()
	ShutDownWithDrain()
	ShuttingDown() bool
}

type (
	delayer interface {
		AddAfter(item int, d time.Duration)
	}
	rateLimiter interface {
		AddRateLimited(item int)
		Forget(item int)
		NumRequeues(item int) int
	}
	adderOfAll    interface{ AddAll(items ...int) }
	contextGetter interface {
		GetContext(ctx context.Context) (int, error)
	}
	tryGetter interface{ TryGet() (int, bool) }
	remover   interface{ Remove(item int) bool }
	settler   interface {
		RemoveFunc(del func(item int) bool) int
		WaitIdle(ctx context.Context) error
		Barrier(ctx context.Context) error
	}
	rescheduler interface {
		Reschedule(item int, d time.Duration) bool
		Debounce(item int, quiet, most time.Duration) bool
	}
	snapshotter interface {
		Snapshot(limit int) workqueue.Snapshot[int]
		Items() iter.Seq[workqueue.ItemInfo[int]]
	}
	prioritizer interface {
		AddWith(options workqueue.AddOptions, items ...int) int
		GetInfo(ctx context.Context) (workqueue.ItemInfo[int], error)
	}
	drainer interface {
		Drain(ctx context.Context) error
	}
)

// An implementation makes a queue by a recipe. The tests have implementations with bugs.
type implementation struct {
	name string
	make func(*recipe) queue
	// plain makes a FIFO without options. The round inOrder checks its order.
	plain func() queue
	// limits is whether make returns rate limiting queues only.
	limits bool
	// shares is whether the queue is known to hand an item to two workers at a time.
	// The workers then leave account.worked alone, to spare the race detector.
	shares bool
}

var ours = implementation{name: "workqueue", make: makeOurs, plain: func() queue { return workqueue.NewTyped[int]() }}

func makeOurs(r *recipe) queue {
	fifo := workqueue.TypedQueueConfig[int]{Clock: r.clock, KeepTimes: r.times, Order: r.order, Pace: r.pace}
	if r.storage != nil {
		fifo.Queue = r.storage
	}
	delaying := workqueue.TypedDelayingQueueConfig[int]{Clock: r.clock, OneEntry: r.oneEntry}
	if r.metrics != nil {
		fifo.Name, fifo.MetricsProvider = "stress", r.metrics
		delaying.Name, delaying.MetricsProvider = "stress", r.metrics
	}
	switch {
	case r.layer == 0:
		return workqueue.NewTypedWithConfig(fifo)
	case r.itemPace != workqueue.Rate{}:
		return workqueue.NewTypedRateLimiting(r.limiter, workqueue.TypedRateLimitingQueueConfig[int]{
			Name: fifo.Name, MetricsProvider: r.metrics, Order: r.order, Pace: r.pace, ItemPace: r.itemPace, StrictBackoff: true,
		})
	case r.storage != nil || r.apart:
		delaying.Queue = workqueue.NewTypedWithConfig(fifo)
	default:
		delaying.Order, delaying.KeepTimes, delaying.Pace = fifo.Order, r.times, r.pace
	}
	if r.layer == 1 {
		return workqueue.NewTypedDelaying(delaying)
	}
	return workqueue.NewTypedRateLimiting(r.limiter, workqueue.TypedRateLimitingQueueConfig[int]{
		DelayingQueue: workqueue.NewTypedDelaying(delaying),
	})
}
