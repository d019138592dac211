package workqueue

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/seed16c08ea7/workqueue/internal/slab"

	"github.com/seed16c08ea7/workqueue/internal/gate"
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

	// Order says which queued item is handed out next. The zero value is a FIFO in which
	// items that were added with a priority come first.
	Order Order[T]

	// Queue stores the queued items in place of the Order, as client-go has it; nil is
	// none. A Queue must be empty and must not be shared between queues. With a Queue,
	// the constructor panics if there is an Order, and AddWith if there is a priority.
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

	metrics  *instruments // nil if no times are kept, and so for no metrics
	reporter *reporter    // nil unless a provider is told of the work in flight
	order    *Order[T]    // nil if no function of it has to be asked
	detour   bool         // Add is addSlow: there are metrics or an order

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
	// [Queue] skips both, see storage.

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
	q.fifo.reflexive = slab.Reflexive(reflect.TypeFor[T]())
	order := config.Order
	order.check()
	if config.Queue != nil {
		mustBeUnset("Queue", configField{"Order", order.isSet()})
		q.fifo.storage = &storage[T]{queue: config.Queue, unlock: q.unlock}
	}
	if order.asks() {
		q.order = &order
	}
	if order.Group != nil || order.OldestEvery > 0 {
		q.fifo.order(newLanes(order.OldestEvery, order.GroupsFirst, order.Group != nil, order.MaxInFlight != nil))
	}
	q.measure(config, p)
	q.fifo.timed = q.metrics != nil
	q.detour = q.metrics != nil || q.order != nil
	return q
}

// Add marks the item as in need of processing. It queues an item that is
// neither queued nor held by a worker, does nothing for one that is queued
// (a [Queue] of the config is told by Touch), and lets Done queue one that is held.
// After ShutDown or ShutDownWithDrain it does nothing.
//
// Add does not block. A call to Add synchronizes before the return of the Get
// that hands the item out on its account.
func (q *Typed[T]) Add(item T) {
	hash := uint32(maphash.Comparable(slab.HashSeed, item)) // hashOf is not inlined.
	if q.detour {
		q.addSlow(hash, item, rank{})
		return
	}
	if !q.mu.TryLock() {
		gate.LockSoon(&q.mu)
	}
	at, r := q.fifo.items.Probe(q.fifo.items.Slots, hash, item)
	if r == nil && q.fifo.items.Old != nil {
		r = q.fifo.items.Fetch(at, hash, item)
	}
	if r == nil {
		q.fifo.add(at, hash, item, 0, nil)
		q.settle()
	} else if r.State != queued || r.X.lane != 0 {
		q.fifo.addAgain(at, r, 0, nil)
		q.settle()
	}
	q.mu.Unlock()
}

// addSlow is Add with a rank, for a queue of any kind, and reports whether the queue took the
// item. The order is asked and the clock read before the lock is taken, as both are foreign
// code.
func (q *Typed[T]) addSlow(hash uint32, item T, k rank) (taken bool) {
	var place placement
	p := q.place(&place, item, k)
	now := q.metrics.now()
	if !q.mu.TryLock() {
		gate.LockSoon(&q.mu)
	}
	added := q.addLocked(hash, item, now, p)
	taken = !q.fifo.closed
	q.settle()
	q.mu.Unlock()
	if added && q.metrics != nil {
		q.metrics.added()
	}
	return taken
}

// place asks the order about an item, see [Order.place].
func (q *Typed[T]) place(p *placement, item T, k rank) *placement {
	if q.order != nil {
		return q.order.place(p, item, k)
	}
	return rankOnly(p, k)
}

// addLocked adds an item. The caller must hold q.mu, settles, and observes the metrics of
// what was added.
func (q *Typed[T]) addLocked(hash uint32, item T, now time.Duration, p *placement) (added bool) {
	at, r := q.fifo.items.Probe(q.fifo.items.Slots, hash, item) // find is not inlined.
	if r == nil && q.fifo.items.Old != nil {
		r = q.fifo.items.Fetch(at, hash, item)
	}
	if r == nil {
		added = q.fifo.add(at, hash, item, now, p)
	} else {
		added = q.fifo.addAgain(at, r, now, p)
	}
	if added {
		q.adds++
	} else if !q.fifo.closed {
		q.duplicates++
	}
	return added
}

