package slab_test

import (
	"math"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/gate"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// Hash functions from good to the worst: with the last two, all items share a home, at
// either end of the index. Then every probe is a scan, and every removal moves the entries
// behind it round the corner.
var hashes = map[string]func(float64) uint32{
	"real":      slab.HashOf[float64],
	"four":      func(f float64) uint32 { return uint32(f) % 4 },
	"neighbors": func(f float64) uint32 { return math.MaxUint32 - uint32(f)%8 },
	"zero":      func(float64) uint32 { return 0 },
	"max":       func(float64) uint32 { return math.MaxUint32 },
}

// The table agrees with a map, through growth, the moves from an old index, and shrinking.
func TestTableAgainstMap(t *testing.T) {
	t.Parallel()
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			keys, steps := 3000, 30_000
			if name != "real" {
				keys, steps = 300, 6_000
			}
			d := &tableDuel{t: t, hash: hash, has: make(map[float64]bool)}
			rnd := newRand(t)
			moved, shrinking := 0, 0
			for i := range steps {
				// Growing and draining phases: random steps alone hover about
				// half of the keys.
				add := rnd.IntN(10) < 8
				if i/(2*keys)%2 == 1 {
					add = !add
				}
				d.play(i, float64(rnd.IntN(keys)), add, i%1000 == 999)
				if d.table.Moving() {
					moved++
				}
				if d.table.Shrinking() {
					shrinking++
				}
			}
			for key := range d.has {
				if !d.table.Has(hash(key), key) {
					t.Errorf("%v is lost", key)
				}
			}
			if moved == 0 || shrinking == 0 {
				t.Errorf("an old index after %d steps, on the way to a smaller table after %d", moved, shrinking)
			}
		})
	}
}

// A tableDuel makes the same calls of a table and of a map.
type tableDuel struct {
	t     *testing.T
	hash  func(float64) uint32
	table slab.DrivenTable[float64]
	has   map[float64]bool
}

func (d *tableDuel) play(step int, key float64, add, shrink bool) {
	d.t.Helper()
	has, hash := d.has[key], d.hash(key)
	if found := d.table.Has(hash, key); found != has {
		d.t.Fatalf("step %d: finds %v: %v, want %v", step, key, found, has)
	}
	switch {
	case add && !has:
		d.table.Put(hash, key)
		d.has[key] = true
	case !add && has:
		d.table.Delete(hash, key)
		delete(d.has, key)
	}
	if shrink && len(d.has) > 100 {
		d.table.Begin()
	}
	if has && !add {
		if step%16 > 0 {
			d.table.Step(d.hash)
		} else if err := d.table.Shrink(d.hash, 1); err != nil {
			d.t.Fatalf("step %d: %v", step, err)
		}
	}
	checkTable(d.t, step, &d.table, len(d.has))
}

// checkTable looks at every step of a small table and at some of a large one.
func checkTable(t *testing.T, step int, table *slab.DrivenTable[float64], want int) {
	t.Helper()
	if table.Live() != want {
		t.Fatalf("after step %d: %d items, want %d", step, table.Live(), want)
	}
	if want < 40 || step%61 == 0 {
		checkInvariants(t, step, table)
	}
}

// A table is drained to the last item at each size around its thresholds.
func TestTableOfEverySize(t *testing.T) {
	for n := range 200 {
		var table slab.DrivenTable[float64]
		for i := range n {
			table.Put(slab.HashOf(float64(i)), float64(i))
		}
		checkInvariants(t, n, &table)
		for i := range n {
			if !table.Has(slab.HashOf(float64(i)), float64(i)) {
				t.Fatalf("%d of %d is not found", i, n)
			}
			table.Delete(slab.HashOf(float64(i)), float64(i))
		}
		checkInvariants(t, n, &table)
	}
}

