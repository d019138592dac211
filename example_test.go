package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/wait"
	"github.com/seed16c08ea7/workqueue/workqueuetest"
)

// The loop of the package comment, with its declarations around it. Keep the
// two the same.
func Example_worker() {
	queue := workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second),
		workqueue.TypedRateLimitingQueueConfig[string]{})
	attempts := map[string]int{}
	sync := func(key string) error {
		attempts[key]++
		if key == "b" && attempts[key] < 3 {
			return errors.New("not yet")
		}
		fmt.Println(key, "at attempt", attempts[key])
		if key == "b" {
			queue.ShutDown()
		}
		return nil
	}

	queue.Add("a")
	queue.Add("b")
	queue.Add("a") // A duplicate.

	for {
		key, shutdown := queue.Get()
		if shutdown {
			return
		}
		if err := sync(key); err != nil {
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
	// Output:
	// a at attempt 1
	// b at attempt 3
}

// An item that is added while a worker holds it is handed out again, but not
// before the worker is done with it.
func ExampleTyped_Done() {
	queue := workqueue.NewTyped[string]()
	queue.Add("key")
	key, _ := queue.Get()

	queue.Add("key")
	fmt.Println("while held:", queue.Len())
	queue.Done(key)
	fmt.Println("once done:", queue.Len())
	// Output:
	// while held: 0
	// once done: 1
}

// A drain waits for what is queued and for what workers hold.
func ExampleTyped_ShutDownWithDrain() {
	queue := workqueue.NewTyped[int]()
	queue.AddAll(1, 2, 3)

	var workers sync.WaitGroup
	workers.Go(func() {
		for {
			item, shutdown := queue.Get()
			if shutdown {
				return
			}
			fmt.Println("done", item)
			queue.Done(item)
		}
	})

	queue.ShutDownWithDrain()
	fmt.Println("drained")
	queue.Add(4) // Ignored.
	workers.Wait()
	// Output:
	// done 1
	// done 2
	// done 3
	// drained
}

// A worker that ends with a context, without a shutdown of the queue that
// others may still use.
func ExampleTyped_GetContext() {
	queue := workqueue.NewTyped[string]()
	queue.Add("a")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		item, err := queue.GetContext(ctx)
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println("working on", item)
		queue.Done(item)
		cancel()
	}
	queue.ShutDown()
	_, err := queue.GetContext(context.Background())
	fmt.Println(err)
	// Output:
	// working on a
	// context canceled
	// workqueue: queue is shut down
}

// A worker that has other things to do when nothing is queued.
func ExampleTyped_TryGet() {
	queue := workqueue.NewTyped[string]()
	queue.AddAll("a", "b")
	for item, ok := queue.TryGet(); ok; item, ok = queue.TryGet() {
		fmt.Println("working on", item)
		queue.Done(item)
	}
	fmt.Println("nothing queued")
	// Output:
	// working on a
	// working on b
	// nothing queued
}

// All keys of a list are added in one go.
func ExampleTyped_AddAll() {
	queue := workqueue.NewTyped[string]()
	queue.AddAll("a", "b", "a", "c")
	fmt.Println(queue.Len())
	// Output:
	// 3
}

// The event of b raises b above a. AddWith says how many items the queue took, and GetInfo
// which priority an item has.
func ExampleTyped_AddWith() {
	queue := workqueue.NewTyped[string]()
	urgent := 10

	queue.AddAll("a", "b")
	fmt.Println(queue.AddWith(workqueue.AddOptions{Priority: &urgent}, "b"), "taken")
	info, _ := queue.GetInfo(context.Background())
	fmt.Println(info.Item, info.Priority)
	queue.Done(info.Item)

	queue.ShutDown()
	fmt.Println(queue.AddWith(workqueue.AddOptions{Priority: &urgent}, "c"), "taken")
	// Output:
	// 1 taken
	// b 10
	// 0 taken
}

// Two tenants take turns, however much one of them adds, and never have more than one item in flight
// each.
func ExampleOrder() {
	tenant := func(key string) string { name, _, _ := strings.Cut(key, "/"); return name }
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Order: workqueue.Order[string]{Group: tenant, MaxInFlight: func(string) int { return 1 }},
	})
	queue.AddAll("flood/1", "flood/2", "flood/3", "quiet/1", "quiet/2")
	for range 2 {
		first, _ := queue.TryGet()
		second, _ := queue.TryGet()
		_, more := queue.TryGet()
		fmt.Println(first, second, more)
		queue.Done(first)
		queue.Done(second)
	}
	// Output:
	// flood/1 quiet/1 false
	// flood/2 quiet/2 false
}

