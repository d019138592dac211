// Package otelqueue shows queues to OpenTelemetry. [Handler] makes a span of each call of a
// handler, and a [Producer] makes metrics of the state of queues.
//
// The package has a module of its own: whoever imports only the queue needs no OpenTelemetry.
package otelqueue

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/seed16c08ea7/workqueue"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

const (
	scope     = "github.com/seed16c08ea7/workqueue/otel"
	operation = "process"
)

// The attributes that the semantic conventions do not have.
const (
	nameKey     = attribute.Key("workqueue.name")
	itemKey     = attribute.Key("workqueue.item")
	priorityKey = attribute.Key("workqueue.priority")
	attemptKey  = attribute.Key("workqueue.attempt")
	queuedKey   = attribute.Key("workqueue.queue.duration")
	outcomeKey  = attribute.Key("workqueue.outcome")
	afterKey    = attribute.Key("workqueue.retry_after")
	stateKey    = attribute.Key("workqueue.state")
)

// HandlerOptions are the options of [Handler]. The zero value is valid.
type HandlerOptions[T comparable] struct {
	// Name is the name of the queue. It is the destination in the span and in the name of the
	// span.
	Name string

	// Item returns the text of an item for the span. nil stands for [fmt.Sprint]. Return a
	// hash for keys that are secret. For "" the span has no such attribute. Item is not
	// called for a span that is not recorded. A panic in Item is a panic of the handler.
	Item func(item T) string

	// TracerProvider makes the tracer. nil stands for the provider of [otel.SetTracerProvider].
	TracerProvider trace.TracerProvider
}

// Handler wraps a handler for [workqueue.Run], so that each call is a span. The context of the
// call has the span.
//
// The span follows the semantic conventions for messaging where they fit: the kind is consumer,
// the name is "process" and the name of the queue. The span has these attributes beside:
//
//	workqueue.item            the item, see HandlerOptions
//	workqueue.queue.duration  the seconds that the item was queued, if the queue keeps times
//	workqueue.priority        the priority of the hand-out
//	workqueue.attempt         1, and 1 more for each failure in a row
//	workqueue.outcome         what the result of the handler asks for, see workqueue.Verdict
//	workqueue.retry_after     the seconds after which the item comes again, if the result says so
//
// Priority, attempt and the time queued are there only below [workqueue.Run]. The outcome is
// the part of the handler: Run gives an item up that has failed too often, and the span says
// failed. The status is an error for the outcomes failed and given_up. A requeue is no error,
// nor is a call that ended because its context was cancelled, by the end of Run, an add or a
// removal. A panic is recorded with its stack, and goes on to Run.
//
// A span is the root of a trace. An item stands for any number of adds, so no add is the
// parent, and a span in the context of Run would get children for as long as the program runs.
// If the context has a span, the new span links to it.
//
// Handler panics if handle is nil.
func Handler[T comparable](handle func(ctx context.Context, item T) error, options HandlerOptions[T]) func(ctx context.Context, item T) error {
	if handle == nil {
		panic("otelqueue: handler is nil")
	}
	provider := options.TracerProvider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	if options.Item == nil {
		options.Item = func(item T) string { return fmt.Sprint(item) }
	}
	options.Name = valid(options.Name)
	attributes := []attribute.KeyValue{
		semconv.MessagingSystemKey.String("workqueue"),
		semconv.MessagingOperationName(operation),
		semconv.MessagingOperationTypeProcess,
	}
	if options.Name != "" {
		attributes = append(attributes, semconv.MessagingDestinationName(options.Name))
	}
	return handler[T]{
		handle: handle, options: options,
		tracer: provider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		name:   strings.TrimSpace(operation + " " + options.Name),
		start: []trace.SpanStartOption{
			trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...),
		},
	}.call
}

// A handler is immutable.
type handler[T comparable] struct {
	handle  func(ctx context.Context, item T) error
	options HandlerOptions[T]
	tracer  trace.Tracer
	name    string
	start   []trace.SpanStartOption // of all spans, with the attributes that a sampler sees
}

func (h handler[T]) call(ctx context.Context, item T) error {
	start := h.start
	if above := trace.SpanContextFromContext(ctx); above.IsValid() {
		start = append(slices.Clone(start), trace.WithLinks(trace.Link{SpanContext: above}))
	}
	ctx, span := h.tracer.Start(ctx, h.name, start...)
	if !span.IsRecording() {
		defer span.End()
		return h.handle(ctx, item)
	}
	returned := false
	defer func() {
		if returned {
			span.End()
		} else {
			abort(span, recover())
		}
	}()
	h.describe(ctx, span, item)
	err := h.handle(ctx, item)
	conclude(ctx, span, err) // Before returned is set: a method of err may panic, which Run counts as a panic of the handler.
	returned = true
	return err
}

