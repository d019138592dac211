package workqueue_test

import (
	"testing"
	"testing/synctest"

	"github.com/seed16c08ea7/workqueue"
)

// A drain that has left nothing ends the queue below by a ShutDown too: the
// goroutine of client-go's delaying queue lingers for up to 10 s without one.
func TestDrainShutsDownTheQueueBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &hasty{bare: bare{workqueue.NewTyped[string]()}}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: below})
		if err := q.Drain(t.Context()); err != nil || !below.ended.Load() {
			t.Errorf("got %v, the queue below was shut down: %v", err, below.ended.Load())
		}
	})
}
