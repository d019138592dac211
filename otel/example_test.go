package otelqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/notes"
	otelqueue "github.com/seed16c08ea7/workqueue/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
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
	// workqueue.workers {worker} workqueue.name=pods 1
	// workqueue.adds {item} workqueue.name=pods 3
	// workqueue.duplicates {item} workqueue.name=pods 1
}

// A cause is why a key was added, and the span of the producer.
type cause struct {
	why  string
	span oteltrace.SpanContext
}

// lastCauses joins causes, and bounds how many a key can have.
func lastCauses(older, newer []cause) []cause {
	all := slices.Concat(older, newer)
	return all[max(0, len(all)-16):]
}

// The queue hands a key out once for two adds. Notes keep the spans of both producers, and the span of
// the handler links to both.
func Example_links() {
	exporter := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
	tracer := provider.Tracer("example")
	queue := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[string]{Name: "pods"})
	causes := notes.New[string](lastCauses)

	enqueue := func(ctx context.Context, key, why string) bool {
		note := []cause{{why, oteltrace.SpanContextFromContext(ctx)}}
		return causes.Put(key, note, func() bool {
			return queue.AddWith(workqueue.AddOptions{}, key) > 0
		})
	}
	for _, why := range []string{"created", "secret changed"} {
		ctx, span := tracer.Start(context.Background(), "watch "+why)
		enqueue(ctx, "default/web", why)
		span.End()
	}

	sync := func(ctx context.Context, key string) error {
		defer queue.ShutDown()
		span := oteltrace.SpanFromContext(ctx)
		note, _ := causes.Take(key)
		for _, c := range note {
			span.AddLink(oteltrace.Link{
				SpanContext: c.span, Attributes: []attribute.KeyValue{attribute.String("why", c.why)},
			})
		}
		// The work. A failure returns here: the span of the retry then has the same links.
		causes.Forget(key)
		return nil
	}
	handle := otelqueue.Handler(sync, otelqueue.HandlerOptions[string]{Name: "pods", TracerProvider: provider})
	workqueue.Run(context.Background(), queue, handle, workqueue.RunOptions[string]{})

	names := map[oteltrace.SpanID]string{}
	for _, span := range exporter.GetSpans() {
		names[span.SpanContext.SpanID()] = span.Name
		fmt.Println(span.Name)
		for _, link := range span.Links {
			fmt.Printf("  link to %q, %s\n", names[link.SpanContext.SpanID()], link.Attributes[0].Value.AsString())
		}
	}
	// Output:
	// watch created
	// watch secret changed
	// process pods
	//   link to "watch created", created
	//   link to "watch secret changed", secret changed
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
