package workqueue_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// Many cheap keys, such as the objects of a cluster: short waits to begin
// with, jitter to keep keys that fail together from staying together, and a
// bucket for what the other side can take. Keys that disappear while they fail
// expire.
func Example_manyCheapKeys() {
	backoff := workqueue.NewTypedItemBackoffRateLimiter[string](workqueue.Backoff{
		Duration: 5 * time.Millisecond, Factor: 2, Jitter: 1, Cap: 2 * time.Minute,
	})
	bucket := workqueue.NewTypedKeyBucketRateLimiter[string](200, 200)
	limiter := workqueue.NewTypedExpiringRateLimiter(
		workqueue.NewTypedMaxOfRateLimiter[string](backoff, bucket), 10*time.Minute)
	queue := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{})
	defer queue.ShutDown()

	for key := range 10_200 {
		queue.AddRateLimited(fmt.Sprint("key-", key))
	}
	last := limiter.When("key-10199") // Reported again: that costs nothing.
	fmt.Println("the last of 10,200 keys that fail at once waits", last.Round(10*time.Second))

	bucket.SetLimit(1000) // The other side has grown; the queue need not know.
	next := limiter.When("one more")
	fmt.Println("one more waits", next.Round(10*time.Second))
	// Output:
	// the last of 10,200 keys that fail at once waits 50s
	// one more waits 10s
}

// A few expensive keys, such as machines to be started: long waits from the
// first failure, little jitter as there are few to be taken apart, and no
// bucket, since no number of other keys makes one of them less urgent.
func Example_fewExpensiveKeys() {
	limiter := workqueue.NewTypedItemBackoffRateLimiter[string](workqueue.Backoff{
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

// A server that says when to come back knows better than any limiter: its time
// goes to AddAfter. The limiter is not asked, so that the failure does not
// count, and what it knows of the key stays.
func Example_retryAfter() {
	limiter := workqueue.NewTypedItemBackoffRateLimiter[string](workqueue.Backoff{
		Duration: time.Millisecond, Factor: 2, Jitter: 0.5, Cap: time.Minute,
	})
	queue := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{})
	answers := []error{errors.New("internal error"), tooManyRequests{after: 20 * time.Millisecond}, nil}
	call := func(string) error {
		answer := answers[0]
		answers = answers[1:]
		return answer
	}

	queue.Add("key")
	for !queue.ShuttingDown() {
		key, _ := queue.Get()
		err := call(key)
		var busy tooManyRequests
		switch {
		case errors.As(err, &busy):
			queue.AddAfter(key, busy.after)
			fmt.Println(err, "- failures that count:", queue.NumRequeues(key))
		case err != nil:
			queue.AddRateLimited(key)
			fmt.Println(err, "- failures that count:", queue.NumRequeues(key))
		default:
			queue.Forget(key)
			fmt.Println("done - failures that count:", queue.NumRequeues(key))
			queue.ShutDown()
		}
		queue.Done(key)
	}
	// Output:
	// internal error - failures that count: 1
	// too many requests, retry after 20ms - failures that count: 1
	// done - failures that count: 0
}

type tooManyRequests struct{ after time.Duration }

func (e tooManyRequests) Error() string {
	return fmt.Sprint("too many requests, retry after ", e.after)
}
