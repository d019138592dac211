package slab

import (
	"errors"
	"fmt"
	"math"
	"reflect"
)

// Check collects violated invariants, which stand above the types. Only tests call Check,
// here and in the packages above, and the linker leaves the code out of programs.
type Check []error

func (c *Check) That(ok bool, format string, args ...any) {
	if !ok {
		*c = append(*c, fmt.Errorf(format, args...))
	}
}

func (c *Check) Add(prefix string, err error) {
	if err != nil {
		*c = append(*c, fmt.Errorf("%s%w", prefix, err))
	}
}

func (c *Check) Err() error { return errors.Join(*c...) }

// CheckInvariants returns the violated invariants of the table, or nil.
func (t *Table[T, X]) CheckInvariants() error {
	var errs Check
	seen := make(map[uint32]bool)
	t.checkIndex(&errs, "slots", t.Slots, seen)
	t.checkIndex(&errs, "old", t.Old, seen)
	for i := range min(t.swept, len(t.Old)) {
		errs.That(t.Old[i].ref == 0, "old[:swept]: slot %d of %d is used", i, t.swept)
	}
	errs.That(t.Old == nil || t.swept == 0 || t.Old[t.swept].ref == 0, "old[%d] is used, where the sweep stopped", t.swept)
	errs.That(t.Old == nil || t.swept < len(t.Old), "old: swept %d of %d and not nil", t.swept, len(t.Old))
	errs.That(t.limit == 3*len(t.Slots)/4 && len(seen) <= t.limit, "limit %d, %d slots used of %d", t.limit, len(seen), len(t.Slots))

	live := 0
	for i := range uint32(t.Records.N) {
		r := t.Records.At(i)
		if r.State == freeRecord {
			errs.That(r.Item == *new(T), "free record %d holds %v", i, r.Item)
			continue
		}
		live++
		errs.That(seen[i] || r.Item != r.Item, "record %d (%v) has no slot", i, r.Item)
	}
	low := 0
	if high := max(t.limit, t.Records.N); high > 768 {
		low = high / 16
	}
	if t.shrinking {
		low = math.MaxInt
	}
	errs.That(low == t.low, "low: %d, want %d for %d slots and %d records", t.low, low, len(t.Slots), t.Records.N)
	t.checkSpare(&errs)
	errs.That(live == t.Live, "live: %d records, counted %d", live, t.Live)
	t.checkFree(&errs, t.Records.N-live)
	errs.That(t.shrinking || t.worn == nil, "an index is worn")
	for i := t.Records.N; i < PageSize*len(t.Records.directory); i++ {
		r := t.Records.At(uint32(i))
		errs.That(r.State == freeRecord && r.Item == *new(T), "record %d of %d is used", i, t.Records.N)
	}
	if !t.shrinking { // Otherwise unused pages go at the end.
		t.Records.checkRoom(&errs)
	}
	return errs.Err()
}

// checkFree checks the free list of a table with n free records.
func (t *Table[T, X]) checkFree(errs *Check, n int) {
	offList := 0
	for i := t.edge; t.shrinking && int(i) < t.Records.N; i++ {
		if t.Records.At(i).State == freeRecord {
			offList++
		}
	}
	onList := 0
	for i := t.free; i != 0 && onList <= t.Records.N; onList++ {
		errs.That(t.Records.At(i-1).State == freeRecord, "free list holds the used record %d", i-1)
		errs.That(!t.shrinking || i <= t.edge, "free list holds the record %d behind edge %d", i-1, t.edge)
		i = t.Records.At(i - 1).Pos
	}
	errs.That(onList == n-offList, "free list: %d records of %d", onList, n-offList)
}

func (t *Table[T, X]) checkSpare(errs *Check) {
	s := t.spare.Value()
	if s == nil {
		return
	}
	for i, slot := range s.slots {
		errs.That(slot.ref == 0 && slot.hash == 0, "spare: slot %d is used", i)
	}
	for _, p := range s.pages {
		for _, r := range p {
			errs.That(r.State == freeRecord && r.Item == *new(T), "spare: record %v is used", r)
		}
	}
}

