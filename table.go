package workqueue

import (
	"hash/maphash"
	"weak"
)

// A table holds one record per item and finds it by the item.
//
// The records lie in a slab and are named by their index, a uint32, so that
// the structures around the table (the line of queued items, the heap of
// waiting ones) refer to an item with four bytes and no pointer. slots is an
// open-addressing index over the slab, probed linearly, with the hash kept
// beside the reference: a probe that misses stays within one or two cache
// lines and never touches the slab.
//
// Only compact takes longer for a large table. When the index is full, one of
// twice the size takes its place, and the old one is moved over step by step as
// items come and go. To move it at once takes 10 ms for a million items, and every
// call waits at the lock meanwhile.
//
// Invariants, for a slot s of slots or old:
//
//	len(slots) is 0 or a power of two
//	limit == 3/4*len(slots), and no more slots than that are used
//	s.ref-1 is the index of a live record, or s.ref == 0
//	no two slots, in slots and old together, refer to the same record
//	every slot between a used one and its home (hash & mask) is used
//	old[:swept] is unused, and old[swept] too unless swept == 0
//	old is nil when nothing is left to move
//	live == number of records with a state other than freeRecord
//	low == max(limit, records.n)/16, or 0 if that is no more than minRecords
//	a record that is free holds the zero item and is on the free list
//
// An item that differs from itself (NaN, or a struct holding one) can never be
// found again. It gets a record but no slot, see insertUnindexed.
//
// The owner of the table decides what pos means. A table is not safe for
// concurrent use; its zero value is empty.
type table[T comparable] struct {
	slots   []slot
	records pages[record[T]]
	free    uint32 // 1 + index of the first free record, 0 for none
	live    int
	limit   int

	old   []slot
	swept int

	low   int // live below it is few, see sparse
	spare weak.Pointer[spare[T]]
}

// A slot is 8 bytes: at the load of 3/8 to 3/4 that growth by doubling gives,
// the index costs 11 to 21 bytes an item.
type slot struct {
	hash uint32
	ref  uint32 // 1 + index of the record
}

type record[T comparable] struct {
	item T
	// pos is the item's place in the structure that state names, or for a free
	// record the next one on the free list.
	pos   uint32
	state state
}

type state uint8

const freeRecord state = 0

const (
	// minRecords is the number of records below which nothing shrinks:
	// releasing the last 30 KiB would only make a queue that swings between
	// empty and a few hundred items allocate on each swing. Not tuned further.
	minRecords = 768

	// minSlots is the smallest index that compact makes: what minRecords need.
	minSlots = minRecords / 3 * 4

	// sweepStride is how many slots of an old index each insert or removal moves.
	// The new index takes 3/4 as many inserts as the old one had slots before
	// it is full in turn, so anything above 4/3 is done in time.
	sweepStride = 8
)

// hashSeed is shared by all tables: keys come from the program's own source of
// truth, and one seed per process is what keeps them from being chosen to
// collide.
var hashSeed = maphash.MakeSeed()

// hashOf hashes an item for a table. It panics, as a map would, when the
// dynamic value of an interface cannot be hashed; callers hash before they
// lock, so that the panic finds no lock held.
//
// It is just too large to be inlined. Add and Done have it written out, see
// BenchmarkCycle.
func hashOf[T comparable](item T) uint32 {
	return uint32(maphash.Comparable(hashSeed, item))
}

// find returns the record of an item, nil for none, and the slot that refers to
// it, or the empty slot where the search ended.
func (t *table[T]) find(hash uint32, item T) (at uint32, r *record[T]) {
	at, r = t.probe(t.slots, hash, item)
	if r == nil && t.old != nil {
		r = t.fetch(at, hash, item)
	}
	return at, r
}

// probe is find in one index. The hot methods of [Typed] call it themselves,
// where it is inlined, and leave the rest of find to what is called next: see
// BenchmarkCycle and BenchmarkDuplicate. It is just small enough for that. This is why
// the loop itself handles an index without slots.
func (t *table[T]) probe(slots []slot, hash uint32, item T) (at uint32, r *record[T]) {
	for at = hash; len(slots) > 0; at++ {
		at &= uint32(len(slots) - 1)
		s := slots[at]
		if s.ref == 0 {
			break
		}
		if s.hash == hash {
			r = t.records.at(s.ref - 1)
			if r.item == item {
				return at, r
			}
		}
	}
	return at, nil
}

// fetch is the second half of find: it looks for an item in the old index, and
// moves it to the slot of the new one where the search there has ended.
func (t *table[T]) fetch(at, hash uint32, item T) *record[T] {
	from, r := t.probe(t.old, hash, item)
	if r != nil {
		t.slots[at] = t.old[from]
		vacateSlot(t.old, from)
	}
	return r
}

