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

	"github.com/seed16c08ea7/workqueue"
)

// A thousand queues, each in use and with a waiting item, leave no goroutine when their shutdowns
// have returned. With ten thousand queues or with the race detector, a shutdown that does not wait goes
// unnoticed in a sixth of the runs: the runtime then stops the test after 10 ms, and the goroutines end.
func TestNoGoroutineIsLeftTheMomentAShutdownReturns(t *testing.T) {
	const queues = 1000
	for name, shutDown := range map[string]func(*workqueue.TypedDelaying[int]){
		"ShutDown":          (*workqueue.TypedDelaying[int]).ShutDown,
		"ShutDownWithDrain": (*workqueue.TypedDelaying[int]).ShutDownWithDrain,
		"Drain":             func(q *workqueue.TypedDelaying[int]) { q.Drain(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			awaitNone(t)
			provider := workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{})
			all := make([]*workqueue.TypedDelaying[int], queues)
			for i := range all {
				all[i] = workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
					Name: fmt.Sprint(i), MetricsProvider: provider,
				})
				use(all[i])
			}
			alive := ours()
			// With one processor: with more of them, goroutines end in time by themselves, and the
			// test would not see the goroutines of a shutdown that does not wait.
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			for _, q := range all {
				shutDown(q)
			}
			// A goroutine reports its end in its last statement. If a busy machine stops the
			// goroutine right there, the test sees it until its next turn. A shutdown that does not
			// wait leaves hundreds.
			const most = 20
			after := ours()
			t.Logf("%d goroutines while the items waited, %d the moment after", alive, after)
			if alive != queues || after > most {
				t.Errorf("%d goroutines while the items waited, %d the moment after, want %d, at most %d", alive, after, queues, most)
			}
			awaitNone(t)
		})
	}
}

// patience is longer than any call takes that is not stuck: a busy machine may stop this process
// for seconds.
const patience = 3 * time.Minute

// eventually reports whether a condition becomes true.
func eventually(is func() bool) bool {
	for from := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(from) > patience {
			return false
		}
	}
	return true
}

// awaitNone waits until no goroutine of the library is left.
func awaitNone(t *testing.T) {
	t.Helper()
	if !eventually(func() bool { return ours() == 0 }) {
		t.Fatalf("%d goroutines are left", ours())
	}
}

// ours returns the number of running goroutines that the library has started; other goroutines come
// and go in this process too.
func ours() int {
	return bytes.Count(stacks(), []byte("\ncreated by github.com/seed16c08ea7/workqueue.("))
}

// stacks returns the stacks of all goroutines.
func stacks() []byte {
	text := make([]byte, 1<<20)
	for {
		if n := runtime.Stack(text, true); n < len(text) {
			return text[:n]
		}
		text = make([]byte, 2*len(text))
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

// A queue without references is garbage, shut down or not, unless an item waits: then the goroutine
// refers to the queue until the item is due.
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
			// The goroutine of the second ends soon after the Get.
			if !eventually(func() bool { runtime.GC(); return collected.Load() == queues }) {
				t.Errorf("%d of %d queues were collected", collected.Load(), queues)
			}
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

// grown returns the growth of the heap since before, as soon as the growth is at most most, or at
// the end. The cleanup of an object runs on another goroutine after the collection that found the
// object dead, and the references of the object are garbage only afterwards: 8000 queues can leave
// 460 KiB for a moment.
func grown(before, most int64) (by int64) {
	eventually(func() bool {
		by = heap() - before
		return by <= most
	})
	return by
}

func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