// Records of items without a slot live among the others and are reused.
func TestTableWithNaNs(t *testing.T) {
	rnd := newRand(t)
	var table slab.DrivenTable[float64]
	nans := make(map[uint32]bool)
	has := make(map[float64]bool)
	for i := range 5000 {
		key := float64(rnd.IntN(500))
		switch hash := slab.HashOf(key); {
		case i%3 == 0:
			nans[table.PutNaN(math.NaN())] = true
		case i%3 == 1 && len(nans) > 0:
			for n := range nans {
				table.Release(n)
				delete(nans, n)
				break
			}
		case has[key]:
			table.Delete(hash, key)
			delete(has, key)
		default:
			table.Put(hash, key)
			has[key] = true
		}
		checkTable(t, i, &table, len(nans)+len(has))
	}
	if n, most := table.Records(), 2500; n > most {
		t.Errorf("%d records for at most %d items", n, most)
	}
}

// Items without a slot make the index grow while entries of the old index are left. The
// rest of the entries then moves at once.
func TestTableGrowsWhileItMoves(t *testing.T) {
	var table slab.DrivenTable[float64]
	n := 0
	put := func() {
		table.Put(slab.HashOf(float64(n)), float64(n))
		n++
	}
	for n < 100 || !table.Moving() {
		put()
	}
	for range table.Slots() {
		table.PutNaN(math.NaN())
	}
	slots := table.Slots()
	if put(); table.Slots() == slots {
		t.Fatalf("the index of %d slots has not grown", slots)
	}
	checkInvariants(t, n, &table)
	for i := range n {
		if !table.Has(slab.HashOf(float64(i)), float64(i)) {
			t.Fatalf("%d of %d is lost", i, n)
		}
	}
}

// Let an old index have n slots: it is gone after n/8 inserts, or after n/8 removals.
func TestTableMovesItsIndexInTime(t *testing.T) {
	for _, removes := range []bool{false, true} {
		var table slab.DrivenTable[float64]
		var nans []uint32
		for range 4000 {
			nans = append(nans, table.PutNaN(math.NaN()))
		}
		for _, i := range nans { // An insert then need not make a record.
			table.Release(i)
		}
		n := 0
		for n < 1000 || !table.Moving() {
			table.Put(slab.HashOf(float64(n)), float64(n))
			n++
		}
		for i := range table.Slots() / 2 / 8 {
			if key := float64(n + i); !removes {
				table.Put(slab.HashOf(key), key)
			} else {
				key -= float64(n)
				table.Delete(slab.HashOf(key), key)
			}
		}
		if table.Moving() {
			t.Errorf("removals %v: the old index is still there", removes)
		}
	}
}

// Records of items without a slot count too when the table shrinks.
func TestTableOfNaNsShrinks(t *testing.T) {
	var table slab.DrivenTable[float64]
	var nans []uint32
	for range 2000 {
		nans = append(nans, table.PutNaN(math.NaN()))
	}
	checkInvariants(t, 0, &table)
	for _, i := range nans {
		table.Release(i)
	}
	if checkInvariants(t, 1, &table); !table.Sparse() {
		t.Error("an empty table of 2000 records is not to shrink")
	}
}

