package workqueue

import (
	"runtime"
	"sync/atomic"
	"time"
	"weak"

	"github.com/seed16c08ea7/workqueue/internal/histogram"
)

// This file is the state mode: what a queue counts, and how a StateProvider reads the queue.

// QueueStats is the state of a queue and what it has counted. The zero value is
// that of a new queue.
type QueueStats struct {
	// Of LayerFIFO.

	Depth      int    // items that are queued, or held and marked for another run
	InFlight   int    // items that are held by workers
	Adds       uint64 // Adds that were not duplicates
	Duplicates uint64 // Adds that were, and so changed nothing

	// DepthByGroup has the 25 deepest groups of the [Order], the deepest first, and behind
	// them all others as one. Groups are looked at some thousands at a time, so that the lock
	// is not held for long; while the queue is busy, a group may be missed or counted twice.
	DepthByGroup []GroupDepth

	Unfinished     time.Duration // for how long the held items have been so, added up
	LongestRunning time.Duration // for how long the one held longest has been
	// OldestItem is the time since the Add of the item at the head of the line. If there are
	// Levels, OldestItem is the greatest of theirs. For a queue with a [Queue], whose order
	// is not known, it is that of all queued items. It is 0 if nothing is queued.
	OldestItem time.Duration

	// Levels are the priorities that have been in use, nil as long as no add has named a
	// priority and the [Order] has none. There are 26 at most: the first 25 have one each,
	// and the last one, if there are more, all others together.
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

// LevelStats is the state of the items of one priority. Depth and OldestItem are 0 while no
// item has the priority.
type LevelStats struct {
	Priority int
	Others   bool // all priorities that have none for themselves; Priority means nothing
	Depth    int  // items that are queued, or held and marked for another run
	// OldestItem is the longest time since the Add of an item that is the first one of its
	// priority, and of its group. An item that was raised behind younger ones may be older.
	OldestItem time.Duration
}

// GroupDepth is what a group of an [Order] has, or all groups together that are not named.
type GroupDepth struct {
	Group    string
	Others   bool // several groups that are not named
	Groups   int  // how many groups, 1 for a named one
	Queued   int  // items
	InFlight int  // items that workers hold; 0 without MaxInFlight
}

// maxNamed is how many groups, or priorities, a reader of metrics is told of by name: a label
// with a value for each tenant of a cluster would bring a metrics store down.
const maxNamed = 25

// Histogram says how many durations of each length were observed.
type Histogram struct {
	Count uint64
	Sum   float64 // seconds
	// Buckets[i] counts the durations up to bound i of QueueMetrics and above the
	// bound before it. One more element counts those above all bounds.
	Buckets []uint64
	// Zero counts the durations that were 0, and Exponential[k] those up to
	// 2^(k/8) seconds and above 2^((k-1)/8).
	Zero        uint64
	Exponential map[int]int64
}

// A providerLink ties a queue to the StateProvider that reads the queue. A queue that nobody
// reads has nil.
type providerLink struct {
	end   func(Abandoned) // may be nil
	ended atomic.Bool
}

// newLink lets the provider read a queue for as long as the queue lives. The
// provider gets a weak pointer: a strong one would keep for ever what a program
// has dropped without a shutdown.
func newLink[Q any](p StateProvider, name string, layers QueueLayers, q *Q, stats func(*Q) QueueStats) (*providerLink, []float64) {
	queue := weak.Make(q)
	m := p.NewQueue(QueueSource{Name: name, Layers: layers, Read: func() (QueueStats, bool) {
		if q := queue.Value(); q != nil {
			return stats(q), true
		}
		return QueueStats{}, false
	}})
	l := &providerLink{end: m.End}
	runtime.AddCleanup(q, func(l *providerLink) { l.cut(Abandoned{}) }, l)
	return l, m.Buckets
}

// cut tells the provider of the end, once. It uses a flag and no sync.Once: an End that
// shuts the queue down again would wait for itself in a sync.Once.
func (l *providerLink) cut(left Abandoned) {
	if !l.ended.Swap(true) && l.end != nil {
		l.end(left)
	}
}

// durations are what a FIFO observes for the provider that reads it.
type durations struct {
	queued, held histogram.Histogram
}

// observeDurations makes the queue observe durations. It takes the lock, although the
// queue is new: the provider may read the queue already.
func (q *Typed[T]) observeDurations(bounds []float64) {
	d := &durations{queued: histogram.New(bounds), held: histogram.New(bounds)}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.durations = d
}

// stats returns the state of the queue.
func (q *Typed[T]) stats() QueueStats {
	now := q.metrics.now()
	s := q.statsOf(now)
	q.addBreakdown(&s, now)
	return s
}

// statsOf returns what has no part for each lane. It takes time in proportion to the held
// items, and with a storage to all items. The clock was read before the lock is taken.
func (q *Typed[T]) statsOf(now time.Duration) QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := QueueStats{
		Levels:     q.fifo.levels(),
		Depth:      q.fifo.len() + q.fifo.heldAgain(),
		InFlight:   len(q.fifo.held),
		Adds:       q.adds,
		Duplicates: q.duplicates,
		OldestItem: q.fifo.oldest(now),
	}
	s.Unfinished, s.LongestRunning = q.fifo.inFlight(now)
	if q.durations != nil {
		s.Latency = Histogram(q.durations.queued.Read())
		s.WorkDuration = Histogram(q.durations.held.Read())
	}
	return s
}

// addBreakdown adds what takes a look at each lane and each group. There can be as many of
// them as items. So it gives the lock back now and then, unlike what stats counts, which is
// of one instant.
func (q *Typed[T]) addBreakdown(s *QueueStats, now time.Duration) {
	v := survey{now: now, levels: s.Levels}
	for !q.survey(&v) {
	}
	s.Levels, s.DepthByGroup = v.levels, v.groups.all()
	for _, l := range s.Levels {
		s.OldestItem = max(s.OldestItem, l.OldestItem)
	}
}

