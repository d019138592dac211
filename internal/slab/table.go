package slab

import (
	"hash/maphash"
	"math"
	"reflect"
	"weak"
)

// A Table holds one record for each item, and finds the record by the item.
//
// The records lie in a slab. Their names are indices of type uint32, so the structures
// around the table (the line of queued items, the heap of waiting items) refer to an item
// by four bytes and no pointer. Slots is an open-addressing index over the slab with linear
// probing. A slot keeps the hash beside the reference: a probe that misses stays within one
// or two cache lines and never touches the slab.
//
// No call takes longer for a large table: to move all entries of a million items takes 10 ms,
// and every call would wait at the lock meanwhile. When the index is full, an index of twice
// the size takes its place, and the entries of the old index move step by step as items come
// and go. A table with few items left shrinks in steps too, see Shrink.
//
// Invariants, for a slot s of Slots or Old:
//
//	len(Slots) is 0 or a power of two
//	limit == 3/4*len(Slots), and no more slots than limit are used
//	s.ref-1 is the index of a live record, or s.ref == 0
//	no two slots, in Slots and Old together, refer to the same record
//	every slot between a used slot and its home (hash & mask) is used
//	Old[:swept] is unused, and Old[swept] too unless swept == 0
//	Old is nil when nothing is left to move
//	Live == number of records with a State other than freeRecord
//	a free record, and a record from Records.N on, has State freeRecord and the zero item
//	a free record is on the free list, or shrinking and its index is edge or more
//	shrinking: low is the largest number
//	otherwise: low == max(limit, Records.N)/16, or 0 if the maximum is no more than MinRecords
//
// An item that differs from itself (NaN, or a struct with a NaN) can never be found again.
// Such an item gets a record but no slot, see InsertNaN.
//
// The owner of the table decides what Pos means. A table is not safe for concurrent use.
// The zero table is empty.
type Table[T comparable, X any] struct {
	Slots   []Slot
	Records Pages[Record[T, X]]
	free    uint32 // 1 + index of the first free record, 0 for none
	edge    uint32 // shrinking: the records before edge need not move
	Live    int
	limit   int

	Old   []Slot
	swept int

	low   int // Sparse reports Live < low
	spare weak.Pointer[spare[T, X]]

	walks     int32 // how many walks there are: no record moves meanwhile
	shrinking bool
	worn      []Slot // the index before the shrinking, if it may become a spare
}

// A Slot is 8 bytes: at the load of 3/8 to 3/4 that growth by doubling gives,
// the index costs 11 to 21 bytes an item.
type Slot struct {
	hash uint32
	ref  uint32 // 1 + index of the record
}

type Record[T comparable, X any] struct {
	Item T
	// Pos is the place of the item in the structure that State names. For a free record,
	// Pos is the next record on the free list.
	Pos uint32
	X   X // further fields of the owner
	Tags
}

// Tags are small fields of a record. They are a struct, because the compiler keeps a struct in
// registers only if it has at most four fields: see BenchmarkAddAfter.
type Tags struct {
	State State
	Note  uint8  // for the owner, like Mark, in bytes of padding
	Mark  uint16 // also for the owner
}

// None is for an owner without further fields.
type None = struct{}

type State uint8

const freeRecord State = 0

const (
	// MinRecords is the number of records below which nothing shrinks. To release the last
	// 30 KiB would only make a queue that swings between empty and a few hundred items
	// allocate on each swing. Not tuned further.
	MinRecords = 768

	// minSlots is the smallest index that Shrink makes: enough for MinRecords.
	minSlots = MinRecords / 3 * 4

	// sweepStride is how many slots of an old index each insert or removal moves. The new
	// index is full after 3/4 as many inserts as the old index had slots. So any stride
	// above 4/3 is done in time.
	sweepStride = 8

	// shrinkStride is how many records a step of Shrink looks at, and how many slots it moves
	// beside those of sweepStride. The first step comes when a sixteenth of the records is left,
	// so the last one comes when half of these are removed: often no more are removed for long.
	shrinkStride = 32
)

// HashSeed is shared by all tables. Keys come from the source of truth of the program. The
// seed is new in each process, so nobody can choose keys that collide.
var HashSeed = maphash.MakeSeed()

// HashOf hashes an item for a table. Like a map, HashOf panics if the dynamic value of an
// interface cannot be hashed. Callers hash before they lock, so the panic finds no lock
// held.
//
// HashOf is just too large to be inlined. Add and Done of the queue have the code of HashOf
// written out, see BenchmarkCycle.
func HashOf[T comparable](item T) uint32 {
	return uint32(maphash.Comparable(HashSeed, item))
}

