package attack

import (
	"runtime"

	"github.com/seed16c08ea7/workqueue"
)

// A failing provider has metrics of which the latency fails once when it is told
// to. It is not safe for concurrent use, but all the others are.
type failing struct {
	fail  bool
	exits bool
}

type silent struct{}

func (silent) Inc()            {}
func (silent) Dec()            {}
func (silent) Set(float64)     {}
func (silent) Observe(float64) {}

type latency struct{ *failing }

func (l latency) Observe(float64) {
	if !l.fail {
		return
	}
	l.fail = false
	if l.exits {
		runtime.Goexit()
	}
	panic("latency")
}

func (f *failing) NewDepthMetric(string) workqueue.GaugeMetric            { return silent{} }
func (f *failing) NewAddsMetric(string) workqueue.CounterMetric           { return silent{} }
func (f *failing) NewLatencyMetric(string) workqueue.HistogramMetric      { return latency{f} }
func (f *failing) NewWorkDurationMetric(string) workqueue.HistogramMetric { return silent{} }
func (f *failing) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return silent{}
}
func (f *failing) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return silent{}
}
func (f *failing) NewRetriesMetric(string) workqueue.CounterMetric { return silent{} }