func (t *Table[T, X]) checkIndex(errs *Check, name string, slots []Slot, seen map[uint32]bool) {
	errs.That(len(slots)&(len(slots)-1) == 0, "%s: length %d", name, len(slots))
	mask := uint32(len(slots) - 1)
	for i, s := range slots {
		if s.ref == 0 {
			continue
		}
		ref := s.ref - 1
		if int(ref) >= t.Records.N || t.Records.At(ref).State == freeRecord {
			errs.That(false, "%s[%d] refers to record %d, which is not live", name, i, ref)
			continue
		}
		errs.That(!seen[ref], "%s[%d]: record %d has two slots", name, i, ref)
		seen[ref] = true
		for p := s.hash & mask; p != uint32(i); p = (p + 1) & mask {
			errs.That(slots[p].ref != 0, "%s: slot %d is empty, between home %d and entry %d", name, p, s.hash&mask, i)
		}
	}
}

// CheckInvariants returns the violated invariants of the vector, or nil.
func (p *Pages[E]) CheckInvariants() error {
	var errs Check
	p.checkRoom(&errs)
	for i := p.N; i < PageSize*len(p.directory); i++ {
		errs.That(reflect.ValueOf(p.At(uint32(i))).Elem().IsZero(), "element %d beyond %d is not zero", i, p.N)
	}
	return errs.Err()
}

func (p *Pages[E]) checkRoom(errs *Check) {
	room := PageSize * len(p.directory)
	errs.That(p.N <= room && room < p.N+3*pageChunk*PageSize, "%d elements in room for %d", p.N, room)
}

// CheckInvariants returns the violated invariants of the ring, or nil.
func (r *Ring[E]) CheckInvariants() error {
	var errs Check
	errs.That(len(r.buf)&(len(r.buf)-1) == 0, "ring: length %d", len(r.buf))
	errs.That(r.Len() <= len(r.buf), "ring: %d elements in %d", r.Len(), len(r.buf))
	for i := r.tail; i != r.head+uint32(len(r.buf)); i++ {
		errs.That(reflect.ValueOf(r.at(i)).Elem().IsZero(), "ring: %d is not cleared", i)
	}
	return errs.Err()
}

// CheckInvariants returns the violated invariants of the heap, or nil.
func (h Heap[V]) CheckInvariants() error {
	var errs Check
	for i := range h {
		errs.That(i == 0 || h[(i-1)/4].key <= h[i].key, "value %d comes before its parent", i)
		errs.That(*h[i].place == i, "the owner of value %d says that it is at %d", i, *h[i].place)
	}
	return errs.Err()
}

// CheckInvariants returns the violated invariants of the ledger, or nil.
func (l *Ledger[T, N]) CheckInvariants() error {
	var errs Check
	errs.Add("items: ", l.items.CheckInvariants())
	errs.Add("notes: ", l.notes.CheckInvariants())
	errs.Add("line: ", l.places.CheckInvariants())
	for i := range uint32(l.items.Records.N) {
		r := l.items.Records.At(i)
		errs.That(r.State == notedState || r.State == freeRecord, "ledger: record %d has state %d", i, r.State)
		errs.That(r.State == freeRecord || int(r.Pos) < l.places.N && *l.places.At(r.Pos) == i, "ledger: record %d is not in line at %d", i, r.Pos)
	}
	errs.That(l.places.N == l.items.Live, "ledger: %d in line, %d records", l.places.N, l.items.Live)
	errs.That(l.notes.N == l.items.Records.N, "ledger: %d notes for %d records", l.notes.N, l.items.Records.N)
	return errs.Err()
}

// CheckInvariants returns what is wrong with the barriers, or nil. marks are those of all
// records.
func (b *Barriers) CheckInvariants(marks []uint16) error {
	var errs Check
	left := make([]int, len(b.all)+1)
	for _, mark := range marks {
		errs.That(mark <= b.Mark, "mark %d of %d", mark, b.Mark)
		left[b.find(mark)]++
	}
	sum := 0
	for i, barrier := range b.all {
		errs.That(barrier.left == left[i] && (i > 0 || left[i] > 0), "barrier %d: %d records, are %d", i, barrier.left, left[i])
		errs.That(barrier.mark < b.Mark && (i == 0 || barrier.mark > b.all[i-1].mark), "barrier %d: mark %d", i, barrier.mark)
		errs.That(barrier.callers > 0, "barrier %d of nobody", i)
		sum += barrier.left
	}
	errs.That(sum == b.open && b.Any() == (len(b.all) > 0), "%d records, are %d", b.open, sum)
	return errs.Err()
}
