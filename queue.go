package workqueue

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/gate"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// TypedInterface has the methods of a queue for producers and workers. [Typed] documents
// the methods, and the other queues of the package add to them.
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
	// Name labels the metrics. A queue without a name has no metrics.
	Name string

	// MetricsProvider makes the metrics. nil is the provider given to [SetProvider] before
	// the queue is constructed.
	MetricsProvider MetricsProvider

	// Clock times the items; nil is the real clock.
	Clock clock.WithTicker

	// KeepTimes makes a queue without metrics note when each item was added and handed out.
	// A queue with metrics always notes the times. They cost three readings of the clock
	// and 16 bytes an item.
	KeepTimes bool

	// Order says which queued item is handed out next. The zero value hands out higher
	// priorities first, and items of one priority in the order in which they were added.
	Order Order[T]

	// Pace limits the hand-outs: one for each token of the limiter, whoever added the item. A
	// worker waits for the token, and then gets the item that is the first at that moment.
	// TryGet reports false without a token. Drains are paced too. nil is no limit.
	//
	// Several queues can share a limiter. The queue takes tokens by AllowN at the time of its
	// Clock, and never reserves a token. A worker that waits looks again when the next token
	// is there, and at least every 100 ms: a changed limit holds from then on. A limit of 0,
	// once no token is left, pauses the queue, and so does a burst of 0, unless the limit is [rate.Inf]:
	// Stats say so, and [slog.Default] gets one line for each pause. A queue with a Pace keeps times as
	// with KeepTimes.
	Pace *rate.Limiter

	// Queue stores the queued items, and decides their order in place of Order, as in
	// client-go. nil is none. A Queue must be empty and must not be shared between queues.
	// With a Queue, the constructor panics if Order is set, and AddWith panics if a
	// priority is named.
	Queue Queue[T]
}

// Typed is a queue without duplicates: an item added several times before a worker gets the
// item is handed out once, and no two workers hold the same item at a time. The package
// comment describes the life of an item.
//
// The zero value is an empty queue without name and metrics, ready for use. All methods may
// be called concurrently. A Typed must not be copied. Whoever gets an item must call Done
// with the item. The owner must call ShutDown, ShutDownWithDrain or Drain, if there are
// workers to release, or metrics to stop because the queue has a name.
//
// Items are compared by ==. A method panics, before it changes anything, if the dynamic
// type of its item cannot be compared. An item that differs from itself, such as a NaN, is
// never a duplicate, and no Done can name the item. The queue hands such an item out once
// for each Add, and forgets the item then.
type Typed[T comparable] struct {
	// Immutable after construction.

	metrics  *instruments // nil for a queue without times, and so without metrics
	reporter *reporter    // nil unless a provider is told of the work in flight
	order    *ordering[T] // nil if the Order of the config has no functions
	detour   bool         // Add is addSlow: there are metrics or an order

	// Not immutable, and here because there is room: 8 bytes more, and a queue takes 576 bytes
	// of memory in place of 512.
	waking bool         // guarded by mu, see wake
	adders atomic.Int32 // calls of Add that wait for mu

	// Guarded by mu, and used only with metrics. These fields keep mu more than 32 bytes
	// away from metrics, which each call reads just before it locks mu. Side by side,
	// metrics and mu make BenchmarkDuplicate 40 % slower, see docs/decisions-locks.md.
	durations        *durations // nil unless a provider reads the queue
	adds, duplicates uint64

	// shut is a copy of fifo.Closed for ShuttingDown, which takes no lock. It is written
	// with mu held.
	shut atomic.Bool

	mu gate.Mutex
	// The fields below are guarded by mu. A method ends its critical section by settle and
	// Unlock. Where a [Queue] may be called, both are written out and not deferred: after a
	// panic of the Queue, the storage has called both already, see unlock.

	parked int32 // workers that sleep or are about to sleep
	fifo   fifo.FIFO[T]

	// Workers park on wake, a channel with room for one token. Whenever mu is free:
	//
	//	waking == a token is in the channel, or its receiver has not reached mu
	//	parked > 0, and mayWake(): waking
	//
	// So the send of a token never blocks, and no second worker is woken while a worker is
	// on its way. The woken worker takes an item and, if more items are left, wakes the
	// next worker. No wake-up is lost: the token stays in the channel until a worker takes
	// the token. A worker whose context ends either takes the token and looks for an item
	// first, or leaves the token to others. With a wake-up for each item, a burst of n adds
	// would pay for n context switches, although the first worker to arrive takes most of
	// the items.
	//
	// A worker that finds an item and no token of Pace becomes the keeper of the pacer, parks
	// with a timer, and looks again. While there are items and a keeper, nobody is woken.
	//
	// Drains and calls of WaitIdle wait for idling. While idling is not nil, fifo.Idle() is
	// false.
	wake   chan struct{}
	idling *idleWait   // nil while nobody waits
	pace   *gate.Pacer // nil without Pace

	paces *itemPaces[T] // nil without ItemPace

	late *lateItems[T] // nil until a Run, which makes it once
}

