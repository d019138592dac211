package compat_test

import (
	"context"
	"testing"
	"time"

	clientgo "k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/seed16c08ea7/workqueue"
)

// The suite uses the interfaces of client-go. Ours have the same method sets, see assign_test.go.
type (
	typedQueue[T comparable]        = clientgo.TypedInterface[T]
	delayingQueue[T comparable]     = clientgo.TypedDelayingInterface[T]
	rateLimitingQueue[T comparable] = clientgo.TypedRateLimitingInterface[T]
	itemStorage[T comparable]       = clientgo.Queue[T]
)

// settings are the configs of all layers in one; each constructor takes the fields of its layer.
type settings struct {
	name  string
	meter *meter // nil for no provider in the config
	clock clock.WithTicker

	storage  itemStorage[string]   // below queue
	queue    typedQueue[string]    // below delaying
	delaying delayingQueue[string] // below rateLimiting
}

// An implementation has the constructors of one of the two packages. The typed constructors behave
// alike for all item types, so strings are enough.
type implementation struct {
	name         string
	queue        func(settings) typedQueue[string]
	delaying     func(settings) delayingQueue[string]
	rateLimiting func(settings) rateLimitingQueue[string]
	untyped      func() rateLimitingQueue[any]
	parallelize  func(ctx context.Context, workers, pieces int, work func(int), chunk int)
}

// The limiter of rate limiting queues is exponential, between these.
const (
	limiterBase  = time.Second
	limiterLimit = time.Hour
)

// The metric types that the methods of a provider return are the one thing that the packages do not
// share.
func clientGoProvider(m *meter) clientgo.MetricsProvider {
	if m == nil {
		return nil
	}
	return provider[clientgo.GaugeMetric, clientgo.SettableGaugeMetric, clientgo.CounterMetric, clientgo.HistogramMetric]{m}
}

func oursProvider(m *meter) workqueue.MetricsProvider {
	if m == nil {
		return nil
	}
	return provider[workqueue.GaugeMetric, workqueue.SettableGaugeMetric, workqueue.CounterMetric, workqueue.HistogramMetric]{m}
}

// clientGo and ours say the same of two packages. Neither can be made from the other by a type
// parameter, as a package is not a type.
func clientGo() implementation {
	return implementation{
		name: "client-go",
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
		rateLimiting: func(s settings) rateLimitingQueue[string] {
			limiter := clientgo.NewTypedItemExponentialFailureRateLimiter[string](limiterBase, limiterLimit)
			return clientgo.NewTypedRateLimitingQueueWithConfig(limiter, clientgo.TypedRateLimitingQueueConfig[string]{
				Name: s.name, MetricsProvider: clientGoProvider(s.meter), Clock: s.clock, DelayingQueue: s.delaying,
			})
		},
		untyped: func() rateLimitingQueue[any] {
			return clientgo.NewTypedRateLimitingQueue(clientgo.DefaultTypedItemBasedRateLimiter[any]())
		},
		parallelize: func(ctx context.Context, workers, pieces int, work func(int), chunk int) {
			clientgo.ParallelizeUntil(ctx, workers, pieces, work, clientgo.WithChunkSize(chunk))
		},
	}
}

func ours() implementation {
	return implementation{
		name: "workqueue",
		queue: func(s settings) typedQueue[string] {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
				Name: s.name, MetricsProvider: oursProvider(s.meter), Clock: s.clock, Queue: s.storage,
			})
		},
		delaying: func(s settings) delayingQueue[string] {
			return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
				Name: s.name, MetricsProvider: oursProvider(s.meter), Clock: s.clock, Queue: s.queue,
			})
		},
		rateLimiting: func(s settings) rateLimitingQueue[string] {
			limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](limiterBase, limiterLimit)
			return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[string]{
				Name: s.name, MetricsProvider: oursProvider(s.meter), Clock: s.clock, DelayingQueue: s.delaying,
			})
		},
		untyped: func() rateLimitingQueue[any] {
			return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedItemBasedRateLimiter[any]())
		},
		parallelize: func(ctx context.Context, workers, pieces int, work func(int), chunk int) {
			workqueue.ParallelizeUntil(ctx, workers, pieces, work, workqueue.WithChunkSize(chunk))
		},
	}
}

// onEach runs f as one subtest per implementation.
func onEach(t *testing.T, f func(*testing.T, implementation)) {
	t.Helper()
	for _, impl := range []implementation{clientGo(), ours()} {
		t.Run("impl="+impl.name, func(t *testing.T) { f(t, impl) })
	}
}

// An outcome is the documented effect of a step or a call. If client-go does something else,
// upstream has that effect, and the test insists on upstream: if client-go is repaired, the
// difference is gone and somebody has to hear of it.
type outcome[T comparable] struct {
	want     T
	upstream *T
}

func (o outcome[T]) check(t *testing.T, impl implementation, what string, got T) {
	t.Helper()
	want, hint := o.want, ""
	if o.upstream != nil && impl.name == "client-go" {
		want = *o.upstream
		if got == o.want {
			hint = "; client-go now does as documented: strike it from docs/differences.md and from this table"
		}
	}
	if got != want {
		t.Errorf("%s: got %v, want %v%s", what, got, want, hint)
	}
}
