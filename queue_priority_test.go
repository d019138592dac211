package workqueue_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// prioritized is a queue with an order by priority, and what its metrics are told.
func prioritized(clock *testingclock.FakeClock) (*workqueue.TypedRateLimiting[string], *recorder) {
	p := &recorder{}
	return workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
		Name: "q", MetricsProvider: p, Clock: clock,
		Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{}),
	}), p
}

// What AddWith adds and GetWithPriority hands out is counted as by Add and Get: a new item
// once, with the time that it was queued.
func TestMetricsOfItemsWithAPriority(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	q, p := prioritized(clock)
	defer q.ShutDown()
	for i, row := range []struct {
		f    func()
		want []string
	}{
		{func() { q.AddWith(workqueue.AddOptions{Priority: 2}, "a") }, []string{"adds+1", "depth+1"}},
		{func() { q.AddWith(workqueue.AddOptions{Priority: 3}, "a") }, nil},
		{func() { q.AddWith(workqueue.AddOptions{Priority: 2}, "b", "a", "c") }, []string{"adds+1", "depth+1", "adds+1", "depth+1"}},
		{func() { clock.Step(time.Second); q.GetWithPriority() }, []string{"depth-1", "latency(1)"}},
		{func() { q.AddWith(workqueue.AddOptions{RateLimited: true, Priority: 1}, "d") }, []string{"adds+1", "depth+1", "retries+1"}},
		{func() { q.AddWith(workqueue.AddOptions{After: time.Hour, Priority: 1}, "e") }, []string{"retries+1"}},
	} {
		p.take()
		row.f()
		got := p.take()
		slices.Sort(got)
		slices.Sort(row.want)
		if !slices.Equal(got, row.want) {
			t.Errorf("step %d: the metrics were told %q, want %q", i, got, row.want)
		}
	}
}

// A worker that is parked in GetWithPriority is woken by AddWith, with one item and with
// several, and told the priority, and of the shutdown.
func TestGetWithPriorityWaits(t *testing.T) {
	for _, metrics := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			config := workqueue.TypedQueueConfig[string]{Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{})}
			if metrics {
				config.Name, config.MetricsProvider = "q", &recorder{}
			}
			q := workqueue.NewTypedWithConfig(config)
			type handOut struct {
				item     string
				priority int
				shutdown bool
			}
			var got []handOut
			go func() {
				for {
					item, priority, shutdown := q.GetWithPriority()
					got = append(got, handOut{item, priority, shutdown})
					if shutdown {
						return
					}
				}
			}()
			for _, items := range [][]string{{"a"}, {"b", "c"}} {
				synctest.Wait()
				if q.Parked() != 1 {
					t.Fatalf("%d workers are parked", q.Parked())
				}
				q.AddWith(workqueue.AddOptions{Priority: 4}, items...)
				if synctest.Wait(); q.Len() != 0 {
					t.Errorf("metrics %v: nobody has come for %v", metrics, items)
				}
			}
			q.ShutDown()
			synctest.Wait()
			if want := []handOut{{"a", 4, false}, {"b", 4, false}, {"c", 4, false}, {"", 0, true}}; !slices.Equal(got, want) {
				t.Errorf("metrics %v: got %v, want %v", metrics, got, want)
			}
		})
	}
}

// What GetWithPriority hands out says that the queue is not shut down, and leaves the lock.
func TestGetWithPriorityOfAnItemThatIsThere(t *testing.T) {
	q := newPrioritized(workqueue.PriorityOptions[int]{})
	addAt(q, 1, 1)
	item, priority, shutdown := q.GetWithPriority()
	if item != 1 || priority != 1 || shutdown || q.Locked() {
		t.Errorf("got %d, %d, %v, and locked is %v", item, priority, shutdown, q.Locked())
	}
	q.Done(1)
	q.ShutDown()
	if _, _, shutdown := q.GetWithPriority(); !shutdown || q.Locked() {
		t.Errorf("got %v after the shutdown, and locked is %v", shutdown, q.Locked())
	}
}

// A Typed has no limiter, and no order needs a priority of 0.
func TestAddWithOfATyped(t *testing.T) {
	q := workqueue.NewTyped[int]()
	defer q.ShutDown()
	const want = "workqueue: AddWith of *workqueue.Typed[int] with {After:0s RateLimited:true Priority:0}: it has no delays and no limiter"
	if got := goes(func() { q.AddWith(workqueue.AddOptions{RateLimited: true}, 1) }); got != want || q.Len() != 0 {
		t.Errorf("got the panic %v with %d items, want %s", got, q.Len(), want)
	}
	if q.AddWith(workqueue.AddOptions{}, 1, 2); q.Len() != 2 {
		t.Errorf("%d items are queued, want 2", q.Len())
	}
}

// The least priority needs an order too, on each layer, before anything is added.
func TestLeastPriorityNeedsAnOrder(t *testing.T) {
	const want = "workqueue: AddWith with priority 1: the order of the queue knows no priorities, see NewPriorityQueue"
	q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[int](), workqueue.TypedRateLimitingQueueConfig[int]{})
	defer q.ShutDown()
	for _, options := range []workqueue.AddOptions{{Priority: 1}, {Priority: 1, After: time.Hour}, {Priority: 1, RateLimited: true}} {
		if got := goes(func() { q.AddWith(options, 1) }); got != want {
			t.Errorf("%+v: got the panic %v, want %s", options, got, want)
		}
	}
	if s := q.Snapshot(1); s.QueuedTotal+s.WaitingTotal != 0 {
		t.Errorf("got %+v", s)
	}
}

// A priority that is named takes the place of that of Of also for an item that waits.
func TestNamedPriorityOfAnItemThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
			Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{Of: func(string) int { return 9 }}),
		})
		q.AddWith(workqueue.AddOptions{Priority: 3, After: time.Second}, "a")
		if got := q.Snapshot(1).Waiting[0].Priority; got != 3 {
			t.Errorf("a waits with the priority %d, want 3", got)
		}
		time.Sleep(2 * time.Second)
		if item, priority, _ := q.GetWithPriority(); item != "a" || priority != 3 {
			t.Errorf("got %s with the priority %d, want a with 3", item, priority)
		}
		q.Done("a")
		q.ShutDown()
	})
}

// What is handed out with its priority may show that there is more, and a worker that
// sleeps is woken for that.
func TestGetWithPriorityWakesAWorkerForMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapped(1)
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: c})
		q.AddAll(0, 3, 6)
		q.Get()
		got := -1
		go func() { got, _ = q.Get() }()
		synctest.Wait()
		c.most = 3 // The queue is not told.
		if item, _, _ := q.GetWithPriority(); item != 3 {
			t.Errorf("got %d, want 3", item)
		}
		if synctest.Wait(); got != 6 {
			t.Errorf("the worker got %d, want 6", got)
		}
		q.ShutDown()
	})
}
