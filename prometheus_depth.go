package workqueue

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// This file has the label priority, which the depth of queues has in the registry of
// controller-runtime.

// exceededLabel is the label of all priorities that have none of their own, as
// controller-runtime calls it.
const exceededLabel = "exceeded_cardinality_limit"

// appendRow makes one series, or that of each priority. What is in queues whose order
// knows no priorities has none, as with controller-runtime.
func (c collector) appendRow(metrics []prometheus.Metric, s *series, r seriesRow, total QueueStats, queue string) []prometheus.Metric {
	at := slices.Index(r.labels, "priority")
	if at < 0 || total.Levels == nil {
		return append(metrics, r.metric(total, s.created, queue))
	}
	for priority, depth := range labelled(total) {
		values := r.values(queue)
		values[at] = priority
		metrics = append(metrics, prometheus.MustNewConstMetric(r.desc, r.kind, float64(depth), values...))
	}
	return metrics
}

// labelled returns the depths by the values of the label. The priority 0 has a series
// from the beginning: to an alert, no series is not 0.
func labelled(total QueueStats) map[string]int {
	depths := make(map[string]int)
	rest := total.Depth
	for _, l := range total.Levels {
		label := exceededLabel
		if !l.Others {
			label = strconv.Itoa(l.Priority)
		}
		depths[label] += l.Depth
		rest -= l.Depth
	}
	if len(depths) < maxNamed {
		depths["0"] += 0
	}
	if rest > 0 {
		depths[""] = rest
	}
	return depths
}
