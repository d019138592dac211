package workqueue

import (
	"fmt"
	"hash/maphash"
	"time"
)

// AddOptions say when and with which priority AddWith adds items. The zero value is
// that of a plain Add.
type AddOptions struct {
	// After is how long the items wait before they are added; zero or less is not at
	// all. A [Typed] cannot delay.
	After time.Duration

	// RateLimited makes the items wait for as long as the limiter says, which counts
	// a failure. With After, the earlier of the two times counts. Only
	// a [TypedRateLimiting] has a limiter.
	RateLimited bool

	// Priority says which items are handed out first: those of a larger one. 0
	// leaves it to the order of the queue, as a plain Add does. A queue without
	// a [PrioritizedQueue] as its order takes no other value.
	Priority int
}

// AddWith adds the items in their order, in one critical section as AddAll does, with
// a priority. An item that is queued already keeps the higher one. If that raises it,
// it goes to the end of its new level. For an item that is held, the priority is that
// of the add, or the highest of several, and says where its Done queues it.
//
// AddWith panics, before it adds anything, if there is a priority and the queue's
// order knows none, and if the options name a delay or a limiter: a Typed has neither.
func (q *Typed[T]) AddWith(options AddOptions, items ...T) {
	if options.After > 0 || options.RateLimited {
		panic(fmt.Sprintf("workqueue: AddWith of %T with %+v: it has no delays and no limiter", q, options))
	}
	q.mustPrioritize(options.Priority)
	if options.Priority == 0 {
		q.AddAll(items...)
		return
	}
	if len(items) == 1 {
		q.addRanked(rankOf(options.Priority), items[0])
		return
	}
	q.addAllRanked(rankOf(options.Priority), items)
}

// addRanked is Add with a priority, for one item. It is written out like Add, as each
// prioritized add passes here.
func (q *Typed[T]) addRanked(k rank, item T) {
	hash := uint32(maphash.Comparable(hashSeed, item)) // hashOf is not inlined.
	now := q.metrics.now()
	if !q.mu.TryLock() {
		lockSoon(&q.mu)
	}
	added := q.addRankedLocked(hash, item, now, k)
	q.settle()
	q.mu.Unlock()
	if added {
		q.metrics.added()
	}
}

// addAllRanked is AddAll with a priority. It waits for the lock as AddAll does, and not as
// Add: whoever adds many items does not mind some microseconds.
func (q *Typed[T]) addAllRanked(k rank, items []T) {
	var few [64]uint32
	hashes := few[:0]
	for _, item := range items {
		hashes = append(hashes, hashOf(item)) // Panics before any is added.
	}
	now := q.metrics.now()
	n := 0
	q.mu.Lock()
	for i, item := range items {
		if q.addRankedLocked(hashes[i], item, now, k) {
			n++
		}
	}
	q.settle()
	q.mu.Unlock()
	q.observeAdds(n)
}

// addRankedLocked is addLocked with a priority that is named. The fifo asks for it where
// it needs it: to pass it on as an argument costs the adds that have none. An item that is
// queued in ranks is raised at once, as its priority is known and no foreign code is asked:
// on the way through addAgain a raise takes an eighth longer.
func (q *Typed[T]) addRankedLocked(hash uint32, item T, now time.Duration, k rank) (added bool) {
	at, r := q.fifo.items.probe(q.fifo.items.slots, hash, item) // find is not inlined.
	if r == nil && q.fifo.items.old != nil {
		r = q.fifo.items.fetch(at, hash, item)
	}
	g := q.fifo.storage
	switch {
	case g == nil:
		return q.addLocked(at, r, hash, item, now)
	case g.ranks == nil: // A storage may know no priorities, and is told of none that is 0.
		k = rankOf(k.priority)
	case r != nil && r.state == ranked && !q.fifo.closed:
		g.ranks.lift(q.fifo.items.index(at), k.priority)
		q.countAddLocked(false)
		return false
	}
	g.asked = k
	added = q.addLocked(at, r, hash, item, now)
	g.asked = rank{}
	return added
}

// mustPrioritize panics if the order of the queue knows no priorities and one is named: to
// ignore it would hand out urgent items in any order, and nobody would be told.
func (q *Typed[T]) mustPrioritize(priority int) {
	if g := q.fifo.storage; priority != 0 && (g == nil || g.ranks == nil && g.prioritized == nil) {
		panic(fmt.Sprintf("workqueue: AddWith with priority %d: the order of the queue knows no priorities, see NewPriorityQueue", priority))
	}
}

// GetWithPriority is Get, and returns the priority that the item was handed out with:
// the one that it was added with, or that the order of the queue has given it. It is 0
// for a queue whose order knows none. It blocks as Get does, and the caller must call
// Done.
func (q *Typed[T]) GetWithPriority() (item T, priority int, shutdown bool) {
	if q.metrics == nil {
		if !q.mu.TryLock() {
			lockSoon(&q.mu)
		}
		item, _, ok := q.fifo.take(0)
		if ok {
			priority = q.fifo.priorityTaken(item)
			q.settle()
			q.mu.Unlock()
			return item, priority, false
		}
		q.mu.Unlock()
	}
	item, priority, err := q.get(nil)
	return item, priority, err != nil
}

// order returns what stores the items, nil for the FIFO. The two fields of a config mean the
// same; Queue is there because client-go has it.
func (c TypedQueueConfig[T]) order() Queue[T] {
	if c.Order == nil {
		return c.Queue
	}
	if c.Queue != nil {
		panic("workqueue: a config has both a Queue and an Order")
	}
	return c.Order
}

// keepsOrder reports whether a queue keeps an order itself, and calls no storage. Then the
// lock of a delaying queue above may be held while its items are added.
func keepsOrder[T comparable](order Queue[T]) bool {
	_, ok := order.(*priorityQueue[T])
	return ok || order == nil
}

// newStorage returns the storage for a queue of a config. An order by priority is kept
// by the fifo itself. What was returned for it holds only the options then, and says by
// taken that it is in use.
func (q *Typed[T]) newStorage(order Queue[T]) *storageGuard[T] {
	p, ok := order.(*priorityQueue[T])
	if !ok {
		return newStorageGuard(order, q.leave)
	}
	if p.taken || p.Len() > 0 {
		panic("workqueue: what NewPriorityQueue returns was given to two queues, or is not empty")
	}
	p.taken = true
	return q.fifo.newRanked(p.options, q.leave)
}