// AddAll adds the items in their order, see [Typed.AddWith].
func (q *Typed[T]) AddAll(items ...T) (taken int) { return q.addAll(items, rank{}) }

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

	// Priority says which items are handed out first: those of a larger one. nil names
	// none, as a plain Add does: the priority is then what the [Order] of the queue says, or
	// else 0. A queue that stores its items in a [Queue] takes nil only.
	Priority *int
}

// AddWith adds the items in their order, with a priority. An item that is queued already
// keeps the higher one. If the priority raises the item, the item goes to the end of its
// new priority. For an item that is held, the priority of the add, or the highest of
// several, says where Done will queue the item.
//
// Up to 1,024 items are added in one critical section: no other add comes in between, and
// all other calls wait until it ends. More of them are added in pieces of so many. A worker
// is woken at the end of each piece. A call for more than 64 items allocates 4 bytes an
// item, and 48 more if the queue has an [Order] with functions.
//
// AddWith returns how many items the queue took. An item that was queued already counts. An
// item that comes after a shutdown does not: nobody will handle it. A queue of foreign code
// below a [TypedDelaying] is asked whether it is shutting down before each add.
//
// AddWith panics, before it adds anything, if there is a priority and a [Queue] stores the
// items, and if the options name a delay or a limiter: a Typed has neither.
func (q *Typed[T]) AddWith(options AddOptions, items ...T) (taken int) {
	if options.After > 0 || options.RateLimited {
		panic(fmt.Sprintf("workqueue: AddWith of %T with an After of %v and RateLimited %v: it has no delays and no limiter", q, options.After, options.RateLimited))
	}
	k := rankOf(options.Priority)
	q.checkRank(k)
	if len(items) != 1 {
		return q.addAll(items, k)
	}
	if q.addSlow(uint32(maphash.Comparable(slab.HashSeed, items[0])), items[0], k) {
		taken = 1
	}
	return taken
}

// checkRank panics if a priority is named and a [Queue] stores the items: to ignore the
// priority would hand out urgent items in any order, and nobody would be told.
func (q *Typed[T]) checkRank(k rank) {
	if k.named && q.fifo.storage != nil {
		panic(fmt.Sprintf("workqueue: AddWith with priority %d: the queue stores its items in a %T, which knows no priorities", k.priority, q.fifo.storage.queue))
	}
}

// addsAtOnce is how many items AddAll adds in one critical section.
const addsAtOnce = 1024

// addAll hashes all items and asks the order about all of them before the first one is
// added, as both can panic.
func (q *Typed[T]) addAll(items []T, k rank) (taken int) {
	var few [64]uint32
	hashes := few[:0]
	for _, item := range items {
		hashes = append(hashes, slab.HashOf(item))
	}
	var same placement
	var each []placement
	if q.order != nil {
		each = q.order.placeAll(items, k)
	}
	p := rankOnly(&same, k)
	for from := 0; from < len(items); from += addsAtOnce {
		to := min(from+addsAtOnce, len(items))
		if each == nil {
			taken += q.addPiece(items[from:to], hashes[from:to], p, nil)
		} else {
			taken += q.addPiece(items[from:to], hashes[from:to], nil, each[from:to])
		}
	}
	return taken
}

// addPiece adds items in one critical section, with one placement for all, or one for each.
// It waits for the lock as long as it takes, and not as Add: whoever adds many items does
// not mind some microseconds.
func (q *Typed[T]) addPiece(items []T, hashes []uint32, p *placement, each []placement) (taken int) {
	now := q.metrics.now()
	n := 0
	q.mu.Lock()
	for i, item := range items {
		if each != nil {
			p = &each[i]
		}
		if q.addLocked(hashes[i], item, now, p) {
			n++
		}
	}
	if !q.fifo.closed {
		taken = len(items)
	}
	q.settle()
	q.mu.Unlock()
	q.observeAdds(n)
	return taken
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
		gate.LockSoon(&q.mu)
	}
	item, _, ok := q.fifo.take(0)
	if !ok {
		return q.stay()
	}
	q.settle()
	q.mu.Unlock()
	return item, false
}

