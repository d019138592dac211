package compat_test

import (
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A meter is a metrics provider that keeps all calls.
type meter struct {
	faults *faults // nil for none

	mu     sync.Mutex
	made   []string            // "queue/metric", in the order of construction
	events map[string][]string // by metric, since the last call of flush
	levels map[string]float64  // the last value of each push-style gauge
}

// The metrics of a queue. A meter reports in the order of counted, because the
// order in which a call of a queue updates several metrics is open.
var (
	counted = []string{"adds", "depth", "latency", "work", "retries"}
	pushed  = []string{"unfinished", "longest"}
)

// flush returns the sorted updates since the last flush, of all queues together, as in
// "adds +1 +1, depth +1 +1 -1, latency 0.5".
func (m *meter) flush() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, name := range counted {
		if events := m.events[name]; len(events) > 0 {
			slices.Sort(events) // Two goroutines may have counted.
			all = append(all, name+" "+strings.Join(events, " "))
		}
	}
	m.events = nil
	return strings.Join(all, ", ")
}

// level returns the last values of the push-style gauges. A gauge that was never
// set is at 0, as in every metrics library.
func (m *meter) level() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, name := range pushed {
		all = append(all, name+" "+format(m.levels[name]))
	}
	return strings.Join(all, ", ")
}

// names returns "queue/metric" of every metric made so far, sorted.
func (m *meter) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(slices.Values(m.made))
}

func (m *meter) metric(queue, name string) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made = append(m.made, queue+"/"+name)
	return &metric{meter: m, name: name}
}

// A metric has the methods of every kind of metric.
type metric struct {
	meter *meter
	name  string
}

func (m *metric) Inc()              { m.record("+1") }
func (m *metric) Dec()              { m.record("-1") }
func (m *metric) Observe(v float64) { m.record(format(v)) }

func (m *metric) Set(v float64) {
	m.meter.mu.Lock()
	defer m.meter.mu.Unlock()
	if m.meter.levels == nil {
		m.meter.levels = make(map[string]float64)
	}
	m.meter.levels[m.name] = v
}

func (m *metric) record(event string) {
	m.meter.faults.strike(m.name)
	m.meter.mu.Lock()
	defer m.meter.mu.Unlock()
	if m.meter.events == nil {
		m.meter.events = make(map[string][]string)
	}
	m.meter.events[m.name] = append(m.meter.events[m.name], event)
}

func format(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// provider makes the MetricsProvider of a package from a meter: only the
// types of the metrics differ between the packages.
type provider[Gauge, Settable, Counter, Histogram any] struct{ *meter }

func (p provider[G, S, C, H]) NewDepthMetric(queue string) G {
	return p.metric(queue, "depth").(G)
}

func (p provider[G, S, C, H]) NewAddsMetric(queue string) C {
	return p.metric(queue, "adds").(C)
}

func (p provider[G, S, C, H]) NewLatencyMetric(queue string) H {
	return p.metric(queue, "latency").(H)
}

func (p provider[G, S, C, H]) NewWorkDurationMetric(queue string) H {
	return p.metric(queue, "work").(H)
}

func (p provider[G, S, C, H]) NewUnfinishedWorkSecondsMetric(queue string) S {
	return p.metric(queue, "unfinished").(S)
}

func (p provider[G, S, C, H]) NewLongestRunningProcessorSecondsMetric(queue string) S {
	return p.metric(queue, "longest").(S)
}

func (p provider[G, S, C, H]) NewRetriesMetric(queue string) C {
	return p.metric(queue, "retries").(C)
}
