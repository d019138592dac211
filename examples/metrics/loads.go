package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue"
)

type queue = *workqueue.TypedRateLimiting[string]

// A load is a queue with something to do. integration/prometheus has the
// figures of each; whoever changes one here changes it there.
type load struct {
	name        string
	workers     int
	first, last time.Duration                // the delay of the first retry, and the longest
	feed        func(queue)                  // adds before the workers start
	stream      func(context.Context, queue) // adds while they work
	handle      func(context.Context, queue, string) error
}

var errUnreachable = errors.New("unreachable")

var loads = []load{{
	// Well and fast: 50 new pictures a second, each tenth of which needs a
	// second attempt.
	name: "thumbnails", workers: 2, first: 50 * time.Millisecond, last: time.Second,
	stream: func(ctx context.Context, q queue) {
		for n := 0; sleep(ctx, 20*time.Millisecond); n++ {
			q.Add(fmt.Sprint("picture-", n))
		}
	},
	handle: func(ctx context.Context, q queue, picture string) error {
		sleep(ctx, time.Millisecond)
		if picture[len(picture)-1] == '0' && q.NumRequeues(picture) == 0 {
			return errUnreachable
		}
		return nil
	},
}, {
	// Well and slow: five reports are always queued while one is written, and
	// each is asked for again when it is done.
	name: "reports", workers: 1, first: time.Second, last: time.Minute,
	feed: func(q queue) { addAll(q, "report", 6, 0) },
	handle: func(ctx context.Context, q queue, report string) error {
		sleep(ctx, time.Second)
		q.Add(report)
		return nil
	},
}, {
	// Well: polls eight sites. It adds with a delay and retries nothing.
	name: "polls", workers: 2, first: time.Second, last: time.Minute,
	feed: func(q queue) { addAll(q, "site", 8, 0) },
	handle: func(_ context.Context, q queue, site string) error {
		q.AddAfter(site, 250*time.Millisecond)
		return nil
	},
}, {
	// Sick: one of the two workers never returns from its item. The other one
	// does the rest, and three items are not due for long.
	name: "uploads", workers: 2, first: time.Second, last: time.Minute,
	feed: func(q queue) {
		for n := range 3 {
			q.AddAfter(fmt.Sprint("tomorrow-", n), 24*time.Hour)
		}
		addAll(q, "file", 20, 5)
	},
	handle: func(ctx context.Context, _ queue, file string) error {
		if file == "file-7" {
			<-ctx.Done()
		}
		return nil
	},
}, {
	// Sick: nothing succeeds, and the delays do not grow.
	name: "webhooks", workers: 4, first: 100 * time.Millisecond, last: 100 * time.Millisecond,
	feed:   func(q queue) { addAll(q, "hook", 20, 0) },
	handle: func(context.Context, queue, string) error { return errUnreachable },
}}

// addAll adds n items, and some of them a second time.
func addAll(q queue, prefix string, n, twice int) {
	for i := range n + twice {
		q.Add(fmt.Sprint(prefix, "-", i%n))
	}
}

// start starts all loads. They end with ctx; wait returns when they have.
func start(ctx context.Context, provider workqueue.MetricsProvider) (wait func()) {
	leaveBehind(newQueue(load{name: "retired", first: time.Second, last: time.Second}, provider))
	var all sync.WaitGroup
	for _, l := range loads {
		q := newQueue(l, provider)
		if l.feed != nil {
			l.feed(q)
		}
		if l.stream != nil {
			all.Go(func() { l.stream(ctx, q) })
		}
		all.Go(func() { work(ctx, q, l) })
	}
	return all.Wait
}

func newQueue(l load, provider workqueue.MetricsProvider) queue {
	return workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](l.first, l.last),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: l.name, MetricsProvider: provider})
}

// work leaves the worker loop to Run, which counts the results. Failures are what this
// program is about, so they are not logged.
func work(ctx context.Context, q queue, l load) {
	quiet := logr.Discard()
	handle := func(ctx context.Context, item string) error { return l.handle(ctx, q, item) }
	if err := workqueue.Run(ctx, q, handle, workqueue.RunOptions[string]{Workers: l.workers, Logger: &quiet}); err != nil {
		panic(err) // Only if somebody else had shut the queue down.
	}
}

// leaveBehind shuts a queue down that has three items queued, one in the hands
// of a worker, and two that wait. Its series end; that items were abandoned
// stays.
func leaveBehind(q queue) {
	addAll(q, "item", 4, 0)
	q.Get()
	q.AddAfter("later-0", time.Hour)
	q.AddAfter("later-1", time.Hour)
	q.ShutDown()
}

// sleep reports whether the time has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
