package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

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

// plain is our FIFO, where the priority is of no effect: what an order costs is what
// is beyond it.
type plain struct{ *workqueue.Typed[string] }

func (q plain) AddAt(item string, _ int) { q.Add(item) }

func (q plain) GetWithPriority() (item string, priority int, shutdown bool) {
	item, shutdown = q.Get()
	return item, 0, shutdown
}

// given has the order decide by the item, and needs no AddWith.
type given struct{ plain }

func newOrdered(order workqueue.Order[string]) *workqueue.Typed[string] {
	return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: order})
}

func prioritizeds(levels int) []impl[prioritized] {
	of := func(item string) int { return int(item[len(item)-1]) % levels }
	return []impl[prioritized]{
		{"workqueue", func() prioritized { return ours{newOrdered(workqueue.Order[string]{})} }},
		{"workqueue-of", func() prioritized {
			return given{plain{newOrdered(workqueue.Order[string]{Priority: of})}}
		}},
		{"workqueue-oldest", func() prioritized {
			return ours{newOrdered(workqueue.Order[string]{OldestEvery: 10})}
		}},
		{"workqueue-fifo", func() prioritized { return plain{workqueue.NewTyped[string]()} }},
		{"priorityqueue", func() prioritized { return theirs{priorityqueue.New[string]("")} }},
	}
}

// BenchmarkPriority is the cycle with a priority for each Add, of so many in turn: with an
// empty queue, behind a million items, with 1000 workers who sleep until 64k items come,
// and with as many of whom one is woken for each item. In the last, most of the time is
// that of two switches between goroutines. Then there are the raises of 64k items from
// one level to another, and the memory of a million queued ones. The first priority is
// 1, as 0 is that of a plain Add.
func BenchmarkPriority(b *testing.B) {
	keys := stringKeys(population)
	for _, levels := range []int{1, 3, 25} {
		each(b, fmt.Sprintf("do=cycle/levels=%d", levels), prioritizeds(levels), func(b *testing.B, open func() prioritized) {
			q := open()
			defer q.ShutDown()
			for i := 0; b.Loop(); i++ {
				q.AddAt(keys[i%population], 1+i%levels)
				item, _, _ := q.GetWithPriority()
				q.Done(item)
			}
		})
	}
	many := stringKeys(scaled(million))
	each(b, "do=backlog/levels=3", prioritizeds(3), func(b *testing.B, open func() prioritized) {
		q := open()
		defer q.ShutDown()
		for i, key := range many {
			q.AddAt(key, 1+i%3)
		}
		q.Len() // see fill
		for i := 0; b.Loop(); i++ {
			item, _, _ := q.GetWithPriority()
			q.Done(item)
			q.AddAt(item, 1+i%3)
		}
	})
	each(b, "do=parked/levels=3", prioritizeds(3), parked(keys, 1000))
	each(b, "do=wakeup/levels=3", prioritizeds(3), wakeUp(keys, 1000))
	each(b, "do=raise/levels=2", prioritizeds(2), raise(keys))
	each(b, "do=memory/levels=3", prioritizeds(3), func(b *testing.B, open func() prioritized) {
		for b.Loop() {
			before := memory()
			q := open()
			for i, key := range many {
				q.AddAt(key, 1+i%3)
			}
			q.Len() // see fill
			reportBytes(b, memory()-before, len(many))
			runtime.KeepAlive(many)
			q.ShutDown()
		}
	})
}

// parked adds all keys to a queue in whose Get so many workers sleep. The last items, one
// for each worker, are of the lowest priority, and shorter than any key.
func parked(keys []string, workers int) func(*testing.B, func() prioritized) {
	return func(b *testing.B, open func() prioritized) {
		q := open()
		defer q.ShutDown()
		for b.Loop() {
			b.StopTimer()
			var crew sync.WaitGroup
			for range workers {
				crew.Go(func() { work(q) })
			}
			time.Sleep(time.Millisecond) // most of them are parked by then, in any queue
			b.StartTimer()
			for i, key := range keys {
				q.AddAt(key, 1+i%3)
			}
			for i := range workers {
				q.AddAt(fmt.Sprint(i), -1)
			}
			q.Len() // see fill
			crew.Wait()
		}
		perItem(b, len(keys))
	}
}

// wakeUp adds items one by one to a queue in whose Get so many workers sleep. Each of
// the items is handed out and done before the next is added.
func wakeUp(keys []string, workers int) func(*testing.B, func() prioritized) {
	return func(b *testing.B, open func() prioritized) {
		q := open()
		done := make(chan struct{}, 1)
		var crew sync.WaitGroup
		for range workers {
			crew.Go(func() {
				for {
					item, _, shutdown := q.GetWithPriority()
					if shutdown {
						return
					}
					q.Done(item)
					done <- struct{}{}
				}
			})
		}
		for i := 0; b.Loop(); i++ {
			q.AddAt(keys[i%population], 1+i%3)
			<-done
		}
		q.ShutDown()
		crew.Wait()
	}
}

// raise queues all keys at one level, and raises each of them; the time is per raise.
func raise(keys []string) func(*testing.B, func() prioritized) {
	return func(b *testing.B, open func() prioritized) {
		for b.Loop() {
			b.StopTimer()
			q := open()
			for _, key := range keys {
				q.AddAt(key, 1)
			}
			q.Len() // see fill
			b.StartTimer()
			for _, key := range keys {
				q.AddAt(key, 2)
			}
			q.Len()
			b.StopTimer()
			q.ShutDown()
			b.StartTimer()
		}
		perItem(b, len(keys))
	}
}
