package workqueue

// FairOptions are the options of [NewFairQueue]. Group must be set. The others may
// be nil.
//
// The functions are called with the lock of the queue held: they must not call the
// queue, and everybody waits for them. Push alone calls them, which means an Add, a
// due item, or the Done of an item that was added again. What they say of a group
// holds from the last Push of one of its items. A panic in one of them is one in
// Push, see [Queue]: no item is lost, and the order goes on.
type FairOptions[T, G comparable] struct {
	// Group names the group of an item. It is asked once each time the item is
	// queued: if it then changes its mind, the item stays where it is until it is
	// done. Groups that differ from themselves, such as a NaN, are one group.
	Group func(item T) G

	// Weight is how many items of a group are handed out in its turn, 1 at least;
	// it panics for less. If nil, each group has 1. A turn that has begun gets no
	// longer.
	Weight func(group G) int

	// Within makes the queue that orders the items of one group, and may be that of
	// another group once it is empty. If nil, items of a group are in the order in
	// which they were added. It is called once by NewFairQueue, which panics for nil.
	Within func() Queue[T]

	// MaxInFlight is how many items of a group may be held by workers at a time, 0
	// for any number; it panics for less. A group that has as many keeps its items in
	// their order, and they occupy no worker. If nil, no group has a limit.
	MaxInFlight func(group G) int
}

// NewFairQueue returns a [Queue] that shares the workers among groups of items, by
// deficit round robin: the groups that have items take turns, and a group of weight w
// is handed out w items in a turn, or all that it has. A group that gets its first
// item has its turn after all others. So a group delays another one by at most one
// round, whatever it adds:
//
//	If k items of its own group come before it, an item waits for no more than
//	(k/w + 1) * v items of each other group, rounded down: k/w + 1 turns.
//
// w and v are the weights of the two groups. That does not count what is handed out
// while the item's own group is at its limit. A group whose turn comes to a halt as it
// is at its limit goes on with the rest of it when it is no longer, and before others:
// of such a group, up to v - 1 items more can come first.
//
// The queue implements [HoldingQueue] if there is a MaxInFlight, or the queue made by
// Within does, and [PrioritizedQueue] if that one does. A priority orders the items of
// one group only. To order groups within priorities, put a fair queue within a
// priority queue; each priority then has its own turns, and its own limits.
//
// MaxInFlight has an effect in the queues of this package, and in others that call
// Ready and Done. A caller that never asks whether the queue is Ready, such as the
// queue of client-go, gets all items in the order of the turns, and no account is
// kept. If it is not Ready and Pop is called all the same, that returns an item of a
// group that is at its limit. After a shutdown, Get says so when all that is left is
// held back. Whoever then calls Done, and Get again, is handed the rest.
//
// A Snapshot lists the items in the order of the turns, those of groups at their limits
// last, if the queues made by Within are of this package and have no OldestEvery.
//
// Each call takes constant time, plus that of the functions and of the queues made by
// Within. The queue is not safe for concurrent use, as is any Queue. A group takes
// some 400 bytes while it has items that are queued or held, and some 2 KB more if Within
// makes priority queues. Each item costs 16 bytes for strings. With Within, or while it
// is held and limits are kept, an item takes some 80 bytes more.
func NewFairQueue[T, G comparable](options FairOptions[T, G]) Queue[T] {
	if options.Group == nil {
		panic("workqueue: FairOptions.Group is nil")
	}
	f := &fair[T, G]{options: options, follows: options.Within != nil}
	if options.Within == nil {
		f.options.Within = DefaultQueue[T]
	}
	g := f.makeGroup()
	f.ranks = g.ranker != nil
	f.shelve(g)
	holds := options.MaxInFlight != nil || g.holding != nil
	switch {
	case holds && g.prioritized != nil:
		return fairFull[T, G]{f, fairPriorities[T, G]{f}, fairHolds[T, G]{f}}
	case holds:
		return fairHolding[T, G]{f, fairHolds[T, G]{f}}
	case g.prioritized != nil:
		return fairPrioritized[T, G]{f, fairPriorities[T, G]{f}}
	}
	return f
}

// A fair is the machine inside a fair queue. Groups that have items stand in one of
// two rosters: in turns, in the order in which they have their turns, or in resting
// while they may not be popped from.
//
// A turn begins when a Pop finds its group at the head of turns, and takes as many
// Pops as the group has weight. Then the group goes to the end. A group that comes
// to rest in the midst of its turn comes back to the head, and has what is left of
// it. At the end it would lose its share, as each group at its limit would have one
// item a round. The turn does not get longer, and the next one begins at the end. So
// what it adds to the wait of an item of another group is the rest of one turn, and
// that only if the other group was in the midst of its own turn: the two then end in
// the other order. To come back behind all groups that are in the midst of theirs would
// do the same to its own items.
//
// Invariants, for a group g in groups, or which is odd:
//
//	g.in == &turns:    g.size > 0, and may(g)
//	g.in == &resting:  g.size > 0, and not may(g)
//	g.in == nil:       g.size == 0, g.flying > 0, g.credit == 0
//	g.size == g.within.Len(), and size == the sum of them
//	g.flying == number of notes in owners that say held and g
//	number of notes that do not say held == size, or 0 unless follows
//	0 <= g.credit <= g.weight, and only the first groups of turns have credit > 0
//
// They hold before each call of a queue within, and after it, apart from the group of
// that queue, which is in doubt then. A call that does not return leaves it so. The
// next call of the fair then settles that group first: see enter.
type fair[T, G comparable] struct {
	// Immutable after construction.

	options FairOptions[T, G]
	follows bool // queues within are told of Touch, so the group of each queued item is noted
	ranks   bool // queues within tell the priority of what they store

	// disordered says that there is a queue within that cannot tell its order.
	disordered bool

	// heard says that there was a Ready. Items are noted while they are held from then on.
	// A caller that knows no Ready knows no Done: items would be held for ever.
	heard bool

	groups  ledger[G, *fairGroup[T, G]]
	odd     *fairGroup[T, G] // for groups that differ from themselves; nil while it has no item
	turns   roster[T, G]
	resting roster[T, G]
	size    int
	last    int // see lastRank
	owners  ledger[T, owner[T, G]]
	doubt   *fairGroup[T, G]
	spares  []*fairGroup[T, G]
}

