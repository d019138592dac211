package workqueue

// turns are what a census notes of an order in which the oldest item has its turns, to
// find the order of the hand-outs when the lock is free. That takes a set of what has
// had its turn.
type turns[T comparable] struct {
	every, since int // those of aging; every is 0 if there is no such order
	from         int // where the ranked items begin among those that are queued
	aged         []censusEntry[T]
}

// interleave puts the ranked items, which are in the order of the levels, in the order
// in which they will be handed out if no other is added. Each hand-out uses up one
// item of either order at most, so that as many of both suffice as are asked for.
func (c *census[T]) interleave() {
	t := &c.turns
	if t.every == 0 {
		return
	}
	ranked := c.queued[t.from:]
	order := make([]censusEntry[T], 0, len(ranked))
	gone := make(map[uint32]bool, len(ranked))
	next := func(of []censusEntry[T]) []censusEntry[T] {
		for gone[of[0].ref] {
			of = of[1:]
		}
		return of
	}
	top, aged := ranked, t.aged
	for range ranked {
		aged = next(aged)
		first := aged[0]
		if t.since+1 < t.every {
			top = next(top)
			first = top[0]
		}
		if t.since++; first.ref == aged[0].ref {
			t.since = 0
		}
		gone[first.ref] = true
		order = append(order, first)
	}
	copy(ranked, order)
}
