package workqueue

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/seed16c08ea7/workqueue/internal/agenda"
	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/gate"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// TypedDelayingInterface is a [TypedInterface] that can add an item later, for retries
// without spinning. [TypedDelaying] documents the methods.
type TypedDelayingInterface[T comparable] interface {
	TypedInterface[T]
	// AddAfter adds the item after the duration has passed.
	AddAfter(item T, duration time.Duration)
}

// TypedDelayingQueueConfig are the options of a [TypedDelaying]. The zero
// value is valid.
type TypedDelayingQueueConfig[T comparable] struct {
	// Logger is told of panics in foreign code on the goroutine of the queue; nil logs to
	// [slog.Default]. The name of the queue is not added to the log.
	Logger *logr.Logger

	// Name labels the metrics. A queue without a name has no metrics.
	Name string

	// MetricsProvider makes the metrics. nil is the provider given to [SetProvider] before
	// the queue is constructed.
	MetricsProvider MetricsProvider

	// Clock measures the delays; nil is the real clock.
	Clock clock.WithTicker

	// KeepTimes works as in [TypedQueueConfig].
	KeepTimes bool

	// Queue is the queue below. It takes the items when they are due, and all calls that
	// have nothing to do with waiting. nil is a [Typed] with the options of this config.
	// The delaying queue owns the Queue and shuts it down. The constructor panics if KeepTimes
	// is set too: set KeepTimes in the config of the Queue.
	Queue TypedInterface[T]

	// OneEntry lets an item be queued or wait, but never both, whichever call comes first.
	// The earlier time wins. An Add of a waiting item ends the wait. An AddAfter, a
	// Reschedule or a Debounce makes nothing wait if the item is queued, or will be queued
	// by its Done; AddAfter and Debounce can still raise the item to a higher priority. An
	// item in flight may wait. Without OneEntry, an item can be queued and wait, and is
	// handed out for both calls. Callers of client-go may rely on both hand-outs.
	//
	// With OneEntry, a Queue must be a *[Typed], or the constructor panics: another queue cannot be asked
	// whether an item is queued. Add of this Typed must not be called directly.
	OneEntry bool

	// Order is the order of the [Typed] below, see [TypedQueueConfig]. The constructor
	// panics if Queue is set too: a Queue decides the order itself.
	Order Order[T]

	// Pace limits the hand-outs of the [Typed] below, see [TypedQueueConfig]. The constructor
	// panics if Queue is set too.
	Pace *rate.Limiter

	// ItemPace slows down the items that come too often, and only them. Each item has tokens of its
	// own, and a hand-out takes one. An item without a token waits until the next token is there,
	// whatever call adds it. Only Wake makes the item come earlier. The zero Rate is no limit.
	//
	// An Add whose item waits for its pace is dropped by a shutdown or a drain, as all waits are,
	// and Barrier and WaitIdle do not count the item. ItemPace implies OneEntry and KeepTimes. A clock
	// that is set back gives no tokens until it has caught up. The constructor panics if Queue is set
	// too.
	ItemPace Rate
}