// ErrShutDown is returned by GetContext when the queue has been shut down and
// has no item left to hand out, and by [Run] for a queue that is shut down already.
var ErrShutDown = errors.New("workqueue: queue is shut down")

// GetContext is Get with an end: when ctx is done before there is an item, it
// returns ctx's error, and after a shutdown [ErrShutDown]. It takes nothing
// from the queue unless it returns the item with a nil error.
func (q *Typed[T]) GetContext(ctx context.Context) (T, error) {
	item, _, err := q.getContext(ctx)
	return item, err
}

// GetInfo is GetContext, and returns the item with what the queue knows of it: the Priority
// that the item was handed out with, whether an add had named that, and as Age for how long
// the item was queued, if the queue keeps times. The State is [ItemInFlight]. The priority is
// 0 for a queue that stores its items in a [Queue].
func (q *Typed[T]) GetInfo(ctx context.Context) (ItemInfo[T], error) {
	item, r, err := q.getContext(ctx)
	if err != nil {
		return ItemInfo[T]{}, err
	}
	return ItemInfo[T]{
		Item: item, State: ItemInFlight, Age: r.waited,
		Priority: r.rank.priority, PriorityNamed: r.rank.named,
	}, nil
}

// TryGet is Get without the wait: it reports false when no item is queued,
// whether or not the queue is shut down.
func (q *Typed[T]) TryGet() (item T, ok bool) {
	item, r, what := q.tryTake(q.metrics.now(), visitPassing)
	if what != tookItem {
		return item, false
	}
	q.observeGet(item, r.waited)
	return item, true
}

// Done tells the queue that the caller, who got the item, has processed it. If
// the item was added again in the meantime, it is queued again now. Done does
// nothing for an item that nobody holds. It does not block.
func (q *Typed[T]) Done(item T) {
	hash := uint32(maphash.Comparable(slab.HashSeed, item)) // hashOf is not inlined.
	if q.metrics != nil {
		q.doneTimed(hash, item)
		return
	}
	if !q.mu.TryLock() {
		gate.LockSoon(&q.mu)
	}
	at, r := q.fifo.items.Probe(q.fifo.items.Slots, hash, item)
	if r == nil && q.fifo.items.Old != nil {
		r = q.fifo.items.Fetch(at, hash, item)
	}
	q.fifo.done(at, r, 0)
	q.settle()
	q.mu.Unlock()
}

// doneTimed is Done for a queue that keeps times.
func (q *Typed[T]) doneTimed(hash uint32, item T) {
	now := q.metrics.now()
	gate.LockSoon(&q.mu)
	at, r := q.fifo.items.Find(hash, item)
	worked, ok := q.fifo.done(at, r, now)
	if ok && q.durations != nil {
		q.durations.held.Observe(worked)
	}
	q.settle()
	q.mu.Unlock()
	if ok {
		q.metrics.done(worked)
	}
}

// Remove takes back what was added: a queued item leaves the queue, and an item that is
// held and was added again is not queued by its Done. Whoever holds the item keeps it.
// Remove reports whether there was an add to take back. The next add is as if it were the
// first.
//
// A [Queue] of the config keeps the removed item, which is dropped when it comes out. If
// the item is added again before, it keeps its place there. Remove does not block. It takes
// constant time, amortized, as long as the priorities in use are few.
func (q *Typed[T]) Remove(item T) bool {
	hash := slab.HashOf(item)
	if !q.remove(hash, item) {
		return false
	}
	q.metrics.removed()
	return true
}

func (q *Typed[T]) remove(hash uint32, item T) bool {
	q.mu.Lock()
	removed := q.fifo.remove(hash, item)
	q.settle()
	q.mu.Unlock()
	return removed
}

// ShutDown ends the queue: from now on Add does nothing, and Get returns
// shutdown == true as soon as the queue is empty. What is queued is still
// handed out, and a held item that was added before still queued by its Done.
//
// It does not wait for the workers, and it ends the wait of all calls of
// ShutDownWithDrain. It may be called more than once.
func (q *Typed[T]) ShutDown() {
	q.shutDown(false)
	<-q.reporter.allLeft(&q.mu)
	q.retire()
}

