package workqueue

import "time"

// This file has what an agenda notes of few of its items: of those that debounce
// brings in, and of those that have a priority. A note takes 8 bytes, in pages beside
// those of the records, and only where such an item is. So other items cost nothing,
// and the notes are freed with the records. At worst a page of 256 bytes has one note.
// A map would take 34 bytes for each item, never shrink, and take more than half of the
// time of a Debounce.

// Extras are what few items have, by record, in pages that exist only where one is.
type extras struct {
	// latest is the time beyond which debounce cannot put an item off, for the
	// items that it may put off at all: see debounce.
	latest sparsePages[time.Duration]
	// priorities are those with which the items will be added. Where there is no
	// page, they are 0.
	priorities sparsePages[int]
}

// makeExtras returns the extras, for an item that gets one.
func (a *agenda[T]) makeExtras() *extras {
	if a.extras == nil {
		a.extras = new(extras)
	}
	return a.extras
}

func (a *agenda[T]) priority(ref uint32) int {
	if a.extras == nil {
		return 0
	}
	return a.extras.priorities.get(ref)
}

// prioritize gives a record a priority. Every new record comes by, as the one that had
// its index before may have left another.
func (a *agenda[T]) prioritize(ref uint32, priority int) {
	if priority != 0 || a.extras != nil && a.extras.priorities.has(ref) {
		a.makeExtras().priorities.put(ref, priority)
	}
}

// sparsePages is a vector that has pages only where something was put. The
// owner knows where that is. Its zero value is empty.
type sparsePages[E any] []*page[E]

// at returns the element with an index at which something was put.
func (s sparsePages[E]) at(i uint32) *E { return &s[i/pageSize][i%pageSize] }

func (s *sparsePages[E]) put(i uint32, e E) {
	if missing := int(i/pageSize) + 1 - len(*s); missing > 0 {
		*s = append(*s, make([]*page[E], missing)...)
	}
	if (*s)[i/pageSize] == nil {
		(*s)[i/pageSize] = new(page[E])
	}
	*s.at(i) = e
}

// has reports whether there is a page for an index.
func (s sparsePages[E]) has(i uint32) bool {
	return int(i/pageSize) < len(s) && s[i/pageSize] != nil
}

// get returns the element with an index, zero if there is no page for it.
func (s sparsePages[E]) get(i uint32) (e E) {
	if s.has(i) {
		e = *s.at(i)
	}
	return e
}
