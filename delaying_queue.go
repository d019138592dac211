package workqueue

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/seed16c08ea7/workqueue/internal/slab"

	"github.com/seed16c08ea7/workqueue/internal/gate"
)

// TypedDelayingInterface is a [TypedInterface] that can add an item later, so
// that a worker can retry without spinning. [TypedDelaying] documents it.
type TypedDelayingInterface[T comparable] interface {
	TypedInterface[T]
	// AddAfter adds the item after the duration has passed.
	AddAfter(item T, duration time.Duration)
}

// TypedDelayingQueueConfig are the options of a [TypedDelaying]. The zero
// value is valid.
type TypedDelayingQueueConfig[T comparable] struct {
	// Logger is told of panics in foreign code on the queue's goroutine; nil
	// logs to [slog.Default]. The name of the queue is not added to it.
	Logger *logr.Logger

	// Name labels the metrics. A queue without a name has none.
	Name string

	// MetricsProvider makes the metrics. If nil, it is the one given to
	// [SetProvider] before the queue is constructed.
	MetricsProvider MetricsProvider

	// Clock tells the time that delays are measured in; nil is the real one.
	Clock clock.WithTicker

	// KeepTimes is that of [TypedQueueConfig].
	KeepTimes bool

	// Queue takes the items when they are due, and everything else that is not
	// AddAfter; nil is a [Typed] with the options above. The delaying queue
	// owns it: it is shut down with it. With a Queue, the constructor panics if KeepTimes is
	// set: set KeepTimes in the config of the Queue.
	Queue TypedInterface[T]

	// OneEntry makes an item be queued or wait, but never both, whichever call
	// comes first. The earlier time wins: an Add of an item that waits ends the
	// wait, and an AddAfter, a Reschedule or a Debounce of an item that is
	// queued, or will be by its Done, makes nothing wait. AddAfter and Debounce
	// can raise the item to a higher priority. An item that is in flight may wait.
	// Without the option such an item is handed out for either call, on which callers
	// of client-go may rely.
	//
	// A Queue must be a *[Typed] then, as another one cannot be asked whether an
	// item is queued. Its own Add must not be called.
	OneEntry bool

	// Order is that of [TypedQueueConfig], for the Typed below. With a Queue, which
	// decides the order itself, the constructor panics.
	Order Order[T]
}

// TypedDelaying is a queue with AddAfter, on top of another queue. It holds the
// waiting items itself and adds them to the queue below when they are due. Methods
// that have nothing to do with waiting are those of that queue.
//
// The zero value is not usable. All methods may be called concurrently. A TypedDelaying
// must not be copied. Its owner must call ShutDown, ShutDownWithDrain or Drain.
//
// It runs one goroutine while items wait, and none otherwise. If the queue below was
// configured, only that goroutine adds due items to it. Add of that queue must not
// shut the delaying queue down, as the shutdown waits for the goroutine. If it
// panics, or a metric does, the goroutine logs that and panics on, which ends the
// program: no caller could handle it, and to go on without adding due items is worse.
//
// A queue below that was configured may have methods of a [Typed] beyond
// [TypedInterface], with the same names and types. They are used then. GetContext,
// GetInfo, TryGet, Remove, Snapshot and ReAddContext need the one of their name, and panic
// without it. A type that embeds a [Typed] has all of them, and should replace each
// that its own Add, Get or Done would make wrong.
type TypedDelaying[T comparable] struct {
	// Immutable after construction.

	queue   TypedInterface[T]
	typed   *Typed[T]     // queue, if it is that and has no Queue of its own, or oneEntry
	retries CounterMetric // nil for none
	metrics *delayMetrics // nil unless a provider reads this queue
	logger  logr.Logger
	clock   clock.WithTicker
	// Times are nanoseconds since epoch on clock, see instruments.
	epoch time.Time
	// real is whether time passes by itself, and not by a call to Step; aligned
	// whether typed has metrics, and the same clock and epoch; oneEntry is
	// OneEntry.
	real, aligned, oneEntry bool
	// loop is waitingLoop as a value: a method value made at each start of the
	// goroutine would be allocated.
	loop func()
	// wake has room for one token, sent when the first due time has changed or
	// nothing waits any more. It stays there until the loop takes it. The loop looks
	// at the agenda before it waits for a token, and so misses no change.
	wake chan struct{}

	drains drains      // of queue, if it has no Drain
	timer  clock.Timer // owned by waitingLoop, which runs once at a time

	// mu comes before the lock of typed, which is taken with mu held wherever
	// an item goes from the one to the other, so that each item is at any time
	// in one of them. No foreign code runs with mu held, with one exception: the methods of
	// a Queue of typed, if oneEntry.
	mu sync.Mutex
	// The fields below are guarded by mu.
	//
	// Invariants:
	//
	//	running == a goroutine is in waitingLoop
	//	agenda.len() > 0 implies running
	//	closed implies agenda.len() == 0
	//	keepers == 0 implies dropped == nil
	agenda  agenda[T]
	running bool
	closed  bool
	urgent  bool         // a worker was woken for due items, and may still be on its way
	keepers int32        // calls of Drain and of Run, which may have to name what is dropped
	dropped *leftover[T] // what waited when a shutdown dropped it
	loops   gate.Crew    // entered with mu held and closed false

	// planned is agenda.plans, for those who are about to read an injected
	// clock: see reading. It is written with mu held.
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
		mustBeUnset("Queue", configField{"Order", config.Order.isSet()}, configField{"KeepTimes", config.KeepTimes})
	}
	c := clockOrDefault(config.Clock)
	p := providerFor(config.Name, config.MetricsProvider)
	state, _ := p.(StateProvider)
	q := &TypedDelaying[T]{
		queue:    config.Queue,
		retries:  newRetries(config.Name, p),
		logger:   loggerOrDefault(config.Logger),
		clock:    c,
		epoch:    c.Now(),
		oneEntry: config.OneEntry,
		wake:     make(chan struct{}, 1),
	}
	if q.queue == nil {
		q.makeBelow(config, p)
	}
	q.findTyped()
	_, q.real = c.(clock.RealClock)
	q.loop = q.waitingLoop
	if state != nil {
		q.attach(state, config.Name, config.Queue == nil)
	}
	return q
}

