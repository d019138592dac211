package workqueue

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
// The type parameters follow from the provider. Programs whose registry has
// metrics of client-go's queues already keep them so; in others,
// [NewPrometheusProvider] says more at a lower price.
//
// Kubernetes' component-base and controller-runtime keep their providers to
// themselves. An option of priorityqueue.New finds that of controller-runtime in
// the field MetricProvider of the Opts; that of component-base takes go:linkname.
// The tests in compat/adapted do both.
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
