package bench

import "testing"

// backlog is the number of items in the queue while another item goes through.
const backlog = population / 2

// BenchmarkCycle measures an item on an empty queue: Add, Get and Done by one goroutine, each time
// with another of 64k keys.
func BenchmarkCycle(b *testing.B) {
	each(b, "keys=string", fifos[string](1), cycle(stringKeys(population)))
	each(b, "keys=struct", fifos[objectKey](1), cycle(objectKeys(population)))
	each(b, "keys=any", untyped(1), cycle(anyKeys(population)))
}

// BenchmarkBacklog measures the same with 32k other queued items: every item waits for its turn,
// and no item is in a cache when its turn comes.
func BenchmarkBacklog(b *testing.B) {
	keys := stringKeys(population)
	each(b, "items=32k", fifos[string](backlog+1), func(b *testing.B, open func() queue[string]) {
		q := open()
		defer q.ShutDown()
		fill(q, keys[:backlog])
		turn(b, q, keys, backlog)
	})
}

// BenchmarkMetrics measures the cycle with Prometheus metrics that have classic and native
// histograms: with the usual provider of each project, and for our queue also with a provider like
// client-go's.
func BenchmarkMetrics(b *testing.B) {
	keys := stringKeys(population)
	each(b, "provider=shipped", metered(shipped), cycle(keys))
	each(b, "provider=pushed", metered(pushed), cycle(keys))
}

func cycle[T comparable](keys []T) func(*testing.B, func() queue[T]) {
	return func(b *testing.B, open func() queue[T]) {
		q := open()
		defer q.ShutDown()
		turn(b, q, keys, 0)
	}
}

func turn[T comparable](b *testing.B, q queue[T], keys []T, from uint) {
	for i := from; b.Loop(); i++ {
		q.Add(keys[i%population])
		item, _ := q.Get()
		q.Done(item)
	}
}

// fill queues the keys. The priority queue only notes an Add and does the work later; Len makes the
// queue do the work at once, and costs the other queues nothing.
func fill[T comparable](q queue[T], keys []T) {
	for _, key := range keys {
		q.Add(key)
	}
	q.Len()
}

// BenchmarkDuplicate measures an Add of a queued item, as most events of a busy object are: of one
// hot item, and of 64k items.
func BenchmarkDuplicate(b *testing.B) {
	keys := stringKeys(population)
	duplicate(b, "items=1", keys[:1])
	duplicate(b, "items=64k", keys)
}

// duplicate needs a power of two of keys.
func duplicate(b *testing.B, params string, keys []string) {
	again := copies(keys)
	peers := fifos[string](0)[:3] // a channel has no duplicates
	each(b, params, peers, func(b *testing.B, open func() queue[string]) {
		q := open()
		defer q.ShutDown()
		fill(q, keys)
		mask := uint(len(again) - 1)
		for i := uint(0); b.Loop(); i++ {
			q.Add(again[i&mask])
			if i%1024 == 0 {
				q.Len() // see fill; one in 1024 keeps the unpaid work bounded
			}
		}
	})
}