// ShutDownWithDrain is ShutDown, and then waits until the queue is empty and
// no item is held, or until ShutDown is called. It may be called more than
// once and concurrently; all calls return. It blocks as long as a worker does
// not call Done, or items are queued and nobody gets them.
func (q *Typed[T]) ShutDownWithDrain() {
	drained := q.shutDown(true)
	<-q.reporter.allLeft(&q.mu)
	<-drained
	q.retire()
}

// shutDown marks the queue as shut down. With drain it returns a channel that
// is closed when the drain is over; without, it ends all drains, and returns nil.
//
// All drains wait for the same thing, the idle queue, and so share one channel.
// settle ends the drain of a queue that is idle already, and wakes the first of the
// parked workers.
func (q *Typed[T]) shutDown(drain bool) (drained <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.fifo.closed && q.reporter != nil {
		close(q.reporter.stop)
	}
	q.fifo.closed = true
	q.shut.Store(true) // With the lock held, so that it never differs from closed.
	if !drain {
		q.endDrains()
	} else if q.drained == nil {
		q.drained = make(chan struct{})
	}
	drained = q.drained
	q.settle()
	return drained
}

// endDrains releases all who drain. A later drain makes a new channel, and waits
// for it. The caller must hold q.mu.
func (q *Typed[T]) endDrains() {
	if q.drained != nil {
		close(q.drained)
		q.drained = nil
	}
}

// ShuttingDown reports whether ShutDown or ShutDownWithDrain has been called.
func (q *Typed[T]) ShuttingDown() bool {
	return q.shut.Load()
}

// Snapshot returns what the queue holds, with at most limit items of each
// state, or all if limit is negative. All of it is of one instant. Everybody waits while it is copied, for a
// time in proportion to limit, and beside a [Queue] to the number of items.
func (q *Typed[T]) Snapshot(limit int) Snapshot[T] {
	return q.snapshot(limit, q.metrics.now())
}

// ReAddContext returns a context for the work on an item that the caller holds. It
// ends with the cause [ErrReAdded] as soon as the item is added again: by an Add, or
// because it has waited until it was due. If that has happened since the item was
// handed out, the context has ended already, so that no Add is missed between Get and
// this call. It also ends with ctx, and with the CancelFunc, which has to be called.
//
// An Add that the queue does not heed ends nothing: one after a shutdown, or one that
// a Remove has taken back before this call. After Done, and for an item that nobody
// holds or that differs from itself, the context ends with ctx alone. Each call for
// an item returns a context of its own.
//
// The context ends before the Add returns. The Add holds the lock of the queue
// meanwhile, for a time in proportion to the contexts that were derived from this one;
// it calls nothing of ctx. It takes 3 allocations if ctx was made by
// [context.WithCancel] or its like, and 7 otherwise.
func (q *Typed[T]) ReAddContext(ctx context.Context, item T) (context.Context, context.CancelFunc) {
	hash := slab.HashOf(item)
	parent, release := ctx, context.CancelFunc(nil)
	// To end a context takes it off the one above, which is asked for Done and Value.
	// With the lock held that must be one whose code is known.
	if !known(ctx) {
		parent, release = context.WithCancel(ctx)
	}
	watched, cancel := context.WithCancelCause(parent)
	if q.watch(hash, item, watcher{ctx: watched, cancel: cancel}) {
		cancel(ErrReAdded)
	}
	if release != nil {
		return watched, release
	}
	return watched, func() { cancel(nil) }
}

// Drain is ShutDownWithDrain with an end: it shuts the queue down and waits
// until it is empty and no item is held, and then returns nil. If ctx is done
// first, or ShutDown is called, it returns a *[DrainError] that has what is
// left.
//
// It may be called more than once, concurrently, and beside ShutDownWithDrain:
// all calls wait for the same. They wait for the goroutine that sets the gauges
// too. If a metric keeps that until ctx is done, it ends when the metric returns.
func (q *Typed[T]) Drain(ctx context.Context) error {
	drained := q.shutDown(true)
	waitWithin(ctx, drained)
	waitWithin(ctx, q.reporter.allLeft(&q.mu))
	q.retire()
	s := q.remains(ErrShutDown)
	if s == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		s.Err = err
	}
	return s
}