// TypedDelaying is a queue with AddAfter, on top of another queue. It holds the waiting
// items and adds them to the queue below when they are due. Methods that have nothing to do
// with waiting call the queue below.
//
// The zero value is not usable. All methods may be called concurrently. A TypedDelaying
// must not be copied. Its owner must call ShutDown, ShutDownWithDrain or Drain.
//
// A TypedDelaying runs one goroutine while items wait, and none otherwise. The goroutine adds the due
// items. Add of the queue below must not shut the delaying queue down, because the shutdown waits
// for the goroutine. If Add of the queue below or a metric panics there, the goroutine logs the panic and
// panics again, which ends the program: no caller could handle the panic, and to go on without adding due
// items is worse. Above a [Typed] without a [Queue], a call such as AddAfter can also add items of other
// calls that are due: the caller then gets the panic of a metric.
//
// A configured queue below either has all methods of a [Typed], or counts as a queue that has those
// of [TypedInterface] alone. GetContext, GetInfo, TryGet, Remove, Snapshot, ReAddContext and the like
// then panic. A type that embeds a [Typed] has all methods, also those of later versions. If the type
// replaces Add, Get or Done, it should also replace the other methods that add, hand out or end
// items.
type TypedDelaying[T comparable] struct {
	// Immutable after construction.

	queue   TypedInterface[T]
	typed   *Typed[T]     // queue, if a Typed
	retries CounterMetric // nil for none
	metrics *delayMetrics // nil unless a provider reads this queue
	logger  logr.Logger
	clock   clock.WithTicker
	// Times are nanoseconds since epoch on clock, see instruments.
	epoch time.Time
	// real: time passes by itself, and not by a call of Step. aligned: a Typed below keeps
	// no times, or those of the clock and the epoch of this queue. oneEntry: an item is queued or waits, never
	// both.
	real, aligned, oneEntry bool
	// loop is waitingLoop as a value: each start of the goroutine would allocate a new
	// method value.
	loop func()
	// wake has room for one token, sent when the first due time has changed or nothing
	// waits any more. The token stays there until the loop takes the token. The loop looks
	// at the agenda before it waits for a token, and so misses no change.
	wake chan struct{}

	drains drains     // of a queue without Drain
	alarm  gate.Alarm // owned by waitingLoop, which runs once at a time

	// mu comes before the lock of typed. A move of an item from the one queue to the other
	// holds both locks, so the item is at any time in exactly one of them. No foreign code
	// runs with mu held, with one exception: the methods of a Queue of typed.
	mu gate.Mutex
	// The fields below are guarded by mu.
	//
	// Invariants:
	//
	//	running == a goroutine is in waitingLoop
	//	agenda.Len() > 0 implies running
	//	closed implies agenda.Len() == 0
	//	keepers == 0 implies dropped == nil
	//	the wait of an item is firm == the FIFO of the queue below keeps the item, unless closed
	agenda  agenda.Agenda[T]
	running bool
	closed  bool
	urgent  bool         // a worker was woken for due items, and may still be on its way
	keepers int32        // calls of Drain and Run, which may have to name dropped items
	dropped *leftover[T] // waiting items that a shutdown has dropped
	loops   gate.Crew    // entered with mu held and closed false
	starts  uint64       // how often the goroutine has been started
	moves   *moveLog[T]  // of each RemoveFunc that runs

	// planned is a copy of agenda.Plans, for a caller who is about to read an injected
	// clock, see reading. It is written with mu held.
	planned atomic.Uint64
}

// NewTypedDelayingQueue returns an empty delaying queue without name and metrics.
func NewTypedDelayingQueue[T comparable]() TypedDelayingInterface[T] {
	return NewTypedDelaying(TypedDelayingQueueConfig[T]{})
}

// NewTypedDelayingQueueWithConfig returns an empty delaying queue, which is a
// *[TypedDelaying].
func NewTypedDelayingQueueWithConfig[T comparable](config TypedDelayingQueueConfig[T]) TypedDelayingInterface[T] {
	return NewTypedDelaying(config)
}

// NewTypedDelaying returns an empty delaying queue.
func NewTypedDelaying[T comparable](config TypedDelayingQueueConfig[T]) *TypedDelaying[T] {
	if config.Queue != nil {
		mustBeUnset("Queue", configField{"Order", config.Order.isSet()}, configField{"KeepTimes", config.KeepTimes},
			configField{"Pace", config.Pace != nil}, configField{"ItemPace", config.ItemPace != Rate{}})
	}
	c := clockOrDefault(config.Clock)
	p := providerFor(config.Name, config.MetricsProvider)
	state := stateProviderOf(p)
	q := &TypedDelaying[T]{
		queue:   config.Queue,
		retries: newRetries(config.Name, p),
		logger:  loggerOrDefault(config.Logger),
		clock:   c,
		epoch:   c.Now(),
		wake:    make(chan struct{}, 1),
	}
	q.oneEntry = config.OneEntry || config.ItemPace != Rate{}
	if q.queue == nil {
		q.makeBelow(config, p)
	}
	q.findTyped()
	q.aligned = q.aligned || q.typed == nil || q.typed.metrics == nil
	_, q.real = c.(clock.RealClock)
	q.loop = q.waitingLoop
	if state != nil {
		q.attach(state, config.Name, config.Queue == nil)
	}
	return q
}

