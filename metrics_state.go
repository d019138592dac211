package workqueue

import (
	"encoding/json"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"weak"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/histogram"
)

// This file is the state mode: what a queue counts, and how a StateProvider reads the queue.

// QueueStats is the state of a queue, with its counts. The zero value is the state of a new
// queue.
type QueueStats struct {
	// Of LayerQueue.

	Depth    int `json:"depth"`     // queued items, and held items marked for another run
	InFlight int `json:"in_flight"` // items held by workers
	// Workers is how many goroutines wait in Get, GetContext or GetInfo, or as a worker of [Run], and
	// how many items are in flight, added up: the number of workers, if each worker holds one item at
	// a time. A worker that holds several items counts several times. A worker that takes items by
	// TryGet counts while it holds an item.
	Workers    int    `json:"workers"`
	Adds       uint64 `json:"adds"`       // Adds without the duplicates
	Duplicates uint64 `json:"duplicates"` // Adds without effect: the item was queued, or held and marked

	Unfinished     time.Duration `json:"-"` // for how long the held items have been held, added up
	LongestRunning time.Duration `json:"-"` // the longest of these times
	// OldestItem is the time since the Add of the item at the head of the line. With priorities,
	// OldestItem is the greatest OldestItem of ByPriority. The order of a [Queue] is unknown: there
	// OldestItem is the time since the Add of the oldest queued item. OldestItem is 0 if no item
	// is queued.
	OldestItem time.Duration `json:"-"`

	// Paced adds up the times in which the queue had an item and Pace no token. After a TryGet without a
	// token the time counts until the next look, for 100 ms at most.
	Paced time.Duration `json:"-"`

	// Paused is true if the limiter of Pace has a limit or a burst of 0, and no token is left: nothing is
	// handed out until the program calls SetLimit or SetBurst.
	Paused bool `json:"paused,omitzero"`

	// Pace is the limit and the burst of the Pace, and the zero value without a Pace.
	Pace PaceStats `json:"pace,omitzero"`

	// Pushed is true if a [MetricsProvider] that is no [StateProvider] is told of each change. The queue
	// then counts nothing itself, as without a provider.
	Pushed bool `json:"pushed,omitzero"`

	// ByPriority has the first 25 priorities in use, and then all others as a single part.
	// ByPriority is nil until an item gets a priority, unless the [Order] has Group or
	// OldestEvery.
	ByPriority []PartStats[int] `json:"by_priority,omitempty"`

	// ByGroup has the 25 deepest groups of the [Order], the deepest first, and then all others
	// as a single part. A queue looks at some thousands of groups at a time, to hold the lock for
	// a short time only. While the queue is busy, a number here can be a little out of date.
	ByGroup []PartStats[string] `json:"by_group,omitempty"`

	Latency      DurationStats `json:"latency"`       // from Add to Get
	WorkDuration DurationStats `json:"work_duration"` // from Get to Done

	// Of LayerDelays.

	Waiting     int    `json:"waiting"`      // items waiting for their time
	Retries     uint64 `json:"retries"`      // see [MetricsProvider].NewRetriesMetric
	RateLimited uint64 `json:"rate_limited"` // waits that the limiter has named, also if After of AddOptions was earlier

	Lateness   DurationStats `json:"lateness"`    // from when an item was due until it was queued
	RetryDelay DurationStats `json:"retry_delay"` // what the limiter has said, or the After of AddOptions if that is earlier, or a RetryAfter of Run

	// Results counts the items handled by workers of [Run], by outcome, and what CountResult was told. Results is
	// nil until Run or CountResult is called for the queue.
	Results map[Outcome]uint64 `json:"results,omitempty"`
}

// plainStats are QueueStats without methods. Their JSON lacks the durations.
type plainStats QueueStats

// statsJSON is the JSON of QueueStats.
type statsJSON struct {
	plainStats
	Unfinished     seconds `json:"unfinished_seconds"`
	LongestRunning seconds `json:"longest_running_seconds"`
	OldestItem     seconds `json:"oldest_item_seconds"`
	Paced          seconds `json:"paced_seconds"`
}

