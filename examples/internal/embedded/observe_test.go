package embedded

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/examples/internal/fixture"
)

func newQueue() Queue {
	return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
}

// slowQueue takes a second to let an item in.
type slowQueue struct{ Queue }

func (q slowQueue) Add(item cache.ObjectName) {
	time.Sleep(time.Second)
	q.Queue.Add(item)
}

// Whoever waits for an item may shut the queue down next: the item must be in.
func TestAwaitAddReturnsAfterTheAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		item := cache.NewObjectName(Namespace, "late")
		q := observe(slowQueue{newQueue()}, fixture.Quiet())
		go q.Add(item)
		if err := q.awaitAdd(t.Context(), item); err != nil {
			t.Fatal(err)
		}
		if got := q.Len(); got != 1 {
			t.Errorf("got %d items, want 1", got)
		}
	})
}
