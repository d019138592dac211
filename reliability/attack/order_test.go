package attack

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// oneGroup is an order with a limit that can be changed, and a count of what TryGet gets.
func oneGroup() (q *workqueue.TypedDelaying[string], limit *atomic.Int64, take func() int) {
	limit = new(atomic.Int64)
	q = workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Order: workqueue.Order[string]{
		Group:       func(string) string { return "g" },
		MaxInFlight: func(string) int { return int(limit.Load()) },
	}})
	return q, limit, func() (n int) {
		for {
			if _, ok := q.TryGet(); !ok {
				return n
			}
			n++
		}
	}
}

// A limit is raised, and the next add of the group waits.
func TestChangedLimitHoldsFromTheNextDelayedAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, limit, take := oneGroup()
		defer q.ShutDown()
		limit.Store(1)
		for _, item := range []string{"a", "b", "c"} {
			q.AddAfter(item, time.Second)
		}
		time.Sleep(time.Minute)
		held := take()
		limit.Store(3)
		q.AddAfter("d", time.Second)
		time.Sleep(time.Minute)
		if held += take(); held != 3 {
			t.Errorf("%d items in flight, want 3: the last add of the group has said so", held)
		}
	})
}
