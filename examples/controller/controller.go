package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/examples/internal/mirror"
)

// drainTimeout stays below the 30 seconds that a pod gets by default between
// SIGTERM and SIGKILL.
const drainTimeout = 20 * time.Second

// queue holds names, not objects: two changes of one object are one item, and
// whoever works on it reads the newest state from the cache.
type queue = workqueue.TypedRateLimitingInterface[cache.ObjectName]

func newQueue() queue {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "mirror"},
	)
}

// controller works off the queue that a mirror fills.
type controller struct {
	mirror *mirror.Mirror
	queue  queue
	log    *slog.Logger
}

// run works until ctx is done, then finishes what is queued and in flight.
// A controller runs once.
func (c *controller) run(ctx context.Context, workers int) error {
	// Last of all, so that no path leaves the queue open.
	defer c.queue.ShutDown()
	if !c.mirror.WaitForCaches(ctx) {
		return errors.New("stopped before the caches were filled")
	}

	// The signal ends the intake, not the work: what a worker holds at that
	// moment still has to reach the API server.
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { c.runWorker(work) })
	}
	c.log.Info("running", "workers", workers)
	<-ctx.Done()

	c.log.Info("draining", "queued", c.queue.Len())
	timer := time.AfterFunc(drainTimeout, func() {
		abandon()
		c.queue.ShutDown() // Ends the wait of ShutDownWithDrain.
	})
	defer timer.Stop()
	c.queue.ShutDownWithDrain()
	running.Wait()
	c.log.Info("drained", "queued", c.queue.Len())
	return nil
}

func (c *controller) runWorker(ctx context.Context) {
	for c.processNextWorkItem(ctx) {
	}
}

// processNextWorkItem syncs one item and reports whether there may be another.
func (c *controller) processNextWorkItem(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	// Until Done, the queue keeps the key from every other worker and remembers
	// that it was added again. A missing Done loses the key for ever.
	defer c.queue.Done(key)

	if err := c.mirror.Sync(ctx, key); err != nil {
		// A queue that is shut down ignores this: what fails during the drain is
		// found by the first list of the next start.
		c.queue.AddRateLimited(key)
		c.log.Warn("sync failed", "key", key, "failures", c.queue.NumRequeues(key), "err", err)
		return true
	}
	// Without Forget the next failure, days later, would start at the delay
	// where this one ended.
	c.queue.Forget(key)
	return true
}
