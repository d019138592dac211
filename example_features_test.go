package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

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
		for _, info := range left.Queued {
			fmt.Println("left in the queue:", info.Item)
		}
	}
	// Output:
	// workqueue: drain left 1 queued, 1 in flight (stuck for 7s), 0 waiting: context deadline exceeded
	// left in the queue: not begun
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
	// stuck: in flight for 30s
	// next: queued for 30s
	// last: queued for 30s
	// failing: waiting for 30s, due 2026-01-01T00:01:00Z, 1 failures
}
