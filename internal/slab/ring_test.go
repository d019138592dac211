package slab_test

import (
	"math"
	"testing"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// The ring agrees with a slice, with numbers that wrap at 2^32 on the way.
func TestRingAgainstSlice(t *testing.T) {
	t.Parallel()
	for _, start := range []uint32{0, 1, math.MaxUint32 - 2000, math.MaxUint32, 1 << 31} {
		rnd := newRand(t)
		r := slab.NewRingAt[int](start)
		first := start // The number of the first element.
		var model []int
		for i := range 20_000 {
			pushes := rnd.IntN(10) < 7
			if i/4000%2 == 1 {
				pushes = !pushes
			}
			switch {
			case pushes && rnd.IntN(8) == 0:
				first--
				if n := r.PushFront(i + 1); n != first {
					t.Fatalf("start %d, step %d: PushFront gave number %d, want %d", start, i, n, first)
				}
				model = append([]int{i + 1}, model...)
			case pushes:
				if n, want := r.Push(i+1), first+uint32(len(model)); n != want {
					t.Fatalf("start %d, step %d: Push gave number %d, want %d", start, i, n, want)
				}
				model = append(model, i+1)
			case len(model) > 0:
				if got := r.Pop(); got != model[0] {
					t.Fatalf("start %d, step %d: popped %d, want %d", start, i, got, model[0])
				}
				model = model[1:]
				first++
				if i%3 == 0 {
					r.Shrink()
				}
			}
			if r.Len() != len(model) {
				t.Fatalf("start %d, step %d: length %d, want %d", start, i, r.Len(), len(model))
			}
			if len(model) < 20 || i%101 == 0 {
				checkRing(t, i, r, first, model)
			}
		}
	}
}

func checkRing(t *testing.T, step int, r *slab.DrivenRing[int], first uint32, model []int) {
	t.Helper()
	checkInvariants(t, step, r)
	for j, want := range model {
		if got := r.At(first + uint32(j)); got != want {
			t.Fatalf("after step %d: element %d is %d, want %d", step, j, got, want)
		}
	}
}

// A large ring shrinks when less than a sixteenth of its buffer is in use.
func TestRingShrinksAtASixteenth(t *testing.T) {
	for _, row := range []struct{ most, left, room int }{
		{2048, 128, 2048},
		{2048, 127, 256},
		{1024, 0, 1024},
	} {
		r := slab.NewRingAt[int](0)
		for i := range row.most {
			r.Push(i)
		}
		for range row.most - row.left {
			r.Pop()
		}
		r.Shrink()
		if r.Room() != row.room {
			t.Errorf("room for %d is left around %d of %d elements, want %d", r.Room(), row.left, row.most, row.room)
		}
	}
}

func TestRingGivesItsBufferBack(t *testing.T) {
	r := slab.NewRingAt[int](0)
	for i := range 100_000 {
		r.Push(i)
	}
	for i := range 99_990 {
		if got := r.Pop(); got != i {
			t.Fatalf("popped %d, want %d", got, i)
		}
		r.Shrink()
	}
	if r.Room() > 1024 {
		t.Errorf("room for %d is left around 10 elements", r.Room())
	}
	room := r.Room()
	for i := range 10_000 {
		r.Push(i)
		r.Pop()
		r.Shrink()
	}
	if r.Room() != room {
		t.Errorf("room for %d became room for %d under a steady load", room, r.Room())
	}
}
