package embedded

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// A Queue has the methods of a queue that a controller needs. The interface imports no
// queue package, so controllers on client-go's queue and on ours can both use Run.
type Queue interface {
	Add(item cache.ObjectName)
	AddAfter(item cache.ObjectName, duration time.Duration)
	AddRateLimited(item cache.ObjectName)
	Forget(item cache.ObjectName)
	NumRequeues(item cache.ObjectName) int
	Len() int
	Get() (item cache.ObjectName, shutdown bool)
	Done(item cache.ObjectName)
	ShutDown()
	ShutDownWithDrain()
	ShuttingDown() bool
}

// observedQueue counts and logs the items that pass through a queue. It takes the place
// of the queue, because a controller needs only the methods.
type observedQueue struct {
	Queue
	log *slog.Logger

	mu     sync.Mutex
	counts counts
	items  map[cache.ObjectName]*history
}

// counts are the numbers of an observedQueue.
type counts struct {
	adds     int // calls of Add while the queue was open
	retries  int // calls of AddRateLimited while the queue was open
	handOuts int // items returned by Get
	readds   int // hand-outs during which the same item was added again
	overlaps int // hand-outs of an item that a worker held; the queue promises none
	attempts int // most failures of one item in a row
	backoff  time.Duration
}

// merged is how many adds and retries needed no hand-out of their own.
func (c counts) merged() int { return c.adds + c.retries - c.handOuts }

// history is the record of an item since its last hand-out.
type history struct {
	added    chan struct{} // closed after the first Add
	adds     int
	inFlight bool
	readded  bool      // added while in flight
	failed   time.Time // time of the last AddRateLimited, or zero
}

// An Observer is the queue that [Run] gives to a [Serve]. A controller whose worker loop
// needs another queue type adds to the Observer, and calls the Record methods for all
// other events.
type Observer interface {
	Queue
	RecordHandOut(item cache.ObjectName)
	RecordDone(item cache.ObjectName)
	RecordRetry(item cache.ObjectName)
}

func observe(q Queue, log *slog.Logger) *observedQueue {
	return &observedQueue{Queue: q, log: log, items: make(map[cache.ObjectName]*history)}
}

// Add, AddRateLimited and Done record before they call the queue, and Get records after.
// In the reverse order, another worker could receive the item before the record of its
// add.

func (q *observedQueue) Add(item cache.ObjectName) {
	if !q.ShuttingDown() {
		q.recordAdd(item)
	}
	q.Queue.Add(item)
	q.announce(item)
}

func (q *observedQueue) AddRateLimited(item cache.ObjectName) {
	if !q.ShuttingDown() {
		q.RecordRetry(item)
	}
	q.Queue.AddRateLimited(item)
}

func (q *observedQueue) Get() (cache.ObjectName, bool) {
	item, shutdown := q.Queue.Get()
	if !shutdown {
		q.RecordHandOut(item)
	}
	return item, shutdown
}

func (q *observedQueue) Done(item cache.ObjectName) {
	q.RecordDone(item)
	q.Queue.Done(item)
}

// awaitAdd returns after the first add of the item.
func (q *observedQueue) awaitAdd(ctx context.Context, item cache.ObjectName) error {
	q.mu.Lock()
	added := q.historyLocked(item).added
	q.mu.Unlock()
	select {
	case <-added:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *observedQueue) snapshot() counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts
}

func (q *observedQueue) recordAdd(item cache.ObjectName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.historyLocked(item)
	q.counts.adds++
	h.adds++
	if h.inFlight && !h.readded {
		h.readded = true
		q.counts.readds++
	}
}

// announce wakes awaitAdd after the item is in the queue. Before, the queue could be shut
// down without the item.
func (q *observedQueue) announce(item cache.ObjectName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.historyLocked(item)
	select {
	case <-h.added:
	default:
		close(h.added)
	}
}

func (q *observedQueue) RecordRetry(item cache.ObjectName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counts.retries++
	q.historyLocked(item).failed = time.Now()
}

func (q *observedQueue) RecordHandOut(item cache.ObjectName) {
	failures := q.NumRequeues(item)
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.historyLocked(item)
	attrs := []slog.Attr{slog.Any("key", item), slog.Int("adds", h.adds)}
	if h.inFlight {
		q.counts.overlaps++
	}
	if h.readded {
		attrs = append(attrs, slog.Bool("readded", true))
	}
	if !h.failed.IsZero() {
		waited := time.Since(h.failed)
		q.counts.backoff = max(q.counts.backoff, waited)
		q.counts.attempts = max(q.counts.attempts, failures)
		attrs = append(attrs, slog.Int("failures", failures), slog.Duration("backoff", waited.Round(100*time.Microsecond)))
	}
	q.log.LogAttrs(context.Background(), slog.LevelInfo, "handed out", attrs...)
	q.counts.handOuts++
	h.adds, h.readded, h.failed, h.inFlight = 0, false, time.Time{}, true
}

func (q *observedQueue) RecordDone(item cache.ObjectName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.historyLocked(item).inFlight = false
}

// historyLocked returns the record of an item, made on first use. The caller must hold
// q.mu.
func (q *observedQueue) historyLocked(item cache.ObjectName) *history {
	h, ok := q.items[item]
	if !ok {
		h = &history{added: make(chan struct{})}
		q.items[item] = h
	}
	return h
}
