package otelqueue_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/seed16c08ea7/workqueue"
	otelqueue "github.com/seed16c08ea7/workqueue/otel"
	"go.opentelemetry.io/otel"
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
		{"a wrapper of another package", nil, workqueue.Permanent(&fs.PathError{Op: "open", Err: io.EOF}), codes.Error, "error.type=*fs.PathError item=a outcome=given_up"},
		{"an error of the queue is no wrapper", nil, workqueue.RetryAfter(0, &workqueue.DrainError[string]{Err: context.DeadlineExceeded}), codes.Error, "error.type=*workqueue.DrainError[string] item=a outcome=failed retry_after=0"},
		{"nor is a panic", nil, &workqueue.PanicError{Value: io.EOF}, codes.Error, "error.type=*workqueue.PanicError item=a outcome=failed"},
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
		if span.Status.Code != codes.Error || attributes(span)["outcome"] != "failed" {
			t.Errorf("%s: got %v", name, span)
		}
		if name == "goexit" { // Which is no exception.
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

var errBroken, errStop = errors.New("broken"), errors.New("stop")

// The methods of a nil pointer of the type panic.
type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

// The outcome of a span is the outcome that Run tells, and only a failure is an error.
func TestOutcomesAreThoseOfRun(t *testing.T) {
	type queue = *workqueue.TypedRateLimiting[string]
	quiet := logr.Discard()
	untilEnd := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, test := range map[string]struct {
		handle  func(ctx context.Context, stop func(), q queue) error
		options workqueue.RunOptions[string]
		errText string // of the status, "" for no error
		errType string
	}{
		"success":             {handle: func(context.Context, func(), queue) error { return nil }},
		"failure":             {handle: func(context.Context, func(), queue) error { return errBroken }, errText: "broken", errType: "*errors.errorString"},
		"wrapped":             {handle: func(context.Context, func(), queue) error { return fmt.Errorf("all: %w", errBroken) }, errText: "all: broken", errType: "*errors.errorString"},
		"requeue":             {handle: func(context.Context, func(), queue) error { return workqueue.Requeue() }},
		"requeue after":       {handle: func(context.Context, func(), queue) error { return workqueue.RequeueAfter(90 * time.Second) }},
		"retry after":         {handle: func(context.Context, func(), queue) error { return workqueue.RetryAfter(time.Minute, errBroken) }, errText: "broken", errType: "*errors.errorString"},
		"permanent":           {handle: func(context.Context, func(), queue) error { return workqueue.Permanent(errBroken) }, errText: "broken", errType: "*errors.errorString"},
		"a requeue beside":    {handle: func(context.Context, func(), queue) error { return errors.Join(workqueue.RequeueAfter(1), errBroken) }, errText: "workqueue: requeue after 1ns\nbroken", errType: "*errors.joinError"},
		"panic":               {handle: func(context.Context, func(), queue) error { panic("ouch") }, errText: "panic: ouch", errType: "string"},
		"panic with an error": {handle: func(context.Context, func(), queue) error { panic(errBroken) }, errText: "panic: broken", errType: "*errors.errorString"},
		"panic of the error":  {handle: func(context.Context, func(), queue) error { return (*brokenError)(nil) }, errText: "panic: runtime error: invalid memory address or nil pointer dereference", errType: "runtime.errorString"},
		"goexit":              {handle: func(context.Context, func(), queue) error { runtime.Goexit(); return nil }, errText: "handler called runtime.Goexit", errType: "runtime.Goexit"},
		"timeout": {handle: func(ctx context.Context, _ func(), _ queue) error { return untilEnd(ctx) }, options: workqueue.RunOptions[string]{Timeout: time.Second},
			errText: "context deadline exceeded", errType: "context.deadlineExceededError"},
		"re-added": {handle: func(ctx context.Context, _ func(), q queue) error { q.Add("key"); return untilEnd(ctx) },
			options: workqueue.RunOptions[string]{CancelOnReAdd: 3}},
		"re-added, with the cause": {handle: func(ctx context.Context, _ func(), q queue) error {
			q.Add("key")
			<-ctx.Done()
			return fmt.Errorf("sync: %w", context.Cause(ctx))
		}, options: workqueue.RunOptions[string]{CancelOnReAdd: 3}},
		"re-added, and failed": {handle: func(ctx context.Context, _ func(), q queue) error { q.Add("key"); <-ctx.Done(); return errBroken },
			options: workqueue.RunOptions[string]{CancelOnReAdd: 3}, errText: "broken", errType: "*errors.errorString"},
		"removed": {handle: func(ctx context.Context, _ func(), q queue) error {
			q.RemoveFunc(func(string) bool { return true })
			return untilEnd(ctx)
		}, options: workqueue.RunOptions[string]{CancelOnReAdd: 3}},
		"interrupted":       {handle: func(ctx context.Context, stop func(), _ queue) error { stop(); return untilEnd(ctx) }},
		"failed at the end": {handle: func(ctx context.Context, stop func(), _ queue) error { stop(); <-ctx.Done(); return errBroken }, errText: "broken", errType: "*errors.errorString"},
		"the cause at the end": {handle: func(ctx context.Context, stop func(), _ queue) error {
			stop()
			<-ctx.Done()
			return context.Cause(ctx)
		}, errText: "stop", errType: "*errors.errorString"},
		"canceled elsewhere": {handle: func(context.Context, func(), queue) error { return fmt.Errorf("get: %w", context.Canceled) },
			errText: "get: context canceled", errType: "*errors.errorString"},
		"succeeded at the end": {handle: func(ctx context.Context, stop func(), _ queue) error { stop(); <-ctx.Done(); return nil }},
		"interrupted, and wraps": {handle: func(ctx context.Context, stop func(), _ queue) error {
			stop()
			return fmt.Errorf("get: %w", untilEnd(ctx))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				stop := func() { cancel(errStop) }
				defer stop()
				q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemFastSlowRateLimiter[string](time.Second, time.Second, 1), workqueue.TypedRateLimitingQueueConfig[string]{})
				q.Add("key")
				var told []workqueue.HandlerResult
				test.options.Logger = &quiet
				test.options.OnResult = func(_ context.Context, _ string, result workqueue.HandlerResult) {
					told = append(told, result)
					stop() // The first call is enough.
				}
				handle, spans := recorded(func(ctx context.Context, _ string) error { return test.handle(ctx, stop, q) }, otelqueue.HandlerOptions[string]{})
				if err := workqueue.Run(ctx, q, handle, test.options); err != nil {
					t.Fatal(err)
				}
				span, has := spans()[0], attributes(spans()[0])
				if has["outcome"] != told[0].Outcome.String() {
					t.Errorf("outcome %s, and Run tells %v", has["outcome"], told[0].Outcome)
				}
				var p *workqueue.PanicError
				if errors.As(told[0].Err, &p) != strings.HasPrefix(name, "panic") {
					t.Errorf("Run tells the error %v", told[0].Err)
				}
				if span.Status.Description != test.errText || (span.Status.Code == codes.Error) != (test.errText != "") || has["error.type"] != test.errType {
					t.Errorf("status %+v of type %s, want %q of type %s", span.Status, has["error.type"], test.errText, test.errType)
				}
			})
		})
	}
}

