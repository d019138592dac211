package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// BenchmarkWakeUp sends an item to a worker that sleeps in Get and back through
// a second queue, in whose Get the sender sleeps by then: two wake-ups and two
// cycles.
func BenchmarkWakeUp(b *testing.B) {
	each(b, "workers=1", fifos[string](1), func(b *testing.B, open func() queue[string]) {
		there, back := open(), open()
		defer back.ShutDown()
		var worker sync.WaitGroup
		worker.Go(func() { forward(there, back) })
		defer worker.Wait()
		defer there.ShutDown()
		for b.Loop() {
			there.Add("ball")
			item, _ := back.Get()
			back.Done(item)
		}
	})
}

func forward(from, to queue[string]) {
	for {
		item, shutdown := from.Get()
		if shutdown {
			return
		}
		from.Done(item)
		to.Add(item)
	}
}

// BenchmarkContended has producers and workers on one queue at full speed. Of
// distinct items every Add leads to a Get and a Done. Hot items are 16 that all
// producers add over and over; how many of those Adds meet a duplicate depends
// on who is faster, and the time is per Add.
//
// Nothing holds the producers back, so a backlog builds up and is worked off in
// every batch: a queue that gives memory back pays here for getting it again.
func BenchmarkContended(b *testing.B) {
	distinct := stringKeys(scaled(population))
	hot := make([]string, len(distinct))
	for i := range hot {
		hot[i] = distinct[i%16]
	}
	for _, crew := range []struct{ producers, workers int }{{1, 1}, {1, 8}, {4, 4}, {16, 100}} {
		params := fmt.Sprintf("producers=%d/workers=%d/items=", crew.producers, crew.workers)
		peers := fifos[string](len(distinct) + crew.workers)
		each(b, params+"distinct", peers, contend(distinct, crew.producers, crew.workers))
		each(b, params+"hot", peers[:3], contend(hot, crew.producers, crew.workers))
	}
}

// contend runs batches in which the producers share the keys out. The workers
// are started off the clock; the batch ends when the last of them has seen its
// farewell, one of the short items that no key is equal to. A queue is first in
// first out, so everything before it has been handed out and done. Counting
// items instead would make all workers share one more cache line.
func contend(keys []string, producers, workers int) func(*testing.B, func() queue[string]) {
	farewells := make([]string, workers)
	for i := range farewells {
		farewells[i] = fmt.Sprint(i)
	}
	return func(b *testing.B, open func() queue[string]) {
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
			produce(q, keys, producers)
			fill(q, farewells)
			crew.Wait()
		}
		perItem(b, len(keys))
	}
}

// work must never leave before Done: hot items are added again meanwhile.
func work(q queue[string]) {
	const longestFarewell = len("9999")
	for {
		item, _ := q.Get()
		q.Done(item)
		if len(item) <= longestFarewell {
			return
		}
	}
}

func produce(q queue[string], keys []string, producers int) {
	var crew sync.WaitGroup
	for p := range producers {
		share := keys[p*len(keys)/producers : (p+1)*len(keys)/producers]
		crew.Go(func() {
			for _, key := range share {
				q.Add(key)
			}
		})
	}
	crew.Wait()
}
