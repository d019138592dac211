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

	push         *pushed         // nil unless the provider is told of each change
	latency      HistogramMetric // nil for none
	workDuration HistogramMetric // nil for none
}

// pushed are the metrics that a queue keeps up to date itself.
type pushed struct {
	depth          GaugeMetric
	adds           CounterMetric
	unfinished     SettableGaugeMetric
	longestRunning SettableGaugeMetric
}

func newInstruments[T comparable](config TypedQueueConfig[T]) *instruments {
	p := providerFor(config.Name, config.MetricsProvider)
	if p == nil && !config.KeepTimes {
		return nil
	}
	c := clockOrDefault(config.Clock)
	m := &instruments{clock: c, epoch: c.Now()}
	if p != nil {
		m.push = &pushed{depth: p.NewDepthMetric(config.Name), adds: p.NewAddsMetric(config.Name)}
		m.latency = p.NewLatencyMetric(config.Name)
		m.workDuration = p.NewWorkDurationMetric(config.Name)
		m.push.unfinished = p.NewUnfinishedWorkSecondsMetric(config.Name)
		m.push.longestRunning = p.NewLongestRunningProcessorSecondsMetric(config.Name)
	}
	return m
}

// now returns the time since the epoch, 0 for a queue that keeps no times.
func (m *instruments) now() time.Duration {
	if m == nil {
		return 0
	}
	return m.clock.Since(m.epoch)
}

// told reports whether there are metrics that the queue keeps up to date.
func (m *instruments) told() bool { return m != nil && m.push != nil }

func (m *instruments) added() {
	if m.told() {
		m.push.adds.Inc()
		m.push.depth.Inc()
	}
}

func (m *instruments) removed() {
	if m.told() {
		m.push.depth.Dec()
	}
}

func (m *instruments) handedOut(waited time.Duration) {
	if m.push != nil {
		m.push.depth.Dec()
	}
	if m.latency != nil {
		m.latency.Observe(waited.Seconds())
	}
}

func (m *instruments) done(worked time.Duration) {
	if m != nil && m.workDuration != nil {
		m.workDuration.Observe(worked.Seconds())
	}
}

func (m *instruments) inFlight(total, longest time.Duration) {
	m.push.unfinished.Set(total.Seconds())
	m.push.longestRunning.Set(longest.Seconds())
}

// newRetries returns the counter of delayed adds for a queue, nil for none.
func newRetries(name string, configured MetricsProvider) CounterMetric {
	if p := providerFor(name, configured); p != nil {
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
