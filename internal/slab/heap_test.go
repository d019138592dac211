package slab_test

import (
	"slices"
	"testing"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

type element struct{ key, place int }

// A heap agrees with a list that is searched, after any push, change and removal, and every
// element knows its place.
func TestHeapAgainstList(t *testing.T) {
	rnd := newRand(t)
	var h slab.Heap[*element]
	var list []*element
	for step := range 20_000 {
		switch n := len(list); {
		case n == 0 || rnd.IntN(5) < 2 && step%2000 < 1000:
			e := &element{key: rnd.IntN(100)}
			h.Push(uint64(e.key), &e.place, e)
			list = append(list, e)
		case rnd.IntN(2) == 0:
			e := list[rnd.IntN(n)]
			e.key = rnd.IntN(100)
			h.Fix(e.place, uint64(e.key))
		default:
			i := rnd.IntN(n)
			h.Remove(list[i].place)
			list = slices.Delete(list, i, i+1)
		}
		checkInvariants(t, step, h)
		for _, e := range list {
			if h[e.place].Value != e {
				t.Fatalf("step %d: an element says that it is at %d", step, e.place)
			}
		}
		if step%50 == 0 {
			checkOrder(t, h, list, step%7)
		}
	}
}

func checkOrder(t *testing.T, h slab.Heap[*element], list []*element, limit int) {
	t.Helper()
	var got, want []int
	slab.VisitInOrder(h, func(e *element) bool {
		got = append(got, e.key)
		return len(got) < limit
	})
	for _, e := range list {
		want = append(want, e.key)
	}
	slices.Sort(want)
	if len(want) > 0 && !slices.Equal(got, want[:min(max(1, limit), len(want))]) {
		t.Fatalf("the first %d are %v, want %v", limit, got, want)
	}
}