// Some tenants pay: they have more hand-outs in a turn, and more workers. Who pays is known from data of the
// program, and not from the request.
func ExampleOrder_weight() {
	type job struct{ Tenant, ID string }
	pays := func(tenant string, most, others int) int {
		if tenant == "acme" {
			return most
		}
		return others
	}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[job]{Order: workqueue.Order[job]{
		Group:       func(j job) string { return j.Tenant },
		GroupsFirst: true, // A priority counts among the jobs of its tenant.
		Weight:      func(tenant string) int { return pays(tenant, 3, 1) },
		MaxInFlight: func(tenant string) int { return pays(tenant, 6, 2) }, // Of 8 workers.
	}})
	for i := range 4 {
		q.AddAll(job{"free", fmt.Sprint(i)}, job{"acme", fmt.Sprint(i)})
	}
	for range 8 {
		j, _ := q.Get()
		fmt.Print(j.Tenant, " ")
		q.Done(j)
	}
	// Output: free acme acme acme free acme free free
}

// At most one hand-out a second, after a burst of two. An item that has no token is queued.
func ExampleTypedQueueConfig_pace() {
	clock := testingclock.NewFakeClock(time.Now())
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Pace:  rate.NewLimiter(rate.Every(time.Second), 2),
		Clock: clock,
	})
	queue.AddAll("a", "b", "c")
	for range 3 {
		item, found := queue.TryGet()
		fmt.Printf("%q %v\n", item, found)
	}
	clock.Step(time.Second)
	item, found := queue.TryGet()
	fmt.Printf("%q %v\n", item, found)
	// Output:
	// "a" true
	// "b" true
	// "" false
	// "c" true
}

// A program that ends gives its workers some time, and then says what it
// leaves behind.
func ExampleTyped_Drain() {
	clock := testingclock.NewFakeClock(time.Now()) // For an output that is always the same.
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Clock:     clock,
		KeepTimes: true,
	})
	queue.AddAll("stuck", "not begun")
	queue.Get()
	clock.Step(7 * time.Second)

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	err := queue.Drain(ctx)
	fmt.Println(err)

	var left *workqueue.DrainError[string]
	if errors.As(err, &left) {
		for _, info := range left.Left.Queued {
			fmt.Println("left in the queue:", info.Item)
		}
	}
	// Output:
	// workqueue: drain left 1 queued, 1 in flight (stuck for 7s), 0 waiting: context deadline exceeded
	// left in the queue: not begun
}

// A namespace is deleted with all of its keys. A worker keeps the key that the worker holds.
func ExampleTyped_RemoveFunc() {
	queue := workqueue.NewTyped[string]()
	defer queue.ShutDown()
	queue.AddAll("shop/web", "bank/api", "shop/db")
	queue.Get() // A worker holds shop/web.
	removed := queue.RemoveFunc(func(key string) bool { return strings.HasPrefix(key, "shop/") })
	fmt.Println(removed, "removed,", queue.Len(), "left")
	// Output:
	// 2 removed, 1 left
}

// A hand-out with what the queue knows about the item.
func ExampleTyped_GetInfo() {
	clock := testingclock.NewFakeClock(time.Now())
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Clock: clock, KeepTimes: true})
	defer queue.ShutDown()
	urgent := 10
	queue.AddWith(workqueue.AddOptions{Priority: &urgent}, "web")
	clock.Step(3 * time.Second)
	info, err := queue.GetInfo(context.Background())
	fmt.Println(info.Item, "was queued for", info.Age, "with priority", info.Priority, err)
	queue.Done(info.Item)
	// Output:
	// web was queued for 3s with priority 10 <nil>
}

// A program reports ready when each object of the initial list was handled once. Items that
// are added later do not count, so a busy queue does not keep the program waiting.
func ExampleTyped_Barrier() {
	queue := workqueue.NewTyped[string]()
	queue.AddAll("a", "b")
	go func() {
		for {
			item, shutdown := queue.Get()
			if shutdown {
				return
			}
			queue.Add("more work") // The queue is never idle.
			queue.Done(item)
		}
	}()
	fmt.Println("ready:", queue.Barrier(context.Background()) == nil)
	queue.ShutDown()
	// Output:
	// ready: true
}

// An import is complete when no record is queued or held.
func ExampleTyped_WaitIdle() {
	queue := workqueue.NewTyped[string]()
	defer queue.ShutDown()
	queue.AddAll("a", "b", "c")
	var imported atomic.Int32
	for range 2 {
		go func() {
			for {
				record, shutdown := queue.Get()
				if shutdown {
					return
				}
				imported.Add(1)
				queue.Done(record)
			}
		}()
	}
	err := queue.WaitIdle(context.Background())
	fmt.Println(imported.Load(), "imported", err)
	// Output: 3 imported <nil>
}

// WaitIdle does not wait for items that wait for their time. WaitEmpty does.
func ExampleTypedDelaying_WaitEmpty() {
	clock := testingclock.NewFakeClock(time.Now())
	queue := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock})
	defer queue.ShutDown()
	queue.AddAfter("later", time.Minute)
	fmt.Println("idle:", queue.WaitIdle(context.Background()))

	go func() {
		clock.Step(time.Minute)
		item, _ := queue.Get()
		queue.Done(item)
	}()
	fmt.Println("empty:", queue.WaitEmpty(context.Background()))
	// Output:
	// idle: <nil>
	// empty: <nil>
}

