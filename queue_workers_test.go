package workqueue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// A clock that blocks in one worker, which was woken, does not keep the others
// from what is queued.
func TestClockThatBlocksForAWokenWorker(t *testing.T) {
	for name, storage := range map[string]workqueue.Queue[string]{"line": nil, "storage": workqueue.DefaultQueue[string]()} {
		synctest.Test(t, func(t *testing.T) {
			clock := newHookedClock()
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{KeepTimes: true, Clock: clock, Queue: storage})
			var got atomic.Int64
			for range 3 {
				go func() {
					for _, shutdown := q.Get(); !shutdown; _, shutdown = q.Get() {
						got.Add(1)
					}
				}()
			}
			synctest.Wait()
			hold := make(chan struct{})
			var readings atomic.Int64
			clock.onRead = func() {
				if readings.Add(1) == 2 { // The first is that of Add.
					<-hold
				}
			}
			for n, item := range []string{"a", "b", "c"} {
				q.Add(item)
				synctest.Wait()
				if got.Load() != int64(n+1) {
					t.Errorf("%s: %d of %d items are handed out beside a clock that blocks", name, got.Load(), n+1)
				}
				checkInvariants(t, n, q)
			}
			close(hold)
			synctest.Wait()
			if n := q.Parked(); n != 3 || got.Load() != 3 {
				t.Errorf("%s: %d workers wait and have got %d items, want 3 and 3", name, n, got.Load())
			}
			checkQuiet(t, 3, q)
			q.ShutDown()
		})
	}
}

func TestGetWaits(t *testing.T) {
	for name, steps := range map[string][]step{
		"one worker is woken by each Add": {
			{"w1: get", "blocks"}, {"w2: get", "blocks"}, {"w3: get", "blocks"},
			{"add a", ""}, {"add b", ""}, {"len", "0"}, {"add c", ""},
		},
		"a duplicate wakes nobody": {
			{"add a", ""}, {"get", "a"}, {"w: get", "blocks"}, {"add a", ""}, {"w: returns", "blocks"},
		},
		"Done of a re-added item wakes, although who calls it never gets": {
			{"add a", ""}, {"get", "a"}, {"w: get", "blocks"}, {"add a", ""}, {"w: returns", "blocks"},
			{"done a", ""}, {"w: returns", "a"},
		},
		"AddAll wakes as many as it has items for": {
			{"w1: get", "blocks"}, {"w2: get", "blocks"}, {"w3: get", "blocks"},
			{"addall a b c d", ""}, {"len", "1"}, {"get", "d"},
		},
		"a worker that was woken waits again": {
			{"w: get", "blocks"}, {"add a", ""}, {"w: returns", "a"}, {"w: get", "blocks"},
			{"add b", ""}, {"w: returns", "b"}, {"done b", ""}, {"w: get", "blocks"},
			{"add b", ""}, {"w: returns", "b"},
		},
		"a shutdown wakes all": {
			{"w1: get", "blocks"}, {"w2: get", "blocks"}, {"w3: getcontext", "blocks"}, {"shutdown", ""},
			{"w1: returns", "shutdown "}, {"w2: returns", "shutdown "},
			{"w3: returns", "workqueue: queue is shut down "},
		},
		"a drain wakes all": {
			{"w1: get", "blocks"}, {"w2: get", "blocks"}, {"drain", ""},
			{"w1: returns", "shutdown "}, {"w2: returns", "shutdown "},
		},
	} {
		t.Run(name, func(t *testing.T) { onEach(t, steps) })
	}
}

// Which of the parked workers an Add wakes is not promised, so the table above
// cannot tell that it was one.
func TestEachAddReleasesOneGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		q := workqueue.NewTyped[int]()
		var got atomic.Int64
		for range n {
			go func() {
				if _, shutdown := q.Get(); !shutdown {
					got.Add(1)
				}
			}()
		}
		synctest.Wait()
		for i := range n / 2 {
			q.Add(i)
			synctest.Wait()
			if got.Load() != int64(i+1) {
				t.Fatalf("after Add %d: %d workers have returned, want %d", i, got.Load(), i+1)
			}
			checkInvariants(t, i, q)
		}
		// The other half is released by one critical section: each worker on
		// its way wakes the next.
		rest := make([]int, n/2)
		for i := range rest {
			rest[i] = n + i
		}
		q.AddAll(rest...)
		synctest.Wait()
		if got.Load() != n || q.Parked() != 0 {
			t.Errorf("after AddAll: %d workers have returned and %d wait, want %d and 0", got.Load(), q.Parked(), n)
		}
		checkInvariants(t, n, q)
	})
}

