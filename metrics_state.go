package workqueue

import (
	"runtime"
	"sync/atomic"
	"time"
	"weak"
)

// QueueMetrics are what a [StateProvider] says to a queue.
type QueueMetrics struct {
	// Buckets are the bounds by which the histograms count, in seconds and in
	// increasing order.
	Buckets []float64

	// End is called once, if it is not nil: by the shutdown, after its drain if it has
	// one, or some time after the garbage collection of a queue that was not shut
	// down. Its panic reaches the caller of the shutdown. The queue stays shut down.
	End func(Abandoned)
}

// Abandoned is how many items a queue had when it ended: those that it was not drained
// of, and all that waited for their time. Workers may still finish them.
type Abandoned struct {
	Queued, InFlight, Waiting int
}

// A providerLink ties a queue to the StateProvider that reads it. A queue that nobody
// reads has nil.
type providerLink struct {
	end   func(Abandoned) // may be nil
	ended atomic.Bool
}

// newLink lets the provider read a queue for as long as that lives. The
// provider gets a weak pointer: a strong one would keep for ever what a program
// has dropped without a shutdown.
func newLink[Q any](p StateProvider, name string, layers QueueLayers, q *Q, stats func(*Q) QueueStats) (*providerLink, []float64) {
	queue := weak.Make(q)
	m := p.NewQueueMetrics(name, layers, func() (QueueStats, bool) {
		if q := queue.Value(); q != nil {
			return stats(q), true
		}
		return QueueStats{}, false
	})
	l := &providerLink{end: m.End}
	runtime.AddCleanup(q, func(l *providerLink) { l.cut(Abandoned{}) }, l)
	return l, m.Buckets
}

// cut tells the provider of the end, once. It uses a flag and no sync.Once: an End that
// shuts the queue down again would wait for itself in that.
func (l *providerLink) cut(left Abandoned) {
	if !l.ended.Swap(true) && l.end != nil {
		l.end(left)
	}
}

// durations are what a FIFO observes for the provider that reads it.
type durations struct {
	queued, held histogram
}

// observeDurations makes the queue observe durations. It takes the lock, although the
// queue is new: the provider may read it already.
func (q *Typed[T]) observeDurations(bounds []float64) {
	d := &durations{queued: newHistogram(bounds), held: newHistogram(bounds)}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.durations = d
}

// stats returns the state of the queue.
func (q *Typed[T]) stats() QueueStats {
	now := q.metrics.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.statsLocked(now)
}

// statsLocked takes time in proportion to the held items, and with a storage to all
// items. The clock was read before the lock was taken.
func (q *Typed[T]) statsLocked(now time.Duration) QueueStats {
	levels := q.fifo.levels(now)
	s := QueueStats{
		Levels:     levels,
		Depth:      q.fifo.len() + q.fifo.heldAgain(),
		InFlight:   len(q.fifo.held),
		Adds:       q.adds,
		Duplicates: q.duplicates,
		OldestItem: q.fifo.oldest(now, levels),
	}
	s.DepthByGroup = q.fifo.depthByGroup()
	s.Unfinished, s.LongestRunning = q.fifo.inFlight(now)
	if q.durations != nil {
		s.Latency = q.durations.queued.read()
		s.WorkDuration = q.durations.held.read()
	}
	return s
}

// retire tells the provider that reads the queue, if there is one, that it has
// ended.
func (q *Typed[T]) retire() {
	if q.metrics != nil && q.metrics.link != nil {
		q.metrics.link.cut(q.abandoned())
	}
}

// abandoned returns what the queue holds at its end.
func (q *Typed[T]) abandoned() Abandoned {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Abandoned{Queued: q.fifo.len(), InFlight: len(q.fifo.held)}
}