// MarshalJSON returns the stats with names in snake case, and all durations in seconds.
func (s QueueStats) MarshalJSON() ([]byte, error) {
	return json.Marshal(statsJSON{plainStats(s), seconds(s.Unfinished), seconds(s.LongestRunning), seconds(s.OldestItem), seconds(s.Paced)})
}

// UnmarshalJSON reads what MarshalJSON has written. A field that the text lacks becomes zero. The text null, and one
// that cannot be read, change nothing.
func (s *QueueStats) UnmarshalJSON(text []byte) error {
	var j statsJSON
	if err := json.Unmarshal(text, &j); err != nil || isNull(text) {
		return err
	}
	*s = QueueStats(j.plainStats)
	s.Unfinished, s.LongestRunning = time.Duration(j.Unfinished), time.Duration(j.LongestRunning)
	s.OldestItem, s.Paced = time.Duration(j.OldestItem), time.Duration(j.Paced)
	return nil
}

// PartStats is the state of the items of one priority, or of one group of an [Order].
type PartStats[K comparable] struct {
	Key      K    `json:"key"`             // the priority, or the name of the group
	Others   bool `json:"others,omitzero"` // the part is all priorities, or groups, without a part of their own; Key means nothing
	Depth    int  `json:"depth"`           // queued items, and held items marked for another run
	InFlight int  `json:"in_flight"`       // items held by workers
	// HeldBack is true if MaxInFlight of the group is negative: none of its items is handed out. It is
	// true for the part of the others if one of these groups is held back.
	HeldBack bool `json:"held_back,omitzero"`

	// OldestItem is the longest time since the Add of an item at the head of its priority and
	// group. An item raised behind younger items may be older.
	OldestItem time.Duration `json:"-"`
}

// plainPart is a PartStats without methods. Its JSON lacks OldestItem.
type plainPart[K comparable] PartStats[K]

// partJSON is the JSON of a PartStats.
type partJSON[K comparable] struct {
	plainPart[K]
	OldestItem seconds `json:"oldest_item_seconds"`
}

// MarshalJSON returns the part with names in snake case, and OldestItem in seconds.
func (p PartStats[K]) MarshalJSON() ([]byte, error) {
	return json.Marshal(partJSON[K]{plainPart[K](p), seconds(p.OldestItem)})
}

// UnmarshalJSON is like that of QueueStats.
func (p *PartStats[K]) UnmarshalJSON(text []byte) error {
	var j partJSON[K]
	if err := json.Unmarshal(text, &j); err != nil || isNull(text) {
		return err
	}
	*p = PartStats[K](j.plainPart)
	p.OldestItem = time.Duration(j.OldestItem)
	return nil
}

// DurationStats says how many durations of each length were observed.
type DurationStats struct {
	Count uint64  `json:"count"`
	Sum   float64 `json:"sum_seconds"`
	// Buckets[i] counts the durations up to bound i of QueueMetrics and above the
	// bound before. The last element counts the durations above all bounds.
	Buckets []uint64 `json:"buckets,omitempty"`
	// Zero counts the durations of 0. Exponential[k] counts the durations above
	// 2^((k-1)/2^DurationSchema) seconds, up to 2^(k/2^DurationSchema) seconds.
	Zero        uint64         `json:"zero"`
	Exponential map[int]uint64 `json:"exponential,omitempty"`
}

// DurationSchema says how fine the exponential buckets of [DurationStats] are: a power of two
// has 2^DurationSchema of them. Prometheus calls the number schema, OpenTelemetry scale.
const DurationSchema = 3

// PaceStats is the state of the limiter of a Pace.
type PaceStats struct {
	Limit rate.Limit `json:"limit"` // items a second; [rate.Inf] is none
	Burst int        `json:"burst"`

	// Limiter is the limiter itself, nil without a Pace. Queues with the same Limiter share its tokens.
	Limiter *rate.Limiter `json:"-"`
}

// PaceLimit returns how many items a second the Pace lets through: 0 in a pause, and infinity without a limit. ok is
// false for a queue without a Pace.
func (s *QueueStats) PaceLimit() (limit float64, ok bool) {
	switch {
	case s.Paused:
		return 0, true
	case s.Pace.Limit == rate.Inf:
		return math.Inf(1), true
	}
	return float64(s.Pace.Limit), s.Pace != PaceStats{}
}

