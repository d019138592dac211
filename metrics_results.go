package workqueue

import "time"

// A ResultsProvider is a [MetricsProvider] that also counts what [Run] comes to, and
// how long a rate limiter has items wait. A [TypedRateLimiting] with a name asks for
// these metrics when it is constructed, unless the provider is a [StateProvider]: that
// finds them in [QueueStats].
type ResultsProvider interface {
	MetricsProvider

	// NewResultsMetric returns the counter of items that came to this outcome.
	NewResultsMetric(name string, outcome Outcome) CounterMetric

	// NewRateLimitDelayMetric returns the histogram of the seconds that the
	// limiter has said for each AddRateLimited.
	NewRateLimitDelayMetric(name string) HistogramMetric
}

// limitMetrics are the metrics of a rate limiting queue: those that are read with the
// delaying queue below, or those of a provider that wants to be told. nil has none.
type limitMetrics struct {
	read    *delayMetrics   // nil if told
	delay   HistogramMetric // nil if read
	results resultMetrics   // nil if read
}

// resultMetrics count results by outcome. nil counts nothing.
type resultMetrics []CounterMetric

func (m resultMetrics) count(outcome Outcome) {
	if m != nil {
		m[outcome].Inc()
	}
}

func newLimitMetrics[T comparable](name string, p MetricsProvider, below TypedDelayingInterface[T]) *limitMetrics {
	if d, ok := below.(*TypedDelaying[T]); ok && d.metrics != nil {
		return &limitMetrics{read: d.metrics}
	}
	told, ok := p.(ResultsProvider)
	if _, reads := p.(StateProvider); !ok || reads {
		return nil
	}
	m := &limitMetrics{delay: told.NewRateLimitDelayMetric(name)}
	for _, outcome := range Outcomes() {
		m.results = append(m.results, told.NewResultsMetric(name, outcome))
	}
	return m
}

// observe counts a call of AddRateLimited.
func (m *limitMetrics) observe(delay time.Duration) {
	switch {
	case m == nil:
	case m.read != nil:
		m.read.limited.Inc()
		m.read.observeLimit(delay)
	default:
		m.delay.Observe(delay.Seconds())
	}
}

// forRun returns what a Run counts its results with.
func (m *limitMetrics) forRun() resultMetrics {
	switch {
	case m == nil:
		return nil
	case m.read != nil:
		return m.read.forRun()
	}
	return m.results
}

// observeLimit counts what the limiter has said. The histogram is made for the first
// one: a queue at rest does without its 250 bytes.
func (m *delayMetrics) observeLimit(delay time.Duration) {
	d := m.limits.Load()
	if d == nil {
		bounds := m.lateness.bounds // Are not changed after the construction.
		m.limits.CompareAndSwap(nil, &toldDurations{histogram: histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}})
		d = m.limits.Load()
	}
	d.observe(delay)
}

// forRun makes the counters for the first Run. From then on the provider finds them.
func (m *delayMetrics) forRun() (counters resultMetrics) {
	m.results.CompareAndSwap(nil, new([outcomes]tally))
	counts := m.results.Load()
	for i := range counts {
		counters = append(counters, &counts[i])
	}
	return counters
}

// readLimits adds what was counted above the delaying queue to its state.
func (m *delayMetrics) readLimits(s *QueueStats) {
	s.RateLimited = m.limited.value()
	if d := m.limits.Load(); d != nil {
		s.LimiterDelay = d.read()
	}
	if counts := m.results.Load(); counts != nil {
		s.Results = make(map[Outcome]uint64, outcomes)
		for i := range counts {
			s.Results[Outcome(i)] = counts[i].value()
		}
	}
}

// addResults adds results to a sum. It never changes a map that it was given before.
func (s *QueueStats) addResults(other map[Outcome]uint64) {
	if other == nil {
		return
	}
	sum := make(map[Outcome]uint64, outcomes)
	for _, outcome := range Outcomes() {
		sum[outcome] = s.Results[outcome] + other[outcome]
	}
	s.Results = sum
}
