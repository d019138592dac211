package workqueue

import "sync/atomic"

// A MetricsProvider makes the metrics of a queue from its name. A queue asks
// for each of them once, when it is constructed, and only if it has a name.
//
// The methods, and those of the metrics they return, are called without a lock
// of the queue held, from whichever goroutine calls the queue: they must be
// safe for concurrent use and may call the queue, except that no metric may
// shut it down. A panic in a metric reaches the caller of the queue; the item
// is then neither lost nor handed out twice.
type MetricsProvider interface {
	// NewDepthMetric returns the gauge of items that are queued or, while they
	// are processed, marked for another run. It goes up once for each Add that
	// is not a duplicate and down once for each Get.
	NewDepthMetric(name string) GaugeMetric
	// NewAddsMetric returns the counter of Adds that were not duplicates.
	NewAddsMetric(name string) CounterMetric
	// NewLatencyMetric returns the histogram of the seconds from the Add of an
	// item to the Get that hands it out.
	NewLatencyMetric(name string) HistogramMetric
	// NewWorkDurationMetric returns the histogram of the seconds from the Get
	// of an item to its Done.
	NewWorkDurationMetric(name string) HistogramMetric
	// NewUnfinishedWorkSecondsMetric returns the gauge of the seconds that the
	// items now being processed have been so, added up.
	NewUnfinishedWorkSecondsMetric(name string) SettableGaugeMetric
	// NewLongestRunningProcessorSecondsMetric returns the gauge of the seconds
	// for which the item held longest has been processed.
	NewLongestRunningProcessorSecondsMetric(name string) SettableGaugeMetric
	// NewRetriesMetric returns the counter of calls of AddAfter.
	NewRetriesMetric(name string) CounterMetric
}

// GaugeMetric is a value that goes up and down by one.
type GaugeMetric interface {
	Inc()
	Dec()
}

// SettableGaugeMetric is a value that is set. It is not a part of
// [GaugeMetric] only for the sake of providers that were written when that
// had no Set.
type SettableGaugeMetric interface {
	Set(float64)
}

// CounterMetric is a count that only goes up.
type CounterMetric interface {
	Inc()
}

// SummaryMetric takes single observations. No queue uses it; it exists because
// programs written for client-go may name it.
type SummaryMetric interface {
	Observe(float64)
}

// HistogramMetric takes single observations, in seconds.
type HistogramMetric interface {
	Observe(float64)
}

// defaultProvider is what SetProvider has set, or nil.
var defaultProvider atomic.Pointer[MetricsProvider]

// SetProvider sets the metrics provider of all queues that are constructed
// from now on without one in their config. Only the first call with a provider
// that is not nil has an effect.
//
// It may be called concurrently with anything. A library should leave it to
// the program and pass a provider in the config instead.
func SetProvider(metricsProvider MetricsProvider) {
	if metricsProvider != nil {
		defaultProvider.CompareAndSwap(nil, &metricsProvider)
	}
}

// providerFor returns the provider for a queue of the given name, or nil if it
// has no metrics. A constructor calls it once, for all its layers: what
// SetProvider sets in the meantime would make only some of the metrics.
func providerFor(name string, configured MetricsProvider) MetricsProvider {
	if name == "" {
		return nil
	}
	if configured != nil {
		return configured
	}
	if global := defaultProvider.Load(); global != nil {
		return *global
	}
	return nil
}

// ForeignMetricsProvider is a metrics provider with metrics of other types:
// what [AdaptMetricsProvider] takes. The interface of client-go is one, as the
// types that its methods return have other names.
type ForeignMetricsProvider[G GaugeMetric, S SettableGaugeMetric, C CounterMetric, H HistogramMetric] interface {
	NewDepthMetric(name string) G
	NewAddsMetric(name string) C
	NewLatencyMetric(name string) H
	NewWorkDurationMetric(name string) H
	NewUnfinishedWorkSecondsMetric(name string) S
	NewLongestRunningProcessorSecondsMetric(name string) S
	NewRetriesMetric(name string) C
}

// AdaptMetricsProvider turns a provider that was written for client-go into one
// for this package, as in
//
//	workqueue.SetProvider(workqueue.AdaptMetricsProvider(provider))
//
// The type parameters follow from the provider. It is for a provider that the program
// has in its hands. Those of component-base and of controller-runtime are not
// exported. In their registries, and in any other, [NewPrometheusProvider] shows the
// same series and more, at a lower price.
//
// It panics if the provider is nil.
func AdaptMetricsProvider[G GaugeMetric, S SettableGaugeMetric, C CounterMetric, H HistogramMetric](p ForeignMetricsProvider[G, S, C, H]) MetricsProvider {
	if p == nil {
		panic("workqueue: metrics provider is nil")
	}
	return adapted[G, S, C, H]{p}
}

type adapted[G GaugeMetric, S SettableGaugeMetric, C CounterMetric, H HistogramMetric] struct {
	provider ForeignMetricsProvider[G, S, C, H]
}

