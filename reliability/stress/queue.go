package main

import (
	"context"
	"iter"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// A queue has the methods of all layers.
type queue interface {
	Add(item int)
	AddAll(items ...int) int
	AddWith(options workqueue.AddOptions, items ...int) int
	Len() int
	Get() (item int, shutdown bool)
	GetContext(ctx context.Context) (int, error)
	GetInfo(ctx context.Context) (workqueue.ItemInfo[int], error)
	TryGet() (int, bool)
	Done(item int)
	Remove(item int) bool
	RemoveFunc(del func(item int) bool) int
	WaitIdle(ctx context.Context) error
	Barrier(ctx context.Context) error
	Snapshot(limit int) workqueue.Snapshot[int]
	Items() iter.Seq[workqueue.ItemInfo[int]]
	Drain(ctx context.Context) error
	ShutDown()
	ShutDownWithDrain()
	ShuttingDown() bool
}

// A delayer is a queue of layer 1 or 2.
type delayer interface {
	AddAfter(item int, d time.Duration)
	Reschedule(item int, d time.Duration) bool
	Debounce(item int, quiet, maxWait time.Duration) bool
}

// A rateLimiter is a queue of layer 2.
type rateLimiter interface {
	AddRateLimited(item int)
	Forget(item int)
	NumRequeues(item int) int
}

// make makes the queue.
func (r *recipe) make() queue {
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
