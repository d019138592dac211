//go:build !workqueue_noprometheus

package workqueue

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/seed16c08ea7/workqueue/internal/histogram"
	"github.com/seed16c08ea7/workqueue/internal/registry"
)

// This file is the table of the series: their names and texts, here and with client-go's
// providers, and their values in QueueStats.

// A describer knows the texts and labels of series in a registry.
type describer struct {
	options PrometheusOptions
	shared  map[string]registry.Family // the series of client-go's queues in the same registry, if any
}

// A described is the name, the text and the labels of a series.
type described struct {
	name   string
	desc   *prometheus.Desc
	labels []string
}

// desc describes a series by our text, or by the text in the registry if the registry has the
// series already. more are labels in addition to the labels of the queue.
func (d describer) desc(name, help string, more ...string) described {
	name = seriesName(name)
	labels := []string{"name"}
	if d.options.ControllerLabel || d.hasLabel("adds_total", "controller") {
		labels = append(labels, "controller")
	}
	labels = append(labels, more...)
	if f, ok := d.shared[name]; ok {
		help, labels = f.Help, f.Labels
	}
	return described{name, prometheus.NewDesc(name, help, labels, d.options.ConstLabels), labels}
}

func seriesName(name string) string { return prometheus.BuildFQName("", subsystem, name) }

// hasLabel reports whether the registry has a series with the label.
func (d describer) hasLabel(name, label string) bool {
	return slices.Contains(d.shared[seriesName(name)].Labels, label)
}

// decades is the number of classic buckets. The buckets of component-base, whose texts begin
// with their stability, end at 10 s. All buckets of a family must end at the same bound, or they
// could not be added up.
func (d describer) decades() int {
	if strings.HasPrefix(d.shared[seriesName("work_duration_seconds")].Help, "[") {
		return 10
	}
	return 12
}

// values returns the values of the labels for a queue: its name, and the given value for a
// further label. To Prometheus an empty value is no label.
func (d described) values(queue, more string) []string {
	values := make([]string, len(d.labels))
	for i, label := range d.labels {
		values[i] = more
		if label == "name" || label == "controller" {
			values[i] = queue
		}
	}
	return values
}

// A seriesRow is a series of numbers: its part, and its value in the stats. If the series has a
// further label, split returns the values by the label instead. A split of nil is no series, so a series
// without the label can have a split too.
type seriesRow struct {
	part seriesPart
	kind prometheus.ValueType
	described
	value func(QueueStats) float64
	split func(QueueStats) map[string]float64
}

