package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// prioritized is a queue whose adds name a priority.
type prioritized interface {
	queue[string]
	AddAt(item string, priority int)
	GetWithPriority() (item string, priority int, shutdown bool)
}

type ours struct{ *workqueue.Typed[string] }

func (q ours) GetWithPriority() (item string, priority int, shutdown bool) {
	info, err := q.GetInfo(context.Background())
	return info.Item, info.Priority, err != nil
}

func (q ours) AddAt(item string, priority int) {
	q.AddWith(workqueue.AddOptions{Priority: &priority}, item)
}

type theirs struct {
	priorityqueue.PriorityQueue[string]
}

func (q theirs) AddAt(item string, priority int) {
	q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, item)
}

func newOrdered(order workqueue.Order[string]) *workqueue.Typed[string] {
	return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: order})
}

// BenchmarkPriority is the cycle with a priority for each Add, of so many in turn. The first priority
// is 1, as 0 is that of a plain Add.
func BenchmarkPriority(b *testing.B) {
	keys := stringKeys(population)
	for _, levels := range []int{1, 3, 25} {
		each(b, fmt.Sprintf("do=cycle/levels=%d", levels), []impl[prioritized]{
			{"workqueue", func() prioritized { return ours{newOrdered(workqueue.Order[string]{})} }},
			{"priorityqueue", func() prioritized { return theirs{priorityqueue.New[string]("")} }},
		}, func(b *testing.B, open func() prioritized) {
			q := open()
			defer q.ShutDown()
			for i := 0; b.Loop(); i++ {
				q.AddAt(keys[i%population], 1+i%levels)
				item, _, _ := q.GetWithPriority()
				q.Done(item)
			}
		})
	}
}

// BenchmarkFair is what groups cost: the cycle with an empty queue, where each item is the
// only one of its group, and behind 64k items of 1000 groups, without and with a limit for each group.
func BenchmarkFair(b *testing.B) {
	const groups = 1000
	keys := make([]string, scaled(population))
	for i := range keys {
		keys[i] = fmt.Sprintf("ns-%d/item-%d", i%groups, i)
	}
	group := func(item string) string { return item[:strings.IndexByte(item, '/')] }
	fair := func(order workqueue.Order[string]) []impl[*workqueue.Typed[string]] {
		return []impl[*workqueue.Typed[string]]{{"workqueue", func() *workqueue.Typed[string] { return newOrdered(order) }}}
	}
	plain := fair(workqueue.Order[string]{Group: group})
	each(b, "do=cycle/order=groups", plain, fairCycle(keys))
	each(b, "do=backlog/order=groups", plain, fairBacklog(keys))
	each(b, "do=backlog/order=limits", fair(workqueue.Order[string]{Group: group, MaxInFlight: func(string) int { return 5 }}), fairBacklog(keys))
}

func fairCycle(keys []string) func(*testing.B, func() *workqueue.Typed[string]) {
	return func(b *testing.B, open func() *workqueue.Typed[string]) {
		q := open()
		defer q.ShutDown()
		for i := 0; b.Loop(); i++ {
			q.Add(keys[i%len(keys)])
			item, _ := q.Get()
			q.Done(item)
		}
	}
}

func fairBacklog(keys []string) func(*testing.B, func() *workqueue.Typed[string]) {
	return func(b *testing.B, open func() *workqueue.Typed[string]) {
		q := open()
		defer q.ShutDown()
		q.AddAll(keys...)
		for b.Loop() {
			item, _ := q.Get()
			q.Done(item)
			q.Add(item)
		}
	}
}