// A worker on its way to the last item meets the shutdown that came after it
// was woken: it must pass the news on to those that still wait.
func TestShutDownBehindAWokenWorkerReleasesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newHookedClock()
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
			Name: "q", MetricsProvider: &recorder{}, Clock: clock,
		})
		results := make(chan string, 3)
		for range 3 {
			go func() {
				item, _ := q.Get()
				results <- item
			}()
		}
		synctest.Wait()

		hold := make(chan struct{})
		var readings atomic.Int64
		clock.onRead = func() {
			if readings.Add(1) == 2 { // The first is that of Add.
				<-hold
			}
		}
		q.Add("a")
		synctest.Wait()
		q.ShutDown()
		close(hold)
		synctest.Wait()
		if n := q.Parked(); n != 0 {
			t.Errorf("%d workers wait in a queue that is shut down and empty", n)
		}
		if err := q.CheckInvariants(); err != nil {
			t.Error(err)
		}
		q.Add("b") // Ignored.
		for range q.Parked() {
			q.Get() // Releases the next one, or the bubble would hang.
		}
	})
}

func TestGetContext(t *testing.T) {
	for name, steps := range map[string][]step{
		"an item": {
			{"add a", ""}, {"getcontext", "a"}, {"w: getcontext", "blocks"}, {"add b", ""}, {"w: returns", "b"},
		},
		"canceled while it waits": {
			{"w: getcontext", "blocks"}, {"w: cancel", "context canceled "},
			{"add a", ""}, {"len", "1"}, {"get", "a"},
		},
		"one of two canceled, the other gets the item": {
			{"w1: getcontext", "blocks"}, {"w2: get", "blocks"}, {"w1: cancel", "context canceled "},
			{"add a", ""}, {"w2: returns", "a"},
		},
		"canceled after it has returned": {
			{"w: getcontext", "blocks"}, {"add a", ""}, {"w: cancel", "a"}, {"done a", ""}, {"drain", ""},
		},
		"shut down": {
			{"w: getcontext", "blocks"}, {"add a", ""}, {"add b", ""}, {"shutdown", ""}, {"w: returns", "a"},
			{"getcontext", "b"}, {"getcontext", "workqueue: queue is shut down "},
		},
	} {
		t.Run(name, func(t *testing.T) { onEach(t, steps) })
	}
}

func TestGetContextThatHasEnded(t *testing.T) {
	q := workqueue.NewTyped[string]()
	q.Add("a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if item, err := q.GetContext(ctx); item != "" || err != context.Canceled {
		t.Errorf("got %q, %v, want no item, %v", item, err, context.Canceled)
	}
	if q.Len() != 1 {
		t.Errorf("got %d items left, want 1", q.Len())
	}
}

func TestGetContextWithDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTyped[string]()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		if item, err := q.GetContext(ctx); item != "" || err != context.DeadlineExceeded {
			t.Errorf("got %q, %v, want no item, %v", item, err, context.DeadlineExceeded)
		}
		if waited := time.Since(start); waited != time.Hour {
			t.Errorf("returned after %v, want 1h", waited)
		}
		if n := q.Parked(); n != 0 {
			t.Errorf("%d workers wait", n)
		}
	})
}

// An Add and a cancellation at the same instant, in whatever order the
// scheduler picks: the item reaches the worker, or the one that waits beside
// it, or stays. And a worker that comes later is woken as if nothing had been.
func TestGetContextCanceledAtTheInstantOfAnAdd(t *testing.T) {
	t.Parallel()
	outcomes := map[string]int{}
	for round := range 2000 {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTyped[string]()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var got atomic.Int64
			get := func(ctx context.Context) {
				if _, err := q.GetContext(ctx); err == nil {
					got.Add(1)
				}
			}
			go get(ctx)
			patient := round%2 == 0
			if patient {
				go get(t.Context())
			}
			synctest.Wait()
			addAndCancel(round, func() { q.AddAll("a", "a") }, cancel)
			checkInvariants(t, round, q)
			checkQuiet(t, round, q)
			left := q.Len()
			if int(got.Load())+left != 1 || patient && left != 0 {
				t.Fatalf("round %d: %d workers got the item and %d are left", round, got.Load(), left)
			}
			outcomes[fmt.Sprint("left ", left)]++
			takeAll(q)
			go get(t.Context())
			synctest.Wait()
			q.Add("b")
			synctest.Wait()
			if q.Len() != 0 {
				t.Fatalf("round %d: the next worker was not woken", round)
			}
			q.ShutDown()
		})
	}
	if len(outcomes) != 2 {
		t.Errorf("only one of two outcomes came up: %v", outcomes)
	}
}

// addAndCancel does both at once, in one of the orders that there are.
func addAndCancel(round int, add, cancel func()) {
	switch round / 2 % 4 {
	case 0: // What is started last tends to run first.
		go cancel()
		go add()
	case 1:
		go add()
		go cancel()
	case 2: // Both have happened before the worker runs, unless on another CPU.
		cancel()
		add()
	default:
		add()
		cancel()
	}
	synctest.Wait()
}
