package controllerruntime

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/seed16c08ea7/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// An exposition shows queues in a registry that has vectors of the same names. It reads
// them at each scrape, through a provider of the library that has a registry of its
// own, and gives what it reads the help of the vectors. So the series are exact, and
// cost the queue nothing beyond the times that it keeps. To set the vectors at each
// change would make a cycle twice as long.
type exposition struct {
	provider *workqueue.PrometheusProvider
	private  *prometheus.Registry // has nothing but provider
	shared   map[string]vector    // of the registry, by the names of the series

	// mu comes before the locks of a queue, and is not held while one is registered.
	mu     sync.Mutex
	queues map[string]*levels // guarded by mu, by the names of queues
	warned map[string]bool    // guarded by mu; names of queues, see collectFamily
}

// A vector has what controller-runtime knows of one series.
type vector struct {
	collector
	desc *prometheus.Desc
}

type collector interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

// newExposition makes an exposition and registers it.
func newExposition(r prometheus.Registerer) (*exposition, error) {
	e := &exposition{
		private: prometheus.NewRegistry(),
		shared:  make(map[string]vector),
		queues:  make(map[string]*levels),
		warned:  make(map[string]bool),
	}
	e.provider = workqueue.NewPrometheusProvider(e.private, workqueue.WithControllerLabel())
	for name, v := range vectors() {
		live, err := takeUp(r, v)
		if err != nil {
			return nil, err
		}
		c, ok := live.(collector)
		if !ok {
			return nil, fmt.Errorf("the series %s is a %T and no vector", name, live)
		}
		e.shared[prometheus.BuildFQName("", metrics.WorkQueueSubsystem, name)] = vector{c, descOf(c)}
	}
	return e, r.Register(e)
}

// descOf returns the one descriptor of a vector.
func descOf(c prometheus.Collector) *prometheus.Desc {
	descs := make(chan *prometheus.Desc, 1)
	c.Describe(descs)
	return <-descs
}

// providerFor makes room for a queue: the registry may have series of the same labels
// of a queue that is gone, as controller-runtime leaves them there for ever.
func (e *exposition) providerFor(name string) workqueue.MetricsProvider {
	for _, v := range e.shared {
		v.DeletePartialMatch(prometheus.Labels{"name": name})
	}
	return levelled{e.provider, e}
}

// Describe implements [prometheus.Collector]. There is nothing, which is what lets the
// registry accept the exposition beside the vectors.
func (e *exposition) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (e *exposition) Collect(out chan<- prometheus.Metric) {
	families, err := e.private.Gather()
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		return
	}
	for _, f := range families {
		e.collectFamily(out, f)
	}
}

// collectFamily leaves out a queue whose name controller-runtime shows a queue of: of two
// series with the same labels the registry makes an error, and the metrics server of
// controller-runtime refuses the whole scrape.
func (e *exposition) collectFamily(out chan<- prometheus.Metric, f *dto.MetricFamily) {
	v, shared := e.shared[f.GetName()]
	if !shared {
		v.desc = prometheus.NewDesc(f.GetName(), f.GetHelp(), nil, nil)
	}
	taken := v.names()
	for _, m := range f.GetMetric() {
		switch name := label(m, "name"); {
		case taken[name]:
			e.warn(name)
		case f.GetName() == depthName:
			e.collectDepth(out, v.desc, name, m)
		default:
			out <- reading{v.desc, m}
		}
	}
}

// names returns the names of the queues that controller-runtime shows.
func (v vector) names() map[string]bool {
	if v.collector == nil {
		return nil
	}
	metrics := make(chan prometheus.Metric)
	go func() {
		defer close(metrics)
		v.Collect(metrics)
	}()
	names := make(map[string]bool)
	for m := range metrics {
		var d dto.Metric
		if m.Write(&d) == nil {
			names[label(&d, "name")] = true
		}
	}
	return names
}

// warn says once that a queue is not shown.
func (e *exposition) warn(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.warned[name] {
		e.warned[name] = true
		log.Log.WithName("workqueue").Info("A queue of controller-runtime or client-go has the same name. "+
			"Its metrics are shown, and not those of this one.", "name", name)
	}
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// A reading is a metric that was read already.
type reading struct {
	desc   *prometheus.Desc
	metric *dto.Metric
}

// Desc implements [prometheus.Metric].
func (r reading) Desc() *prometheus.Desc { return r.desc }

// Write implements [prometheus.Metric].
func (r reading) Write(out *dto.Metric) error {
	out.Label = r.metric.Label
	out.Gauge, out.Counter, out.Histogram = r.metric.Gauge, r.metric.Counter, r.metric.Histogram
	return nil
}
