package compat_test

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	clientgo "k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// This file and conformance_ours_test.go say the same of two packages. Neither
// can be made from the other by a type parameter, as a package is not a type.

//lint:file-ignore SA1019 The deprecated API is under test, too.

const clientGoName = "client-go"

func clientGo() implementation {
	impl := implementation{
		name: clientGoName,
		queue: func(s settings) typedQueue[string] {
			return clientgo.NewTypedWithConfig(clientgo.TypedQueueConfig[string]{
				Name: s.name, MetricsProvider: clientGoProvider(s.meter), Clock: s.clock, Queue: s.storage,
			})
		},
		delaying: func(s settings) delayingQueue[string] {
			return clientgo.NewTypedDelayingQueueWithConfig(clientgo.TypedDelayingQueueConfig[string]{
				Name: s.name, MetricsProvider: clientGoProvider(s.meter), Clock: s.clock, Queue: s.queue,
			})
		},
		rateLimiting: func(l rateLimiter[string], s settings) rateLimitingQueue[string] {
			return clientgo.NewTypedRateLimitingQueueWithConfig(l, clientgo.TypedRateLimitingQueueConfig[string]{
				Name: s.name, MetricsProvider: clientGoProvider(s.meter), Clock: s.clock, DelayingQueue: s.delaying,
			})
		},
		storage: func() itemStorage[string] { return clientgo.DefaultQueue[string]() },
		parallelize: func(ctx context.Context, workers, pieces int, work func(int), chunk *int) {
			if chunk == nil {
				clientgo.ParallelizeUntil(ctx, workers, pieces, work)
			} else {
				clientgo.ParallelizeUntil(ctx, workers, pieces, work, clientgo.WithChunkSize(*chunk))
			}
		},
		untyped: clientGoUntyped(),
	}
	impl.plain.queue = func() typedQueue[string] { return clientgo.NewTyped[string]() }
	impl.plain.delaying = func() delayingQueue[string] { return clientgo.NewTypedDelayingQueue[string]() }
	impl.plain.rateLimiting = func(l rateLimiter[string]) rateLimitingQueue[string] {
		return clientgo.NewTypedRateLimitingQueue[string](l)
	}
	clientGoLimiters(&impl)
	return impl
}

func clientGoLimiters(impl *implementation) {
	impl.exponential = func(base, limit time.Duration) rateLimiter[string] {
		return clientgo.NewTypedItemExponentialFailureRateLimiter[string](base, limit)
	}
	impl.fastSlow = func(fast, slow time.Duration, fastAttempts int) rateLimiter[string] {
		return clientgo.NewTypedItemFastSlowRateLimiter[string](fast, slow, fastAttempts)
	}
	impl.bucket = func(qps rate.Limit, burst int) rateLimiter[string] {
		return &clientgo.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(qps, burst)}
	}
	impl.maxOf = func(limiters ...rateLimiter[string]) rateLimiter[string] {
		return clientgo.NewTypedMaxOfRateLimiter(convert[clientgo.TypedRateLimiter[string]](limiters)...)
	}
	impl.maxWait = func(l rateLimiter[string], limit time.Duration) rateLimiter[string] {
		return clientgo.NewTypedWithMaxWaitRateLimiter[string](l, limit)
	}
	impl.controllerDefault = func() rateLimiter[string] { return clientgo.DefaultTypedControllerRateLimiter[string]() }
	impl.itemDefault = func() rateLimiter[string] { return clientgo.DefaultTypedItemBasedRateLimiter[string]() }
}

func clientGoProvider(m *meter) clientgo.MetricsProvider {
	if m == nil {
		return nil
	}
	return provider[clientgo.GaugeMetric, clientgo.SettableGaugeMetric, clientgo.CounterMetric, clientgo.HistogramMetric]{m}
}

func clientGoUntyped() untypedConstructors {
	limiter := clientgo.DefaultItemBasedRateLimiter
	return untypedConstructors{
		queues: map[string]func() typedQueue[any]{
			"New":           func() typedQueue[any] { return clientgo.New() },
			"NewNamed":      func() typedQueue[any] { return clientgo.NewNamed("n") },
			"NewWithConfig": func() typedQueue[any] { return clientgo.NewWithConfig(clientgo.QueueConfig{Name: "n"}) },
		},
		delaying: map[string]func(clock.WithTicker) delayingQueue[any]{
			"NewDelayingQueue":      func(clock.WithTicker) delayingQueue[any] { return clientgo.NewDelayingQueue() },
			"NewNamedDelayingQueue": func(clock.WithTicker) delayingQueue[any] { return clientgo.NewNamedDelayingQueue("n") },
			"TypedNewDelayingQueue": func(clock.WithTicker) delayingQueue[any] { return clientgo.TypedNewDelayingQueue[any]() },
			"NewDelayingQueueWithConfig": func(c clock.WithTicker) delayingQueue[any] {
				return clientgo.NewDelayingQueueWithConfig(clientgo.DelayingQueueConfig{Clock: c})
			},
			"NewDelayingQueueWithCustomClock": func(c clock.WithTicker) delayingQueue[any] {
				return clientgo.NewDelayingQueueWithCustomClock(c, "n")
			},
			"NewDelayingQueueWithCustomQueue": func(clock.WithTicker) delayingQueue[any] {
				return clientgo.NewDelayingQueueWithCustomQueue(clientgo.New(), "n")
			},
		},
		rateLimiting: map[string]func() rateLimitingQueue[any]{
			"NewRateLimitingQueue":      func() rateLimitingQueue[any] { return clientgo.NewRateLimitingQueue(limiter()) },
			"NewNamedRateLimitingQueue": func() rateLimitingQueue[any] { return clientgo.NewNamedRateLimitingQueue(limiter(), "n") },
			"NewRateLimitingQueueWithConfig": func() rateLimitingQueue[any] {
				return clientgo.NewRateLimitingQueueWithConfig(limiter(), clientgo.RateLimitingQueueConfig{})
			},
			"NewRateLimitingQueueWithDelayingInterface": func() rateLimitingQueue[any] {
				return clientgo.NewRateLimitingQueueWithDelayingInterface(clientgo.NewDelayingQueue(), limiter())
			},
		},
		limiters: clientGoUntypedLimiters(),
	}
}

func clientGoUntypedLimiters() map[string]func() rateLimiter[any] {
	exponential := clientgo.NewItemExponentialFailureRateLimiter
	return map[string]func() rateLimiter[any]{
		"DefaultControllerRateLimiter":         func() rateLimiter[any] { return clientgo.DefaultControllerRateLimiter() },
		"DefaultItemBasedRateLimiter":          func() rateLimiter[any] { return clientgo.DefaultItemBasedRateLimiter() },
		"NewItemExponentialFailureRateLimiter": func() rateLimiter[any] { return exponential(time.Second, 3*time.Second) },
		"NewItemFastSlowRateLimiter": func() rateLimiter[any] {
			return clientgo.NewItemFastSlowRateLimiter(time.Second, time.Minute, 2)
		},
		"NewMaxOfRateLimiter": func() rateLimiter[any] {
			return clientgo.NewMaxOfRateLimiter(exponential(time.Second, time.Hour), exponential(2*time.Second, 3*time.Second))
		},
		"NewWithMaxWaitRateLimiter": func() rateLimiter[any] {
			return clientgo.NewWithMaxWaitRateLimiter(exponential(time.Second, time.Hour), 3*time.Second)
		},
		"BucketRateLimiter": func() rateLimiter[any] {
			return &clientgo.BucketRateLimiter{Limiter: rate.NewLimiter(1, 2)}
		},
	}
}
