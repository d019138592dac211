package bench

import (
	"fmt"
	"testing"
)

// BenchmarkGrowth shows how the cost of an item changes with the number of
// others: of a cycle behind a standing backlog, and of an AddAfter while the
// items gather. Items are integers, or ten million strings would be most of what is
// measured.
func BenchmarkGrowth(b *testing.B) {
	for _, items := range []int{1_000, 10_000, 100_000, million, 10 * million} {
		fifos, delayings := fifos[int](0)[:3], delayings[int]()
		if items > million {
			// Filled with ten million items, the priority queue alone would take
			// longer than all the rest.
			fifos, delayings = fifos[:2], delayings[:2]
		}
		params := fmt.Sprintf("items=%d", items)
		each(b, "state=queued/"+params, fifos, standing(scaled(items)))
		each(b, "state=waiting/"+params, delayings, addAfter(integers(scaled(items))))
	}
}

func standing(items int) func(*testing.B, func() queue[int]) {
	return func(b *testing.B, open func() queue[int]) {
		q := open()
		defer q.ShutDown()
		fill(q, integers(items))
		for next := items; b.Loop(); next++ {
			q.Add(next)
			item, _ := q.Get()
			q.Done(item)
		}
	}
}

func integers(n int) []int {
	items := make([]int, n)
	for i := range items {
		items[i] = i
	}
	return items
}

// BenchmarkWorkers is 64k distinct items through 1 to 10,000 workers. Four
// producers are enough to keep them busy.
func BenchmarkWorkers(b *testing.B) {
	keys := stringKeys(scaled(population))
	for _, workers := range []int{1, 10, 100, 1000, 10_000} {
		each(b, fmt.Sprintf("workers=%d", workers), fifos[string](len(keys)+workers), contend(keys, 4, workers))
	}
}
