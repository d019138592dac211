package workqueue

import "github.com/prometheus/client_golang/prometheus"

// This file has the one series of the provider with a second label of its own.

func (o *prometheusOptions) resultsDesc() *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("", subsystem, "results_total"),
		"Items that workers of Run have handled, by what came of it.", append(o.labels(), "result"), o.constant)
}

// appendResults makes the counters of a name, all of them as soon as there is a Run:
// an alert needs them while they are 0.
func (c collector) appendResults(metrics []prometheus.Metric, s *series, total QueueStats, labels []string) []prometheus.Metric {
	if total.Results == nil {
		return metrics
	}
	for _, outcome := range Outcomes() {
		metrics = append(metrics, prometheus.MustNewConstMetricWithCreatedTimestamp(c.results, prometheus.CounterValue,
			float64(total.Results[outcome]), s.created, append(labels[:len(labels):len(labels)], outcome.String())...))
	}
	return metrics
}
