package workqueue

import "weak"

// This file is how a table gives memory back.

// setLow sets the low-water mark, whenever the slab or the index has grown.
func (t *table[T]) setLow() {
	t.low = 0
	if high := max(t.limit, t.records.n); high > minRecords {
		t.low = high / 16
	}
}

// sparse reports whether the table has fallen so far below its high-water mark
// that compact is worth its cost: to less than a sixteenth. The copying is
// amortized over the removals that there have been for each item left, seven at
// least: an index that has just doubled has room for twice the items.
func (t *table[T]) sparse() bool {
	return t.live < t.low
}

// compact moves the live records to the front of a new slab and rebuilds the
// index, with room for twice as many. It calls moved for each record, with its
// old and its new index, and the record in its new place. It takes time
// proportional to the old size, some 10 ns an item at the high-water mark.
//
// The old index and slab become a spare, unless the index was one and the items
// that it has room for have not come: a queue that swings between a hundred
// items and a few thousand would clear what a burst of a million once took, at
// each swing.
func (t *table[T]) compact(moved func(from, to uint32, r *record[T])) {
	t.sweep(len(t.old))
	old := t.records
	t.records = pages[record[T]]{}
	t.free = 0
	for i := range uint32(old.n) {
		r := old.at(i)
		if r.state == freeRecord {
			continue
		}
		to := t.records.push(*r)
		moved(i, to, t.records.at(to))
		// The old record is garbage from here on; its pos serves as the map
		// from old index to new for the references in the slots.
		r.pos = to
	}
	size := minSlots
	for 3*size < 8*t.live {
		size *= 2
	}
	slots := make([]slot, size)
	for _, s := range t.slots {
		if s.ref != 0 {
			slots[emptySlot(slots, s.hash)] = slot{hash: s.hash, ref: old.at(s.ref-1).pos + 1}
		}
	}
	worn, used := t.slots, 16*old.n >= t.limit
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
type spare[T comparable] struct {
	slots []slot
	pages []*page[record[T]]
}

// shelve makes a spare of an index and a slab, unless there is a larger one. It
// takes as long as clearing them does, 1 ns an item at the high-water mark.
func (t *table[T]) shelve(slots []slot, pages []*page[record[T]]) {
	if s := t.spare.Value(); s != nil && len(s.slots) >= len(slots) {
		return
	}
	clear(slots)
	for _, p := range pages {
		clear(p[:])
	}
	t.spare = weak.Make(&spare[T]{slots: slots, pages: pages})
}

// newSlots returns an empty index of at least the given size.
func (t *table[T]) newSlots(size int) []slot {
	s := t.spare.Value()
	if s == nil || len(s.slots) < size {
		return make([]slot, size)
	}
	slots := s.slots
	s.slots = nil
	return slots
}

// reusePages gives a slab that is full a chunk of pages, if there are any.
func (t *table[T]) reusePages() {
	if t.records.n < pageSize*len(t.records.directory) {
		return
	}
	if s := t.spare.Value(); s != nil && len(s.pages) >= pageChunk {
		rest := len(s.pages) - pageChunk
		t.records.directory = append(t.records.directory, s.pages[rest:]...)
		clear(s.pages[rest:])
		s.pages = s.pages[:rest]
	}
}
