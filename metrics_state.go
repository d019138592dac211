package workqueue

import (
	"runtime"
	"sync/atomic"
	"time"
	"weak"
)

// A StateProvider is a [MetricsProvider] that reads the state of a queue when
// somebody asks for it, instead of being told of each change. A queue that
// finds this interface uses none of the methods of MetricsProvider. It then
// has no goroutine for its gauges, calls no foreign code when an item passes,
// and what is read is exact and agrees with itself. [NewPrometheusProvider]
// returns one.
type StateProvider interface {
	MetricsProvider

	// NewQueueMetrics is called once for each named queue, at the end of its
	// construction. Layers of a queue that were constructed apart, one handed
	// to the next, are queues of their own here, which usually have one name.
	//
	// read returns the state of those layers, all of it at one instant. It may
	// be called at any time and from any goroutine but a method of a [Queue],
	// and takes the locks of the queue. It takes time proportional to the
	// number of items in flight, and, if the queue has a [Queue] of its own,
	// some 4 ns for each item queued. It does not keep the queue in memory, and
	// reports false once that is gone.
	//
	// NewQueueMetrics and End are called without a lock of the queue held.
	NewQueueMetrics(name string, layers QueueLayers, read func() (QueueStats, bool)) QueueMetrics
}

// QueueLayers says which of the fields of [QueueStats] are in use.
type QueueLayers uint8

// The layers of a queue.
const (
	LayerFIFO   QueueLayers = 1 << iota // a Typed
	LayerDelays                         // a TypedDelaying, with what is above it
)

// QueueStats is the state of a queue and what it has counted. The zero value is
// that of a new queue.
type QueueStats struct {
	// Of LayerFIFO.

	Depth      int    // items that are queued, or held and marked for another run
	InFlight   int    // items that are held by workers
	Adds       uint64 // Adds that were not duplicates
	Duplicates uint64 // Adds that were, and so changed nothing

	// DepthByGroup has the 25 deepest groups, the deepest first, and behind them all
	// others as one. It is nil if the order of the queue is not that of
	// [NewFairQueue], or of [NewPriorityQueue] with such orders within, whose groups of
	// one name are added up. To read it takes some 30 ns more for each group, and 200
	// where they are added up.
	DepthByGroup []GroupDepth

	Unfinished     time.Duration // for how long the held items have been so, added up
	LongestRunning time.Duration // for how long the one held longest has been
	// OldestItem is the time since the Add of the item at the head of the line,
	// and of all that are queued for a queue with a [Queue], whose order is
	// not known: there it shows what starves. With an order of [NewPriorityQueue]
	// it is the greatest of Levels. It is 0 if nothing is queued.
	OldestItem time.Duration

	// Levels are the priorities that have been in use, if the order of the queue is of
	// [NewPriorityQueue], or one of [NewFairQueue] with such orders within. There are 26
	// at most: the first 25 have one each, and the last one, if there are more, all others
	// together. To read them takes some 10 ns for each queued item unless the order is
	// of NewPriorityQueue without Within.
	Levels []LevelStats

	Latency      Histogram // from Add to Get
	WorkDuration Histogram // from Get to Done

	// Of LayerDelays.

	Waiting     int    // items that wait for their time
	Retries     uint64 // calls of AddAfter, including those of AddRateLimited
	RateLimited uint64 // calls of AddRateLimited

	Lateness     Histogram // from when an item was due until it was queued
	LimiterDelay Histogram // what the rate limiter has said, for each AddRateLimited

	// Results counts the items that workers of [Run] have handled, by outcome. It is
	// nil as long as no Run was called for the queue.
	Results map[Outcome]uint64
}

// LevelStats is the state of the items of one priority. It is the 0 of all if there are
// none at the moment.
type LevelStats struct {
	Priority int
	Others   bool // all priorities that have none for themselves; Priority means nothing
	Depth    int  // items that are queued, or held and marked for another run
	// OldestItem is the time since the Add of the one that is queued for longest.
	OldestItem time.Duration
}

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
