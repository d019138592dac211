package otelqueue

import (
	"math"
	"strconv"

	"github.com/seed16c08ea7/workqueue"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// This file is the table of the metrics. With the Prometheus exporter of OpenTelemetry, their
// names become the names of the series of workqueue.NewPrometheusProvider.

type stats = workqueue.QueueStats

const (
	queueLayer = workqueue.LayerQueue
	delayLayer = workqueue.LayerDelays
)

// A kind is how points of a metric are added up.
type kind int

const (
	counter kind = iota // a sum that never falls
	level               // a sum that can fall
	gauge               // no sum: the greatest counts
)

// A row is a metric of numbers. If the metric has a further attribute, split returns a part for each
// value of the attribute.
type row[N int64 | float64] struct {
	layer       workqueue.QueueLayers
	kind        kind
	name, unit  string
	description string
	value       func(stats) N
	split       func(stats) []part[N]
}

// A part is a number with an attribute. The zero attribute, which is not valid, is none.
type part[N int64 | float64] struct {
	attribute attribute.KeyValue
	value     N
}

const item = "{item}"

var counts = []row[int64]{
	{layer: queueLayer, kind: level, name: "workqueue.depth", unit: item, value: func(s stats) int64 { return int64(s.Depth) },
		description: "Items that are queued, or held by a worker and marked for another run."},
	{layer: queueLayer, kind: level, name: "workqueue.depth_by_priority", unit: item, split: byPriority,
		description: "Items of a priority that are queued, or held by a worker and marked for another run."},
	{layer: queueLayer, kind: level, name: "workqueue.in_flight", unit: item, value: func(s stats) int64 { return int64(s.InFlight) },
		description: "Items that are held by workers."},
	{layer: queueLayer, kind: level, name: "workqueue.workers", unit: "{worker}", value: func(s stats) int64 { return int64(s.Workers) },
		description: "Goroutines that wait for an item, and items that are held by workers."},
	{layer: queueLayer, kind: counter, name: "workqueue.adds", unit: item, value: func(s stats) int64 { return int64(s.Adds) },
		description: "Adds that were not duplicates."},
	{layer: queueLayer, kind: counter, name: "workqueue.duplicates", unit: item, value: func(s stats) int64 { return int64(s.Duplicates) },
		description: "Adds that changed nothing, as the item was queued already."},
	{layer: delayLayer, kind: level, name: "workqueue.waiting", unit: item, value: func(s stats) int64 { return int64(s.Waiting) },
		description: "Items that wait for their time to be queued."},
	{layer: delayLayer, kind: counter, name: "workqueue.retries", unit: item, value: func(s stats) int64 { return int64(s.Retries) },
		description: "Adds with a delay, asked for or from a rate limiter."},
	{layer: delayLayer, kind: counter, name: "workqueue.rate_limited", unit: item, value: func(s stats) int64 { return int64(s.RateLimited) },
		description: "Adds with the delay of a rate limiter, which are retries of failed items."},
	{layer: delayLayer, kind: counter, name: "workqueue.results", unit: item, split: byOutcome,
		description: "Items that workers of Run have handled, or CountResult was told, by their outcome."},
}

var times = []row[float64]{
	{layer: queueLayer, kind: gauge, name: "workqueue.oldest_item.age", unit: "s", value: func(s stats) float64 { return s.OldestItem.Seconds() },
		description: "Time since the item at the head of the queue was added, 0 without an item."},
	{layer: queueLayer, kind: gauge, name: "workqueue.longest_running_processor", unit: "s", value: func(s stats) float64 { return s.LongestRunning.Seconds() },
		description: "Time since the item held longest was handed out."},
	{layer: queueLayer, kind: level, name: "workqueue.unfinished_work", unit: "s", value: func(s stats) float64 { return s.Unfinished.Seconds() },
		description: "Time for which the items in flight have been held, added up."},
	{layer: queueLayer, kind: counter, name: "workqueue.paced", unit: "s", value: func(s stats) float64 { return s.Paced.Seconds() },
		description: "Time with an item to hand out and no token of the pace."},
	{layer: queueLayer, kind: gauge, name: "workqueue.pace_limit", split: paceLimit, // A unit would be a suffix in Prometheus.
		description: "Items a second that the pace lets through, 0 in a pause."},
}

// paceLimit returns no part for queues without a Pace.
func paceLimit(s stats) (parts []part[float64]) {
	if limit, ok := s.PaceLimit(); ok {
		parts = append(parts, part[float64]{value: limit})
	}
	return parts
}

func byPriority(s stats) (parts []part[int64]) {
	for _, p := range s.ByPriority {
		value := "other"
		if !p.Others {
			value = strconv.Itoa(p.Key)
		}
		parts = append(parts, part[int64]{priorityKey.String(value), int64(p.Depth)})
	}
	return parts
}

// byOutcome returns all outcomes as soon as there is a Run: an alert needs a counter while the
// counter is 0.
func byOutcome(s stats) (parts []part[int64]) {
	if s.Results == nil {
		return nil
	}
	for _, outcome := range workqueue.Outcomes() {
		parts = append(parts, part[int64]{outcomeKey.String(outcome.String()), int64(s.Results[outcome])})
	}
	return parts
}

// append appends the metric, unless no queue has it.
func (r row[N]) append(all []metricdata.Metrics, readings []reading) []metricdata.Metrics {
	var points []metricdata.DataPoint[N]
	for _, from := range readings {
		if from.layers&r.layer == 0 {
			continue
		}
		point := metricdata.DataPoint[N]{StartTime: from.start, Time: from.time}
		if r.split == nil {
			point.Attributes, point.Value = from.attributes(), r.value(from.stats)
			points = append(points, point)
			continue
		}
		for _, p := range r.split(from.stats) {
			point.Attributes, point.Value = from.attributes(), p.value
			if p.attribute.Valid() {
				point.Attributes = from.attributes(p.attribute)
			}
			points = append(points, point)
		}
	}
	if len(points) == 0 {
		return all
	}
	m := metricdata.Metrics{Name: r.name, Unit: r.unit, Description: r.description}
	if r.kind == gauge {
		m.Data = metricdata.Gauge[N]{DataPoints: points}
	} else {
		m.Data = metricdata.Sum[N]{DataPoints: points, Temporality: metricdata.CumulativeTemporality, IsMonotonic: r.kind == counter}
	}
	return append(all, m)
}

// A histogram is a metric of durations.
type histogram struct {
	layer             workqueue.QueueLayers
	name, description string
	value             func(stats) workqueue.DurationStats
}

var histograms = []histogram{
	{queueLayer, "workqueue.queue.duration", "Time that an item was queued before a worker got it.",
		func(s stats) workqueue.DurationStats { return s.Latency }},
	{queueLayer, "workqueue.work.duration", "Time that a worker held an item.",
		func(s stats) workqueue.DurationStats { return s.WorkDuration }},
	{delayLayer, "workqueue.lateness", "Time from when a delayed item was due until it was queued.",
		func(s stats) workqueue.DurationStats { return s.Lateness }},
	{delayLayer, "workqueue.retry_delay", "Time that a retry waits: by the rate limiter, or by the time that a handler has named for a failed item.",
		func(s stats) workqueue.DurationStats { return s.RetryDelay }},
}

func (h histogram) append(all []metricdata.Metrics, readings []reading, bounds []float64) []metricdata.Metrics {
	explicit := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
	exponential := metricdata.ExponentialHistogram[float64]{Temporality: metricdata.CumulativeTemporality}
	for _, from := range readings {
		if from.layers&h.layer == 0 {
			continue
		}
		d := h.value(from.stats)
		if len(bounds) == 0 {
			scale, buckets := exponentialBuckets(d.Exponential)
			exponential.DataPoints = append(exponential.DataPoints, metricdata.ExponentialHistogramDataPoint[float64]{
				Attributes: from.attributes(), StartTime: from.start, Time: from.time,
				Count: d.Count, Sum: d.Sum, Scale: scale, ZeroCount: d.Zero, PositiveBucket: buckets,
			})
			continue
		}
		// A queue that has observed nothing yet may have no buckets.
		buckets := make([]uint64, len(bounds)+1)
		copy(buckets, d.Buckets)
		explicit.DataPoints = append(explicit.DataPoints, metricdata.HistogramDataPoint[float64]{
			Attributes: from.attributes(), StartTime: from.start, Time: from.time,
			Count: d.Count, Sum: d.Sum, Bounds: bounds, BucketCounts: buckets,
		})
	}
	m := metricdata.Metrics{Name: h.name, Unit: "s", Description: h.description}
	switch {
	case len(explicit.DataPoints) > 0:
		m.Data = explicit
	case len(exponential.DataPoints) > 0:
		m.Data = exponential
	default:
		return all
	}
	return append(all, m)
}

// maxBuckets is how many exponential buckets a histogram of the SDK has, unless told otherwise.
const maxBuckets = 160

// exponentialBuckets returns the buckets of OpenTelemetry, without holes. Bucket k of
// DurationStats ends at 2^(k/2^scale), and bucket k-1 of OpenTelemetry too. Durations
// that lie far apart get wider buckets: one step of the scale makes one bucket of two.
func exponentialBuckets(counts map[int]uint64) (scale int32, buckets metricdata.ExponentialBucket) {
	scale = workqueue.DurationSchema
	if len(counts) == 0 {
		return scale, buckets
	}
	first, last := math.MaxInt, math.MinInt
	for k := range counts {
		first, last = min(first, k-1), max(last, k-1)
	}
	shift := 0
	for last>>shift-first>>shift >= maxBuckets {
		shift++
	}
	buckets.Offset = int32(first >> shift)
	buckets.Counts = make([]uint64, last>>shift-first>>shift+1)
	for k, n := range counts {
		buckets.Counts[(k-1)>>shift-first>>shift] += n
	}
	return scale - int32(shift), buckets
}
