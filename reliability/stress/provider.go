package main

import "github.com/seed16c08ea7/workqueue"

// A provider makes metrics with a trap. The metrics measure nothing.
type provider struct{ trap *trap }

func (p provider) NewDepthMetric(string) workqueue.GaugeMetric       { return metric(p) }
func (p provider) NewAddsMetric(string) workqueue.CounterMetric      { return metric(p) }
func (p provider) NewLatencyMetric(string) workqueue.HistogramMetric { return metric(p) }
func (p provider) NewWorkDurationMetric(string) workqueue.HistogramMetric {
	return metric(p)
}
func (p provider) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return metric(p)
}
func (p provider) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return metric(p)
}
func (p provider) NewRetriesMetric(string) workqueue.CounterMetric { return metric(p) }

// A metric is all kinds of metrics.
type metric struct{ trap *trap }

func (m metric) Inc()            { m.trap.spring() }
func (m metric) Dec()            { m.trap.spring() }
func (m metric) Observe(float64) { m.trap.spring() }

// Set is called on a goroutine of the queue, where a panic ends the program.
func (m metric) Set(float64) {}
