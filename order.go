package workqueue

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/seed16c08ea7/workqueue/internal/agenda"
	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// Order says which queued item is handed out next. The zero value hands out the highest
// priority first, and items of one priority in the order in which they were added: a
// FIFO, as long as no add names a priority.
//
// With Group, the groups take turns: among the items of the highest priority, or with
// GroupsFirst among all items. An item that is raised to a higher priority while it is
// queued goes to the end of that priority.
//
// The functions are called by whoever adds an item, without a lock of the queue, and so
// concurrently. The functions are called once for each add, also of an item that is queued
// already, and once when an item begins to wait; never when the wait ends. The functions may
// call the queue. A panic of a function reaches the caller, and nothing is added. A changed answer holds
// from the next add: a queued or waiting item keeps its group until it is handed out, and
// the last add of a group decides the weight and the limit of the group. LimitsChanged of the queue asks
// for the limits of all groups at once.
//
// An Order is a plain value, and several queues can have the same. Weight, MaxInFlight or
// GroupsFirst without Group, and a negative OldestEvery, make the constructor of the queue
// panic. After a shutdown an Add still calls the functions, and an AddAfter does not.
type Order[T comparable] struct {
	// Priority is the priority of an item whose add names none; nil is 0 for all. Larger
	// priorities are handed out first.
	Priority func(item T) int

	// OldestEvery n hands out the oldest item at least every n-th time, so that low
	// priorities do not starve. 0 is never, and 1 makes the queue a FIFO. An item that is
	// raised is as old as its raise. The oldest item is looked for in the whole queue, or with
	// GroupsFirst in the group whose turn it is, without the items of groups that have reached
	// MaxInFlight. An item of low priority waits for the older items of the higher ones, which
	// may be many after an outage: see docs/ordering.md for the bound. OldestEvery costs 8 bytes an item.
	OldestEvery int

	// Group names the group of an item; nil is one group for all. The empty name is a
	// group like any other.
	Group func(item T) string

	// Weight is how many items of the group are handed out in a turn; nil is 1 for all. The add of
	// an item whose group has a Weight below 1 panics, and adds nothing. A turn ends early when the
	// group has no item left.
	Weight func(group string) int

	// MaxInFlight is how many items of the group workers may hold at a time. 0, or a nil
	// function, is any number. A negative number, see [HoldBack], holds the group back: none of
	// its items is handed out. Every hand-out counts, until Done. The other items of the group
	// stay queued meanwhile, and Get blocks if no other item is there, or after a shutdown returns.
	// When an answer has changed, call LimitsChanged of the queue.
	MaxInFlight func(group string) int

	// GroupsFirst lets the groups take turns whatever the priorities of their items. The
	// priorities then order the items within a group.
	GroupsFirst bool
}

// HoldBack is the answer of MaxInFlight of an [Order] for a group that is held back, as for a tenant who
// is suspended. Each negative number says the same. Nobody gets the items after a shutdown either, and
// ShutDownWithDrain waits until the group goes on, see LimitsChanged, or its items are removed.
const HoldBack = -1

// check panics for fields that have no meaning.
func (o *Order[T]) check() {
	without := ""
	switch {
	case o.OldestEvery < 0:
		panic(fmt.Sprintf("workqueue: Order.OldestEvery is negative: %d", o.OldestEvery))
	case o.Group != nil:
		return
	case o.Weight != nil:
		without = "Weight"
	case o.MaxInFlight != nil:
		without = "MaxInFlight"
	case o.GroupsFirst:
		without = "GroupsFirst"
	default:
		return
	}
	panic(fmt.Sprintf("workqueue: Order.%s has no effect without Order.Group", without))
}

func (o *Order[T]) isSet() bool {
	return o.asks() || o.OldestEvery != 0 || o.Weight != nil || o.MaxInFlight != nil || o.GroupsFirst
}

// asks reports whether a function has to be asked about each item.
func (o *Order[T]) asks() bool { return o.Priority != nil || o.Group != nil }

// An ordering is the Order of a queue whose functions are asked.
type ordering[T comparable] struct {
	Order[T]
	era atomic.Uint32 // counts the calls of LimitsChanged
}

// isStale reports whether LimitsChanged was called since the functions were asked for a placement.
func (o *ordering[T]) isStale(p *fifo.Placement) bool { return o.era.Load() != p.Era }

// rankOf returns the rank for the Priority of [AddOptions].
func rankOf(priority *int) fifo.Rank {
	if priority == nil {
		return fifo.Rank{}
	}
	return fifo.Rank{Priority: *priority, Named: true}
}

