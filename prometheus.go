package workqueue

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A PrometheusProvider is a [MetricsProvider] that exposes queues to
// Prometheus: the series of Kubernetes, by their names, and those which the
// package comment lists beside them. It is a [StateProvider], so that no queue
// has a goroutine for its metrics.
//
// All methods may be called concurrently. Those that make single metrics serve
// queues that are not of this package.
//
// The series of a queue are there from its construction to its end, see
// [QueueMetrics]. Queues of one name are one set of series: sums, the greatest
// of the longest times, and one histogram for all; counts go on when one of
// them ends and are gone when the last does. If two of them do the same job,
// [slog.Default] gets a warning, as that is rarely intended.
type PrometheusProvider struct {
	// Immutable after construction.

	options    prometheusOptions
	rows       []row
	histograms []histogramRow
	results    *prometheus.Desc
	abandoned  *prometheus.CounterVec

	// mu comes before the locks of a queue, which calls the provider without.
	mu     sync.Mutex
	queues map[string]*series // guarded by mu
}

// A PrometheusOption changes what [NewPrometheusProvider] returns.
type PrometheusOption func(*prometheusOptions)

type prometheusOptions struct {
	buckets    []float64
	constant   prometheus.Labels
	controller bool
}

// WithBuckets sets the upper bounds of the classic buckets of all histograms,
// in seconds and increasing order. Without any there are native histograms
// alone. The default is that of Kubernetes, 10 ns to 1000 s in decades.
func WithBuckets(bounds ...float64) PrometheusOption {
	return func(o *prometheusOptions) { o.buckets = append([]float64{}, bounds...) }
}

// WithConstLabels adds labels to all series.
func WithConstLabels(labels prometheus.Labels) PrometheusOption {
	return func(o *prometheusOptions) { o.constant = labels }
}

// WithControllerLabel adds the label controller with the name of the queue, as
// controller-runtime has it beside the label name, for dashboards that were
// written for it.
func WithControllerLabel() PrometheusOption {
	return func(o *prometheusOptions) { o.controller = true }
}

// NewPrometheusProvider returns a provider whose series are in the registry of
// the registerer. There can be one provider for each registry, unless they
// differ in the values of their constant labels, and none beside metrics of
// the same names: in the registries of controller-runtime and of Kubernetes'
// component-base these exist already, see [AdaptMetricsProvider].
//
// It panics if the registerer is nil or refuses the series, and if the buckets
// are not finite and increasing.
func NewPrometheusProvider(registerer prometheus.Registerer, options ...PrometheusOption) *PrometheusProvider {
	if registerer == nil {
		panic("workqueue: prometheus registerer is nil")
	}
	o := prometheusOptions{buckets: prometheus.ExponentialBuckets(10e-9, 10, 12)}
	for _, option := range options {
		option(&o)
	}
	checkBuckets(o.buckets)
	p := &PrometheusProvider{
		options:    o,
		rows:       o.rows(),
		histograms: o.histograms(),
		results:    o.resultsDesc(),
		queues:     make(map[string]*series),
		abandoned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "abandoned_total", ConstLabels: o.constant,
			Help: "Items that queues still had when they were shut down, by their state.",
		}, []string{"state"}),
	}
	p.abandon(Abandoned{}) // Makes the three series: an alert needs them while they are 0.
	if err := registerer.Register(collector{p}); err != nil {
		panic(fmt.Sprint("workqueue: cannot register the metrics: ", err))
	}
	return p
}

func checkBuckets(bounds []float64) {
	for i, bound := range bounds {
		if math.IsInf(bound, 0) || math.IsNaN(bound) || i > 0 && bound <= bounds[i-1] {
			panic(fmt.Sprint("workqueue: buckets are not finite and increasing: ", bounds))
		}
	}
}

// labels returns the variable labels, which all have the queue's name for a
// value.
func (o *prometheusOptions) labels() []string {
	if o.controller {
		return []string{"name", "controller"}
	}
	return []string{"name"}
}

// values returns the values of labels.
func (o *prometheusOptions) values(name string) []string {
	if o.controller {
		return []string{name, name}
	}
	return []string{name}
}

// NewQueueMetrics implements [StateProvider].
func (p *PrometheusProvider) NewQueueMetrics(name string, layers QueueLayers, read func() (QueueStats, bool)) QueueMetrics {
	src := &source{read: read}
	if layers&LayerFIFO != 0 {
		src.parts |= partQueue | partState
	}
	if layers&LayerDelays != 0 {
		src.parts |= partRetries | partDelays
	}
	name = validLabel(name)
	if p.add(name, src) {
		slog.Default().Warn("workqueue: queues of the same name share their metrics", "name", name)
	}
	return QueueMetrics{Buckets: p.options.buckets, End: func(left Abandoned) {
		p.remove(name, src)
		p.abandon(left)
	}}
}

// validLabel replaces what cannot stand in a label: one bad name fails the scrape of
// all metrics.
func validLabel(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// add adds a source. It reports, once for a name, that two sources have the same part:
// their numbers are added up, which may not be what was meant.
func (p *PrometheusProvider) add(name string, src *source) (twice bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.seriesLocked(name)
	twice = s.parts()&src.parts != 0 && !s.warned
	s.warned = s.warned || twice
	s.sources = append(s.sources, src)
	s.ever |= src.parts
	return twice
}

func (p *PrometheusProvider) seriesLocked(name string) *series {
	s := p.queues[name]
	if s == nil {
		s = &series{created: time.Now()}
		p.queues[name] = s
	}
	return s
}

// remove removes a source, and with the last one the series. Until then they keep
// what it has counted. Prometheus takes a sum that falls for a restart, and would
// count all that is left of it as new events.
func (p *PrometheusProvider) remove(name string, src *source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.queues[name]
	s.drop(src)
	if len(s.sources) == 0 {
		delete(p.queues, name)
	}
	if len(p.queues) == 0 { // A map never gives back what it has had in it.
		p.queues = make(map[string]*series)
	}
}

// abandon counts what a queue has left. It is not part of the series of a name, which
// end with the queue.
func (p *PrometheusProvider) abandon(left Abandoned) {
	p.abandoned.WithLabelValues("queued").Add(float64(left.Queued))
	p.abandoned.WithLabelValues("in_flight").Add(float64(left.InFlight))
	p.abandoned.WithLabelValues("waiting").Add(float64(left.Waiting))
}
