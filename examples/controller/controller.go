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

// drainTimeout is shorter than the 30 seconds that a pod gets by default between SIGTERM
// and SIGKILL.
const drainTimeout = 20 * time.Second

// queue holds names, not objects. Two changes of an object become one item, and the
// worker reads the newest state from the cache.
type queue = workqueue.TypedRateLimitingInterface[cache.ObjectName]

func newQueue() queue {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "mirror"},
	)
}

// controller syncs the names that a mirror adds to the queue.
type controller struct {
	mirror *mirror.Mirror
	queue  queue
	log    *slog.Logger
}

// run syncs until ctx is done, then finishes the queued items and the items in flight. A
// controller runs only once, because run shuts the queue down.
func (c *controller) run(ctx context.Context, workers int) error {
	// Also after an early return: no path may leave the queue open.
	defer c.queue.ShutDown()
	if !c.mirror.WaitForCaches(ctx) {
		return errors.New("stopped before the caches were filled")
	}

	// The workers' context outlives the signal: the item in a worker's hands must still
	// reach the API server.
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

// processNextWorkItem syncs one item. It reports false when the queue is shut down and
// empty.
func (c *controller) processNextWorkItem(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	// Until Done, the queue gives the key to no other worker, and only remembers a new
	// add. Without Done, no worker would ever get the key again.
	defer c.queue.Done(key)

	if err := c.mirror.Sync(ctx, key); err != nil {
		// During the drain the queue ignores AddRateLimited. The next start lists all
		// objects, and so syncs the failed key again.
		c.queue.AddRateLimited(key)
		c.log.Warn("sync failed", "key", key, "failures", c.queue.NumRequeues(key), "err", err)
		return true
	}
	// Forget resets the delay. Without Forget the next failure, days later, would
	// continue with the long delays of the last outage.
	c.queue.Forget(key)
	return true
}
