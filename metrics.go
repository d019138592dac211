package workqueue

import "sync/atomic"

// A MetricsProvider makes the metrics of a queue from its name. The constructor of a queue
// asks for each metric once. A queue without a name has no metrics.
//
// The methods of providers and metrics are called without a lock of the queue held, by any
// goroutine that calls the queue. So they must be safe for concurrent use. They may call the
// queue, but a metric must not shut the queue down. A panic in a metric reaches the caller of
// the queue. The item is then neither lost nor handed out twice.
type MetricsProvider interface {
	// NewDepthMetric returns the gauge of items in the queue, and of held items that are
	// marked for another run. The gauge goes up once for each Add, unless the item is a
	// duplicate, and down once for each Get.
	NewDepthMetric(name string) GaugeMetric
	// NewAddsMetric returns the counter of Adds without the duplicates.
	NewAddsMetric(name string) CounterMetric
	// NewLatencyMetric returns the histogram of the seconds from the Add of an
	// item to its Get.
	NewLatencyMetric(name string) HistogramMetric
	// NewWorkDurationMetric returns the histogram of the seconds from the Get
	// of an item to its Done.
	NewWorkDurationMetric(name string) HistogramMetric
	// NewUnfinishedWorkSecondsMetric returns the gauge of the seconds for which all held
	// items have been processed, added up.
	NewUnfinishedWorkSecondsMetric(name string) SettableGaugeMetric
	// NewLongestRunningProcessorSecondsMetric returns the gauge of the seconds
	// for which the item held longest has been processed.
	NewLongestRunningProcessorSecondsMetric(name string) SettableGaugeMetric
	// NewRetriesMetric returns the counter of adds by AddAfter, by AddRateLimited, and by AddWith with a
	// positive After or with RateLimited. [Run] counts each failure that it retries, and each
	// [RequeueAfter], [Requeue] and [DeferFor]. Reschedule and Debounce do not count.
	NewRetriesMetric(name string) CounterMetric
}

// GaugeMetric is a value that goes up and down by 1.
type GaugeMetric interface {
	Inc()
	Dec()
}

// SettableGaugeMetric is a value with Set. client-go has kept Set apart from [GaugeMetric] for
// the sake of older providers.
type SettableGaugeMetric interface {
	Set(float64)
}

// CounterMetric is a count, which never falls.
type CounterMetric interface {
	Inc()
}

// SummaryMetric takes single observations. No queue uses the type. Programs for client-go may
// name the type, and so it exists.
type SummaryMetric interface {
	Observe(float64)
}

// HistogramMetric takes single observations, in seconds.
type HistogramMetric interface {
	Observe(float64)
}

// defaultProvider is the provider of SetProvider, or nil.
var defaultProvider atomic.Pointer[MetricsProvider]

// SetProvider sets the metrics provider for configs without a MetricsProvider. The provider
// holds for all queues constructed from now on. The first call counts: later calls, and calls
// with nil, have no effect.
//
// SetProvider may be called concurrently with all else. A library should leave SetProvider to
// the program, and pass a provider in the config.
func SetProvider(metricsProvider MetricsProvider) {
	if metricsProvider != nil {
		defaultProvider.CompareAndSwap(nil, &metricsProvider)
	}
}

// providerFor returns the provider for a queue of the given name, or nil for a queue without
// metrics. A constructor calls providerFor once for all its layers. Otherwise a SetProvider in
// the meantime would make only some of the metrics.
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

// foreignMetricsProvider is a metrics provider whose methods return types of another package,
// such as client-go's provider.
type foreignMetricsProvider[G GaugeMetric, S SettableGaugeMetric, C CounterMetric, H HistogramMetric] interface {
	NewDepthMetric(name string) G
	NewAddsMetric(name string) C
	NewLatencyMetric(name string) H
	NewWorkDurationMetric(name string) H
	NewUnfinishedWorkSecondsMetric(name string) S
	NewLongestRunningProcessorSecondsMetric(name string) S
	NewRetriesMetric(name string) C
}