// Merge adds the stats of another queue, to show several queues together. Numbers are added up.
// LongestRunning and OldestItem become the greater value, and Pace that of the first queue with a Pace.
// Parts of their own have the first 25 priorities and the deepest 25 groups.
//
// The durations of both queues must have been counted by the same Buckets of [QueueMetrics].
func (s *QueueStats) Merge(other QueueStats) {
	s.Depth += other.Depth
	s.InFlight += other.InFlight
	s.Workers += other.Workers
	s.Adds += other.Adds
	s.Duplicates += other.Duplicates
	s.Unfinished += other.Unfinished
	s.LongestRunning = max(s.LongestRunning, other.LongestRunning)
	s.OldestItem = max(s.OldestItem, other.OldestItem)
	s.Paced += other.Paced
	s.Pushed, s.Paused = s.Pushed || other.Pushed, s.Paused || other.Paused
	if s.Pace == (PaceStats{}) {
		s.Pace = other.Pace
	}
	s.ByPriority = mergeParts(s.ByPriority, other.ByPriority, func(_, _ PartStats[int]) int { return 0 })
	s.ByGroup = mergeParts(s.ByGroup, other.ByGroup, func(a, b PartStats[string]) int { return b.Depth - a.Depth })
	s.Latency.merge(other.Latency)
	s.WorkDuration.merge(other.WorkDuration)
	s.Waiting += other.Waiting
	s.Retries += other.Retries
	s.RateLimited += other.RateLimited
	s.Lateness.merge(other.Lateness)
	s.RetryDelay.merge(other.RetryDelay)
	if other.Results != nil {
		sum := maps.Clone(other.Results)
		for outcome, n := range s.Results {
			sum[outcome] += n
		}
		s.Results = sum
	}
}

// merge adds the counts of another DurationStats. A copy of d does not change.
func (d *DurationStats) merge(other DurationStats) {
	(*histogram.Counts)(d).Add(histogram.Counts(other))
}

// mergeParts returns the sums of parts with the same key, in the given order and then in the
// order of parts and more. All parts behind the first maxNamed become a single part.
func mergeParts[K comparable](parts, more []PartStats[K], order func(a, b PartStats[K]) int) []PartStats[K] {
	all := slices.Clone(parts)
	for _, m := range more {
		i := slices.IndexFunc(all, func(p PartStats[K]) bool { return p.Others == m.Others && p.Key == m.Key })
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
	if len(all) > fifo.MaxNamed {
		rest := PartStats[K]{Others: true}
		for _, p := range all[fifo.MaxNamed:] {
			rest.add(p)
		}
		all = append(all[:fifo.MaxNamed], rest)
	}
	return all
}

func (p *PartStats[K]) add(q PartStats[K]) {
	p.Depth += q.Depth
	p.InFlight += q.InFlight
	p.HeldBack = p.HeldBack || q.HeldBack
	p.OldestItem = max(p.OldestItem, q.OldestItem)
}

// counted returns the numbers that never fall, which outlive the queue.
func (s QueueStats) counted() QueueStats {
	return QueueStats{
		Adds: s.Adds, Duplicates: s.Duplicates, Paced: s.Paced, Retries: s.Retries, RateLimited: s.RateLimited,
		Latency: s.Latency, WorkDuration: s.WorkDuration, Lateness: s.Lateness, RetryDelay: s.RetryDelay,
		Results: s.Results,
	}
}

// A providerLink ties a queue to its StateProvider. A queue without a StateProvider has nil.
type providerLink struct {
	end   func(Totals) // may be nil
	ended atomic.Bool
}

// newLink lets the provider read a queue for as long as the queue lives. The
// provider gets a weak pointer. A strong pointer would keep a queue for ever if the program
// drops the queue without a shutdown.
func newLink[Q any](p StateProvider, name string, layers QueueLayers, q *Q, stats func(*Q) QueueStats) (*providerLink, []float64) {
	queue := weak.Make(q)
	m := p.NewQueue(QueueSource{Name: name, Layers: layers, Read: func() (QueueStats, bool) {
		if q := queue.Value(); q != nil {
			return stats(q), true
		}
		return QueueStats{}, false
	}})
	l := &providerLink{end: m.End}
	runtime.AddCleanup(q, func(l *providerLink) { l.cut(Totals{}) }, l)
	return l, m.Buckets
}

// cut tells the provider of the end, once. In a sync.Once, an End that shuts the queue down
// again would wait for itself.
func (l *providerLink) cut(left Totals) {
	if !l.ended.Swap(true) && l.end != nil {
		l.end(left)
	}
}

// durations are observed by a Typed in the state mode.
type durations struct {
	queued, held histogram.Histogram
}

// observeDurations makes the queue observe durations, in the buckets of an empty histogram.
// Although the queue is new, the provider may read the queue already, so observeDurations takes
// the lock.
func (q *Typed[T]) observeDurations(empty histogram.Histogram) {
	d := &durations{queued: empty, held: empty.Like()}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.durations = d
}

// statsOf returns the stats without priorities and groups, and begins the survey that adds these. The
// time is proportional to the number of held items, and with a storage to the number of all items.
// The caller has read the clock before.
func (q *Typed[T]) statsOf(v *fifo.Survey) QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := QueueStats{
		Depth:      q.fifo.Len() + q.fifo.HeldAgain(),
		InFlight:   q.fifo.Held(),
		Workers:    int(q.parked) + q.fifo.Held(),
		OldestItem: q.fifo.Oldest(v.Now),
		Paced:      q.pace.KeptBack(v.Now),
		Pushed:     q.metrics.pushes(),
		Paused:     q.pace.Paused(),
	}
	s.Pace = PaceStats(q.pace.Limit())
	s.Unfinished, s.LongestRunning = q.fifo.InFlight(v.Now)
	v.Levels = q.fifo.Levels()
	if q.durations != nil { // Not all adds are counted in other queues.
		s.Adds, s.Duplicates = q.adds, q.duplicates
		s.Latency = DurationStats(q.durations.queued.Read())
		s.WorkDuration = DurationStats(q.durations.held.Read())
	}
	return s
}