// index returns the index of the record that a slot refers to.
func (t *table[T]) index(at uint32) uint32 { return t.slots[at].ref - 1 }

// insert adds a record for an item that find did not find, at the slot where
// it ended, and returns the record and its index.
func (t *table[T]) insert(at, hash uint32, item T) (uint32, *record[T]) {
	if t.free == 0 || t.live >= t.limit || t.old != nil {
		at = t.prepare(at, hash)
	}
	i, r := t.claim(item)
	t.slots[at] = slot{hash: hash, ref: i + 1}
	return i, r
}

// prepare does what insert seldom has to do first: it makes room, or moves a
// part of the old index. It returns the slot that is then the item's.
func (t *table[T]) prepare(at, hash uint32) uint32 {
	if t.free == 0 {
		t.extend()
	}
	if t.live >= t.limit {
		t.grow()
	}
	if t.old != nil {
		t.sweep(sweepStride)
	}
	return emptySlot(t.slots, hash)
}

// insertUnindexed adds a record that find will not find.
func (t *table[T]) insertUnindexed(item T) (uint32, *record[T]) {
	if t.free == 0 {
		t.extend()
	}
	return t.claim(item)
}

// insertAny is insert, or insertUnindexed for an item that find would not find.
func (t *table[T]) insertAny(at, hash uint32, item T) (uint32, *record[T]) {
	if equal(item, item) {
		return t.insert(at, hash, item)
	}
	return t.insertUnindexed(item)
}

// claim uses the first free record, which there must be.
func (t *table[T]) claim(item T) (uint32, *record[T]) {
	t.live++
	i := t.free - 1
	r := t.records.at(i)
	t.free = r.pos
	r.item = item
	return i, r
}

// extend makes a free record.
func (t *table[T]) extend() {
	t.reusePages()
	t.free = 1 + t.records.push(record[T]{})
	t.setLow()
}

// remove empties the slot and frees its record, which the caller has at hand.
func (t *table[T]) remove(at uint32, r *record[T]) {
	t.release(t.index(at), r)
	if t.slots[(at+1)&uint32(len(t.slots)-1)].ref != 0 {
		at = closeSlot(t.slots, at)
	}
	t.slots[at] = slot{}
	if t.old != nil {
		t.sweep(sweepStride)
	}
}

// release frees a record that has no slot, or whose slot the caller clears.
func (t *table[T]) release(i uint32, r *record[T]) {
	t.live--
	*r = record[T]{pos: t.free}
	t.free = i + 1
}

// removeAny removes a record that insertAny has made. The slot is the one where find has
// ended.
func (t *table[T]) removeAny(at, i uint32, r *record[T]) {
	if equal(r.item, r.item) {
		t.remove(at, r)
	} else {
		t.release(i, r)
	}
}

// grow doubles the index. If the one before has not been moved yet, as can be
// after many items without a slot, it is now.
func (t *table[T]) grow() {
	t.sweep(len(t.old))
	t.old, t.swept = t.slots, 0
	t.use(t.newSlots(max(8, 2*len(t.old))))
}

func (t *table[T]) use(slots []slot) {
	t.slots = slots
	t.limit = len(slots) / 4 * 3
	t.setLow()
}

// sweep moves n slots of the old index, and what follows them up to the next
// empty one: no entry that stays behind can then have been looked for beyond
// one that has left, so that no entry has to be closed up. Closing up each one
// costs a burst of 64k adds a third more time.
func (t *table[T]) sweep(n int) {
	at := t.swept
	for end := at + n; at < len(t.old) && (at < end || t.old[at].ref != 0); at++ {
		if s := t.old[at]; s.ref != 0 {
			t.slots[emptySlot(t.slots, s.hash)] = s
			t.old[at] = slot{}
		}
	}
	t.swept = at
	if at == len(t.old) {
		t.old = nil
	}
}

// emptySlot returns the first empty slot for a hash.
func emptySlot(slots []slot, hash uint32) uint32 {
	mask := uint32(len(slots) - 1)
	at := hash & mask
	for slots[at].ref != 0 {
		at = (at + 1) & mask
	}
	return at
}

// vacateSlot empties a slot.
func vacateSlot(slots []slot, at uint32) {
	slots[closeSlot(slots, at)] = slot{}
}

// closeSlot moves entries that follow the slot into it and into the slots that
// they leave, and returns the last of these, to be emptied: so there are no
// tombstones, and an index at a steady load is never rebuilt. An entry may move
// to the gap unless its home lies behind the gap.
func closeSlot(slots []slot, at uint32) uint32 {
	mask := uint32(len(slots) - 1)
	for next := (at + 1) & mask; slots[next].ref != 0; next = (next + 1) & mask {
		s := slots[next]
		if (next-s.hash)&mask >= (next-at)&mask {
			slots[at] = s
			at = next
		}
	}
	return at
}
