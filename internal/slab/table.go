package slab

import (
	"hash/maphash"
	"reflect"
	"weak"
)

// A Table holds one record per item and finds it by the item.
//
// The records lie in a slab and are named by their index, a uint32, so that
// the structures around the table (the line of queued items, the heap of
// waiting ones) refer to an item with four bytes and no pointer. Slots is an
// open-addressing index over the slab, probed linearly, with the hash kept
// beside the reference: a probe that misses stays within one or two cache
// lines and never touches the slab.
//
// Only Compact takes longer for a large table. When the index is full, one of
// twice the size takes its place, and the old one is moved over step by step as
// items come and go. To move it at once takes 10 ms for a million items, and every
// call waits at the lock meanwhile.
//
// Invariants, for a slot s of Slots or Old:
//
//	len(Slots) is 0 or a power of two
//	limit == 3/4*len(Slots), and no more slots than that are used
//	s.ref-1 is the index of a live record, or s.ref == 0
//	no two slots, in Slots and Old together, refer to the same record
//	every slot between a used one and its home (hash & mask) is used
//	Old[:swept] is unused, and Old[swept] too unless swept == 0
//	Old is nil when nothing is left to move
//	Live == number of records with a state other than freeRecord
//	low == max(limit, Records.N)/16, or 0 if that is no more than minRecords
//	a record that is free holds the zero item and is on the free list
//
// An item that differs from itself (NaN, or a struct holding one) can never be
// found again. It gets a record but no slot, see InsertUnindexed.
//
// The owner of the table decides what Pos means. A table is not safe for
// concurrent use; its zero value is empty.
type Table[T comparable, X any] struct {
	Slots   []Slot
	Records Pages[Record[T, X]]
	free    uint32 // 1 + index of the first free record, 0 for none
	Live    int
	limit   int

	Old   []Slot
	swept int

	low   int // live below it is few, see sparse
	spare weak.Pointer[spare[T, X]]
}

// A Slot is 8 bytes: at the load of 3/8 to 3/4 that growth by doubling gives,
// the index costs 11 to 21 bytes an item.
type Slot struct {
	hash uint32
	ref  uint32 // 1 + index of the record
}

type Record[T comparable, X any] struct {
	Item T
	// pos is the item's place in the structure that state names, or for a free
	// record the next one on the free list.
	Pos   uint32
	X     X // what else the owner keeps of the item
	State State
	Note  uint8 // the owner's, in a byte that would be padding
}

// None is for an owner that keeps nothing else.
type None = struct{}

type State uint8

const freeRecord State = 0

const (
	// minRecords is the number of records below which nothing shrinks:
	// releasing the last 30 KiB would only make a queue that swings between
	// empty and a few hundred items allocate on each swing. Not tuned further.
	MinRecords = 768

	// minSlots is the smallest index that compact makes: what minRecords need.
	minSlots = MinRecords / 3 * 4

	// sweepStride is how many slots of an old index each insert or removal moves.
	// The new index takes 3/4 as many inserts as the old one had slots before
	// it is full in turn, so anything above 4/3 is done in time.
	sweepStride = 8
)

// HashSeed is shared by all tables: keys come from the program's own source of
// truth, and one seed per process is what keeps them from being chosen to
// collide.
var HashSeed = maphash.MakeSeed()

// HashOf hashes an item for a table. It panics, as a map would, when the
// dynamic value of an interface cannot be hashed; callers hash before they
// lock, so that the panic finds no lock held.
//
// HashOf is just too large to be inlined. Add and Done of the queue have it written out, see
// BenchmarkCycle.
func HashOf[T comparable](item T) uint32 {
	return uint32(maphash.Comparable(HashSeed, item))
}

// Find returns the record of an item, nil for none, and the slot that refers to
// it, or the empty slot where the search ended.
func (t *Table[T, X]) Find(hash uint32, item T) (at uint32, r *Record[T, X]) {
	at, r = t.Probe(t.Slots, hash, item)
	if r == nil && t.Old != nil {
		r = t.Fetch(at, hash, item)
	}
	return at, r
}

// Probe is find in one index. The hot methods of the queue call Probe themselves,
// where it is inlined, and leave the rest of find to what is called next: see
// BenchmarkCycle and BenchmarkDuplicate. It is just small enough for that. This is why
// the loop itself handles an index without slots.
func (t *Table[T, X]) Probe(slots []Slot, hash uint32, item T) (at uint32, r *Record[T, X]) {
	for at = hash; len(slots) > 0; at++ {
		at &= uint32(len(slots) - 1)
		s := slots[at]
		if s.ref == 0 {
			break
		}
		if s.hash == hash {
			r = t.Records.At(s.ref - 1)
			if r.Item == item {
				return at, r
			}
		}
	}
	return at, nil
}

