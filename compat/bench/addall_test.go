package bench

import (
	"slices"
	"testing"

	"github.com/seed16c08ea7/workqueue"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

type bulk interface {
	queue[string]
	AddAll(items ...string) int
}

// bulkPriority spells the priority queue's way to add many.
type bulkPriority struct {
	priorityqueue.PriorityQueue[string]
}

func (q bulkPriority) AddAll(items ...string) int {
	q.AddWithOpts(priorityqueue.AddOpts{}, items...)
	return len(items)
}

// bulkLoop is the way of client-go, which has none.
type bulkLoop struct {
	queue[string]
}

func (q bulkLoop) AddAll(items ...string) int {
	for _, item := range items {
		q.Add(item)
	}
	return len(items)
}

// BenchmarkAddAll queues 64k items in lists of 1024, each in a loop of Add and in
// one call.
func BenchmarkAddAll(b *testing.B) {
	keys := stringKeys(scaled(population))
	each(b, "how=Add", fifos[string](len(keys)), addLists(keys, func(q queue[string], list []string) {
		bulkLoop{q}.AddAll(list...)
	}))
	each(b, "how=AddAll", []impl[bulk]{
		{"workqueue", func() bulk { return workqueue.NewTyped[string]() }},
		{"client-go", func() bulk { return bulkLoop{clientgo.NewTyped[string]()} }},
		{"priorityqueue", func() bulk { return bulkPriority{priorityqueue.New[string]("")} }},
	}, addLists(keys, func(q bulk, list []string) { q.AddAll(list...) }))
}

func addLists[Q queue[string]](keys []string, add func(Q, []string)) func(*testing.B, func() Q) {
	return func(b *testing.B, open func() Q) {
		q := open()
		defer q.ShutDown()
		for b.Loop() {
			for list := range slices.Chunk(keys, 1024) {
				add(q, list)
			}
			q.Len() // see fill
			b.StopTimer()
			empty[string](q, len(keys))
			b.StartTimer()
		}
		perItem(b, len(keys))
	}
}

func empty[T comparable](q queue[T], items int) {
	for range items {
		item, _ := q.Get()
		q.Done(item)
	}
}
