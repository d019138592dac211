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

	metrics *instruments // nil if no times are kept, and so for no metrics
	storage Queue[T]     // nil for the line below

	// reflexive is set if it is known that no item differs from itself.
	reflexive bool

	// shuttingDown is written with mu held, so that whoever holds mu sees a
	// constant; it is atomic for ShuttingDown alone.
	shuttingDown atomic.Bool

	mu sync.Mutex
	// The fields below are guarded by mu.
	//
	// An item is in one of these states, and in none when the table has no
	// record of it:
	//
	//	queued      in line, waiting for a Get
	//	inStorage   in storage, waiting for a Get
	//	removed     in storage, to be dropped when that hands it out
	//	unfindable  in line, but not equal to itself: Get forgets it
	//	processing  handed out, Done is owed
	//	watched     the same, and the Add of it is to be reported
	//	reprocess   handed out and added again since: Done queues it
	//
	// and moves as follows, where queued stands for inStorage too, and
	// processing for watched:
	//
	//	Add     none, removed → queued;  none → unfindable;  processing → reprocess
	//	Get     queued → processing;     removed, unfindable → none
	//	Done    processing → none;       reprocess → queued
	//	Remove  queued → none, removed;  reprocess → processing
	//
	// Invariants, for a record r with index i:
	//
	//	r.state is queued or unfindable: line[r.pos] == i
	//	r.state.held(): held[r.pos] == i
	//	line.len() + len(held) + number of records inStorage or removed == items.live
	//	stored == number of records inStorage + unmatched
	//	ghosts == number of records removed
	//	the items in watchers are those of the records watched
	//	stamps.n == items.records.n, or 0 if metrics == nil
	items  table[T]
	line   line
	stored int
	ghosts int
	// unmatched is how many items not equal to themselves storage has been given
	// and has not given back.
	unmatched int
	held      []uint32
	stamps    pages[stamp]
	watchers  map[T]func()

	// What has been counted, if metrics != nil.
	adds, duplicates uint64
	durations        *durations // nil unless a provider reads the queue

	// Workers park on wake, a channel with room for one token. The rules are:
	//
	//	waking == a token is in the channel, or its receiver has not got to mu
	//	waiting > 0, and an item is queued or the queue shut down: waking
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
	// Drainers never wait on wake but on drained, which is closed for all.
	wake    chan struct{}
	waiting int // workers that park, or are about to
	waking  bool
	drained chan struct{} // nil while nobody drains

	// reporting is true while a goroutine keeps the push-style gauges.
	reporting atomic.Bool
	reports   crew
	stop      chan struct{} // closed at shutdown; nil without such gauges
}

const (
	queued state = 1 + iota
	inStorage
	removed
	unfindable
	processing
	watched
	reprocess
)

// held reports whether a record of this state is one that a worker holds.
func (s state) held() bool { return s >= processing }

// A stamp holds the times of an item.
type stamp struct {
	added   time.Duration // at the Add that it is queued or marked for
	started time.Duration // at the Get that handed it out
}

// NewTyped returns an empty queue without name and metrics.
func NewTyped[T comparable]() *Typed[T] {
	return NewTypedWithConfig(TypedQueueConfig[T]{})
}

// NewTypedWithConfig returns an empty queue.
func NewTypedWithConfig[T comparable](config TypedQueueConfig[T]) *Typed[T] {
	return newTyped(config, providerFor(config.Name, config.MetricsProvider))
}

// newTyped returns a queue with the metrics of a provider, nil for none.
func newTyped[T comparable](config TypedQueueConfig[T], p MetricsProvider) *Typed[T] {
	q := &Typed[T]{storage: config.Queue, reflexive: reflexive(reflect.TypeFor[T]())}
	q.measure(config, p)
	return q
}

// plain reports whether no foreign code can run in a transition. It then needs
// neither times nor a deferred Unlock, and the three methods that every item
// passes take a path without them: an Add, Get, Done cycle takes 52 ns instead
// of 62, of which three pairs of Lock and Unlock are 31 and two hashes 7.
func (q *Typed[T]) plain() bool { return q.metrics == nil && q.storage == nil }