// Find returns the record of an item, nil for none, and the slot that refers to the record.
// If there is no record, at is the empty slot where the search ended.
func (t *Table[T, X]) Find(hash uint32, item T) (at uint32, r *Record[T, X]) {
	at, r = t.Probe(t.Slots, hash, item)
	if r == nil && t.Old != nil {
		r = t.Fetch(at, hash, item)
	}
	return at, r
}

// Probe is Find in one index. The hot methods of the queue call Probe themselves, where
// Probe is inlined, and leave the rest of Find to the calls after a miss: see
// BenchmarkCycle and BenchmarkDuplicate. Probe is just small enough to be inlined. The loop
// itself handles an index without slots, because a check before the loop would make Probe
// too large.
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

// Fetch is the second half of Find: it looks for an item in the old index, and moves the
// entry to the slot of the new index where the search has ended.
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

// Insert adds a record for an item that Find has not found, at the slot where Find ended,
// and returns the record and its index.
func (t *Table[T, X]) Insert(at, hash uint32, item T) (uint32, *Record[T, X]) {
	if t.free == 0 || t.Live >= t.limit || t.Old != nil {
		at = t.prepare(at, hash)
	}
	i, r := t.claim(item)
	t.Slots[at] = Slot{hash: hash, ref: i + 1}
	return i, r
}

// prepare does the rare first steps of Insert: it makes room, or moves a part of the old
// index. It returns the slot of the item afterwards.
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

// InsertNaN adds a record without a slot, for an item that Find cannot find.
func (t *Table[T, X]) InsertNaN(item T) (uint32, *Record[T, X]) {
	if t.free == 0 {
		t.extend()
	}
	return t.claim(item)
}

// InsertAny is Insert, or InsertNaN for an item that differs from itself.
func (t *Table[T, X]) InsertAny(at, hash uint32, item T) (uint32, *Record[T, X]) {
	if Equal(item, item) {
		return t.Insert(at, hash, item)
	}
	return t.InsertNaN(item)
}

// claim uses the first free record. There must be a free record.
func (t *Table[T, X]) claim(item T) (uint32, *Record[T, X]) {
	t.Live++
	i := t.free - 1
	r := t.Records.At(i)
	t.free = r.Pos
	r.Item = item
	return i, r
}

// extend makes a free record. A page of a spare has old links.
func (t *Table[T, X]) extend() {
	if t.Records.isFull() {
		t.reusePages()
	}
	i := t.Records.grow()
	t.Records.At(i).Pos = 0
	t.free = i + 1
	if t.Records.N > t.limit {
		t.setLow()
	}
}

// Remove empties a slot and frees its record r, which the caller has at hand.
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

// RemoveAny removes a record from InsertAny. at is the slot where Find ended.
func (t *Table[T, X]) RemoveAny(at, i uint32, r *Record[T, X]) {
	if Equal(r.Item, r.Item) {
		t.Remove(at, r)
	} else {
		t.Release(i, r)
	}
}

// grow doubles the index. If entries of an old index are left, they move now. There may be
// some after many items without a slot.
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

// sweep moves n slots of the old index, and the used slots behind them up to the next empty
// slot. Then no search for an entry that stays behind has to pass a slot that sweep has
// emptied. So sweep need not close gaps, which would cost a burst of 64k adds a third more
// time.
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

// closeSlot moves entries behind a slot into the gap and into the gaps that they leave, and
// returns the last gap, for the caller to empty. So there are no tombstones, and an index
// at a steady load is never rebuilt. An entry may move to the gap unless its home lies
// behind the gap.
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

// setLow sets the low-water mark after the slab or the index has changed its size.
func (t *Table[T, X]) setLow() {
	t.low = 0
	if high := max(t.limit, t.Records.N); high > MinRecords {
		t.low = high / 16
	}
	if t.shrinking {
		t.low = math.MaxInt
	}
}

// Sparse reports whether the owner must call Shrink after a removal: the table has fallen below
// a sixteenth of its high-water mark, or has not shrunk to the end since.
func (t *Table[T, X]) Sparse() bool {
	return t.Live < t.low
}

// Shrink takes a step to a smaller slab and index, and reports whether it was the last step. The
// owner calls Shrink after each removal while Sparse reports true, so the steps are paid by the
// removals.
//
// The first step makes an index with room for twice the items, and the entries of the old index
// move as when an index grows. Meanwhile the last record of the slab is cut off again and again:
// a free one at once, a live one when it has moved to a free place before edge. The records
// before edge stay, and edge goes up when it has no free place left. The shrinking is over when
// edge has met the end. For each record that moves, Shrink calls moved with the old index, the
// new index, and the record in its new place.
//
// A walk must not miss a record that moves to a place behind the walk. So no record moves while
// there is a walk, and the shrinking goes on when the walk has ended.
//
// A step takes the time to move shrinkStride records, some 3 µs, if all of these are live.
func (t *Table[T, X]) Shrink(moved func(from, to uint32, r *Record[T, X])) (over bool) {
	return t.shrink(HashOf[T], moved)
}