func (d describer) rows() []seriesRow {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	row := func(part seriesPart, kind prometheus.ValueType, name, help string, value func(QueueStats) float64) seriesRow {
		return seriesRow{part: part, kind: kind, described: d.desc(name, help), value: value}
	}
	rows := []seriesRow{
		row(partQueue, gauge, "depth", "Items that are queued, or held by a worker and marked for another run.",
			func(s QueueStats) float64 { return float64(s.Depth) }),
		row(partQueue, counter, "adds_total", "Adds that were not duplicates.",
			func(s QueueStats) float64 { return float64(s.Adds) }),
		row(partQueue, gauge, "unfinished_work_seconds", "Seconds that the items in flight have been held by workers, added up. It grows by one a second for each worker that is stuck.",
			func(s QueueStats) float64 { return s.Unfinished.Seconds() }),
		row(partQueue, gauge, "longest_running_processor_seconds", "Seconds that the item held longest has been held by its worker.",
			func(s QueueStats) float64 { return s.LongestRunning.Seconds() }),
		row(partRetries, counter, "retries_total", "Adds with a delay, asked for or from a rate limiter.",
			func(s QueueStats) float64 { return float64(s.Retries) }),
		row(partState, gauge, "in_flight", "Items that are held by workers.",
			func(s QueueStats) float64 { return float64(s.InFlight) }),
		row(partState, gauge, "workers", "Goroutines that wait for an item, and items that are held by workers.",
			func(s QueueStats) float64 { return float64(s.Workers) }),
		row(partState, gauge, "oldest_item_age_seconds", "Seconds since the item at the head of the queue was added, 0 if there is none.",
			func(s QueueStats) float64 { return s.OldestItem.Seconds() }),
		row(partState, counter, "duplicates_total", "Adds that changed nothing, as the item was queued already.",
			func(s QueueStats) float64 { return float64(s.Duplicates) }),
		{part: partState, kind: counter, split: pacedSeconds,
			described: d.desc("paced_seconds_total", "Seconds that there were items to hand out, and no token of the pace.")},
		{part: partState, kind: gauge, split: paceLimit,
			described: d.desc("pace_limit", "Items a second that the pace lets through, 0 in a pause.")},
		row(partDelays, gauge, "waiting", "Items that wait for their time to be queued.",
			func(s QueueStats) float64 { return float64(s.Waiting) }),
		row(partDelays, counter, "rate_limited_total", "Adds with the delay of a rate limiter, which are retries of what has failed.",
			func(s QueueStats) float64 { return float64(s.RateLimited) }),
		{part: partDelays, kind: counter, split: byResult,
			described: d.desc("results_total", "Items that workers of Run have handled, or CountResult was told, by what came of it.", "result")},
	}
	if d.hasLabel("depth", "priority") { // As in the registry of controller-runtime.
		rows[0].split = depthOfControllerRuntime
		return rows
	}
	return append(rows, seriesRow{part: partState, kind: gauge, split: depthByPriority,
		described: d.desc("depth_by_priority", "Items of a priority that are queued, or held by a worker and marked for another run.", "priority")})
}

// pacedSeconds returns nothing until the Pace has kept items back.
func pacedSeconds(s QueueStats) map[string]float64 {
	if s.Paced == 0 {
		return nil
	}
	return map[string]float64{"": s.Paced.Seconds()}
}

// paceLimit returns nothing for queues without a Pace.
func paceLimit(s QueueStats) map[string]float64 {
	limit, ok := s.PaceLimit()
	if !ok {
		return nil
	}
	return map[string]float64{"": limit}
}

// depthByPriority returns nothing for queues whose order knows no priorities.
func depthByPriority(s QueueStats) map[string]float64 { return byPriority(s, "other") }

// depthOfControllerRuntime returns the depths as in controller-runtime: items of queues without
// priorities have an empty label.
func depthOfControllerRuntime(s QueueStats) map[string]float64 {
	depths := byPriority(s, "exceeded_cardinality_limit")
	rest := float64(s.Depth)
	for _, depth := range depths {
		rest -= depth
	}
	if rest > 0 || s.ByPriority == nil {
		depths[""] = rest
	}
	return depths
}

func byPriority(s QueueStats, others string) map[string]float64 {
	depths := make(map[string]float64)
	for _, p := range s.ByPriority {
		label := others
		if !p.Others {
			label = strconv.Itoa(p.Key)
		}
		depths[label] += float64(p.Depth)
	}
	return depths
}

// byResult returns the counters of all outcomes as soon as there is a Run: an alert needs
// a counter while the counter is 0.
func byResult(s QueueStats) map[string]float64 {
	if s.Results == nil {
		return nil
	}
	counts := make(map[string]float64)
	for _, outcome := range Outcomes() {
		counts[outcome.String()] = float64(s.Results[outcome])
	}
	return counts
}

// append appends the series of the row for a queue.
func (r seriesRow) append(metrics []prometheus.Metric, s QueueStats, created time.Time, queue string) []prometheus.Metric {
	if r.split == nil {
		return append(metrics, r.metric(r.value(s), created, queue, ""))
	}
	for label, value := range r.split(s) {
		metrics = append(metrics, r.metric(value, created, queue, label))
	}
	return metrics
}

func (r seriesRow) metric(value float64, created time.Time, queue, more string) prometheus.Metric {
	labels := r.values(queue, more)
	if r.kind == prometheus.CounterValue {
		return prometheus.MustNewConstMetricWithCreatedTimestamp(r.desc, r.kind, value, created, labels...)
	}
	return prometheus.MustNewConstMetric(r.desc, r.kind, value, labels...)
}

