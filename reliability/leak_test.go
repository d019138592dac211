package reliability

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	cg "k8s.io/client-go/util/workqueue"

	"github.com/seed16c08ea7/workqueue"
)

// Ten thousand queues, each in use and with something that waits, leave no
// goroutine the moment their shutdowns have returned.
func TestNoGoroutineIsLeftTheMomentAShutdownReturns(t *testing.T) {
	const queues = 10_000
	for name, shutDown := range map[string]func(*workqueue.TypedDelaying[int]){
		"ShutDown":          (*workqueue.TypedDelaying[int]).ShutDown,
		"ShutDownWithDrain": (*workqueue.TypedDelaying[int]).ShutDownWithDrain,
		"Drain":             func(q *workqueue.TypedDelaying[int]) { q.Drain(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			provider := workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{})
			all := make([]*workqueue.TypedDelaying[int], queues)
			for i := range all {
				all[i] = workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
					Name: fmt.Sprint(i), MetricsProvider: provider,
				})
				use(all[i])
			}
			alive := ours()
			for _, q := range all {
				shutDown(q)
			}
			// The last thing that a goroutine does is to say that it has ended, so
			// that it may be seen for an instant after that.
			after := ours()
			settled := after
			for range 1000 {
				if settled = ours(); settled == 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			t.Logf("%d goroutines while the items waited, %d the moment after, %d then", alive, after, settled)
			if alive != queues || after > 2 || settled != 0 {
				t.Errorf("%d goroutines while the items waited, %d the moment after, %d then, want %d, at most 2, 0", alive, after, settled, queues)
			}
		})
	}
}

// ours returns how many goroutines the library has started that run; others
// come and go in this process too.
func ours() int {
	stacks := make([]byte, 1<<20)
	for {
		if n := runtime.Stack(stacks, true); n < len(stacks) {
			return bytes.Count(stacks[:n], []byte("\ncreated by github.com/seed16c08ea7/workqueue.("))
		}
		stacks = make([]byte, 2*len(stacks))
	}
}

func use(q interface {
	Add(int)
	Get() (int, bool)
	Done(int)
	AddAfter(int, time.Duration)
}) {
	q.Add(1)
	item, _ := q.Get()
	q.Done(item)
	q.AddAfter(2, time.Hour)
}

// The count above is one that can fail.
func TestGoroutinesAreLeftByClientGo(t *testing.T) {
	before := runtime.NumGoroutine()
	const queues = 100
	all := make([]cg.TypedDelayingInterface[int], queues)
	for i := range all {
		all[i] = cg.NewTypedDelayingQueue[int]()
		use(all[i])
	}
	time.Sleep(100 * time.Millisecond) // A goroutine that has yet to take its item notices the drain.
	for _, q := range all {
		q.ShutDownWithDrain()
	}
	if left := runtime.NumGoroutine() - before; left < queues/2 {
		t.Errorf("%d goroutines are left by %d queues of client-go: it now does as documented, or this test does not look", left, queues)
	}
}

// A queue that nobody refers to any more is garbage, shut down or not, unless
// something waits in it: its goroutine then refers to it until that is due.
func TestDroppedQueuesAreCollected(t *testing.T) {
	provider := workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{})
	for name, open := range map[string]func() any{
		"Typed": func() any {
			q := workqueue.NewTyped[int]()
			q.Add(1)
			return q
		},
		"TypedDelaying, after something was due": func() any {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
			q.AddAfter(1, time.Millisecond)
			q.Get()
			return q
		},
		"TypedRateLimiting, shut down while something waited": func() any {
			q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[int](), workqueue.TypedRateLimitingQueueConfig[int]{})
			q.AddAfter(1, time.Hour)
			q.ShutDown()
			return q
		},
		"with the shipped metrics": func() any {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Name: "dropped", MetricsProvider: provider})
			q.Add(1)
			return q
		},
		"with the shipped metrics, shut down": func() any {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Name: "ended", MetricsProvider: provider})
			use(q)
			q.ShutDown()
			return q
		},
	} {
		t.Run(name, func(t *testing.T) {
			var collected atomic.Int32
			const queues = 100
			for range queues {
				watch(open(), &collected)
			}
			for range 100 { // The goroutine of the second ends soon after the Get.
				runtime.GC()
				if collected.Load() == queues {
					return
				}
				time.Sleep(time.Millisecond)
			}
			t.Errorf("%d of %d queues were collected", collected.Load(), queues)
		})
	}
}

func watch(q any, collected *atomic.Int32) {
	count := func(*atomic.Int32) { collected.Add(1) }
	switch q := q.(type) {
	case *workqueue.Typed[int]:
		runtime.AddCleanup(q, count, collected)
	case *workqueue.TypedDelaying[int]:
		runtime.AddCleanup(q, count, collected)
	case *workqueue.TypedRateLimiting[int]:
		runtime.AddCleanup(q, count, collected)
	}
}

// Queues that come and go leave nothing on the heap.
func TestQueuesThatEndLeaveNoMemory(t *testing.T) {
	registry := prometheus.NewRegistry()
	provider := workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{})
	generation := func() {
		for i := range 2000 {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Name: fmt.Sprint(i), MetricsProvider: provider})
			use(q)
			q.ShutDown()
		}
	}
	generation()
	before := heap()
	for range 10 { // See grown.
		time.Sleep(time.Millisecond)
		before = min(before, heap())
	}
	for range 4 {
		generation()
	}
	if by := grown(before, 256<<10); by > 256<<10 {
		t.Errorf("the heap has grown by %d KiB over 8000 queues", by>>10)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Errorf("%d families of series are left, %v, want that of what was abandoned", len(families), err)
	}
}

// grown returns by how much the heap has grown since it was before, as soon as
// that is no more than most, or a second later. A cleanup runs on a goroutine of
// its own after the collection that has found its object dead, and what it refers
// to is garbage only when it has: 8000 queues can leave 460 KiB for a moment.
func grown(before, most int64) (by int64) {
	for range 1000 {
		if by = heap() - before; by <= most {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return by
}

func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
