package bench

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// BenchmarkMemory reports what 1M string items cost in B/item while they are
// queued or waiting, and the rest when all items are gone. The bytes of the
// strings belong to the caller and are not counted; their headers, which the
// queue copies, are. All uses are of a delaying queue, as a controller has it.
//
// The time of an operation says nothing: -benchtime 1x is enough.
func BenchmarkMemory(b *testing.B) {
	keys := stringKeys(scaled(million))
	for _, use := range []struct {
		of  string
		use func(delaying[string], []string)
	}{
		{"queued", queueAll},
		{"waiting", waitAll},
		{"drained", func(q delaying[string], keys []string) {
			queueAll(q, keys)
			empty[string](q, len(keys))
		}},
		{"fired", delayAll},
	} {
		each(b, "of="+use.of, delayings[string](), func(b *testing.B, open func() delaying[string]) {
			for b.Loop() {
				before := memory()
				q := open()
				use.use(q, keys)
				reportBytes(b, memory()-before, len(keys))
				runtime.KeepAlive(keys)
				q.ShutDown()
			}
		})
	}
	each(b, "of=forgotten", limiters(), forgotten(keys))
}

func queueAll(q delaying[string], keys []string) {
	fill(q, keys)
}

func waitAll(q delaying[string], keys []string) {
	for i, key := range keys {
		q.AddAfter(key, spread(i, time.Hour, 2*time.Hour))
	}
	q.Len() // see fill
}

// memory are the bytes of the heap and the stacks. Two collections are needed to get
// rid of the contents of a sync.Pool.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc + stats.StackInuse
}

// reportBytes takes a difference of two sizes, which may be negative.
func reportBytes(b *testing.B, bytes uint64, items int) {
	b.ReportMetric(float64(int64(bytes))/float64(items), "B/item")
}

type limiter interface {
	When(item string) time.Duration
	Forget(item string)
}

func limiters() []impl[limiter] {
	const base, most = 5 * time.Millisecond, time.Minute
	return []impl[limiter]{
		{"workqueue", func() limiter {
			return workqueue.NewTypedItemExponentialFailureRateLimiter[string](base, most)
		}},
		{"client-go", func() limiter {
			return clientgo.NewTypedItemExponentialFailureRateLimiter[string](base, most)
		}},
	}
}

func forgotten(keys []string) func(*testing.B, func() limiter) {
	return func(b *testing.B, open func() limiter) {
		for b.Loop() {
			before := memory()
			l := open()
			for _, key := range keys {
				l.When(key)
			}
			for _, key := range keys {
				l.Forget(key)
			}
			reportBytes(b, memory()-before, len(keys))
			runtime.KeepAlive(keys)
			runtime.KeepAlive(l)
		}
	}
}

// BenchmarkIdle reports what 10,000 named queues with metrics cost while
// nothing happens, beyond the series of the metrics, which are made before.
func BenchmarkIdle(b *testing.B) {
	names := queueNames(10_000)
	each(b, "queues=10k", controllers(), func(b *testing.B, open func() controller) {
		for b.Loop() {
			idle(b, open(), names)
		}
	})
}

func idle(b *testing.B, c controller, names []string) {
	for _, name := range names {
		c.makeSeries(name)
	}
	queues := make([]rateLimiting[string], 0, len(names))
	goroutines, before := runtime.NumGoroutine(), memory()
	for _, name := range names {
		queues = append(queues, c.queue(name))
	}
	b.ReportMetric(float64(int64(memory()-before))/float64(len(names)), "B/queue")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/float64(len(names)), "goroutines/queue")
	shutDown(queues)
}

func queueNames(n int) []string {
	names := make([]string, scaled(n))
	for i := range names {
		names[i] = fmt.Sprintf("queue-%d", i)
	}
	return names
}

// shutDown shuts all queues down at once: the priority queue waits for its goroutines.
func shutDown(queues []rateLimiting[string]) {
	var closing sync.WaitGroup
	for _, q := range queues {
		closing.Go(q.ShutDown)
	}
	closing.Wait()
}

// controller is the part of a controller that makes its queue.
type controller struct {
	makeSeries func(name string)
	queue      maker
}

// A maker makes a queue as a controller has it. A queue without a name has no metrics.
type maker func(name string) rateLimiting[string]

// All queues of a maker share a limiter, which has no memory of items that never failed.
// So only the queues differ.
func ourMaker(p workqueue.MetricsProvider) maker {
	limiter := workqueue.DefaultTypedItemBasedRateLimiter[string]()
	return func(name string) rateLimiting[string] {
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
			workqueue.TypedRateLimitingQueueConfig[string]{Name: name, MetricsProvider: p})
	}
}

func theirMaker(p clientgo.MetricsProvider) maker {
	limiter := clientgo.DefaultTypedItemBasedRateLimiter[string]()
	return func(name string) rateLimiting[string] {
		return clientgo.NewTypedRateLimitingQueueWithConfig(limiter,
			clientgo.TypedRateLimitingQueueConfig[string]{Name: name, MetricsProvider: p})
	}
}

func controllers() []impl[controller] {
	limiter := clientgo.DefaultTypedItemBasedRateLimiter[string]()
	return []impl[controller]{
		{"workqueue", func() controller {
			p := ourProvider{newVectors()}
			return controller{p.makeSeries, ourMaker(p)}
		}},
		{"client-go", func() controller {
			p := theirProvider{newVectors()}
			return controller{p.makeSeries, theirMaker(p)}
		}},
		{"priorityqueue", func() controller {
			p := theirProvider{newVectors()}
			return controller{p.makeSeries, func(name string) rateLimiting[string] {
				return priorityqueue.New(name, func(o *priorityqueue.Opts[string]) {
					o.RateLimiter, o.MetricProvider = limiter, p
				})
			}}
		}},
	}
}
