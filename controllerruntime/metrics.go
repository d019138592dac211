package controllerruntime

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/seed16c08ea7/workqueue"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// This file chooses how a queue gets into the registry of controller-runtime. That has
// the seven series of Kubernetes already, as vectors which the queues of
// controller-runtime set. Only one collector can describe a name there. So our queues
// are shown by an exposition, which describes nothing: a registry merges what such a
// collector has into the families of the same name.

// vectors returns the series of controller-runtime, as v0.25.2 has them. To register
// one that is equal to it is how one gets hold of it: the registry returns the one that
// it has. The help texts have to be equal for that.
func vectors() map[string]prometheus.Collector {
	const (
		started = "How many seconds of work has been done that is in progress and hasn't been observed by " +
			"work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by " +
			"observing the rate at which this increases."
		delayed = "Total number of items added to the workqueue with a non-zero delay " +
			"(rate-limited requeues, explicit RequeueAfter or AddAfter calls)"
	)
	return map[string]prometheus.Collector{
		metrics.DepthKey:                   gauge(metrics.DepthKey, "Current depth of workqueue by workqueue and priority", "name", "controller", "priority"),
		metrics.UnfinishedWorkKey:          gauge(metrics.UnfinishedWorkKey, started, "name", "controller"),
		metrics.LongestRunningProcessorKey: gauge(metrics.LongestRunningProcessorKey, "How many seconds has the longest running processor for workqueue been running.", "name", "controller"),
		metrics.AddsKey:                    counter(metrics.AddsKey, "Total number of adds handled by workqueue"),
		metrics.RetriesKey:                 counter(metrics.RetriesKey, delayed),
		metrics.QueueLatencyKey:            histogram(metrics.QueueLatencyKey, "How long in seconds an item stays in workqueue before being requested"),
		metrics.WorkDurationKey:            histogram(metrics.WorkDurationKey, "How long in seconds processing an item from workqueue takes."),
	}
}

func gauge(name, help string, labels ...string) prometheus.Collector {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: metrics.WorkQueueSubsystem, Name: name, Help: help}, labels)
}

func counter(name, help string) prometheus.Collector {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: metrics.WorkQueueSubsystem, Name: name, Help: help}, []string{"name", "controller"})
}

// histogram has the buckets of controller-runtime too, for a registry that lacks it.
func histogram(name, help string) prometheus.Collector {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: metrics.WorkQueueSubsystem, Name: name, Help: help,
		Buckets:                         prometheus.ExponentialBuckets(10e-9, 10, 12),
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"name", "controller"})
}

// providers has the provider for each registry that metrics.Registry has been: a program
// may replace it, and put it back. What is registered stays registered.
var providers = struct {
	mu  sync.Mutex
	all map[metrics.RegistererGatherer]provider // guarded by mu
}{all: make(map[metrics.RegistererGatherer]provider)}

// A provider returns the metrics provider for a queue of that name.
type provider func(name string) workqueue.MetricsProvider

// providerFor returns the provider for a queue of that name, whose metrics go to the
// registry that controller-runtime has at the moment.
func providerFor(name string) workqueue.MetricsProvider {
	providers.mu.Lock()
	defer providers.mu.Unlock()
	p := providers.all[metrics.Registry]
	if p == nil {
		p = newProvider(metrics.Registry)
		providers.all[metrics.Registry] = p
	}
	return p(name)
}

// newProvider returns a provider that shows queues in the registry. If the series that
// are there cannot be taken up, as their help is another one in this version of
// controller-runtime, queues tell controller-runtime's own provider what they do. The
// seven series are right then, but for the priority, and ours are missing.
func newProvider(r prometheus.Registerer) provider {
	e, err := newExposition(r)
	if err == nil {
		return e.providerFor
	}
	log.Log.WithName("workqueue").Info("The metrics of controller-runtime are not those of v0.25.2. "+
		"The depth of queues has no priority, and only the series of Kubernetes are shown.", "reason", err.Error())
	p := workqueue.AdaptMetricsProvider(theirProvider())
	return func(string) workqueue.MetricsProvider { return p }
}

// theirProvider returns the provider of controller-runtime, whose type is internal.
// New has it as the default of an option. A queue without a name has no metrics.
func theirProvider() clientgo.MetricsProvider {
	var options *priorityqueue.Opts[int]
	priorityqueue.New("", func(o *priorityqueue.Opts[int]) { options = o }).ShutDown()
	return options.MetricProvider
}

// takeUp returns the collector that the registry has in place of the given one, or
// this one if it had none.
func takeUp(r prometheus.Registerer, c prometheus.Collector) (prometheus.Collector, error) {
	err := r.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		return already.ExistingCollector, nil
	}
	return c, err
}
