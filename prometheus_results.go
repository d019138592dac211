package workqueue

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// This file has the one series of the provider with a label of its own.

func (d describer) results() described {
	return d.desc("results_total", "Items that workers of Run have handled, by what came of it.", "result")
}

// appendResults makes the counters of a name, all of them as soon as there is a Run:
// an alert needs them while they are 0.
func (c collector) appendResults(metrics []prometheus.Metric, s *series, total QueueStats, queue string) []prometheus.Metric {
	if total.Results == nil {
		return metrics
	}
	at := slices.Index(c.results.labels, "result")
	for _, outcome := range Outcomes() {
		values := c.results.values(queue)
		values[at] = outcome.String()
		metrics = append(metrics, prometheus.MustNewConstMetricWithCreatedTimestamp(c.results.desc, prometheus.CounterValue,
			float64(total.Results[outcome]), s.created, values...))
	}
	return metrics
}
