package workqueue

import (
	"cmp"
	"math"
	"slices"
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
//	items.records[n.ref].pos == p and its state is waiting
//	nodes.n == items.live
//
// An agenda is not safe for concurrent use; its zero value is empty.
type agenda[T comparable] struct {
	items table[T]
	nodes pages[node]
	turn  uint32 // the turn of the next node
}

// A node is 16 bytes, of which turn is 4 at the price of renumber.
type node struct {
	due  time.Duration
	turn uint32
	ref  uint32
}

const (
	waiting state = 1

	arity = 4
)

func (n node) before(m node) bool {
	return n.due < m.due || n.due == m.due && n.turn < m.turn
}

func (a *agenda[T]) len() int { return a.nodes.n }

// next returns the earliest due time; the agenda must not be empty.
func (a *agenda[T]) next() time.Duration { return a.nodes.at(0).due }

// schedule makes the item due at the given time, unless it is in the agenda
// with one as early, and reports whether the earliest due time has changed.
// It takes O(log n) time in the number of items.
func (a *agenda[T]) schedule(hash uint32, item T, due time.Duration) (first bool) {
	if a.turn == math.MaxUint32 {
		a.renumber()
	}
	at, found := a.items.find(hash, item)
	if !found {
		return a.enter(at, hash, item, due)
	}
	p := a.items.records.at(a.items.slots[at].ref - 1).pos
	n := *a.nodes.at(p)
	if due >= n.due {
		return false
	}
	n.due, n.turn = due, a.turn
	a.turn++
	return a.up(p, n) == 0
}

// enter adds an item that is not in the agenda.
func (a *agenda[T]) enter(at, hash uint32, item T, due time.Duration) (first bool) {
	var ref uint32
	var r *record[T]
	if equal(item, item) {
		ref, r = a.items.insert(at, hash, item)
	} else {
		ref, r = a.items.insertUnindexed(item)
	}
	r.state = waiting
	n := node{due: due, turn: a.turn, ref: ref}
	a.turn++
	return a.up(a.nodes.push(n), n) == 0
}

// pop removes the earliest item; the agenda must not be empty. It takes
// O(log n) time.
func (a *agenda[T]) pop() T {
	ref := a.nodes.at(0).ref
	r := a.items.records.at(ref)
	item := r.item
	if last := a.nodes.pop(); a.nodes.n > 0 {
		a.down(last)
	}
	if at, found := a.items.find(hashOf(item), item); found {
		a.items.remove(at, r)
	} else {
		a.items.release(ref, r)
	}
	if a.items.sparse() {
		a.items.compact(func(_, to uint32, r *record[T]) {
			a.nodes.at(r.pos).ref = to
		})
	}
	return item
}

// place puts a node at an index and tells its record.
func (a *agenda[T]) place(p uint32, n node) {
	*a.nodes.at(p) = n
	a.items.records.at(n.ref).pos = p
}

// up places the node at index p or above it, and returns where.
func (a *agenda[T]) up(p uint32, n node) uint32 {
	for p > 0 {
		parent := (p - 1) / arity
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

// down places the node at the top or below it.
func (a *agenda[T]) down(n node) {
	p := uint32(0)
	for {
		child, first := a.firstChild(p)
		if child == 0 || !first.before(n) {
			break
		}
		a.place(p, first)
		p = child
	}
	a.place(p, n)
}

// firstChild returns the child of p that comes before the others, and its
// index, or 0 if there is none.
func (a *agenda[T]) firstChild(p uint32) (child uint32, first node) {
	from := arity*p + 1
	for c := from; c < min(from+arity, uint32(a.nodes.n)); c++ {
		if n := *a.nodes.at(c); c == from || n.before(first) {
			child, first = c, n
		}
	}
	return child, first
}

// renumber makes turns count from zero again, once in four billion of them. A
// sorted heap is a heap.
func (a *agenda[T]) renumber() {
	sorted := make([]node, 0, a.nodes.n)
	for p := range uint32(a.nodes.n) {
		sorted = append(sorted, *a.nodes.at(p))
	}
	slices.SortFunc(sorted, func(n, m node) int {
		return cmp.Or(cmp.Compare(n.due, m.due), cmp.Compare(n.turn, m.turn))
	})
	for p, n := range sorted {
		n.turn = uint32(p)
		a.place(uint32(p), n)
	}
	a.turn = uint32(a.nodes.n)
}