func (q *Typed[T]) survey(v *survey) (over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.survey(v)
}

// retire tells the provider that reads the queue, if there is one, that the queue has
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

// delayMetrics are what a delaying queue, and the rate limiting queue above it, count for the
// provider that reads them. A provider that is told of changes gets only the retries.
type delayMetrics struct {
	link    *providerLink
	layers  QueueLayers
	retries tally
	limited tally
	results atomic.Pointer[resultCounts]     // nil until a Run counts
	limits  atomic.Pointer[histogram.Locked] // what the limiter has said; nil until the limiter was asked

	// Guarded by the lock of the queue.

	lateness  histogram.Histogram
	abandoned int // items that waited when the queue was closed
}

// A tally is a counter that is read, and can stand in for a [CounterMetric], so that callers
// need not know who counts. It is atomic because AddAfter counts before it takes a lock.
type tally struct{ n atomic.Int64 }

func (t *tally) Inc() { t.n.Add(1) }

func (t *tally) value() uint64 { return uint64(t.n.Load()) }

// attach lets the provider read the queue and, if it is the delaying queue's
// own, the FIFO below. Both are then read in one critical section: an item that
// becomes due is in exactly one of the two layers.
//
// The provider may read as soon as newLink has called it. So metrics is set before
// newLink, and the histogram, whose bounds newLink returns, with the lock held.
func (q *TypedDelaying[T]) attach(p StateProvider, name string, own bool) {
	m := &delayMetrics{layers: LayerDelays}
	if own {
		m.layers |= LayerFIFO
	}
	q.metrics = m
	q.retries = &m.retries
	l, bounds := newLink(p, name, m.layers, q, (*TypedDelaying[T]).stats)
	m.link = l
	if own {
		q.typed.observeDurations(bounds)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	m.lateness = histogram.New(bounds)
}

// observeLateness counts by how much an item was late. It is called with the lock of
// the queue held.
func (m *delayMetrics) observeLateness(late time.Duration) {
	if m != nil {
		m.lateness.Observe(late)
	}
}

// observeLimit counts a call of AddRateLimited and the delay that the limiter has said. The
// histogram is made for the first one: a queue at rest does without its 250 bytes.
func (m *delayMetrics) observeLimit(delay time.Duration) {
	m.limited.Inc()
	h := m.limits.Load()
	if h == nil {
		m.limits.CompareAndSwap(nil, histogram.NewLocked(&m.lateness))
		h = m.limits.Load()
	}
	h.Observe(delay)
}

// resultCounts count what came of the items that a Run has handled. nil counts nothing.
type resultCounts [outcomes]tally

func (c *resultCounts) count(outcome Outcome) {
	if c != nil {
		c[outcome].Inc()
	}
}

// forRun returns what a Run counts its results with. The first Run makes the counters, and
// the provider finds them from then on.
func (m *delayMetrics) forRun() *resultCounts {
	if m == nil {
		return nil
	}
	m.results.CompareAndSwap(nil, new(resultCounts))
	return m.results.Load()
}

// stats returns the state of the queue.
func (q *TypedDelaying[T]) stats() QueueStats {
	if q.metrics.layers&LayerFIFO == 0 {
		return q.statsOf(nil, 0)
	}
	now := q.typed.metrics.now() // Foreign code, perhaps, and so without a lock.
	s := q.statsOf(q.typed, now)
	q.typed.addBreakdown(&s, now)
	return s
}

// statsOf returns the stats of one instant, with those of the FIFO unless that is nil. Lock
// order: this queue, the FIFO.
//
// Both are held at once so that the sums agree: between two sections an item could
// become due, and would be in Waiting and in Depth, or in neither.
func (q *TypedDelaying[T]) statsOf(typed *Typed[T], now time.Duration) (s QueueStats) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if typed != nil {
		s = typed.statsOf(now)
	}
	s.Waiting = q.agenda.len()
	q.metrics.readInto(&s)
	return s
}

// readInto sets what the queue has counted. The lock of the queue is held, for lateness.
func (m *delayMetrics) readInto(s *QueueStats) {
	s.Retries = m.retries.value()
	s.RateLimited = m.limited.value()
	s.Lateness = Histogram(m.lateness.Read())
	if h := m.limits.Load(); h != nil {
		s.LimiterDelay = Histogram(h.Read())
	}
	if counts := m.results.Load(); counts != nil {
		s.Results = make(map[Outcome]uint64, outcomes)
		for i := range counts {
			s.Results[Outcome(i)] = counts[i].value()
		}
	}
}

// retire tells the provider that the queue has ended and what it has left. It does so
// for the FIFO below too, if that is read through this queue and has no link of its
// own. The provider is foreign code, and so is called without a lock.
func (q *TypedDelaying[T]) retire() {
	if q.metrics == nil {
		return
	}
	var left Abandoned
	if q.metrics.layers&LayerFIFO != 0 {
		left = q.typed.abandoned()
	}
	q.mu.Lock()
	left.Waiting = q.metrics.abandoned
	q.mu.Unlock()
	q.metrics.link.cut(left)
}

// dropLocked drops the waiting items, as the queue is shut down. Their number is
// kept for retire, and the items for those who asked for them by keepDropped.
func (q *TypedDelaying[T]) dropLocked(now time.Duration) {
	if q.keepers > 0 && q.dropped == nil && q.agenda.len() > 0 {
		q.dropped = &leftover[T]{agenda: q.agenda, now: now, epoch: q.epoch}
	}
	if q.metrics != nil {
		q.metrics.abandoned += q.agenda.len()
	}
	q.agenda.clear()
}