// describe sets what is known of the item before the call.
func (h handler[T]) describe(ctx context.Context, span trace.Span, item T) {
	if text := h.options.Item(item); text != "" {
		span.SetAttributes(itemKey.String(valid(text)))
	}
	info, ok := workqueue.ItemInfoFromContext[T](ctx)
	if !ok {
		return
	}
	span.SetAttributes(priorityKey.Int(info.Priority), attemptKey.Int(info.Failures+1))
	if info.Age > 0 {
		span.SetAttributes(queuedKey.Float64(info.Age.Seconds()))
	}
}

// conclude sets what the result of a call says.
func conclude(ctx context.Context, span trace.Span, err error) {
	v := workqueue.VerdictOf(err)
	if cut, ok := cutShort(ctx, err); ok {
		v = workqueue.Verdict{Outcome: cut}
	}
	span.SetAttributes(outcomeKey.String(v.Outcome.String()))
	if v.Timed {
		span.SetAttributes(afterKey.Float64(v.After.Seconds()))
	}
	if v.Outcome == workqueue.OutcomeFailed || v.Outcome == workqueue.OutcomeGivenUp {
		why := cause(err)
		fail(span, semconv.ErrorType(why).Value.AsString(), err.Error())
		span.AddEvent(semconv.ExceptionEventName, trace.WithAttributes(
			semconv.ExceptionType(fmt.Sprintf("%T", why)), semconv.ExceptionMessage(valid(err.Error()))))
	}
}

func fail(span trace.Span, kind, text string) {
	span.SetAttributes(semconv.ErrorTypeKey.String(valid(kind)))
	span.SetStatus(codes.Error, valid(text))
}

// valid replaces bytes that are not UTF-8. One of them would fail the export of all spans.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// cutShort returns the outcome of a call that the end of its context has ended. An error that
// has nothing to do with the context is a failure, also when the context has ended meanwhile.
//
// A deadline is a failure too. It may be a deadline of Run, and then Run says interrupted. But a
// wrapper between Run and this handler may have set the deadline, and an error that is shown by mistake is
// better than an error that is hidden.
func cutShort(ctx context.Context, err error) (workqueue.Outcome, bool) {
	if err == nil || ctx.Err() != context.Canceled {
		return 0, false
	}
	canceled := errors.Is(err, context.Canceled)
	switch why := context.Cause(ctx); why {
	case workqueue.ErrTimeout:
		return 0, false
	case workqueue.ErrReAdded:
		return workqueue.OutcomeReAdded, canceled || errors.Is(err, why)
	case workqueue.ErrRemoved:
		return workqueue.OutcomeRemoved, canceled || errors.Is(err, why)
	}
	return workqueue.OutcomeInterrupted, canceled
}

// wrappers are the types of the errors of RetryAfter and Permanent. They are not exported, and as
// the type of an error they say nothing about the error.
var wrappers = []reflect.Type{
	reflect.TypeOf(workqueue.RetryAfter(0, context.Canceled)), reflect.TypeOf(workqueue.Permanent(context.Canceled)),
}

// cause strips the wrappers. A DrainError or a PanicError is no wrapper: its type says what failed.
func cause(err error) error {
	for slices.Contains(wrappers, reflect.TypeOf(err)) {
		err = errors.Unwrap(err)
	}
	return err
}

// abort ends the span of a call that has not returned, and lets a panic go on. value is nil after
// a Goexit. The new panic is raised here, before the stack of the old panic is unwound, so Run still sees that stack.
func abort(span trace.Span, value any) {
	span.SetAttributes(outcomeKey.String(workqueue.OutcomeFailed.String()))
	if value == nil {
		fail(span, "runtime.Goexit", "handler called runtime.Goexit")
		span.End()
		return
	}
	kind, text := fmt.Sprintf("%T", value), sprint(value)
	fail(span, kind, "panic: "+text)
	span.AddEvent(semconv.ExceptionEventName, trace.WithAttributes(
		semconv.ExceptionType(kind), semconv.ExceptionMessage(valid(text)), semconv.ExceptionStacktrace(string(debug.Stack()))))
	span.End() // Not deferred: the End of the SDK would record the new panic as well.
	panic(value)
}

// sprint is [fmt.Sprint] for values of others. fmt catches the panic of a String method and prints
// the argument of the panic, but does not catch a panic of that argument's own methods.
func sprint(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("(a %T whose text panics)", v)
		}
	}()
	return fmt.Sprint(v)
}
