package workqueue_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// noAllocations runs each function until it has what it needs, and then sees
// that it allocates nothing more.
func noAllocations(t *testing.T, paths map[string]func()) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, f := range paths {
		f()
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func items64() []string {
	items := make([]string, 64)
	for i := range items {
		items[i] = itemOf(i)
	}
	return items
}

// cycle takes the items through a queue, each of them twice.
func cycle(q workqueue.TypedInterface[string]) func() {
	items := items64()
	return func() {
		for _, item := range items {
			q.Add(item)
			q.Add(item)
		}
		for range items {
			item, _ := q.Get()
			q.Add(item)
			q.Done(item)
		}
		for range items {
			item, _ := q.Get()
			q.Done(item)
			q.Done(item)
		}
		q.Len()
	}
}

func TestAllocationsOfAFIFO(t *testing.T) {
	items := items64()
	plain := workqueue.NewTyped[string]()
	measured := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: silent{}})
	stored := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: workqueue.DefaultQueue[string]()})
	nans := workqueue.NewTyped[float64]()
	exposed := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name: "q", MetricsProvider: workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{}),
	})
	measured.Add("held") // Keeps the reports running, which allocate when they start.
	measured.Get()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	noAllocations(t, map[string]func(){
		"Add, Get, Done":              cycle(plain),
		"Add, Get, Done with metrics": cycle(measured),
		"Add, Get, Done, exposed":     cycle(exposed),
		"Add, Get, Done with storage": cycle(stored),
		"AddAll, TryGet, Done": func() {
			plain.AddAll(items...)
			for item, ok := plain.TryGet(); ok; item, ok = plain.TryGet() {
				plain.Done(item)
			}
		},
		"AddAll, GetContext, Done with metrics": func() {
			measured.AddAll(items...)
			for range items {
				item, _ := measured.GetContext(ctx)
				measured.Done(item)
			}
		},
		"AddAll, Remove": func() {
			plain.AddAll(items...)
			for _, item := range items {
				plain.Remove(item)
			}
		},
		"items not equal to themselves": func() { nans.Add(math.NaN()); nans.Get() },
	})
	measured.ShutDown()
}

func TestAllocationsOfTheLayers(t *testing.T) {
	items := items64()
	delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: silent{}})
	limited := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, time.Hour))
	atOnce := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemFastSlowRateLimiter[string](0, 0, 1))
	delaying.Add("held")
	delaying.Get()
	noAllocations(t, map[string]func(){
		"Add, Get, Done, delaying":     cycle(delaying),
		"Add, Get, Done, rate limited": cycle(limited),
		"AddAfter of what waits": func() {
			for _, item := range items {
				delaying.AddAfter(item, time.Hour)
			}
		},
		"AddAfter at once": func() {
			delaying.AddAfter("now", 0)
			item, _ := delaying.Get()
			delaying.Done(item)
		},
		"AddRateLimited, Forget": func() {
			for _, item := range items {
				limited.AddRateLimited(item)
				limited.NumRequeues(item)
				limited.Forget(item)
			}
		},
		"AddRateLimited at once, Get, Forget, Done": func() {
			for _, item := range items {
				atOnce.AddRateLimited(item)
				item, _ := atOnce.Get()
				atOnce.Forget(item)
				atOnce.Done(item)
			}
		},
	})
	for _, q := range []interface{ ShutDown() }{delaying, limited} {
		q.ShutDown()
	}
}

// Distinct items that wait and fire, all of them over and over: the agenda,
// the loop and its timer reuse what they have.
func TestAllocationsOfDelays(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Clock: clock})
	const n = 600
	q.AddAfter(-1, 1000*time.Hour) // Keeps the goroutine: starting one allocates now and then.
	f := func() {
		for i := range n {
			q.AddAfter(i, time.Duration(i)*time.Millisecond+1)
		}
		clock.Step(time.Hour / 2)
		for range n {
			item, _ := q.Get()
			q.Done(item)
		}
	}
	f()
	// The fake clock allocates some for each step and each timer set.
	if allocs := testing.AllocsPerRun(20, f); allocs > n/10 {
		t.Errorf("%v allocations for %d items", allocs, n)
	}
	q.ShutDown()
}

// Items that were never seen before, within what the agenda has room for. A
// larger burst costs the pages of 32 nodes that it comes to and gives back.
func TestAllocationsOfAnAgenda(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for n, most := range map[int]float64{60: 0, 600: 600 / 25} {
		var a workqueue.Agenda[int]
		round := 0
		f := func() {
			round++
			for i := range n {
				a.Schedule(round*n+i, time.Duration(i))
			}
			for range n {
				a.Pop()
			}
		}
		f()
		if allocs := testing.AllocsPerRun(50, f); allocs > most {
			t.Errorf("%v allocations for %d items, want at most %v", allocs, n, most)
		}
	}
}

// What a call allocates in a queue where much waits shows how much of it it has
// looked at. That must not be all, as others may wait for the lock meanwhile.
func TestAllocationsDoNotGrowWithWhatWaits(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const waiting, most = 20_000, 20_000
	for name, f := range map[string]func(q *workqueue.TypedDelaying[int]){
		"Add":               func(q *workqueue.TypedDelaying[int]) { q.Add(7) },
		"AddAfter":          func(q *workqueue.TypedDelaying[int]) { q.AddAfter(7, time.Minute) },
		"Reschedule":        func(q *workqueue.TypedDelaying[int]) { q.Reschedule(7, time.Minute) },
		"Debounce":          func(q *workqueue.TypedDelaying[int]) { q.Debounce(7, time.Minute, time.Hour) },
		"Debounce of a new": func(q *workqueue.TypedDelaying[int]) { q.Debounce(waiting, time.Minute, time.Hour) },
		"Remove":            func(q *workqueue.TypedDelaying[int]) { q.Remove(7) },
		"Snapshot":          func(q *workqueue.TypedDelaying[int]) { q.Snapshot(10) },
		"ShutDown":          func(q *workqueue.TypedDelaying[int]) { q.ShutDown() },
		"ShutDownWithDrain": func(q *workqueue.TypedDelaying[int]) { q.ShutDownWithDrain() },
		"Drain":             func(q *workqueue.TypedDelaying[int]) { q.Drain(context.Background()) },
	} {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{OneEntry: true})
		for i := range waiting {
			q.AddAfter(i, time.Hour+time.Duration(i*7919%waiting))
		}
		if bytes := allocated(func() { f(q) }); bytes > most {
			t.Errorf("%s: %d bytes beside %d waiting items, want at most %d", name, bytes, waiting, most)
		}
		q.ShutDown()
	}
}
