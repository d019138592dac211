package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/examples/internal/mirror"
)

// drainTimeout is shorter than the 30 seconds that a pod gets by default between SIGTERM
// and SIGKILL.
const drainTimeout = 20 * time.Second

// queue holds names, not objects. Two changes of an object become one item, and the
// worker reads the newest state from the cache.
type queue = workqueue.TypedRateLimiting[cache.ObjectName]

func newQueue() *queue {
	return workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "mirror"},
	)
}

// controller syncs the names that a mirror adds to the queue.
type controller struct {
	mirror   *mirror.Mirror
	queue    barrierQueue
	log      *slog.Logger
	onResult func(ctx context.Context, item cache.ObjectName, result workqueue.HandlerResult) // or nil

	// ready is set when each object of the initial list has been synced once. Then the pod
	// can report ready.
	ready atomic.Bool
}

type barrierQueue interface {
	workqueue.TypedRateLimitingInterface[cache.ObjectName]
	Barrier(ctx context.Context) error
}

// ServeHTTP is the readiness probe of the pod.
func (c *controller) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if !c.ready.Load() {
		http.Error(w, "the initial list is not synced", http.StatusServiceUnavailable)
	}
}

// reportReady waits for the objects of the initial list. The caches are filled, so the queue has
// all of them. What is added or retried meanwhile does not count.
func (c *controller) reportReady(ctx context.Context) {
	if err := c.queue.Barrier(ctx); err == nil {
		c.ready.Store(true)
		c.log.Info("ready")
	}
}

// run syncs until ctx is done. Then Run finishes the queued items, the items in flight
// and the planned retries, and shuts the queue down. So a controller runs only once.
func (c *controller) run(ctx context.Context, workers int) error {
	if !c.mirror.WaitForCaches(ctx) {
		return errors.New("stopped before the caches were filled")
	}
	go c.reportReady(ctx)
	logger := logr.FromSlogHandler(c.log.Handler())
	return workqueue.Run(ctx, c.queue, c.mirror.Sync, workqueue.RunOptions[cache.ObjectName]{
		Workers: workers, AtEnd: workqueue.EndDrain, Grace: drainTimeout, Logger: &logger, OnResult: c.onResult,
	})
}
