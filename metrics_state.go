package workqueue

import (
	"maps"
	"runtime"
	"slices"
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

	Unfinished     time.Duration // for how long the held items have been so, added up
	LongestRunning time.Duration // for how long the one held longest has been
	// OldestItem is the time since the Add of the item at the head of the line. With priorities
	// it is the greatest OldestItem of ByPriority. A queue with a [Queue], whose order is not
	// known, has the time of the oldest of all queued items. OldestItem is 0 if no item is
	// queued.
	OldestItem time.Duration

	// ByPriority has the first 25 priorities that came into use, and then all others as one
	// part. ByPriority is nil until an item gets a priority, unless the [Order] has Group or
	// OldestEvery.
	ByPriority []PartStats[int]

	// ByGroup has the 25 deepest groups of the [Order], the deepest first, and then all others
	// as one part. A queue looks at some thousands of groups at a time, to hold the lock for a
	// short time only. While the queue is busy, a number here can be a little out of date.
	ByGroup []PartStats[string]

	Latency      DurationStats // from Add to Get
	WorkDuration DurationStats // from Get to Done

	// Of LayerDelays.

	Waiting     int    // items that wait for their time
	Retries     uint64 // calls of AddAfter, including those of AddRateLimited
	RateLimited uint64 // calls of AddRateLimited

	Lateness     DurationStats // from when an item was due until it was queued
	LimiterDelay DurationStats // what the rate limiter has said, for each AddRateLimited

	// Results counts the items that workers of [Run] have handled, by outcome. It is
	// nil as long as no Run was called for the queue.
	Results map[Outcome]uint64
}

// PartStats is the state of the items of one priority, or of one group of an [Order].
type PartStats[K comparable] struct {
	Key      K    // the priority, or the name of the group
	Others   bool // the part is all priorities, or groups, that have no part of their own; Key means nothing
	Depth    int  // items that are queued, or held and marked for another run
	InFlight int  // items that are held by workers

	// OldestItem is the longest time since the Add of an item that is the first one of its
	// priority and group. An item that was raised behind younger ones may be older.
	OldestItem time.Duration
}

// maxNamed is how many priorities, or groups, have a part of their own. They become values of
// labels, and a label with a value for each tenant of a cluster would bring a metrics store
// down.
const maxNamed = 25

// DurationStats says how many durations of each length were observed.
type DurationStats struct {
	Count uint64
	Sum   float64 // seconds
	// Buckets[i] counts the durations up to bound i of QueueMetrics and above the
	// bound before it. One more element counts those above all bounds.
	Buckets []uint64
	// Zero counts the durations of 0. Exponential[k] counts the durations above
	// 2^((k-1)/2^DurationSchema) seconds, up to 2^(k/2^DurationSchema) seconds.
	Zero        uint64
	Exponential map[int]uint64
}

// DurationSchema says how fine the exponential buckets of [DurationStats] are: a power of two
// has 2^DurationSchema of them. Prometheus calls the number schema, OpenTelemetry scale.
const DurationSchema = 3

// Merge adds the stats of another queue, for the stats of several queues as one. Numbers are
// added up. Of LongestRunning and of OldestItem, the greater one counts. Of the priorities the
// first 25 keep a part of their own, of the groups the deepest 25.
//
// The durations of both queues must have been counted by the same Buckets of [QueueMetrics].
func (s *QueueStats) Merge(other QueueStats) {
	s.Depth += other.Depth
	s.InFlight += other.InFlight
	s.Adds += other.Adds
	s.Duplicates += other.Duplicates
	s.Unfinished += other.Unfinished
	s.LongestRunning = max(s.LongestRunning, other.LongestRunning)
	s.OldestItem = max(s.OldestItem, other.OldestItem)
	s.ByPriority = mergeParts(s.ByPriority, other.ByPriority, func(_, _ PartStats[int]) int { return 0 })
	s.ByGroup = mergeParts(s.ByGroup, other.ByGroup, func(a, b PartStats[string]) int { return b.Depth - a.Depth })
	s.Latency.merge(other.Latency)
	s.WorkDuration.merge(other.WorkDuration)
	s.Waiting += other.Waiting
	s.Retries += other.Retries
	s.RateLimited += other.RateLimited
	s.Lateness.merge(other.Lateness)
	s.LimiterDelay.merge(other.LimiterDelay)
	if other.Results != nil {
		sum := maps.Clone(other.Results)
		for outcome, n := range s.Results {
			sum[outcome] += n
		}
		s.Results = sum
	}
}

// merge adds the counts of another DurationStats. A copy of d keeps what it has.
func (d *DurationStats) merge(other DurationStats) {
	(*histogram.Counts)(d).Add(histogram.Counts(other))
}

// mergeParts returns the sums of parts with the same key, in the given order and then in the
// order of parts and more. The rest of more than maxNamed parts becomes one part.
func mergeParts[K comparable](parts, more []PartStats[K], order func(a, b PartStats[K]) int) []PartStats[K] {
	all := slices.Clone(parts)
	for _, m := range more {
		i := slices.IndexFunc(all, func(p PartStats[K]) bool { return p.Others == m.Others && (p.Others || p.Key == m.Key) })
		if i < 0 {
			all = append(all, m)
		} else {
			all[i].add(m)
		}
	}
	slices.SortStableFunc(all, func(a, b PartStats[K]) int {
		switch {
		case a.Others:
			return 1
		case b.Others:
			return -1
		}
		return order(a, b)
	})
	if len(all) > maxNamed {
		rest := PartStats[K]{Others: true}
		for _, p := range all[maxNamed:] {
			rest.add(p)
		}
		all = append(all[:maxNamed], rest)
	}
	return all
}

func (p *PartStats[K]) add(q PartStats[K]) {
	p.Depth += q.Depth
	p.InFlight += q.InFlight
	p.OldestItem = max(p.OldestItem, q.OldestItem)
}

// counted returns what outlives the queue: the numbers that only grow.
func (s QueueStats) counted() QueueStats {
	return QueueStats{
		Adds: s.Adds, Duplicates: s.Duplicates, Retries: s.Retries, RateLimited: s.RateLimited,
		Latency: s.Latency, WorkDuration: s.WorkDuration, Lateness: s.Lateness, LimiterDelay: s.LimiterDelay,
		Results: s.Results,
	}
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
		ByPriority: q.fifo.levels(),
		Depth:      q.fifo.len() + q.fifo.heldAgain(),
		InFlight:   len(q.fifo.held),
		Adds:       q.adds,
		Duplicates: q.duplicates,
		OldestItem: q.fifo.oldest(now),
	}
	s.Unfinished, s.LongestRunning = q.fifo.inFlight(now)
	if q.durations != nil {
		s.Latency = DurationStats(q.durations.queued.Read())
		s.WorkDuration = DurationStats(q.durations.held.Read())
	}
	return s
}

// addBreakdown adds the ages and the groups, for which it looks at each lane. There can be as
// many lanes as items. So addBreakdown gives the lock back now and then. All other stats are
// of one instant.
func (q *Typed[T]) addBreakdown(s *QueueStats, now time.Duration) {
	v := survey{now: now, levels: s.ByPriority}
	for !q.survey(&v) {
	}
	s.ByPriority, s.ByGroup = v.levels, v.groups.parts(s.Depth, s.InFlight)
	for _, p := range s.ByPriority {
		s.OldestItem = max(s.OldestItem, p.OldestItem)
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
	s.Lateness = DurationStats(m.lateness.Read())
	if h := m.limits.Load(); h != nil {
		s.LimiterDelay = DurationStats(h.Read())
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
