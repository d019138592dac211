package workqueue

import (
	"cmp"
	"math"
	"time"
)

// An agenda is a set of items with a due time each, and gives them back in the
// order of these times, those of equal time in the order in which they got it.
//
// It is a heap with four children a node, which lie in 64 bytes, so that it is
// half as deep as a binary one at about the same cost a level. The due time
// lies in the node, so that sifting compares without a look at the record; what
// it does touch there is the position of each node it moves.
//
// Invariants, for a node n at index p:
//
//	p > 0: !n.before(nodes[(p-1)/4])
//	items.records[n.ref].pos == p and its state is waiting or debounced
//	items.records[n.ref].state == debounced: n.due <= latest[n.ref]
//	nodes.n == items.live
//	starts.n == items.records.n, or 0 if not timed
//
// An agenda is not safe for concurrent use; its zero value is empty.
type agenda[T comparable] struct {
	items  table[T]
	nodes  pages[node]
	ticket uint32 // the ticket of the next node
	era    uint32 // how often tickets were renumbered

	// starts has since when the items wait, by record, if timed is set, which
	// it must be at the beginning or not at all.
	starts pages[time.Duration]
	timed  bool

	extras *extras // what few items have; nil as long as none has
}

// A node is 16 bytes, so that four children fill one cache line. A ticket of 8 bytes
// would never need renumber, but a node would take 24.
type node struct {
	due    time.Duration
	ticket uint32
	ref    uint32
}

const (
	waiting   state = 1 + iota
	debounced       // the same, and debounce may put it off

	heapArity = 4
)

func (n node) before(m node) bool {
	return n.due < m.due || n.due == m.due && n.ticket < m.ticket
}

func (n node) compare(m node) int {
	return cmp.Or(cmp.Compare(n.due, m.due), cmp.Compare(n.ticket, m.ticket))
}

func (a *agenda[T]) len() int { return a.nodes.n }

// next returns the earliest due time; the agenda must not be empty.
func (a *agenda[T]) next() time.Duration { return a.nodes.at(0).due }

// plans returns how often an item has been given a due time, or more. It never
// goes down.
func (a *agenda[T]) plans() uint64 { return uint64(a.era)<<32 + uint64(a.ticket) }

// due reports whether the earliest item is due by a reading of the clock, which must
// have begun after the item was planned. The agenda must not be empty.
func (a *agenda[T]) due(r reading) bool {
	first := a.nodes.at(0)
	return first.due <= r.now && uint64(a.era)<<32+uint64(first.ticket) < r.plans
}

// schedule makes the item due at the given time, unless it is in the agenda
// with one as early, and reports whether the earliest due time has changed. An
// item that debounce may put off is due then at the latest. Of two priorities it
// keeps the higher.
// It takes O(log n) time in the number of items.
func (a *agenda[T]) schedule(hash uint32, item T, now, due time.Duration, priority int) (first bool) {
	at, r := a.items.find(hash, item)
	if r == nil {
		return a.push(a.insert(at, hash, item, now, waiting, priority), due)
	}
	n := a.nodes.at(r.pos)
	a.prioritize(n.ref, max(priority, a.priority(n.ref)))
	if r.state == debounced {
		latest := a.extras.latest.at(n.ref)
		*latest = min(*latest, due)
	}
	if due >= n.due {
		return false
	}
	return a.move(r.pos, due)
}

// reschedule makes the item due at the given time, whatever it was before. The
// priority is for a new item; one that waits keeps its own.
func (a *agenda[T]) reschedule(hash uint32, item T, now, due time.Duration, priority int) (first bool) {
	at, r := a.items.find(hash, item)
	if r == nil {
		return a.push(a.insert(at, hash, item, now, waiting, priority), due)
	}
	r.state = waiting
	return a.move(r.pos, due)
}

// insert makes a record for an item that is not in the agenda. The caller then
// calls push with it.
func (a *agenda[T]) insert(at, hash uint32, item T, now time.Duration, s state, priority int) (ref uint32) {
	ref, r := a.items.insertAny(at, hash, item)
	r.state = s
	a.prioritize(ref, priority)
	switch {
	case !a.timed:
	case int(ref) == a.starts.n:
		a.starts.push(now)
	default:
		*a.starts.at(ref) = now
	}
	return ref
}

// push makes a node for a record.
func (a *agenda[T]) push(ref uint32, due time.Duration) (first bool) {
	n := node{due: due, ticket: a.nextTicket(), ref: ref}
	return a.siftUp(a.nodes.push(n), n) == 0
}

