package workqueue

import (
	"hash/maphash"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// TypedInterface is a queue as its producers and workers see it. [Typed]
// documents the methods; the other queues of the package add to them.
type TypedInterface[T comparable] interface {
	Add(item T)
	Len() int
	Get() (item T, shutdown bool)
	Done(item T)
	ShutDown()
	ShutDownWithDrain()
	ShuttingDown() bool
}

// TypedQueueConfig are the options of a [Typed]. The zero value is valid.
type TypedQueueConfig[T comparable] struct {
	// Name labels the metrics. A queue without a name has none.
	Name string

	// MetricsProvider makes the metrics. If nil, it is the one given to
	// [SetProvider] before the queue is constructed.
	MetricsProvider MetricsProvider

	// Clock times the items; nil is the real one.
	Clock clock.WithTicker

	// KeepTimes makes the queue note when each item was added and handed out
	// although it has no metrics, which always do. It costs three readings of
	// the clock and 16 bytes an item.
	KeepTimes bool

	// Queue stores the queued items and decides their order; nil is a FIFO.
	// A Queue must be empty and must not be shared between queues.
	Queue Queue[T]

	// Order is another name for Queue, which the configs of all queues have: what
	// [NewPriorityQueue] or [NewFairQueue] returns, or any other Queue. At most one
	// of the two may be set, or the constructor panics.
	Order Queue[T]
}

// Typed is a queue that deduplicates: an item added several times before a
// worker gets it is handed out once, and no two workers hold the same item at
// a time. The package comment describes the life of an item.
//
// The zero value is an empty queue without name and metrics, ready for use.
// All methods may be called concurrently. A Typed must not be copied.
// Whoever gets an item must call Done with it, and the owner must call
// ShutDown or ShutDownWithDrain if the queue has workers to release or, being
// named, metrics to stop.
//
// Items are compared by ==. A method given an item whose dynamic type cannot
// be compared panics, before it changes anything. An item that differs from
// itself, such as a NaN, is never a duplicate and cannot be named by Done: it
// is handed out once for each Add, and is forgotten when it is.
type Typed[T comparable] struct {
	// Immutable after construction.

	metrics  *instruments // nil if no times are kept, and so for no metrics
	reporter *reporter    // nil unless a provider is told of the work in flight

	// Guarded by mu, and used only if there are metrics. They stand here to keep mu
	// 32 bytes away from metrics, which each call reads just before it locks: side
	// by side they make BenchmarkDuplicate 40 % slower, see docs/decisions-locks.md.
	durations        *durations // nil unless a provider reads the queue
	adds, duplicates uint64

	// shut is fifo.closed for ShuttingDown, which does without the lock. It is
	// written with mu held.
	shut atomic.Bool

	mu sync.Mutex
	// The fields below are guarded by mu. A method ends its critical section by
	// settle and Unlock, written out, and not deferred: a panic in a method of a
	// storage skips both, see storageGuard.

	fifo fifo[T]

	// Workers park on wake, a channel with room for one token. The rules are,
	// whenever mu is free:
	//
	//	waking == a token is in the channel, or its receiver has not got to mu
	//	parked > 0, and fifo.ready() or fifo.closed: waking
	//
	// so that sending it never blocks, and while a worker is on its way no
	// other is woken. It takes an item and, if more are left, wakes the next
	// one. No wake-up can be lost: the token stays in the channel until
	// somebody takes it, and a worker that gives up (its context ended) either
	// took the token, in which case it looks for an item first, or did not.
	// Waking a worker for each item instead lets a burst of n adds pay for n
	// context switches although the first worker to arrive would have taken
	// most of them.
	//
	// Drainers never wait on wake but on drained, which is closed for all. If it
	// is not nil, fifo.closed and not fifo.idle().
	wake    chan struct{}
	parked  int // workers that sleep, or are about to
	waking  bool
	drained chan struct{} // nil while nobody drains
}

// NewTyped returns an empty queue without name and metrics.
func NewTyped[T comparable]() *Typed[T] {
	return NewTypedWithConfig(TypedQueueConfig[T]{})
}

// NewTypedWithConfig returns an empty queue.
func NewTypedWithConfig[T comparable](config TypedQueueConfig[T]) *Typed[T] {
	return newTyped(config, providerFor(config.Name, config.MetricsProvider))
}

// newTyped makes a queue with the provider that providerFor has returned for it.
func newTyped[T comparable](config TypedQueueConfig[T], p MetricsProvider) *Typed[T] {
	q := &Typed[T]{}
	q.fifo.reflexive = reflexive(reflect.TypeFor[T]())
	if order := config.order(); order != nil {
		q.fifo.storage = q.newStorage(order)
	}
	q.measure(config, p)
	if q.metrics != nil {
		q.fifo.keepTimes()
	}
	return q
}

// Add marks the item as in need of processing. It queues an item that is
// neither queued nor held by a worker, does nothing for one that is queued
// (a custom [Queue] is told by Touch), and lets Done queue one that is held.
// After ShutDown or ShutDownWithDrain it does nothing.
//
// Add does not block. A call to Add synchronizes before the return of the Get
// that hands the item out on its account.
func (q *Typed[T]) Add(item T) {
	hash := uint32(maphash.Comparable(hashSeed, item)) // hashOf is not inlined.
	if q.metrics != nil {
		q.addTimed(hash, item)
		return
	}
	if !q.mu.TryLock() {
		lockSoon(&q.mu)
	}
	at, r := q.fifo.items.probe(q.fifo.items.slots, hash, item)
	if r == nil && q.fifo.items.old != nil {
		r = q.fifo.items.fetch(at, hash, item)
	}
	if r == nil {
		q.fifo.add(at, hash, item, 0)
		q.settle()
	} else if r.state != queued {
		q.fifo.addAgain(at, r, 0)
		q.settle()
	}
	q.mu.Unlock()
}

// addTimed is Add for a queue that keeps times.
func (q *Typed[T]) addTimed(hash uint32, item T) {
	now := q.metrics.now()
	lockSoon(&q.mu)
	at, r := q.fifo.items.find(hash, item)
	added := q.addLocked(at, r, hash, item, now)
	q.settle()
	q.mu.Unlock()
	if added {
		q.metrics.added()
	}
}

// addLocked is Add for a caller that holds q.mu, settles, and observes the
// metrics of what was added. The caller has looked for the item, as for fifo.add.
func (q *Typed[T]) addLocked(at uint32, r *record[T], hash uint32, item T, now time.Duration) (added bool) {
	if r == nil {
		added = q.fifo.add(at, hash, item, now)
	} else {
		added = q.fifo.addAgain(at, r, now)
	}
	q.countAddLocked(added)
	return added
}

// countAdd counts an add. The caller must hold q.mu.
func (q *Typed[T]) countAddLocked(added bool) {
	if added {
		q.adds++
	} else if !q.fifo.closed {
		q.duplicates++
	}
}

// AddAll adds the items in their order, in one critical section: no other add
// comes in between, and all other calls wait until it ends. A worker is woken at
// its end. It allocates 4 bytes an item for more than 64 of them. After
// a panic in a method of a [Queue] the items behind that one are not added.
func (q *Typed[T]) AddAll(items ...T) {
	var few [64]uint32
	hashes := few[:0]
	for _, item := range items {
		hashes = append(hashes, hashOf(item)) // Panics before any is added.
	}
	now := q.metrics.now()
	n := 0
	q.mu.Lock()
	for i, item := range items {
		at, r := q.fifo.items.find(hashes[i], item)
		if q.addLocked(at, r, hashes[i], item, now) {
			n++
		}
	}
	q.settle()
	q.mu.Unlock()
	q.observeAdds(n)
}

// Len returns the number of queued items: not those being processed, even if
// they were added again. It is out of date when it returns; to decide anything
// by it is a race.
func (q *Typed[T]) Len() int {
	q.mu.Lock()
	n := q.fifo.size()
	q.mu.Unlock()
	return n
}

// Get removes the first item from the queue and hands it to the caller, who
// must call Done with it. It blocks while the queue is empty. Once the queue
// has been shut down and is empty, Get returns shutdown == true and no item.
//
// Workers are not served in the order of their calls.
func (q *Typed[T]) Get() (item T, shutdown bool) {
	if q.metrics != nil {
		item, _, err := q.get(nil)
		return item, err != nil
	}
	if !q.mu.TryLock() {
		lockSoon(&q.mu)
	}
	item, _, ok := q.fifo.take(0)
	if !ok {
		return q.stay()
	}
	q.settle()
	q.mu.Unlock()
	return item, false
}

// Done tells the queue that the caller, who got the item, has processed it. If
// the item was added again in the meantime, it is queued again now. Done does
// nothing for an item that nobody holds. It does not block.
func (q *Typed[T]) Done(item T) {
	hash := uint32(maphash.Comparable(hashSeed, item)) // hashOf is not inlined.
	if q.metrics != nil {
		q.doneTimed(hash, item)
		return
	}
	if !q.mu.TryLock() {
		lockSoon(&q.mu)
	}
	at, r := q.fifo.items.probe(q.fifo.items.slots, hash, item)
	if r == nil && q.fifo.items.old != nil {
		r = q.fifo.items.fetch(at, hash, item)
	}
	q.fifo.done(at, r, 0)
	q.settle()
	q.mu.Unlock()
}

// doneTimed is Done for a queue that keeps times.
func (q *Typed[T]) doneTimed(hash uint32, item T) {
	now := q.metrics.now()
	lockSoon(&q.mu)
	at, r := q.fifo.items.find(hash, item)
	worked, ok := q.fifo.done(at, r, now)
	if ok && q.durations != nil {
		q.durations.held.observe(worked)
	}
	q.settle()
	q.mu.Unlock()
	if ok {
		q.metrics.done(worked)
	}
}