// Fetch is the second half of find: it looks for an item in the old index, and
// moves it to the slot of the new one where the search there has ended.
func (t *Table[T, X]) Fetch(at, hash uint32, item T) *Record[T, X] {
	from, r := t.Probe(t.Old, hash, item)
	if r != nil {
		t.Slots[at] = t.Old[from]
		vacateSlot(t.Old, from)
	}
	return r
}

// Index returns the index of the record that a slot refers to.
func (t *Table[T, X]) Index(at uint32) uint32 { return t.Slots[at].ref - 1 }

// Insert adds a record for an item that find did not find, at the slot where
// it ended, and returns the record and its index.
func (t *Table[T, X]) Insert(at, hash uint32, item T) (uint32, *Record[T, X]) {
	if t.free == 0 || t.Live >= t.limit || t.Old != nil {
		at = t.prepare(at, hash)
	}
	i, r := t.claim(item)
	t.Slots[at] = Slot{hash: hash, ref: i + 1}
	return i, r
}

// prepare does what insert seldom has to do first: it makes room, or moves a
// part of the old index. It returns the slot that is then the item's.
func (t *Table[T, X]) prepare(at, hash uint32) uint32 {
	if t.free == 0 {
		t.extend()
	}
	if t.Live >= t.limit {
		t.grow()
	}
	if t.Old != nil {
		t.sweep(sweepStride)
	}
	return emptySlot(t.Slots, hash)
}

// InsertUnindexed adds a record that find will not find.
func (t *Table[T, X]) InsertUnindexed(item T) (uint32, *Record[T, X]) {
	if t.free == 0 {
		t.extend()
	}
	return t.claim(item)
}

// InsertAny is insert, or insertUnindexed for an item that find would not find.
func (t *Table[T, X]) InsertAny(at, hash uint32, item T) (uint32, *Record[T, X]) {
	if Equal(item, item) {
		return t.Insert(at, hash, item)
	}
	return t.InsertUnindexed(item)
}

// claim uses the first free record, which there must be.
func (t *Table[T, X]) claim(item T) (uint32, *Record[T, X]) {
	t.Live++
	i := t.free - 1
	r := t.Records.At(i)
	t.free = r.Pos
	r.Item = item
	return i, r
}

// extend makes a free record.
func (t *Table[T, X]) extend() {
	t.reusePages()
	t.free = 1 + t.Records.Push(Record[T, X]{})
	t.setLow()
}

// Remove empties the slot and frees its record, which the caller has at hand.
func (t *Table[T, X]) Remove(at uint32, r *Record[T, X]) {
	t.Release(t.Index(at), r)
	if t.Slots[(at+1)&uint32(len(t.Slots)-1)].ref != 0 {
		at = closeSlot(t.Slots, at)
	}
	t.Slots[at] = Slot{}
	if t.Old != nil {
		t.sweep(sweepStride)
	}
}

// Release frees a record that has no slot, or whose slot the caller clears.
func (t *Table[T, X]) Release(i uint32, r *Record[T, X]) {
	t.Live--
	*r = Record[T, X]{Pos: t.free}
	t.free = i + 1
}

// RemoveAny removes a record that insertAny has made. The slot is the one where find has
// ended.
func (t *Table[T, X]) RemoveAny(at, i uint32, r *Record[T, X]) {
	if Equal(r.Item, r.Item) {
		t.Remove(at, r)
	} else {
		t.Release(i, r)
	}
}

// grow doubles the index. If the one before has not been moved yet, as can be
// after many items without a slot, it is now.
func (t *Table[T, X]) grow() {
	t.sweep(len(t.Old))
	t.Old, t.swept = t.Slots, 0
	t.use(t.newSlots(max(8, 2*len(t.Old))))
}

func (t *Table[T, X]) use(slots []Slot) {
	t.Slots = slots
	t.limit = len(slots) / 4 * 3
	t.setLow()
}

// sweep moves n slots of the old index, and what follows them up to the next
// empty one: no entry that stays behind can then have been looked for beyond
// one that has left, so that no entry has to be closed up. Closing up each one
// costs a burst of 64k adds a third more time.
func (t *Table[T, X]) sweep(n int) {
	at := t.swept
	for end := at + n; at < len(t.Old) && (at < end || t.Old[at].ref != 0); at++ {
		if s := t.Old[at]; s.ref != 0 {
			t.Slots[emptySlot(t.Slots, s.hash)] = s
			t.Old[at] = Slot{}
		}
	}
	t.swept = at
	if at == len(t.Old) {
		t.Old = nil
	}
}

// emptySlot returns the first empty slot for a hash.
func emptySlot(slots []Slot, hash uint32) uint32 {
	mask := uint32(len(slots) - 1)
	at := hash & mask
	for slots[at].ref != 0 {
		at = (at + 1) & mask
	}
	return at
}

// vacateSlot empties a slot.
func vacateSlot(slots []Slot, at uint32) {
	slots[closeSlot(slots, at)] = Slot{}
}