// findTyped sets typed. An item then leaves the agenda and enters typed in one critical
// section. A type that embeds a *Typed has the same methods, but may have an Add of its
// own, which must be called.
//
// The Queue of a Typed, foreign code, then runs with both locks held. In two critical sections an item
// could be in neither queue for a moment, or queued and waiting with OneEntry.
func (q *TypedDelaying[T]) findTyped() {
	if q.typed, _ = q.queue.(*Typed[T]); q.typed == nil && q.oneEntry {
		panic(fmt.Sprintf("workqueue: OneEntry cannot ask a %T whether an item is queued; StrictBackoff implies OneEntry", q.queue))
	}
}

// makeBelow makes the queue below. A StateProvider reads the queue below through the
// delaying queue, and so is not given to the queue below.
func (q *TypedDelaying[T]) makeBelow(config TypedDelayingQueueConfig[T], p MetricsProvider) {
	below := TypedQueueConfig[T]{Name: config.Name, Clock: q.clock, KeepTimes: config.KeepTimes, Order: config.Order, Pace: config.Pace}
	paces := newItemPaces[T](config.ItemPace)
	below.KeepTimes = below.KeepTimes || paces != nil
	if stateProviderOf(p) != nil {
		p, below.KeepTimes = nil, true
	}
	t := newTyped(below, p)
	t.paces = paces
	if t.metrics != nil {
		q.epoch, q.aligned, q.agenda.Timed = t.metrics.epoch, true, true
	}
	q.queue = t
}

func loggerOrDefault(l *logr.Logger) logr.Logger {
	if l == nil {
		return logr.FromSlogHandler(slog.Default().Handler())
	}
	return *l
}

// Add adds the item to the queue below. A waiting item goes on waiting, unless OneEntry is
// set.
func (q *TypedDelaying[T]) Add(item T) {
	if q.oneEntry {
		q.addNow(slab.HashOf(item), item, fifo.Rank{}, 0)
		return
	}
	q.queue.Add(item)
}

// AddAll adds the items in the given order, see [TypedDelaying.AddWith]. It returns how many items the queue
// took: a duplicate counts as taken, an item after a shutdown does not.
func (q *TypedDelaying[T]) AddAll(items ...T) (taken int) { return q.AddWith(AddOptions{}, items...) }

// AddWith adds the items with a priority: at once, see [Typed.AddWith], or when the time
// After has passed, see AddAfter. A waiting item keeps the earlier time and the higher
// priority. If the same item is also queued or held, that entry has a priority of its own.
// The end of the wait adds the item, which can raise that priority.
//
// The items are added one by one if they wait, if OneEntry is set, or if the queue below is
// not a [Typed] and no priority is named. AddWith panics before the first add if the
// options name a limiter, or a priority that the queue below does not know. AddWith returns
// how many items were taken, as [Typed.AddWith] does. Above a queue that is not a Typed, its ShuttingDown before
// each add decides.
func (q *TypedDelaying[T]) AddWith(options AddOptions, items ...T) (taken int) {
	if options.RateLimited {
		panic(fmt.Sprintf("workqueue: AddWith of %T with RateLimited: it has no limiter", q))
	}
	m := q.modeOf(options)
	k := rankOf(options.Priority)
	q.checkRank(k)
	switch {
	case options.After > 0:
		return q.addAllAfter(items, options.After, k, m)
	case q.oneEntry || m != 0:
		return q.eachPlaced(items, k, func(hash uint32, item T, p *fifo.Placement) bool { return q.addPlaced(hash, item, p, m) })
	}
	return addAllBelow(q.queue, items, k)
}

// modeOf returns the mode for the options of an add. A firm wait needs the FIFO of a Typed.
func (q *TypedDelaying[T]) modeOf(options AddOptions) mode {
	if !options.Firm {
		return 0
	}
	if q.typed == nil {
		panic(fmt.Sprintf("workqueue: AddWith with Firm above a %T: it cannot keep an item until its wait is over", q.queue))
	}
	return modeFirm
}

