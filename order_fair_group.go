package workqueue

import "fmt"

// A fairGroup is a group of a [fair] that has items, queued or held.
type fairGroup[T, G comparable] struct {
	key   G
	hash  uint32 // of key
	known bool   // it is in groups, or is odd
	// failed says that a call of within has not returned. There may be notes on
	// items that it has lost, so it is not used for another key.
	failed bool

	within      Queue[T]
	prioritized PrioritizedQueue[T] // within, or nil if it is none
	holding     HoldingQueue[T]     // the same
	ranker      ranker              // the same

	size   int // what within has said last
	peak   int // the most it has said
	flying int // items that are held

	weight, limit int // a limit of 0 is none
	credit        int // items left in the turn that has begun, or 0

	in         *roster[T, G]
	prev, next *fairGroup[T, G]
}

// A roster is a list of groups, any of which can leave it. Its zero value is empty.
type roster[T, G comparable] struct {
	first, last *fairGroup[T, G]
}

// leave takes a group out of its roster, if it is in one.
func (g *fairGroup[T, G]) leave() {
	r := g.in
	if r == nil {
		return
	}
	if g.prev != nil {
		g.prev.next = g.next
	} else {
		r.first = g.next
	}
	if g.next != nil {
		g.next.prev = g.prev
	} else {
		r.last = g.prev
	}
	g.in, g.prev, g.next = nil, nil, nil
}

// moveToEnd makes a group the last one of the roster it is in.
func (g *fairGroup[T, G]) moveToEnd() {
	r := g.in
	g.leave()
	r.append(g)
}

// append adds a group that is in no roster at the end.
func (r *roster[T, G]) append(g *fairGroup[T, G]) {
	g.in, g.prev = r, r.last
	if r.last != nil {
		r.last.next = g
	} else {
		r.first = g
	}
	r.last = g
}

// prepend adds a group that is in no roster at the head.
func (r *roster[T, G]) prepend(g *fairGroup[T, G]) {
	g.in, g.next = r, r.first
	if r.first != nil {
		r.first.prev = g
	} else {
		r.last = g
	}
	r.first = g
}

// groupOf returns the group of an item with its weight and limit of now. A group that
// is new is not known yet.
func (f *fair[T, G]) groupOf(item T) *fairGroup[T, G] {
	key := f.options.Group(item)
	weight, limit := 1, 0
	if f.options.Weight != nil {
		if weight = f.options.Weight(key); weight < 1 {
			panic(fmt.Sprintf("workqueue: FairOptions.Weight is %d for group %v, want 1 at least", weight, key))
		}
	}
	if f.options.MaxInFlight != nil {
		if limit = f.options.MaxInFlight(key); limit < 0 {
			panic(fmt.Sprintf("workqueue: FairOptions.MaxInFlight is %d for group %v, want 0 at least", limit, key))
		}
	}
	hash := hashOf(key)
	g := f.find(hash, key)
	if g == nil {
		g = f.makeGroup()
		g.key, g.hash = key, hash
	}
	g.weight, g.limit = weight, limit
	g.credit = min(g.credit, weight)
	return g
}

// settle puts a group where it belongs, after anything that it depends on has
// changed: its queue, how many of its items are held, its limit.
func (f *fair[T, G]) settle(g *fairGroup[T, G]) {
	n := max(0, g.within.Len())
	f.size += n - g.size
	g.size, g.peak = n, max(g.peak, n)
	switch {
	case n == 0:
		g.leave()
		g.credit = 0
		if g.flying == 0 {
			f.forget(g)
		}
	case !f.may(g):
		if g.in != &f.resting {
			g.leave()
			f.resting.append(g)
		}
	case g.in == &f.turns:
	case g.credit > 0:
		g.leave()
		f.turns.prepend(g)
	default:
		g.leave()
		f.turns.append(g)
	}
}

// may reports whether a group that has items may be popped from.
func (f *fair[T, G]) may(g *fairGroup[T, G]) bool {
	if !f.heard {
		return true
	}
	return (g.limit == 0 || g.flying < g.limit) && (g.holding == nil || g.holding.Ready())
}

// find returns the group of a key, or nil.
func (f *fair[T, G]) find(hash uint32, key G) *fairGroup[T, G] {
	if !equal(key, key) {
		return f.odd
	}
	if g := f.groups.find(hash, key); g != nil {
		return *g
	}
	return nil
}

// note makes a group known that has got its first item.
func (f *fair[T, G]) note(g *fairGroup[T, G]) {
	switch {
	case g.known:
		return
	case equal(g.key, g.key):
		*f.groups.enter(g.hash, g.key) = g
	default:
		f.odd = g
	}
	g.known = true
}

// forget drops a group that has no item left.
func (f *fair[T, G]) forget(g *fairGroup[T, G]) {
	if g == f.odd {
		f.odd = nil
	} else {
		f.groups.remove(g.hash, g.key)
	}
	f.shelve(g)
}

// A group that has one item at a time comes and goes with each, so some are kept, with
// their queues. A queue that was long keeps memory, and is dropped. The numbers are not
// tuned; for strings, what is kept takes less than 64 KiB.
const (
	maxSpareGroups = 32
	maxSparePeak   = 64
)

// shelve keeps a group without items for another key.
func (f *fair[T, G]) shelve(g *fairGroup[T, G]) {
	if len(f.spares) < maxSpareGroups && g.peak <= maxSparePeak && !g.failed {
		*g = fairGroup[T, G]{within: g.within, prioritized: g.prioritized, holding: g.holding, ranker: g.ranker}
		f.spares = append(f.spares, g)
		return
	}
	g.known = false
}

// makeGroup returns a group without a key and without items.
func (f *fair[T, G]) makeGroup() *fairGroup[T, G] {
	if last := len(f.spares) - 1; last >= 0 {
		g := f.spares[last]
		f.spares[last] = nil
		f.spares = f.spares[:last]
		return g
	}
	within := f.options.Within()
	if within == nil {
		panic("workqueue: FairOptions.Within returned nil")
	}
	f.disordered = f.disordered || inOrder(within) == nil
	g := &fairGroup[T, G]{within: within}
	g.prioritized, _ = within.(PrioritizedQueue[T])
	g.holding, _ = within.(HoldingQueue[T])
	g.ranker = rankerOf(within)
	return g
}