// The object of a key is gone before a worker came to it.
func ExampleTypedDelaying_Remove() {
	queue := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
	defer queue.ShutDown()
	queue.Add("queued")
	queue.AddAfter("retried later", time.Hour)
	fmt.Println(queue.Remove("queued"), queue.Remove("retried later"), queue.Remove("unknown"))
	fmt.Println(queue.Snapshot(10))
	// Output:
	// true true false
	// 0 queued, 0 in flight, 0 waiting
}

// The search of a debug page: the queue works on meanwhile, however many items there are.
func ExampleTyped_Items() {
	queue := workqueue.NewTyped[string]()
	defer queue.ShutDown()
	queue.AddAll("default/web", "default/db", "kube-system/dns")
	for info := range queue.Items() {
		if strings.HasPrefix(info.Item, "default/") {
			fmt.Println(info.Item, info.State)
		}
	}
	// Unordered output:
	// default/web queued
	// default/db queued
}

func ExampleTypedDelaying_Stats() {
	queue := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
	defer queue.ShutDown()
	queue.AddAll("a", "b", "c")
	queue.Get()
	queue.AddAfter("d", time.Hour)
	stats := queue.Stats()
	fmt.Println(stats.Depth, "queued,", stats.InFlight, "in flight,", stats.Waiting, "waiting")
	// Output:
	// 2 queued, 1 in flight, 1 waiting
}

// A certificate is to be renewed a week before it expires; a longer one has
// been issued, so that there is more time.
func ExampleTypedDelaying_Reschedule() {
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	queue := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock})
	defer queue.ShutDown()

	queue.AddAfter("certificate", 23*24*time.Hour)
	queue.AddAfter("certificate", 83*24*time.Hour) // The earlier time stays.
	fmt.Println(queue.Snapshot(1).Waiting[0].Due.Format(time.DateOnly))
	queue.Reschedule("certificate", 83*24*time.Hour)
	fmt.Println(queue.Snapshot(1).Waiting[0].Due.Format(time.DateOnly))
	// Output:
	// 2026-01-24
	// 2026-03-25
}

// A handler has written an object, and the cache does not show the write yet. The item waits firmly, so no
// event of an older state brings it to a worker. The event of the write wakes it.
func ExampleDeferFor() {
	queue := workqueue.NewTypedRateLimiting[string](nil, workqueue.TypedRateLimitingQueueConfig[string]{})
	ctx, stop := context.WithCancel(context.Background())
	queue.Add("web")
	written := false
	go func() {
		for {
			if info, _ := queue.Find("web"); info.Why == workqueue.WhyDeferred {
				queue.Add("web") // An event of an older state.
				fmt.Println("wake web")
				queue.Wake("web")
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	workqueue.Run(ctx, queue, func(_ context.Context, key string) error {
		if !written {
			written = true
			fmt.Println("write", key)
			return workqueue.DeferFor(time.Minute)
		}
		fmt.Println("the cache shows the write")
		stop()
		return nil
	}, workqueue.RunOptions[string]{})
	// Output:
	// write web
	// wake web
	// the cache shows the write
}

// A firm wait keeps an item back whatever adds come, until somebody wakes the item.
func ExampleTypedDelaying_Wake() {
	queue := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
	defer queue.ShutDown()
	queue.AddWith(workqueue.AddOptions{After: time.Minute, Firm: true}, "web")
	queue.Add("web")
	fmt.Println("queued:", queue.Len())
	fmt.Println("woken:", queue.Wake("web"))
	fmt.Println("queued:", queue.Len())
	// Output:
	// queued: 0
	// woken: 1
	// queued: 1
}

// Each item is handed out once a second, after a burst of two. An item without a token waits, and slows no
// other item down. An item that has succeeded has no more tokens than one that has failed.
func ExampleTypedDelayingQueueConfig_itemPace() {
	clock := testingclock.NewFakeClock(time.Now())
	queue := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
		ItemPace: workqueue.Rate{Limit: rate.Every(time.Second), Burst: 2},
		Clock:    clock,
	})
	defer queue.ShutDown()
	for range 3 {
		queue.Add("busy")
		if item, found := queue.TryGet(); found {
			fmt.Println(item)
			queue.Done(item)
		}
	}
	queue.Add("calm")
	item, _ := queue.Get()
	fmt.Println(item)
	clock.Step(time.Second)
	item, _ = queue.Get()
	fmt.Println(item)
	// Output:
	// busy
	// busy
	// calm
	// busy
}

// The API server is back: all retries come now, and not after their backoff.
func ExampleTypedDelaying_WakeFunc() {
	queue := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
	defer queue.ShutDown()
	queue.AddAfter("shop/web", time.Hour)
	queue.AddWith(workqueue.AddOptions{After: time.Hour, Firm: true}, "shop/db")
	queue.Add("shop/db") // A firm wait goes on.
	fmt.Println(queue.Len(), "queued")
	woken := queue.WakeFunc(func(string) bool { return true })
	fmt.Println(woken, "woken,", queue.Len(), "queued")
	// Output:
	// 0 queued
	// 2 woken, 2 queued
}

// What the queue knows of one item.
func ExampleTypedDelaying_Find() {
	queue := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
	defer queue.ShutDown()
	queue.AddWith(workqueue.AddOptions{After: time.Hour, Firm: true}, "web")
	info, ok := queue.Find("web")
	fmt.Println(ok, info.State, info.Why, info.Firm)
	_, ok = queue.Find("db")
	fmt.Println(ok)
	// Output:
	// true waiting deferred true
	// false
}

// Events that come in bursts are worked off when a burst is over, but at least
// every ten seconds.
func ExampleTypedDelaying_Debounce() {
	start := time.Now()
	clock := testingclock.NewFakeClock(start)
	queue := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock})
	defer queue.ShutDown()
	for range 4 {
		queue.Debounce("a", 4*time.Second, 10*time.Second)
		fmt.Println("due after", queue.Snapshot(1).Waiting[0].Due.Sub(start))
		clock.Step(3 * time.Second)
	}
	// Output:
	// due after 4s
	// due after 7s
	// due after 10s
	// due after 10s
}

