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
