package workqueue

import (
	"container/heap"
	"time"
)

// A tier is what a level of ranks holds: its records in their order, and which of them
// are elders, in a heap with the one that was added first at the top.
type tier struct {
	line
	elders []uint32
}

// elders find the oldest record of a tier for the metrics. Plain adds come in the order of
// their times, so that the oldest is the first of the tier. But a record that is raised,
// and one that was added while it was held and is queued by Done, comes with the time
// of its add. It is an elder if the tier has a younger one, or an elder already. So only
// these cost anything: 8 bytes each, and O(log n) time in the number of elders to come
// and to go.
//
// Invariants, for a record i in a tier:
//
//	i is an elder: tier.elders[places[i]-1] == i
//	i is none: places[i] == 0, and no other such record ahead of i in the tier is younger
//
// The last one holds as far as plain adds do come in that order. They read the clock
// before they have the lock, so that an age can be wrong by the time that one of them
// has waited for it.
//
// Without times there are no elders. It is not safe for concurrent use.
type elders struct {
	added  func(i uint32) time.Duration // nil if no times are kept
	places sparsePages[uint32]
	of     *tier // the one that the methods of the heap work on
}

// joins reports whether a record that comes with an earlier time is an elder. It is to be
// asked before the record is in the tier.
func (e *elders) joins(t *tier, i uint32) bool {
	if e.added == nil || t.empty() {
		return false
	}
	return len(t.elders) > 0 || e.added(i) < e.added(t.last())
}

// join makes a record an elder.
func (e *elders) join(t *tier, i uint32) {
	e.of = t
	heap.Push(e, i)
}

// leave has to be called for each record that leaves a tier with elders.
func (e *elders) leave(t *tier, i uint32) {
	if place := e.places.get(i); place > 0 {
		e.of = t
		heap.Remove(e, int(place-1))
	}
}

// oldest returns the time of the record that was added first in a tier with records.
func (e *elders) oldest(t *tier) time.Duration {
	added := e.added(t.first())
	if len(t.elders) > 0 {
		added = min(added, e.added(t.elders[0]))
	}
	return added
}

// renumber is that of ranks. A place stays what it was.
func (e *elders) renumber() (moved func(t *tier, from, to uint32)) {
	old := e.places
	e.places = nil
	return func(t *tier, from, to uint32) {
		if place := old.get(from); place > 0 {
			e.put(t, place, to)
		}
	}
}

func (e *elders) put(t *tier, place, i uint32) {
	t.elders[place-1] = i
	e.places.put(i, place)
}

// Len and the other exported methods are those of [heap.Interface].
func (e *elders) Len() int { return len(e.of.elders) }

func (e *elders) Less(a, b int) bool { return e.added(e.of.elders[a]) < e.added(e.of.elders[b]) }

func (e *elders) Swap(a, b int) {
	i, j := e.of.elders[a], e.of.elders[b]
	e.put(e.of, uint32(a)+1, j)
	e.put(e.of, uint32(b)+1, i)
}

func (e *elders) Push(i any) {
	e.of.elders = append(e.of.elders, i.(uint32))
	e.places.put(i.(uint32), uint32(len(e.of.elders)))
}

// Pop gives the memory back with the last elder, as a line does. Nobody wants what it
// returns.
func (e *elders) Pop() any {
	last := len(e.of.elders) - 1
	e.places.put(e.of.elders[last], 0)
	if e.of.elders = e.of.elders[:last]; last == 0 {
		e.of.elders = nil
	}
	return nil
}
