package slab

import (
	"iter"
	"runtime"
	"sync"
)

// walkPiece is how many records are looked at in one critical section.
const walkPiece = 256

// A walk is the place in a table up to which Walk has come. A compaction moves the place with
// the records.
type walk struct {
	at   uint32 // the next record
	next *walk  // another walk over the same table
}

// Walk visits what copy makes of the records of a table, in pieces and in no particular order.
// Records for which copy reports false are left out. The lock guards the table, and is held only
// while a piece is copied: items may come and go meanwhile. An item that stays is visited once. An
// item that comes meanwhile may be missed. A piece is valid until the next one.
func Walk[T comparable, X, E any](mu *sync.Mutex, t *Table[T, X], copy func(ref uint32, r *Record[T, X]) (E, bool)) iter.Seq[[]E] {
	return func(yield func([]E) bool) {
		var w walk
		t.startWalk(mu, &w)
		defer t.endWalk(mu, &w)
		piece := make([]E, 0, walkPiece)
		for more := true; more; more = len(piece) == 0 || yield(piece) {
			if piece, more = nextPiece(mu, t, &w, copy, piece[:0]); !more {
				return
			}
			// The unlock has woken the first who waits for the lock. Without the yield, the walk
			// takes the lock again before the other has a processor, until a mutex of Go
			// intervenes after a millisecond. See docs/decisions-locks.md.
			runtime.Gosched()
		}
	}
}

func (t *Table[T, X]) startWalk(mu *sync.Mutex, w *walk) {
	mu.Lock()
	defer mu.Unlock()
	w.next, t.walks = t.walks, w
}

func (t *Table[T, X]) endWalk(mu *sync.Mutex, w *walk) {
	mu.Lock()
	defer mu.Unlock()
	for at := &t.walks; *at != nil; at = &(*at).next {
		if *at == w {
			*at = w.next
			return
		}
	}
}

// nextPiece appends what copy makes of the next records to piece, and reports false if there were
// no records.
func nextPiece[T comparable, X, E any](mu *sync.Mutex, t *Table[T, X], w *walk, copy func(ref uint32, r *Record[T, X]) (E, bool), piece []E) (_ []E, more bool) {
	mu.Lock()
	defer mu.Unlock()
	end := uint32(min(int(w.at)+walkPiece, t.Records.N))
	more = w.at < end
	for ; w.at < end; w.at++ {
		r := t.Records.At(w.at)
		if r.State == freeRecord {
			continue
		}
		if e, ok := copy(w.at, r); ok {
			piece = append(piece, e)
		}
	}
	return piece, more
}

// moveWalks gives the walks their places after a compaction. A record in old that was moved has
// its new index as Pos.
func (t *Table[T, X]) moveWalks(old Pages[Record[T, X]]) {
	for w := t.walks; w != nil; w = w.next {
		for int(w.at) < old.N && old.At(w.at).State == freeRecord {
			w.at++
		}
		if int(w.at) < old.N {
			w.at = old.At(w.at).Pos
		} else {
			w.at = uint32(t.Records.N)
		}
	}
}
