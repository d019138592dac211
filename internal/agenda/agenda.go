// Package agenda has the items that wait, by due time, without a lock.
package agenda

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// An Agenda is a set of items with a due time each. It returns the items in the order of
// their due times, and items with the same due time in the order in which they were
// planned.
//
// An agenda is a heap with four children a node. The children lie in 64 bytes, so the heap
// is half as deep as a binary heap, at about the same cost a level. The due time lies in
// the node, so a comparison needs no look at the record. Only the position of a moved node
// is written to its record.
//
// A waiting item has a record in one of three states:
//
//	waiting    until its due time, which a later call can only make earlier
//	debounced  like waiting, and Debounce may put the item off, up to a latest time
//	firm       until its due time, which only Reschedule can make earlier
//
// The FIFO below keeps an item while its wait is firm, see fifo.FIFO.Keep: the owner of both calls
// Keep when a wait becomes firm. Before the wait ends or is replaced, the owner calls Unkeep, and makes
// the wait plain by Soften: no other method takes firm waits. An Agenda of dropped items, which has no FIFO, does not
// count its firm waits any more.
//
// Invariants, for a node n at index p and its record r, Items.Records[n.ref]:
//
//	p > 0: !n.before(nodes[(p-1)/4])
//	r.Pos == p, and r.State is waiting, debounced or firm
//	r.State == debounced: n.due <= extras.latest[n.ref]
//	Firms == number of records firm
//	n.ticket < ticket
//	nodes.N == Items.Live
//	starts.N == Items.Records.N, or 0 if not Timed
//
// An Agenda knows no clock, no goroutine and no lock. The owner holds its lock during each
// call. The zero Agenda is empty, and does not note when a wait began.
type Agenda[T comparable] struct {
	Items  slab.Table[T, slab.None] // the owner walks, and the methods change
	nodes  slab.Pages[node]
	ticket uint32 // the ticket of the next node
	era    uint32 // how often tickets were renumbered
	Firms  int    // how many waits are firm; the owner's call of Soften takes one off

	// starts has the time at which each wait began, by record, if Timed is set. Timed does
	// not change once the Agenda has had an item.
	starts slab.Pages[time.Duration]
	Timed  bool

	extras *extras // nil until an item needs them
}

// A node is 16 bytes, so four children fill one cache line. With a ticket of 8 bytes,
// renumber would not be needed, but a node would take 24 bytes.
type node struct {
	due    time.Duration
	ticket uint32
	ref    uint32
}

const (
	waiting slab.State = 1 + iota
	debounced
	firm
)

func (n node) before(m node) bool {
	return n.due < m.due || n.due == m.due && n.ticket < m.ticket
}

func (n node) compare(m node) int {
	return cmp.Or(cmp.Compare(n.due, m.due), cmp.Compare(n.ticket, m.ticket))
}

// Len returns how many items wait.
func (a *Agenda[T]) Len() int { return a.nodes.N }

// Next returns the earliest due time; the Agenda must not be empty.
func (a *Agenda[T]) Next() time.Duration { return a.nodes.At(0).due }

// Plans returns how many due times the Agenda has given to items, or more. The number never
// goes down.
func (a *Agenda[T]) Plans() uint64 { return uint64(a.era)<<32 + uint64(a.ticket) }

// Due reports whether the earliest item is due by a reading of the clock. plans is what Plans
// returned before the clock was read: a reading counts only if it began after the item was
// planned. The Agenda must not be empty.
func (a *Agenda[T]) Due(now time.Duration, plans uint64) bool {
	first := a.nodes.At(0)
	return first.due <= now && uint64(a.era)<<32+uint64(first.ticket) < plans
}

// A Timing says when an item is due. No item is due before its floor.
type Timing struct {
	Due    time.Duration
	Latest time.Duration // for Debounce: no later call puts the item off beyond
	Floor  time.Duration // the time of the next token of ItemPace; 0 for none
	Why    fifo.Why      // the item waits until Due
	Firm   bool          // no add makes the item due earlier
	Once   bool          // the Timing does not put off an item whose wait is firm already
}

