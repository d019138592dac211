package otelqueue_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/seed16c08ea7/workqueue"
	otelqueue "github.com/seed16c08ea7/workqueue/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// recorded returns a handler with spans, and the function for the spans.
func recorded(handle func(ctx context.Context, item string) error, options otelqueue.HandlerOptions[string]) (func(context.Context, string) error, func() tracetest.SpanStubs) {
	exporter := tracetest.NewInMemoryExporter()
	options.TracerProvider = trace.NewTracerProvider(trace.WithSyncer(exporter))
	return otelqueue.Handler(handle, options), exporter.GetSpans
}

// attributes returns the attributes of ours, and error.type.
func attributes(span tracetest.SpanStub) map[string]string {
	all := map[string]string{}
	for _, a := range span.Attributes {
		if !strings.HasPrefix(string(a.Key), "messaging.") {
			all[strings.TrimPrefix(string(a.Key), "workqueue.")] = a.Value.String()
		}
	}
	return all
}

func show(all map[string]string) string {
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		texts = append(texts, key+"="+all[key])
	}
	return strings.Join(texts, " ")
}

// What a handler returns decides on the outcome and the status.
func TestSpanOfAResult(t *testing.T) {
	for _, row := range []struct {
		name   string
		cause  error // of the end of the context, nil for no end
		err    error
		status codes.Code
		want   string
	}{
		{"success", nil, nil, codes.Unset, "item=a outcome=succeeded"},
		{"failure", nil, io.EOF, codes.Error, "error.type=*errors.errorString item=a outcome=failed"},
		{"retry after", nil, workqueue.RetryAfter(2*time.Second, io.EOF), codes.Error, "error.type=*errors.errorString item=a outcome=failed retry_after=2"},
		{"requeue", nil, workqueue.Requeue(), codes.Unset, "item=a outcome=requeued"},
		{"requeue after", nil, fmt.Errorf("x: %w", workqueue.RequeueAfter(time.Minute)), codes.Unset, "item=a outcome=requeued retry_after=60"},
		{"requeue beside a failure", nil, errors.Join(io.EOF, workqueue.RequeueAfter(time.Minute)), codes.Error, "error.type=*errors.joinError item=a outcome=failed retry_after=60"},
		{"permanent", nil, workqueue.Permanent(io.EOF), codes.Error, "error.type=*errors.errorString item=a outcome=given_up"},
		{"interrupted", context.Canceled, context.Canceled, codes.Unset, "item=a outcome=interrupted"},
		{"added again", workqueue.ErrReAdded, context.Canceled, codes.Unset, "item=a outcome=readded"},
		{"removed", workqueue.ErrRemoved, workqueue.ErrRemoved, codes.Unset, "item=a outcome=removed"},
		{"timed out", workqueue.ErrTimeout, context.Canceled, codes.Error, "error.type=*errors.errorString item=a outcome=failed"},
		{"failure beside the end", context.Canceled, io.EOF, codes.Error, "error.type=*errors.errorString item=a outcome=failed"},
		{"success beside the end", context.Canceled, nil, codes.Unset, "item=a outcome=succeeded"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		handle, spans := recorded(func(context.Context, string) error {
			if row.cause != nil {
				cancel(row.cause)
			}
			return row.err
		}, otelqueue.HandlerOptions[string]{Name: "q"})
		if err := handle(ctx, "a"); err != row.err {
			t.Errorf("%s: returned %v", row.name, err)
		}
		cancel(nil)
		span := spans()[0]
		if got := show(attributes(span)); got != row.want || span.Status.Code != row.status {
			t.Errorf("%s: got %s, %s, want %s, %s", row.name, span.Status.Code, got, row.status, row.want)
		}
		if events := len(span.Events); events != 0 != (row.status == codes.Error) {
			t.Errorf("%s: %d events", row.name, events)
		}
	}
}

// Run tells the span the attempt, the priority and the time queued.
func TestSpansBelowRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[string]{KeepTimes: true})
		calls := 0
		handle, spans := recorded(func(context.Context, string) error {
			if calls++; calls == 1 {
				return workqueue.RetryAfter(time.Second, io.EOF)
			}
			queue.ShutDown()
			return nil
		}, otelqueue.HandlerOptions[string]{Item: func(item string) string { return strings.Repeat("*", len(item)) }})
		priority := 7
		queue.AddWith(workqueue.AddOptions{Priority: &priority}, "abc")
		time.Sleep(3 * time.Second)
		logger := logr.Discard()
		workqueue.Run(t.Context(), queue, handle, workqueue.RunOptions[string]{Logger: &logger})
		want := []string{
			"attempt=1 error.type=*errors.errorString item=*** outcome=failed priority=7 queue.duration=3 retry_after=1",
			"attempt=2 item=*** outcome=succeeded priority=7",
		}
		for i, span := range spans() {
			if got := show(attributes(span)); got != want[i] || span.Name != "process" {
				t.Errorf("got %s: %s, want %s", span.Name, got, want[i])
			}
		}
		if n := len(spans()); n != 2 {
			t.Errorf("%d spans", n)
		}
	})
}