// With OneEntry an event makes the retry that was planned unnecessary.
func ExampleTypedDelayingQueueConfig_addCancelsWaiting() {
	for _, cancels := range []bool{false, true} {
		queue := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{OneEntry: cancels})
		queue.AddAfter("a", time.Hour)
		queue.Add("a")
		s := queue.Snapshot(0)
		fmt.Printf("%d queued, %d waiting\n", s.QueuedTotal, s.WaitingTotal)
		queue.ShutDown()
	}
	// Output:
	// 1 queued, 1 waiting
	// 1 queued, 0 waiting
}

// What a debug endpoint of a controller would print.
func ExampleTypedRateLimiting_Snapshot() {
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	queue := workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Minute, time.Hour),
		workqueue.TypedRateLimitingQueueConfig[string]{Clock: clock, KeepTimes: true})
	defer queue.ShutDown()

	queue.AddAll("stuck", "next", "last")
	queue.Get()
	queue.AddRateLimited("failing")
	clock.Step(30 * time.Second)
	fmt.Println(queue.Snapshot(10))
	// Output:
	// 2 queued, 1 in flight, 1 waiting
	// stuck: in_flight for 30s
	// next: queued for 30s
	// last: queued for 30s
	// failing: waiting for 30s, due 2026-01-01T00:01:00Z, retry, 1 failures
}

// Many cheap keys, such as the objects of a cluster: short waits to begin
// with, jitter to keep keys that fail together from staying together, and a
// pace for what the other side can take. Keys that disappear while they fail
// expire.
func Example_manyCheapKeys() {
	backoff := workqueue.NewTypedItemBackoffRateLimiter[string](wait.Backoff{
		Duration: 5 * time.Millisecond, Factor: 2, Jitter: 1, Cap: 2 * time.Minute,
	})
	limiter := workqueue.NewTypedExpiringRateLimiter(backoff, 10*time.Minute)
	clock := testingclock.NewFakeClock(time.Now())
	queue := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{
		Pace: rate.NewLimiter(200, 500), Clock: clock,
	})
	defer queue.ShutDown()

	for key := range 10_000 {
		queue.Add(fmt.Sprint("key-", key))
	}
	for range 3 {
		handedOut := 0
		for key, ok := queue.TryGet(); ok; key, ok = queue.TryGet() {
			queue.AddRateLimited(key) // It has failed.
			queue.Done(key)
			handedOut++
		}
		fmt.Println(handedOut, "keys are handed out")
		clock.Step(time.Second)
	}
	// Output:
	// 500 keys are handed out
	// 200 keys are handed out
	// 200 keys are handed out
}

// A few expensive keys, such as machines to be started: long waits from the
// first failure, little jitter as there are few to be taken apart, and no
// bucket, since no number of other keys makes one of them less urgent.
func Example_fewExpensiveKeys() {
	limiter := workqueue.NewTypedItemBackoffRateLimiter[string](wait.Backoff{
		Duration: 10 * time.Second, Factor: 3, Jitter: 0.2, Cap: 10 * time.Minute,
	})
	limiter.Rand = func() float64 { return 0.5 } // To see the same each time.

	for range 6 {
		fmt.Println(limiter.When("machine-1"))
	}
	fmt.Println("another machine:", limiter.When("machine-2"))
	fmt.Println(limiter)
	// Output:
	// 11s
	// 33s
	// 1m39s
	// 4m57s
	// 9m10s
	// 9m10s
	// another machine: 11s
	// item backoff (10s * 3^n, jitter 0.2, at most 10m0s; 2 items)
}

