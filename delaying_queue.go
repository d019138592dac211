package workqueue

import (
	"log/slog"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
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

	// Queue takes the items when they are due, and everything else that is not
	// AddAfter; nil is a [Typed] with the options above. The delaying queue
	// owns it: it is shut down with it.
	Queue TypedInterface[T]
}

// TypedDelaying is a queue with AddAfter, on top of another queue. The items
// that wait for their time are its own; once due they are added to the queue
// below, and all methods but AddAfter and the two shutdowns are those of that
// queue.
//
// The zero value is not usable. All methods may be called concurrently. A
// TypedDelaying must not be copied. Its owner must call ShutDown or
// ShutDownWithDrain.
//
// It runs one goroutine while items wait, and none otherwise. That goroutine
// is the only one that adds due items; the methods of a queue below that was
// configured must not shut the delaying queue down from there, as the shutdown
// waits for the goroutine. A panic of such a method, or of a metric, is logged
// there and then panics on, which ends the program: there is no caller to
// hand it to, and a queue that has silently stopped to add what is due is
// worse.
type TypedDelaying[T comparable] struct {
	// Immutable after construction.

	queue   TypedInterface[T]
	typed   *Typed[T] // queue, if it is that and has no storage
	retries CounterMetric
	logger  logr.Logger
	clock   clock.WithTicker
	// Times are nanoseconds since epoch on clock, see instruments.
	epoch time.Time
	// real is whether time passes by itself, and not by a call to Step.
	real bool
	// loop is waitingLoop as a value: a method value made at each start of the
	// goroutine would be allocated.
	loop func()
	// wake has room for one token, sent when waitingLoop has to look again: the
	// first due time has changed, or the queue is closed. It stays in the
	// channel until the loop takes it, so the loop, which looks before it
	// waits, cannot miss a change.
	wake chan struct{}

	// Owned by waitingLoop, of which at most one runs at a time.

	timer     clock.Timer
	due       []T // taken from the agenda to be added
	delivered int // how many of them have been

	mu sync.Mutex
	// The fields below are guarded by mu. No foreign code runs with it held.
	//
	// Invariants:
	//
	//	running == a goroutine is in waitingLoop
	//	agenda.len() > 0 implies running
	//	closed implies agenda.len() == 0
	agenda  agenda[T]
	running bool
	closed  bool
	loops   sync.WaitGroup // Add with mu held and closed false
}

const (
	// heartbeat is the longest that waitingLoop sleeps: an item is never due
	// for longer than this without being added, whatever the clock and its
	// timers do. client-go gives the same guarantee.
	heartbeat = 10 * time.Second

	// batch is how many due items are added at a time, in one critical section
	// of the queue below. Each idle queue keeps room for as many. Not tuned.
	batch = 32

	// maxArms bounds how often the timer is armed for one sleep, if the clock
	// moves each time. It takes as many steps of a fake clock, each within the
	// same microsecond as one of these, to make an item late.
	maxArms = 8
)

// NewTypedDelayingQueue returns an empty delaying queue without name and
// metrics.
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
	c := clockOrDefault(config.Clock)
	q := &TypedDelaying[T]{
		queue:   config.Queue,
		retries: newRetries(config.Name, config.MetricsProvider),
		logger:  loggerOrDefault(config.Logger),
		clock:   c,
		epoch:   c.Now(),
		wake:    make(chan struct{}, 1),
	}
	if q.queue == nil {
		q.queue = NewTypedWithConfig(TypedQueueConfig[T]{
			Name:            config.Name,
			MetricsProvider: config.MetricsProvider,
			Clock:           c,
		})
	}
	// Due items are added in batches where that is the same as one by one. A
	// type that embeds a *Typed has its AddAll too, but may have an Add of its
	// own, which must not be passed over; a storage may end the goroutine in
	// the midst of a batch.
	if t, ok := q.queue.(*Typed[T]); ok && t.storage == nil {
		q.typed = t
	}
	_, q.real = c.(clock.RealClock)
	q.loop = q.waitingLoop
	return q
}

