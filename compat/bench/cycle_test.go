package bench

import "testing"

// backlog is the number of items that stand in the queue while one more goes
// through it.
const backlog = population / 2

// BenchmarkCycle is the life of an item that meets an empty queue: Add, Get,
// Done by one goroutine, each time with another of 64k keys.
func BenchmarkCycle(b *testing.B) {
	each(b, "keys=string", fifos[string](1), cycle(stringKeys(population)))
	each(b, "keys=struct", fifos[objectKey](1), cycle(objectKeys(population)))
	each(b, "keys=any", untyped(1), cycle(anyKeys(population)))
}

// BenchmarkBacklog is the same with 32k other items queued, so that every one
// of them waits its turn and none is in a cache when it comes.
func BenchmarkBacklog(b *testing.B) {
	keys := stringKeys(population)
	each(b, "items=32k", fifos[string](backlog+1), func(b *testing.B, open func() queue[string]) {
		q := open()
		defer q.ShutDown()
		fill(q, keys[:backlog])
		turn(b, q, keys, backlog)
	})
}

// BenchmarkMetrics is the cycle with Prometheus metrics that have classic and
// native histograms: of the provider that each project's users have, and, on
// our side, of one like client-go's.
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

// fill queues the keys. The priority queue only takes note of an Add and does
// the work later; Len makes it do so now, and costs the others nothing.
func fill[T comparable](q queue[T], keys []T) {
	for _, key := range keys {
		q.Add(key)
	}
	q.Len()
}

// BenchmarkDuplicate is an Add of what is queued already, which is what most
// events of a busy object are: of one hot item, and of 64k of them.
func BenchmarkDuplicate(b *testing.B) {
	keys := stringKeys(population)
	duplicate(b, "items=1", keys[:1])
	duplicate(b, "items=64k", keys)
}

// duplicate wants a power of two of keys.
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
