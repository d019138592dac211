package workqueue

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// This file makes the metrics of queues that are not of this package: these
// know nothing of a StateProvider and tell the provider of each change.

// told is the state of such queues, as far as it was told: all of one name.
// They never say that they have ended.
type told struct {
	source
	depth, adds, retries       tally
	unfinished, longestRunning level
	latency, workDuration      observer
}

// A level is a number of seconds that is set.
type level struct{ bits atomic.Uint64 }

func (l *level) Set(seconds float64) { l.bits.Store(math.Float64bits(seconds)) }

func (l *level) duration() time.Duration {
	return duration(math.Float64frombits(l.bits.Load()))
}

// An observer is a histogram with a lock of its own.
type observer struct {
	mu        sync.Mutex
	histogram histogram // guarded by mu
}

func (o *observer) Observe(seconds float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.histogram.observe(duration(seconds))
}

func (o *observer) read() Histogram {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.histogram.read()
}

// duration takes what is not in the range of a time.Duration to its ends.
func duration(seconds float64) time.Duration {
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2))
}

func (t *told) state() (QueueStats, bool) {
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

// told returns the state of the foreign queues of a name, with the given part.
func (p *PrometheusProvider) told(name string, parts part) *told {
	name = valid(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.seriesLocked(name)
	if s.told == nil {
		s.told = &told{}
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
	return &p.told(name, partQueue).depth
}

// NewAddsMetric implements [MetricsProvider].
func (p *PrometheusProvider) NewAddsMetric(name string) CounterMetric {
	return &p.told(name, partQueue).adds
}

// NewLatencyMetric implements [MetricsProvider].
func (p *PrometheusProvider) NewLatencyMetric(name string) HistogramMetric {
	return &p.told(name, partQueue).latency
}

// NewWorkDurationMetric implements [MetricsProvider].
func (p *PrometheusProvider) NewWorkDurationMetric(name string) HistogramMetric {
	return &p.told(name, partQueue).workDuration
}

// NewUnfinishedWorkSecondsMetric implements [MetricsProvider].
func (p *PrometheusProvider) NewUnfinishedWorkSecondsMetric(name string) SettableGaugeMetric {
	return &p.told(name, partQueue).unfinished
}

// NewLongestRunningProcessorSecondsMetric implements [MetricsProvider].
func (p *PrometheusProvider) NewLongestRunningProcessorSecondsMetric(name string) SettableGaugeMetric {
	return &p.told(name, partQueue).longestRunning
}

// NewRetriesMetric implements [MetricsProvider].
func (p *PrometheusProvider) NewRetriesMetric(name string) CounterMetric {
	return &p.told(name, partRetries).retries
}
