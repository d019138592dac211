//go:build !workqueue_noprometheus

package workqueue

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed16c08ea7/workqueue/internal/histogram"
	"github.com/seed16c08ea7/workqueue/internal/registry"
)

const subsystem = "workqueue"

// A PrometheusProvider exposes queues to Prometheus: the series of Kubernetes, by their names,
// and further series. docs/metrics.md lists all. A PrometheusProvider is a [StateProvider], so
// no queue has a goroutine for its metrics.
//
// The zero value is not usable: call [NewPrometheusProvider]. All methods may be called concurrently. The
// methods of [MetricsProvider] are those of [NoMetrics]: a queue of this package calls NewQueue instead.
//
// The series of a queue are there from its construction to its end, see [QueueMetrics]. Queues
// of the same name share their series: sums, the greatest of the longest times, one histogram
// for all. Counts go on until the last of these queues ends, and longer with KeepCounts. If two live
// queues share a series, [slog.Default] gets a warning, as a shared name is mostly a mistake.
type PrometheusProvider struct {
	NoMetrics

	// Immutable after construction.

	options    PrometheusOptions
	bounds     []float64 // of the classic buckets
	rows       []seriesRow
	histograms []histogramRow
	abandoned  *prometheus.CounterVec
	shared     *registry.Shared // nil if the registry has no series of client-go's queues

	// Lock order: mu, a queue. A queue calls the provider without its lock.
	mu     sync.Mutex
	queues map[string]*series // guarded by mu
}

var (
	_ StateProvider   = (*PrometheusProvider)(nil)
	_ MetricsProvider = (*PrometheusProvider)(nil)
)

// PrometheusOptions are the options of a [PrometheusProvider]. The zero value is
// valid.
type PrometheusOptions struct {
	// Buckets are the upper bounds of the classic buckets of all histograms, in
	// seconds and increasing order. nil gives the buckets of Kubernetes, 10 ns to 1000 s in
	// decades. Empty Buckets, not nil, give native histograms alone.
	Buckets []float64

	// ConstLabels are added to all series.
	ConstLabels prometheus.Labels

	// ControllerLabel adds the label controller with the name of the queue, for dashboards of
	// controller-runtime, which has both labels. In a registry with the series of
	// controller-runtime the label is always there.
	ControllerLabel bool

	// KeepCounts keeps the counters and histograms of a name after its last queue has ended, so
	// that the scrapes of a process that is about to end show what a drain has done. The gauges
	// end in any case, and with them the alerts and queries that look for live queues. A later
	// queue of the name goes on from the counts. A name then keeps up to 2 KB, so leave
	// KeepCounts false if the program makes new names all the time.
	KeepCounts bool
}

// registering is held while a provider registers. No other caller must get the provider before
// the registration is complete.
var registering sync.Mutex

// NewPrometheusProvider returns a provider whose series are in the registry of the
// registerer. A second call for a registry returns the same provider if the options are equal,
// and panics if not. With other values of constant labels, a registry has several providers.
//
// The registry may have the series of client-go's queues already, as have the registries of
// controller-runtime, metrics.Registry, and of component-base, legacyregistry.Registerer(). Then
// the provider shows its queues in the same families, with the same help texts and labels, and
// leaves the other series alone. Our further series stand beside them. If a queue of client-go
// has the same name, our queue is not shown in these seven families, and [slog.Default] gets a
// warning.
//
// The help texts depend on the versions of both packages. The provider knows the texts of many
// versions, and reads others from a series if the registry is a [prometheus.Gatherer], as both
// registries are.
//
// NewPrometheusProvider panics if the registerer is nil or refuses the series, if the registry
// has other series with one of the names, if the buckets are not finite and increasing, and if ConstLabels has the
// label of buckets, le.
func NewPrometheusProvider(registerer prometheus.Registerer, options PrometheusOptions) *PrometheusProvider {
	if registerer == nil {
		panic("workqueue: prometheus registerer is nil")
	}
	if !histogram.CanBeBounds(options.Buckets) {
		panic(fmt.Sprint("workqueue: buckets are not finite and increasing: ", options.Buckets))
	}
	if _, ok := options.ConstLabels["le"]; ok {
		panic("workqueue: ConstLabels has the label le, which is that of the buckets")
	}
	options.Buckets, options.ConstLabels = slices.Clone(options.Buckets), maps.Clone(options.ConstLabels)
	p := &PrometheusProvider{
		options: options,
		queues:  make(map[string]*series),
		abandoned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "abandoned_total", ConstLabels: options.ConstLabels,
			Help: "Items that queues still had when they were shut down, by their state.",
		}, []string{"state"}),
	}
	p.abandon(Totals{}) // Makes the three series: an alert needs them while they are 0.
	p.describe(nil)
	registering.Lock()
	defer registering.Unlock()
	p, err := p.register(registerer)
	if err != nil {
		panic(fmt.Sprint("workqueue: cannot register the metrics: ", err))
	}
	return p
}

