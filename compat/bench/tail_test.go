package bench

import (
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkTail reports how long a call takes whose caller may have to wait for
// the lock of the queue, as p50, p99 and maximum, and the time between two calls
// of anybody. For 300 ms each goroutine calls and then lets others run, as one
// does that has something else to do: of calls in a row nearly all find the lock
// free, and the percentiles would show nothing else.
//
// With calls=Add they add 64k items over and over, and one worker gets what is
// no duplicate. With calls=AddAfter those items come due in an hour or two. The
// 64k are in the queue before the clock runs, as nobody is to be measured by how
// his memory grows.
//
// procs is GOMAXPROCS. With more than there are processors, the kernel stops
// threads that have the lock.
func BenchmarkTail(b *testing.B) {
	for _, procs := range []int{1, 2, 8} {
		for _, goroutines := range []int{2, 8, 100, 1000} {
			params := func(calls string) string {
				return fmt.Sprintf("calls=%s/procs=%d/goroutines=%d", calls, procs, goroutines)
			}
			each(b, params("Add"), fifos[int](0)[:2], tail(procs, goroutines, queue[int].Add))
			each(b, params("AddAfter"), delayings[int]()[:2], tail(procs, goroutines, func(q delaying[int], item int) {
				q.AddAfter(item, spread(item, time.Hour, 2*time.Hour))
			}))
		}
	}
}

func tail[Q queue[int]](procs, goroutines int, call func(Q, int)) func(*testing.B, func() Q) {
	return func(b *testing.B, open func() Q) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		for b.Loop() {
			q := open()
			for item := range population {
				call(q, item)
			}
			all, wall := flood(q, goroutines, func(item int) { call(q, item) })
			b.ReportMetric(all.percentile(50), "p50-ns")
			b.ReportMetric(all.percentile(99), "p99-ns")
			b.ReportMetric(float64(all.longest), "max-ns")
			b.ReportMetric(float64(wall)/float64(all.calls), "ns/call")
		}
	}
}

// flood times the calls of all goroutines.
func flood(q queue[int], goroutines int, call func(item int)) (all latencies, wall time.Duration) {
	var stop atomic.Bool
	var worker, callers sync.WaitGroup
	worker.Go(func() { drainAll(q) })
	took := make([]latencies, goroutines)
	start := time.Now()
	for g := range goroutines {
		callers.Go(func() {
			for i := g * 8191; !stop.Load(); i++ {
				began := time.Since(start)
				call(i % population)
				took[g].add(time.Since(start) - began)
				runtime.Gosched()
			}
		})
	}
	time.Sleep(time.Duration(scaled(300)) * time.Millisecond)
	stop.Store(true)
	callers.Wait()
	wall = time.Since(start)
	q.ShutDown()
	worker.Wait()
	for g := range took {
		all.merge(&took[g])
	}
	return all, wall
}

// drainAll is a worker that works on nothing.
func drainAll(q queue[int]) {
	for {
		item, shutdown := q.Get()
		if shutdown {
			return
		}
		q.Done(item)
	}
}

// latencies counts durations in buckets that are 3 to 6 % wide. A list of them
// would grow while others are timed.
type latencies struct {
	buckets [steps * 36]uint32 // the last is for a minute and all above
	calls   int
	longest time.Duration
}

// steps is the number of buckets from one power of two to the next.
const steps = 16

func (l *latencies) add(d time.Duration) {
	l.buckets[bucketOf(d)]++
	l.calls++
	l.longest = max(l.longest, d)
}

func (l *latencies) merge(other *latencies) {
	for i, n := range other.buckets {
		l.buckets[i] += n
	}
	l.calls += other.calls
	l.longest = max(l.longest, other.longest)
}

// percentile returns the middle of the bucket in which p of 100 calls end.
func (l *latencies) percentile(p int) float64 {
	left := l.calls * p / 100
	i := 0
	for ; i < len(l.buckets)-1 && left >= int(l.buckets[i]); i++ {
		left -= int(l.buckets[i])
	}
	return float64(boundOf(i)+boundOf(i+1)) / 2
}

// bucketOf is the duration itself below steps, and above that the place of its
// highest bit followed by the next four.
func bucketOf(d time.Duration) int {
	const most = len(latencies{}.buckets) - 1
	shift := max(0, bits.Len64(uint64(d)/steps)-1)
	return min(most, shift*steps+int(uint64(d)>>shift))
}

// boundOf is the least duration of a bucket.
func boundOf(i int) int64 {
	shift := max(0, i/steps-1)
	return int64(i-shift*steps) << shift
}

func TestBucketsHoldWhatIsCounted(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 15, 16, 17, 31, 32, 33, 34, 1000, 123456789, time.Minute} {
		i := bucketOf(d)
		if low, high := boundOf(i), boundOf(i+1); int64(d) < low || int64(d) >= high || high-low > 1+int64(d)/steps {
			t.Errorf("bucket %d of %d goes from %d to %d", i, d, low, high)
		}
	}
}