// A server fails and says when to come back. The failure counts, and the item comes again after the time of
// the server or that of the limiter, whichever is later: many answers that ask for a second are still a
// backoff, and use up no MaxAttempts within a minute.
func Example_retryAfter() {
	limiter := workqueue.NewTypedItemBackoffRateLimiter[string](wait.Backoff{Duration: 10 * time.Millisecond, Factor: 10})
	queue := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{})
	busy := []bool{true, true, false}
	call := func() (retryAfter time.Duration, err error) {
		if busy[0] {
			retryAfter, err = 20*time.Millisecond, errors.New("503 Service Unavailable")
		}
		busy = busy[1:]
		return retryAfter, err
	}

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	queue.Add("key")
	workqueue.Run(ctx, queue, func(_ context.Context, key string) error {
		if retryAfter, err := call(); err != nil {
			return errors.Join(err, workqueue.DeferFor(retryAfter))
		}
		return nil
	}, workqueue.RunOptions[string]{
		MaxAttempts: 30,
		OnResult: func(_ context.Context, key string, r workqueue.HandlerResult) {
			fmt.Println(r.Outcome, "- failures:", r.Failures, "- comes again after", r.After)
			if r.Outcome == workqueue.OutcomeSucceeded {
				stop()
			}
		},
	})
	// Output:
	// failed - failures: 1 - comes again after 20ms
	// failed - failures: 2 - comes again after 100ms
	// succeeded - failures: 0 - comes again after 0s
}

// Waits double until they are drawn from the time between half a minute and a
// minute, so that keys which fail together do not come back together.
func ExampleNewTypedItemBackoffRateLimiter() {
	limiter := workqueue.NewTypedItemBackoffRateLimiter[string](wait.Backoff{
		Duration: 10 * time.Second, Factor: 2, Cap: time.Minute, Jitter: 1,
	})
	limiter.Rand = func() float64 { return 0.5 } // For an output that is always the same.
	for range 5 {
		fmt.Println(limiter.When("a"))
	}
	limiter.Forget("a")
	fmt.Println("after a success:", limiter.When("a"))
	// Output:
	// 15s
	// 30s
	// 45s
	// 45s
	// 45s
	// after a success: 15s
}

// Each key is handed out once a minute at most. Two events within the minute are one hand-out.
func ExampleRate() {
	clock := testingclock.NewFakeClock(time.Now())
	queue := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
		Clock:    clock,
		ItemPace: workqueue.Rate{Limit: rate.Every(time.Minute)},
	})
	defer queue.ShutDown()
	queue.Add("web")
	item, _ := queue.Get()
	queue.Done(item)
	queue.Add("web")
	queue.Add("web")
	fmt.Println(queue.Snapshot(0))
	// Output:
	// 0 queued, 0 in flight, 1 waiting
}

// Nobody calls Forget for keys whose object is gone.
func ExampleNewTypedExpiringRateLimiter() {
	limiter := workqueue.NewTypedExpiringRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute), time.Hour)
	fmt.Println(limiter.When("gone"), limiter.When("gone"))
	fmt.Println(limiter)
	// Output:
	// 1s 2s
	// item exponential (1s * 2^n, at most 1m0s; 1 items), expiring when idle for 1h0m0s (1 items)
}

// printMetrics prints the counters and gauges of a registry that are not zero.
func printMetrics(g prometheus.Gatherer) {
	families, err := g.Gather()
	if err != nil {
		fmt.Println(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if v := m.GetGauge().GetValue() + m.GetCounter().GetValue(); v != 0 {
				fmt.Println(strings.TrimPrefix(f.GetName(), "workqueue_"), v)
			}
		}
	}
}

// In main, before the first queue is made. All queues with a Name then have metrics, unless their config
// has a provider. Serve the registry by promhttp.
func ExampleSetProvider() {
	registry := prometheus.NewRegistry()
	workqueue.SetProvider(workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{}))

	queue := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "deployments"})
	defer queue.ShutDown()
}

// The provider is made once and handed to each queue, or to SetProvider. A
// program serves the registry by promhttp.
// A Pace without a burst is a pause.
func ExampleTypedQueueConfig_pause() {
	limiter := rate.NewLimiter(10, 1)
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Pace: limiter})
	queue.Add("web")

	limiter.SetBurst(0)
	_, ok := queue.TryGet()
	fmt.Println("in the pause:", ok, queue.Len())

	limiter.SetBurst(1)
	item, err := queue.GetContext(context.Background())
	fmt.Println("after the pause:", item, err)
	// Output:
	// in the pause: false 1
	// after the pause: web <nil>
}