// A panic reaches Run with its value and its stack. A Goexit ends the span.
func TestSpanOfACallThatDoesNotReturn(t *testing.T) {
	for name, leave := range map[string]func(){"panic": blowUp, "goexit": runtime.Goexit} {
		queue := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[string]{})
		handle, spans := recorded(func(context.Context, string) error {
			queue.ShutDown()
			leave()
			return nil
		}, otelqueue.HandlerOptions[string]{})
		queue.Add("a")
		var result error
		logger := logr.Discard()
		workqueue.Run(t.Context(), queue, handle, workqueue.RunOptions[string]{Logger: &logger,
			OnResult: func(_ context.Context, _ string, r workqueue.HandlerResult) { result = r.Err }})
		span := spans()[0]
		if span.Status.Code != codes.Error || len(span.Events) != 1 || attributes(span)["outcome"] != "failed" {
			t.Errorf("%s: got %v", name, span)
		}
		if name == "goexit" {
			continue
		}
		var p *workqueue.PanicError
		if !errors.As(result, &p) || p.Value != io.EOF || !strings.Contains(string(p.Stack), "blowUp") {
			t.Errorf("Run got %v", result)
		}
		if text := fmt.Sprint(span.Events[0].Attributes); !strings.Contains(text, "blowUp") {
			t.Errorf("the event has no stack: %s", text)
		}
	}
}

func blowUp() { panic(io.EOF) }

// A span is the root of its trace, and links to the span above.
func TestSpanLinksToTheSpanAbove(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
	ctx, above := provider.Tracer("test").Start(t.Context(), "program")
	otelqueue.Handler(func(context.Context, string) error { return nil },
		otelqueue.HandlerOptions[string]{TracerProvider: provider})(ctx, "a")
	span := exporter.GetSpans()[0]
	if span.Parent.IsValid() || span.SpanContext.TraceID() == above.SpanContext().TraceID() ||
		len(span.Links) != 1 || span.Links[0].SpanContext.SpanID() != above.SpanContext().SpanID() {
		t.Errorf("parent %v, links %v", span.Parent, span.Links)
	}
}

// Secret items and spans that nobody records show no item.
func TestItemIsLeftOut(t *testing.T) {
	handle, spans := recorded(func(context.Context, string) error { return nil },
		otelqueue.HandlerOptions[string]{Item: func(string) string { return "" }})
	handle(t.Context(), "a")
	if got := show(attributes(spans()[0])); got != "outcome=succeeded" {
		t.Errorf("got %s", got)
	}
	unseen := trace.NewTracerProvider(trace.WithSampler(trace.NeverSample()))
	err := otelqueue.Handler(func(context.Context, string) error { return io.EOF }, otelqueue.HandlerOptions[string]{
		TracerProvider: unseen, Item: func(string) string { t.Error("called without a span"); return "" }})(t.Context(), "a")
	if err != io.EOF {
		t.Errorf("returned %v", err)
	}
}
