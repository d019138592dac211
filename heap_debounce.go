package workqueue

import "time"

// This file is what an agenda notes of items that debounce brings in: 8 bytes
// each, by record and beside the records, so that other items cost nothing and
// the notes go when the records do. At worst such an item has 31 others beside
// it and a page of 256 bytes to itself. A map takes 34 bytes each, of 100,000
// strings, keeps them when all items are gone, and is more than half of the time
// of a Debounce.

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
		return false // It is held to what was promised before.
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
