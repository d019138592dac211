package compat_test

import (
	"context"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

//lint:file-ignore SA1019 The deprecated API is under test, too.

const oursName = "workqueue"

func ours() implementation { return oursWith(workqueue.Order[string]{}) }

// oursWith has the order in the lowest layer that is configured.
func oursWith(order workqueue.Order[string]) implementation {
	impl := implementation{
		name: oursName,
		queue: func(s settings) typedQueue[string] {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
				Name: s.name, MetricsProvider: oursProvider(s.meter), Clock: s.clock, Queue: s.storage,
				Order: orderUnless(s.storage != nil, order),
			})
		},
		delaying: func(s settings) delayingQueue[string] {
			return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
				Name: s.name, MetricsProvider: oursProvider(s.meter), Clock: s.clock, Queue: s.queue,
				Order: orderUnless(s.queue != nil, order),
			})
		},
		rateLimiting: func(l rateLimiter[string], s settings) rateLimitingQueue[string] {
			return workqueue.NewTypedRateLimitingQueueWithConfig(l, workqueue.TypedRateLimitingQueueConfig[string]{
				Name: s.name, MetricsProvider: oursProvider(s.meter), Clock: s.clock, DelayingQueue: s.delaying,
				Order: orderUnless(s.delaying != nil, order),
			})
		},
		storage: func() itemStorage[string] { return workqueue.DefaultQueue[string]() },
		parallelize: func(ctx context.Context, workers, pieces int, work func(int), chunk *int) {
			if chunk == nil {
				workqueue.ParallelizeUntil(ctx, workers, pieces, work)
			} else {
				workqueue.ParallelizeUntil(ctx, workers, pieces, work, workqueue.WithChunkSize(*chunk))
			}
		},
		untyped: oursUntyped(),
	}
	impl.plain.queue = func() typedQueue[string] { return workqueue.NewTyped[string]() }
	impl.plain.delaying = func() delayingQueue[string] { return workqueue.NewTypedDelayingQueue[string]() }
	impl.plain.rateLimiting = func(l rateLimiter[string]) rateLimitingQueue[string] {
		return workqueue.NewTypedRateLimitingQueue[string](l)
	}
	oursLimiters(&impl)
	return impl
}

func orderUnless(below bool, order workqueue.Order[string]) workqueue.Order[string] {
	if below {
		return workqueue.Order[string]{}
	}
	return order
}

func oursLimiters(impl *implementation) {
	impl.exponential = func(base, limit time.Duration) rateLimiter[string] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[string](base, limit)
	}
	impl.fastSlow = func(fast, slow time.Duration, fastAttempts int) rateLimiter[string] {
		return workqueue.NewTypedItemFastSlowRateLimiter[string](fast, slow, fastAttempts)
	}
	impl.bucket = func(qps rate.Limit, burst int) rateLimiter[string] {
		return &workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(qps, burst)}
	}
	impl.maxOf = func(limiters ...rateLimiter[string]) rateLimiter[string] {
		return workqueue.NewTypedMaxOfRateLimiter(convert[workqueue.TypedRateLimiter[string]](limiters)...)
	}
	impl.maxWait = func(l rateLimiter[string], limit time.Duration) rateLimiter[string] {
		return workqueue.NewTypedWithMaxWaitRateLimiter[string](l, limit)
	}
	impl.controllerDefault = func() rateLimiter[string] { return workqueue.DefaultTypedControllerRateLimiter[string]() }
	impl.itemDefault = func() rateLimiter[string] { return workqueue.DefaultTypedItemBasedRateLimiter[string]() }
}

func oursProvider(m *meter) workqueue.MetricsProvider {
	if m == nil {
		return nil
	}
	return provider[workqueue.GaugeMetric, workqueue.SettableGaugeMetric, workqueue.CounterMetric, workqueue.HistogramMetric]{m}
}

func oursUntyped() untypedConstructors {
	limiter := workqueue.DefaultItemBasedRateLimiter
	return untypedConstructors{
		queues: map[string]func() typedQueue[any]{
			"New":           func() typedQueue[any] { return workqueue.New() },
			"NewNamed":      func() typedQueue[any] { return workqueue.NewNamed("n") },
			"NewWithConfig": func() typedQueue[any] { return workqueue.NewWithConfig(workqueue.QueueConfig{Name: "n"}) },
		},
		delaying: map[string]func(clock.WithTicker) delayingQueue[any]{
			"NewDelayingQueue":      func(clock.WithTicker) delayingQueue[any] { return workqueue.NewDelayingQueue() },
			"NewNamedDelayingQueue": func(clock.WithTicker) delayingQueue[any] { return workqueue.NewNamedDelayingQueue("n") },
			"TypedNewDelayingQueue": func(clock.WithTicker) delayingQueue[any] { return workqueue.TypedNewDelayingQueue[any]() },
			"NewDelayingQueueWithConfig": func(c clock.WithTicker) delayingQueue[any] {
				return workqueue.NewDelayingQueueWithConfig(workqueue.DelayingQueueConfig{Clock: c})
			},
			"NewDelayingQueueWithCustomClock": func(c clock.WithTicker) delayingQueue[any] {
				return workqueue.NewDelayingQueueWithCustomClock(c, "n")
			},
			"NewDelayingQueueWithCustomQueue": func(clock.WithTicker) delayingQueue[any] {
				return workqueue.NewDelayingQueueWithCustomQueue(workqueue.New(), "n")
			},
		},
		rateLimiting: map[string]func() rateLimitingQueue[any]{
			"NewRateLimitingQueue":      func() rateLimitingQueue[any] { return workqueue.NewRateLimitingQueue(limiter()) },
			"NewNamedRateLimitingQueue": func() rateLimitingQueue[any] { return workqueue.NewNamedRateLimitingQueue(limiter(), "n") },
			"NewRateLimitingQueueWithConfig": func() rateLimitingQueue[any] {
				return workqueue.NewRateLimitingQueueWithConfig(limiter(), workqueue.RateLimitingQueueConfig{})
			},
			"NewRateLimitingQueueWithDelayingInterface": func() rateLimitingQueue[any] {
				return workqueue.NewRateLimitingQueueWithDelayingInterface(workqueue.NewDelayingQueue(), limiter())
			},
		},
		limiters: oursUntypedLimiters(),
	}
}

func oursUntypedLimiters() map[string]func() rateLimiter[any] {
	exponential := workqueue.NewItemExponentialFailureRateLimiter
	return map[string]func() rateLimiter[any]{
		"DefaultControllerRateLimiter":         func() rateLimiter[any] { return workqueue.DefaultControllerRateLimiter() },
		"DefaultItemBasedRateLimiter":          func() rateLimiter[any] { return workqueue.DefaultItemBasedRateLimiter() },
		"NewItemExponentialFailureRateLimiter": func() rateLimiter[any] { return exponential(time.Second, 3*time.Second) },
		"NewItemFastSlowRateLimiter": func() rateLimiter[any] {
			return workqueue.NewItemFastSlowRateLimiter(time.Second, time.Minute, 2)
		},
		"NewMaxOfRateLimiter": func() rateLimiter[any] {
			return workqueue.NewMaxOfRateLimiter(exponential(time.Second, time.Hour), exponential(2*time.Second, 3*time.Second))
		},
		"NewWithMaxWaitRateLimiter": func() rateLimiter[any] {
			return workqueue.NewWithMaxWaitRateLimiter(exponential(time.Second, time.Hour), 3*time.Second)
		},
		"BucketRateLimiter": func() rateLimiter[any] {
			return &workqueue.BucketRateLimiter{Limiter: rate.NewLimiter(1, 2)}
		},
	}
}
