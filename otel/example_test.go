package otelqueue_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed16c08ea7/workqueue"
	otelqueue "github.com/seed16c08ea7/workqueue/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func ExampleHandler() {
	exporter := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))

	queue := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[string]{Name: "pods"})
	queue.Add("default/web")
	sync := func(ctx context.Context, key string) error {
		defer queue.ShutDown()
		return workqueue.Permanent(errors.New("no such image"))
	}
	handle := otelqueue.Handler(sync, otelqueue.HandlerOptions[string]{Name: "pods", TracerProvider: provider})
	workqueue.Run(context.Background(), queue, handle, workqueue.RunOptions[string]{
		OnGiveUp: func(context.Context, string, error) {},
	})

	for _, span := range exporter.GetSpans() {
		fmt.Printf("%s, %s, %s: %s\n", span.Name, span.SpanKind, span.Status.Code, span.Status.Description)
		for _, a := range span.Attributes {
			fmt.Printf("  %s=%s\n", a.Key, a.Value.String())
		}
	}
	// Output:
	// process pods, consumer, Error: no such image
	//   messaging.system=workqueue
	//   messaging.operation.name=process
	//   messaging.operation.type=process
	//   messaging.destination.name=pods
	//   workqueue.item=default/web
	//   workqueue.priority=0
	//   workqueue.attempt=1
	//   workqueue.outcome=given_up
	//   error.type=*errors.errorString
}

func ExampleProducer() {
	producer := otelqueue.NewProducer(otelqueue.ProducerOptions{})
	// A program has a periodic reader with an exporter here.
	reader := metric.NewManualReader(metric.WithProducer(producer))
	defer metric.NewMeterProvider(metric.WithReader(reader)).Shutdown(context.Background())

	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "pods", MetricsProvider: producer})
	queue.AddAll("a", "b", "b", "c")
	queue.Get()

	var all metricdata.ResourceMetrics
	reader.Collect(context.Background(), &all)
	for _, m := range all.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name != "workqueue.abandoned" {
			point := sum.DataPoints[0]
			fmt.Println(m.Name, m.Unit, point.Attributes.Encoded(attribute.DefaultEncoder()), point.Value)
		}
	}
	// Output:
	// workqueue.depth {item} workqueue.name=pods 2
	// workqueue.in_flight {item} workqueue.name=pods 1
	// workqueue.adds {item} workqueue.name=pods 3
	// workqueue.duplicates {item} workqueue.name=pods 1
}

// A program with both, as the README shows.
func Example() {
	sync := func(ctx context.Context, key string) error { return nil }
	_ = func(ctx context.Context, exporter metric.Exporter) error {
		producer := otelqueue.NewProducer(otelqueue.ProducerOptions{})
		reader := metric.NewPeriodicReader(exporter, metric.WithProducer(producer))
		queue := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[string]{
			Name: "pods", MetricsProvider: producer,
		})
		defer metric.NewMeterProvider(metric.WithReader(reader)).Shutdown(context.WithoutCancel(ctx))
		handle := otelqueue.Handler(sync, otelqueue.HandlerOptions[string]{Name: "pods"})
		return workqueue.Run(ctx, queue, handle, workqueue.RunOptions[string]{Workers: 4})
	}
}
