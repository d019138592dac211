package workqueue

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// This file is the table of the series and how they are written.

// A row is a series that is one number: its part, and its value in the stats.
type row struct {
	part  part
	kind  prometheus.ValueType
	desc  *prometheus.Desc
	value func(QueueStats) float64
}

func (o *prometheusOptions) desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("", subsystem, name), help, o.labels(), o.constant)
}

func (o *prometheusOptions) rows() []row {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return []row{
		{partQueue, gauge, o.desc("depth", "Items that are queued, or held by a worker and marked for another run."),
			func(s QueueStats) float64 { return float64(s.Depth) }},
		{partQueue, counter, o.desc("adds_total", "Adds that were not duplicates."),
			func(s QueueStats) float64 { return float64(s.Adds) }},
		{partQueue, gauge, o.desc("unfinished_work_seconds", "Seconds that the items in flight have been held by workers, added up. It grows by one a second for each worker that is stuck."),
			func(s QueueStats) float64 { return s.Unfinished.Seconds() }},
		{partQueue, gauge, o.desc("longest_running_processor_seconds", "Seconds that the item held longest has been held by its worker."),
			func(s QueueStats) float64 { return s.LongestRunning.Seconds() }},
		{partRetries, counter, o.desc("retries_total", "Adds with a delay, asked for or from a rate limiter."),
			func(s QueueStats) float64 { return float64(s.Retries) }},
		{partState, gauge, o.desc("in_flight", "Items that are held by workers."),
			func(s QueueStats) float64 { return float64(s.InFlight) }},
		{partState, gauge, o.desc("oldest_item_age_seconds", "Seconds since the item at the head of the queue was added, 0 if there is none."),
			func(s QueueStats) float64 { return s.OldestItem.Seconds() }},
		{partState, counter, o.desc("duplicates_total", "Adds that changed nothing, as the item was queued already."),
			func(s QueueStats) float64 { return float64(s.Duplicates) }},
		{partDelays, gauge, o.desc("waiting", "Items that wait for their time to be queued."),
			func(s QueueStats) float64 { return float64(s.Waiting) }},
		{partDelays, counter, o.desc("rate_limited_total", "Adds with the delay of a rate limiter, which are retries of what has failed."),
			func(s QueueStats) float64 { return float64(s.RateLimited) }},
	}
}

func (r row) metric(s QueueStats, created time.Time, labels []string) prometheus.Metric {
	if r.kind == prometheus.CounterValue {
		return prometheus.MustNewConstMetricWithCreatedTimestamp(r.desc, r.kind, r.value(s), created, labels...)
	}
	return prometheus.MustNewConstMetric(r.desc, r.kind, r.value(s), labels...)
}

// A histogramRow is a series that is a histogram.
type histogramRow struct {
	part  part
	desc  *prometheus.Desc
	value func(QueueStats) Histogram
}

func (o *prometheusOptions) histograms() []histogramRow {
	return []histogramRow{
		{partQueue, o.desc("queue_duration_seconds", "Seconds that an item was queued before a worker got it."),
			func(s QueueStats) Histogram { return s.Latency }},
		{partQueue, o.desc("work_duration_seconds", "Seconds that a worker held an item."),
			func(s QueueStats) Histogram { return s.WorkDuration }},
		{partDelays, o.desc("lateness_seconds", "Seconds from when a delayed item was due until it was queued."),
			func(s QueueStats) Histogram { return s.Lateness }},
		{partDelays, o.desc("rate_limit_delay_seconds", "Seconds that the rate limiter has had an item wait."),
			func(s QueueStats) Histogram { return s.LimiterDelay }},
	}
}

func (r histogramRow) metric(bounds []float64, s QueueStats, created time.Time, labels []string) prometheus.Metric {
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
	exponential, schema := coarsen(h.Exponential)
	return twoHistograms{
		Metric: prometheus.MustNewConstNativeHistogram(r.desc, h.Count, h.Sum, exponential, nil, h.Zero,
			schema, prometheus.DefNativeHistogramZeroThreshold, created, labels...),
		classic: classic,
	}
}

// maxBuckets is how many exponential buckets are written at most. 20 powers of
// two fit in with full resolution: from a millisecond to a quarter of an hour.
const maxBuckets = 160

// coarsen makes buckets wider until they are few enough, and returns the schema
// that this leads to.
func coarsen(buckets map[int]int64) (_ map[int]int64, s int32) {
	for s = schema; len(buckets) > maxBuckets; s-- {
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