func ExampleNewPrometheusProvider() {
	registry := prometheus.NewRegistry()
	provider := workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{})

	clock := testingclock.NewFakeClock(time.Now())
	queue := workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "pods", MetricsProvider: provider, Clock: clock},
	)
	queue.Add("web-1")
	queue.Add("web-2")
	queue.Add("web-2")
	queue.AddRateLimited("web-3")
	clock.Step(500 * time.Millisecond)
	queue.Get()
	clock.Step(250 * time.Millisecond)
	printMetrics(registry)

	queue.ShutDown()
	fmt.Println("after the shutdown:")
	printMetrics(registry)
	// Output:
	// adds_total 2
	// depth 1
	// duplicates_total 1
	// in_flight 1
	// longest_running_processor_seconds 0.25
	// oldest_item_age_seconds 0.75
	// rate_limited_total 1
	// retries_total 1
	// unfinished_work_seconds 0.25
	// waiting 1
	// workers 1
	// after the shutdown:
	// abandoned_total 1
	// abandoned_total 1
	// abandoned_total 1
}

// These stand for the metrics provider of another package: what is different
// about it is the types of its metrics.
type (
	otherProvider struct{}
	otherMetric   struct{ name string }
)

func (m *otherMetric) Inc()              { fmt.Println(m.name, "+1") }
func (m *otherMetric) Dec()              { fmt.Println(m.name, "-1") }
func (m *otherMetric) Set(v float64)     { fmt.Println(m.name, "=", v) }
func (m *otherMetric) Observe(v float64) { fmt.Println(m.name, "observed", v) }

func (otherProvider) NewDepthMetric(name string) *otherMetric { return &otherMetric{name + " depth"} }
func (otherProvider) NewAddsMetric(name string) *otherMetric  { return &otherMetric{name + " adds"} }
func (otherProvider) NewRetriesMetric(name string) *otherMetric {
	return &otherMetric{name + " retries"}
}

func (otherProvider) NewLatencyMetric(name string) *otherMetric {
	return &otherMetric{name + " latency"}
}

func (otherProvider) NewWorkDurationMetric(name string) *otherMetric {
	return &otherMetric{name + " work"}
}

func (otherProvider) NewUnfinishedWorkSecondsMetric(name string) *otherMetric {
	return &otherMetric{name + " unfinished"}
}

func (otherProvider) NewLongestRunningProcessorSecondsMetric(name string) *otherMetric {
	return &otherMetric{name + " longest"}
}

// A provider that was written for client-go needs no more than this call.
func ExampleAdaptMetricsProvider() {
	clock := testingclock.NewFakeClock(time.Now())
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name:            "pods",
		MetricsProvider: workqueue.AdaptMetricsProvider(otherProvider{}),
		Clock:           clock,
	})
	queue.Add("web-1")
	clock.Step(2 * time.Second)
	pod, _ := queue.Get()
	queue.Done(pod)
	queue.ShutDown()
	// Output:
	// pods adds +1
	// pods depth +1
	// pods depth -1
	// pods latency observed 2
	// pods work observed 0
}

// Two workers, until the context ends.
func ExampleRun() {
	queue := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "deployments"})
	queue.Add("default/web")

	ctx, stop := context.WithCancel(context.Background())
	sync := func(ctx context.Context, key string) error {
		fmt.Println("synced", key)
		stop() // A controller would have a signal do that.
		return nil
	}
	err := workqueue.Run(ctx, queue, sync, workqueue.RunOptions[string]{Workers: 2, Grace: 20 * time.Second})
	fmt.Println("stopped:", err)
	// Output:
	// synced default/web
	// stopped: <nil>
}

// What a handler returns says when its item comes again.
func ExampleRun_retries() {
	queue := workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second),
		workqueue.TypedRateLimitingQueueConfig[string]{})
	queue.Add("volume")

	attempt := 0
	attach := func(ctx context.Context, volume string) error {
		attempt++
		fmt.Printf("attempt %d after %d failures\n", attempt, queue.NumRequeues(volume))
		switch attempt {
		case 1:
			return errors.New("the server is busy") // Tried again with backoff.
		case 2:
			panic("index out of range") // The same, and logged with its stack.
		case 3:
			return workqueue.RequeueAfter(time.Millisecond) // Nothing to do yet; no failure.
		default:
			return workqueue.Permanent(errors.New("no such node"))
		}
	}
	quiet := logr.FromSlogHandler(slog.DiscardHandler)
	workqueue.Run(context.Background(), queue, attach, workqueue.RunOptions[string]{
		MaxAttempts: 10,
		OnGiveUp: func(_ context.Context, volume string, err error) {
			fmt.Println("gave up", volume, "because of", err)
			queue.ShutDown()
		},
		Logger: &quiet,
	})
	// Output:
	// attempt 1 after 0 failures
	// attempt 2 after 1 failures
	// attempt 3 after 2 failures
	// attempt 4 after 0 failures
	// gave up volume because of no such node
}