// addBreakdown adds the priorities, the ages and the groups, by a look at each lane. There can be as
// many lanes as items. So addBreakdown gives the lock back now and then. All other stats are of the
// instant of statsOf.
func (q *Typed[T]) addBreakdown(s *QueueStats, v *fifo.Survey) {
	for !q.survey(v) {
	}
	s.ByPriority, s.ByGroup = partStats(v.Levels), partStats(v.Groups(s.Depth, s.InFlight))
	for _, p := range s.ByPriority {
		s.OldestItem = max(s.OldestItem, p.OldestItem)
	}
}

// partStats returns the public form of parts, nil for none.
func partStats[K comparable](parts []fifo.Part[K]) (stats []PartStats[K]) {
	stats = slices.Grow(stats, len(parts))
	for _, p := range parts {
		stats = append(stats, PartStats[K](p))
	}
	return stats
}

func (q *Typed[T]) survey(v *fifo.Survey) (over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.Survey(v)
}

// retire tells a StateProvider that the queue has ended.
func (q *Typed[T]) retire() {
	if q.metrics != nil && q.metrics.link != nil {
		q.metrics.link.cut(q.abandoned())
		runtime.KeepAlive(q) // For a last Read in End: the program may have dropped the queue.
	}
}

// abandoned returns how many items the queue has at its end.
func (q *Typed[T]) abandoned() Totals {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Totals{QueuedTotal: q.fifo.Len(), InFlightTotal: q.fifo.Held()}
}

// delayMetrics are counted by a delaying queue, and by a rate limiting queue above, in the state
// mode. In the push mode there is only the counter of retries.
type delayMetrics struct {
	link    *providerLink
	layers  QueueLayers
	retries tally
	limited tally
	results atomic.Pointer[resultCounts] // nil until a Run counts

	// retryDelay has the waits of retries. It is nil until the first one.
	retryDelay atomic.Pointer[histogram.Locked]

	// Guarded by the lock of the queue.

	lateness  histogram.Histogram
	abandoned int // items waiting when the queue was closed
}

// A tally is a counter in the state mode. A tally is a [CounterMetric] too, so that callers need
// not know the mode. A tally is atomic because AddAfter counts before it takes a lock.
type tally struct{ n atomic.Int64 }

