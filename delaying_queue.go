package workqueue

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

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
// TryGet, Remove, Snapshot and ReAddContext need the one of their name, and panic
// without it. A type that embeds a [Typed] has all of them, and should replace each
// that its own Add, Get or Done would make wrong.
type TypedDelaying[T comparable] struct {
	// Immutable after construction.

	queue   TypedInterface[T]
	typed   *Typed[T]     // queue, if it is that and has no storage, or oneEntry
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
	// in one of them. No foreign code runs with mu held, but that of a storage if
	// oneEntry.
	mu sync.Mutex
	// The fields below are guarded by mu.
	//
	// Invariants:
	//
	//	running == a goroutine is in waitingLoop
	//	agenda.len() > 0 implies running
	//	closed implies agenda.len() == 0
	//	draining == 0 implies dropped == nil
	agenda   agenda[T]
	running  bool
	closed   bool
	urgent   bool         // a worker was woken for due items, and may still be on its way
	draining int32        // calls of Drain
	dropped  *leftover[T] // what waited when the first of these began
	loops    crew         // entered with mu held and closed false

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
		mustNotOrder(config.Order)
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
		q.attach(state, config.Name, config.Queue == nil && keepsOrder(config.Order))
	}
	return q
}

// findTyped sets typed. Items go to a Typed in one step with leaving the agenda. A
// type that embeds a *Typed has its methods too, but may have an Add of its own,
// which must not be passed over.
//
// A storage is foreign code, for which the lock of this queue is kept free. OneEntry
// cannot do without: between two critical sections an item could come to be in both.
func (q *TypedDelaying[T]) findTyped() {
	t, ok := q.queue.(*Typed[T])
	switch {
	case ok && (t.fifo.native() || q.oneEntry):
		q.typed = t
	case q.oneEntry:
		panic(fmt.Sprintf("workqueue: OneEntry cannot ask a %T whether an item is queued", q.queue))
	}
}

// makeBelow makes the queue below. A provider that reads queues reads that one through
// this one, unless its order is foreign code, which must not be called with the lock of
// this queue held.
func (q *TypedDelaying[T]) makeBelow(config TypedDelayingQueueConfig[T], p MetricsProvider) {
	fifo := TypedQueueConfig[T]{Name: config.Name, Clock: q.clock, KeepTimes: config.KeepTimes, Order: config.Order}
	if _, ok := p.(StateProvider); ok && keepsOrder(config.Order) {
		p, fifo.KeepTimes = nil, true
	}
	t := newTyped(fifo, p)
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

// Len returns the number of items in the queue below, without those waiting.
func (q *TypedDelaying[T]) Len() int { return q.queue.Len() }

// Get returns an item of the queue below, see [Typed.Get].
func (q *TypedDelaying[T]) Get() (item T, shutdown bool) { return q.queue.Get() }

// GetContext returns an item of the queue below, see [Typed.GetContext].
func (q *TypedDelaying[T]) GetContext(ctx context.Context) (T, error) {
	return below[getter[T]](q.queue, "GetContext").GetContext(ctx)
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
	<-q.loops.allLeft(&q.mu)
	q.retire()
}

// ShutDownWithDrain drops the waiting items, shuts the queue below down with a
// drain, and ends the goroutine. It waits for both.
func (q *TypedDelaying[T]) ShutDownWithDrain() {
	q.close()
	q.queue.ShutDownWithDrain()
	<-q.loops.allLeft(&q.mu)
	q.retire()
}

func (q *TypedDelaying[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closeLocked()
}

// closeLocked makes waitingLoop end. It does not wait for it: the loop may be
// in an Add that blocks until the queue below is shut down.
func (q *TypedDelaying[T]) closeLocked() {
	q.closed = true
	q.dropLocked()
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

func (q *TypedDelaying[T]) dropWaiting() (dropped func(*Snapshot[T]), release func()) {
	return q.closeToDrain().addTo, q.endDrain
}
