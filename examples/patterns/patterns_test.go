// Package patterns_test has short programs for uses of a queue that are easy to get wrong.
package patterns_test

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

func newQueue() *workqueue.TypedRateLimiting[string] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second)
	return workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{})
}

// Two queues that call one service share the budget of that service for retries. Each queue
// has a backoff of its own, and the greater of the two waits counts.
func Example_oneBudgetForTwoQueues() {
	budget := &workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(rate.Every(time.Hour), 1)}
	open := func() *workqueue.TypedRateLimiting[string] {
		backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second)
		return workqueue.NewTypedRateLimiting(
			workqueue.NewTypedMaxOfRateLimiter(backoff, budget), workqueue.TypedRateLimitingQueueConfig[string]{})
	}
	pods, nodes := open(), open()
	defer pods.ShutDown()
	defer nodes.ShutDown()

	pods.AddRateLimited("pod")   // takes the only token of this hour
	nodes.AddRateLimited("node") // waits for the next token
	due := nodes.Snapshot(1).Waiting[0].Due
	fmt.Println("the node waits for", time.Until(due).Round(time.Minute))
	// Output: the node waits for 1h0m0s
}

// A traced queue sees each hand-out and each Done. Run takes a type that embeds our queue,
// and calls its GetInfo and Done; a retry goes to the embedded queue.
type traced struct {
	*workqueue.TypedRateLimiting[string]
}

func (q traced) GetInfo(ctx context.Context) (workqueue.ItemInfo[string], error) {
	info, err := q.TypedRateLimiting.GetInfo(ctx)
	if err == nil {
		fmt.Println("get", info.Item)
	}
	return info, err
}

func (q traced) Done(item string) {
	fmt.Println("done", item)
	q.TypedRateLimiting.Done(item)
}

func Example_decorator() {
	queue := traced{newQueue()}
	queue.Add("a")
	ctx, stop := context.WithCancel(context.Background())
	workqueue.Run(ctx, queue, func(context.Context, string) error {
		stop()
		return nil
	}, workqueue.RunOptions[string]{})
	// Output:
	// get a
	// done a
}