// AddAfter adds the item once the duration has passed, at once if the duration is zero or
// negative. An item that already waits is due at the earlier of the two times. An Add does
// not change the wait, unless OneEntry is set. A duration that ends beyond the range of the
// clock ends there, in some 290 years.
//
// Items with different due times are added in the order of these times, and items with the
// same due time in the order of their AddAfter. After a shutdown AddAfter does nothing: a
// shutdown drops all waiting items.
//
// AddAfter does not block, and the item waits when AddAfter returns. AddAfter takes O(log
// n) time in the number of waiting items.
func (q *TypedDelaying[T]) AddAfter(item T, duration time.Duration) {
	q.addAfter(item, duration, fifo.Rank{}, 0, fifo.WhyDelay)
}

// Reschedule replaces the due time of a waiting item: the item is due after the duration,
// earlier or later than before. An item that does not wait starts to wait. If the duration
// is zero or negative, the wait ends and the item is added now.
//
// A queued item stays queued, and a held item stays held, see docs/semantics.md. In all
// else Reschedule is like [TypedDelaying.AddAfter]. It reports false after a shutdown, when
// nothing waits any more.
func (q *TypedDelaying[T]) Reschedule(item T, duration time.Duration) (taken bool) {
	hash := slab.HashOf(item)
	if q.queue.ShuttingDown() {
		return false
	}
	var place fifo.Placement
	p := q.place(&place, item, fifo.Rank{})
	return q.carryOut(&request[T]{want: wantReschedule, why: fifo.WhyDelay, hash: hash, item: item, after: duration}, p)
}

// Debounce handles a series of events once: when the series is over, or has gone on for too
// long. Each call of Debounce for an item puts the item off. The item is added when no call
// has come for the time quiet, and at the latest when the time maxWait has passed since the
// first call. If maxWait is zero or negative, there is no latest time: events without end keep
// the item waiting for ever. If quiet is zero or negative, the item is added now. Debounce
// panics if maxWait is positive and less than quiet, as for arguments in the wrong order.
//
// The first call of a series decides the value of maxWait. A series ends when the item is
// added.
//
// Debounce does not put off an item that waits because of an AddAfter, an AddRateLimited or
// a Reschedule, but may make the item due earlier. If an item waits because of a Debounce, such a call
// sets a bound: no Debounce afterwards makes the item later. In all else Debounce is like
// [TypedDelaying.AddAfter]. It reports false after a shutdown, when nothing waits any more.
func (q *TypedDelaying[T]) Debounce(item T, quiet, maxWait time.Duration) (taken bool) {
	if maxWait > 0 && maxWait < quiet {
		panic(fmt.Sprintf("workqueue: Debounce with quiet %v and maxWait %v: maxWait must be at least as long as quiet, or 0", quiet, maxWait))
	}
	hash := slab.HashOf(item)
	if q.queue.ShuttingDown() {
		return false
	}
	var place fifo.Placement
	p := q.place(&place, item, fifo.Rank{})
	return q.carryOut(&request[T]{want: wantDebounce, why: fifo.WhyDebounce, hash: hash, item: item, after: quiet, maxWait: maxWait}, p)
}

// LimitsChanged asks for the limits of all groups again, see [Typed.LimitsChanged], those of waiting
// items too. It takes time in proportion to the number of waiting items and of groups.
func (q *TypedDelaying[T]) LimitsChanged() {
	switch {
	case q.typed == nil:
		q.below("LimitsChanged").LimitsChanged()
	case q.typed.order != nil && q.typed.order.MaxInFlight != nil:
		q.typed.order.era.Add(1)
		q.hearLimits()
	}
}

// hearLimits is [Typed.hearLimits] for both layers.
func (q *TypedDelaying[T]) hearLimits() {
	q.typed.rehear(func(h *hearing[T]) bool { return q.hearWaits(h) && h.hearGroups() })
}

// Remove ends the wait of the item, and removes the item from the queue below, see [Typed.Remove].
// Remove reports whether the queue had the item: waiting, queued or held. It takes O(log n) time in
// the number of waiting items.
//
// If the queue below was configured and is not a [Typed], a due item may be on its way to the queue
// below. Remove then misses the item.
func (q *TypedDelaying[T]) Remove(item T) bool {
	if q.typed == nil {
		low := q.below("Remove")
		_, waited := q.unplan(&request[T]{hash: slab.HashOf(item), item: item}, nil)
		return low.Remove(item) || waited
	}
	return q.takeBack(item)
}

