package workqueue

import (
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed16c08ea7/workqueue/internal/registry"
)

// This file reads the queues of a provider. Queues of the same name share their series, and so
// do the layers of a queue that were made apart. A series is a sum over all sources. The counts
// of a source stay in the sum while other sources of the name live, as a counter must not fall.

// A seriesPart says which series a source has.
type seriesPart uint8

const (
	partQueue   seriesPart = 1 << iota // the series of Kubernetes, except the retries
	partRetries                        // the retries of Kubernetes
	partState                          // further series of a FIFO
	partDelays                         // further series of a delaying queue
)

// series are the series of one name, for which there may be several queues. The provider's lock
// guards the fields. ever has the parts of ended sources too: their series stay as long as
// another source does, with the counts of past.
type series struct {
	sources []*seriesSource
	ever    seriesPart // the parts of all sources so far
	warned  bool
	created time.Time
	past    QueueStats // the counts of ended sources
}

// A seriesSource is a queue, or a layer of a queue. read takes the locks of the queue. It has a
// weak pointer to the queue, so a queue is kept alive for the time of a scrape only.
type seriesSource struct {
	parts seriesPart
	read  func() (QueueStats, bool)
	last  QueueStats // the counts when read was last called
}

// parts returns the parts of the live sources. The provider warns of a second source with one of
// these parts, as both share their series.
func (s *series) parts() (all seriesPart) {
	for _, src := range s.sources {
		all |= src.parts
	}
	return all
}

// total returns the stats of all sources together. Each source is read in a critical section of
// its own, so the sum is of several instants.
func (s *series) total() QueueStats {
	sum := s.past
	for _, src := range s.sources {
		sum.Merge(src.stats())
	}
	return sum
}

// stats reads a source, which takes the lock of its queue. A queue dropped without a shutdown
// can be gone before its source is removed. Then stats returns the last counts.
func (src *seriesSource) stats() QueueStats {
	now, ok := src.read()
	if !ok {
		return src.last
	}
	src.last = now.counted()
	return now
}

// remove removes a source and keeps its counts. Since the last scrape the queue may have
// counted, so remove reads the source once more.
func (s *series) remove(src *seriesSource) {
	src.stats()
	s.past.Merge(src.last)
	s.sources = slices.DeleteFunc(s.sources, func(other *seriesSource) bool { return other == src })
}

// A collector has the methods of a prometheus.Collector. The provider lacks these methods, so
// that a caller cannot register the provider a second time.
type collector struct{ *PrometheusProvider }

// Describe implements [prometheus.Collector], without a lock: the rows never change after the
// construction of the provider.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, r := range c.rows {
		ch <- r.desc
	}
	for _, r := range c.histograms {
		ch <- r.desc
	}
}

// Collect implements [prometheus.Collector]. It makes all metrics before it sends the first one.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.read(nil) { // With the lock free, as the receiver may block.
		ch <- m
	}
}

// read makes the metrics of all names with the lock of the provider held, as the map must not
// change meanwhile. Constructors and shutdowns of queues wait for the scrape. Other calls wait
// only while their own queue is read. Lock order: the provider, a queue.
func (c collector) read(scrape *registry.Scrape) (metrics []prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, s := range c.queues {
		metrics = c.appendSeries(metrics, s, name, scrape)
	}
	return metrics
}

// appendSeries leaves out series that no queue of the name has had: a FIFO shows no delays of 0.
// Series of ended queues stay while the name lives, or rates would end with them.
func (c collector) appendSeries(metrics []prometheus.Metric, s *series, queue string, scrape *registry.Scrape) []prometheus.Metric {
	total := s.total()
	for _, r := range c.rows {
		if s.ever&r.part != 0 && !scrape.Omits(r.name, queue) {
			metrics = r.append(metrics, total, s.created, queue)
		}
	}
	for _, r := range c.histograms {
		if s.ever&r.part != 0 && !scrape.Omits(r.name, queue) {
			metrics = append(metrics, r.metric(c.bounds, total, s.created, queue))
		}
	}
	return metrics
}

// A sharedCollector is the collector in a registry with the series of client-go's queues. It
// describes nothing, and leaves out series of the registry itself.
type sharedCollector struct{ collector }

// Describe implements [prometheus.Collector].
func (sharedCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c sharedCollector) Collect(ch chan<- prometheus.Metric) {
	scrape := c.shared.Scrape()
	for _, m := range c.read(scrape) {
		ch <- m
	}
	for _, series := range scrape.Changed {
		slog.Default().Warn("workqueue: the registry has got a series of the same name with another text, ours is left out", "series", series)
	}
	for _, name := range scrape.Left() {
		slog.Default().Warn("workqueue: the registry has series of another queue of this name, ours are left out", "name", name)
	}
}
