package workqueue_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// With a limit a worker parks although items are queued, and the Done of an item of
// the group wakes it.
func TestWorkerParksWhileAGroupIsAtItsLimit(t *testing.T) {
	open := func() workqueue.TypedInterface[string] {
		return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: newFair(nil, map[string]int{"a": 1})})
	}
	for name, steps := range map[string][]step{
		"until Done": {
			{"add a/1", ""}, {"add a/2", ""}, {"get", "a/1"}, {"len", "1"}, {"try", "nothing "},
			{"w: get", "blocks"}, {"add a/3", ""}, {"w: returns", "blocks"}, {"done a/1", ""}, {"w: returns", "a/2"},
			{"try", "nothing "}, {"done a/2", ""}, {"get", "a/3"}, {"done a/3", ""}, {"len", "0"},
		},
		"but takes what another group has": {
			{"add a/1", ""}, {"add a/2", ""}, {"get", "a/1"}, {"w: get", "blocks"}, {"add b/1", ""}, {"w: returns", "b/1"},
		},
		"and an item that is added again keeps its place behind the others": {
			{"add a/1", ""}, {"add a/2", ""}, {"get", "a/1"}, {"add a/1", ""}, {"done a/1", ""},
			{"get", "a/2"}, {"try", "nothing "}, {"done a/2", ""}, {"get", "a/1"},
		},
		"and a drain waits for what is held back": {
			{"add a/1", ""}, {"add a/2", ""}, {"get", "a/1"}, {"d: drain", "blocks"}, {"done a/1", ""}, {"d: returns", "blocks"},
			{"get", "a/2"}, {"done a/2", ""}, {"d: returns", ""},
		},
		"until a shutdown, after which who calls Done gets the rest": {
			{"add a/1", ""}, {"add a/2", ""}, {"get", "a/1"}, {"w: get", "blocks"}, {"shutdown", ""}, {"w: returns", "shutdown "},
			{"get", "shutdown "}, {"len", "1"}, {"done a/1", ""}, {"get", "a/2"}, {"done a/2", ""}, {"get", "shutdown "},
		},
	} {
		t.Run(name, func(t *testing.T) { timeline(t, open, steps...) })
	}
}

// What a worker has not been given takes no slot: an item that was removed while it was
// queued, and one whose hand-out a metric has cut short and that was removed then.
func TestRemovedItemsTakeNoSlot(t *testing.T) {
	r := &recorder{}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name: "q", MetricsProvider: r, Order: newFair(nil, map[string]int{"a": 1}),
	})
	q.AddAll("a/1", "a/2", "a/3")
	q.Remove("a/1")
	r.setHook(func(event string) {
		if strings.HasPrefix(event, "latency") {
			panic("metric")
		}
	})
	goes(func() { q.TryGet() })
	r.setHook(nil)
	if !q.Remove("a/2") {
		t.Fatal("a/2 was not put back")
	}
	checkInvariants(t, 0, q)
	if got := fmt.Sprint(takeAll(q)); got != "[a/3]" {
		t.Errorf("got %s, want [a/3]: the slot of a/2 is free", got)
	}
	q.ShutDownWithDrain()
}

// Workers in any number never hold more items of a group than it may have, and get all
// of them. Groups change their minds about items meanwhile.
func TestLimitsHoldUnderLoad(t *testing.T) {
	const tenants, perTenant, workers = 4, 500, 8
	var mind atomic.Int64
	var holding [tenants]atomic.Int64
	limit := func(tenant int) int { return tenant } // The first one has none.
	group := make(map[int]int)                      // As it was when the item was queued; guarded by the queue.
	var mu sync.Mutex
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: workqueue.NewFairQueue(workqueue.FairOptions[int, int]{
		Group: func(item int) int {
			mu.Lock()
			defer mu.Unlock()
			group[item] = int(uint64(item)+uint64(mind.Load())/64) % tenants
			return group[item]
		},
		MaxInFlight: limit,
		Weight:      func(tenant int) int { return 1 + tenant%2 },
	})})
	var working sync.WaitGroup
	var handled atomic.Int64
	for range workers {
		working.Go(func() {
			for item, shutdown := q.Get(); !shutdown; item, shutdown = q.Get() {
				mu.Lock()
				g := group[item]
				mu.Unlock()
				if n := holding[g].Add(1); limit(g) > 0 && n > int64(limit(g)) {
					t.Errorf("%d items of group %d are held", n, g)
				}
				handled.Add(1)
				holding[g].Add(-1)
				q.Done(item)
			}
		})
	}
	for item := range tenants * perTenant {
		mind.Add(1)
		q.Add(item)
	}
	q.ShutDownWithDrain()
	working.Wait()
	if n := handled.Load(); n != tenants*perTenant {
		t.Errorf("%d items were handled, want %d", n, tenants*perTenant)
	}
	checkInvariants(t, 0, q)
}

// Priorities order the items of a group, and groups take turns all the same.
func TestFairQueueWithPrioritiesWithin(t *testing.T) {
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: workqueue.NewFairQueue(workqueue.FairOptions[string, string]{
		Group: byTenant,
		Within: func() workqueue.Queue[string] {
			return workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{})
		},
	})})
	defer q.ShutDown()
	q.AddAll("a/1", "a/2", "a/3", "b/1", "b/2")
	q.AddWith(workqueue.AddOptions{Priority: 7}, "a/3", "a/4", "b/2")
	var got []string
	for q.Len() > 0 {
		item, priority, _ := q.GetWithPriority()
		got = append(got, fmt.Sprint(item, ":", priority))
		q.Done(item)
	}
	if want := "a/3:7 b/2:7 a/4:7 b/1:0 a/1:0 a/2:0"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, " "), want)
	}
}

// Without priorities within, nobody is to believe that they have an effect.
func TestFairQueueWithoutPrioritiesTakesNone(t *testing.T) {
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: newFair(nil, nil)})
	defer q.ShutDown()
	got := goes(func() { q.AddWith(workqueue.AddOptions{Priority: 1}, "a/1") })
	if text, _ := got.(string); !strings.HasPrefix(text, "workqueue: ") {
		t.Errorf("got the panic %v", got)
	}
	if q.Add("a/1"); first(q.TryGet()) != "a/1" {
		t.Error("the queue is not usable")
	}
}

// Delayed items go to their groups when they are due.
func TestFairQueueBelowDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(
			workqueue.NewTypedItemFastSlowRateLimiter[string](time.Second, time.Second, 1),
			workqueue.TypedRateLimitingQueueConfig[string]{Order: newFair(nil, map[string]int{"a": 1})},
		)
		defer q.ShutDown()
		q.AddAfter("a/1", time.Second)
		q.AddRateLimited("a/2")
		q.AddAfter("b/1", time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		var got []string
		for range 2 {
			item, _ := q.Get()
			got = append(got, item)
		}
		if item, ok := q.TryGet(); ok || fmt.Sprint(got) != "[a/1 b/1]" {
			t.Errorf("got %s and %q, want [a/1 b/1] and nothing", got, item)
		}
		q.Done("a/1")
		if item, _ := q.Get(); item != "a/2" {
			t.Errorf("got %s, want a/2", item)
		}
	})
}
