package workqueue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// The limiter and After both have the shortest times: none, and a nanosecond.
func TestAddWithOfTheShortestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for limit, wait := range map[time.Duration]time.Duration{0: 0, -time.Second: 0, time.Hour: 1} {
			q := workqueue.NewTypedRateLimiting(constant(limit), workqueue.TypedRateLimitingQueueConfig[string]{})
			q.AddWith(workqueue.AddOptions{RateLimited: true, After: wait}, "a")
			if n := q.Len(); (n == 1) != (wait == 0) {
				t.Errorf("the limiter says %v: %d items are queued at once", limit, n)
			}
			time.Sleep(wait)
			synctest.Wait()
			if n := q.Len(); n != 1 {
				t.Errorf("the limiter says %v: %d items are queued after %v", limit, n, wait)
			}
			q.ShutDown()
		}
	})
}

// foreignDelaying has the methods of a delaying queue, and counts some of them.
type foreignDelaying struct {
	workqueue.TypedDelayingInterface[string]
	adds, afters int
}

func (q *foreignDelaying) Add(item string) { q.adds++; q.TypedDelayingInterface.Add(item) }
func (q *foreignDelaying) AddAfter(item string, d time.Duration) {
	q.afters++
	q.TypedDelayingInterface.AddAfter(item, d)
}

// capableDelaying has AddWith too.
type capableDelaying struct {
	*workqueue.TypedDelaying[string]
	calls []workqueue.AddOptions
}

func (q *capableDelaying) AddWith(options workqueue.AddOptions, items ...string) {
	q.calls = append(q.calls, options)
	q.TypedDelaying.AddWith(options, items...)
}

// A delaying queue of another make is called as the options need: by Add and AddAfter as
// long as there is no priority, and by AddWith for one, which it may lack.
func TestAddWithOnAForeignDelayingQueue(t *testing.T) {
	open := func(delaying workqueue.TypedDelayingInterface[string]) *workqueue.TypedRateLimiting[string] {
		return workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: delaying})
	}
	bare := &foreignDelaying{TypedDelayingInterface: workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})}
	q := open(bare)
	for i, row := range []struct {
		options      workqueue.AddOptions
		adds, afters int
	}{
		{workqueue.AddOptions{}, 2, 0},
		{workqueue.AddOptions{After: -1}, 4, 0},
		{workqueue.AddOptions{After: 1}, 4, 2},
		{workqueue.AddOptions{RateLimited: true}, 4, 4},
	} {
		q.AddWith(row.options, "a", "b")
		if bare.adds != row.adds || bare.afters != row.afters {
			t.Errorf("step %d: %d calls of Add and %d of AddAfter, want %d and %d", i, bare.adds, bare.afters, row.adds, row.afters)
		}
	}
	for _, options := range []workqueue.AddOptions{{Priority: 1}, {Priority: 1, RateLimited: true}} {
		const want = "workqueue: *workqueue_test.foreignDelaying has no AddWith"
		if got := goes(func() { q.AddWith(options, "c") }); got != want {
			t.Errorf("%+v: got the panic %v, want %s", options, got, want)
		}
	}
	q.ShutDown()

	capable := &capableDelaying{TypedDelaying: workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
		Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{}),
	})}
	q = open(capable)
	for _, options := range []workqueue.AddOptions{{Priority: 1}, {Priority: 1, After: time.Hour}, {Priority: 1, RateLimited: true}} {
		capable.calls = nil
		q.AddWith(options, "a")
		want := options
		if options.RateLimited {
			want = workqueue.AddOptions{Priority: 1, After: time.Second}
		}
		if len(capable.calls) != 1 || capable.calls[0] != want {
			t.Errorf("%+v: got the calls %+v, want one with %+v", options, capable.calls, want)
		}
	}
	if item, priority, shutdown := q.GetWithPriority(); item != "a" || priority != 1 || shutdown {
		t.Errorf("got %s with the priority %d and shutdown %v, want a with 1", item, priority, shutdown)
	}
	q.ShutDown()

	// One that is ours within one of ours is asked whether it knows priorities.
	within := open(workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{}))
	defer within.ShutDown()
	if got := goes(func() { within.AddWith(workqueue.AddOptions{Priority: 1, After: time.Hour}, "a") }); got == nil {
		t.Error("no panic for a priority that the queue at the bottom does not know")
	}
}

// A queue of ours within one of ours says whether it knows priorities before the limiter is
// asked, which would count a failure of what is not added.
func TestAddWithThatPanicsCountsNoFailure(t *testing.T) {
	open := func(delaying workqueue.TypedDelayingInterface[string]) *workqueue.TypedRateLimiting[string] {
		return workqueue.NewTypedRateLimiting(workqueue.NewTypedItemFastSlowRateLimiter[string](1, 2, 3),
			workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: delaying})
	}
	q := open(open(nil))
	defer q.ShutDown()
	if got := goes(func() { q.AddWith(workqueue.AddOptions{Priority: 1, RateLimited: true}, "a") }); got == nil {
		t.Error("no panic for a priority that the queue at the bottom does not know")
	}
	if n := q.NumRequeues("a"); n != 0 {
		t.Errorf("%d failures were counted", n)
	}
}