// RemoveFunc removes the items for which del returns true: it ends their waits, and removes them
// from the queue below, see [Typed.RemoveFunc]. An item that becomes due during the call is
// removed too. An item whose wait an add or a Reschedule ends during the call may stay.
// [TypedDelaying.Remove] says which items of a configured queue below can be missed. If the queue below is
// not a [Typed], the number may be too low: an item that waits, and is also in the queue below, may be left
// out.
func (q *TypedDelaying[T]) RemoveFunc(del func(item T) bool) (removed int) {
	// The queue below comes first: from then on no Run lets a removed item wait for a retry, and
	// the walk over the waiting items misses only items that become due: those of the log.
	log := q.noteMoves()
	defer q.endMoves(log)
	remove := q.Remove
	if t := q.typed; t != nil {
		removed = actOnMatches(&t.mu, &t.fifo.Items, t.fifo.Shrink, del, remove)
	} else {
		counted := map[T]bool{} // A held item can wait too. The queue below does not say which items it had.
		removed = q.below("RemoveFunc").RemoveFunc(func(item T) bool {
			matches := del(item)
			if matches {
				counted[item] = true
			}
			return matches
		})
		remove = func(item T) bool { return q.Remove(item) && !counted[item] }
	}
	removed += actOnMatches(&q.mu, &q.agenda.Items, q.agenda.Shrink, del, remove)
	q.endMoves(log)
	return removed + actOnEach(log.items, del, remove)
}

// Wake ends the waits of the items now, and adds the items: firm waits too, and those for a token of
// ItemPace. It adds no item that does not wait. It returns how many waits it has ended. The items keep
// the priorities of their waits.
//
// A Wake of an item that a worker holds stands until Done. A firm wait that begins in the meantime,
// and a wait that the result of a handler of [Run] asks for, end where they would begin: the item comes
// again at once. So a handler that waits for an event misses no event between its last look and its
// return. With OneEntry this holds for a wait of AddAfter and the like too, so a worker loop of your own
// misses no event either.
//
// Wake does not block. An item that cannot be hashed makes Wake panic, with the items before it woken. Each item
// takes O(log n) time in the number of waiting items.
func (q *TypedDelaying[T]) Wake(items ...T) (woken int) {
	for _, item := range items {
		if q.wakeUp(item) {
			woken++
		}
	}
	return woken
}

// wakeUp is Wake for an item, and reports whether the item waited.
func (q *TypedDelaying[T]) wakeUp(item T) bool {
	return q.carryOut(&request[T]{want: wantWake, hash: slab.HashOf(item), item: item}, nil)
}

// WakeFunc calls Wake for the items for which match returns true, and returns how many waits it has
// ended. match is called without a lock, in no particular order, and may be called more than once for
// an item. An item that begins to wait during the call may be missed.
//
// WakeFunc takes time in proportion to the number of all items. Other calls go on in the meantime, as
// for RemoveFunc.
func (q *TypedDelaying[T]) WakeFunc(match func(item T) bool) (woken int) {
	if t := q.typed; t != nil {
		// First: what the held items begin to wait for from now on, ends at once.
		for piece := range slab.Walk(&t.mu, &t.fifo.Items, t.fifo.HeldItem) {
			woken += actOnEach(piece, match, q.wakeUp)
		}
	}
	return woken + actOnMatches(&q.mu, &q.agenda.Items, q.agenda.Shrink, match, q.wakeUp)
}

// Find returns what the queue knows of an item at one instant, and reports false if the queue does
// not have the item. The State is that in the queue below, or else [ItemWaiting]. Due is set if the
// item waits, also if it is queued or held. The Position is 0. Find takes constant time.
//
// If the queue below was configured and is not a [Typed], it is asked at another instant.
func (q *TypedDelaying[T]) Find(item T) (info ItemInfo[T], ok bool) {
	hash := slab.HashOf(item)
	now := q.now()
	t := q.typed
	if t == nil {
		info, ok = q.below("Find").Find(item)
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.withWaitLocked(info, ok, hash, item, now)
	}
	at := t.metrics.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.fifo.Find(hash, item)
	if ok {
		info = infoOf(e, at, t.metrics != nil)
	}
	k, firm := t.fifo.FirmRank(hash, item)
	if info, ok = q.withWaitLocked(info, ok, hash, item, now); firm && info.State == ItemWaiting {
		info.Priority, info.named = k.Priority, k.Named
	}
	return info, ok
}

