package compat_test

//lint:file-ignore SA1019 the deprecated names are part of the drop-in

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed16c08ea7/workqueue"
)

// The claim of the declarations before the first test is only: they compile. A
// program may hold a queue of one package in a variable of the other's interface
// type, in both directions, without an adapter.

type (
	key     = string
	request = reconcile.Request
)

// This limiter has its methods on the value, and not on the pointer alone.
var (
	_ clientgo.TypedRateLimiter[key]  = workqueue.TypedWithMaxWaitRateLimiter[key]{}
	_ workqueue.TypedRateLimiter[key] = clientgo.TypedWithMaxWaitRateLimiter[key]{}
)

// Interface values, in both directions: each of the two method sets must contain
// the other. TestAPI shows that our types have the methods of client-go's types.
func _[T comparable](a clientgo.TypedInterface[T], b workqueue.TypedInterface[T]) { a, b = b, a }
func _[T comparable](a clientgo.TypedDelayingInterface[T], b workqueue.TypedDelayingInterface[T]) {
	a, b = b, a
}
func _[T comparable](a clientgo.TypedRateLimitingInterface[T], b workqueue.TypedRateLimitingInterface[T]) {
	a, b = b, a
}
func _[T comparable](a clientgo.TypedRateLimiter[T], b workqueue.TypedRateLimiter[T]) { a, b = b, a }
func _[T comparable](a clientgo.Queue[T], b workqueue.Queue[T])                       { a, b = b, a }
func _(a clientgo.Interface, b workqueue.Interface)                                   { a, b = b, a }
func _(a clientgo.DelayingInterface, b workqueue.DelayingInterface)                   { a, b = b, a }
func _(a clientgo.RateLimitingInterface, b workqueue.RateLimitingInterface)           { a, b = b, a }
func _(a clientgo.RateLimiter, b workqueue.RateLimiter)                               { a, b = b, a }
func _(a clientgo.GaugeMetric, b workqueue.GaugeMetric)                               { a, b = b, a }
func _(a clientgo.SettableGaugeMetric, b workqueue.SettableGaugeMetric)               { a, b = b, a }
func _(a clientgo.CounterMetric, b workqueue.CounterMetric)                           { a, b = b, a }
func _(a clientgo.SummaryMetric, b workqueue.SummaryMetric)                           { a, b = b, a }
func _(a clientgo.HistogramMetric, b workqueue.HistogramMetric)                       { a, b = b, a }

// controllerOptions is all that a controller-runtime user writes. Its limiter
// arrives as client-go's interface type and the queue leaves as client-go's.
var controllerOptions = controller.Options{
	RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[request](time.Millisecond, time.Minute),
	NewQueue: func(name string, limiter clientgo.TypedRateLimiter[request]) clientgo.TypedRateLimitingInterface[request] {
		config := workqueue.TypedRateLimitingQueueConfig[request]{Name: name}
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, config)
	},
}

var typedControllerOptions = controller.TypedOptions[key]{
	RateLimiter: workqueue.DefaultTypedControllerRateLimiter[key](),
	NewQueue: func(_ string, limiter clientgo.TypedRateLimiter[key]) clientgo.TypedRateLimitingInterface[key] {
		return workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[key]{})
	},
}

// TestAPI cannot see the identity of unexported types: the result of
// WithChunkSize has to be usable as an Options of ParallelizeUntil.
func _(ctx context.Context) {
	var chunk workqueue.Options = workqueue.WithChunkSize(2)
	workqueue.ParallelizeUntil(ctx, 1, 2, func(int) {}, chunk, workqueue.WithChunkSize(3))
}

func theirLimiter() clientgo.TypedRateLimiter[key] {
	return clientgo.NewTypedItemExponentialFailureRateLimiter[key](time.Second, time.Minute)
}

func ourLimiter() workqueue.TypedRateLimiter[key] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[key](time.Second, time.Minute)
}

