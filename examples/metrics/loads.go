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

// A load is a queue and its work. integration/prometheus has expected figures for each
// load, so change both together.
type load struct {
	name        string
	workers     int
	first, last time.Duration                // the delay of the first retry, and the longest
	feed        func(queue)                  // adds before the workers start
	stream      func(context.Context, queue) // adds while the workers run
	handle      func(context.Context, queue, string) error
}

var errUnreachable = errors.New("unreachable")

var loads = []load{{
	// Healthy and fast: 50 new pictures a second. Every tenth picture needs a second
	// attempt.
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
	// Healthy and slow: the worker writes six reports in turn, over and over. Five
	// reports are always queued.
	name: "reports", workers: 1, first: time.Second, last: time.Minute,
	feed: func(q queue) { addAll(q, "report", 6, 0) },
	handle: func(ctx context.Context, q queue, report string) error {
		sleep(ctx, time.Second)
		q.Add(report)
		return nil
	},
}, {
	// Healthy: polls eight sites. Each poll plans the next by AddAfter, and none fails.
	name: "polls", workers: 2, first: time.Second, last: time.Minute,
	feed: func(q queue) { addAll(q, "site", 8, 0) },
	handle: func(_ context.Context, q queue, site string) error {
		q.AddAfter(site, 250*time.Millisecond)
		return nil
	},
}, {
	// Sick: the handler of file-7 never returns, so one of two workers is stuck. The
	// other worker handles all other files. Three items wait for a day.
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
	// Sick: every attempt fails, and the delays do not grow.
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

// start starts all loads. The loads end with ctx; wait returns after their end.
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

// work leaves the worker loop to Run, because Run counts the results. Nothing is logged,
// because failures are intended.
func work(ctx context.Context, q queue, l load) {
	quiet := logr.Discard()
	handle := func(ctx context.Context, item string) error { return l.handle(ctx, q, item) }
	if err := workqueue.Run(ctx, q, handle, workqueue.RunOptions[string]{Workers: l.workers, Logger: &quiet}); err != nil {
		panic(err) // Only if somebody else had shut the queue down.
	}
}

// leaveBehind shuts a queue down with three queued items, one item in flight and two
// waiting items. The series of the queue end, but workqueue_abandoned_total still counts
// the items.
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
