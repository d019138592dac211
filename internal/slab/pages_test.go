package slab_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// The ledger agrees with a map. The hand drops odd notes, as owners drop void notes.
func TestLedgerModel(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	var l slab.DrivenLedger[int]
	model := map[int]int{}
	for step := range 20_000 {
		item := r.IntN(1 + r.IntN(4000))
		switch r.IntN(4) {
		case 0, 1:
			note := r.Int()
			l.Put(item, note)
			model[item] = note
		case 2:
			l.Drop(item)
			delete(model, item)
		case 3:
			if item, note := l.Step(); note != nil && *note%2 == 1 {
				if *note != model[item] {
					t.Fatalf("step %d: the hand shows %d for %d, want %d", step, *note, item, model[item])
				}
				l.Drop(item)
				delete(model, item)
			}
		}
		want, ok := model[item]
		if note, found := l.Note(item); found != ok || note != want || l.Len() != len(model) {
			t.Fatalf("step %d: item %d is %d, %v of %d; want %d, %v of %d", step, item, note, found, l.Len(), want, ok, len(model))
		}
		if step%500 == 0 {
			checkInvariants(t, step, &l)
		}
	}
}

// A round of the hand comes to every item in the ledger at its begin, even if items are
// dropped and entered meanwhile.
func TestLedgerHandComesToAll(t *testing.T) {
	r := newRand(t)
	for range 100 {
		var l slab.DrivenLedger[int]
		n := 1 + r.IntN(100)
		unseen := map[int]bool{}
		for i := range n {
			l.Put(i, 0)
			unseen[i] = true
		}
		for step := range n {
			item, _ := l.Step()
			delete(unseen, item)
			if r.IntN(2) == 0 {
				l.Drop(item)
			}
			if r.IntN(4) == 0 {
				l.Put(n+step, 0)
			}
		}
		if len(unseen) > 0 {
			t.Fatalf("of %d items not seen in a round: %v", n, unseen)
		}
	}
}

func TestLedgerEmpty(t *testing.T) {
	var l slab.DrivenLedger[int]
	if _, note := l.Step(); note != nil {
		t.Error("the hand shows an item of none")
	}
	l.Drop(1)
	l.Put(1, 1)
	l.Drop(1)
	if _, note := l.Step(); note != nil || l.Len() != 0 {
		t.Error("the hand shows a dropped item")
	}
}

func TestLedgerGivesMemoryBack(t *testing.T) {
	t.Parallel()
	var l slab.DrivenLedger[int]
	for i := range 100_000 {
		l.Put(i, i)
	}
	for i := range 99_000 {
		l.Drop(i)
	}
	if room := l.Room(); room > 10_000 {
		t.Errorf("%d records for %d items", room, l.Len())
	}
	checkInvariants(t, 0, &l)
	for i := range 1000 {
		if note, _ := l.Note(99_000 + i); note != 99_000+i {
			t.Fatalf("item %d has the note %d", 99_000+i, note)
		}
	}
}

func TestLedgerKeepsNoNaN(t *testing.T) {
	var l slab.DrivenLedger[float64]
	l.Put(math.NaN(), 1)
	if l.Len() != 0 {
		t.Error("an item that cannot be found is kept")
	}
}

// Records come and go in random order, and barriers are raised and left, beside sets of records.
func TestBarriers(t *testing.T) {
	type waiter struct {
		barrier *slab.Barrier
		left    map[int]bool
	}
	for range 50 {
		var b slab.Barriers
		live, marks := map[int]bool{}, map[int]uint16{}
		var waiters []waiter
		pass := func(record int) {
			for _, w := range waiters {
				delete(w.left, record)
			}
			delete(live, record)
		}
		for step := range 2000 {
			record := rand.IntN(20)
			switch rand.IntN(5) {
			case 0, 1:
				if !live[record] {
					live[record], marks[record] = true, b.Mark
				}
			case 2:
				if live[record] {
					pass(record)
					b.Pass(marks[record])
				}
			case 3:
				if w := (waiter{b.Raise(len(live)), maps.Clone(live)}); w.barrier != nil {
					waiters = append(waiters, w)
				}
				if b.Mark > 100 { // In place of Full, for speed.
					b.Renumber(func(renumber func(mark *uint16)) {
						for record := range live {
							mark := marks[record]
							renumber(&mark)
							marks[record] = mark
						}
					})
				}
			default:
				if len(waiters) > 0 {
					i := rand.IntN(len(waiters))
					if left := b.Leave(waiters[i].barrier); left != len(waiters[i].left) {
						t.Fatalf("step %d: %d left, want %d", step, left, len(waiters[i].left))
					}
					waiters = slices.Delete(waiters, i, i+1)
				}
			}
			var all []uint16
			for record := range live {
				all = append(all, marks[record])
			}
			if err := b.CheckInvariants(all); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			waiters = slices.DeleteFunc(waiters, func(w waiter) bool {
				over := false
				select {
				case <-w.barrier.Over:
					over = true
				default:
				}
				if over != (len(w.left) == 0) {
					t.Fatalf("step %d: over: %v, with %d left", step, over, len(w.left))
				}
				return over
			})
		}
	}
}
