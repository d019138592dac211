package workqueue

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// This file makes the metrics of queues that are not of this package: these
// know nothing of a StateProvider and tell the provider of each change.

// toldMetrics is the state of such queues, as far as it was told: all of one name.
// They never say that they have ended.
type toldMetrics struct {
	source
	depth, adds, retries       tally
	unfinished, longestRunning toldSeconds
	latency, workDuration      toldDurations
}

// A toldSeconds is a number of seconds that is set.
type toldSeconds struct{ bits atomic.Uint64 }

func (l *toldSeconds) Set(seconds float64) { l.bits.Store(math.Float64bits(seconds)) }

func (l *toldSeconds) duration() time.Duration {
	return durationOf(math.Float64frombits(l.bits.Load()))
}

// A toldDurations is a histogram with a lock of its own.
type toldDurations struct {
	mu        sync.Mutex
	histogram histogram // guarded by mu
}

func (o *toldDurations) Observe(seconds float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.histogram.observe(durationOf(seconds))
}

func (o *toldDurations) read() Histogram {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.histogram.read()
}

// durationOf takes what is not in the range of a time.Duration to its ends.
func durationOf(seconds float64) time.Duration {
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2))
}

func (t *toldMetrics) state() (QueueStats, bool) {
	return QueueStats{
		Depth:          int(t.depth.n.Load()),
		Adds:           t.adds.count(),
		Retries:        t.retries.count(),
		Unfinished:     t.unfinished.duration(),
		LongestRunning: t.longestRunning.duration(),
		Latency:        t.latency.read(),
		WorkDuration:   t.workDuration.read(),
	}, true
}

// toldOf returns the state of the foreign queues of a name, with the given part.
func (p *PrometheusProvider) toldOf(name string, parts part) *toldMetrics {
	name = validLabel(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.seriesLocked(name)
	if s.told == nil {
		s.told = &toldMetrics{}
		s.told.latency.histogram = newHistogram(p.options.buckets)
		s.told.workDuration.histogram = newHistogram(p.options.buckets)
		s.told.read = s.told.state
		s.sources = append(s.sources, &s.told.source)
	}
	s.told.parts |= parts
	s.ever |= parts
	return s.told
}

// NewDepthMetric implements [MetricsProvider].
func (p *PrometheusProvider) NewDepthMetric(name string) GaugeMetric {
	return &p.toldOf(name, partQueue).depth
}

// NewAddsMetric implements [MetricsProvider].
func (p *PrometheusProvider) NewAddsMetric(name string) CounterMetric {
	return &p.toldOf(name, partQueue).adds
}

// NewLatencyMetric implements [MetricsProvider].
func (p *PrometheusProvider) NewLatencyMetric(name string) HistogramMetric {
	return &p.toldOf(name, partQueue).latency
}

// NewWorkDurationMetric implements [MetricsProvider].
func (p *PrometheusProvider) NewWorkDurationMetric(name string) HistogramMetric {
	return &p.toldOf(name, partQueue).workDuration
}

// NewUnfinishedWorkSecondsMetric implements [MetricsProvider].
func (p *PrometheusProvider) NewUnfinishedWorkSecondsMetric(name string) SettableGaugeMetric {
	return &p.toldOf(name, partQueue).unfinished
}

// NewLongestRunningProcessorSecondsMetric implements [MetricsProvider].
func (p *PrometheusProvider) NewLongestRunningProcessorSecondsMetric(name string) SettableGaugeMetric {
	return &p.toldOf(name, partQueue).longestRunning
}

// NewRetriesMetric implements [MetricsProvider].
func (p *PrometheusProvider) NewRetriesMetric(name string) CounterMetric {
	return &p.toldOf(name, partRetries).retries
}