// Begin returns when the item is due.
func (w *Timing) Begin() time.Duration {
	if w.Floor > 0 {
		return max(w.Due, w.Floor)
	}
	return w.Due
}

// why returns why the item waits until Begin.
func (w *Timing) why() fifo.Why {
	if w.Floor > 0 && w.Floor > w.Due {
		return fifo.WhyPace
	}
	return w.Why
}

// Schedule makes the item due at the given time, unless the item is due as early already,
// and reports whether the earliest due time has changed. A firm Timing also makes the item due
// later: of several firm waits the latest counts. From then on Debounce cannot put the item off
// beyond the given time. Of two priorities the item keeps the higher, but the FIFO below knows the
// rank of a firm wait. Schedule takes O(log n) time in the number of items.
func (a *Agenda[T]) Schedule(hash uint32, item T, now time.Duration, w *Timing, p *fifo.Placement) (first bool) {
	at, r := a.Items.Find(hash, item)
	if r == nil {
		state := waiting
		if w.Firm {
			state = firm
			a.Firms++
		}
		return a.push(a.insert(at, hash, item, now, state, w, p), w.Begin())
	}
	n := a.nodes.At(r.Pos)
	if r.State != firm && p.Number() > a.priority(n.ref) {
		a.setRank(n.ref, r, p)
	}
	due, begins := w.Begin(), false
	switch {
	case w.Firm && r.State != firm:
		r.State, begins = firm, true
		a.Firms++
	case w.Firm && !w.Once:
		due = max(due, n.due)
	case r.State == firm:
		due = n.due
	default:
		due = min(due, n.due)
	}
	if r.State == debounced {
		latest := a.extras.latest.At(n.ref)
		*latest = min(*latest, w.Begin())
	}
	if due == n.due && !begins {
		return false
	}
	setWhy(&r.Tags, w)
	if due == n.due {
		return false
	}
	return a.move(r.Pos, due)
}

// Reschedule makes the item due at the given time, earlier or later than before. The
// placement is for a new item; a waiting item keeps its placement.
func (a *Agenda[T]) Reschedule(hash uint32, item T, now time.Duration, w *Timing, p *fifo.Placement) (first bool) {
	at, r := a.Items.Find(hash, item)
	if r == nil {
		return a.push(a.insert(at, hash, item, now, waiting, w, p), w.Begin())
	}
	r.State = waiting
	setWhy(&r.Tags, w)
	return a.move(r.Pos, w.Begin())
}

// Debounce makes the item due at the given time, earlier or later than before, but not
// after latest. Of the latest times of several calls the first counts. The due time from a
// Schedule or a reschedule is a promise: debounce can only make such an item due earlier, and
// leaves a firm wait as it is.
// The placement is for a new item, see reschedule.
func (a *Agenda[T]) Debounce(hash uint32, item T, now time.Duration, w *Timing, p *fifo.Placement) (first bool) {
	at, r := a.Items.Find(hash, item)
	if r == nil {
		latest := w.Latest
		if w.Floor > 0 {
			latest = max(latest, w.Floor)
		}
		ref := a.insert(at, hash, item, now, debounced, w, p)
		a.makeExtras().latest.Put(ref, latest)
		return a.push(ref, min(w.Begin(), latest))
	}
	n := a.nodes.At(r.Pos)
	latest := n.due
	if r.State == debounced {
		latest = *a.extras.latest.At(n.ref)
	}
	due := min(w.Begin(), latest)
	if r.State == firm || due == n.due && n.due == latest {
		return false // The item is due as late as it may be.
	}
	if due != n.due {
		setWhy(&r.Tags, w)
	}
	return a.move(r.Pos, due)
}