// describe decides on the names and texts of the series, before the provider has a queue.
func (p *PrometheusProvider) describe(shared map[string]registry.Family) {
	d := describer{p.options, shared}
	p.bounds = p.options.Buckets
	if p.bounds == nil {
		p.bounds = prometheus.ExponentialBuckets(10e-9, 10, d.decades())
	}
	p.rows, p.histograms = d.rows(), d.histograms()
}

// register registers the provider, and returns the provider. If the registry has a provider
// with the same options, register returns the old provider.
//
// The counter of abandoned items goes first. No other package has its name: the registry
// refuses the counter only if the registry has a provider of this package.
func (p *PrometheusProvider) register(registerer prometheus.Registerer) (*PrometheusProvider, error) {
	c := abandonedCollector{p.abandoned, p}
	if refused := registerer.Register(c); refused != nil {
		var taken prometheus.AlreadyRegisteredError
		if errors.As(refused, &taken) {
			if first, ok := taken.ExistingCollector.(abandonedCollector); ok && first.provider.options.equal(p.options) {
				return first.provider, nil
			}
		}
		return nil, fmt.Errorf("the registry has a provider of this package with other options: %w", refused)
	}
	if err := p.registerSeries(registerer); err != nil {
		registerer.Unregister(c)
		return nil, err
	}
	return p, nil
}

// An abandonedCollector is the counter of abandoned items, by which a registry knows the
// provider.
type abandonedCollector struct {
	*prometheus.CounterVec
	provider *PrometheusProvider
}

func (o PrometheusOptions) equal(p PrometheusOptions) bool {
	return o.ControllerLabel == p.ControllerLabel && o.KeepCounts == p.KeepCounts && maps.Equal(o.ConstLabels, p.ConstLabels) &&
		(o.Buckets == nil) == (p.Buckets == nil) && slices.Equal(o.Buckets, p.Buckets)
}

// registerSeries registers the series of queues, alone or together with the series of
// client-go's queues.
//
// The provider tries to be alone first, except in a registry of component-base. There the
// vectors are made only at their first use, and the registry would take our series before.
func (p *PrometheusProvider) registerSeries(registerer prometheus.Registerer) error {
	shared := clientGo.Look(registerer)
	var refused error
	if !shared.Late {
		if refused = registerer.Register(collector{p}); refused == nil {
			return nil
		}
	}
	if err := shared.Find(); err != nil {
		return fmt.Errorf("%w to be that of client-go's queues: unregister it, or give the provider a registry of its own "+
			"that is served at a path of its own, or pass the provider of that series to AdaptMetricsProvider", err)
	}
	if len(shared.Families) == 0 {
		return refused
	}
	p.describe(shared.Families)
	p.shared = shared
	return registerer.Register(sharedCollector{collector{p}})
}

// NewQueue implements [StateProvider].
func (p *PrometheusProvider) NewQueue(queue QueueSource) QueueMetrics {
	src := &seriesSource{read: queue.Read}
	if queue.Layers&LayerQueue != 0 {
		src.parts |= partQueue | partState
	}
	if queue.Layers&LayerDelays != 0 {
		src.parts |= partRetries | partDelays
	}
	name := validLabel(queue.Name)
	if p.add(name, src) {
		slog.Default().Warn("workqueue: queues of the same name share their metrics, as an earlier one has not ended", "queue", name)
	}
	return QueueMetrics{Buckets: p.bounds, End: func(left Totals) {
		p.remove(name, src)
		p.abandon(left)
	}}
}

