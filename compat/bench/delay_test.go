package bench

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkAddAfter is AddAfter of items that are not due for an hour, all
// distinct, from an empty queue on. Most of the time is the cost of holding the items.
func BenchmarkAddAfter(b *testing.B) {
	for _, size := range []struct {
		name  string
		items int
	}{{"64k", population}, {"1M", million}} {
		each(b, "items="+size.name, delayings[string](), addAfter(stringKeys(scaled(size.items))))
	}
}

func addAfter[T comparable](keys []T) func(*testing.B, func() delaying[T]) {
	return func(b *testing.B, open func() delaying[T]) {
		before := memory()
		var q delaying[T]
		for b.Loop() {
			b.StopTimer()
			if q != nil {
				q.ShutDown()
			}
			q = open()
			b.StartTimer()
			for i, key := range keys {
				q.AddAfter(key, spread(i, time.Hour, 2*time.Hour))
			}
			q.Len() // see fill
		}
		perItem(b, len(keys))
		reportBytes(b, memory()-before, len(keys))
		runtime.KeepAlive(keys)
		q.ShutDown()
	}
}

// BenchmarkDelayed is the CPU time of all goroutines, to have
// 64k items come due between 1 and 20 ms from now and be worked off. Elapsed
// time would say little: nearly all is the delay.
func BenchmarkDelayed(b *testing.B) {
	keys := stringKeys(scaled(population))
	each(b, "items=64k", withTimers[string](len(keys)), func(b *testing.B, open func() delaying[string]) {
		q := open()
		defer q.ShutDown()
		var used time.Duration
		for b.Loop() {
			before := cpuTime(b)
			delayAll(q, keys)
			used += cpuTime(b) - before
		}
		b.ReportMetric(float64(used.Nanoseconds())/float64(b.N)/float64(len(keys)), "cpu-ns/item")
	})
}

// delayAll returns when every key has been delayed, handed out and done.
func delayAll(q delaying[string], keys []string) {
	var worker sync.WaitGroup
	worker.Go(func() {
		for range keys {
			item, _ := q.Get()
			q.Done(item)
		}
	})
	for i, key := range keys {
		q.AddAfter(key, spread(i, time.Millisecond, 20*time.Millisecond))
	}
	worker.Wait()
}

// cpuTime is the user and system time of the process so far. The kernel counts
// it in nanoseconds, unlike the runtime's own metrics, which are brought up to
// date only by a garbage collection.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkRateLimited is the life of an item that failed: AddRateLimited,
// Get, Forget, Done. The delay decides how much of a queue takes part.
//
// A delay of 0 goes around the delayed part, and measures the cycle plus the limiter,
// by one goroutine. A delay of 1 ns is due at once but takes the road of every
// real retry; one item at a time shows mostly the latency from the caller to
// whoever watches the clock and back. 64k items at a time, with one worker
// behind, hide that latency and leave the throughput.
func BenchmarkRateLimited(b *testing.B) {
	keys := stringKeys(population)
	for _, delay := range []time.Duration{0, time.Nanosecond} {
		each(b, fmt.Sprintf("delay=%dns/items=1", delay), rateLimitings(delay, delay), retryOne(keys))
	}
	each(b, "delay=1ns/items=64k", rateLimitings(1, 1), retryAll(keys[:scaled(population)]))
}

func retryOne(keys []string) func(*testing.B, func() rateLimiting[string]) {
	return func(b *testing.B, open func() rateLimiting[string]) {
		q := open()
		defer q.ShutDown()
		for i := uint(0); b.Loop(); i++ {
			q.AddRateLimited(keys[i%population])
			finish(q)
		}
	}
}

func retryAll(keys []string) func(*testing.B, func() rateLimiting[string]) {
	return func(b *testing.B, open func() rateLimiting[string]) {
		q := open()
		defer q.ShutDown()
		for b.Loop() {
			var worker sync.WaitGroup
			worker.Go(func() {
				for range keys {
					finish(q)
				}
			})
			for _, key := range keys {
				q.AddRateLimited(key)
			}
			worker.Wait()
		}
		perItem(b, len(keys))
	}
}

func finish(q rateLimiting[string]) {
	item, _ := q.Get()
	q.Forget(item)
	q.Done(item)
}
