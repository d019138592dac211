package workqueue_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// One test for each difference from client-go in docs/differences.md, named after the report or the
// symptom. Each test fails on client-go v0.37.2. Two are elsewhere:
// TestMemoryReturns_kubernetes116878, and TestPanicOnTheGoroutineOfADelayingQueue_D12.

// In client-go, AddAfter returns when the item is in a channel of 1000, or later.
func TestAddAfterTakesEffectBeforeItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		q := newGated(func(int) { <-hold })
		q.AddAfter(-1, time.Nanosecond)
		time.Sleep(time.Second) // The goroutine is stuck.
		for i := range 3000 {
			q.AddAfter(i, time.Hour)
			if n := q.Waiting(); n != i+1 {
				t.Fatalf("%d items wait after %d calls", n, i+1)
			}
		}
		close(hold)
		q.ShutDown()
	})
}

// In client-go, the loop looks at the clock only when the channel is empty. Virtual time has no
// lateness; here the item would never come.
func TestFloodOfAddAfterDoesNotHoldUpWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newHookedClock()
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Clock: clock})
		var flooding sync.WaitGroup
		var over atomic.Bool
		q.AddAfter(-1, time.Second)
		for p := range 2 {
			flooding.Go(func() {
				for i := 0; !over.Load(); i++ {
					q.AddAfter(p<<20|i&0xffff, time.Hour)
				}
			})
		}
		clock.Step(time.Second)
		if got, _ := q.Get(); got != -1 {
			t.Errorf("got %d, want -1", got)
		}
		over.Store(true)
		flooding.Wait()
		q.ShutDown()
	})
}

// In client-go, 998 of 1000 items come in another order. A thousand items are more than a batch.
func TestItemsDueAtTheSameInstantKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
		const n = 1000
		at := time.Now().Add(time.Minute)
		for i := range n {
			if i%7 == 0 {
				q.AddAfter(i, time.Hour) // The earlier time decides the order.
			}
			q.AddAfter(i, time.Until(at))
			if i%100 == 0 {
				time.Sleep(time.Second)
			}
		}
		checkInvariants(t, n, q)
		time.Sleep(time.Until(at))
		synctest.Wait()
		for i := range n {
			if got, _ := q.Get(); got != i {
				t.Fatalf("got %d at place %d", got, i)
			}
		}
		q.ShutDown()
	})
}

// In client-go, failure 44 of this base is due a negative time from now, so at once.
func TestExponentialDelayNeverTurnsNegative(t *testing.T) {
	const most = 1000 * time.Second
	l := workqueue.NewTypedItemExponentialFailureRateLimiter[string](1<<20, most)
	last := time.Duration(0)
	for failure := range 200 {
		wait := l.When("a")
		if wait < last || wait > most {
			t.Errorf("failure %d waits %v, after %v", failure, wait, last)
		}
		last = wait
	}
}

// In client-go, SetProvider beside a constructor is a data race, which the race detector reports.
// Here each queue also has all of its metrics or none.
func TestSetProviderBesideConstructors(t *testing.T) {
	t.Cleanup(workqueue.ResetProvider)
	workqueue.ResetProvider()
	r := &census{}
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() { workqueue.SetProvider(r) })
		running.Go(func() {
			q := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedItemBasedRateLimiter[string](),
				workqueue.TypedRateLimitingQueueConfig[string]{Name: "q"})
			q.Add("a")
			q.ShutDown()
		})
	}
	running.Wait()
	if all := strings.Join(r.asked, ", "); strings.Count(all, "depth of q") != strings.Count(all, "retries of q") {
		t.Errorf("metrics were made %v", r.asked)
	}
	workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q"}).Add("a")
	if got := r.take(); !slices.Contains(got, "depth+1") {
		t.Errorf("got %v from a queue that was made after SetProvider", got)
	}
}

// In client-go, a metric that panics in Get loses the item, a metric that panics in Done makes the
// drain hang, and a metric that calls Len blocks every caller.
func TestMetricThatPanicsLosesNothing(t *testing.T) {
	for _, event := range []string{"depth-1", "latency", "work"} {
		r := &recorder{}
		q, _ := newMeasured(r)
		q.Add("a")
		r.setHook(func(e string) {
			if strings.HasPrefix(e, event) {
				r.setHook(nil)
				if q.Len() > 1 {
					t.Errorf("%s: %d items are queued", event, q.Len())
				}
				panic("metric")
			}
		})
		goes(func() {
			item, _ := q.Get()
			q.Done(item)
		})
		q.Add("a")
		if got := takeAll(q); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%s: got %q, want a", event, got)
		}
		q.ShutDownWithDrain()
	}
}

// In client-go, a NaN is never done, and a drain waits for the NaN for ever.
func TestDrainEndsInSpiteOfNaN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTyped[float64]()
		for range 3 {
			q.Add(nan())
			item, _ := q.Get()
			q.Done(item)
		}
		q.ShutDownWithDrain()
	})
}

func nan() float64 { zero := 0.0; return zero / zero }
