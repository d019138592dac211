package workqueue_test

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// They count beside the others for when the table shrinks.
func TestTableOfUnindexedItemsShrinks(t *testing.T) {
	var table workqueue.Table[float64]
	var nans []uint32
	for range 2000 {
		nans = append(nans, table.PutUnindexed(math.NaN()))
	}
	checkInvariants(t, 0, &table)
	for _, i := range nans {
		table.Release(i)
	}
	if checkInvariants(t, 1, &table); !table.Sparse() {
		t.Error("an empty table of 2000 records is not to shrink")
	}
}

// A table that is compacted gets room for twice what it has.
func TestTableCompactsAtEverySize(t *testing.T) {
	t.Parallel()
	for n := 0; n <= 1600; n += 16 {
		var table workqueue.Table[float64]
		for i := range n {
			table.Put(workqueue.HashOf(float64(i)), float64(i))
		}
		if err := table.Shrink(); err != nil {
			t.Fatal(err)
		}
		checkInvariants(t, n, &table)
		slots := 1024
		for slots*3/4 < 2*n {
			slots *= 2
		}
		if table.Slots() != slots {
			t.Errorf("%d slots for %d items, want %d", table.Slots(), n, slots)
		}
	}
}

// One that is compacted while its index moves to a larger one takes along what
// has not moved yet.
func TestTableCompactsWhileItMoves(t *testing.T) {
	for growths := 3; growths < 10; growths++ {
		var table workqueue.Table[float64]
		n := 0
		for moving := 0; moving < growths; n++ {
			before := table.Moving()
			table.Put(workqueue.HashOf(float64(n)), float64(n))
			if !before && table.Moving() {
				moving++
			}
		}
		table.Delete(workqueue.HashOf(0.0), 0) // So that the others are renumbered.
		if !table.Moving() {
			t.Fatalf("the index of %d items has moved already", n)
		}
		if err := table.Shrink(); err != nil {
			t.Fatal(err)
		}
		checkInvariants(t, n, &table)
		for i := 1; i < n; i++ {
			if !table.Has(workqueue.HashOf(float64(i)), float64(i)) {
				t.Fatalf("%d of %d is lost", i, n)
			}
		}
	}
}

// A spare is of no use to a table that has grown beyond it.
func TestTableOutgrowsItsSpare(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	table := &swing{t: t}
	for _, n := range []int{2000, 0, 20_000} {
		table.to(n)
		checkInvariants(t, n, &table.table)
	}
}

func TestTableGivesTheIndexBack(t *testing.T) {
	t.Parallel()
	var table workqueue.Table[float64]
	const n = 100_000
	for i := range n {
		table.Put(workqueue.HashOf(float64(i)), float64(i))
	}
	shrinks := 0
	for i := range n {
		table.Delete(workqueue.HashOf(float64(i)), float64(i))
		if table.Sparse() {
			shrinks++
			if err := table.Shrink(); err != nil {
				t.Fatal(err)
			}
			for j := i + 1; j < min(i+100, n); j++ {
				if !table.Has(workqueue.HashOf(float64(j)), float64(j)) {
					t.Fatalf("%d is lost when %d items are left", j, n-i-1)
				}
			}
		}
	}
	if table.Slots() > 2048 || table.Records() > 1024 {
		t.Errorf("%d slots and %d records are left, want at most 2048 and 1024", table.Slots(), table.Records())
	}
	if shrinks == 0 || shrinks > 5 {
		t.Errorf("it has shrunk %d times", shrinks)
	}
}

// A table that grows again takes what it has given up, if that is still there.
func TestTableTakesItsSpare(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const n = 20_000
	table := &swing{t: t}
	first := allocated(func() { table.to(n) })
	table.to(0)
	checkInvariants(t, 0, &table.table)
	second := allocated(func() { table.to(n) })
	checkInvariants(t, n, &table.table)
	if second > first/5 {
		t.Errorf("the second burst takes %d bytes of new memory, the first took %d", second, first)
	}
	table.to(0)
	runtime.GC()
	third := allocated(func() { table.to(n) })
	if third < first*4/5 {
		t.Errorf("after a garbage collection a burst takes %d bytes of new memory, the first took %d", third, first)
	}
}

// A spare that has been of no use is not kept for another time.
func TestTableDropsASpareOfNoUse(t *testing.T) {
	t.Parallel()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	table := &swing{t: t}
	table.to(100_000)
	table.to(200)
	table.to(4000)
	if slots := table.table.Slots(); slots < 100_000 {
		t.Fatalf("%d slots, want those of the spare", slots)
	}
	table.to(200)
	table.to(4000)
	if slots := table.table.Slots(); slots > 16_384 {
		t.Errorf("%d slots for 4000 items, want at most 16384", slots)
	}
}

// A swing is a table of the numbers from 0 on.
type swing struct {
	t     *testing.T
	table workqueue.Table[float64]
}

// to makes the table have n numbers.
func (s *swing) to(n int) {
	s.t.Helper()
	for i := s.table.Live(); i < n; i++ {
		s.table.Put(workqueue.HashOf(float64(i)), float64(i))
	}
	for i := s.table.Live() - 1; i >= n; i-- {
		s.table.Delete(workqueue.HashOf(float64(i)), float64(i))
		if s.table.Sparse() {
			if err := s.table.Shrink(); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
