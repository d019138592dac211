package workqueue

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const subsystem = "workqueue"

// A part says which series a source has.
type part uint8

const (
	partQueue   part = 1 << iota // those of Kubernetes but retries
	partRetries                  // the retries of Kubernetes
	partState                    // what else is known of a FIFO
	partDelays                   // what else is known of a delaying queue
)

// series are those of one name. The provider's lock guards them.
type series struct {
	sources []*source
	told    *toldMetrics // one of the sources, or nil
	ever    part         // the parts of all sources that there were
	warned  bool
	created time.Time
	past    QueueStats // what sources that are gone have counted
}

// A source is a queue, or a layer of one.
type source struct {
	parts part
	read  func() (QueueStats, bool)
	last  QueueStats // as last read
}

// parts returns those of the live sources.
func (s *series) parts() (all part) {
	for _, src := range s.sources {
		all |= src.parts
	}
	return all
}

// total returns the stats of all sources together.
func (s *series) total() QueueStats {
	var sum QueueStats // The maps of past must not be added to.
	sum.count(s.past)
	for _, src := range s.sources {
		now, ok := src.stats()
		sum.count(now)
		if ok {
			sum.gauge(now)
		}
	}
	return sum
}

// stats reads a source. If its queue is gone, but has not been removed yet, the
// counts are the last that were read.
func (src *source) stats() (now QueueStats, ok bool) {
	if now, ok = src.read(); ok {
		src.last = now
	}
	return src.last, ok
}

// drop removes a source and keeps its counts.
func (s *series) drop(src *source) {
	last, _ := src.stats()
	s.past.count(last)
	s.sources = slices.DeleteFunc(s.sources, func(other *source) bool { return other == src })
}

func (s *QueueStats) count(other QueueStats) {
	s.Adds += other.Adds
	s.Duplicates += other.Duplicates
	s.Retries += other.Retries
	s.RateLimited += other.RateLimited
	s.Latency.add(other.Latency)
	s.WorkDuration.add(other.WorkDuration)
	s.Lateness.add(other.Lateness)
}

func (s *QueueStats) gauge(other QueueStats) {
	s.Depth += other.Depth
	s.InFlight += other.InFlight
	s.Waiting += other.Waiting
	s.Unfinished += other.Unfinished
	s.LongestRunning = max(s.LongestRunning, other.LongestRunning)
	s.OldestItem = max(s.OldestItem, other.OldestItem)
}

// collector keeps the methods of a prometheus.Collector out of the provider's.
type collector struct{ *PrometheusProvider }

// Describe implements [prometheus.Collector].
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, r := range c.rows {
		ch <- r.desc
	}
	for _, r := range c.histograms {
		ch <- r.desc
	}
	c.abandoned.Describe(ch)
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.read() { // Whoever takes the metrics may block.
		ch <- m
	}
	c.abandoned.Collect(ch)
}

func (c collector) read() (metrics []prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, s := range c.queues {
		metrics = c.appendSeries(metrics, s, c.options.values(name))
	}
	return metrics
}

func (c collector) appendSeries(metrics []prometheus.Metric, s *series, labels []string) []prometheus.Metric {
	total := s.total()
	for _, r := range c.rows {
		if s.ever&r.part != 0 {
			metrics = append(metrics, r.metric(total, s.created, labels))
		}
	}
	for _, r := range c.histograms {
		if s.ever&r.part != 0 {
			metrics = append(metrics, r.metric(c.options.buckets, total, s.created, labels))
		}
	}
	return metrics
}
