package controllerruntime_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/compat/adapted"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// provider returns controller-runtime's WorkqueueMetricsProvider. The type is
// internal, and its default for the options of a queue is a way to a value.
func provider() clientgo.MetricsProvider {
	var opts *priorityqueue.Opts[string]
	priorityqueue.New("unused", func(o *priorityqueue.Opts[string]) { opts = o }).ShutDown()
	return opts.MetricProvider
}

func TestAdaptedProviderOfControllerRuntime(t *testing.T) {
	adapted.Test(t, metrics.Registry, provider())
}

// A queue from before any SetProvider, as in a program that changes the import line alone.
var changedLineAlone = adapted.Ours("changed line alone", nil)

// controller-runtime gives its provider to client-go's queues alone, so a changed import line takes
// the metrics away. A program that holds a provider for client-go passes that provider on.
func TestChangedImportLineTakesMetricsAway(t *testing.T) {
	provider := provider()
	workqueue.SetProvider(workqueue.AdaptMetricsProvider(provider))
	before, after := adapted.ClientGo("before the change", nil), adapted.Ours("with SetProvider", nil)
	defer before.ShutDown()
	defer after.ShutDown()
	changedLineAlone.Add("a")
	for name, want := range map[string]int{"before the change": 7, "changed line alone": 0, "with SetProvider": 7} {
		if got := adapted.Series(t, metrics.Registry, name); len(got) != want {
			t.Errorf("%s: %d series, want %d: %v", name, len(got), want, got)
		}
	}
}

// The shipped provider in the registry of controller-runtime itself: the seven series that a queue of
// client-go has there, with the same types, labels, values, classic and native buckets, those of its priority
// queue beside them, and ours go with the queue.
func TestProviderInTheRegistryOfControllerRuntime(t *testing.T) {
	p := workqueue.NewPrometheusProvider(metrics.Registry, workqueue.PrometheusOptions{})
	synctest.Test(t, func(t *testing.T) {
		priority := priorityqueue.New[string]("of controller-runtime")
		defer priority.ShutDown()
		theirs, ours := adapted.ClientGo("beside", provider()), adapted.Ours("ours beside", p)
		adapted.Workload(theirs, ours, func(moment string) {
			mine := adapted.Series(t, metrics.Registry, "ours beside")
			if len(mine) != 15 {
				t.Errorf("%s: %d series, want 15", moment, len(mine))
			}
			adapted.Compare(t, moment, adapted.Series(t, metrics.Registry, "beside"), mine)
		})
	})
	if left := adapted.Series(t, metrics.Registry, "ours beside"); len(left) > 0 {
		t.Errorf("after the shutdown these are left: %v", left)
	}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "workqueue_abandoned_total" && len(f.GetMetric()) == 3 {
			return
		}
	}
	t.Error("abandoned_total is missing")
}

// Prometheus' linter likes the series of all set-ups.
func TestLint(t *testing.T) {
	for name, options := range map[string]workqueue.PrometheusOptions{
		"default": {},
		"all": {Buckets: []float64{1, 10}, ControllerLabel: true,
			ConstLabels: prometheus.Labels{"cluster": "east"}},
	} {
		r := prometheus.NewPedanticRegistry()
		q := adapted.Ours("q", workqueue.NewPrometheusProvider(r, options))
		q.Add("a")
		q.Get()
		problems, err := testutil.GatherAndLint(r)
		if err != nil || len(problems) > 0 {
			t.Errorf("%s: %v, %v", name, problems, err)
		}
		n, err := testutil.GatherAndCount(r)
		if want := 15 + 3; n != want || err != nil {
			t.Errorf("%s: %d series, %v, want %d", name, n, err, want)
		}
		q.ShutDown()
	}
	// The control: the linter is at work.
	r := prometheus.NewRegistry()
	r.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "workqueue_adds"}))
	if problems, err := testutil.GatherAndLint(r); len(problems) == 0 || err != nil || !strings.Contains(problems[0].Metric, "adds") {
		t.Errorf("the linter says %v, %v of a counter without _total and help", problems, err)
	}
}
