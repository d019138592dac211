package bench

import (
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

type queue[T comparable] interface {
	Add(item T)
	Get() (item T, shutdown bool)
	Done(item T)
	Len() int
	ShutDown()
}

type delaying[T comparable] interface {
	queue[T]
	AddAfter(item T, d time.Duration)
}

type rateLimiting[T comparable] interface {
	delaying[T]
	AddRateLimited(item T)
	Forget(item T)
}

// impl names a way to make a queue. The queue is made inside the benchmark, so
// no other queue of the process shares its heap.
type impl[Q any] struct {
	name string
	open func() Q
}

// each runs body for every implementation; params follow the name of the
// implementation, as in "keys=string/items=64k".
func each[Q any](b *testing.B, params string, impls []impl[Q], body func(b *testing.B, open func() Q)) {
	for _, i := range impls {
		b.Run("impl="+i.name+"/"+params, func(b *testing.B) {
			b.ReportAllocs()
			body(b, i.open)
		})
	}
}

// fifos are the queues without delays. The channel takes at most room items,
// because a channel cannot grow.
func fifos[T comparable](room int) []impl[queue[T]] {
	return []impl[queue[T]]{
		{"workqueue", func() queue[T] { return workqueue.NewTyped[T]() }},
		{"client-go", func() queue[T] { return clientgo.NewTyped[T]() }},
		{"priorityqueue", func() queue[T] { return priorityqueue.New[T]("") }},
		{"channel", func() queue[T] { return make(channel[T], room) }},
	}
}

// untyped are the queues of the deprecated API. The priority queue never had
// one; the nearest thing is an item type of any.
func untyped(room int) []impl[queue[any]] {
	return []impl[queue[any]]{
		//lint:ignore SA1019 the benchmark measures the deprecated API
		{"workqueue", func() queue[any] { return workqueue.New() }},
		//lint:ignore SA1019 likewise
		{"client-go", func() queue[any] { return clientgo.New() }},
		{"priorityqueue", func() queue[any] { return priorityqueue.New[any]("") }},
		{"channel", func() queue[any] { return make(channel[any], room) }},
	}
}

func delayings[T comparable]() []impl[delaying[T]] {
	return []impl[delaying[T]]{
		{"workqueue", func() delaying[T] { return workqueue.NewTypedDelayingQueue[T]() }},
		{"client-go", func() delaying[T] { return clientgo.NewTypedDelayingQueue[T]() }},
		{"priorityqueue", func() delaying[T] { return priorityqueue.New[T]("") }},
	}
}

// withTimers adds the limit of a delaying queue to the others: one runtime
// timer for each item, feeding a channel of the given room.
func withTimers[T comparable](room int) []impl[delaying[T]] {
	return append(delayings[T](), impl[delaying[T]]{"timer", func() delaying[T] {
		return timers[T]{make(channel[T], room)}
	}})
}

// rateLimitings are queues with a per-item exponential limiter that starts at
// base. Each project brings its own limiter, since a user gets both together;
// the priority queue has none and takes client-go's.
func rateLimitings(base, most time.Duration) []impl[rateLimiting[string]] {
	ours := func() rateLimiting[string] {
		return workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](base, most))
	}
	theirs := func() clientgo.TypedRateLimiter[string] {
		return clientgo.NewTypedItemExponentialFailureRateLimiter[string](base, most)
	}
	return []impl[rateLimiting[string]]{
		{"workqueue", ours},
		{"client-go", func() rateLimiting[string] { return clientgo.NewTypedRateLimitingQueue(theirs()) }},
		{"priorityqueue", func() rateLimiting[string] {
			return priorityqueue.New("", func(o *priorityqueue.Opts[string]) { o.RateLimiter = theirs() })
		}},
	}
}

// channel neither removes duplicates nor knows the worker of an item: its cost is the
// rest of a queue without the features of a queue.
type channel[T comparable] chan T

func (c channel[T]) Add(item T) { c <- item }
func (c channel[T]) Done(T)     {}
func (c channel[T]) Len() int   { return len(c) }
func (c channel[T]) ShutDown()  { close(c) }

func (c channel[T]) Get() (item T, shutdown bool) {
	item, ok := <-c
	return item, !ok
}

type timers[T comparable] struct {
	channel[T]
}

func (t timers[T]) AddAfter(item T, d time.Duration) {
	time.AfterFunc(d, func() { t.Add(item) })
}
