package slab

import (
	"iter"
	"runtime"

	"github.com/seed16c08ea7/workqueue/internal/gate"
)

// walkPiece is how many records are looked at in one critical section.
const walkPiece = 256

// settleSteps is how many steps of Shrink are taken in one critical section, in 20 to 100 µs.
const settleSteps = 16

// Walk visits what copy makes of the records of a table, in pieces and in no particular order.
// Records for which copy reports false are left out. The lock guards the table, and is held only
// while a piece is copied: items may come and go meanwhile. An item that stays is visited once, as
// no record moves before the walk has ended. An item that comes meanwhile may be missed. A piece is
// valid until the next one.
func Walk[T comparable, X, E any](mu *gate.Mutex, t *Table[T, X], copy func(ref uint32, r *Record[T, X]) (E, bool)) iter.Seq[[]E] {
	return func(yield func([]E) bool) {
		t.countWalk(mu, 1)
		defer t.countWalk(mu, -1)
		at := uint32(0)
		piece := make([]E, 0, walkPiece)
		for more := true; more; more = len(piece) == 0 || yield(piece) {
			if piece, more = nextPiece(mu, t, &at, copy, piece[:0]); !more {
				return
			}
			// The unlock has woken the first who waits for the lock. Without the yield, the walk
			// takes the lock again before the other has a processor, until a mutex of Go
			// intervenes after a millisecond. See docs/decisions-locks.md.
			runtime.Gosched()
		}
	}
}

func (t *Table[T, X]) countWalk(mu *gate.Mutex, by int32) {
	mu.Lock()
	defer mu.Unlock()
	t.walks += by
}

// Settle takes the steps of a table that has to shrink, in pieces like those of Walk, unless
// there is a walk. The owner takes a step in the argument.
func Settle[T comparable, X any](mu *gate.Mutex, t *Table[T, X], step func()) {
	for t.settlePiece(mu, step) {
		runtime.Gosched()
	}
}

func (t *Table[T, X]) settlePiece(mu *gate.Mutex, step func()) (more bool) {
	mu.Lock()
	defer mu.Unlock()
	for range settleSteps {
		if !t.Sparse() || t.walks > 0 {
			return false
		}
		step()
	}
	return true
}

// nextPiece appends what copy makes of the next records to piece, and reports false if there were
// no records.
func nextPiece[T comparable, X, E any](mu *gate.Mutex, t *Table[T, X], at *uint32, copy func(ref uint32, r *Record[T, X]) (E, bool), piece []E) (_ []E, more bool) {
	mu.Lock()
	defer mu.Unlock()
	end := uint32(min(int(*at)+walkPiece, t.Records.N))
	more = *at < end
	for ; *at < end; *at++ {
		r := t.Records.At(*at)
		if r.State == freeRecord {
			continue
		}
		if e, ok := copy(*at, r); ok {
			piece = append(piece, e)
		}
	}
	return piece, more
}

// RoomFor returns a slice with room for n elements, for a copy that is made with a lock held. It
// writes to the memory: fresh memory of the system gets its pages at the first write, which
// would otherwise happen with the lock held.
func RoomFor[E any](n int) []E {
	s := make([]E, n)
	clear(s)
	return s[:0]
}