// A rollout that takes long is out of date as soon as its object changes.
func ExampleRun_cancelOnReAdd() {
	queue := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{})
	queue.Add("web")

	version := 1
	rollOut := func(ctx context.Context, name string) error {
		fmt.Println("rolling out version", version)
		if version == 1 {
			version++
			queue.Add(name) // The object changes in the midst of it.
			<-ctx.Done()
			fmt.Println("stopped:", context.Cause(ctx))
			return ctx.Err() // No failure: it is handed out again at once.
		}
		queue.ShutDown()
		return nil
	}
	workqueue.Run(context.Background(), queue, rollOut, workqueue.RunOptions[string]{CancelOnReAdd: 3})
	// Output:
	// rolling out version 1
	// stopped: workqueue: item was added again
	// rolling out version 2
}

// A tenant is suspended and resumed: the map of limits has a default for the tenants that it lacks.
func ExampleTyped_LimitsChanged() {
	limits := map[string]int{"free": 2, "suspended": workqueue.HoldBack} // A program guards the map by a lock.
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: workqueue.Order[string]{
		Group: func(key string) string { tenant, _, _ := strings.Cut(key, "/"); return tenant },
		MaxInFlight: func(tenant string) int {
			if limit, ok := limits[tenant]; ok {
				return limit
			}
			return 10
		},
	}})
	queue.AddAll("suspended/build", "new/build")
	item, _ := queue.Get()
	fmt.Println(item, "first;", queue.Len(), "held back")
	queue.Done(item)

	delete(limits, "suspended")
	queue.LimitsChanged()
	item, _ = queue.Get()
	fmt.Println(item)
	queue.Done(item)
	queue.ShutDown()
	// Output:
	// new/build first; 1 held back
	// suspended/build
}

// Profiles name the item that each worker is at: ?debug=1 of the goroutine profile shows the labels.
// Goroutines that the handler starts inherit them.
func ExampleRun_profileLabels() {
	queue := workqueue.NewTypedRateLimiting[string](nil, workqueue.TypedRateLimitingQueueConfig[string]{})
	queue.Add("default/web")
	rollOut := func(ctx context.Context, name string) error {
		item, _ := pprof.Label(ctx, "item")
		fmt.Println("rolling out", name, "with the label", item)
		queue.ShutDown()
		return nil
	}
	labelled := func(ctx context.Context, name string) (err error) {
		pprof.Do(ctx, pprof.Labels("queue", "deployments", "item", name), func(ctx context.Context) { err = rollOut(ctx, name) })
		return err
	}
	workqueue.Run(context.Background(), queue, labelled, workqueue.RunOptions[string]{})
	// Output:
	// rolling out default/web with the label default/web
}

// What is left at the end has a name.
func ExampleRun_onStop() {
	queue := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{})
	queue.Add("a")
	queue.Add("b")

	ctx, stop := context.WithCancel(context.Background())
	handle := func(ctx context.Context, item string) error {
		stop()
		return nil
	}
	err := workqueue.Run(ctx, queue, handle, workqueue.RunOptions[string]{
		OnStop: func(_ context.Context, left workqueue.Snapshot[string]) {
			fmt.Println("never handled:", left.Queued[0].Item)
		},
	})
	fmt.Println(err)
	// Output:
	// never handled: b
	// <nil>
}

// With EndDrain, what is queued or waits for a retry is worked off within Grace.
func ExampleRun_drain() {
	queue := workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second),
		workqueue.TypedRateLimitingQueueConfig[string]{})
	queue.Add("delivery")
	queue.AddAfter("report", time.Hour) // It has not failed, and is not waited for.

	ctx, stop := context.WithCancel(context.Background())
	attempt := 0
	deliver := func(ctx context.Context, item string) error {
		attempt++
		fmt.Println("attempt", attempt)
		stop()
		if attempt < 3 {
			return errors.New("the server is busy")
		}
		return nil
	}
	quiet := logr.FromSlogHandler(slog.DiscardHandler)
	err := workqueue.Run(ctx, queue, deliver, workqueue.RunOptions[string]{
		AtEnd: workqueue.EndDrain, Grace: 20 * time.Second, Logger: &quiet,
	})
	fmt.Println(err, errors.Is(err, workqueue.ErrNotDrained))
	// Output:
	// attempt 1
	// attempt 2
	// attempt 3
	// <nil> false
}

// answer has a handler return an error, and prints the calls of the queue that follow.
func answer(err error) {
	handle := func(context.Context, string) error { return err }
	quiet := logr.Discard()
	fmt.Println(workqueuetest.Handle(context.Background(), handle, "web", workqueue.RunOptions[string]{Logger: &quiet}))
}

// A certificate is valid for another hour. That is no failure.
func ExampleRequeueAfter() {
	answer(workqueue.RequeueAfter(time.Hour))
	// Output: [Get web Forget web AddAfter web 1h0m0s Done web]
}

