package workqueue

import (
	"runtime"
	"sync/atomic"
	"time"
	"weak"
)

// A StateProvider is a [MetricsProvider] that reads the state of a queue when
// somebody asks for it, and is told only of what cannot be read afterwards. A
// queue that finds this interface uses none of the methods of MetricsProvider:
// it has no goroutine for its gauges, and what they say is exact at the time
// of the reading and agrees. [NewPrometheusProvider] returns one.
type StateProvider interface {
	MetricsProvider

	// NewQueueMetrics is called once for each named queue, at the end of its
	// construction. Layers of a queue that were constructed apart, one handed
	// to the next, are queues of their own here, which usually have one name.
	//
	// read returns the state of those layers, all of it at one instant. It may
	// be called at any time and from any goroutine, takes the locks of the
	// queue, and must not be called from a [Queue]. It takes time proportional
	// to the number of items in flight, and, if the queue has a [Queue] of its
	// own, some 3 ns for each item queued. It does not keep the queue in memory:
	// it reports false once the queue is gone.
	//
	// NewQueueMetrics and what it returns are called without a lock of the
	// queue held. For panics in them see [MetricsProvider].
	NewQueueMetrics(name string, layers QueueLayers, read func() (QueueStats, bool)) QueueMetrics
}

// QueueLayers says which of the fields of [QueueStats] and [QueueMetrics] are
// in use.
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

	Unfinished     time.Duration // for how long the held items have been so, added up
	LongestRunning time.Duration // for how long the one held longest has been
	// OldestItem is the time since the Add of the item at the head of the line,
	// and of all that are queued for a queue with a [Queue], whose order is
	// not known: there it shows what starves. It is 0 if nothing is queued.
	OldestItem time.Duration

	// Of LayerDelays.

	Waiting     int    // items that wait for their time
	Retries     uint64 // calls of AddAfter, including those of AddRateLimited
	RateLimited uint64 // calls of AddRateLimited
}

// QueueMetrics are what a [StateProvider] wants to be told. Fields may be nil.
type QueueMetrics struct {
	Latency      HistogramMetric // of LayerFIFO: seconds from Add to Get
	WorkDuration HistogramMetric // of LayerFIFO: seconds from Get to Done
	Lateness     HistogramMetric // of LayerDelays: seconds from due to queued

	// End is called once: by the shutdown, at the end of a drain if it has one,
	// or some time after the queue was garbage collected without. What is
	// handed out after a shutdown is still observed.
	End func(Abandoned)
}

// Abandoned is how many items a queue had when it ended: those that it was not
// drained of, and all that waited for their time. Workers may still finish
// what is queued or in flight then; the queue no longer vouches for it.
type Abandoned struct {
	Queued, InFlight, Waiting int
}

// stateProviderFor is providerFor, if that is a StateProvider.
func stateProviderFor(name string, configured MetricsProvider) StateProvider {
	p, _ := providerFor(name, configured).(StateProvider)
	return p
}

// A link ties a queue to the StateProvider that reads it. A queue that nobody
// reads has nil.
type link struct {
	QueueMetrics
	ended atomic.Bool
}

// newLink lets the provider read a queue for as long as that lives. The
// provider gets a weak pointer: a strong one would keep for ever what a program
// has dropped without a shutdown.
func newLink[Q any](p StateProvider, name string, layers QueueLayers, q *Q, stats func(*Q) QueueStats) *link {
	queue := weak.Make(q)
	l := &link{QueueMetrics: p.NewQueueMetrics(name, layers, func() (QueueStats, bool) {
		if q := queue.Value(); q != nil {
			return stats(q), true
		}
		return QueueStats{}, false
	})}
	runtime.AddCleanup(q, func(l *link) { l.end(Abandoned{}) }, l)
	return l
}

// end tells the provider, the first time that it is called: a flag, and
// not a sync.Once, in which an End that shuts the queue down would wait for
// itself.
func (l *link) end(left Abandoned) {
	if l != nil && !l.ended.Swap(true) && l.End != nil {
		l.End(left)
	}
}

// stats returns the state of the queue.
func (q *Typed[T]) stats() QueueStats {
	now := q.metrics.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.statsLocked(now)
}

func (q *Typed[T]) statsLocked(now time.Duration) QueueStats {
	s := QueueStats{
		Depth:      q.line.len() - q.holes + q.stored,
		InFlight:   len(q.held),
		Adds:       q.adds,
		Duplicates: q.duplicates,
		OldestItem: q.oldestLocked(now),
	}
	for _, i := range q.held {
		if q.items.records.at(i).state == reprocess {
			s.Depth++
		}
		held := max(0, now-q.stamps.at(i).started)
		s.Unfinished += held
		s.LongestRunning = max(s.LongestRunning, held)
	}
	return s
}

// oldestLocked returns the age of the item at the head of the line. What a
// storage holds is found by a look at every record: at which place of the
// storage's order the oldest is, is nothing that it could tell.
func (q *Typed[T]) oldestLocked(now time.Duration) (age time.Duration) {
	if q.line.len() > 0 {
		age = max(0, now-q.stamps.at(*q.line.at(q.line.head)).added)
	}
	if q.stored == 0 {
		return age
	}
	for i := range uint32(q.items.records.n) {
		if q.items.records.at(i).state == inStorage {
			age = max(age, now-q.stamps.at(i).added)
		}
	}
	return age
}

// retire tells the provider that reads the queue, if there is one, that it has
// ended.
func (q *Typed[T]) retire() {
	if q.metrics != nil && q.metrics.link != nil {
		q.metrics.link.end(q.left())
	}
}

func (q *Typed[T]) left() Abandoned {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Abandoned{Queued: q.line.len() - q.holes + q.stored, InFlight: len(q.held)}
}