// withWaitLocked adds the wait of an item to what the queue below knows of the item.
func (q *TypedDelaying[T]) withWaitLocked(info ItemInfo[T], ok bool, hash uint32, item T, now time.Duration) (ItemInfo[T], bool) {
	e, waits := q.agenda.Find(hash, item)
	switch {
	case !waits:
		return info, ok
	case ok:
		info.Due, info.Firm, info.Why = q.epoch.Add(e.Due), e.Firm, whys[e.Why]
		return info, true
	}
	return infoOfWait(e, now, q.epoch, q.agenda.Timed), true
}

// Len returns the number of items in the queue below. Waiting items do not count.
func (q *TypedDelaying[T]) Len() int { return q.queue.Len() }

// Get returns an item of the queue below, see [Typed.Get].
func (q *TypedDelaying[T]) Get() (item T, shutdown bool) { return q.queue.Get() }

// GetContext returns an item of the queue below, see [Typed.GetContext].
func (q *TypedDelaying[T]) GetContext(ctx context.Context) (T, error) {
	return q.below("GetContext").GetContext(ctx)
}

// GetInfo returns an item of the queue below, see [Typed.GetInfo].
func (q *TypedDelaying[T]) GetInfo(ctx context.Context) (ItemInfo[T], error) {
	return q.below("GetInfo").GetInfo(ctx)
}

// TryGet returns an item of the queue below, see [Typed.TryGet].
func (q *TypedDelaying[T]) TryGet() (item T, ok bool) {
	return q.below("TryGet").TryGet()
}

// Done tells the queue below, see [Typed.Done].
func (q *TypedDelaying[T]) Done(item T) { q.queue.Done(item) }

// ShuttingDown reports whether the queue below is being shut down.
func (q *TypedDelaying[T]) ShuttingDown() bool {
	if q.typed != nil { // AddAfter asks, and should not pay for a call of an interface.
		return q.typed.shut.Load()
	}
	return q.queue.ShuttingDown()
}

// ShutDown drops the waiting items, shuts the queue below down, and waits for the end of
// the goroutine. It does not wait for workers.
func (q *TypedDelaying[T]) ShutDown() {
	q.close(false, nil)
	q.drains.halt()
	if q.typed == nil {
		q.queue.ShutDown()
	} else {
		q.typed.awaitEnd(nil)
	}
	<-q.loops.AllLeft(&q.mu)
	q.retire()
}

// ShutDownWithDrain drops the waiting items, shuts the queue below down with a drain, and
// waits for the end of the drain and of the goroutine.
func (q *TypedDelaying[T]) ShutDownWithDrain() {
	drained := q.close(true, nil)
	if q.typed == nil {
		q.queue.ShutDownWithDrain()
	} else {
		q.typed.awaitEnd(drained)
	}
	<-q.loops.AllLeft(&q.mu)
	q.retire()
}

// close drops the waiting items and makes waitingLoop end. It does not wait for the end: the loop
// may be in an Add that blocks until the queue below is shut down.
//
// If the queue below is a Typed, close shuts it down in the same critical section: in between, a
// Remove would find nothing, and an Add after the Remove would be taken. A foreign queue is not
// called with the lock held, and the caller shuts it down.
//
// tell, if not nil, gets the dropped items before anybody can know of the shutdown. The lock is held.
func (q *TypedDelaying[T]) close(drain bool, tell func(*leftover[T])) (drained <-chan struct{}) {
	now := q.now() // May be foreign code.
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.dropLocked(now)
	q.poke()
	if tell != nil {
		tell(q.dropped)
	}
	if q.typed != nil {
		drained = q.typed.shutDown(drain)
	}
	return drained
}

// dropLocked drops the waiting items, as the queue is shut down. Their number is
// kept for retire. The items are kept if somebody has called keepDropped.
func (q *TypedDelaying[T]) dropLocked(now time.Duration) {
	if q.keepers > 0 && q.agenda.Len() > 0 { // Only the first shutdown finds items.
		q.dropped = &leftover[T]{of: q, agenda: q.agenda, now: now}
	}
	if q.metrics != nil {
		q.metrics.abandoned += q.agenda.Len()
	}
	q.agenda.Clear()
}