// A table that has shrunk has room for twice the items, and no record to spare.
func TestTableShrinksAtEverySize(t *testing.T) {
	t.Parallel()
	for n := 0; n <= 1600; n += 16 {
		var table slab.DrivenTable[float64]
		for i := range 2 * n {
			table.Put(slab.HashOf(float64(i)), float64(i))
		}
		for i := range n {
			table.Delete(slab.HashOf(float64(2*i)), float64(2*i))
		}
		table.Begin()
		if err := table.Shrink(slab.HashOf, math.MaxInt); err != nil {
			t.Fatal(err)
		}
		if table.Records() != n {
			t.Errorf("%d records for %d items", table.Records(), n)
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

// A table that shrinks while its index moves to a larger index keeps the entries that have
// not moved.
func TestTableShrinksWhileItMoves(t *testing.T) {
	for growths := 3; growths < 10; growths++ {
		var table slab.DrivenTable[float64]
		n := 0
		for moving := 0; moving < growths; n++ {
			before := table.Moving()
			table.Put(slab.HashOf(float64(n)), float64(n))
			if !before && table.Moving() {
				moving++
			}
		}
		table.Delete(slab.HashOf(0.0), 0) // The last item then takes the place of the first.
		if !table.Moving() {
			t.Fatalf("the index of %d items has moved already", n)
		}
		table.Begin()
		for table.Sparse() {
			if err := table.Shrink(slab.HashOf, 1); err != nil {
				t.Fatal(err)
			}
			checkInvariants(t, n, &table)
		}
		for i := 1; i < n; i++ {
			if !table.Has(slab.HashOf(float64(i)), float64(i)) {
				t.Fatalf("%d of %d is lost", i, n)
			}
		}
	}
}

// No removal moves more than 32 records: every call of a queue waits for the lock meanwhile.
func TestTableShrinksInSteps(t *testing.T) {
	var table slab.Table[int, slab.None]
	const n = 20_000
	for i := range n {
		at, _ := table.Find(slab.HashOf(i), i)
		_, r := table.Insert(at, slab.HashOf(i), i)
		r.State = 1
	}
	total := 0
	for i := range n - 100 { // The last records move to the places of the first.
		at, r := table.Find(slab.HashOf(i), i)
		table.Remove(at, r)
		if !table.Sparse() {
			continue
		}
		moved := 0
		table.Shrink(func(_, _ uint32, _ *slab.Record[int, slab.None]) { moved++ })
		if total += moved; moved > 32 {
			t.Fatalf("the removal of %d of %d items moves %d records, want at most 32", i+1, n, moved)
		}
	}
	if total < 100 {
		t.Errorf("%d records have moved, want the 100 that are left", total)
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
	var table slab.DrivenTable[float64]
	const n = 100_000
	for i := range n {
		table.Put(slab.HashOf(float64(i)), float64(i))
	}
	shrinks := 0
	for i := range n {
		table.Delete(slab.HashOf(float64(i)), float64(i))
		shrinking := table.Shrinking()
		if moves := table.Step(slab.HashOf); moves > 32 {
			t.Errorf("a step has moved %d records", moves)
		}
		if shrinking != table.Shrinking() {
			shrinks++
			for j := i + 1; j < min(i+100, n); j++ {
				if !table.Has(slab.HashOf(float64(j)), float64(j)) {
					t.Fatalf("%d is lost when %d items are left", j, n-i-1)
				}
			}
		}
	}
	if table.Slots() > 2048 || table.Records() > 1024 {
		t.Errorf("%d slots and %d records are left, want at most 2048 and 1024", table.Slots(), table.Records())
	}
	if shrinks == 0 || shrinks > 8 {
		t.Errorf("it has begun or ended to shrink %d times", shrinks)
	}
}

// A walk sees each item that stays once, while items come and go around it. A record that moves to
// a place behind the walk would be missed. The steps that wait for the walk are taken afterwards.
func TestWalkWhileTheTableShrinks(t *testing.T) {
	rnd := newRand(t)
	var table slab.DrivenTable[float64]
	const n, stays = 20_000, 50
	for i := range n {
		table.Put(slab.HashOf(float64(i)), float64(i))
	}
	gone, pieces := 0, 0
	remove := func(many int) {
		for range many {
			for gone%stays == 0 {
				gone++
			}
			if gone < n {
				table.Delete(slab.HashOf(float64(gone)), float64(gone))
				table.Step(slab.HashOf)
				gone++
			}
		}
	}
	remove(n * 3 / 4)
	var mu gate.Mutex
	seen := make(map[float64]int)
	table.Walk(&mu, func(items []float64) {
		if pieces++; len(items) > 256 {
			t.Errorf("a piece of %d items", len(items))
		}
		for _, item := range items {
			seen[item]++
		}
		remove(2000)
		item := n + float64(rnd.IntN(1000))
		if !table.Has(slab.HashOf(item), item) {
			table.Put(slab.HashOf(item), item)
		}
	})
	for i := 0; i < n; i += stays {
		if seen[float64(i)] != 1 {
			t.Errorf("%d was seen %d times", i, seen[float64(i)])
		}
	}
	if pieces < 4 || gone < n || !table.Sparse() {
		t.Errorf("%d pieces, %d of %d items removed, sparse %v: nothing was tried", pieces, gone, n, table.Sparse())
	}
	remove(1)
	table.Settle(&mu)
	checkInvariants(t, 0, &table)
	if table.Sparse() || table.Records() != table.Live() {
		t.Errorf("%d records for %d items, sparse %v", table.Records(), table.Live(), table.Sparse())
	}
}

// BenchmarkShrink removes 15 of 16 items of a million. It reports the longest removal, and the
// longest of the pieces in which the table shrinks without removals afterwards, in the round where
// each was shortest: the other rounds show when the system let another program run. Copied at once,
// as the table was once, the items took 10 to 20 ms.
func BenchmarkShrink(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const n = 1_000_000
	removal, piece := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for b.Loop() {
		b.StopTimer()
		var table slab.DrivenTable[string]
		item := func(i int) string { return "namespace/object-" + strconv.Itoa(i) }
		for i := range n {
			table.Put(slab.HashOf(item(i)), item(i))
		}
		b.StartTimer()
		longest := time.Duration(0)
		for i := range n {
			if i%16 == 0 {
				continue
			}
			item := item(i)
			hash := slab.HashOf(item)
			start := time.Now()
			table.Delete(hash, item)
			table.Step(slab.HashOf)
			longest = max(longest, time.Since(start))
		}
		removal, longest = min(removal, longest), 0
		for table.Sparse() {
			start := time.Now()
			table.Step(slab.HashOf)
			longest = max(longest, time.Since(start))
		}
		piece = min(piece, longest)
	}
	b.ReportMetric(float64(removal.Microseconds()), "us/longest-removal")
	b.ReportMetric(float64(piece.Microseconds()), "us/longest-step")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/item")
}

// A table that grows again takes its spare, unless the garbage collector was first.
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

// A spare that was far too large is not kept for another time.
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
	for range 5 {
		table.to(200)
		table.to(4000)
	}
	if slots := table.table.Slots(); slots > 16_384 {
		t.Errorf("%d slots for 4000 items, want at most 16384", slots)
	}
}

// The entries of a large index have moved before the small index is full, also where the table
// shrinks from far too large an index: a spare.
func TestTableShrinksToASixteenthAtMost(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	table := &swing{t: t}
	table.to(100_000)
	table.to(50)
	table.to(800) // In the spare.
	large := table.table.Slots()
	table.to(700)
	if slots := table.table.Slots(); !table.table.Shrinking() || slots < large/16 {
		t.Errorf("%d slots, %d before, shrinking %v: want a sixteenth", slots, large, table.table.Shrinking())
	}
}

// Records of items without a slot can make the table sparse while its index grows. The entries of
// the old index then move first.
func TestTableShrinksAfterItsIndexHasMoved(t *testing.T) {
	var table slab.DrivenTable[float64]
	var nans []uint32
	for range 4000 {
		nans = append(nans, table.PutNaN(math.NaN()))
	}
	n := 0
	for n < 96 || !table.Moving() {
		table.Put(slab.HashOf(float64(n)), float64(n))
		n++
	}
	for _, i := range nans {
		table.Release(i)
		if table.Sparse() {
			break
		}
	}
	if !table.Moving() {
		t.Fatal("the index has moved already")
	}
	for table.Sparse() {
		table.Step(slab.HashOf)
		checkInvariants(t, n, &table)
	}
	for i := range n {
		if !table.Has(slab.HashOf(float64(i)), float64(i)) {
			t.Fatalf("%d of %d is lost", i, n)
		}
	}
}

// A swing is a table of the numbers from 0 on.
type swing struct {
	t     *testing.T
	table slab.DrivenTable[float64]
}

// to makes the table have n numbers.
func (s *swing) to(n int) {
	s.t.Helper()
	for i := s.table.Live(); i < n; i++ {
		s.table.Put(slab.HashOf(float64(i)), float64(i))
	}
	for i := s.table.Live() - 1; i >= n; i-- {
		s.table.Delete(slab.HashOf(float64(i)), float64(i))
		s.table.Step(slab.HashOf)
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
