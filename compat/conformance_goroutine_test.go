package compat_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestGoroutines(t *testing.T) {
	onLayers(t, fifoGoroutines, fifo)
	onLayers(t, delayingGoroutines, delayed, rateLimited)
}

var fifoGoroutines = []timeline{{
	name:    "none_without_metrics",
	unnamed: true,
	steps: []step{
		{call: "goroutines", want: "0"},
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "goroutines", want: "0"},
	},
}, {
	name: "with_metrics_none_at_rest_and_one_while_work_is_in_flight",
	steps: []step{
		{call: "goroutines", want: "0", upstream: new("1")},
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "goroutines", want: "1"},
		{call: "done a"},
		{call: "elapse 1s"},
		{call: "goroutines", want: "0", upstream: new("1")},
	},
}, {
	name: "none_after_ShutDown_kubernetes#135072",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "shutdown"},
		{call: "goroutines", want: "0"},
	},
}, {
	name: "none_after_a_drain_kubernetes#135072",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "done a"},
		{call: "drain", want: "returned"},
		{call: "goroutines", want: "0"},
	},
}}

var delayingGoroutines = []timeline{{
	name:    "none_at_rest_and_one_while_an_item_waits",
	unnamed: true,
	steps: []step{
		{call: "goroutines", want: "0", upstream: new("1")},
		{call: "after a 1s"},
		{call: "goroutines", want: "1"},
		{call: "elapse 1s"},
		{call: "goroutines", want: "0", upstream: new("1")},
		{call: "take", want: "a"},
	},
}, {
	name:    "none_after_ShutDown",
	unnamed: true,
	steps: []step{
		{call: "after a 1h"},
		{call: "shutdown"},
		{call: "goroutines", want: "0"},
	},
}, {
	// client-go's drain forgets its own goroutine, which sees by chance, at the
	// next heartbeat, that the queue is shut down.
	name:    "none_after_a_drain_kubernetes#134323",
	unnamed: true,
	steps: []step{
		{call: "after a 1h"},
		{call: "drain", want: "returned"},
		{call: "goroutines", want: "0", upstream: new("1")},
		{call: "elapse 9s"},
		{call: "goroutines", want: "0", upstream: new("1")},
		{call: "elapse 1s"},
		{call: "goroutines", want: "0"},
	},
}, {
	name: "none_after_a_drain_with_metrics_kubernetes#134323",
	steps: []step{
		{call: "goroutines", want: "0", upstream: new("2")},
		{call: "drain", want: "returned"},
		{call: "goroutines", want: "0", upstream: new("1")},
	},
}}

// A gate is an inner queue that can hold up the delaying queue
// above, as a queue with I/O might.
type gate struct {
	typedQueue[string]
	adds, asks atomic.Pointer[chan struct{}] // closed to let calls go on; nil for not at all
}

func (g *gate) Add(item string) {
	pass(&g.adds)
	g.typedQueue.Add(item)
}

// ShuttingDown holds up its caller only when the answer is known.
func (g *gate) ShuttingDown() bool {
	defer pass(&g.asks)
	return g.typedQueue.ShuttingDown()
}

func pass(barrier *atomic.Pointer[chan struct{}]) {
	if b := barrier.Load(); b != nil {
		<-*b
	}
}

// A handover is more delayed adds than client-go's channel has room for, 1000,
// begun while its reader is absent.
const handover = 1100

// addMany starts the adds, each on its own goroutine, and returns how many of
// them have returned as a counter.
func addMany(q delayingQueue[string]) *atomic.Int64 {
	var returned atomic.Int64
	for i := range handover {
		go func() {
			q.AddAfter(fmt.Sprint(i), time.Hour)
			returned.Add(1)
		}()
	}
	return &returned
}