// NewTyped returns an empty queue without name and metrics.
func NewTyped[T comparable]() *Typed[T] {
	return NewTypedWithConfig(TypedQueueConfig[T]{})
}

// NewTypedWithConfig returns an empty queue.
func NewTypedWithConfig[T comparable](config TypedQueueConfig[T]) *Typed[T] {
	return newTyped(config, providerFor(config.Name, config.MetricsProvider))
}

// newTyped makes a queue with the provider p, which is the result of providerFor.
func newTyped[T comparable](config TypedQueueConfig[T], p MetricsProvider) *Typed[T] {
	q := &Typed[T]{}
	order := config.Order
	order.check()
	machine := fifo.Config[T]{
		OldestEvery: order.OldestEvery, GroupsFirst: order.GroupsFirst,
		Grouped: order.Group != nil, Limited: order.MaxInFlight != nil,
	}
	if config.Queue != nil {
		mustBeUnset("Queue", configField{"Order", order.isSet()})
		machine.Queue, machine.Unlock = config.Queue, q.unlock
	}
	if order.asks() {
		q.order = &ordering[T]{Order: order}
	}
	config.KeepTimes = config.KeepTimes || config.Pace != nil
	q.measure(config, p)
	if config.Pace != nil {
		q.pace = gate.NewPacer(config.Pace, q.metrics.clock, q.metrics.epoch)
		q.pace.OnPause = func() {
			logger := loggerOrDefault(nil)
			logger.Info("The queue is paused until SetLimit or SetBurst: the limiter of its Pace has a limit or a burst of 0", "queue", config.Name)
		}
	}
	machine.Timed = q.metrics != nil
	q.fifo.Init(machine)
	q.detour = q.metrics != nil || q.order != nil
	q.attach(config.Name, p)
	return q
}

// Add marks the item as in need of processing. It queues an item that is neither queued nor
// held by a worker. A queued item stays in line: a higher priority, 0 or what the [Order] says,
// raises the item as in AddWith, and a [Queue] of the config gets a Touch. A held item is queued
// by its Done. After a shutdown Add does nothing.
//
// Add does not block. A call of Add synchronizes before the return of the Get that hands
// the item out because of the Add.
func (q *Typed[T]) Add(item T) {
	hash := uint32(maphash.Comparable(slab.HashSeed, item)) // HashOf is not inlined.
	if q.detour {
		q.addSlow(hash, item, fifo.Rank{})
		return
	}
	if !q.mu.TryLock() {
		gate.LockSoonOrRest(&q.mu, &q.adders)
	}
	at, r := q.fifo.Items.Probe(q.fifo.Items.Slots, hash, item)
	if r == nil && q.fifo.Items.Old != nil {
		r = q.fifo.Items.Fetch(at, hash, item)
	}
	if r == nil {
		q.fifo.Add(at, hash, item, 0, nil)
		q.settle()
	} else if !q.fifo.Ignores(r) {
		q.fifo.AddAgain(at, r, 0, nil)
		q.settle()
	}
	q.mu.Unlock()
}

