package bench

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/seed16c08ea7/workqueue"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// provider makes the metrics of both sides. The projects' interfaces differ in
// nothing but the names of the result types, so the types are the parameters, and
// both sides run the same instructions.
type provider[G, S, C, H any] struct {
	vectors
}

type (
	ourProvider   = provider[workqueue.GaugeMetric, workqueue.SettableGaugeMetric, workqueue.CounterMetric, workqueue.HistogramMetric]
	theirProvider = provider[clientgo.GaugeMetric, clientgo.SettableGaugeMetric, clientgo.CounterMetric, clientgo.HistogramMetric]
)

var (
	_ workqueue.MetricsProvider = ourProvider{}
	_ clientgo.MetricsProvider  = theirProvider{}
)

type vectors struct {
	gauges     *prometheus.GaugeVec
	counters   *prometheus.CounterVec
	histograms *prometheus.HistogramVec
}

// newVectors uses the buckets and the native resolution that
// controller-runtime gives its users.
func newVectors() vectors {
	labels := []string{"metric", "name"}
	return vectors{
		gauges:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gauges"}, labels),
		counters: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "counters"}, labels),
		histograms: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                            "histograms",
			Buckets:                         prometheus.ExponentialBuckets(10e-9, 10, 12),
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, labels),
	}
}

func (p provider[G, S, C, H]) NewDepthMetric(name string) G {
	return any(p.gauges.WithLabelValues("depth", name)).(G)
}

func (p provider[G, S, C, H]) NewAddsMetric(name string) C {
	return any(p.counters.WithLabelValues("adds", name)).(C)
}

func (p provider[G, S, C, H]) NewLatencyMetric(name string) H {
	return any(p.histograms.WithLabelValues("queue_duration_seconds", name)).(H)
}

func (p provider[G, S, C, H]) NewWorkDurationMetric(name string) H {
	return any(p.histograms.WithLabelValues("work_duration_seconds", name)).(H)
}

func (p provider[G, S, C, H]) NewUnfinishedWorkSecondsMetric(name string) S {
	return any(p.gauges.WithLabelValues("unfinished_work_seconds", name)).(S)
}

func (p provider[G, S, C, H]) NewLongestRunningProcessorSecondsMetric(name string) S {
	return any(p.gauges.WithLabelValues("longest_running_processor_seconds", name)).(S)
}

func (p provider[G, S, C, H]) NewRetriesMetric(name string) C {
	return any(p.counters.WithLabelValues("retries", name)).(C)
}

// makeSeries makes all series of a queue before it asks for them, which
// separates their memory from the queue's.
func (p provider[G, S, C, H]) makeSeries(name string) {
	p.NewDepthMetric(name)
	p.NewAddsMetric(name)
	p.NewLatencyMetric(name)
	p.NewWorkDurationMetric(name)
	p.NewUnfinishedWorkSecondsMetric(name)
	p.NewLongestRunningProcessorSecondsMetric(name)
	p.NewRetriesMetric(name)
}

// shipped makes the provider of this project, with the buckets and the native
// resolution that newVectors has.
func shipped() workqueue.MetricsProvider {
	return workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{})
}

// pushed makes a provider that hears of each change, as client-go's does.
func pushed() workqueue.MetricsProvider { return ourProvider{newVectors()} }

// metered are the queues with metrics on.
func metered(ours func() workqueue.MetricsProvider) []impl[queue[string]] {
	return []impl[queue[string]]{
		{"workqueue", func() queue[string] {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
				Name: "bench", MetricsProvider: ours(),
			})
		}},
		{"client-go", func() queue[string] {
			return clientgo.NewTypedWithConfig(clientgo.TypedQueueConfig[string]{
				Name: "bench", MetricsProvider: theirProvider{newVectors()},
			})
		}},
		{"priorityqueue", func() queue[string] {
			return priorityqueue.New("bench", func(o *priorityqueue.Opts[string]) {
				o.MetricProvider = theirProvider{newVectors()}
			})
		}},
	}
}