// AdaptMetricsProvider turns a provider for client-go into a provider for this package, as in
//
//	workqueue.SetProvider(workqueue.AdaptMetricsProvider(provider))
//
// The provider has the seven methods of client-go's MetricsProvider. The type parameters are the
// types that these methods return, and follow from the provider. component-base and controller-runtime do not
// export their providers. In their registries, and in any other, [NewPrometheusProvider] shows
// the same series and more, at a lower price.
//
// AdaptMetricsProvider panics if the provider is nil.
func AdaptMetricsProvider[G GaugeMetric, S SettableGaugeMetric, C CounterMetric, H HistogramMetric](p foreignMetricsProvider[G, S, C, H]) MetricsProvider {
	if p == nil {
		panic("workqueue: metrics provider is nil")
	}
	return adapted[G, S, C, H]{p}
}

type adapted[G GaugeMetric, S SettableGaugeMetric, C CounterMetric, H HistogramMetric] struct {
	provider foreignMetricsProvider[G, S, C, H]
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
// With a StateProvider, a queue has no goroutine for its gauges and calls no foreign code when
// an item passes. The numbers are exact and agree with each other, except for ages and groups, see
// [QueueSource].
//
// A config and [SetProvider] take a [MetricsProvider]. A StateProvider of your own becomes
// both if it embeds [NoMetrics]. The queue then uses none of the methods of MetricsProvider.
//
// A wrapper around a provider hides the StateProvider from a queue, unless the wrapper has a method
// Unwrap() MetricsProvider. The queue then uses the StateProvider, and no method of the wrapper.
type StateProvider interface {
	// NewQueue is called once for each named queue, at the end of its construction. If a
	// caller constructs a layer and hands it to the constructor of the next layer, NewQueue is
	// called for both. Both usually have the same name.
	//
	// NewQueue, and End of the result, are called without a lock of the queue held.
	NewQueue(source QueueSource) QueueMetrics
}

// stateProviderOf returns the StateProvider that p is or wraps, or nil.
func stateProviderOf(p MetricsProvider) StateProvider {
	for p != nil {
		if state, ok := p.(StateProvider); ok {
			return state
		}
		wrapper, ok := p.(interface{ Unwrap() MetricsProvider })
		if !ok {
			return nil
		}
		p = wrapper.Unwrap()
	}
	return nil
}

// A QueueSource is a queue for a [StateProvider] to read.
type QueueSource struct {
	Name   string
	Layers QueueLayers

	// Read returns the state of the layers at one instant, except for ages and groups. Read
	// takes the locks of the queue. Any goroutine may call Read at any time, but a method of
	// a [Queue] must not.
	//
	// The time is proportional to the number of items in flight, and of the priorities and groups
	// in use. A queue with a [Queue] of its own takes another 4 ns for each queued item.
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

// NewDepthMetric returns a metric without effect.
func (NoMetrics) NewDepthMetric(string) GaugeMetric { return noMetric{} }

// NewAddsMetric returns a metric without effect.
func (NoMetrics) NewAddsMetric(string) CounterMetric { return noMetric{} }

// NewLatencyMetric returns a metric without effect.
func (NoMetrics) NewLatencyMetric(string) HistogramMetric { return noMetric{} }

// NewWorkDurationMetric returns a metric without effect.
func (NoMetrics) NewWorkDurationMetric(string) HistogramMetric { return noMetric{} }

// NewUnfinishedWorkSecondsMetric returns a metric without effect.
func (NoMetrics) NewUnfinishedWorkSecondsMetric(string) SettableGaugeMetric { return noMetric{} }

// NewLongestRunningProcessorSecondsMetric returns a metric without effect.
func (NoMetrics) NewLongestRunningProcessorSecondsMetric(string) SettableGaugeMetric {
	return noMetric{}
}

// NewRetriesMetric returns a metric without effect.
func (NoMetrics) NewRetriesMetric(string) CounterMetric { return noMetric{} }

// QueueLayers says which of the fields of [QueueStats] are in use.
type QueueLayers uint8

// The layers of a queue.
const (
	LayerQueue  QueueLayers = 1 << iota // a Typed
	LayerDelays                         // a TypedDelaying, and a TypedRateLimiting above
)

// QueueMetrics are the answer of a [StateProvider] to a queue. The zero value is valid: the histograms then
// have exponential buckets, and a single classic bucket.
type QueueMetrics struct {
	// Buckets are the bounds by which the histograms count, in seconds and in
	// increasing order.
	Buckets []float64

	// End, if not nil, is called once: by the shutdown, and after a drain if the shutdown
	// drains. If a queue is garbage collected without a shutdown, End is called some time
	// later. A panic of End reaches the caller of the shutdown. The queue stays shut down.
	// Read of the source reports true in an End that a shutdown calls.
	End func(Totals)
}
