package workqueue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

func TestStateOfDelays(t *testing.T) {
	r, clock := &reader{}, testingclock.NewFakeClock(epoch)
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour)
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{
			Name: "q", MetricsProvider: r, Clock: clock,
		})
		step := func(d time.Duration) func() {
			return func() {
				synctest.Wait()
				clock.Step(d)
				synctest.Wait()
			}
		}
		play(t, r, clock, q.Delaying(), []line{
			{0, "after", func() { q.AddAfter("a", 10*time.Second) }, "retries 1, waiting 1"},
			{0, "the same earlier", func() { q.AddAfter("a", 5*time.Second) }, "retries 2, waiting 1"},
			{0, "limited", func() { q.AddRateLimited("b") }, "limited 1, retries 3, waiting 2"},
			{0, "rescheduled", func() { q.Reschedule("b", 8*time.Second) }, "limited 1, retries 3, waiting 2"},
			{0, "due, a second late", step(6 * time.Second), "adds 1, depth 1, lateness 1/1, limited 1, retries 3, waiting 1"},
			{0, "no delay is none to be late for", func() { q.AddAfter("c", 0); q.AddAfter("c", -1) },
				"adds 2, depth 2, duplicates 1, lateness 1/1, limited 1, retries 5, waiting 1"},
			{0, "what is queued gets due", func() { q.Add("b"); step(2 * time.Second)() },
				"adds 3, depth 3, duplicates 2, lateness 2/1, limited 1, oldest 2s, retries 5"},
			{0, "removed while it waits", func() { q.AddAfter("d", time.Hour); q.Remove("d") },
				"adds 3, depth 3, duplicates 2, lateness 2/1, limited 1, oldest 2s, retries 6"},
			{0, "left behind", func() { q.Get(); q.AddAfter("d", time.Hour); q.AddAfter("e", time.Hour); q.ShutDown() },
				"adds 3, depth 2, duplicates 2, in flight 1, latency 1/2, lateness 2/1, limited 1, oldest 2s, retries 8"},
			{0, "nothing counts after it", func() { q.AddRateLimited("e"); q.AddAfter("e", 1); q.ShutDown() },
				"adds 3, depth 2, duplicates 2, in flight 1, latency 1/2, lateness 2/1, limited 1, oldest 2s, retries 8"},
		})
	})
	if got, want := fmt.Sprint(r.ends), "[q/3{Queued:2 InFlight:1 Waiting:2}]"; got != want {
		t.Errorf("ended %s, want %s", got, want)
	}
}

// Layers that were constructed apart are read apart, and each ends for itself.
func TestStateOfLayersConstructedApart(t *testing.T) {
	r, clock := &reader{}, testingclock.NewFakeClock(epoch)
	synctest.Test(t, func(t *testing.T) {
		fifo := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
			Name: "q", MetricsProvider: r, Clock: clock, Queue: &shelf[string]{quiet: true},
		})
		delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
			Name: "q", MetricsProvider: r, Clock: clock, Queue: fifo,
		})
		q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemFastSlowRateLimiter[string](time.Second, time.Second, 1),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: r, DelayingQueue: delaying})
		if len(r.reads) != 2 {
			t.Fatalf("%d queues were made known, want 2", len(r.reads))
		}
		play(t, r, clock, delaying, []line{
			{0, "limited", func() { q.AddRateLimited("a") }, "limited 1, retries 1, waiting 1"},
			{0, "due", func() { synctest.Wait(); clock.Step(3 * time.Second); synctest.Wait() }, "lateness 1/2, limited 1, retries 1"},
			{0, "waiting", func() { q.AddAfter("b", time.Hour) }, "lateness 1/2, limited 1, retries 2, waiting 1"},
			{0, "shut down from below", func() {
				fifo.ShutDown()
				synctest.Wait()
				clock.Step(time.Hour)
				synctest.Wait()
			}, "lateness 1/2, limited 1, retries 2"},
		})
		if s, _ := r.reads[0](); s.Adds != 1 || s.Depth != 1 || s.Waiting != 0 {
			t.Errorf("the FIFO below: got %+v, want 1 add and depth 1", s)
		}
		q.ShutDown()
	})
	if got, want := fmt.Sprint(r.ends), "[q/1{Queued:1 InFlight:0 Waiting:0} q/2{Queued:0 InFlight:0 Waiting:1}]"; got != want {
		t.Errorf("ended %s, want %s", got, want)
	}
}

// A provider that reads queues reads the layers of a delaying queue together or apart,
// which depends on its order: foreign code is not called with both locks held. Either
// way each item and each call is in one series, and no series is missing.
func TestSeriesOfADelayingQueueAreThoseOfAnyOrder(t *testing.T) {
	mod := func(item int) int { return item % 2 }
	fair := func() workqueue.Queue[int] {
		return workqueue.NewFairQueue(workqueue.FairOptions[int, int]{Group: mod, MaxInFlight: func(int) int { return 2 }})
	}
	orders := []struct {
		name string
		open func() workqueue.Queue[int]
	}{
		{"none", func() workqueue.Queue[int] { return nil }},
		{"levels", func() workqueue.Queue[int] { return workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{}) }},
		{"foreign", workqueue.DefaultQueue[int]},
		{"fair", fair},
		{"nested", func() workqueue.Queue[int] {
			return workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Within: fair})
		}},
	}
	var want []string
	for _, order := range orders {
		for _, oneEntry := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r, p := newExposed(workqueue.PrometheusOptions{})
				q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
					Name: "q", MetricsProvider: p, OneEntry: oneEntry, Order: order.open(),
				})
				q.AddAll(1, 2, 2)
				q.AddAfter(3, time.Second)
				q.AddAfter(4, time.Hour)
				time.Sleep(3 * time.Second)
				item, _ := q.Get()
				q.Get()
				time.Sleep(time.Second)
				q.Done(item)
				got := slices.DeleteFunc(scrape(t, r), func(s string) bool { return strings.Contains(s, "_by_") })
				if want == nil {
					want = got
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s, OneEntry %v: got\n%s\nwant\n%s", order.name, oneEntry, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				q.ShutDown()
				checkAbandoned(t, r, 1, 1, 1)
			})
		}
	}
	for _, series := range []string{`adds_total{name="q"} 3`, `depth{name="q"} 1`, `waiting{name="q"} 1`, `retries_total{name="q"} 2`} {
		if !slices.Contains(want, series) {
			t.Errorf("without an order there is no %s: got\n%s", series, strings.Join(want, "\n"))
		}
	}
}