// poke makes waitingLoop look again. A second token is not needed.
func (q *TypedDelaying[T]) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *TypedDelaying[T]) now() time.Duration { return q.clock.Since(q.epoch) }

// Snapshot returns the items of the queue and of the queue below, with at most limit items
// of each state; for the rest see [Typed.Snapshot]. If the queue below was configured and
// is not a [Typed], its items are copied first, and not at the same instant.
func (q *TypedDelaying[T]) Snapshot(limit int) Snapshot[T] {
	now := q.now()
	c := censusOf[T](limitOf(limit))
	var s Snapshot[T]
	if q.typed == nil {
		s = q.below("Snapshot").Snapshot(limit)
		c.waiting.MakeRoom(q.waits())
		q.collectWaiting(&c)
	} else {
		typedNow := q.typedNow(now)
		q.typed.makeRoom(&c)
		c.waiting.MakeRoom(q.waits())
		q.collect(&c)
		c.describe(&s, typedNow, q.typed.metrics != nil)
	}
	c.describeWaiting(&s, now, q.epoch)
	return s
}

// Items visits the items of the queue below and then the waiting items, see [Typed.Items]. An item
// that waits and is in the queue below is visited twice. An item that moves during the loop may be
// visited in both states, or missed.
func (q *TypedDelaying[T]) Items() iter.Seq[ItemInfo[T]] {
	return func(yield func(ItemInfo[T]) bool) {
		if q.typed != nil {
			if !q.typed.visitItems(func() time.Duration { return q.typedNow(q.now()) }, yield) {
				return
			}
		} else {
			for info := range q.below("Items").Items() {
				if !yield(info) {
					return
				}
			}
		}
		q.visitWaiting(yield)
	}
}

// Stats returns the state of the queue and of the queue below, see [Typed.Stats]. If the queue
// below was configured and is not a [Typed], its state is of another instant.
func (q *TypedDelaying[T]) Stats() QueueStats {
	if q.typed == nil {
		s := q.below("Stats").Stats()
		s.Merge(q.statsOf(nil))
		return s
	}
	v := fifo.Survey{Now: q.typed.metrics.now()} // Foreign code, perhaps, and so without a lock.
	s := q.statsOf(&v)
	q.typed.addBreakdown(&s, &v)
	return s
}

// ReAddContext calls the queue below, see [Typed.ReAddContext].
func (q *TypedDelaying[T]) ReAddContext(ctx context.Context, item T) (context.Context, context.CancelFunc) {
	return q.below("ReAddContext").ReAddContext(ctx, item)
}

// Drain drops the waiting items, drains the queue below, see [Typed.Drain], and waits for
// the end of the goroutine until ctx is done at the latest. Dropped items alone do not make
// Drain return an error. If Drain returns a *[DrainError], the error lists the items that
// waited when this Drain began, or a Drain or Run that overlaps with it. The list takes time
// after ctx is done, 0.4 us an item for millions of items, but no other call waits for the list.
//
// A configured queue below without Drain is drained in three steps: its ShutDownWithDrain,
// which may return while items are queued, its Len, and its ShutDownWithDrain again. When
// ctx is done, the ShutDown of the queue below ends the drain for all calls of Drain: the
// other calls return an error with [ErrShutDown]. The error then knows the Len of the queue
// below and nothing else. Drain returns within some 130 ms after ctx is done, even
// if the drain of the queue below goes on.
func (q *TypedDelaying[T]) Drain(ctx context.Context) error {
	q.keepDropped()
	defer q.forgetDropped()
	drained := q.close(true, nil)
	var err error
	if q.typed == nil {
		err = drainBelow(ctx, q.queue, &q.drains)
	} else {
		err = q.typed.awaitDrain(ctx, drained)
	}
	waitWithin(ctx, q.loops.AllLeft(&q.mu))
	q.retire()
	if e, ok := err.(*DrainError[T]); ok {
		q.leftover().addTo(&e.Left)
	}
	return err
}