func loggerOrDefault(l *logr.Logger) logr.Logger {
	if l == nil {
		return logr.FromSlogHandler(slog.Default().Handler())
	}
	return *l
}

// AddAfter adds the item once the duration has passed, at once if it is zero
// or negative. An item that already waits stays due at the earlier of the two
// times; an Add does not change when, or that, it is due. A duration that ends
// beyond the range of the clock never ends.
//
// Items due at different times are added in the order of these, those due at
// the same time in the order of their AddAfter. After a shutdown, AddAfter
// does nothing, and items that still wait are dropped.
//
// AddAfter does not block, and the item waits when it returns. It takes
// O(log n) time in the number of waiting items.
func (q *TypedDelaying[T]) AddAfter(item T, duration time.Duration) {
	hash := hashOf(item)
	if q.queue.ShuttingDown() {
		return
	}
	if q.retries == nil {
		q.addAfter(hash, item, duration)
		return
	}
	defer q.addAfter(hash, item, duration) // Even if the metric does not return.
	q.retries.Inc()
}

func (q *TypedDelaying[T]) addAfter(hash uint32, item T, duration time.Duration) {
	if duration <= 0 {
		q.queue.Add(item)
		return
	}
	now := q.now()
	if q.schedule(hash, item, now, later(now, duration)) {
		runtime.Gosched()
	}
}

// later returns now + duration, or the end of time. now can be negative: an
// injected clock may be set back to before the epoch.
func later(now, duration time.Duration) time.Duration {
	if now > math.MaxInt64-duration {
		return math.MaxInt64
	}
	return now + duration
}

// schedule puts the item on the agenda, and reports whether waitingLoop is
// behind: something was due by now. It then wakes the loop, and the caller
// should yield to it. Its timer does not suffice: processors look at timers
// when they look for work, and where each is taken up by goroutines that do
// nothing but AddAfter, or by the garbage collector, that is every 10 ms.
func (q *TypedDelaying[T]) schedule(hash uint32, item T, now, due time.Duration) (behind bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	first := q.agenda.schedule(hash, item, due)
	behind = q.agenda.next() < now
	switch {
	case !q.running:
		q.running = true
		q.loops.Add(1)
		go q.loop()
	case first || behind:
		q.poke()
	}
	return behind
}

// Add adds the item to the queue below. If it waits, it goes on waiting.
func (q *TypedDelaying[T]) Add(item T) { q.queue.Add(item) }

// Len returns the number of items in the queue below, without those waiting.
func (q *TypedDelaying[T]) Len() int { return q.queue.Len() }

// Get returns an item of the queue below, see [Typed.Get].
func (q *TypedDelaying[T]) Get() (item T, shutdown bool) { return q.queue.Get() }

// Done tells the queue below, see [Typed.Done].
func (q *TypedDelaying[T]) Done(item T) { q.queue.Done(item) }

// ShuttingDown reports whether the queue below is being shut down.
func (q *TypedDelaying[T]) ShuttingDown() bool { return q.queue.ShuttingDown() }

// ShutDown drops the waiting items, shuts the queue below down, and ends the
// goroutine, for which it waits. It does not wait for workers.
func (q *TypedDelaying[T]) ShutDown() {
	q.close()
	q.queue.ShutDown()
	q.loops.Wait()
}

// ShutDownWithDrain drops the waiting items, shuts the queue below down with a
// drain, and ends the goroutine. It waits for both.
func (q *TypedDelaying[T]) ShutDownWithDrain() {
	q.close()
	q.queue.ShutDownWithDrain()
	q.loops.Wait()
}

// close makes waitingLoop end. It does not wait for it: the loop may be in an
// Add that blocks until the queue below is shut down.
func (q *TypedDelaying[T]) close() {
	q.mu.Lock()
	q.closed = true
	q.agenda = agenda[T]{}
	q.mu.Unlock()
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
