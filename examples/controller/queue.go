package main

import (
	"context"
	"log/slog"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue"
)

// A queue holds names, not objects. Two changes of an object become one item, and the
// worker reads the newest state from the cache.
type queue = workqueue.TypedRateLimiting[cache.ObjectName]

// A countedQueue counts the keys that pass through a queue. workqueue.Run calls GetInfo and Done
// of a type that embeds a queue.
type countedQueue struct {
	*queue
	log *slog.Logger

	mu     sync.Mutex
	counts counts                    // guarded by mu
	added  map[cache.ObjectName]bool // guarded by mu
	held   map[cache.ObjectName]bool // guarded by mu
}

// counts are the numbers of a countedQueue.
type counts struct {
	adds     int // while the queue was open
	handOuts int
	overlaps int // hand-outs of a key that a worker held; the queue promises none
	failures int // most failures of one key in a row
}

func newCountedQueue(q *queue, log *slog.Logger) *countedQueue {
	return &countedQueue{queue: q, log: log, added: make(map[cache.ObjectName]bool), held: make(map[cache.ObjectName]bool)}
}

// Add adds a key.
func (q *countedQueue) Add(key cache.ObjectName) {
	open := !q.ShuttingDown()
	q.queue.Add(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.added[key] = true; open {
		q.counts.adds++
	}
}

// wasAdded reports whether the key is in the queue, or was there.
func (q *countedQueue) wasAdded(key cache.ObjectName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.added[key]
}

// GetInfo hands out a key.
func (q *countedQueue) GetInfo(ctx context.Context) (workqueue.ItemInfo[cache.ObjectName], error) {
	info, err := q.queue.GetInfo(ctx)
	if err == nil {
		q.handOut(info.Item)
	}
	return info, err
}

func (q *countedQueue) handOut(key cache.ObjectName) {
	failures := q.NumRequeues(key)
	q.log.Info("handed out", "key", key, "failures", failures)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counts.handOuts++
	q.counts.failures = max(q.counts.failures, failures)
	if q.held[key] {
		q.counts.overlaps++
	}
	q.held[key] = true
}

// Done ends a hand-out. After the Done of the queue, another worker could have the key before the
// record says so.
func (q *countedQueue) Done(key cache.ObjectName) {
	q.mu.Lock()
	delete(q.held, key)
	q.mu.Unlock()
	q.queue.Done(key)
}

func (q *countedQueue) snapshot() counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts
}