// addSlow is Add with a rank, for any queue, and reports whether the queue took the item.
// It asks the order and reads the clock before it takes the lock: both are foreign code.
func (q *Typed[T]) addSlow(hash uint32, item T, k fifo.Rank) (taken bool) {
	var place fifo.Placement
	p := q.place(&place, item, k)
	now := q.metrics.now()
	if !q.mu.TryLock() {
		gate.LockSoonOrRest(&q.mu, &q.adders)
	}
	added := q.addLocked(hash, item, now, p)
	taken = !q.fifo.Closed
	q.settle()
	q.mu.Unlock()
	if added {
		q.metrics.added(1)
	}
	if q.order != nil && q.order.isStale(p) {
		q.hearLimits()
	}
	return taken
}

// place asks the order about an item, see [Order.place].
func (q *Typed[T]) place(p *fifo.Placement, item T, k fifo.Rank) *fifo.Placement {
	if q.order != nil {
		return q.order.place(p, item, k)
	}
	return rankOnly(p, k)
}

// addLocked adds an item. The caller holds q.mu, settles, and observes the metrics of the
// add.
func (q *Typed[T]) addLocked(hash uint32, item T, now time.Duration, p *fifo.Placement) (added bool) {
	at, r := q.fifo.Items.Probe(q.fifo.Items.Slots, hash, item) // Find is not inlined.
	if r == nil && q.fifo.Items.Old != nil {
		r = q.fifo.Items.Fetch(at, hash, item)
	}
	if r == nil {
		added = q.fifo.Add(at, hash, item, now, p)
	} else {
		added = q.fifo.AddAgain(at, r, now, p)
	}
	if added {
		q.adds++
	} else if !q.fifo.Closed {
		q.duplicates++
	}
	return added
}

// AddAll adds the items in the given order, see [Typed.AddWith]. It returns how many items the queue took:
// a duplicate counts as taken, an item after a shutdown does not.
func (q *Typed[T]) AddAll(items ...T) (taken int) { return q.addAll(items, fifo.Rank{}) }

// AddOptions say when and with which priority AddWith adds items. The zero value means a
// plain Add.
type AddOptions struct {
	// After is how long the items wait before they are added. Zero or less means no wait. A
	// [Typed] cannot delay.
	After time.Duration

	// RateLimited makes each item wait for as long as the limiter says; the limiter counts
	// a failure. With After, the earlier of the two times counts. Only a
	// [TypedRateLimiting] has a limiter.
	RateLimited bool

	// Firm makes the wait firm: the item is not handed out before, whatever adds come. An add in
	// the meantime only raises the priority. A queued item leaves the line, and an item that was added
	// again while a worker holds it is not queued by its Done. Of several firm waits the latest counts.
	// Wake, Remove and a shutdown end the wait, and Reschedule replaces it. Without a wait to begin,
	// because After is zero or negative, Firm ends the wait and adds the item now.
	//
	// While a firm wait lasts, the item has one entry, also in a queue without OneEntry. The wait takes
	// the memory of one more queued item. An item that differs from itself cannot wait firmly. A [Typed] cannot
	// delay, and a TypedDelaying above a queue that is not a Typed panics.
	Firm bool

	// Priority says which items are handed out first: items with a larger priority. nil
	// names no priority, like a plain Add: the [Order] of the queue decides, or else the
	// priority is 0. A queue that stores its items in a [Queue] takes only nil.
	Priority *int
}