// A histogramRow is a histogram: its part, and its value in the stats.
type histogramRow struct {
	part seriesPart
	described
	value func(QueueStats) DurationStats
}

func (d describer) histograms() []histogramRow {
	return []histogramRow{
		{partQueue, d.desc("queue_duration_seconds", "Seconds that an item was queued before a worker got it."),
			func(s QueueStats) DurationStats { return s.Latency }},
		{partQueue, d.desc("work_duration_seconds", "Seconds that a worker held an item."),
			func(s QueueStats) DurationStats { return s.WorkDuration }},
		{partDelays, d.desc("lateness_seconds", "Seconds from when a delayed item was due until it was queued."),
			func(s QueueStats) DurationStats { return s.Lateness }},
		{partDelays, d.desc("retry_delay_seconds", "Seconds that a retry waits: by the rate limiter, or by the time that a handler has named for a failed item."),
			func(s QueueStats) DurationStats { return s.RetryDelay }},
	}
}

func (r histogramRow) metric(bounds []float64, s QueueStats, created time.Time, queue string) prometheus.Metric {
	return histogram.NewMetric(r.desc, bounds, histogram.Counts(r.value(s)), created, r.values(queue, "")...)
}

// clientGo are the families of client-go's queues in the registries of component-base and of
// controller-runtime. The names are the same everywhere. Help texts and labels depend on the
// package that registers the families, and on its version. The first text of each is the text
// of component-base v0.37, which registers the families with the first queue of client-go and
// marks its registry.
var clientGo = registry.Host{
	Owner:  "name",
	Labels: [][]string{{"name"}, {"name", "controller"}, {"name", "controller", "priority"}},
	Marks: func(f *dto.MetricFamily) bool {
		return f.GetName() == "registered_metrics_total" && strings.HasPrefix(f.GetHelp(), "[")
	},
	Families: map[string]registry.Known{
		seriesName("depth"): theirs(dto.MetricType_GAUGE, "adds_total",
			"Current depth of workqueue",
			"Current depth of workqueue by workqueue and priority"),
		seriesName("adds_total"): theirs(dto.MetricType_COUNTER, "adds_total", "Total number of adds handled by workqueue"),
		seriesName("queue_duration_seconds"): theirs(dto.MetricType_HISTOGRAM, "adds_total",
			"How long in seconds an item stays in workqueue before being requested.",
			"How long in seconds an item stays in workqueue before being requested"),
		seriesName("work_duration_seconds"): theirs(dto.MetricType_HISTOGRAM, "adds_total",
			"How long in seconds processing an item from workqueue takes."),
		seriesName("unfinished_work_seconds"): theirs(dto.MetricType_GAUGE, "adds_total",
			"How many seconds of work has done that is in progress and hasn't been observed by work_duration. "+stuckThreads,
			"How many seconds of work has been done that is in progress and hasn't been observed by work_duration. "+stuckThreads),
		seriesName("longest_running_processor_seconds"): theirs(dto.MetricType_GAUGE, "adds_total",
			"How many seconds has the longest running processor for workqueue been running."),
		seriesName("retries_total"): theirs(dto.MetricType_COUNTER, "retries_total",
			"Total number of retries handled by workqueue",
			"Total number of items added to the workqueue with a non-zero delay (rate-limited requeues, explicit RequeueAfter or AddAfter calls)"),
	},
}

const stuckThreads = "Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases."

// theirs is a family with its possible texts. component-base puts the stability before
// a text. Each queue of client-go has the counter called index from its construction on.
func theirs(kind dto.MetricType, index string, texts ...string) registry.Known {
	k := registry.Known{Kind: kind, Index: seriesName(index)}
	for _, stability := range []string{"[BETA] ", "[ALPHA] ", "[STABLE] ", ""} {
		for _, text := range texts {
			k.Helps = append(k.Helps, stability+text)
		}
	}
	return k
}
