package slab

import "github.com/seed16c08ea7/workqueue/internal/gate"

// This file drives the containers as their owners in the queue do.

// A DrivenTable is the index of items. The test chooses the hashes, to make items collide.
type DrivenTable[T comparable] struct{ Table[T, None] }

// Put inserts an item that the table does not have.
func (t *DrivenTable[T]) Put(hash uint32, item T) {
	at, _ := t.Find(hash, item)
	_, r := t.Insert(at, hash, item)
	r.State = 1
}

// PutNaN inserts an item that differs from itself.
func (t *DrivenTable[T]) PutNaN(item T) (i uint32) {
	i, r := t.InsertNaN(item)
	r.State = 1
	return i
}

// Release drops a record from PutNaN.
func (t *DrivenTable[T]) Release(i uint32) { t.Table.Release(i, t.Table.Records.At(i)) }

// Has reports whether the table finds the item.
func (t *DrivenTable[T]) Has(hash uint32, item T) bool {
	_, r := t.Find(hash, item)
	return r != nil && r.Item == item
}

// Delete removes an item that the table has.
func (t *DrivenTable[T]) Delete(hash uint32, item T) {
	at, r := t.Find(hash, item)
	t.Remove(at, r)
}

// Begin begins to shrink a table that need not be sparse.
func (t *DrivenTable[T]) Begin() {
	if t.sweep(len(t.Old)); !t.shrinking {
		t.beginShrink()
	}
}

// Shrink takes steps to a smaller table, while the table is sparse, and checks the records that the
// owner is told of.
func (t *DrivenTable[T]) Shrink(hashOf func(T) uint32, steps int) error {
	if !t.Sparse() {
		return nil
	}
	before := make(map[uint32]T)
	for i := range uint32(t.Table.Records.N) {
		if r := t.Table.Records.At(i); r.State != freeRecord {
			before[i] = r.Item
		}
	}
	var errs Check
	for ; steps > 0 && t.Sparse(); steps-- {
		t.shrink(hashOf, func(from, to uint32, r *Record[T, None]) {
			item, ok := before[from]
			errs.That(ok && (item == r.Item || item != item), "shrink: record %d was %v and became %v", from, item, r.Item)
			errs.That(r == t.Table.Records.At(to) && to < from, "shrink: record %d is not in its new place %d", from, to)
			delete(before, from)
			before[to] = item
		})
	}
	for i, item := range before {
		errs.That(int(i) < t.Table.Records.N && (t.Table.Records.At(i).Item == item || item != item), "shrink: record %d was %v and is lost", i, item)
	}
	return errs.Err()
}

func (t *DrivenTable[T]) Sparse() bool { return t.Table.Sparse() }
func (t *DrivenTable[T]) Live() int    { return t.Table.Live }
func (t *DrivenTable[T]) Slots() int   { return len(t.Table.Slots) }
func (t *DrivenTable[T]) Records() int { return t.Table.Records.N }

// Step takes a step to a smaller table, if the table is sparse. It returns how many records have
// moved.
func (t *DrivenTable[T]) Step(hashOf func(T) uint32) (moves int) {
	if t.Sparse() {
		t.shrink(hashOf, func(_, _ uint32, _ *Record[T, None]) { moves++ })
	}
	return moves
}

// Settle takes all steps.
func (t *DrivenTable[T]) Settle(mu *gate.Mutex) {
	Settle(mu, &t.Table, func() { t.Step(HashOf) })
}

// Walk calls visit with the items of the table, in pieces.
func (t *DrivenTable[T]) Walk(mu *gate.Mutex, visit func(items []T)) {
	for items := range Walk(mu, &t.Table, func(_ uint32, r *Record[T, None]) (T, bool) { return r.Item, true }) {
		visit(items)
	}
}

// Shrinking reports whether the table is on the way to a smaller one.
func (t *DrivenTable[T]) Shrinking() bool { return t.shrinking }

// Moving reports whether there is an old index to move over.
func (t *DrivenTable[T]) Moving() bool { return t.Old != nil }

// A DrivenRing is the line of queued items.
type DrivenRing[E any] struct{ Ring[E] }

// NewRingAt returns a ring whose first element will have the given number.
func NewRingAt[E any](number uint32) *DrivenRing[E] {
	return &DrivenRing[E]{Ring[E]{head: number, tail: number}}
}

func (r *DrivenRing[E]) Push(e E) uint32      { return r.Ring.Push(e) }
func (r *DrivenRing[E]) PushFront(e E) uint32 { return r.Ring.pushFront(e) }
func (r *DrivenRing[E]) Pop() E               { return r.Ring.Pop() }
func (r *DrivenRing[E]) At(number uint32) E   { return *r.Ring.at(number) }
func (r *DrivenRing[E]) Len() int             { return r.Ring.Len() }
func (r *DrivenRing[E]) Room() int            { return len(r.buf) }
func (r *DrivenRing[E]) Shrink()              { r.Ring.Shrink() }

// A DrivenLedger is a set of items with notes, which are numbers.
type DrivenLedger[T comparable] struct{ Ledger[T, int] }

// Put enters an item and sets its note.
func (l *DrivenLedger[T]) Put(item T, note int) { *l.Enter(HashOf(item), item) = note }

// Note returns the note on an item.
func (l *DrivenLedger[T]) Note(item T) (note int, found bool) {
	if n := l.Find(HashOf(item), item); n != nil {
		return *n, true
	}
	return note, false
}

// Drop removes an item.
func (l *DrivenLedger[T]) Drop(item T) { l.Remove(HashOf(item), item) }

// Turn moves the hand.
func (l *DrivenLedger[T]) Step() (item T, note *int) { return l.Ledger.Step() }

// Len returns the number of items.
func (l *DrivenLedger[T]) Len() int { return l.Ledger.Len() }

// Room returns how many items there are records for.
func (l *DrivenLedger[T]) Room() int { return l.items.Records.N }