func (t *tally) Inc() { t.n.Add(1) }

func (t *tally) value() uint64 { return uint64(t.n.Load()) }

// attach lets the provider read the queue. If the delaying queue has made the Typed below, own is
// set, and both are read in the same critical section: an item that becomes due is in exactly
// one of the two layers.
//
// The provider may read as soon as newLink has called NewQueue. So metrics is set before
// newLink, and the histogram, whose bounds newLink returns, with the lock held.
func (q *TypedDelaying[T]) attach(p StateProvider, name string, own bool) {
	m := &delayMetrics{layers: LayerDelays}
	if own {
		m.layers |= LayerQueue
	}
	q.metrics = m
	q.retries = &m.retries
	read := func(q *TypedDelaying[T]) QueueStats { return q.statsOf(nil) }
	if own {
		read = (*TypedDelaying[T]).Stats
	}
	l, bounds := newLink(p, name, m.layers, q, read)
	m.link = l
	lateness := histogram.New(bounds)
	if own {
		q.typed.observeDurations(lateness.Like())
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	m.lateness = lateness
}

// observeLateness counts by how much an item was late. The lock of the queue is held.
func (m *delayMetrics) observeLateness(late time.Duration) {
	if m != nil {
		m.lateness.Observe(late)
	}
}

// observeRetry counts a wait that the limiter, or the handler of a failed item, has named. The first call
// makes the histogram: a queue at rest does without its 250 bytes.
func (m *delayMetrics) observeRetry(delay time.Duration, limited bool) {
	if limited {
		m.limited.Inc()
	}
	h := m.retryDelay.Load()
	if h == nil {
		m.retryDelay.CompareAndSwap(nil, histogram.NewLocked(&m.lateness))
		h = m.retryDelay.Load()
	}
	h.Observe(delay)
}

// resultCounts count the items handled by Run, by outcome. nil counts nothing.
type resultCounts [outcomes]tally

func (c *resultCounts) count(outcome Outcome) {
	if c != nil {
		c[outcome].Inc()
	}
}

// forRun returns the counters for the results of a Run. The first Run makes the counters, and
// the provider finds them from then on.
func (m *delayMetrics) forRun() *resultCounts {
	if m == nil {
		return nil
	}
	m.results.CompareAndSwap(nil, new(resultCounts))
	return m.results.Load()
}

// statsOf returns the stats of one instant, with those of the Typed below if there is a survey for them,
// see statsOf of Typed. Lock order: the delaying queue, the Typed.
//
// Both locks are held at once, so that the sums agree. Between two critical sections an item
// could become due, and would be in Waiting and in Depth, or in neither.
func (q *TypedDelaying[T]) statsOf(v *fifo.Survey) (s QueueStats) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if v != nil {
		s = q.typed.statsOf(v)
	}
	s.Waiting = q.agenda.Len()
	q.metrics.readInto(&s)
	return s
}

// readInto sets the counts of the queue. The lock of the queue is held, for lateness.
func (m *delayMetrics) readInto(s *QueueStats) {
	if m == nil {
		return
	}
	s.Retries = m.retries.value()
	s.RateLimited = m.limited.value()
	s.Lateness = DurationStats(m.lateness.Read())
	if h := m.retryDelay.Load(); h != nil {
		s.RetryDelay = DurationStats(h.Read())
	}
	if counts := m.results.Load(); counts != nil {
		s.Results = make(map[Outcome]uint64, outcomes)
		for i := range counts {
			s.Results[Outcome(i)] = counts[i].value()
		}
	}
}

// retire tells a StateProvider that the queue has ended, and how many items are left. If the
// Typed below has no link of its own, its items count too. The provider is foreign code, and so
// is called without a lock.
func (q *TypedDelaying[T]) retire() {
	if q.metrics == nil {
		return
	}
	var left Totals
	if q.metrics.layers&LayerQueue != 0 {
		left = q.typed.abandoned()
	}
	q.mu.Lock()
	left.WaitingTotal = q.metrics.abandoned
	q.mu.Unlock()
	q.metrics.link.cut(left)
	runtime.KeepAlive(q) // As in retire of Typed.
}