// findTyped sets typed. Items go to a Typed in one step with leaving the agenda. A
// type that embeds a *Typed has its methods too, but may have an Add of its own,
// which must not be passed over.
//
// The Queue of a Typed is foreign code, for which the lock of this queue is kept free.
// OneEntry cannot do without: between two critical sections an item could come to be in
// both.
func (q *TypedDelaying[T]) findTyped() {
	t, ok := q.queue.(*Typed[T])
	switch {
	case ok && (t.fifo.storage == nil || q.oneEntry):
		q.typed = t
	case q.oneEntry:
		panic(fmt.Sprintf("workqueue: OneEntry cannot ask a %T whether an item is queued", q.queue))
	}
}

// makeBelow makes the queue below. A provider that reads queues reads that one through
// this one.
func (q *TypedDelaying[T]) makeBelow(config TypedDelayingQueueConfig[T], p MetricsProvider) {
	below := TypedQueueConfig[T]{Name: config.Name, Clock: q.clock, KeepTimes: config.KeepTimes, Order: config.Order}
	if _, ok := p.(StateProvider); ok {
		p, below.KeepTimes = nil, true
	}
	t := newTyped(below, p)
	if t.metrics != nil {
		q.epoch, q.aligned, q.agenda.timed = t.metrics.epoch, true, true
	}
	q.queue = t
}

func loggerOrDefault(l *logr.Logger) logr.Logger {
	if l == nil {
		return logr.FromSlogHandler(slog.Default().Handler())
	}
	return *l
}

// Add adds the item to the queue below. If it waits, it goes on waiting, unless
// OneEntry is set.
func (q *TypedDelaying[T]) Add(item T) {
	if q.oneEntry {
		q.addNow(slab.HashOf(item), item, rank{})
		return
	}
	q.queue.Add(item)
}

// AddAll adds the items in their order, see [TypedDelaying.AddWith].
func (q *TypedDelaying[T]) AddAll(items ...T) (taken int) { return q.AddWith(AddOptions{}, items...) }

// AddWith adds the items with a priority, at once or when the time After has passed.
// For the former see [Typed.AddWith], for the latter AddAfter. An item that waits
// already keeps the earlier time and the higher priority. What is queued or held at
// the same time has a priority of its own, until the wait ends and the item is added:
// then that is raised.
//
// The items are added one by one if they wait, if OneEntry is set, or if the queue below
// was configured and has no AddAll, or no AddWith. AddWith panics, before it adds anything,
// if there is a priority and the queue below knows none, and if the options name a limiter.
// AddWith returns how many items were taken, as [Typed.AddWith] does.
func (q *TypedDelaying[T]) AddWith(options AddOptions, items ...T) (taken int) {
	if options.RateLimited {
		panic(fmt.Sprintf("workqueue: AddWith of %T with RateLimited: it has no limiter", q))
	}
	k := rankOf(options.Priority)
	q.checkRank(k)
	switch {
	case options.After > 0:
		return q.addAllAfter(items, options.After, k)
	case q.oneEntry:
		return q.eachPlaced(items, k, func(hash uint32, item T, p *placement) bool { return q.promote(hash, item, p, false) })
	}
	return addAllBelow(q.queue, items, k)
}

