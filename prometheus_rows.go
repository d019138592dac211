package workqueue

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// This file is the table of the series and how they are written.

// A described is what a series is called, and which labels it has.
type described struct {
	name   string
	desc   *prometheus.Desc
	labels []string
}

// values returns the values of the labels for a queue. Those which no queue of ours
// has a value for are empty, which to Prometheus is the same as not there.
func (d described) values(queue string) []string {
	values := make([]string, len(d.labels))
	for i, label := range d.labels {
		if label == "name" || label == "controller" {
			values[i] = queue
		}
	}
	return values
}

// A describer knows what series are called in a registry.
type describer struct {
	options PrometheusOptions
	theirs  neighbours
}

// desc describes a series by the given text, unless the registry has it already. It has
// more labels than those of the queue if it has one value for each of them.
func (d describer) desc(name, help string, more ...string) described {
	labels := []string{"name"}
	if d.options.ControllerLabel || d.theirs.haveController() {
		labels = append(labels, "controller")
	}
	labels = append(labels, more...)
	if n, ok := d.theirs[name]; ok {
		help, labels = n.help, n.labels
	}
	return described{name, prometheus.NewDesc(prometheus.BuildFQName("", subsystem, name), help, labels, d.options.ConstLabels), labels}
}

// A seriesRow is a series that is one number: its part, and its value in the stats.
type seriesRow struct {
	part seriesPart
	kind prometheus.ValueType
	described
	value func(QueueStats) float64
}

func (d describer) rows() []seriesRow {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return []seriesRow{
		{partQueue, gauge, d.desc("depth", "Items that are queued, or held by a worker and marked for another run."),
			func(s QueueStats) float64 { return float64(s.Depth) }},
		{partQueue, counter, d.desc("adds_total", "Adds that were not duplicates."),
			func(s QueueStats) float64 { return float64(s.Adds) }},
		{partQueue, gauge, d.desc("unfinished_work_seconds", "Seconds that the items in flight have been held by workers, added up. It grows by one a second for each worker that is stuck."),
			func(s QueueStats) float64 { return s.Unfinished.Seconds() }},
		{partQueue, gauge, d.desc("longest_running_processor_seconds", "Seconds that the item held longest has been held by its worker."),
			func(s QueueStats) float64 { return s.LongestRunning.Seconds() }},
		{partRetries, counter, d.desc("retries_total", "Adds with a delay, asked for or from a rate limiter."),
			func(s QueueStats) float64 { return float64(s.Retries) }},
		{partState, gauge, d.desc("in_flight", "Items that are held by workers."),
			func(s QueueStats) float64 { return float64(s.InFlight) }},
		{partState, gauge, d.desc("oldest_item_age_seconds", "Seconds since the item at the head of the queue was added, 0 if there is none."),
			func(s QueueStats) float64 { return s.OldestItem.Seconds() }},
		{partState, counter, d.desc("duplicates_total", "Adds that changed nothing, as the item was queued already."),
			func(s QueueStats) float64 { return float64(s.Duplicates) }},
		{partDelays, gauge, d.desc("waiting", "Items that wait for their time to be queued."),
			func(s QueueStats) float64 { return float64(s.Waiting) }},
		{partDelays, counter, d.desc("rate_limited_total", "Adds with the delay of a rate limiter, which are retries of what has failed."),
			func(s QueueStats) float64 { return float64(s.RateLimited) }},
	}
}

func (r seriesRow) metric(s QueueStats, created time.Time, queue string) prometheus.Metric {
	labels := r.values(queue)
	if r.kind == prometheus.CounterValue {
		return prometheus.MustNewConstMetricWithCreatedTimestamp(r.desc, r.kind, r.value(s), created, labels...)
	}
	return prometheus.MustNewConstMetric(r.desc, r.kind, r.value(s), labels...)
}

// A histogramRow is a series that is a histogram.
type histogramRow struct {
	part seriesPart
	described
	value func(QueueStats) Histogram
}

func (d describer) histograms() []histogramRow {
	return []histogramRow{
		{partQueue, d.desc("queue_duration_seconds", "Seconds that an item was queued before a worker got it."),
			func(s QueueStats) Histogram { return s.Latency }},
		{partQueue, d.desc("work_duration_seconds", "Seconds that a worker held an item."),
			func(s QueueStats) Histogram { return s.WorkDuration }},
		{partDelays, d.desc("lateness_seconds", "Seconds from when a delayed item was due until it was queued."),
			func(s QueueStats) Histogram { return s.Lateness }},
		{partDelays, d.desc("rate_limit_delay_seconds", "Seconds that the rate limiter has had an item wait."),
			func(s QueueStats) Histogram { return s.LimiterDelay }},
	}
}

func (r histogramRow) metric(bounds []float64, s QueueStats, created time.Time, queue string) prometheus.Metric {
	h := r.value(s)
	classic := make([]*dto.Bucket, len(bounds))
	sum := uint64(0)
	for i, bound := range bounds {
		if i < len(h.Buckets) { // Nothing was observed otherwise.
			sum += h.Buckets[i]
		}
		cumulative := sum
		classic[i] = &dto.Bucket{UpperBound: &bound, CumulativeCount: &cumulative}
	}
	exponential, schema := coarsenBuckets(h.Exponential)
	return twoHistograms{
		Metric: prometheus.MustNewConstNativeHistogram(r.desc, h.Count, h.Sum, exponential, nil, h.Zero,
			schema, prometheus.DefNativeHistogramZeroThreshold, created, r.values(queue)...),
		classic: classic,
	}
}

// maxBuckets is how many exponential buckets are written at most. 20 powers of
// two fit in with full resolution: from a millisecond to a quarter of an hour.
const maxBuckets = 160

// coarsenBuckets makes buckets wider until they are few enough, and returns the schema
// that this leads to.
func coarsenBuckets(buckets map[int]int64) (_ map[int]int64, s int32) {
	for s = histogramSchema; len(buckets) > maxBuckets; s-- {
		wider := make(map[int]int64)
		for key, n := range buckets {
			wider[(key+1)>>1] += n
		}
		buckets = wider
	}
	return buckets, s
}

// twoHistograms is a native histogram with classic buckets beside it, which
// the client library has only for the histograms that it counts itself.
type twoHistograms struct {
	prometheus.Metric
	classic []*dto.Bucket
}

// Write implements [prometheus.Metric].
func (h twoHistograms) Write(out *dto.Metric) error {
	if err := h.Metric.Write(out); err != nil {
		return err
	}
	out.Histogram.Bucket = h.classic
	return nil
}
