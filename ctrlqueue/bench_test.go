package ctrlqueue_test

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// The benchmarks run both queues through the interface of controller-runtime, with a
// name and so with their metrics in its registry, as controllers have them.
var contenders = []struct {
	name string
	open func(string) queue
}{{"workqueue", openOurs}, {"controller-runtime", openTheirs}}

// Each queue has a name of its own: controller-runtime keeps the series of all.
var opened atomic.Int64

// each runs a benchmark on both queues. open makes a queue.
func each(b *testing.B, bench func(b *testing.B, open func() queue)) {
	for _, c := range contenders {
		b.Run("impl="+c.name, func(b *testing.B) {
			b.ReportAllocs()
			bench(b, func() queue { return c.open(fmt.Sprint("bench-", opened.Add(1))) })
		})
	}
}

func keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "namespace/object-" + strconv.Itoa(i)
	}
	return keys
}

// BenchmarkCycle is the life of an item: an event adds the item, a worker gets the item, and is done.
func BenchmarkCycle(b *testing.B) {
	keys := keys(1 << 16)
	each(b, func(b *testing.B, open func() queue) {
		q := open()
		defer q.ShutDown()
		for i := uint(0); b.Loop(); i++ {
			q.AddWithOpts(priorityqueue.AddOpts{}, keys[i%uint(len(keys))])
			item, _, _ := q.GetWithPriority()
			q.Done(item)
		}
	})
}

// BenchmarkInitialList adds a million items at the priority of the initial list, with
// an urgent item between each hundred, and hands all of them out. The figure is the time for each item.
func BenchmarkInitialList(b *testing.B) {
	const items, urgentEach = 1_000_000, 100
	keys := keys(items)
	low, urgent := priorityqueue.AddOpts{Priority: new(-100)}, priorityqueue.AddOpts{}
	each(b, func(b *testing.B, open func() queue) {
		for b.Loop() {
			q := open()
			for i, key := range keys {
				q.AddWithOpts(low, key)
				if i%urgentEach == 0 {
					q.AddWithOpts(urgent, "urgent-"+key)
				}
			}
			n := q.Len() // Or controller-runtime has only noted the adds.
			for range n {
				item, _, _ := q.GetWithPriority()
				q.Done(item)
			}
			if n != items+items/urgentEach {
				b.Fatalf("%d items were queued", n)
			}
			q.ShutDown()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/items, "ns/item")
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkUrgent adds an urgent item to a backlog of a million, and has a parked
// worker take the item, as while the initial list is worked off. The worker takes an item of the backlog after
// each.
func BenchmarkUrgent(b *testing.B) {
	const items = 1_000_000
	keys := keys(items)
	low := priorityqueue.AddOpts{Priority: new(-100)}
	each(b, func(b *testing.B, open func() queue) {
		q := open()
		defer q.ShutDown()
		for _, key := range keys {
			q.AddWithOpts(low, key)
		}
		if n := q.Len(); n != items {
			b.Fatalf("%d items are queued", n)
		}
		for b.Loop() {
			q.Add("urgent")
			for {
				item, _, _ := q.GetWithPriority()
				q.Done(item)
				if item == "urgent" {
					break
				}
				q.AddWithOpts(low, item) // It was taken before the add came through.
			}
		}
	})
}

// BenchmarkWorkers has a thousand workers, as a controller with
// MaxConcurrentReconciles of 1000. Items are added in single calls, and all are handled.
func BenchmarkWorkers(b *testing.B) {
	const workers = 1000
	keys := keys(1 << 16)
	each(b, func(b *testing.B, open func() queue) { work(b, open(), keys, workers) })
}

func work(b *testing.B, q queue, keys []string, workers int) {
	var handled atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				item, _, shutdown := q.GetWithPriority()
				if shutdown {
					return
				}
				q.Done(item)
				handled.Add(1)
			}
		})
	}
	time.Sleep(100 * time.Millisecond) // All of them park.
	b.ResetTimer()
	// In rounds, each of which is handled before the next begins: an add of a queued
	// item would be no work for anybody.
	for n := 0; n < b.N; {
		round := min(b.N-n, len(keys))
		for _, key := range keys[:round] {
			q.Add(key)
		}
		for n += round; handled.Load() < int64(n); {
			runtime.Gosched()
		}
	}
	b.StopTimer()
	q.ShutDown()
	all.Wait()
}
