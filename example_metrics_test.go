package workqueue_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// printMetrics prints the counters and gauges of a registry that are not zero.
func printMetrics(g prometheus.Gatherer) {
	families, err := g.Gather()
	if err != nil {
		fmt.Println(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if v := m.GetGauge().GetValue() + m.GetCounter().GetValue(); v != 0 {
				fmt.Println(strings.TrimPrefix(f.GetName(), "workqueue_"), v)
			}
		}
	}
}

// The provider is made once and handed to each queue, or to SetProvider. A
// program serves the registry by promhttp.
func ExampleNewPrometheusProvider() {
	registry := prometheus.NewRegistry()
	provider := workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{})

	clock := testingclock.NewFakeClock(time.Now())
	queue := workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "pods", MetricsProvider: provider, Clock: clock},
	)
	queue.Add("web-1")
	queue.Add("web-2")
	queue.Add("web-2")
	queue.AddRateLimited("web-3")
	clock.Step(500 * time.Millisecond)
	queue.Get()
	clock.Step(250 * time.Millisecond)
	printMetrics(registry)

	queue.ShutDown()
	fmt.Println("after the shutdown:")
	printMetrics(registry)
	// Output:
	// adds_total 2
	// depth 1
	// duplicates_total 1
	// in_flight 1
	// longest_running_processor_seconds 0.25
	// oldest_item_age_seconds 0.75
	// rate_limited_total 1
	// retries_total 1
	// unfinished_work_seconds 0.25
	// waiting 1
	// after the shutdown:
	// abandoned_total 1
	// abandoned_total 1
	// abandoned_total 1
}

// These stand for the metrics provider of another package: what is different
// about it is the types of its metrics.
type (
	otherProvider struct{}
	otherMetric   struct{ name string }
)

func (m *otherMetric) Inc()              { fmt.Println(m.name, "+1") }
func (m *otherMetric) Dec()              { fmt.Println(m.name, "-1") }
func (m *otherMetric) Set(v float64)     { fmt.Println(m.name, "=", v) }
func (m *otherMetric) Observe(v float64) { fmt.Println(m.name, "observed", v) }

func (otherProvider) NewDepthMetric(name string) *otherMetric { return &otherMetric{name + " depth"} }
func (otherProvider) NewAddsMetric(name string) *otherMetric  { return &otherMetric{name + " adds"} }
func (otherProvider) NewRetriesMetric(name string) *otherMetric {
	return &otherMetric{name + " retries"}
}

func (otherProvider) NewLatencyMetric(name string) *otherMetric {
	return &otherMetric{name + " latency"}
}

func (otherProvider) NewWorkDurationMetric(name string) *otherMetric {
	return &otherMetric{name + " work"}
}

func (otherProvider) NewUnfinishedWorkSecondsMetric(name string) *otherMetric {
	return &otherMetric{name + " unfinished"}
}

func (otherProvider) NewLongestRunningProcessorSecondsMetric(name string) *otherMetric {
	return &otherMetric{name + " longest"}
}

// A provider that was written for client-go needs no more than this call.
func ExampleAdaptMetricsProvider() {
	clock := testingclock.NewFakeClock(time.Now())
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name:            "pods",
		MetricsProvider: workqueue.AdaptMetricsProvider(otherProvider{}),
		Clock:           clock,
	})
	queue.Add("web-1")
	clock.Step(2 * time.Second)
	pod, _ := queue.Get()
	queue.Done(pod)
	queue.ShutDown()
	// Output:
	// pods adds +1
	// pods depth +1
	// pods depth -1
	// pods latency observed 2
	// pods work observed 0
}
