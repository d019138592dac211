package workqueue

import (
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed16c08ea7/workqueue/internal/registry"
)

// This file reads the queues of a provider. Queues of one name, and the layers of one
// queue that were made apart, share their series: these are sums over all sources.
// What a source has counted stays in the sum while other sources of the name live, as
// a counter must not go down.

// A seriesPart says which series a source has.
type seriesPart uint8

const (
	partQueue   seriesPart = 1 << iota // those of Kubernetes, except the retries
	partRetries                        // the retries of Kubernetes
	partState                          // what else is known of a FIFO
	partDelays                         // what else is known of a delaying queue
)

// series are those of one name, for which there may be several queues. The provider's
// lock guards them. ever has the parts of sources that are gone too: their series stay
// as long as another source does, with the counts of past.
type series struct {
	sources []*seriesSource
	ever    seriesPart // the parts of all sources that there were
	warned  bool
	created time.Time
	past    QueueStats // what sources that are gone have counted
}

// A seriesSource is a queue, or a layer of one. read is the queue's own and takes its locks;
// it holds the queue by a weak pointer, so that a scrape keeps no queue alive for longer
// than it takes.
type seriesSource struct {
	parts seriesPart
	read  func() (QueueStats, bool)
	last  QueueStats // what had been counted when read was last called
}

// parts returns those of the live sources. A second source with one of them shares the
// series of the first, which the provider warns of.
func (s *series) parts() (all seriesPart) {
	for _, src := range s.sources {
		all |= src.parts
	}
	return all
}

// total returns the stats of all sources together. Each source is read by itself, in its
// own critical section. Two queues of one name have no instant in common, and a sum of
// two instants is as true as either of them.
func (s *series) total() QueueStats {
	sum := s.past
	for _, src := range s.sources {
		sum.Merge(src.stats())
	}
	return sum
}

// stats reads a source, which takes the lock of its queue. A queue that was dropped
// without a shutdown can be gone before the source is removed. Its counts are then
// those of the last reading.
func (src *seriesSource) stats() QueueStats {
	now, ok := src.read()
	if !ok {
		return src.last
	}
	src.last = now.counted()
	return now
}

// remove removes a source and keeps its counts. It reads the source once more: since the
// last scrape the queue may have counted.
func (s *series) remove(src *seriesSource) {
	src.stats()
	s.past.Merge(src.last)
	s.sources = slices.DeleteFunc(s.sources, func(other *seriesSource) bool { return other == src })
}

// collector keeps the methods of a prometheus.Collector out of the provider's: a caller
// who found them there could register the provider a second time.
type collector struct{ *PrometheusProvider }

// Describe implements [prometheus.Collector]. It needs no lock: the rows never change after
// the construction of the provider.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, r := range c.rows {
		ch <- r.desc
	}
	for _, r := range c.histograms {
		ch <- r.desc
	}
}

// Collect implements [prometheus.Collector]. It makes all metrics before it sends the first.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.read(nil) { // With the lock free, as the receiver may block.
		ch <- m
	}
}

// read makes the metrics of all names with the lock held. Each queue is locked only
// while it is read itself. Lock order: the provider, then a queue.
//
// The lock is held over all names, as the map must not change meanwhile. A queue that is
// constructed or shut down waits for the scrape, and no other call does.
func (c collector) read(scrape *registry.Scrape) (metrics []prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, s := range c.queues {
		metrics = c.appendSeries(metrics, s, name, scrape)
	}
	return metrics
}

// appendSeries leaves out the series that no queue of this name has had: a FIFO shows
// no delays of 0. It goes by ever and not by the sources of today. A series that vanished
// while its name lives would end the rates that are computed from it.
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

// A sharedCollector is the collector in a registry that has the series of client-go's queues.
// It describes nothing, and leaves out what the registry has.
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
