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
	return workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName](),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{})
}

// slowQueue takes a second to let an item in.
type slowQueue struct{ Queue }

func (q slowQueue) Add(item cache.ObjectName) {
	time.Sleep(time.Second)
	q.Queue.Add(item)
}

// twiceQueue hands out what a worker still holds.
type twiceQueue struct{ Queue }

func (q twiceQueue) Get() (cache.ObjectName, bool) {
	return cache.NewObjectName(Namespace, "twice"), false
}

func TestSecondHandOutIsCounted(t *testing.T) {
	q := observe(twiceQueue{newQueue()}, fixture.Quiet())
	item, _ := q.Get()
	q.Done(item)
	q.Get()
	if got := q.snapshot().overlaps; got != 0 {
		t.Errorf("got %d hand-outs of a held item after Done, want none", got)
	}
	q.Get()
	if got := q.snapshot().overlaps; got != 1 {
		t.Errorf("got %d hand-outs of a held item, want 1", got)
	}
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