// An owner is what is noted of an item: its group, and whether it is held. The group
// function is not asked again, as it may say something else.
type owner[T, G comparable] struct {
	group *fairGroup[T, G]
	held  bool
}

// Touch implements [Queue].
func (f *fair[T, G]) Touch(item T) { f.touch(item, 0, false) }

// Push implements [Queue].
func (f *fair[T, G]) Push(item T) { f.push(item, 0, false) }

// Len implements [Queue].
func (f *fair[T, G]) Len() int {
	f.enter()
	return f.size
}

// Pop implements [Queue].
func (f *fair[T, G]) Pop() T {
	item, _ := f.pop()
	return item
}

// enter begins each call. If the last call of a queue within has not returned, nobody
// knows what that has done, so its group is settled now.
func (f *fair[T, G]) enter() {
	if g := f.doubt; g != nil {
		f.doubt = nil // First: settling it may panic in turn, and would do so for ever.
		g.failed = true
		f.settle(g)
	}
}

// push queues an item, with a priority if one was named. Foreign functions are called
// before anything changes, and a new group is noted when it has an item.
func (f *fair[T, G]) push(item T, priority int, named bool) {
	f.enter()
	f.release(item)
	g := f.groupOf(item)
	if g.known {
		f.doubt = g
	}
	if named && g.prioritized != nil {
		g.prioritized.PushWithPriority(item, priority)
	} else {
		g.within.Push(item)
	}
	f.note(g)
	f.doubt = g
	f.learn(g)
	if f.follows && equal(item, item) {
		f.owners.enter(hashOf(item), item).group = g
	}
	f.settle(g)
	f.doubt = nil
}

// release ends the hand-out of an item that is pushed: nobody pushes what is held, so
// its Done was not heard. One that is noted as queued is pushed all the same. Its queue
// may have lost it when a call did not return, and a caller copes better with an item
// that comes twice. This also hashes the item before anything changes.
func (f *fair[T, G]) release(item T) {
	if !f.follows && f.owners.len() == 0 {
		return
	}
	if o := f.owners.find(hashOf(item), item); o != nil && o.held {
		f.done(item)
	}
}

// touch tells the queue of the item's group.
func (f *fair[T, G]) touch(item T, priority int, named bool) {
	f.enter()
	if !f.follows {
		return
	}
	o := f.owners.find(hashOf(item), item)
	if o == nil || o.held || !o.group.known {
		return
	}
	g := o.group
	f.doubt = g
	if named && g.prioritized != nil {
		g.prioritized.TouchWithPriority(item, priority)
	} else {
		g.within.Touch(item)
	}
	f.learn(g)
	f.settle(g)
	f.doubt = nil
}

// pop hands out the next item of the group whose turn it is.
func (f *fair[T, G]) pop() (item T, priority int) {
	f.enter()
	g := f.next()
	f.doubt = g
	if g.prioritized != nil {
		item, priority = g.prioritized.PopWithPriority()
	} else {
		item = g.within.Pop()
	}
	f.charge(g)
	f.handOver(g, item)
	f.settle(g)
	f.doubt = nil
	return item, priority
}

// next returns the group to pop from. If none may be, the caller does not know of
// Ready, and is not to find nothing where Len is positive.
func (f *fair[T, G]) next() *fairGroup[T, G] {
	if g := f.turns.first; g != nil {
		return g
	}
	if g := f.resting.first; g != nil {
		return g
	}
	panic("workqueue: Pop of an empty Queue")
}

// charge takes an item from the turn of a group, and begins or ends the turn.
func (f *fair[T, G]) charge(g *fairGroup[T, G]) {
	if g.in == &f.resting { // It is no turn.
		g.moveToEnd()
		return
	}
	if g.credit == 0 {
		g.credit = g.weight
	}
	if g.credit--; g.credit == 0 {
		g.moveToEnd()
	}
}

// handOver notes that an item is held, or nothing where Done is not heard. Of an item
// that differs from itself no Done can tell, so it is not counted. Nor is one a second
// time that is held already, as a queue within can make up.
func (f *fair[T, G]) handOver(g *fairGroup[T, G], item T) {
	if !f.heard && !f.follows || !equal(item, item) {
		return
	}
	hash := hashOf(item)
	if !f.heard {
		f.owners.remove(hash, item)
		return
	}
	if o := f.owners.enter(hash, item); !o.held {
		*o = owner[T, G]{group: g, held: true}
		g.flying++
	}
}
