package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

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
