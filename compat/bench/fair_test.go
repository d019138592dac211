package bench

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// BenchmarkFair is what groups cost: the cycle with an empty queue, where each item is the
// only one of its group, and behind 64k items of 1000 groups; and the memory of an item of
// those. "within" are groups that take turns within each of three priorities.
func BenchmarkFair(b *testing.B) {
	const groups = 1000
	keys := make([]string, scaled(population))
	for i := range keys {
		keys[i] = fmt.Sprintf("ns-%d/item-%d", i%groups, i)
	}
	group := func(item string) string { return item[:strings.IndexByte(item, '/')] }
	priority := func(item string) int { return len(item) % 3 }
	limit := func(string) int { return 5 }
	for _, row := range []struct {
		name  string
		order workqueue.Order[string]
	}{
		{"fifo", workqueue.Order[string]{}},
		{"groups", workqueue.Order[string]{Group: group}},
		{"limits", workqueue.Order[string]{Group: group, MaxInFlight: limit}},
		{"within", workqueue.Order[string]{Group: group, Priority: priority}},
		{"groups-first", workqueue.Order[string]{Group: group, Priority: priority, GroupsFirst: true, MaxInFlight: limit}},
	} {
		fair := []impl[*workqueue.Typed[string]]{
			{"workqueue", func() *workqueue.Typed[string] { return newOrdered(row.order) }},
		}
		each(b, "do=cycle/order="+row.name, fair, fairCycle(keys))
		each(b, "do=backlog/order="+row.name, fair, fairBacklog(keys))
		each(b, "do=memory/order="+row.name, fair, fairMemory(keys))
	}
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

func fairMemory(keys []string) func(*testing.B, func() *workqueue.Typed[string]) {
	return func(b *testing.B, open func() *workqueue.Typed[string]) {
		for b.Loop() {
			before := memory()
			q := open()
			for _, key := range keys {
				q.Add(key)
			}
			reportBytes(b, memory()-before, len(keys))
			runtime.KeepAlive(keys)
			q.ShutDown()
		}
	}
}
