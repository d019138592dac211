package workqueue_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A clock that panics does so before a transition, so nothing has happened.
func TestClockThatPanics(t *testing.T) {
	clock := newHookedClock()
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name: "q", MetricsProvider: &recorder{}, Clock: clock,
	})
	q.AddAll("a", "b")
	q.Get()
	for name, f := range map[string]func(){
		"Add": func() { q.Add("c") }, "AddAll": func() { q.AddAll("c", "d") }, "Get": func() { q.Get() },
		"TryGet": func() { q.TryGet() }, "Done": func() { q.Done("a") },
	} {
		clock.onRead = func() { panic("clock") }
		if got := goes(f); got != "clock" {
			t.Errorf("%s: got the panic %v, want clock", name, got)
		}
		clock.onRead = nil
		checkInvariants(t, 0, q)
		if q.Len() != 1 || q.Held() != 1 {
			t.Errorf("%s: %d items are queued and %d held, want 1 and 1", name, q.Len(), q.Held())
		}
	}
	q.ShutDown()
}

// The worker that was woken dies on its way, by its clock: the next has to go.
func TestClockThatPanicsForAWokenWorker(t *testing.T) {
	for kind, fail := range map[string]func(){"panic": func() { panic("clock") }, "Goexit": runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			clock := newHookedClock()
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
				Name: "q", MetricsProvider: &recorder{}, Clock: clock,
			})
			var mu sync.Mutex
			got := 0
			for range 2 {
				go goes(func() {
					q.Get()
					mu.Lock()
					got++
					mu.Unlock()
				})
			}
			synctest.Wait()
			readings := 0
			clock.onRead = func() {
				mu.Lock()
				readings++
				dies := readings == 2 // After that of Add.
				mu.Unlock()
				if dies {
					fail()
				}
			}
			q.Add("a")
			synctest.Wait()
			if got != 1 || q.Len() != 0 || q.Parked() != 0 {
				t.Errorf("%s: %d workers got the item, %d are left, %d workers wait", kind, got, q.Len(), q.Parked())
			}
			checkInvariants(t, 0, q)
			q.ShutDown()
		})
	}
}

// Times are kept on request by each layer, and then move with the item as they
// do under metrics.
func TestKeepTimes(t *testing.T) {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](1, 1)
	for _, keep := range []bool{false, true} {
		clock := testingclock.NewFakeClock(epoch)
		for name, q := range map[string]*workqueue.Typed[string]{
			"FIFO": workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Clock: clock, KeepTimes: keep}),
			"storage": workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
				Clock: clock, KeepTimes: keep, Queue: workqueue.DefaultQueue[string](),
			}),
			"delaying": workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock, KeepTimes: keep}).FIFO(),
			"rate limiting": workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{
				Clock: clock, KeepTimes: keep,
			}).Delaying().FIFO(),
		} {
			start := clock.Now()
			for i, row := range []struct {
				f              func()
				added, started time.Duration
			}{
				{func() { q.Add("a") }, 1, 0},
				{func() { q.Add("a") }, 1, 0},
				{func() { q.Get() }, 1, 3},
				{func() { q.Add("a") }, 4, 3},
				{func() { q.Done("a") }, 4, 3},
				{func() { q.TryGet() }, 4, 6},
			} {
				clock.Step(time.Second)
				row.f()
				added, started, kept := q.Times("a")
				if kept != keep || kept && (added != row.added*time.Second || started != row.started*time.Second) {
					t.Errorf("%s, keep %v, step %d: kept %v: added after %v, handed out after %v, want %d s and %d s",
						name, keep, i, kept, added, started, row.added, row.started)
				}
				checkInvariants(t, i, q)
			}
			clock.SetTime(start)
			q.Done("a")
			q.ShutDownWithDrain()
		}
	}
}