// move changes when the node at index p is due, after all others of that time.
// If it was due then, it still gets a ticket, as it has been planned anew.
func (a *agenda[T]) move(p uint32, due time.Duration) (first bool) {
	n := *a.nodes.at(p)
	ticket := a.nextTicket() // May move the node.
	p = a.items.records.at(n.ref).pos
	same := n.due == due
	n.due, n.ticket = due, ticket
	at := a.sift(p, n)
	return !same && (at == 0 || p == 0)
}

// pop removes the earliest item; the agenda must not be empty. It returns the
// hash too, which it had to compute, and the priority. It takes O(log n) time.
func (a *agenda[T]) pop() (hash uint32, item T, priority int) {
	ref := a.nodes.at(0).ref
	item, priority = a.items.records.at(ref).item, a.priority(ref)
	hash = hashOf(item)
	a.delete(hash, item, 0)
	return hash, item, priority
}

// remove removes the item, and reports whether it was there, and with which priority.
// It takes O(log n) time.
func (a *agenda[T]) remove(hash uint32, item T) (priority int, ok bool) {
	at, r := a.items.find(hash, item)
	if r == nil {
		return 0, false
	}
	priority = a.priority(a.items.index(at))
	a.delete(hash, item, r.pos)
	return priority, true
}

// delete removes the node at index p and the record of its item.
func (a *agenda[T]) delete(hash uint32, item T, p uint32) {
	ref := a.nodes.at(p).ref
	if last := a.nodes.pop(); p < uint32(a.nodes.n) {
		a.sift(p, last)
	}
	at, _ := a.items.find(hash, item)
	a.items.removeAny(at, ref, a.items.records.at(ref))
	if a.items.sparse() {
		a.compact()
	}
}

// clear removes all items and gives their memory back.
func (a *agenda[T]) clear() { *a = agenda[T]{timed: a.timed, ticket: a.ticket, era: a.era} }

// compact gives memory back, see table.compact.
func (a *agenda[T]) compact() {
	starts, old := a.starts, a.extras
	a.starts, a.extras = pages[time.Duration]{}, nil
	a.items.compact(func(from, to uint32, r *record[T]) {
		a.nodes.at(r.pos).ref = to
		if a.timed {
			a.starts.push(*starts.at(from))
		}
		if r.state == debounced {
			a.makeExtras().latest.put(to, *old.latest.at(from))
		}
		if old != nil {
			a.prioritize(to, old.priorities.get(from))
		}
	})
}

// sift places the node at index p, above or below it, and returns where.
func (a *agenda[T]) sift(p uint32, n node) uint32 {
	if at := a.siftUp(p, n); at != p {
		return at
	}
	return a.siftDown(p, n)
}

// place puts a node at an index and tells its record.
func (a *agenda[T]) place(p uint32, n node) {
	*a.nodes.at(p) = n
	a.items.records.at(n.ref).pos = p
}

// siftUp places the node at index p or above it, and returns where.
func (a *agenda[T]) siftUp(p uint32, n node) uint32 {
	for p > 0 {
		parent := (p - 1) / heapArity
		above := *a.nodes.at(parent)
		if !n.before(above) {
			break
		}
		a.place(p, above)
		p = parent
	}
	a.place(p, n)
	return p
}

// siftDown places the node at index p or below it, and returns where.
func (a *agenda[T]) siftDown(p uint32, n node) uint32 {
	for {
		child, first := a.firstChild(p)
		if child == 0 || !first.before(n) {
			break
		}
		a.place(p, first)
		p = child
	}
	a.place(p, n)
	return p
}

// firstChild returns the child of p that comes before the others, and its
// index, or 0 if there is none.
func (a *agenda[T]) firstChild(p uint32) (child uint32, first node) {
	from := heapArity*p + 1
	for c := from; c < min(from+heapArity, uint32(a.nodes.n)); c++ {
		if n := *a.nodes.at(c); c == from || n.before(first) {
			child, first = c, n
		}
	}
	return child, first
}

// nextTicket returns the ticket of a node that comes after all others of its time.
func (a *agenda[T]) nextTicket() uint32 {
	if a.ticket == math.MaxUint32 {
		a.renumber()
	}
	a.ticket++
	return a.ticket - 1
}

// renumber makes tickets count from zero again, once in four billion of them. A
// sorted heap is a heap.
func (a *agenda[T]) renumber() {
	for p, n := range a.sorted() {
		n.ticket = uint32(p)
		a.place(uint32(p), n)
	}
	a.ticket = uint32(a.nodes.n)
	a.era++
}