// AddWith adds the items in the given order, with a priority. A queued item keeps the
// higher of its priority and the new priority. If the priority raises the item, the item
// goes to the end of its new priority. A held item is queued by its Done, with the priority
// of the add, or the highest priority of several adds.
//
// Up to 1,024 items are added in one critical section: no other add comes in between, and
// all other calls wait for its end. More items are added in pieces of 1,024. A worker is
// woken at the end of each piece. A call for more than 64 items allocates 4 bytes an item. If the
// queue has an [Order] with functions, a call for more than one item allocates some 60 bytes more for each.
//
// AddWith returns how many items the queue took. An item that was queued already counts. An
// item after a shutdown does not count, because nobody will handle the item.
//
// AddWith panics before the first add if the options name a priority and a [Queue] stores
// the items. It also panics if they name a wait, a limiter or Firm: a Typed has no waits.
func (q *Typed[T]) AddWith(options AddOptions, items ...T) (taken int) {
	if options.After > 0 || options.RateLimited || options.Firm {
		panic(fmt.Sprintf("workqueue: AddWith of %T with an After of %v, RateLimited %v and Firm %v: it has no delays and no limiter", q, options.After, options.RateLimited, options.Firm))
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

// checkRank panics if a priority is named and a [Queue] stores the items. A queue that
// ignored the priority would hand out urgent items in any order, and nobody would be told.
func (q *Typed[T]) checkRank(k fifo.Rank) {
	if k.Named && q.fifo.Queue() != nil {
		panic(fmt.Sprintf("workqueue: AddWith with priority %d: the queue stores its items in a %T, which knows no priorities", k.Priority, q.fifo.Queue()))
	}
}

// addsAtOnce is how many items addAll adds in one critical section.
const addsAtOnce = 1024

// addAll hashes all items and asks the order about all items before the first add: both can
// panic.
func (q *Typed[T]) addAll(items []T, k fifo.Rank) (taken int) {
	var few [64]uint32
	hashes := slices.Grow(few[:0], len(items))
	for _, item := range items {
		hashes = append(hashes, slab.HashOf(item))
	}
	var same fifo.Placement
	var each []fifo.Placement
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
	if len(each) > 0 && q.order.isStale(&each[0]) {
		q.hearLimits()
	}
	return taken
}

// addPiece adds items in one critical section. p is the placement of all items; each, if
// not nil, has a placement for each item. addPiece waits for the lock by Lock, and not by
// LockSoon as Add does: a caller with many items does not mind some microseconds.
func (q *Typed[T]) addPiece(items []T, hashes []uint32, p *fifo.Placement, each []fifo.Placement) (taken int) {
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
	if !q.fifo.Closed {
		taken = len(items)
	}
	q.settle()
	q.mu.Unlock()
	q.metrics.added(n)
	return taken
}

// Len returns the number of queued items. Held items do not count, even if they were added
// again. The number is out of date when Len returns; a decision based on Len is a race.
func (q *Typed[T]) Len() int {
	q.mu.Lock()
	n := q.fifo.Size()
	q.mu.Unlock()
	return n
}

// Get removes the first item from the queue and hands the item to the caller, who must call
// Done with the item. Get blocks while there is nothing to hand out: the queue is empty, or Pace has
// no token, or all queued items are of groups at their MaxInFlight. After a shutdown, Get returns
// shutdown == true and no item once the queue is empty, or all its items are of such groups: the
// workers that hold items of the groups get the rest.
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
	item, _, ok := q.fifo.Take(0)
	for !ok && q.stay() {
		item, _, ok = q.fifo.Take(0)
	}
	q.settle()
	q.mu.Unlock()
	return item, !ok
}

// ErrShutDown is the error of GetContext and GetInfo when the queue is shut down and has nothing
// to hand out, see [Typed.Get]. [Run] returns ErrShutDown, or a [DrainError] that wraps it, if somebody
// else shuts the queue down, before the Run or during the Run. The errors of a Drain that a
// ShutDown ends, and of a Barrier whose item was dropped, wrap ErrShutDown too.
var ErrShutDown = errors.New("workqueue: queue is shut down")

// GetContext is Get with a context. If ctx has ended at the call, or ends before there is an
// item, GetContext returns the error of ctx. A context that has ended comes before an item that
// is queued. After a shutdown GetContext returns [ErrShutDown] where Get returns shutdown == true. A
// call with an error takes nothing from the queue.
func (q *Typed[T]) GetContext(ctx context.Context) (T, error) {
	item, _, err := q.getContext(ctx)
	return item, err
}

// GetInfo is GetContext, and returns more about the item: the Priority with which the item
// was handed out, and as Age the time since the add that queued the item, if the queue keeps times.
// The State is [ItemInFlight]. The Priority is 0 for a queue that stores its items in a [Queue].
func (q *Typed[T]) GetInfo(ctx context.Context) (info ItemInfo[T], err error) {
	item, r, err := q.getContext(ctx)
	if err == nil {
		info.ofHandOut(item, r.rank, r.waited)
	}
	return info, err
}

// TryGet is Get without the wait. It reports false if there is no item to hand out, whether
// or not the queue is shut down.
func (q *Typed[T]) TryGet() (item T, ok bool) {
	item, r, what := q.tryTake(q.metrics.now(), visitPassing)
	if ok = what == tookItem; ok {
		q.observeGet(item, r.waited)
	}
	return item, ok
}

// Done tells the queue that the caller, who got the item, has processed the item. If the
// item was added again meanwhile, Done queues the item. Done does nothing for an item that
// nobody holds. It does not block.
func (q *Typed[T]) Done(item T) {
	hash := uint32(maphash.Comparable(slab.HashSeed, item)) // HashOf is not inlined.
	if q.metrics != nil {
		q.doneTimed(hash, item)
		return
	}
	if !q.mu.TryLock() {
		gate.LockSoon(&q.mu)
	}
	at, r := q.fifo.Items.Probe(q.fifo.Items.Slots, hash, item)
	if r == nil && q.fifo.Items.Old != nil {
		r = q.fifo.Items.Fetch(at, hash, item)
	}
	q.fifo.Done(at, r, 0)
	q.settle()
	q.mu.Unlock()
}

// doneTimed is Done for a queue with times.
func (q *Typed[T]) doneTimed(hash uint32, item T) {
	now := q.metrics.now()
	gate.LockSoon(&q.mu)
	at, r := q.fifo.Items.Find(hash, item)
	worked, ok := q.fifo.Done(at, r, now)
	if ok && q.durations != nil {
		q.durations.held.Observe(worked)
	}
	q.settle()
	q.mu.Unlock()
	if ok {
		q.metrics.done(worked)
	}
}

// LimitsChanged asks MaxInFlight of the [Order] again for each group with queued or held items, and
// wakes workers if a group may go on: for a program that changes what MaxInFlight answers. The answers
// hold when LimitsChanged returns. An add that has asked before, and takes effect later, asks again
// before it returns. Several groups that may go on come to their turn in the order of their names.
//
// LimitsChanged calls MaxInFlight without a lock of the queue, once for each group, or more often if
// calls of LimitsChanged overlap. A panic of MaxInFlight reaches the caller. LimitsChanged takes time in
// proportion to the number of groups. It does nothing in a queue without MaxInFlight.
func (q *Typed[T]) LimitsChanged() {
	if q.order != nil && q.order.MaxInFlight != nil {
		q.order.era.Add(1)
		q.hearLimits()
	}
}

// hearLimits asks for the limits of all groups again. An add calls hearLimits if LimitsChanged came
// between the answers for the add and the add: the add may have brought back an old limit.
func (q *Typed[T]) hearLimits() {
	q.rehear(func(h *hearing[T]) bool { return h.hearGroups() })
}

// Remove removes an item, and reports whether the queue had the item, queued or held. A queued item
// leaves the queue. A worker keeps the item that it holds until its Done, which does not queue the
// item if the item was added again. A context of ReAddContext ends with the cause [ErrRemoved], and
// [Run] does not retry the item: a handler that removes its own item and fails has dropped the item.
// The next Add counts as the first, and an AddRateLimited of a worker is such an Add.
//
// A [Queue] of the config keeps a removed item until Pop returns the item, which is then
// dropped. If the item is added again before, the item keeps its place in the Queue. Remove
// does not block. It takes constant time, amortized, as long as few priorities and groups are in use.
func (q *Typed[T]) Remove(item T) bool {
	had, back := q.remove(slab.HashOf(item), item)
	if back {
		q.metrics.removed()
	}
	return had
}

// remove is Remove without the metrics, see [fifo.FIFO.Remove].
func (q *Typed[T]) remove(hash uint32, item T) (had, back bool) {
	q.mu.Lock()
	had, back = q.removeLocked(hash, item, false)
	q.settle()
	q.mu.Unlock()
	return had, back
}

// removeLocked also takes back what a Run has noted of the item, see concludeLate. It does so only if
// Remove has found the item, here or waiting above: one of Remove and OnStop says where the item is.
func (q *Typed[T]) removeLocked(hash uint32, item T, waited bool) (had, back bool) {
	had, back = q.fifo.Remove(hash, item)
	if q.late != nil && (had || waited) {
		q.late.forget(item)
	}
	return had, back
}

// RemoveFunc calls Remove for the items for which del returns true, and returns how many items it
// has removed.
//
// del is called without a lock, in no particular order, and may be called more than once for an
// item, also for items that are added during the call. An item that is handed out during the call
// counts as held. An item that differs from itself stays.
//
// RemoveFunc takes time in proportion to the number of all items. Other calls go on meanwhile:
// the lock is held for 256 items at a time, or for 100 µs to give memory back.
func (q *Typed[T]) RemoveFunc(del func(item T) bool) (removed int) {
	return actOnMatches(&q.mu, &q.fifo.Items, q.fifo.Shrink, del, q.Remove)
}

// ShutDown ends the queue: from now on Add does nothing, and Get returns shutdown == true
// as soon as it has nothing to hand out. Queued items are still handed out, and a held item that
// was added again before the shutdown is still queued by its Done.
//
// ShutDown does not wait for the workers. It ends the wait of all calls of
// ShutDownWithDrain and Drain. It waits only for the goroutine that sets the gauges, if
// there is one. ShutDown may be called more than once.
func (q *Typed[T]) ShutDown() {
	q.awaitEnd(q.shutDown(false))
}

// ShutDownWithDrain shuts the queue down, and waits until the queue is empty and no item is
// held, or until ShutDown is called. It may be called more than once and concurrently; all
// calls return. It blocks as long as a worker does not call Done, or nobody gets the queued
// items, such as those of a group that [HoldBack] holds back.
func (q *Typed[T]) ShutDownWithDrain() {
	q.awaitEnd(q.shutDown(true))
}

// awaitEnd is the part of a shutdown that waits: for the end of the drain, if drained is not nil, and
// for the goroutine that sets the gauges.
func (q *Typed[T]) awaitEnd(drained <-chan struct{}) {
	<-q.reporter.allLeft(&q.mu)
	if drained != nil {
		<-drained
	}
	q.retire()
}

// shutDown marks the queue as shut down. With drain it returns a channel that is closed
// when the drain is over. Without drain it ends all drains, and returns nil.
//
// All drains wait for the idle queue, and so share one channel. settle ends the drain of a
// queue that is idle already, and wakes the first of the parked workers.
func (q *Typed[T]) shutDown(drain bool) (drained <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.fifo.Closed && q.reporter != nil && q.reporter.stop != nil {
		close(q.reporter.stop)
	}
	q.fifo.Closed = true
	q.shut.Store(true) // With the lock held: shut never differs from closed.
	if !drain {
		q.endDrains()
	} else {
		drained = q.whenIdle().over
	}
	q.settle()
	return drained
}

// endDrains releases all drains. A later drain waits anew. The caller holds q.mu.
func (q *Typed[T]) endDrains() {
	if q.idling != nil {
		close(q.idling.over)
		q.idling = nil
	}
}

// ShuttingDown reports whether ShutDown, ShutDownWithDrain or Drain has been called.
func (q *Typed[T]) ShuttingDown() bool {
	return q.shut.Load()
}

// Find returns what the queue knows of an item, and reports false if the item is neither queued nor
// held. The Position is 0. Find takes constant time.
func (q *Typed[T]) Find(item T) (info ItemInfo[T], ok bool) {
	hash := slab.HashOf(item)
	now := q.metrics.now()
	q.mu.Lock()
	e, ok := q.fifo.Find(hash, item)
	q.mu.Unlock()
	if ok {
		info = infoOf(e, now, q.metrics != nil)
	}
	return info, ok
}

// Snapshot returns the items of the queue at one instant: at most limit items of each
// state, or all items if limit is negative. All other calls wait while the items are
// copied, for a time in proportion to limit, or beside a [Queue] to the number of items.
func (q *Typed[T]) Snapshot(limit int) Snapshot[T] {
	return q.snapshot(limit, q.metrics.now())
}

// Items visits the items of the queue, in no particular order and not at one instant. The infos are
// those of a [Snapshot], without a Position. Other calls go on meanwhile, and the body of the loop
// may make any of them: the lock is held for 256 items at a time, and not while the body runs.
//
// An item that stays where it is, is visited once. An item that is added, removed or done during
// the loop may be missed, or visited in the state before. Items takes memory for 256 items.
func (q *Typed[T]) Items() iter.Seq[ItemInfo[T]] {
	return func(yield func(ItemInfo[T]) bool) { q.visitItems(q.metrics.now, yield) }
}

// Stats returns the state of the queue, as a [StateProvider] reads the state, in time proportional
// to the number of held items, and of the priorities and groups in use, or beside a [Queue] to the number of
// items. The lock is held while Stats counts the held items, or all items beside a Queue.
//
// Without a StateProvider the queue counts nothing: Adds, Duplicates, Retries, RateLimited, Results and
// all DurationStats are zero. The other times are zero in a queue that keeps no times, see [TypedQueueConfig].
func (q *Typed[T]) Stats() QueueStats {
	v := fifo.Survey{Now: q.metrics.now()}
	s := q.statsOf(&v)
	q.addBreakdown(&s, &v)
	return s
}

// ReAddContext returns a context for the work on an item that the caller holds. The context
// ends with the cause [ErrReAdded] as soon as the item is added again, by an Add or at the
// end of a wait. If the item was added again between Get and ReAddContext, the context has
// ended already: no Add is missed. A firm add takes an Add before it back, see [AddOptions], and such an
// Add ends no context that is made later. The context also ends with ctx, and with the CancelFunc,
// which the caller has to call.
//
// An Add after a shutdown does not end the context. After Done, and for an item that nobody holds or
// that differs from itself, no Add ends the context. Each call for an item returns a
// context of its own. If the item is removed, the context ends with the cause [ErrRemoved]. The
// cause is the same if the item was removed since the hand-out, and no Add has come after.
//
// The context ends before the Add returns. The Add holds the lock of the queue meanwhile,
// for a time in proportion to the number of contexts derived from this context, and calls
// nothing of ctx. ReAddContext takes 3 allocations if ctx was made by [context.WithCancel]
// or its like, and 7 otherwise.
func (q *Typed[T]) ReAddContext(ctx context.Context, item T) (context.Context, context.CancelFunc) {
	hash := slab.HashOf(item)
	parent, release := ctx, context.CancelFunc(nil)
	// The end of a context calls Done and Value of its parent. This context ends with the
	// lock of the queue held, so its parent must be a context with known code.
	if !known(ctx) {
		parent, release = context.WithCancel(ctx)
	}
	watched, cancel := context.WithCancelCause(parent)
	if over := q.watch(hash, item, fifo.Watcher{Ctx: watched, Cancel: cancel}); over != nil {
		cancel(over)
	}
	if release != nil {
		return watched, release
	}
	return watched, func() { cancel(nil) }
}

// Drain is ShutDownWithDrain with a context. It shuts the queue down, waits until the queue
// is empty and no item is held, and returns nil. If ctx is done first, or ShutDown is
// called, Drain returns a *[DrainError] with the items that are left, or nil if no item is
// left.
//
// Drain may be called more than once, concurrently, and beside ShutDownWithDrain: all calls
// wait for the same end. Drain also waits for the goroutine that sets the gauges. If a
// metric blocks the goroutine until ctx is done, Drain returns, and the goroutine ends when
// the metric returns.
func (q *Typed[T]) Drain(ctx context.Context) error {
	return q.awaitDrain(ctx, q.shutDown(true))
}

// awaitDrain is the part of Drain that waits.
func (q *Typed[T]) awaitDrain(ctx context.Context, drained <-chan struct{}) error {
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
