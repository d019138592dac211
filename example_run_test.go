package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue"
)

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
	workqueue.Run(context.Background(), queue, rollOut, workqueue.RunOptions[string]{CancelOnReAdd: true})
	// Output:
	// rolling out version 1
	// stopped: workqueue: item was added again
	// rolling out version 2
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
		OnStop: func(left workqueue.Snapshot[string]) { fmt.Println("never handled:", left.Queued[0].Item) },
	})
	fmt.Println(err)
	// Output:
	// never handled: b
	// <nil>
}

// With Drain, what is queued or waits for a retry is worked off within Grace.
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
		Drain: true, Grace: 20 * time.Second, Logger: &quiet,
	})
	fmt.Println(err, errors.Is(err, workqueue.ErrNotDrained))
	// Output:
	// attempt 1
	// attempt 2
	// attempt 3
	// <nil> false
}
