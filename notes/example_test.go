package notes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/notes"
)

// A handler learns of all reasons for which its key was added. A failure keeps the reasons for the
// retry.
func Example() {
	queue := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[string]{})
	reasons := notes.New[string](lastThree)
	enqueue := func(key, reason string) bool {
		return reasons.Put(key, []string{reason}, func() bool {
			return queue.AddWith(workqueue.AddOptions{}, key) > 0
		})
	}
	enqueue("web", "created")
	enqueue("web", "secret changed")

	ctx, stop := context.WithCancel(context.Background())
	attempts := 0
	handle := func(ctx context.Context, key string) error {
		why, _ := reasons.Take(key)
		attempts++
		fmt.Printf("attempt %d of %s: %q\n", attempts, key, why)
		if attempts == 1 {
			enqueue("web", "scaled") // While the worker holds the key.
			return errors.New("not reachable")
		}
		reasons.Forget(key)
		stop()
		return nil
	}
	err := workqueue.Run(ctx, queue, handle, workqueue.RunOptions[string]{})
	fmt.Println(err, reasons.Len())
	// Output:
	// attempt 1 of web: ["created" "secret changed"]
	// attempt 2 of web: ["created" "secret changed" "scaled"]
	// <nil> 0
}

// lastThree joins reasons, and bounds how many a key can have.
func lastThree(older, newer []string) []string {
	all := slices.Concat(older, newer)
	return all[max(0, len(all)-3):]
}

// Each way by which a key leaves the queue drops its note, and no other note.
func Example_ends() {
	queue := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[string]{})
	reasons := notes.New[string](lastThree)
	enqueue := func(key, reason string) bool {
		return reasons.Put(key, []string{reason}, func() bool {
			return queue.AddWith(workqueue.AddOptions{}, key) > 0
		})
	}
	for _, key := range []string{"bad", "deleted", "left"} {
		enqueue(key, "created")
	}
	reasons.Remove("deleted", func() bool { return queue.Remove("deleted") })

	ctx, stop := context.WithCancel(context.Background())
	workqueue.Run(ctx, queue, func(ctx context.Context, key string) error {
		reasons.Take(key)
		stop()
		return workqueue.Permanent(errors.New("no such image"))
	}, workqueue.RunOptions[string]{
		OnGiveUp: func(_ context.Context, key string, err error) {
			why, _ := reasons.Forget(key)
			fmt.Println("given up:", key, why, err)
		},
		OnStop: func(_ context.Context, left workqueue.Snapshot[string]) {
			for _, info := range slices.Concat(left.Queued, left.Waiting, left.Failed) {
				reasons.Take(info.Item)
				why, _ := reasons.Forget(info.Item)
				fmt.Println("left:", info.Item, why) // A real program stores both.
			}
		},
	})
	fmt.Println("added after the end:", enqueue("late", "created"))
	fmt.Println("notes:", reasons.Len())
	// Output:
	// given up: bad [created] no such image
	// left: left [created]
	// added after the end: false
	// notes: 0
}