// closeSlot moves entries that follow the slot into it and into the slots that
// they leave, and returns the last of these, to be emptied: so there are no
// tombstones, and an index at a steady load is never rebuilt. An entry may move
// to the gap unless its home lies behind the gap.
func closeSlot(slots []Slot, at uint32) uint32 {
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

// setLow sets the low-water mark, whenever the slab or the index has grown.
func (t *Table[T, X]) setLow() {
	t.low = 0
	if high := max(t.limit, t.Records.N); high > MinRecords {
		t.low = high / 16
	}
}

// Sparse reports whether the table has fallen so far below its high-water mark
// that compact is worth its cost: to less than a sixteenth. The copying is
// amortized over the removals that there have been for each item left, seven at
// least: an index that has just doubled has room for twice the items.
func (t *Table[T, X]) Sparse() bool {
	return t.Live < t.low
}

// Compact moves the live records to the front of a new slab and rebuilds the
// index, with room for twice as many. It calls moved for each record, with its
// old and its new index, and the record in its new place. It takes time
// proportional to the old size, some 10 ns an item at the high-water mark.
//
// The old index and slab become a spare, unless the index was one and the items
// that it has room for have not come: a queue that swings between a hundred
// items and a few thousand would clear what a burst of a million once took, at
// each swing.
func (t *Table[T, X]) Compact(moved func(from, to uint32, r *Record[T, X])) {
	t.CompactLinked(moved, nil)
}

// CompactLinked is compact for records that refer to each other. When all have moved, it calls
// link with what tells the new index of an old one.
func (t *Table[T, X]) CompactLinked(moved func(from, to uint32, r *Record[T, X]), link func(now func(old uint32) uint32)) {
	t.sweep(len(t.Old))
	old := t.Records
	t.Records = Pages[Record[T, X]]{}
	t.free = 0
	for i := range uint32(old.N) {
		r := old.At(i)
		if r.State == freeRecord {
			continue
		}
		to := t.Records.Push(*r)
		moved(i, to, t.Records.At(to))
		// The old record is garbage from here on; its pos serves as the map
		// from old index to new for the references in the slots.
		r.Pos = to
	}
	if link != nil {
		link(func(i uint32) uint32 { return old.At(i).Pos })
	}
	size := minSlots
	for 3*size < 8*t.Live {
		size *= 2
	}
	slots := make([]Slot, size)
	for _, s := range t.Slots {
		if s.ref != 0 {
			slots[emptySlot(slots, s.hash)] = Slot{hash: s.hash, ref: old.At(s.ref-1).Pos + 1}
		}
	}
	worn, used := t.Slots, 16*old.N >= t.limit
	t.use(slots)
	if used {
		t.shelve(worn, old.directory)
	}
}

// A spare is what a table has taken out of use. It is garbage, but until that is
// collected, a table that grows again takes it instead of new memory. Bursts
// that follow each other so do without the seven moves of the index, and 64k
// adds take 40 ns an item instead of 81.
//
// All of its slots and records are zero.
type spare[T comparable, X any] struct {
	slots []Slot
	pages []*page[Record[T, X]]
}

// shelve makes a spare of an index and a slab, unless there is a larger one. It
// takes as long as clearing them does, 1 ns an item at the high-water mark.
func (t *Table[T, X]) shelve(slots []Slot, pages []*page[Record[T, X]]) {
	if s := t.spare.Value(); s != nil && len(s.slots) >= len(slots) {
		return
	}
	clear(slots)
	for _, p := range pages {
		clear(p[:])
	}
	t.spare = weak.Make(&spare[T, X]{slots: slots, pages: pages})
}

// newSlots returns an empty index of at least the given size.
func (t *Table[T, X]) newSlots(size int) []Slot {
	s := t.spare.Value()
	if s == nil || len(s.slots) < size {
		return make([]Slot, size)
	}
	slots := s.slots
	s.slots = nil
	return slots
}

// reusePages gives a slab that is full a chunk of pages, if there are any.
func (t *Table[T, X]) reusePages() {
	if t.Records.N < PageSize*len(t.Records.directory) {
		return
	}
	if s := t.spare.Value(); s != nil && len(s.pages) >= pageChunk {
		rest := len(s.pages) - pageChunk
		t.Records.directory = append(t.Records.directory, s.pages[rest:]...)
		clear(s.pages[rest:])
		s.pages = s.pages[:rest]
	}
}

// Equal exists because a comparison of a variable with itself, which only a
// NaN fails, looks like a mistake.
func Equal[T comparable](a, b T) bool { return a == b }

// Reflexive reports whether the type alone tells that its values are equal to
// themselves. For other types each item is asked, see BenchmarkCycle for what
// that costs.
func Reflexive(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128, reflect.Interface:
		return false
	case reflect.Array:
		return Reflexive(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !Reflexive(t.Field(i).Type) {
				return false
			}
		}
	}
	return true
}
