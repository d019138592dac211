// Package otel compares the series of the module otel with those of Prometheus. The exporter needs a newer
// client_golang than the module otel, whose users should not need it.
package otel

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
	otelqueue "github.com/seed16c08ea7/workqueue/otel"
)

// By way of the Prometheus exporter of OpenTelemetry, the same work has the same series as with
// workqueue.NewPrometheusProvider: names, values, and buckets.
func TestSeriesAreThoseOfPrometheus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buckets := []float64{0.02, 0.5, 2.5, 100}
		registry, own := prometheus.NewRegistry(), prometheus.NewRegistry()
		p := otelqueue.NewProducer(otelqueue.ProducerOptions{Buckets: buckets})
		reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithProducer(p), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
		if err != nil {
			t.Fatal(err)
		}
		metric.NewMeterProvider(metric.WithReader(reader))
		buckets[0] = 7 // The producer has a copy.
		got := seriesOf(t, p, registry)
		buckets[0] = 0.02
		want := seriesOf(t, workqueue.NewPrometheusProvider(own, workqueue.PrometheusOptions{Buckets: buckets}), own)
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s is %q, and that of Prometheus %q", name, got[name], value)
			}
			delete(got, name)
		}
		if len(want) < 50 || len(got) > 0 {
			t.Errorf("%d series are the same, and there are also %v", len(want), got)
		}
	})
}

// seriesOf returns the series of a queue after work that touches each of them, with the values of their
// labels.
func seriesOf(t *testing.T, provider workqueue.MetricsProvider, registry *prometheus.Registry) map[string]string {
	t.Helper()
	queue := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemFastSlowRateLimiter[string](time.Second, time.Second, 1),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: provider, Pace: rate.NewLimiter(50, 1)})
	for i := range 30 {
		queue.AddWith(workqueue.AddOptions{Priority: &i}, fmt.Sprint("item", i))
	}
	queue.Add("item3")
	time.Sleep(2 * time.Second)
	ctx, stop := context.WithCancel(t.Context())
	quiet, handled := logr.Discard(), 0
	err := workqueue.Run(ctx, queue, func(context.Context, string) error {
		time.Sleep(10 * time.Millisecond)
		if handled++; handled == 5 {
			stop()
		}
		if handled == 2 {
			return io.EOF
		}
		return nil
	}, workqueue.RunOptions[string]{AtEnd: workqueue.EndKeep, Logger: &quiet})
	if err != nil {
		t.Fatal(err)
	}
	queue.AddAfter("later", time.Hour)
	time.Sleep(3 * time.Second)
	if _, ok := queue.TryGet(); !ok {
		t.Fatal("nothing is queued")
	}
	time.Sleep(time.Second)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	queue.ShutDown()
	all := make(map[string]string)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			slices.Sort(values)
			name := fmt.Sprint(f.GetName(), values)
			h := m.GetHistogram()
			all[name] = fmt.Sprintf("%v %v %v %.6g", m.GetCounter().GetValue(), m.GetGauge().GetValue(), h.GetSampleCount(), h.GetSampleSum())
			for _, b := range h.GetBucket() {
				all[fmt.Sprintf("%s %v", name, b.GetUpperBound())] = fmt.Sprint(b.GetCumulativeCount())
			}
		}
	}
	return all
}
