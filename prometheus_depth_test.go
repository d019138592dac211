package workqueue_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/seed16c08ea7/workqueue"
)

// besideControllerRuntime returns a registry that has controller-runtime's depth, and a
// provider in it.
func besideControllerRuntime() (*prometheus.Registry, *workqueue.PrometheusProvider) {
	r := prometheus.NewRegistry()
	r.MustRegister(prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "workqueue_depth", Help: "Current depth of workqueue by workqueue and priority",
	}, []string{"name", "controller", "priority"}))
	return r, workqueue.NewPrometheusProvider(r, workqueue.PrometheusOptions{})
}

// levelsIn returns the depths by their label.
func levelsIn(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	depths := make(map[string]float64)
	for _, f := range families {
		if f.GetName() != "workqueue_depth" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "priority" {
					depths[label.GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
	}
	return depths
}

func TestDepthByPriorityBesideControllerRuntime(t *testing.T) {
	r, p := besideControllerRuntime()
	levels := func() *workqueue.Typed[string] {
		return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
			Name: "q", MetricsProvider: p, Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{}),
		})
	}
	expect := func(what string, want map[string]float64) {
		t.Helper()
		if got := levelsIn(t, r); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	q := levels()
	expect("empty", map[string]float64{"0": 0})
	q.AddWith(workqueue.AddOptions{Priority: -100}, "a", "b")
	q.Add("c")
	expect("two levels", map[string]float64{"0": 1, "-100": 2})
	second := levels()
	second.AddWith(workqueue.AddOptions{Priority: -100}, "a")
	expect("two queues of the name", map[string]float64{"0": 1, "-100": 3})
	plain := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p})
	plain.Add("a")
	expect("and one without priorities", map[string]float64{"0": 1, "-100": 3, "": 1})
	plain.ShutDown()
	second.ShutDown()
	held, _ := q.Get()
	q.AddWith(workqueue.AddOptions{Priority: 7}, held)
	expect("one held, and added again at a new level", map[string]float64{"0": 0, "-100": 2, "7": 1})
	q.Done(held)
	for range 3 {
		item, _ := q.Get()
		q.Done(item)
	}
	expect("levels that are empty", map[string]float64{"0": 0, "-100": 0, "7": 0})
	q.ShutDown()
	expect("after the shutdown", map[string]float64{})
}

// 25 priorities have a series each, the others one together. What is shown adds up,
// and gets back to zero.
func TestDepthOfMorePrioritiesThanSeries(t *testing.T) {
	r, p := besideControllerRuntime()
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name: "q", MetricsProvider: p, Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{}),
	})
	defer q.ShutDown()
	const items = 40
	for i := 1; i <= items; i++ {
		q.AddWith(workqueue.AddOptions{Priority: i}, fmt.Sprint(i))
	}
	sum := func() (sum float64) {
		for _, depth := range levelsIn(t, r) {
			sum += depth
		}
		return sum
	}
	got := levelsIn(t, r)
	if len(got) != 26 || got["exceeded_cardinality_limit"] != items-25 || got["25"] != 1 || sum() != items {
		t.Errorf("%d series, %v", len(got), got)
	}
	for range items {
		item, _ := q.Get()
		q.Done(item)
	}
	if sum() != 0 || len(levelsIn(t, r)) != 25 {
		t.Errorf("an empty queue has %v", levelsIn(t, r))
	}
}