// Add marks the item as in need of processing. It queues an item that is
// neither queued nor held by a worker, does nothing for one that is queued
// (a custom [Queue] is told by Touch), and lets Done queue one that is held.
// After ShutDown or ShutDownWithDrain it does nothing.
//
// Add does not block. A call to Add synchronizes before the return of the Get
// that hands the item out on its account.
func (q *Typed[T]) Add(item T) {
	hash := uint32(maphash.Comparable(seed, item)) // hashOf is not inlined.
	if q.plain() {
		if !q.mu.TryLock() {
			lockSoon(&q.mu)
		}
		if q.items.old != nil {
			q.items.fetch(hash, item)
		}
		if at, r := q.items.probe(q.items.slots, hash, item); r == nil {
			q.addNewLocked(at, hash, item, 0)
		} else if r.state != queued {
			q.addAgainLocked(at, r, 0)
		}
		q.mu.Unlock()
		return
	}
	q.addObserved(hash, item)
}

// AddAll adds the items in their order, in one critical section: no other add
// comes in between, and everybody waits for as long as it takes. It allocates 4
// bytes an item for more than 64 of them. After a panic in a method of a
// [Queue] the items behind that one are not added.
func (q *Typed[T]) AddAll(items ...T) {
	q.observeAdds(q.addAll(items, q.metrics.now()))
}

// Len returns the number of queued items: not those being processed, even if
// they were added again. It is out of date when it returns; to decide anything
// by it is a race.
func (q *Typed[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.line.len()
	if q.storage != nil {
		n += q.storage.Len() - q.ghosts
	}
	return n
}

// Get removes the first item from the queue and hands it to the caller, who
// must call Done with it. It blocks while the queue is empty. Once the queue
// has been shut down and is empty, Get returns shutdown == true and no item.
//
// Workers are not served in the order of their calls.
func (q *Typed[T]) Get() (item T, shutdown bool) {
	if !q.plain() {
		item, err := q.get(nil)
		return item, err != nil
	}
	if !q.mu.TryLock() {
		lockSoon(&q.mu)
	}
	if q.line.empty() {
		outcome := q.enlistLocked()
		q.mu.Unlock()
		if outcome == ended {
			return item, true
		}
		item, err := q.await(nil)
		return item, err != nil
	}
	// No wake-up is due: if somebody waits, one of them was woken for this item.
	item = q.holdLocked(q.nextLocked())
	q.mu.Unlock()
	return item, false
}

// Done tells the queue that the caller, who got the item, has processed it. If
// the item was added again in the meantime, it is queued again now. Done does
// nothing for an item that nobody holds. It does not block.
func (q *Typed[T]) Done(item T) {
	hash := uint32(maphash.Comparable(seed, item)) // hashOf is not inlined.
	if q.plain() {
		if !q.mu.TryLock() {
			lockSoon(&q.mu)
		}
		q.doneLocked(hash, item, 0)
		q.mu.Unlock()
	} else {
		q.doneObserved(hash, item)
	}
}

// ShutDown ends the queue: from now on Add does nothing, and Get returns
// shutdown == true as soon as the queue is empty. What is queued is still
// handed out, and a held item that was added before still queued by its Done.
//
// It does not wait for the workers, and it ends the wait of all calls of
// ShutDownWithDrain. It may be called more than once.
func (q *Typed[T]) ShutDown() {
	q.shutDown(false)
	<-q.reports.left(&q.mu)
	q.retire()
}

// ShutDownWithDrain is ShutDown, and then waits until the queue is empty and
// no item is held, or until ShutDown is called. It may be called more than
// once and concurrently; all calls return. It blocks as long as a worker does
// not call Done, or items are queued and nobody gets them.
func (q *Typed[T]) ShutDownWithDrain() {
	drained := q.shutDown(true)
	<-q.reports.left(&q.mu)
	<-drained
	q.retire()
}

// ShuttingDown reports whether ShutDown or ShutDownWithDrain has been called.
func (q *Typed[T]) ShuttingDown() bool {
	return q.shuttingDown.Load()
}
