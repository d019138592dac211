package workqueue_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// The waiting item that Remove took back was the last: the goroutine ends.
func TestRemoveOfTheLastWaitingItemEndsTheGoroutine(t *testing.T) {
	for name, call := range map[string]func(q *workqueue.TypedDelaying[string]){
		"Remove":         func(q *workqueue.TypedDelaying[string]) { q.Remove("a") },
		"Reschedule now": func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", 0) },
		"Add, one entry": func(q *workqueue.TypedDelaying[string]) { q.Add("a") },
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{OneEntry: true})
			q.AddAfter("a", time.Hour)
			synctest.Wait()
			if n := goroutines(); n != 1 {
				t.Errorf("%s: %d goroutines while an item waits", name, n)
			}
			call(q)
			synctest.Wait()
			if n := goroutines(); n != 0 {
				t.Errorf("%s: %d goroutines while no item waits", name, n)
			}
			checkInvariants(t, 0, q)
			q.ShutDown()
		})
	}
}

func TestDebounceAddsOnceWhenASeriesIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
		defer q.ShutDown()
		// Ten events, one a second, are one item 3 s after the last.
		for range 10 {
			q.Debounce("a", 3*time.Second, time.Minute)
			time.Sleep(time.Second)
		}
		q.Get()
		if got := time.Since(start); got != 12*time.Second {
			t.Errorf("the item came after %v", got)
		}
		q.Done("a")
		// Events that do not end are an item every 5 s.
		start = time.Now()
		for i := range 15 {
			q.Debounce("a", 3*time.Second, 5*time.Second)
			time.Sleep(time.Second)
			synctest.Wait()
			if got, want := q.Len(), map[bool]int{true: 1}[i%5 == 4]; got != want {
				t.Errorf("after %v: %d items", time.Since(start), got)
			}
			if q.Len() > 0 {
				q.Get()
				q.Done("a")
			}
		}
	})
}

// Without a maximum a series of calls may last. Only that of its first call
// counts, so that a later one is no maximum either.
func TestDebounceWithoutAMaximum(t *testing.T) {
	for _, most := range []time.Duration{0, -1, math.MinInt64} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
			defer q.ShutDown()
			for i := range 1000 {
				q.Debounce("a", 3*time.Second, most*time.Duration((i+1)%2))
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if q.Len() != 0 || q.Waiting() != 1 {
					t.Fatalf("at most %d: %d items are queued and %d wait after %d calls, want 0 and 1", most, q.Len(), q.Waiting(), i+1)
				}
			}
			q.Debounce("a", 3*time.Second, time.Second)
			time.Sleep(3*time.Second - 1)
			synctest.Wait()
			if n := q.Len(); n != 0 {
				t.Errorf("at most %d: the maximum of a later call counts", most)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if n := q.Len(); n != 1 {
				t.Errorf("at most %d: %d items are queued when the series is over", most, n)
			}
			q.Debounce("b", time.Hour, time.Nanosecond) // That is one.
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if n := q.Len(); n != 2 {
				t.Errorf("%d items are queued after a maximum of a nanosecond, want 2", n)
			}
		})
	}
}

// An AddAfter promises when an item comes at the latest, also to itself.
func TestDebounceDoesNotBreakThePromiseOfAddAfter(t *testing.T) {
	for name, calls := range map[string][]func(q *workqueue.TypedDelaying[string]){
		"before": {
			func(q *workqueue.TypedDelaying[string]) { q.AddAfter("a", 10*time.Second) },
			func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 20*time.Second, time.Hour) },
		},
		"between": {
			func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 5*time.Second, time.Hour) },
			func(q *workqueue.TypedDelaying[string]) { q.AddAfter("a", 10*time.Second) },
			func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 20*time.Second, time.Hour) },
		},
		"after": {
			func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 20*time.Second, time.Hour) },
			func(q *workqueue.TypedDelaying[string]) { q.AddAfter("a", 10*time.Second) },
		},
		"rescheduled": {
			func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 5*time.Second, time.Hour) },
			func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", 10*time.Second) },
			func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 20*time.Second, time.Hour) },
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
			defer q.ShutDown()
			start := time.Now()
			for _, call := range calls {
				call(q)
			}
			q.Get()
			if got := time.Since(start); got != 10*time.Second {
				t.Errorf("%s: the item came after %v", name, got)
			}
		})
	}
}

func TestWaitingItemsThatDifferFromThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[float64]{OneEntry: true})
		defer q.ShutDown()
		nan := math.NaN()
		q.AddAfter(nan, time.Second)
		q.Reschedule(nan, 2*time.Second)
		q.Debounce(nan, 3*time.Second, time.Minute)
		q.Add(nan)
		if q.Remove(nan) {
			t.Error("an item that differs from itself was found")
		}
		checkInvariants(t, 0, q)
		if s := q.Snapshot(9); s.WaitingTotal != 3 || s.QueuedTotal != 1 {
			t.Errorf("got %v", s)
		}
		time.Sleep(time.Minute)
		for range 4 {
			q.Done(first(q.Get()))
		}
		checkInvariants(t, 1, q)
	})
}