// AddAfter adds the item once the duration has passed, at once if it is zero
// or negative. An item that already waits stays due at the earlier of the two
// times; an Add does not change when, or that, it is due, unless OneEntry is set. A
// duration that ends beyond the range of the clock never ends.
//
// Items due at different times are added in the order of these, those due at
// the same time in the order of their AddAfter. After a shutdown, AddAfter
// does nothing, and items that still wait are dropped.
//
// AddAfter does not block, and the item waits when it returns. It takes
// O(log n) time in the number of waiting items.
func (q *TypedDelaying[T]) AddAfter(item T, duration time.Duration) {
	q.addAfter(item, duration, rank{})
}

// Reschedule makes the item due after the duration, and not when it was: it
// replaces the due time of a waiting item, by an earlier or a later one. An item that
// does not wait starts to wait. If the duration is zero or negative, the wait ends
// and the item is added now.
//
// What is queued or held stays so, see docs/semantics.md. For the rest Reschedule is
// like [TypedDelaying.AddAfter]. It reports false after a shutdown: nothing waits then.
func (q *TypedDelaying[T]) Reschedule(item T, duration time.Duration) (taken bool) {
	hash := slab.HashOf(item)
	if q.queue.ShuttingDown() {
		return false
	}
	var place placement
	p := q.place(&place, item, rank{})
	if duration <= 0 {
		return q.promote(hash, item, p, true)
	}
	r := q.readClock()
	return q.observePromotion(q.reschedule(hash, item, r, dueAfter(r.now, duration), p))
}

// Debounce adds the item when Debounce has not been called for it for the time
// quiet, and at the latest when the time most has passed since the first of
// these calls. So a series of events is handled once, when it is over or has gone on
// for too long. If most is zero or negative, there is no such limit: events that do
// not end keep the item waiting for ever. If quiet is zero or negative, the item is
// added now. Debounce panics if most is positive and less than quiet, as for arguments in
// the wrong order.
//
// The first call of a series decides the value of most. A series ends when the item
// is added.
//
// Debounce does not put off an item that waits because of an AddAfter, an
// AddRateLimited or a Reschedule, but may make it due earlier. After such a call, an
// item that waits because of Debounce is due no later than the call says. For the
// rest Debounce is like [TypedDelaying.AddAfter]. It reports false after a shutdown: nothing
// waits then.
func (q *TypedDelaying[T]) Debounce(item T, quiet, most time.Duration) (taken bool) {
	if most > 0 && most < quiet {
		panic(fmt.Sprintf("workqueue: Debounce with quiet %v and most %v: most has to be as long as quiet at least, or 0", quiet, most))
	}
	hash := slab.HashOf(item)
	if q.queue.ShuttingDown() {
		return false
	}
	var place placement
	p := q.place(&place, item, rank{})
	if quiet <= 0 {
		return q.promote(hash, item, p, true)
	}
	r := q.readClock()
	latest := time.Duration(math.MaxInt64)
	if most > 0 {
		latest = dueAfter(r.now, most)
	}
	return q.observePromotion(q.debounce(hash, item, r, dueAfter(r.now, quiet), latest, p))
}

// Remove takes the item back: it no longer waits, and is removed from the queue
// below, see [Typed.Remove]. It reports whether there was anything to take back. It takes
// O(log n) time in the number of waiting items.
//
// If the queue below was configured, and is not a [Typed] without a [Queue], an
// item that is due may be on its way there. Remove misses it then.
func (q *TypedDelaying[T]) Remove(item T) bool {
	hash := slab.HashOf(item)
	if q.typed == nil {
		low := below[remover[T]](q.queue, "Remove")
		_, waited := q.unplan(hash, item, nil)
		return low.Remove(item) || waited
	}
	waited, added := q.removeTyped(hash, item)
	if added {
		q.typed.metrics.removed()
	}
	return waited || added
}

// Len returns the number of items in the queue below, without those waiting.
func (q *TypedDelaying[T]) Len() int { return q.queue.Len() }

// Get returns an item of the queue below, see [Typed.Get].
func (q *TypedDelaying[T]) Get() (item T, shutdown bool) { return q.queue.Get() }

