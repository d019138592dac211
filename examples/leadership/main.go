// Command leadership handles items only while the program leads. The queue stays open between
// two terms, and a term that ends in the middle of the work counts as no failure:
//
//	go run ./leadership
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "leadership:", err)
		os.Exit(1)
	}
}

// run leads for two terms. In a real program a leader election begins and ends the terms.
func run(ctx context.Context, out io.Writer) error {
	queue := workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second),
		workqueue.TypedRateLimitingQueueConfig[string]{})
	defer queue.ShutDown()
	queue.AddAll("web", "db", "cache")

	for term := 1; term <= 2; term++ {
		ctx, lose := context.WithCancel(ctx)
		if err := lead(ctx, queue, out, term, lose); err != nil {
			return err
		}
	}
	return nil
}

// lead handles items until ctx ends. EndKeep leaves the queue open: the item at work is queued
// again, and the next term goes on with the item.
func lead(ctx context.Context, queue *workqueue.TypedRateLimiting[string], out io.Writer, term int, lose func()) error {
	return workqueue.Run(ctx, queue, func(ctx context.Context, name string) error {
		if term == 1 && name == "db" {
			lose() // Another replica leads from now on.
			return ctx.Err()
		}
		fmt.Fprintf(out, "term %d: %s, %d failures\n", term, name, queue.NumRequeues(name))
		if term == 2 && queue.Len() == 0 {
			lose()
		}
		return nil
	}, workqueue.RunOptions[string]{
		AtEnd: workqueue.EndKeep,
		OnStop: func(_ context.Context, left workqueue.Snapshot[string]) {
			fmt.Fprintf(out, "term %d is over, %d items are queued\n", term, left.QueuedTotal)
		},
	})
}