// aboveAGate plays a delaying queue above a gate, on both implementations.
func aboveAGate(t *testing.T, play func(t *testing.T, impl implementation, q delayingQueue[string], inner *gate, fake *clocktesting.FakeClock)) {
	onEach(t, func(t *testing.T, impl implementation) {
		synctest.Test(t, func(t *testing.T) {
			fake := clocktesting.NewFakeClock(time.Now())
			inner := &gate{typedQueue: impl.queue(settings{})}
			q := impl.delaying(settings{clock: fake, queue: inner})
			defer synctest.Wait()
			defer q.ShutDown()
			synctest.Wait() // client-go's goroutine must not be among the calls that are held up.
			play(t, impl, q, inner, fake)
		})
	})
}

// TestAddAfterDoesNotBlock is about an AddAfter while due items are being
// added, to an inner queue that takes its time.
func TestAddAfterDoesNotBlock(t *testing.T) {
	aboveAGate(t, func(t *testing.T, impl implementation, q delayingQueue[string], inner *gate, fake *clocktesting.FakeClock) {
		barrier := make(chan struct{})
		inner.adds.Store(&barrier)
		q.AddAfter("due", time.Second)
		synctest.Wait()
		fake.Step(time.Second)
		synctest.Wait()
		returned := addMany(q)
		synctest.Wait()
		outcome[int64]{handover, new(int64(1000))}.check(t, impl, "returned while due items are added", returned.Load())
		close(barrier)
		synctest.Wait()
		if n := returned.Load(); n != handover {
			t.Errorf("%d returned after all", n)
		}
	})
}

// TestAddAfterEndsWithDrain_kubernetes134323 is about an AddAfter that begins
// before the shutdown and gets the processor only long afterwards.
func TestAddAfterEndsWithDrain_kubernetes134323(t *testing.T) {
	aboveAGate(t, func(t *testing.T, impl implementation, q delayingQueue[string], inner *gate, fake *clocktesting.FakeClock) {
		barrier := make(chan struct{})
		inner.asks.Store(&barrier)
		returned := addMany(q)
		synctest.Wait()
		inner.asks.Store(nil)
		q.ShutDownWithDrain()
		fake.Step(10 * time.Second) // The heartbeat that ends client-go's goroutine.
		synctest.Wait()
		close(barrier)
		synctest.Wait()
		outcome[int64]{handover, new(int64(1000))}.check(t, impl, "returned after the drain", returned.Load())
	})
}

// A full queue has no room for anything: its Add blocks until it is shut down,
// as that of a bounded queue may.
type full struct {
	typedQueue[string]
	down chan struct{}
	once *sync.Once
}

func (f full) Add(string) { <-f.down }

func (f full) ShutDown() {
	f.once.Do(func() { close(f.down) })
	f.typedQueue.ShutDown()
}

func (f full) ShutDownWithDrain() {
	f.once.Do(func() { close(f.down) })
	f.typedQueue.ShutDownWithDrain()
}

// TestShutDownReleasesTheQueueBelow is about who is told first. The goroutine
// of the delaying queue is in the inner queue's Add, and comes out of there
// only when the inner queue is shut down: to wait for it before is to wait for
// ever.
func TestShutDownReleasesTheQueueBelow(t *testing.T) {
	stops := map[string]func(delayingQueue[string]){
		"ShutDown":          delayingQueue[string].ShutDown,
		"ShutDownWithDrain": delayingQueue[string].ShutDownWithDrain,
	}
	onEach(t, func(t *testing.T, impl implementation) {
		for name, stop := range stops {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fake := clocktesting.NewFakeClock(time.Now())
					inner := full{impl.queue(settings{}), make(chan struct{}), new(sync.Once)}
					q := impl.delaying(settings{clock: fake, queue: inner})
					defer synctest.Wait()
					defer q.ShutDown()
					q.AddAfter("a", time.Second)
					synctest.Wait()
					fake.Step(time.Second)
					synctest.Wait()
					returned := false
					go func() {
						stop(q)
						returned = true
					}()
					synctest.Wait()
					if !returned {
						t.Error("it waits for the goroutine that waits for it")
						inner.ShutDown()
					}
				})
			})
		}
	})
}