// GetContext returns an item of the queue below, see [Typed.GetContext].
func (q *TypedDelaying[T]) GetContext(ctx context.Context) (T, error) {
	return below[getter[T]](q.queue, "GetContext").GetContext(ctx)
}

// GetInfo returns an item of the queue below, see [Typed.GetInfo].
func (q *TypedDelaying[T]) GetInfo(ctx context.Context) (ItemInfo[T], error) {
	return below[infoGetter[T]](q.queue, "GetInfo").GetInfo(ctx)
}

// TryGet returns an item of the queue below, see [Typed.TryGet].
func (q *TypedDelaying[T]) TryGet() (item T, ok bool) {
	return below[tryGetter[T]](q.queue, "TryGet").TryGet()
}

// Done tells the queue below, see [Typed.Done].
func (q *TypedDelaying[T]) Done(item T) { q.queue.Done(item) }

// ShuttingDown reports whether the queue below is being shut down.
func (q *TypedDelaying[T]) ShuttingDown() bool { return q.queue.ShuttingDown() }

// ShutDown drops the waiting items, shuts the queue below down, and ends the
// goroutine, for which it waits. It does not wait for workers.
func (q *TypedDelaying[T]) ShutDown() {
	q.close()
	q.drains.halt()
	q.queue.ShutDown()
	<-q.loops.AllLeft(&q.mu)
	q.retire()
}

// ShutDownWithDrain drops the waiting items, shuts the queue below down with a
// drain, and ends the goroutine. It waits for both.
func (q *TypedDelaying[T]) ShutDownWithDrain() {
	q.close()
	q.queue.ShutDownWithDrain()
	<-q.loops.AllLeft(&q.mu)
	q.retire()
}

// close makes waitingLoop end. It does not wait for it: the loop may be
// in an Add that blocks until the queue below is shut down.
func (q *TypedDelaying[T]) close() {
	now := q.now() // May be foreign code.
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.dropLocked(now)
	q.poke()
}

// poke makes waitingLoop look again. If there is a token already, it will.
func (q *TypedDelaying[T]) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *TypedDelaying[T]) now() time.Duration { return q.clock.Since(q.epoch) }

// Snapshot returns what the queue and the one below it hold, with at most limit
// items of each state; for the rest see [Typed.Snapshot]. If the queue below
// was configured and is not a [Typed] without a [Queue], it is looked into
// first, and not at the same instant.
func (q *TypedDelaying[T]) Snapshot(limit int) Snapshot[T] {
	now := q.now()
	c := census[T]{limit: limitOf(limit)}
	var s Snapshot[T]
	if q.typed == nil {
		s = below[snapshotter[T]](q.queue, "Snapshot").Snapshot(limit)
		c.makeRoomForWaiting(q.waits())
		q.collectWaiting(&c)
	} else {
		typedNow := q.typedNow(now)
		q.typed.makeRoom(&c)
		c.makeRoomForWaiting(q.waits())
		q.collect(&c)
		c.describe(&s, typedNow, q.typed.metrics != nil)
	}
	c.describeWaiting(&s, now, q.epoch)
	return s
}

// ReAddContext is that of the queue below, see [Typed.ReAddContext].
func (q *TypedDelaying[T]) ReAddContext(ctx context.Context, item T) (context.Context, context.CancelFunc) {
	return below[reAdder[T]](q.queue, "ReAddContext").ReAddContext(ctx, item)
}

// Drain drops the waiting items, drains the queue below, see [Typed.Drain], and
// ends the goroutine, for which it waits until ctx is done at the latest. The
// dropped items are listed in the *[DrainError] if there is one. They alone do not
// make Drain return an error. To list them takes time after ctx is done, 0.4 us an
// item for millions of them, but no other call waits for that.
//
// A queue below that was configured and has no Drain is drained by its
// ShutDownWithDrain, its Len and its ShutDownWithDrain again, as the first may return
// while items are queued. When ctx is done, the ShutDown of that queue ends the drain,
// for all calls of Drain: the others return an error with [ErrShutDown]. The error then
// knows the Len of the queue and nothing else. Drain returns within a tenth of a second,
// also if the drain of that queue goes on all the same.
func (q *TypedDelaying[T]) Drain(ctx context.Context) error {
	q.keepDropped()
	defer q.forgetDropped()
	q.close()
	err := drainBelow(ctx, q.queue, &q.drains)
	waitWithin(ctx, q.loops.AllLeft(&q.mu))
	q.retire()
	if e, ok := err.(*DrainError[T]); ok {
		q.leftover().addTo(&e.Snapshot)
	}
	return err
}
