// Command webhook takes events over HTTP and delivers each event to a URL, with timeouts
// and a limited number of retries. It has metrics for Prometheus. SIGTERM ends the
// program without the loss of a delivery:
//
//	go run ./webhook -listen 127.0.0.1:8080
//	curl -d '{"paid": true}' 'http://127.0.0.1:8080/events?url=https://example.com/hook'
//	curl http://127.0.0.1:8080/metrics
//
// This file is the part to copy: the queue, its retries and its end. server.go takes the
// events, and outbox.go delivers them.
package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/wait"
)

func newQueue(registry prometheus.Registerer) *workqueue.TypedRateLimiting[string] {
	return workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemBackoffRateLimiter[string](wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.2, Cap: time.Minute}),
		workqueue.TypedRateLimitingQueueConfig[string]{
			Name:            "webhooks",
			MetricsProvider: workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{}),
		})
}

// run delivers until ctx ends. Then it delivers the queued events and the planned
// retries, for 20 seconds at most: a pod gets 30 seconds between SIGTERM and SIGKILL. The
// rest stays in the outbox for the next start, and is not an error.
func run(ctx context.Context, queue *workqueue.TypedRateLimiting[string], events *outbox) error {
	err := workqueue.Run(ctx, queue, func(ctx context.Context, id string) error {
		return verdict(events.deliver(ctx, id))
	}, workqueue.RunOptions[string]{
		Workers: 8, Timeout: 5 * time.Second, MaxAttempts: 10, AtEnd: workqueue.EndDrain, Grace: 20 * time.Second,
		OnGiveUp: func(_ context.Context, id string, err error) {
			slog.Error("given up", "event", id, "err", err)
			events.remove(id)
		},
	})
	if errors.Is(err, workqueue.ErrNotDrained) {
		slog.Warn("not all is delivered", "err", err)
		return nil
	}
	return err
}

// verdict tells Run how to retry: never after a permanent answer, at the receiver's time
// if the receiver has named a time, and otherwise after the delay of the rate limiter.
func verdict(err error) error {
	status, ok := errors.AsType[*statusError](err)
	switch {
	case ok && status.permanent():
		return workqueue.Permanent(err)
	case ok && status.RetryAfter > 0:
		return workqueue.RetryAfter(status.RetryAfter, err)
	}
	return err
}
