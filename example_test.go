package workqueue_test

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed16c08ea7/workqueue"
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
