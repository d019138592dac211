package workqueue_test

import (
	"math"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// Hash functions from good to the worst there is: with the last ones all items
// share a home, at either end of the index, so that every probe is a scan and
// every removal moves what is behind it round the corner.
var hashes = map[string]func(float64) uint32{
	"real":      workqueue.HashOf[float64],
	"four":      func(f float64) uint32 { return uint32(f) % 4 },
	"neighbors": func(f float64) uint32 { return math.MaxUint32 - uint32(f)%8 },
	"zero":      func(float64) uint32 { return 0 },
	"max":       func(float64) uint32 { return math.MaxUint32 },
}

// The table against a map, through growth, the moves from an old index, and
// compaction.
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
			moved := 0
			for i := range rounds(steps) {
				// Growing and draining phases: random steps alone hover about
				// half of the keys.
				add := rnd.IntN(10) < 8
				if i/(2*keys)%2 == 1 {
					add = !add
				}
				d.play(i, float64(rnd.IntN(keys)), add, rnd.IntN(1000) == 0)
				if d.table.Moving() {
					moved++
				}
			}
			for key := range d.has {
				if !d.table.Has(hash(key), key) {
					t.Errorf("%v is lost", key)
				}
			}
			if moved == 0 {
				t.Error("there was never an old index to move from")
			}
		})
	}
}

// A tableDuel makes the same calls of a table and of a map.
type tableDuel struct {
	t     *testing.T
	hash  func(float64) uint32
	table workqueue.Table[float64]
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
	if d.table.Sparse() || shrink && len(d.has) > 100 {
		if err := d.table.Shrink(); err != nil {
			d.t.Fatalf("step %d: %v", step, err)
		}
	}
	checkTable(d.t, step, &d.table, len(d.has))
}

// checkTable looks at every step of a small table and at some of a large one.
func checkTable(t *testing.T, step int, table *workqueue.Table[float64], want int) {
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
		var table workqueue.Table[float64]
		for i := range n {
			table.Put(workqueue.HashOf(float64(i)), float64(i))
		}
		checkInvariants(t, n, &table)
		for i := range n {
			if !table.Has(workqueue.HashOf(float64(i)), float64(i)) {
				t.Fatalf("%d of %d is not found", i, n)
			}
			table.Delete(workqueue.HashOf(float64(i)), float64(i))
		}
		checkInvariants(t, n, &table)
	}
}

// Records of items without a slot live among the others and are reused.
func TestTableWithUnindexedItems(t *testing.T) {
	rnd := newRand(t)
	var table workqueue.Table[float64]
	nans := make(map[uint32]bool)
	has := make(map[float64]bool)
	for i := range 5000 {
		key := float64(rnd.IntN(500))
		switch hash := workqueue.HashOf(key); {
		case i%3 == 0:
			nans[table.PutUnindexed(math.NaN())] = true
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

// They make the index grow while the one before is still being moved, which is
// then moved at once.
func TestTableGrowsWhileItMoves(t *testing.T) {
	var table workqueue.Table[float64]
	n := 0
	put := func() {
		table.Put(workqueue.HashOf(float64(n)), float64(n))
		n++
	}
	for n < 100 || !table.Moving() {
		put()
	}
	for range table.Slots() {
		table.PutUnindexed(math.NaN())
	}
	slots := table.Slots()
	if put(); table.Slots() == slots {
		t.Fatalf("the index of %d slots has not grown", slots)
	}
	checkInvariants(t, n, &table)
	for i := range n {
		if !table.Has(workqueue.HashOf(float64(i)), float64(i)) {
			t.Fatalf("%d of %d is lost", i, n)
		}
	}
}

// An old index is gone after an eighth as many inserts as it had slots, or as
// many removals.
func TestTableMovesItsIndexInTime(t *testing.T) {
	for _, removes := range []bool{false, true} {
		var table workqueue.Table[float64]
		var nans []uint32
		for range 4000 {
			nans = append(nans, table.PutUnindexed(math.NaN()))
		}
		for _, i := range nans { // So that an insert need not make a record.
			table.Release(i)
		}
		n := 0
		for n < 1000 || !table.Moving() {
			table.Put(workqueue.HashOf(float64(n)), float64(n))
			n++
		}
		for i := range table.Slots() / 2 / 8 {
			if key := float64(n + i); !removes {
				table.Put(workqueue.HashOf(key), key)
			} else {
				key -= float64(n)
				table.Delete(workqueue.HashOf(key), key)
			}
		}
		if table.Moving() {
			t.Errorf("removals %v: the old index is still there", removes)
		}
	}
}