func (a adapted[G, S, C, H]) NewDepthMetric(name string) GaugeMetric {
	return a.provider.NewDepthMetric(name)
}

func (a adapted[G, S, C, H]) NewAddsMetric(name string) CounterMetric {
	return a.provider.NewAddsMetric(name)
}

func (a adapted[G, S, C, H]) NewLatencyMetric(name string) HistogramMetric {
	return a.provider.NewLatencyMetric(name)
}

func (a adapted[G, S, C, H]) NewWorkDurationMetric(name string) HistogramMetric {
	return a.provider.NewWorkDurationMetric(name)
}

func (a adapted[G, S, C, H]) NewUnfinishedWorkSecondsMetric(name string) SettableGaugeMetric {
	return a.provider.NewUnfinishedWorkSecondsMetric(name)
}

func (a adapted[G, S, C, H]) NewLongestRunningProcessorSecondsMetric(name string) SettableGaugeMetric {
	return a.provider.NewLongestRunningProcessorSecondsMetric(name)
}

func (a adapted[G, S, C, H]) NewRetriesMetric(name string) CounterMetric {
	return a.provider.NewRetriesMetric(name)
}

// A StateProvider reads the state of a queue when somebody asks for the state. Other providers
// are told of each change. [NewPrometheusProvider] returns a StateProvider.
//
// A queue that is read has no goroutine for its gauges and calls no foreign code when an item
// passes. The numbers are exact and agree with each other.
//
// A config and [SetProvider] take a [MetricsProvider]. A StateProvider of your own becomes
// both if it embeds [NoMetrics]. The queue then uses none of the methods of MetricsProvider.
type StateProvider interface {
	// NewQueue is called once for each named queue, at the end of its construction. Layers
	// that were constructed apart, a queue handed to the next layer, are queues of their own
	// here. They usually have the same name.
	//
	// NewQueue, and End of the result, are called without a lock of the queue held.
	NewQueue(source QueueSource) QueueMetrics
}

// A QueueSource is a queue that a [StateProvider] can read.
type QueueSource struct {
	Name   string
	Layers QueueLayers

	// Read returns the state of the layers at one instant, except for ages and groups. Read
	// takes the locks of the queue. Any goroutine may call Read at any time, but a method of
	// a [Queue] must not.
	//
	// The time is proportional to the number of items in flight. A queue with a [Queue] of
	// its own takes another 4 ns for each queued item.
	//
	// Read does not keep the queue in memory. Read reports false when the queue is gone.
	Read func() (stats QueueStats, ok bool)
}

// NoMetrics is a [MetricsProvider] whose metrics measure nothing. Embed NoMetrics in a
// [StateProvider], so that a config takes the provider.
type NoMetrics struct{}

// noMetric is a metric of each kind.
type noMetric struct{}

func (noMetric) Inc()            {}
func (noMetric) Dec()            {}
func (noMetric) Set(float64)     {}
func (noMetric) Observe(float64) {}

// NewDepthMetric returns a metric that measures nothing.
func (NoMetrics) NewDepthMetric(string) GaugeMetric { return noMetric{} }

// NewAddsMetric returns a metric that measures nothing.
func (NoMetrics) NewAddsMetric(string) CounterMetric { return noMetric{} }

// NewLatencyMetric returns a metric that measures nothing.
func (NoMetrics) NewLatencyMetric(string) HistogramMetric { return noMetric{} }

// NewWorkDurationMetric returns a metric that measures nothing.
func (NoMetrics) NewWorkDurationMetric(string) HistogramMetric { return noMetric{} }

// NewUnfinishedWorkSecondsMetric returns a metric that measures nothing.
func (NoMetrics) NewUnfinishedWorkSecondsMetric(string) SettableGaugeMetric { return noMetric{} }

// NewLongestRunningProcessorSecondsMetric returns a metric that measures nothing.
func (NoMetrics) NewLongestRunningProcessorSecondsMetric(string) SettableGaugeMetric {
	return noMetric{}
}

// NewRetriesMetric returns a metric that measures nothing.
func (NoMetrics) NewRetriesMetric(string) CounterMetric { return noMetric{} }

// QueueLayers says which of the fields of [QueueStats] are in use.
type QueueLayers uint8

// The layers of a queue.
const (
	LayerFIFO   QueueLayers = 1 << iota // a Typed
	LayerDelays                         // a TypedDelaying, with what is above it
)

// QueueMetrics are what a [StateProvider] says to a queue.
type QueueMetrics struct {
	// Buckets are the bounds by which the histograms count, in seconds and in
	// increasing order.
	Buckets []float64

	// End is called once, if it is not nil: by the shutdown, after its drain if it has
	// one, or some time after the garbage collection of a queue that was not shut
	// down. Its panic reaches the caller of the shutdown. The queue stays shut down.
	End func(Abandoned)
}

// Abandoned is how many items a queue had when it ended: those that it was not drained
// of, and all that waited for their time. Workers may still finish them.
type Abandoned struct {
	Queued, InFlight, Waiting int
}
