package workqueue

import "fmt"

// PriorityOptions are the options of [NewPriorityQueue]. The zero value is valid.
type PriorityOptions[T comparable] struct {
	// Of returns the priority of an item that is added without one; nil is 0 for
	// all of them. It is called once for each such add, of a queued item too,
	// which is raised if Of returns more than before. It may be called with the
	// lock of the queue held, from any goroutine, and must not call the queue. A
	// panic reaches the caller of the queue. The item is queued all the same, as a
	// [Queue] says of Push, or stays queued where it was.
	Of func(item T) int

	// OldestEvery bounds how long an item waits that is overtaken again and again:
	// of each so many hand-outs in a row at least one is that of the item that is
	// queued for longest. Whoever has k items queued before it is handed out after
	// OldestEvery*(k+1) hand-outs at the latest. 0 is no such bound, and 1 a FIFO.
	// It must not be negative.
	OldestEvery int

	// Within makes the order of the items of one priority; nil is a FIFO. It is
	// called for each priority that comes into use, and each time returns
	// a new and empty Queue, as [NewFairQueue] does for fairness within each
	// priority. An item that is raised leaves its old one by being dropped when
	// that hands it out. With OldestEvery it is then the turn of the order that has
	// the item queued for longest, which decides itself what it hands out.
	Within func() Queue[T]
}

// plain returns the priority of an item that is added without one.
func (o *PriorityOptions[T]) plain(item T) int {
	if o.Of == nil {
		return 0
	}
	return o.Of(item)
}

// NewPriorityQueue returns an order for the config of a queue that hands out items of
// a larger priority first, and those of one priority in the order in which they were
// added. It is a [PrioritizedQueue]: see AddWith. An item that is added again with a
// larger priority goes to the end of its new level; a smaller one changes nothing.
//
// An add or a hand-out takes constant time, amortized, in the number of items, and
// O(log n) time in the number of different priorities among the queued items. Each
// item takes 12 bytes more than without an order, and 8 to 21 more with OldestEvery.
//
// As with any [Queue], it must be given to one queue only. A queue of this package
// then keeps the order itself, and is faster than with an order of another make. The
// value is usable as the Queue of client-go's workqueue too, where all adds are plain
// ones.
//
// NewPriorityQueue panics if OldestEvery is negative.
func NewPriorityQueue[T comparable](options PriorityOptions[T]) Queue[T] {
	if options.OldestEvery < 0 {
		panic(fmt.Sprintf("workqueue: OldestEvery is %d, want 0 or more", options.OldestEvery))
	}
	if options.Within != nil {
		return newNestedQueue(options)
	}
	q := &priorityQueue[T]{options: options}
	q.ranks = newRanks(options.OldestEvery, q.place)
	return q
}

// A priorityQueue is an order by priority as a [Queue]. It keeps a table of its items.
// A [Typed] does not call it, but takes the options and keeps the order over its own
// records, see fifo_ranks.go: two tables would cost twice the time and the memory.
type priorityQueue[T comparable] struct {
	options PriorityOptions[T]
	items   table[T]
	ranks   *ranks
	last    int  // see lastRank
	taken   bool // by a Typed
}

const rankedItem state = 1

func (q *priorityQueue[T]) place(i uint32) *uint32 { return &q.items.records.at(i).pos }

// Push is that of [Queue]. Of is called before anything changes.
func (q *priorityQueue[T]) Push(item T) { q.PushWithPriority(item, q.options.plain(item)) }

// PushWithPriority is that of [PrioritizedQueue]. An item that is stored already is
// touched.
func (q *priorityQueue[T]) PushWithPriority(item T, priority int) {
	hash := hashOf(item)
	at, r := q.items.find(hash, item)
	if r != nil {
		q.raise(at, priority)
		return
	}
	i, r := q.items.insertAny(at, hash, item)
	q.last = priority
	r.state = rankedItem
	r.pos = q.ranks.push(i, priority)
}

// Touch is that of [Queue].
func (q *priorityQueue[T]) Touch(item T) { q.TouchWithPriority(item, q.options.plain(item)) }

// TouchWithPriority is that of [PrioritizedQueue].
func (q *priorityQueue[T]) TouchWithPriority(item T, priority int) {
	if at, r := q.items.find(hashOf(item), item); r != nil {
		q.raise(at, priority)
	}
}

func (q *priorityQueue[T]) raise(at uint32, priority int) {
	i := q.items.index(at)
	q.ranks.lift(i, priority)
	q.last = q.ranks.priorities.of(i)
}

func (q *priorityQueue[T]) ranking() bool { return true }
func (q *priorityQueue[T]) lastRank() int { return q.last }

// Len is that of [Queue].
func (q *priorityQueue[T]) Len() int { return q.ranks.n }

// Pop is that of [Queue].
func (q *priorityQueue[T]) Pop() T {
	item, _ := q.PopWithPriority()
	return item
}

// PopWithPriority is that of [PrioritizedQueue].
func (q *priorityQueue[T]) PopWithPriority() (item T, priority int) {
	if q.ranks.n == 0 {
		panic("workqueue: Pop of an empty Queue")
	}
	i := q.ranks.pop()
	r := q.items.records.at(i)
	item, priority = r.item, q.ranks.priorities.of(i)
	at, _ := q.items.find(hashOf(item), item)
	q.items.removeAny(at, i, r)
	if q.items.sparse() {
		moved := q.ranks.renumber()
		q.items.compact(func(from, to uint32, _ *record[T]) { moved(from, to, true) })
	}
	return item, priority
}