// Waits reports whether the item waits.
func (a *Agenda[T]) Waits(hash uint32, item T) bool {
	_, r := a.Items.Find(hash, item)
	return r != nil
}

// insert makes a record for an item that is not in the Agenda. The caller then calls push
// with the record.
func (a *Agenda[T]) insert(at, hash uint32, item T, now time.Duration, s slab.State, w *Timing, p *fifo.Placement) (ref uint32) {
	ref, r := a.Items.InsertAny(at, hash, item)
	r.State = s
	a.setRank(ref, r, p)
	setWhy(&r.Tags, w)
	if p != nil && p.Weight > 0 {
		a.makeExtras().groups.Put(ref, groupOfWait{p.Group, p.Weight, p.Limit})
	}
	switch {
	case !a.Timed:
	case int(ref) == a.starts.N:
		a.starts.Push(now)
	default:
		*a.starts.At(ref) = now
	}
	return ref
}

// push makes a node for a record.
func (a *Agenda[T]) push(ref uint32, due time.Duration) (first bool) {
	n := node{due: due, ticket: a.nextTicket(), ref: ref}
	return a.siftUp(a.nodes.Push(n), n) == 0
}

// move gives the node at index p another due time, behind all other nodes of that time. The
// node gets a new ticket even if the due time is the same, because the item was planned
// anew.
func (a *Agenda[T]) move(p uint32, due time.Duration) (first bool) {
	n := *a.nodes.At(p)
	ticket := a.nextTicket() // May move the node.
	p = a.Items.Records.At(n.ref).Pos
	same := n.due == due
	n.due, n.ticket = due, ticket
	at := a.sift(p, n)
	return !same && (at == 0 || p == 0)
}

// FirstFirm returns the earliest item, and whether its wait is firm; the Agenda must not be empty.
func (a *Agenda[T]) FirstFirm() (item T, ok bool) {
	r := a.Items.Records.At(a.nodes.At(0).ref)
	return r.Item, r.State == firm
}

// Soften makes the firm wait of an item plain, with the rank that the FIFO below knows.
func (a *Agenda[T]) Soften(hash uint32, item T, k fifo.Rank) {
	at, r := a.Items.Find(hash, item)
	r.State = waiting
	a.Firms--
	a.setRank(a.Items.Index(at), r, &fifo.Placement{Rank: k})
}

// Pop removes the earliest item; the Agenda must not be empty. It returns the item, the
// hash, which Pop has computed anyway, and the placement, if the caller gives memory for a
// placement. It takes O(log n) time.
func (a *Agenda[T]) Pop(memory *fifo.Placement) (hash uint32, item T, p *fifo.Placement) {
	ref := a.nodes.At(0).ref
	item = a.Items.Records.At(ref).Item
	if memory != nil {
		p = a.placement(ref, memory)
	}
	hash = slab.HashOf(item)
	a.delete(hash, item, 0)
	return hash, item, p
}

// Remove removes the item, and reports whether the Agenda had the item. It returns the
// placement, if the caller gives memory for a placement. It takes O(log n) time.
func (a *Agenda[T]) Remove(hash uint32, item T, memory *fifo.Placement) (p *fifo.Placement, ok bool) {
	at, r := a.Items.Find(hash, item)
	if r == nil {
		return nil, false
	}
	if memory != nil {
		p = a.placement(a.Items.Index(at), memory)
	}
	a.delete(hash, item, r.Pos)
	return p, true
}

// delete removes the node at index p and the record of its item.
func (a *Agenda[T]) delete(hash uint32, item T, p uint32) {
	ref := a.nodes.At(p).ref
	if last := a.nodes.Pop(); p < uint32(a.nodes.N) {
		a.sift(p, last)
	}
	at, _ := a.Items.Find(hash, item)
	a.Items.RemoveAny(at, ref, a.Items.Records.At(ref))
	if a.Items.Sparse() {
		a.Shrink()
	}
}

