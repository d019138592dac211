package bench

import (
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// BenchmarkLook reports what a look into a queue takes of which half the items are queued, and the others wait.
func BenchmarkLook(b *testing.B) {
	n := scaled(1_000_000)
	queues := []impl[*workqueue.TypedDelaying[int]]{{"workqueue", func() *workqueue.TypedDelaying[int] {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
		for i := range n {
			q.AddAfter(i, time.Duration(i%2)*time.Hour)
		}
		return q
	}}}
	for _, call := range []struct {
		name string
		look func(q *workqueue.TypedDelaying[int]) (items int)
	}{
		{"Snapshot", func(q *workqueue.TypedDelaying[int]) int {
			s := q.Snapshot(100)
			return s.QueuedTotal + s.WaitingTotal
		}},
		{"Stats", func(q *workqueue.TypedDelaying[int]) int {
			s := q.Stats()
			return s.Depth + s.Waiting
		}},
	} {
		each(b, "call="+call.name+"/items=1M", queues, func(b *testing.B, open func() *workqueue.TypedDelaying[int]) {
			q := open()
			defer q.ShutDown()
			for b.Loop() {
				if items := call.look(q); items != n {
					b.Fatalf("%d items, want %d", items, n)
				}
			}
		})
	}
}