// The object is not there yet: come again after the time that the limiter says, without a log.
func ExampleRequeue() {
	answer(workqueue.Requeue())
	// Output: [Get web AddRateLimited web Done web]
}

// A server has said when to come again. That is a failure, but the limiter is not asked.
func ExampleRetryAfter() {
	answer(workqueue.RetryAfter(time.Minute, errors.New("429 Too Many Requests")))
	// Output: [Get web AddAfter web 1m0s Done web]
}

// No retry can help.
func ExamplePermanent() {
	answer(workqueue.Permanent(errors.New("404 Not Found")))
	// Output: [Get web Forget web Done web]
}

// A metric for each outcome is there before the first item is handled.
func ExampleOutcomes() {
	for _, outcome := range workqueue.Outcomes() {
		fmt.Print(outcome, " ")
	}
	// Output: succeeded failed requeued given_up readded interrupted removed deferred
}

// A handler asks what the queue knows about its item.
func ExampleItemInfoFromContext() {
	queue := workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second),
		workqueue.TypedRateLimitingQueueConfig[string]{})
	queue.Add("web")
	quiet := logr.Discard()
	workqueue.Run(context.Background(), queue, func(ctx context.Context, item string) error {
		info, _ := workqueue.ItemInfoFromContext[string](ctx)
		fmt.Println(item, "has failed", info.Failures, "times")
		if info.Failures < 2 {
			return errors.New("the server is busy")
		}
		queue.ShutDown()
		return nil
	}, workqueue.RunOptions[string]{Logger: &quiet})
	// Output:
	// web has failed 0 times
	// web has failed 1 times
	// web has failed 2 times
}

// A middleware around a handler acts on what the error asks for.
func ExampleVerdictOf() {
	counted := func(next func(ctx context.Context, item string) error) func(ctx context.Context, item string) error {
		return func(ctx context.Context, item string) error {
			err := next(ctx, item)
			v := workqueue.VerdictOf(err)
			fmt.Println(v.Outcome, v.Timed, v.After)
			return err
		}
	}
	handle := counted(func(_ context.Context, item string) error {
		if item == "young" {
			return workqueue.RequeueAfter(time.Minute)
		}
		return errors.New("the server is busy")
	})
	handle(context.Background(), "young")
	handle(context.Background(), "old")
	// Output:
	// requeued true 1m0s
	// failed false 0s
}

// A provider that reads queues when somebody asks, here for a page of their depths.
type page struct {
	workqueue.NoMetrics
	sources []workqueue.QueueSource
}

func (p *page) NewQueue(source workqueue.QueueSource) workqueue.QueueMetrics {
	p.sources = append(p.sources, source)
	return workqueue.QueueMetrics{}
}

func ExampleStateProvider() {
	provider := &page{}
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name: "pods", MetricsProvider: provider,
	})
	urgent := 10
	queue.AddAll("a", "b", "a")
	queue.AddWith(workqueue.AddOptions{Priority: &urgent}, "c")
	for _, source := range provider.sources {
		stats, ok := source.Read()
		fmt.Println(source.Name, stats.Depth, "queued,", stats.Duplicates, "duplicates", ok)
		for _, part := range stats.ByPriority {
			fmt.Println("priority", part.Key, "has", part.Depth)
		}
	}
	queue.ShutDown()
	// Output:
	// pods 3 queued, 1 duplicates true
	// priority 0 has 2
	// priority 10 has 1
}

// A provider that shows queues of one name as one adds their stats up. Counts are sums, and
// ages are the greatest.
func ExampleQueueStats_Merge() {
	one := workqueue.QueueStats{Depth: 3, OldestItem: time.Second}
	one.Merge(workqueue.QueueStats{Depth: 2, OldestItem: time.Minute})
	fmt.Println(one.Depth, one.OldestItem)
	// Output: 5 1m0s
}

func ExampleQueueStats_PaceLimit() {
	limiter := rate.NewLimiter(10, 1)
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Pace: limiter})
	defer queue.ShutDown()
	stats := queue.Stats()
	fmt.Println(stats.PaceLimit())
	limiter.SetBurst(0) // A pause.
	stats = queue.Stats()
	fmt.Println(stats.PaceLimit())
	// Output:
	// 10 true
	// 0 true
}

func ExampleTypedRateLimiting_CountResult() {
	queue := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{
			Name:            "orders",
			MetricsProvider: workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{}),
		})
	defer queue.ShutDown()
	queue.Add("order-7")
	handle := func(string) error { return errors.New("no stock") }

	item, _ := queue.TryGet() // A worker loop by hand.
	if err := handle(item); err != nil {
		queue.CountResult(workqueue.OutcomeFailed)
		queue.AddRateLimited(item)
	} else {
		queue.CountResult(workqueue.OutcomeSucceeded)
		queue.Forget(item)
	}
	queue.Done(item)
	fmt.Println(queue.Stats().Results[workqueue.OutcomeFailed])
	// Output: 1
}