// validLabel replaces bytes that are invalid in a label: one bad name fails the scrape of
// all metrics.
func validLabel(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// add adds a source. It reports, once for a name, that two sources have the same part. Their
// numbers are added up, perhaps by mistake.
func (p *PrometheusProvider) add(name string, src *seriesSource) (twice bool) {
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

// remove removes a source, and with the last source of the name the series, except counts that the
// options keep. Until then the series keep the counts. A sum that falls is a restart to Prometheus:
// the rest of the sum would count as new events.
func (p *PrometheusProvider) remove(name string, src *seriesSource) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.queues[name]
	s.remove(src)
	if len(s.sources) == 0 && !p.options.KeepCounts {
		delete(p.queues, name)
	}
	if len(p.queues) == 0 { // A map never gives back memory.
		p.queues = make(map[string]*series)
	}
}

// abandon counts the items left in a queue. The series of a name end with the queue, so this
// counter has no name.
func (p *PrometheusProvider) abandon(left Totals) {
	p.abandoned.WithLabelValues("queued").Add(float64(left.QueuedTotal))
	p.abandoned.WithLabelValues("in_flight").Add(float64(left.InFlightTotal))
	p.abandoned.WithLabelValues("waiting").Add(float64(left.WaitingTotal))
}

// What follows reads the queues of a provider. Queues of the same name share their series, and so
// do the layers of a queue that were made apart. A series is a sum over all sources. The counts
// of a source stay in the sum while other sources of the name live, as a counter must not fall.

// A seriesPart says which series a source has.
type seriesPart uint8

const (
	partQueue   seriesPart = 1 << iota // the series of Kubernetes, except the retries
	partRetries                        // the retries of Kubernetes
	partState                          // further series of a Typed
	partDelays                         // further series of a delaying queue
)

// series are the series of one name, for which there may be several queues. The provider's lock
// guards the fields. ever has the parts of ended sources too: their series stay as long as
// another source does, with the counts of past.
type series struct {
	sources []*seriesSource
	ever    seriesPart // the parts of all sources so far
	warned  bool
	created time.Time
	past    QueueStats // the counts of ended sources
}

// A seriesSource is a queue, or a layer of a queue. read takes the locks of the queue. It has a
// weak pointer to the queue, so a queue is kept alive for the time of a scrape only.
type seriesSource struct {
	parts seriesPart
	read  func() (QueueStats, bool)
	last  QueueStats // the counts when read was last called
}

// parts returns the parts of the live sources. The provider warns of a second source with one of
// these parts, as both share their series.
func (s *series) parts() (all seriesPart) {
	for _, src := range s.sources {
		all |= src.parts
	}
	return all
}

// total returns the stats of all sources together. Each source is read in a critical section of
// its own, so the sum is of several instants.
func (s *series) total() QueueStats {
	sum := s.past
	for _, src := range s.sources {
		sum.Merge(src.stats())
	}
	return sum
}

// stats reads a source, which takes the lock of its queue. A queue dropped without a shutdown
// can be gone before its source is removed. Then stats returns the last counts.
func (src *seriesSource) stats() QueueStats {
	now, ok := src.read()
	if !ok {
		return src.last
	}
	src.last = now.counted()
	return now
}

// remove removes a source and keeps its counts. Since the last scrape the queue may have
// counted, so remove reads the source once more.
func (s *series) remove(src *seriesSource) {
	src.stats()
	s.past.Merge(src.last)
	s.sources = slices.DeleteFunc(s.sources, func(other *seriesSource) bool { return other == src })
}

// A collector has the methods of a prometheus.Collector. The provider lacks these methods, so
// that a caller cannot register the provider a second time.
type collector struct{ *PrometheusProvider }

// Describe implements [prometheus.Collector], without a lock: the rows never change after the
// construction of the provider.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, r := range c.rows {
		ch <- r.desc
	}
	for _, r := range c.histograms {
		ch <- r.desc
	}
}

// Collect implements [prometheus.Collector]. It makes all metrics before it sends the first one.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.read(nil) { // With the lock free, as the receiver may block.
		ch <- m
	}
}

// read makes the metrics of all names with the lock of the provider held, as the map must not
// change meanwhile. Constructors and shutdowns of queues wait for the scrape. Other calls wait
// only while their own queue is read. Lock order: the provider, a queue.
func (c collector) read(scrape *registry.Scrape) (metrics []prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, s := range c.queues {
		metrics = c.appendSeries(metrics, s, name, scrape)
	}
	return metrics
}

// appendSeries leaves out series that no queue of the name has had: a Typed shows no delays of 0.
// Series of ended queues stay while the name lives, or rates would end with them. A name without a
// live queue has counts alone: a depth of 0 would say that there is a queue.
func (c collector) appendSeries(metrics []prometheus.Metric, s *series, queue string, scrape *registry.Scrape) []prometheus.Metric {
	total := s.total()
	for _, r := range c.rows {
		ended := r.kind == prometheus.GaugeValue && len(s.sources) == 0
		if s.ever&r.part != 0 && !ended && !scrape.Omits(r.name, queue) {
			metrics = r.append(metrics, total, s.created, queue)
		}
	}
	for _, r := range c.histograms {
		if s.ever&r.part != 0 && !scrape.Omits(r.name, queue) {
			metrics = append(metrics, r.metric(c.bounds, total, s.created, queue))
		}
	}
	return metrics
}

// A sharedCollector is the collector in a registry with the series of client-go's queues. It
// describes nothing, and leaves out series of the registry itself.
type sharedCollector struct{ collector }

// Describe implements [prometheus.Collector].
func (sharedCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c sharedCollector) Collect(ch chan<- prometheus.Metric) {
	scrape := c.shared.Scrape()
	for _, m := range c.read(scrape) {
		ch <- m
	}
	for _, series := range scrape.Changed {
		slog.Default().Warn("workqueue: the registry has got a series of the same name with another text, ours is left out", "series", series)
	}
	for _, name := range scrape.Left() {
		slog.Default().Warn("workqueue: the registry has series of another queue of this name, ours are left out", "queue", name)
	}
}
