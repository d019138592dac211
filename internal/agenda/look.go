package agenda

import (
	"slices"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// This file reads an Agenda for snapshots and drains, and changes nothing.

// dense decides between two ways to find the first items. To copy an item takes some 20 ns,
// and all are sorted later. To find the next item in the heap takes some 600 ns. So all are
// copied if there are up to this many for each item that is asked for.
const dense = 16

// A Census is a copy of the first items of an Agenda. Every call waits while the lock is held,
// so only copying happens then. Sorting comes after.
type Census[T comparable] struct {
	Limit int  // of the items that Each visits
	Total int  // of the items that wait
	Timed bool // since when is known

	entries []fifo.Entry[T]
	order   []node // a node's ref is the place of its item in entries
}

// MakeRoom makes room for EnterIn, if so many items wait. The lock is not held.
func (c *Census[T]) MakeRoom(waiting int) {
	if waiting/dense > c.Limit {
		waiting = c.Limit
	}
	c.entries, c.order = slab.RoomFor[fifo.Entry[T]](waiting), slab.RoomFor[node](waiting)
}

// EnterIn enters the first items in a census, or all of them if they are not many more than
// the limit, see dense.
func (a *Agenda[T]) EnterIn(c *Census[T]) {
	c.Total, c.Timed = a.Len(), a.Timed
	if a.Len()/dense > c.Limit {
		for _, n := range a.earliest(c.Limit) {
			c.enter(a, n)
		}
		return
	}
	for p := range uint32(a.nodes.N) {
		c.enter(a, *a.nodes.At(p))
	}
}

// enter copies the item of a node. The copy of the node refers to the entry, so the order can
// be found when the Agenda is unlocked.
func (c *Census[T]) enter(a *Agenda[T], n node) {
	e := a.entry(n.ref)
	n.ref = uint32(len(c.entries))
	c.entries = append(c.entries, e)
	c.order = append(c.order, n)
}

// RankFirm sets the ranks of the items whose wait is firm, as the FIFO below knows them.
func (c *Census[T]) RankFirm(rankOf func(item T) (fifo.Rank, bool)) {
	for i := range c.entries {
		if e := &c.entries[i]; e.Firm {
			e.SetRank(rankOf(e.Item))
		}
	}
}

// Len returns how many items Each visits.
func (c *Census[T]) Len() int { return min(c.Limit, len(c.order)) }

// Each visits the first items in the order of their due times. It sorts the items, as most
// come in the order of the heap, and leaves out the items beyond the limit.
func (c *Census[T]) Each(visit func(place int, e Entry[T])) {
	slices.SortFunc(c.order, node.compare)
	for place, n := range c.order[:c.Len()] {
		visit(place, Entry[T]{c.entries[n.ref], n.due})
	}
}

// An Entry is a copied item, with its due time.
type Entry[T comparable] struct {
	fifo.Entry[T]
	Due time.Duration
}

// Find copies an item that waits.
func (a *Agenda[T]) Find(hash uint32, item T) (e Entry[T], waits bool) {
	at, r := a.Items.Find(hash, item)
	if r == nil {
		return e, false
	}
	return a.EntryOf(a.Items.Index(at), r)
}

// EntryOf copies the item of a record.
func (a *Agenda[T]) EntryOf(ref uint32, r *slab.Record[T, slab.None]) (Entry[T], bool) {
	return Entry[T]{a.entry(ref), a.nodes.At(r.Pos).due}, true
}

func (a *Agenda[T]) entry(ref uint32) fifo.Entry[T] {
	r := a.Items.Records.At(ref)
	e := fifo.Entry[T]{Item: r.Item, Rank: a.rank(ref), Firm: r.State == firm, Why: fifo.Why(r.Note >> whyShift)}
	if a.Timed {
		e.Since = *a.starts.At(ref)
	}
	return e
}

// Has is Waits without a hash.
func (a *Agenda[T]) Has(item T) bool { return a.Waits(slab.HashOf(item), item) }

// CountNaN returns how many items that differ from themselves wait, or most if there are more.
func (a *Agenda[T]) CountNaN(most int) (n int) {
	for p := uint32(0); p < uint32(a.nodes.N) && n < most; p++ {
		if item := a.Items.Records.At(a.nodes.At(p).ref).Item; !slab.Equal(item, item) {
			n++
		}
	}
	return n
}
