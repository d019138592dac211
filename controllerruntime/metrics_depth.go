package controllerruntime

import (
	"maps"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/seed16c08ea7/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// maxLevels is how many priorities of a queue have a series each, as in
	// controller-runtime. All others share one.
	maxLevels = 25
	others    = "exceeded_cardinality_limit"
)

var depthName = prometheus.BuildFQName("", metrics.WorkQueueSubsystem, metrics.DepthKey)

// levels are the queues of one name, as far as the depth by priority is concerned.
type levels struct {
	reads []*source
	// known has the priorities that a scrape has seen, up to maxLevels. They keep
	// their series when they are empty: to an alert, no series is not 0.
	known map[int]bool
}

// A source reads a queue.
type source struct {
	read func() (workqueue.QueueStats, bool)
}

// levelled is the provider of the library, and keeps what reads the queues.
type levelled struct {
	*workqueue.PrometheusProvider
	exposition *exposition
}

// NewQueueMetrics implements [workqueue.StateProvider].
func (l levelled) NewQueueMetrics(name string, layers workqueue.QueueLayers, read func() (workqueue.QueueStats, bool)) workqueue.QueueMetrics {
	m := l.PrometheusProvider.NewQueueMetrics(name, layers, read)
	s := &source{read}
	l.exposition.enter(name, s)
	end := m.End
	m.End = func(left workqueue.Abandoned) {
		l.exposition.leave(name, s)
		end(left)
	}
	return m
}

func (e *exposition) enter(name string, s *source) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.queues[name]
	if l == nil {
		l = &levels{known: map[int]bool{0: true}}
		e.queues[name] = l
	}
	l.reads = append(l.reads, s)
}

func (e *exposition) leave(name string, s *source) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.queues[name]
	l.reads = slices.DeleteFunc(l.reads, func(other *source) bool { return other == s })
	if len(l.reads) == 0 {
		delete(e.queues, name)
	}
}

// collectDepth shows the depth of the queues of a name by priority. If their order
// knows none, it shows the sum without one, as controller-runtime does for queues that
// have no priorities.
func (e *exposition) collectDepth(out chan<- prometheus.Metric, desc *prometheus.Desc, name string, sum *dto.Metric) {
	depths := e.depths(name)
	if depths == nil {
		out <- reading{desc, withPriority(sum, "", sum.GetGauge().GetValue())}
		return
	}
	for priority, depth := range depths {
		out <- reading{desc, withPriority(sum, priority, float64(depth))}
	}
}

// depths returns the depths by the values of the label.
func (e *exposition) depths(name string) map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.queues[name]
	if l == nil {
		return nil
	}
	var all map[int]int
	for _, s := range l.reads {
		stats, ok := s.read()
		if !ok || stats.DepthByPriority == nil {
			continue
		}
		if all == nil {
			all = make(map[int]int)
		}
		for priority, depth := range stats.DepthByPriority {
			all[priority] += depth
		}
	}
	return l.label(all)
}

// label returns the depths by the values of the label, nil for nil. Of priorities that
// are new, those that are highest get the series that are left.
func (l *levels) label(all map[int]int) map[string]int {
	if all == nil {
		return nil
	}
	labelled := make(map[string]int)
	for _, priority := range slices.Backward(slices.Sorted(maps.Keys(all))) {
		if len(l.known) < maxLevels {
			l.known[priority] = true
		}
		if !l.known[priority] {
			labelled[others] += all[priority]
		}
	}
	for priority := range l.known {
		labelled[strconv.Itoa(priority)] = all[priority]
	}
	return labelled
}

// withPriority returns a gauge with the labels of another and one more. Labels are in
// the order of their names.
func withPriority(of *dto.Metric, priority string, value float64) *dto.Metric {
	labels := append(slices.Clone(of.GetLabel()), &dto.LabelPair{Name: new("priority"), Value: &priority})
	return &dto.Metric{Label: labels, Gauge: &dto.Gauge{Value: &value}}
}
