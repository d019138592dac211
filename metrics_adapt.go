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
