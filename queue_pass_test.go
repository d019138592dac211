package workqueue_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// runUntil runs with one worker until the n-th call of the handler has returned. A panic is
// one of the test.
func runUntil(t *testing.T, q rateLimited, n int, options runOptions, handle func(ctx context.Context, item string) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	options.Logger = discard()
	err := workqueue.Run(ctx, q, func(ctx context.Context, item string) error {
		if n--; n == 0 {
			defer cancel()
		}
		defer func() {
			if v := recover(); v != nil {
				t.Errorf("the handler of %s has panicked: %v", item, v)
			}
		}()
		return handle(ctx, item)
	}, options)
	if err != nil {
		t.Errorf("got %v from Run", err)
	}
}

// Metrics that are told of each change are told in a Run too.
func TestRunTellsMetricsOfEachItem(t *testing.T) {
	p := &recorder{}
	q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: p})
	q.AddAll("a", "b", "c")
	p.take()
	runUntil(t, q, 3, runOptions{}, succeeding)
	told := map[byte]int{}
	for _, event := range p.take() {
		told[event[0]]++ // The depth, the latency and the work.
	}
	if told['d'] != 3 || told['l'] != 3 || told['w'] != 3 {
		t.Errorf("the metrics were told %v, want each of 3 items", told)
	}
}

func succeeding(context.Context, string) error { return nil }

// A Run on a queue whose metrics are read has the times of each item, once. A handler that
// calls Done itself adds none.
func TestRunHasTheTimesOfEachItemInTheMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := newExposed(workqueue.PrometheusOptions{})
		q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: p})
		q.AddAll("a", "b", "c", "d")
		runUntil(t, q, 4, runOptions{KeepQueue: true}, func(_ context.Context, item string) error {
			time.Sleep(time.Second)
			if item == "b" {
				q.Done(item)
			}
			return nil
		})
		got := scrape(t, r)
		for _, want := range []string{
			`queue_duration_seconds{name="q"} 4 observations of 6 s`,
			`work_duration_seconds{name="q"} 4 observations of 4 s`,
		} {
			if !slices.Contains(got, want) {
				t.Errorf("got %q without %s", got, want)
			}
		}
		q.ShutDown()
	})
}

// Each item comes again with its own priority, and not with that of the item before it.
func TestRunRetriesEachItemWithItsOwnPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{
			Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{}),
		})
		q.AddWith(workqueue.AddOptions{Priority: 7}, "a")
		q.AddWith(workqueue.AddOptions{Priority: 3}, "b")
		q.Add("c")
		var got []string
		runUntil(t, q, 9, runOptions{}, func(_ context.Context, item string) error {
			for _, info := range q.Snapshot(1).InFlight {
				got = append(got, fmt.Sprint(item, info.Priority))
			}
			time.Sleep(400 * time.Millisecond) // The first is due again when the last ends.
			return errFailed
		})
		want := []string{"a7", "b3", "c0", "a7", "b3", "c0", "a7", "b3", "c0"}
		if !slices.Equal(got, want) {
			t.Errorf("handed out %v, want %v", got, want)
		}
	})
}

// Foreign code of the queue that ends the worker's goroutine between two items leaves the
// queue unlocked, and another worker goes on.
func TestRunWithAStorageThatEndsTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		order := &shelf[string]{}
		pops := 0
		order.hook = func(call string) {
			if call == "pop" {
				if pops++; pops == 2 {
					runtime.Goexit()
				}
			}
		}
		q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{Order: order})
		q.AddAll("a", "b")
		runUntil(t, q, 2, runOptions{}, succeeding)
		if pops != 3 {
			t.Errorf("got %d calls of Pop, want 3", pops)
		}
	})
}