// Clear removes all items and gives their memory back.
func (a *Agenda[T]) Clear() { *a = Agenda[T]{Timed: a.Timed, ticket: a.ticket, era: a.era} }

// Shrink takes a step to give memory back, see slab.Table.Shrink.
func (a *Agenda[T]) Shrink() {
	a.Items.Shrink(func(from, to uint32, r *slab.Record[T, slab.None]) {
		a.nodes.At(r.Pos).ref = to
		if a.Timed {
			*a.starts.At(to) = *a.starts.At(from)
		}
		if a.extras != nil {
			a.extras.move(from, to, r.State)
		}
	})
	a.starts.Truncate(a.Items.Records.N)
	if a.extras != nil {
		a.extras.truncate(a.Items.Records.N)
	}
}

// sift places the node at index p, or above or below p, and returns the index of the node.
func (a *Agenda[T]) sift(p uint32, n node) uint32 {
	if at := a.siftUp(p, n); at != p {
		return at
	}
	return a.siftDown(p, n)
}

// place puts a node at an index and tells its record.
func (a *Agenda[T]) place(p uint32, n node) {
	*a.nodes.At(p) = n
	a.Items.Records.At(n.ref).Pos = p
}

// siftUp places the node at index p or above p, and returns the index of the node.
func (a *Agenda[T]) siftUp(p uint32, n node) uint32 {
	for p > 0 {
		parent := (p - 1) / slab.HeapArity
		above := *a.nodes.At(parent)
		if !n.before(above) {
			break
		}
		a.place(p, above)
		p = parent
	}
	a.place(p, n)
	return p
}