// The type of an exception is the type of the value. A text with other bytes than UTF-8 would fail
// the export.
func TestExceptionOfAPanic(t *testing.T) {
	handle, spans := recorded(func(context.Context, string) error { panic(errors.New("a\xffb")) }, otelqueue.HandlerOptions[string]{})
	func() {
		defer func() { recover() }()
		handle(t.Context(), "a")
	}()
	handle, failed := recorded(func(context.Context, string) error { return errors.New("a\xffb") }, otelqueue.HandlerOptions[string]{})
	handle(t.Context(), "a")
	for _, span := range append(spans(), failed()...) {
		text := fmt.Sprint(span.Status.Description, span.Events[0].Attributes)
		if !strings.Contains(text, "*errors.errorString") || !strings.Contains(text, "a\uFFFDb") || !utf8.ValidString(text) {
			t.Errorf("the span has %q", text)
		}
	}
}

// fmt catches the panic of a String method, and prints the argument of the panic by its own method.
type panicsTwice struct{ times int }

func (p panicsTwice) String() string { panic(panicsTwice{p.times + 1}) }

// The text of the value of a panic panicked itself. Then the span did not end, and Run saw the second panic.
func TestPanicWhoseTextPanicsEndsTheSpan(t *testing.T) {
	handle, spans := recorded(func(context.Context, string) error { panic(panicsTwice{}) }, otelqueue.HandlerOptions[string]{})
	var value any
	func() {
		defer func() { value = recover() }()
		handle(t.Context(), "a")
	}()
	if value != (panicsTwice{}) {
		t.Errorf("the panic goes on with %T", value)
	}
	const want = "panic: (a otelqueue_test.panicsTwice whose text panics)"
	if ended := spans(); len(ended) != 1 || ended[0].Status.Description != want {
		t.Errorf("%d spans have ended: %v", len(ended), ended)
	}
}

// An error can name its type, see semconv.ErrorType. The name is a text as any other.
type namesItsType struct{ error }

func (namesItsType) ErrorType() string { return "c\xffd" }

func TestTypeOfAnErrorIsUTF8(t *testing.T) {
	handle, spans := recorded(func(context.Context, string) error { return namesItsType{errors.New("failed")} }, otelqueue.HandlerOptions[string]{})
	handle(t.Context(), "a")
	for _, a := range spans()[0].Attributes {
		if a.Key == "error.type" && a.Value.AsString() != "c\uFFFDd" {
			t.Errorf("error.type is %q", a.Value.AsString())
		}
	}
}

// A wrapper between Run and the handler may have set the deadline. Run calls the error a failure.
func TestDeadlineOfAWrapperIsAFailure(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	handle, spans := recorded(func(ctx context.Context, _ string) error { return ctx.Err() }, otelqueue.HandlerOptions[string]{})
	handle(ctx, "a")
	if span := spans()[0]; span.Status.Code != codes.Error || attributes(span)["outcome"] != "failed" {
		t.Errorf("got %v with %v", span.Status, attributes(span))
	}
}

func TestDefaultTracerProvider(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	defer otel.SetTracerProvider(otel.GetTracerProvider())
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSyncer(exporter)))
	otelqueue.Handler(func(context.Context, string) error { return nil }, otelqueue.HandlerOptions[string]{Name: "q\xff"})(t.Context(), "a")
	if spans := exporter.GetSpans(); len(spans) != 1 || spans[0].Name != "process q\uFFFD" {
		t.Errorf("the spans are %v", spans)
	}
}
