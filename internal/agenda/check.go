package agenda

import (
	"unsafe"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// Only tests call the functions of this file, here and in the root.

// CheckInvariants returns the violated invariants of the Agenda, or nil.
func (a *Agenda[T]) CheckInvariants() error {
	var errs slab.Check
	errs.Add("agenda: ", a.Items.CheckInvariants())
	errs.Add("nodes: ", a.nodes.CheckInvariants())
	errs.That(a.nodes.N == a.Items.Live, "agenda: %d nodes for %d records", a.nodes.N, a.Items.Live)
	errs.That(a.starts.N == a.Items.Records.N || !a.Timed && a.starts.N == 0, "agenda: %d starts for %d records", a.starts.N, a.Items.Records.N)
	for _, n := range a.extras.pages() {
		errs.That(slab.PageSize*n < a.Items.Records.N+slab.PageSize, "agenda: %d pages of extras for %d records", n, a.Items.Records.N)
	}
	firms := 0
	for p := range uint32(a.nodes.N) {
		n := *a.nodes.At(p)
		if p > 0 {
			parent := *a.nodes.At((p - 1) / slab.HeapArity)
			errs.That(!n.before(parent), "agenda: node %d %+v comes before its parent %+v", p, n, parent)
		}
		r := a.Items.Records.At(n.ref)
		errs.That(r.Pos == p && r.State >= waiting && r.State <= firm, "agenda: record %d of node %d has pos %d, state %d", n.ref, p, r.Pos, r.State)
		if r.State == debounced {
			latest := *a.extras.latest.At(n.ref)
			errs.That(n.due <= latest, "agenda: %v is due at %v, the latest is %v", r.Item, n.due, latest)
		}
		if r.State == firm {
			firms++
		}
		errs.That(n.ticket < a.ticket, "agenda: node %d has ticket %d of %d", p, n.ticket, a.ticket)
	}
	errs.That(a.Firms == firms, "agenda: %d firm waits, are %d", a.Firms, firms)
	return errs.Err()
}

// pages returns how many pages of each kind there are, at most.
func (x *extras) pages() []int {
	if x == nil {
		return nil
	}
	return []int{len(x.latest), len(x.priorities), len(x.groups)}
}

// Room returns for how many items the Agenda has records.
func (a *Agenda[T]) Room() int { return a.Items.Records.N }

// NodeSize returns the bytes of a node.
func NodeSize() uintptr { return unsafe.Sizeof(node{}) }