func (t *Table[T, X]) shrink(hashOf func(T) uint32, moved func(from, to uint32, r *Record[T, X])) (over bool) {
	if t.Live == 0 {
		t.empty()
		return true
	}
	t.sweep(shrinkStride)
	if !t.shrinking {
		t.beginShrink()
		return false
	}
	if t.free > t.edge { // The record that was removed just now.
		t.free = t.Records.At(t.free - 1).Pos
	}
	for range shrinkStride {
		last := uint32(t.Records.N - 1)
		r := t.Records.At(last)
		switch {
		case t.edge > last:
			return t.endShrink()
		case r.State == freeRecord:
			t.Records.N--
		case t.walks > 0:
			return false
		case t.free == 0:
			if e := t.Records.At(t.edge); e.State == freeRecord {
				e.Pos, t.free = 0, t.edge+1
			}
			t.edge++
		default:
			to := t.free - 1
			place := t.Records.At(to)
			t.free = place.Pos
			*place, *r = *r, Record[T, X]{}
			t.Records.N--
			if Equal(place.Item, place.Item) {
				t.refer(hashOf(place.Item), last, to)
			}
			moved(last, to, place)
		}
	}
	return false
}

// beginShrink begins to shrink, unless entries of an old index are left. An index shrinks to a
// sixteenth at most: a smaller one could be full before the entries of the old index have moved.
func (t *Table[T, X]) beginShrink() {
	if t.Old != nil {
		return
	}
	size := max(minSlots, len(t.Slots)/16)
	for 3*size < 8*t.Live {
		size *= 2
	}
	if 16*t.Records.N >= t.limit {
		t.worn = t.Slots
	}
	t.shrinking, t.edge, t.free = true, 0, 0
	t.Old, t.swept = t.Slots, 0
	t.use(make([]Slot, size))
}

// refer changes the slot of a record that has moved.
func (t *Table[T, X]) refer(hash, from, to uint32) {
	for _, slots := range [...][]Slot{t.Slots, t.Old} {
		for at := hash; len(slots) > 0; at++ {
			s := &slots[at&uint32(len(slots)-1)]
			if s.ref == from+1 {
				s.ref = to + 1
				return
			}
			if s.ref == 0 {
				break
			}
		}
	}
}

// endShrink ends the shrinking, unless entries of the old index are left, and reports whether it
// has ended.
func (t *Table[T, X]) endShrink() bool {
	if t.Old != nil {
		return false
	}
	unused := t.Records.release()
	t.shelve(t.worn, unused)
	t.shrinking, t.worn = false, nil
	t.setLow()
	return true
}

// empty gives the memory of a table without records back, where nothing has to move: all slots
// are unused.
func (t *Table[T, X]) empty() {
	t.Old, t.free, t.shrinking = nil, 0, false
	pages := t.Records.directory
	t.Records = Pages[Record[T, X]]{}
	t.shelve(t.worn, pages)
	t.worn = nil
	t.use(make([]Slot, minSlots))
}

// A spare is an index and a slab that a table has taken out of use. The garbage collector
// may free a spare. Until then, a table that grows again takes the spare instead of new
// memory. So bursts in a row need not move the index seven times, and 64k adds take 40 ns
// an item instead of 81.
//
// All slots of a spare are zero, and all records are free.
type spare[T comparable, X any] struct {
	slots []Slot
	pages []*page[Record[T, X]]
}

// shelve makes a spare of an unused index and unused pages, unless there is no index or a larger
// spare. An index is none if it was a spare itself and less than a sixteenth of its room was
// used. Otherwise a queue that swings between a hundred items and a few thousand would go over
// the memory of a burst of a million items at each swing.
func (t *Table[T, X]) shelve(slots []Slot, pages []*page[Record[T, X]]) {
	if s := t.spare.Value(); len(slots) == 0 || s != nil && len(s.slots) >= len(slots) {
		return
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

// reusePages gives a full slab a chunk of pages from the spare, if the spare has any.
func (t *Table[T, X]) reusePages() {
	if s := t.spare.Value(); s != nil && len(s.pages) >= pageChunk {
		rest := len(s.pages) - pageChunk
		t.Records.directory = append(t.Records.directory, s.pages[rest:]...)
		clear(s.pages[rest:])
		s.pages = s.pages[:rest]
	}
}

// Equal compares a and b. A comparison of a variable with itself, which only a NaN fails,
// would look like a mistake.
func Equal[T comparable](a, b T) bool { return a == b }

// Reflexive reports whether all values of a type are equal to themselves. For other types
// the queue asks each item; see BenchmarkCycle for the cost.
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