// siftDown places the node at index p or below p, and returns the index of the node.
func (a *Agenda[T]) siftDown(p uint32, n node) uint32 {
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

// firstChild returns the child of p that comes before the others, and the index of the
// child, or 0 if p has no child.
func (a *Agenda[T]) firstChild(p uint32) (child uint32, first node) {
	from := slab.HeapArity*p + 1
	for c := from; c < min(from+slab.HeapArity, uint32(a.nodes.N)); c++ {
		if n := *a.nodes.At(c); c == from || n.before(first) {
			child, first = c, n
		}
	}
	return child, first
}

// nextTicket returns the ticket of a node that comes after all others of its time.
func (a *Agenda[T]) nextTicket() uint32 {
	if a.ticket == math.MaxUint32 {
		a.renumber()
	}
	a.ticket++
	return a.ticket - 1
}

// renumber makes tickets count from zero again, once in four billion tickets. It sorts the
// nodes: a sorted heap is a heap.
func (a *Agenda[T]) renumber() {
	for p, n := range a.sorted() {
		n.ticket = uint32(p)
		a.place(uint32(p), n)
	}
	a.ticket = uint32(a.nodes.N)
	a.era++
}

// earliest returns the nodes that come first in the order of Pop, at most limit.
func (a *Agenda[T]) earliest(limit int) []node {
	if limit >= a.Len() {
		return a.sorted()
	}
	if limit <= 0 {
		return nil
	}
	nodes := make([]node, 0, limit)
	at := func(place int) *node { return a.nodes.At(uint32(place)) }
	slab.VisitFrom(a.nodes.N,
		func(p, q int) bool { return at(p).before(*at(q)) },
		func(place int) bool {
			nodes = append(nodes, *at(place))
			return len(nodes) < limit
		})
	return nodes
}

// sorted returns all nodes in the order of Pop.
func (a *Agenda[T]) sorted() []node {
	nodes := make([]node, 0, a.nodes.N)
	for p := range uint32(a.nodes.N) {
		nodes = append(nodes, *a.nodes.At(p))
	}
	slices.SortFunc(nodes, node.compare)
	return nodes
}

// Extras are fields that few items have, by record, in pages that exist only around records
// with such a field. So other items cost nothing, and the pages are freed with the records.
// At worst a page for 16 records has one of them. A map would take 34 bytes for each item,
// never shrink, and take more than half of the time of a Debounce.
type extras struct {
	// latest has the time beyond which Debounce cannot put an item off, for the items in
	// the state debounced.
	latest slab.SparsePages[time.Duration]
	// priorities has the priorities of the items. Where there is no page, the priority is
	// 0.
	priorities slab.SparsePages[int]
	// groups has the group of every item, if the queue has groups.
	groups slab.SparsePages[groupOfWait]
}

// A groupOfWait is the part of a placement for queues with groups.
type groupOfWait struct {
	name          string
	weight, limit int
}

// A WaitOfGroup is a waiting item by its record, with the name of its group.
type WaitOfGroup struct {
	ref  uint32
	Name string
}

// GroupOf returns the group of a record. It reports false if the queue has no groups.
func (a *Agenda[T]) GroupOf(ref uint32, _ *slab.Record[T, slab.None]) (w WaitOfGroup, ok bool) {
	if a.extras == nil {
		return w, false
	}
	g := a.extras.groups.Get(ref)
	return WaitOfGroup{ref, g.name}, g.weight > 0
}

// SetLimit replaces the limit that the end of a wait says, unless the record has become that of an item
// of another group.
func (a *Agenda[T]) SetLimit(w WaitOfGroup, limit int) {
	if now, ok := a.GroupOf(w.ref, nil); ok && now == w {
		a.extras.groups.At(w.ref).limit = limit
	}
}

// makeExtras returns the extras, and makes them if no item had a field of the extras
// before.
func (a *Agenda[T]) makeExtras() *extras {
	if a.extras == nil {
		a.extras = new(extras)
	}
	return a.extras
}

// The note of a record has namedWait if the record waits for an add with a named priority, and
// the reason of the wait in the other bits.
const (
	namedWait = 1
	whyShift  = 1
)

// setRank notes the rank of a record. insert calls setRank for every new record: an item
// before, with the same index, may have left another priority.
func (a *Agenda[T]) setRank(ref uint32, r *slab.Record[T, slab.None], p *fifo.Placement) {
	r.Note &^= namedWait
	if p != nil && p.Named {
		r.Note |= namedWait
	}
	if priority := p.Number(); priority != 0 || a.extras != nil && a.extras.priorities.Has(ref) {
		a.makeExtras().priorities.Put(ref, priority)
	}
}

// setWhy notes why a record waits.
func setWhy(r *slab.Tags, w *Timing) { r.Note = r.Note&namedWait | uint8(w.why())<<whyShift }

func (a *Agenda[T]) priority(ref uint32) int {
	if a.extras == nil {
		return 0
	}
	return a.extras.priorities.Get(ref)
}

func (a *Agenda[T]) rank(ref uint32) fifo.Rank {
	return fifo.Rank{Priority: a.priority(ref), Named: a.Items.Records.At(ref).Note&namedWait != 0}
}

// placement writes the placement of a record into the memory of the caller, and returns nil
// for the placement of a plain add.
func (a *Agenda[T]) placement(ref uint32, memory *fifo.Placement) *fifo.Placement {
	*memory = fifo.Placement{Rank: a.rank(ref)}
	if a.extras != nil {
		g := a.extras.groups.Get(ref)
		memory.Group, memory.Weight, memory.Limit = g.name, g.weight, g.limit
	}
	if *memory == (fifo.Placement{}) {
		return nil
	}
	memory.Waited = true
	return memory
}

// move gives the extras of a record to the record at another index.
func (x *extras) move(from, to uint32, s slab.State) {
	if s == debounced {
		x.latest.Put(to, *x.latest.At(from))
	}
	x.priorities.Move(from, to)
	x.groups.Move(from, to)
}

func (x *extras) truncate(n int) {
	x.latest.Truncate(n)
	x.priorities.Truncate(n)
	x.groups.Truncate(n)
}
