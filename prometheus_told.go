package workqueue

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// This file makes the metrics of queues of other packages, such as client-go's. They
// know nothing of a StateProvider and tell the provider of each change. So the
// provider keeps the numbers itself, and reads them like those of a queue.

// toldMetrics is the state of all such queues of one name, as far as it was told. They
// never say that they have ended, so it stays as long as the provider.
//
// No lock makes one picture of the fields. The queue calls one metric after the other,
// and mostly with its own lock held: a scrape in between sees an add without its depth.
type toldMetrics struct {
	seriesSource
	depth, adds, retries       tally
	unfinished, longestRunning toldSeconds
	latency, workDuration      toldDurations
}

// A toldSeconds is a gauge of seconds. It is atomic, as foreign queues set it while
// others read it.
type toldSeconds struct{ bits atomic.Uint64 }

func (l *toldSeconds) Set(seconds float64) { l.bits.Store(math.Float64bits(seconds)) }

func (l *toldSeconds) duration() time.Duration {
	return durationOf(math.Float64frombits(l.bits.Load()))
}

// A toldDurations is a histogram with a lock of its own, as no queue's lock guards it.
type toldDurations struct {
	mu        sync.Mutex
	histogram histogram // guarded by mu
}

// Observe implements [HistogramMetric]. The lock is held for one observation and for the
// copy of a scrape, never for a call of foreign code.
func (o *toldDurations) Observe(seconds float64) { o.observe(durationOf(seconds)) }

func (o *toldDurations) observe(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.histogram.observe(d)
}

func (o *toldDurations) read() Histogram {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.histogram.read()
}

// durationOf converts seconds, and limits them to half of what a time.Duration can
// hold: no rounding of a float64 takes that out of the range.
func durationOf(seconds float64) time.Duration {
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2))
}

// current returns the state. What client-go's metrics do not have stays zero, and the parts
// of the source keep a scrape from showing it.
func (t *toldMetrics) current() (QueueStats, bool) {
	return QueueStats{
		Depth:          int(t.depth.n.Load()),
		Adds:           t.adds.value(),
		Retries:        t.retries.value(),
		Unfinished:     t.unfinished.duration(),
		LongestRunning: t.longestRunning.duration(),
		Latency:        t.latency.read(),
		WorkDuration:   t.workDuration.read(),
	}, true
}

// toldOf returns the state of the foreign queues of a name, which has the given part
// from now on. The first metric of a name makes it a source.
//
// Queues of one name share it, as client-go's provider would give them the same series.
func (p *PrometheusProvider) toldOf(name string, parts seriesPart) *toldMetrics {
	name = validLabel(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.seriesLocked(name)
	if s.told == nil {
		s.told = &toldMetrics{}
		s.told.latency.histogram = newHistogram(p.options.Buckets)
		s.told.workDuration.histogram = newHistogram(p.options.Buckets)
		s.told.read = s.told.current
		s.sources = append(s.sources, &s.told.seriesSource)
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
