package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

type queue = *workqueue.TypedRateLimiting[string]

// A stuck queue fires one alert, and others about failures beside it. Its times are those of the
// faster rules: a minute of an operator is a second here.
type stuck struct {
	alert
	beside      []string      // the names of the other alerts
	first, last time.Duration // the delay of the first retry, and the longest
	order       workqueue.Order[string]
	pace        *rate.Limiter
	// run ends with ctx, and keeps the queue open.
	run func(ctx context.Context, q queue)
}

var errUnreachable = errors.New("unreachable")

func hang(ctx context.Context, _ string) error { return wait(ctx, time.Hour) }
func fail(context.Context, string) error       { return errUnreachable }
func succeed(context.Context, string) error    { return nil }
func refuse(context.Context, string) error     { return workqueue.Permanent(errUnreachable) }

var stuckQueues = []stuck{{
	alert: alert{"WorkqueueAllWorkersStuck", "hang", "All 2 workers of the queue hang hang"},
	run: func(ctx context.Context, q queue) {
		add(q, 3)
		go addEach(ctx, q, time.Second)
		work(ctx, q, 2, hang)
	},
}, {
	// The alert lasts from 5 to 60 seconds after the shutdown.
	alert: alert{"WorkqueueShutDown", "gone", "was shut down, and its process goes on"},
	run: func(ctx context.Context, q queue) {
		go addEach(ctx, q, time.Second)
		time.AfterFunc(settle-30*time.Second, q.ShutDown)
		work(ctx, q, 2, succeed)
	},
}, {
	// Shut down like the queue gone, as its name says.
	alert: alert{queue: "once-gone"},
	run:   func(_ context.Context, q queue) { time.AfterFunc(settle-30*time.Second, q.ShutDown) },
}, {
	alert: alert{"WorkqueueNoWorkers", "ended", "The queue ended has no workers"},
	run: func(ctx context.Context, q queue) {
		go addEach(ctx, q, time.Second)
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		work(ctx, q, 2, succeed)
	},
}, {
	// All items fail together, 10 times a second. The delay is shorter than the 5 seconds of a rate: otherwise the
	// rate is 0 now and then, and RetryStorm starts again.
	alert:  alert{"WorkqueueNothingSucceeds", "outage", `"Item given up" with queue=outage`},
	beside: []string{"WorkqueueRetryStorm", "WorkqueueLongBackoff"},
	first:  time.Second, last: 2 * time.Second,
	run: func(ctx context.Context, q queue) {
		add(q, 20)
		work(ctx, q, 2, fail)
	},
}, {
	// Few items fail, seldom.
	alert: alert{"WorkqueueLongBackoff", "failing", "wait minutes or longer for the next attempt"},
	first: time.Second, last: 5 * time.Second,
	run: func(ctx context.Context, q queue) {
		add(q, 2)
		work(ctx, q, 2, fail)
	},
}, {
	// A few items fail, and the handler names a time that no limiter would.
	alert: alert{"WorkqueueLongBackoff", "retry-after", "the handler names them: bound what it takes from a Retry-After"},
	run: func(ctx context.Context, q queue) {
		go addEach(ctx, q, 5*time.Second)
		work(ctx, q, 2, func(context.Context, string) error { return workqueue.RetryAfter(time.Hour, errUnreachable) })
	},
}, {
	// The handler adds its own item, in a queue that was at rest before.
	alert: alert{"WorkqueueUnusuallyBusy", "hot", "If the same few keys come again, or far more is added"},
	run: func(ctx context.Context, q queue) {
		time.AfterFunc(settle-40*time.Second, func() { add(q, 2) })
		work(ctx, q, 2, func(ctx context.Context, item string) error {
			q.Add(item)
			return wait(ctx, 20*time.Millisecond)
		})
	},
}, {
	alert: alert{"WorkqueueOnlyDeferred", "deferred", "only puts items off"},
	run: func(ctx context.Context, q queue) {
		add(q, 2)
		work(ctx, q, 2, func(context.Context, string) error { return workqueue.DeferFor(2 * time.Second) })
	},
}, {
	// A worker of three has an item of the group with 100 items. The items of other groups pass.
	alert: alert{"WorkqueueOldestItemTooOld", "group", "2 of 3 workers are idle, so the queue keeps the item back: its group is at MaxInFlight"},
	order: workqueue.Order[string]{
		Group:       func(item string) string { return item[:2] },
		MaxInFlight: func(string) int { return 1 },
	},
	run: func(ctx context.Context, q queue) {
		add(q, 100)
		go addEach(ctx, q, 500*time.Millisecond)
		work(ctx, q, 3, func(ctx context.Context, item string) error {
			if item[:2] == "0-" {
				return wait(ctx, 3*time.Second)
			}
			return nil
		})
	},
}, {
	// The group with 5 items is held back. Other groups have no items.
	alert: alert{"WorkqueueOldestItemTooOld", "held-back", "All 3 workers are idle. First see whether there are two queues of this name"},
	order: workqueue.Order[string]{
		Group:       func(item string) string { return item[:2] },
		MaxInFlight: func(string) int { return workqueue.HoldBack },
	},
	run: func(ctx context.Context, q queue) {
		add(q, 5)
		work(ctx, q, 3, succeed)
	},
}, {
	alert: alert{"WorkqueueOldestItemTooOld", "paced", "The Pace of the queue keeps the items back"},
	pace:  rate.NewLimiter(rate.Every(3*time.Second), 1),
	run: func(ctx context.Context, q queue) {
		add(q, 100)
		work(ctx, q, 2, succeed)
	},
}, {
	// All items are given up.
	alert:  alert{"WorkqueueGivenUp", "given-up", "Items given up of the queue given-up in the last hour"},
	beside: []string{"WorkqueueNothingSucceeds"},
	run: func(ctx context.Context, q queue) {
		go addEach(ctx, q, 250*time.Millisecond)
		work(ctx, q, 2, refuse)
	},
}}

// add adds n items, with the names "0-0", "0-1" and so on.
func add(q queue, n int) {
	for i := range n {
		q.Add(fmt.Sprint("0-", i))
	}
}

// addEach adds an item of a further name now and then, until ctx ends.
func addEach(ctx context.Context, q queue, every time.Duration) {
	for i := 1; wait(ctx, every) == nil; i++ {
		q.Add(fmt.Sprint(i%10, "+", i))
	}
}

func work(ctx context.Context, q queue, workers int, handle func(context.Context, string) error) {
	quiet := logr.Discard()
	options := workqueue.RunOptions[string]{Workers: workers, AtEnd: workqueue.EndKeep, Logger: &quiet}
	// The error says what is left, or reports a shutdown. Both are intended.
	_ = workqueue.Run(ctx, q, handle, options)
}

// wait is pause without the cause.
func wait(ctx context.Context, d time.Duration) error {
	if pause(ctx, d) != nil {
		return ctx.Err()
	}
	return nil
}

// startStuck starts the stuck queues in this process, and returns the address of their metrics.
func (p *processes) startStuck(ctx context.Context) (address string, err error) {
	registry := prometheus.NewRegistry()
	provider := workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := http.Server{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), ReadHeaderTimeout: time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	p.running.Go(func() { server.Serve(listener) })
	for _, s := range stuckQueues {
		q := workqueue.NewTypedRateLimiting(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](max(s.first, time.Millisecond), max(s.last, time.Millisecond)),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: s.queue, MetricsProvider: provider, Order: s.order, Pace: s.pace})
		p.running.Go(func() { s.run(ctx, q) })
	}
	return listener.Addr().String(), nil
}