var exchanges = []struct {
	situation string
	queue     func() clientgo.TypedRateLimitingInterface[key]
}{
	{"their limiter in our queue", func() clientgo.TypedRateLimitingInterface[key] {
		return workqueue.NewTypedRateLimitingQueue[key](theirLimiter())
	}},
	{"our limiter in their queue", func() clientgo.TypedRateLimitingInterface[key] {
		return clientgo.NewTypedRateLimitingQueue[key](ourLimiter())
	}},
	{"our limiter among theirs", func() clientgo.TypedRateLimitingInterface[key] {
		return clientgo.NewTypedRateLimitingQueue(clientgo.NewTypedMaxOfRateLimiter(theirLimiter(), ourLimiter()))
	}},
	{"their limiter among ours", func() clientgo.TypedRateLimitingInterface[key] {
		return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedMaxOfRateLimiter(ourLimiter(), theirLimiter()))
	}},
	{"their inner queue on their storage in our layers", func() clientgo.TypedRateLimitingInterface[key] {
		inner := clientgo.NewTypedWithConfig(clientgo.TypedQueueConfig[key]{Queue: workqueue.DefaultQueue[key]()})
		delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[key]{Queue: inner})
		return workqueue.NewTypedRateLimitingQueueWithConfig(ourLimiter(), workqueue.TypedRateLimitingQueueConfig[key]{DelayingQueue: delaying})
	}},
	{"our inner queue on their storage in their layers", func() clientgo.TypedRateLimitingInterface[key] {
		inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[key]{Queue: clientgo.DefaultQueue[key]()})
		delaying := clientgo.NewTypedDelayingQueueWithConfig(clientgo.TypedDelayingQueueConfig[key]{Queue: inner})
		return clientgo.NewTypedRateLimitingQueueWithConfig(theirLimiter(), clientgo.TypedRateLimitingQueueConfig[key]{DelayingQueue: delaying})
	}},
	{"our delaying queue under their limits", func() clientgo.TypedRateLimitingInterface[key] {
		delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[key]{})
		return clientgo.NewTypedRateLimitingQueueWithConfig(theirLimiter(), clientgo.TypedRateLimitingQueueConfig[key]{DelayingQueue: delaying})
	}},
	{"their delaying queue under our limits", func() clientgo.TypedRateLimitingInterface[key] {
		delaying := clientgo.NewTypedDelayingQueue[key]()
		return workqueue.NewTypedRateLimitingQueueWithConfig(ourLimiter(), workqueue.TypedRateLimitingQueueConfig[key]{DelayingQueue: delaying})
	}},
	{"our queue in controller-runtime's options", func() clientgo.TypedRateLimitingInterface[key] {
		return typedControllerOptions.NewQueue("parts", ourLimiter())
	}},
}

// TestPartsExchange runs each pair of the assignments above: a part of
// one package inside a queue of the other.
func TestPartsExchange(t *testing.T) {
	for _, tt := range exchanges {
		t.Run(tt.situation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { workOff(t, tt.queue()) })
		})
	}
}

// workOff touches every layer once: storage order, re-add while processing, a
// delay, and a limit of 1 s for the first failure and 2 s for the second.
func workOff(t *testing.T, q clientgo.TypedRateLimitingInterface[key]) {
	t.Helper()
	start := time.Now()
	expect := func(want key, at time.Duration) {
		t.Helper()
		got, down := q.Get()
		if since := time.Since(start); got != want || down || since != at {
			t.Errorf("Get: got %q, shutdown %t after %v, want %q, false after %v", got, down, since, want, at)
		}
	}
	q.Add("a")
	q.Add("b")
	q.Add("a")
	expect("a", 0)
	q.Add("a")
	expect("b", 0)
	q.Done("a")
	q.Done("b")
	expect("a", 0)
	q.Done("a")

	q.AddAfter("late", 500*time.Millisecond)
	expect("late", 500*time.Millisecond)
	q.AddRateLimited("late")
	q.Done("late")
	expect("late", 1500*time.Millisecond)
	q.AddRateLimited("late")
	q.Done("late")
	expect("late", 3500*time.Millisecond)
	if got := q.NumRequeues("late"); got != 2 {
		t.Errorf("NumRequeues: got %d, want 2", got)
	}
	q.Forget("late")
	q.Done("late")
	if got := q.NumRequeues("late"); got != 0 {
		t.Errorf("NumRequeues after Forget: got %d, want 0", got)
	}
	q.ShutDown()
	if got, down := q.Get(); got != "" || !down {
		t.Errorf("Get after ShutDown: got %q, shutdown %t, want nothing and true", got, down)
	}
}

// TestControllerRuntimeTakesOurQueue makes the constructor that the options hold.
func TestControllerRuntimeTakesOurQueue(t *testing.T) {
	q := controllerOptions.NewQueue("pods", controllerOptions.RateLimiter)
	defer q.ShutDown()
	if _, ours := q.(*workqueue.TypedRateLimiting[request]); !ours {
		t.Errorf("NewQueue: got %T, want ours", q)
	}
}