// priorityOf is the inverse of rankOf.
func priorityOf(k fifo.Rank) *int {
	if !k.Named {
		return nil
	}
	return &k.Priority
}

// place asks the functions, at least one, about an item. It notes the answers in p, which must
// be zero, and returns p.
func (o *ordering[T]) place(p *fifo.Placement, item T, k fifo.Rank) *fifo.Placement {
	p.Rank, p.Era = k, o.era.Load()
	if !k.Named && o.Priority != nil {
		p.Priority = o.Priority(item)
	}
	if o.Group != nil {
		p.Group = o.Group(item)
		p.Weight, p.Limit = o.shareOf(p.Group)
	}
	return p
}

// rankOnly is place without functions.
func rankOnly(p *fifo.Placement, k fifo.Rank) *fifo.Placement {
	if !k.Named {
		return nil
	}
	p.Rank = k
	return p
}

// shareOf asks for the weight and the limit of a group.
func (o *Order[T]) shareOf(group string) (weight, limit int) {
	weight = 1
	if o.Weight != nil {
		if weight = o.Weight(group); weight < 1 {
			panic(fmt.Sprintf("workqueue: Order.Weight is %d for group %q, and has to be 1 at least", weight, group))
		}
	}
	if o.MaxInFlight != nil {
		limit = o.MaxInFlight(group)
	}
	return weight, limit
}

// placeAll asks about all items, before any of them is added: a panic adds none. It returns
// nil if all have the same placement, for which nothing is asked.
func (o *ordering[T]) placeAll(items []T, k fifo.Rank) (each []fifo.Placement) {
	if o.Group == nil && k.Named {
		return nil
	}
	each = make([]fifo.Placement, len(items))
	for i, item := range items {
		o.place(&each[i], item, k)
	}
	return each
}

// A hearing asks for the limits of groups again, each group once. It calls foreign code, so no lock is
// held. A hearing is void if LimitsChanged is called while it lasts: its answers may be older than those
// of the next hearing.
type hearing[T comparable] struct {
	typed  *Typed[T]
	era    uint32
	limits map[string]int
}

// rehear makes hearings until one is not void. hear reports whether a hearing was not void.
func (q *Typed[T]) rehear(hear func(h *hearing[T]) (valid bool)) {
	for !hear(&hearing[T]{q, q.order.era.Load(), map[string]int{}}) {
	}
}

// limitOf returns the limit of a group.
func (h *hearing[T]) limitOf(group string) int {
	limit, asked := h.limits[group]
	if !asked {
		limit = h.typed.order.MaxInFlight(group)
		h.limits[group] = limit
	}
	return limit
}

// isVoid reports whether the answers may be out of date. The caller holds the lock under which it writes
// them.
func (h *hearing[T]) isVoid() bool { return h.typed.order.era.Load() != h.era }

// hearGroups replaces the limits of all groups with queued or held items, in the order of their names: in
// that order the groups that are full no more come to their turn.
func (h *hearing[T]) hearGroups() (valid bool) {
	names := h.typed.fifo.GroupNames(&h.typed.mu)
	slices.Sort(names)
	for piece := range slices.Chunk(names, groupsAtOnce) {
		for _, name := range piece {
			h.limitOf(name)
		}
		if !h.setLimits(piece) {
			return false
		}
	}
	return true
}

// groupsAtOnce is how many groups get their limits in one critical section. Not tuned.
const groupsAtOnce = 256

func (h *hearing[T]) setLimits(names []string) (valid bool) {
	q := h.typed
	q.mu.Lock()
	defer q.mu.Unlock()
	if h.isVoid() {
		return false
	}
	for _, name := range names {
		q.fifo.SetLimit(name, h.limits[name])
	}
	q.settle()
	return true
}

// hearWaits replaces the limits that the ends of waits will say for groups that begin with them. Waits
// come before hearGroups: a wait that ends in between says the old limit, and hearGroups finds its group.
func (q *TypedDelaying[T]) hearWaits(h *hearing[T]) (valid bool) {
	for piece := range slab.Walk(&q.mu, &q.agenda.Items, q.agenda.GroupOf) {
		for _, w := range piece {
			h.limitOf(w.Name)
		}
		if !q.setLimits(h, piece) {
			return false
		}
	}
	slab.Settle(&q.mu, &q.agenda.Items, q.agenda.Shrink)
	return true
}

func (q *TypedDelaying[T]) setLimits(h *hearing[T], waits []agenda.WaitOfGroup) (valid bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if h.isVoid() {
		return false
	}
	for _, w := range waits {
		q.agenda.SetLimit(w, h.limits[w.Name])
	}
	return true
}
