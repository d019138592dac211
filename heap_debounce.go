package workqueue

import "time"

// This file has what an agenda notes of items that debounce brings in: 8 bytes each,
// in pages beside those of the records, and only where such an item is. So other
// items cost nothing, and the notes are freed with the records. At worst a page of 256
// bytes has one note. A map would take 34 bytes for each item, never shrink, and take
// more than half of the time of a Debounce.

// debounce makes the item due at the given time, which may be later than it
// was, unless schedule or reschedule has brought it in: those have promised
// something, and debounce can only bring it forward. Of the latest times of
// several calls the first counts.
func (a *agenda[T]) debounce(hash uint32, item T, now, due, latest time.Duration) (first bool) {
	at, r := a.items.find(hash, item)
	if r == nil {
		ref := a.insert(at, hash, item, now, debounced)
		a.latest.put(ref, latest)
		return a.push(ref, min(due, latest))
	}
	n := a.nodes.at(r.pos)
	latest = n.due
	if r.state == debounced {
		latest = *a.latest.at(n.ref)
	}
	if due >= latest && n.due == latest {
		return false // It is due as late as it may be.
	}
	return a.move(r.pos, min(due, latest))
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