// A worker finds the item that it is done with also while the index of the queue grows.
func TestRunWhileTheIndexGrows(t *testing.T) {
	q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{})
	defer q.ShutDown()
	for i := range 100 {
		q.Add(itemOf(i))
	}
	next, calls := 100, 0
	runUntil(t, q, 1000, runOptions{KeepQueue: true}, func(_ context.Context, item string) error {
		if want := itemOf(calls); item != want {
			t.Fatalf("got %s, want %s", item, want)
		}
		calls++
		for range 2 {
			q.Add(itemOf(next))
			next++
		}
		if s := q.Snapshot(0); s.InFlightTotal != 1 || s.QueuedTotal != next-calls {
			t.Fatalf("after %d calls, %d items are held, and %d queued", calls, s.InFlightTotal, s.QueuedTotal)
		}
		return nil
	})
	if s := q.Snapshot(0); s.InFlightTotal != 0 {
		t.Errorf("%d items are held in the end", s.InFlightTotal)
	}
}

// An item that was done or added again since its hand-out has no age and no priority any
// more: what the queue has is that of the next hand-out.
func TestItemInfoOfAnItemThatHasMovedOn(t *testing.T) {
	for name, order := range map[string]workqueue.Queue[string]{
		"in line": nil, "with priorities": workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{}),
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{KeepTimes: true, Order: order})
			priority := 0
			if order != nil {
				priority = 7
			}
			q.AddWith(workqueue.AddOptions{Priority: priority}, "a", "b", "c")
			time.Sleep(time.Second)
			runUntil(t, q, 3, runOptions{CancelOnReAdd: true}, func(ctx context.Context, item string) error {
				known := workqueue.ItemInfo[string]{Item: item, State: workqueue.ItemInFlight, Age: time.Second, Priority: priority}
				wantInfo(t, name, ctx, known)
				switch item {
				case "a":
					q.Done(item)
				case "b":
					q.AddWith(workqueue.AddOptions{Priority: priority}, item)
				case "c":
					return nil
				}
				known.Age, known.Priority = 0, 0
				wantInfo(t, name, ctx, known)
				return nil
			})
		})
	}
}

func wantInfo(t *testing.T, name string, ctx context.Context, want workqueue.ItemInfo[string]) {
	t.Helper()
	if got, ok := workqueue.ItemInfoFromContext[string](ctx); !ok || got != want {
		t.Errorf("%s: got %+v, want %+v", name, got, want)
	}
}

// An item that differs from itself is given back with the time of that.
func TestRunGivesBackWhatDiffersFromItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[float64](),
			workqueue.TypedRateLimitingQueueConfig[float64]{KeepTimes: true})
		q.AddAll(math.NaN(), math.NaN())
		time.Sleep(time.Minute)
		ctx, stop := context.WithCancel(t.Context())
		err := workqueue.Run(ctx, q, func(context.Context, float64) error { stop(); return nil }, workqueue.RunOptions[float64]{KeepQueue: true})
		time.Sleep(time.Second)
		if s := q.Snapshot(2); err != nil || s.QueuedTotal != 1 || s.Queued[0].Age != time.Second {
			t.Errorf("got %v and %+v, want one item that was queued for a second", err, s)
		}
		q.ShutDown()
	})
}

// After a Run whose queue waited for a retry, the item can be forgotten as before.
func TestForgetAfterARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(constant(time.Hour), workqueue.TypedRateLimitingQueueConfig[string]{})
		q.Add("a")
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		workqueue.Run(ctx, q, func(context.Context, string) error { return errFailed }, runOptions{Logger: discard(), OnStop: func(workqueue.Snapshot[string]) {}})
		if n := q.Attempts(); n != 1 {
			t.Errorf("the failures of %d items are counted", n)
		}
		q.Forget("a")
		if n := q.Attempts(); n != 0 {
			t.Errorf("the failures of %d items are counted after Forget", n)
		}
	})
}

// A drain does not wait for an item that differs from itself once it is handed out, as no
// Done can name it.
func TestDrainDoesNotWaitForTheHandlerOfWhatDiffersFromItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[float64](), workqueue.TypedRateLimitingQueueConfig[float64]{})
		q.Add(1)
		drained := make(chan struct{})
		err := workqueue.Run(context.Background(), q, func(_ context.Context, item float64) error {
			if item == 1 {
				q.Add(math.NaN())
				go func() {
					defer close(drained)
					q.ShutDownWithDrain()
				}()
				synctest.Wait()
				return nil
			}
			<-drained
			return nil
		}, workqueue.RunOptions[float64]{Logger: discard()})
		if err != nil {
			t.Error(err)
		}
	})
}
