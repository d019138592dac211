package embedded

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue"
)

// RateLimiting is the queue of a controller.
type RateLimiting = workqueue.TypedRateLimiting[cache.ObjectName]

// A Queue counts and logs the items that pass through a queue. workqueue.Run calls GetInfo
// and Done of a type that embeds a queue.
type Queue struct {
	*RateLimiting
	log *slog.Logger

	mu     sync.Mutex
	counts counts
	items  map[cache.ObjectName]*history
}

// counts are the numbers of a Queue.
type counts struct {
	adds     int // calls of Add while the queue was open
	retries  int // hand-outs that ended with a failure, so a retry was planned
	handOuts int
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
	failures int       // in a row, after the last hand-out
	done     time.Time // of the last hand-out
}

func observe(q *RateLimiting, log *slog.Logger) *Queue {
	return &Queue{RateLimiting: q, log: log, items: make(map[cache.ObjectName]*history)}
}

// Add and Done record before they call the queue, and GetInfo records after. In the
// reverse order, another worker could receive the item before the record of its add.

// Add adds an item.
func (q *Queue) Add(item cache.ObjectName) {
	if !q.ShuttingDown() {
		q.recordAdd(item)
	}
	q.RateLimiting.Add(item)
	q.announce(item)
}

// GetInfo hands out an item.
func (q *Queue) GetInfo(ctx context.Context) (workqueue.ItemInfo[cache.ObjectName], error) {
	info, err := q.RateLimiting.GetInfo(ctx)
	if err == nil {
		q.recordHandOut(info.Item)
	}
	return info, err
}

// Done ends a hand-out. Run has decided before whether the item has failed.
func (q *Queue) Done(item cache.ObjectName) {
	q.recordDone(item)
	q.RateLimiting.Done(item)
}

// awaitAdd returns after the first add of the item.
func (q *Queue) awaitAdd(ctx context.Context, item cache.ObjectName) error {
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

func (q *Queue) snapshot() counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts
}

func (q *Queue) recordAdd(item cache.ObjectName) {
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
func (q *Queue) announce(item cache.ObjectName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.historyLocked(item)
	select {
	case <-h.added:
	default:
		close(h.added)
	}
}

func (q *Queue) recordHandOut(item cache.ObjectName) {
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
	if h.failures > 0 {
		waited := time.Since(h.done)
		q.counts.backoff = max(q.counts.backoff, waited)
		q.counts.attempts = max(q.counts.attempts, h.failures)
		attrs = append(attrs, slog.Int("failures", h.failures), slog.Duration("backoff", waited.Round(100*time.Microsecond)))
	}
	q.log.LogAttrs(context.Background(), slog.LevelInfo, "handed out", attrs...)
	q.counts.handOuts++
	h.adds, h.readded, h.inFlight = 0, false, true
}

func (q *Queue) recordDone(item cache.ObjectName) {
	failures := q.NumRequeues(item)
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.historyLocked(item)
	if failures > h.failures {
		q.counts.retries++
	}
	h.failures, h.done, h.inFlight = failures, time.Now(), false
}

// historyLocked returns the record of an item, made on first use. The caller must hold
// q.mu.
func (q *Queue) historyLocked(item cache.ObjectName) *history {
	h, ok := q.items[item]
	if !ok {
		h = &history{added: make(chan struct{})}
		q.items[item] = h
	}
	return h
}
