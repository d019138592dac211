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
	told    *told // one of the sources, or nil
	ever    part  // the parts of all sources that there were
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
	sum := s.past
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
}

func (s *QueueStats) gauge(other QueueStats) {
	s.Depth += other.Depth
	s.InFlight += other.InFlight
	s.Waiting += other.Waiting
	s.Unfinished += other.Unfinished
	s.LongestRunning = max(s.LongestRunning, other.LongestRunning)
	s.OldestItem = max(s.OldestItem, other.OldestItem)
}

// descriptions are those of the series that are read.
type descriptions struct {
	controller bool
	rows       []row
}

// A row is a series: its part, and its value in the stats.
type row struct {
	part  part
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(QueueStats) float64
}

func newDescriptions(o prometheusOptions) descriptions {
	d := descriptions{controller: o.controller}
	add := func(part part, kind prometheus.ValueType, name, help string, value func(QueueStats) float64) {
		name = prometheus.BuildFQName("", subsystem, name)
		d.rows = append(d.rows, row{part, prometheus.NewDesc(name, help, o.labels(), o.constant), kind, value})
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	add(partQueue, gauge, "depth", "Items that are queued, or held by a worker and marked for another run.",
		func(s QueueStats) float64 { return float64(s.Depth) })
	add(partQueue, counter, "adds_total", "Adds that were not duplicates.",
		func(s QueueStats) float64 { return float64(s.Adds) })
	add(partQueue, gauge, "unfinished_work_seconds", "Seconds that the items in flight have been held by workers, added up. It grows by one a second for each worker that is stuck.",
		func(s QueueStats) float64 { return s.Unfinished.Seconds() })
	add(partQueue, gauge, "longest_running_processor_seconds", "Seconds that the item held longest has been held by its worker.",
		func(s QueueStats) float64 { return s.LongestRunning.Seconds() })
	add(partRetries, counter, "retries_total", "Adds with a delay, asked for or from a rate limiter.",
		func(s QueueStats) float64 { return float64(s.Retries) })
	add(partState, gauge, "in_flight", "Items that are held by workers.",
		func(s QueueStats) float64 { return float64(s.InFlight) })
	add(partState, gauge, "oldest_item_age_seconds", "Seconds since the item at the head of the queue was added, 0 if there is none.",
		func(s QueueStats) float64 { return s.OldestItem.Seconds() })
	add(partState, counter, "duplicates_total", "Adds that changed nothing, as the item was queued already.",
		func(s QueueStats) float64 { return float64(s.Duplicates) })
	add(partDelays, gauge, "waiting", "Items that wait for their time to be queued.",
		func(s QueueStats) float64 { return float64(s.Waiting) })
	add(partDelays, counter, "rate_limited_total", "Adds with the delay of a rate limiter, which are retries of what has failed.",
		func(s QueueStats) float64 { return float64(s.RateLimited) })
	return d
}

// collector keeps the methods of a prometheus.Collector out of the provider's.
type collector struct{ *PrometheusProvider }

func (c collector) vectors() []prometheus.Collector {
	return []prometheus.Collector{c.latency, c.workDuration, c.lateness, c.abandoned}
}

// Describe implements [prometheus.Collector].
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, r := range c.rows {
		ch <- r.desc
	}
	for _, v := range c.vectors() {
		v.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.read() { // What takes the metrics may block.
		ch <- m
	}
	for _, v := range c.vectors() {
		v.Collect(ch)
	}
}

func (c collector) read() (metrics []prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, s := range c.queues {
		metrics = c.appendRows(metrics, s, c.values(name))
	}
	return metrics
}

func (c collector) appendRows(metrics []prometheus.Metric, s *series, values []string) []prometheus.Metric {
	total := s.total()
	for _, r := range c.rows {
		switch {
		case s.ever&r.part == 0:
		case r.kind == prometheus.CounterValue:
			metrics = append(metrics, prometheus.MustNewConstMetricWithCreatedTimestamp(r.desc, r.kind, r.value(total), s.created, values...))
		default:
			metrics = append(metrics, prometheus.MustNewConstMetric(r.desc, r.kind, r.value(total), values...))
		}
	}
	return metrics
}
