package workqueue

import (
	"time"

	"k8s.io/utils/clock"
)

// instruments are the metrics of a FIFO, and the clock that its items are timed
// by. They are immutable after construction; a queue that keeps no times has
// nil, and one that keeps them for itself has the clock alone.
type instruments struct {
	clock clock.WithTicker
	// Times are kept as nanoseconds since epoch: half the size of a time.Time
	// without its location, and reading the monotonic clock alone costs half
	// of what time.Now does.
	epoch time.Time

	push *pushed       // nil unless a provider is told of each change
	link *providerLink // nil unless a provider reads this queue
}

// pushed are the metrics that a queue keeps up to date itself.
type pushed struct {
	depth          GaugeMetric
	adds           CounterMetric
	latency        HistogramMetric
	workDuration   HistogramMetric
	unfinished     SettableGaugeMetric
	longestRunning SettableGaugeMetric
}

// measure makes the metrics of a new queue, by the provider that providerFor has
// returned for it.
func (q *Typed[T]) measure(config TypedQueueConfig[T], p MetricsProvider) {
	if p == nil && !config.KeepTimes {
		return
	}
	c := clockOrDefault(config.Clock)
	m := &instruments{clock: c, epoch: c.Now()}
	q.metrics = m
	if state, ok := p.(StateProvider); ok {
		l, bounds := newLink(state, config.Name, LayerFIFO, q, (*Typed[T]).stats)
		m.link = l
		q.observeDurations(bounds)
	} else if p != nil {
		m.push = newPushed(p, config.Name)
		q.reporter = &reporter{stop: make(chan struct{})}
	}
}

func newPushed(p MetricsProvider, name string) *pushed {
	return &pushed{
		depth:          p.NewDepthMetric(name),
		adds:           p.NewAddsMetric(name),
		latency:        p.NewLatencyMetric(name),
		workDuration:   p.NewWorkDurationMetric(name),
		unfinished:     p.NewUnfinishedWorkSecondsMetric(name),
		longestRunning: p.NewLongestRunningProcessorSecondsMetric(name),
	}
}

// now returns the time since the epoch, 0 for a queue that keeps no times.
func (m *instruments) now() time.Duration {
	if m == nil {
		return 0
	}
	return m.clock.Since(m.epoch)
}

// foreign reports whether reading the clock calls foreign code.
func (m *instruments) foreign() bool {
	if m == nil {
		return false
	}
	_, real := m.clock.(clock.RealClock)
	return !real
}

// pushes reports whether a provider is told of each change. If not, metrics are
// counted under the lock and read, or there are none.
func (m *instruments) pushes() bool { return m != nil && m.push != nil }

func (m *instruments) added() {
	if m.pushes() {
		m.push.adds.Inc()
		m.push.depth.Inc()
	}
}

func (m *instruments) removed() {
	if m.pushes() {
		m.push.depth.Dec()
	}
}

func (m *instruments) handedOut(waited time.Duration) {
	m.push.depth.Dec()
	m.push.latency.Observe(waited.Seconds())
}

func (m *instruments) done(worked time.Duration) {
	if m.pushes() {
		m.push.workDuration.Observe(worked.Seconds())
	}
}

func (m *instruments) inFlight(total, longest time.Duration) {
	m.push.unfinished.Set(total.Seconds())
	m.push.longestRunning.Set(longest.Seconds())
}

// newRetries returns the counter of delayed adds for a queue, or nil if no provider is
// to be told of them.
func newRetries(name string, p MetricsProvider) CounterMetric {
	if _, ok := p.(StateProvider); !ok && p != nil {
		return p.NewRetriesMetric(name)
	}
	return nil
}

// clockOrDefault resolves the clock of a config.
func clockOrDefault(c clock.WithTicker) clock.WithTicker {
	if c == nil {
		return clock.RealClock{}
	}
	return c
}
