package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
)

// RunOptions are the options of [Run]. The zero value is valid: one worker,
// which retries what fails for ever.
type RunOptions[T comparable] struct {
	// Workers is how many items are handled at a time; 0 stands for 1.
	Workers int

	// Deadline is how long after the start of a handler its context ends; 0 is
	// never. The handler holds its item until it returns all the same.
	Deadline time.Duration

	// Grace is how long the contexts of handlers outlast that of Run, for those
	// that are at work when it ends; 0 ends all of them at once.
	Grace time.Duration

	// Drain has the workers go on with what is queued when the context of Run
	// ends, until nothing is or Grace is over; without Grace it does nothing.
	Drain bool

	// MaxAttempts is how many times in a row an item may fail before it is given
	// up; 0 is any number of times. The limiter is not asked, as not all of them
	// count. A [TypedRateLimiting] keeps one count for all calls of Run, which
	// starts anew with a Forget or a Remove of the item by anybody. For a queue
	// of another type each call counts by itself, and only what its handlers come
	// to makes it start anew.
	MaxAttempts int

	// OnGiveUp is told of each item that is given up, and why. It is called by
	// the worker that still holds the item, and may call the queue; an Add of
	// the item revives it. A panic in it is logged. If nil, the item and the
	// error are logged instead.
	OnGiveUp func(item T, err error)

	// CancelOnReAdd ends the context of a handler with the cause [ErrReAdded] as
	// soon as its item is added again. Run fails if the queue cannot tell of it.
	CancelOnReAdd bool

	// CrashOnPanic lets a panic of a handler or of OnGiveUp end the program,
	// once the item is accounted for.
	CrashOnPanic bool

	// Name is the queue in log lines and in labels; empty leaves it out.
	Name string

	// Labels makes goroutine and CPU profiles tell what each worker is at, by the
	// labels "queue" and "item", which goroutines that the handler starts
	// inherit. It costs some allocations for each item.
	Labels bool

	// Logger is told of what fails; nil logs to [slog.Default].
	Logger *logr.Logger
}

// Run gets items from the queue and calls handle for each, on as many workers
// as the options say, until ctx ends or the queue is shut down. What handle
// returns decides what becomes of the item:
//
//	nil               Forget, Done
//	any other error   AddRateLimited, Done
//	RequeueAfter(d)   Forget, AddAfter(d), Done
//	Permanent(err)    OnGiveUp, Forget, Done
//
// A panic of handle is an error like any other, a [*PanicError], and so is a
// call of [runtime.Goexit], after which another goroutine takes the place of
// the worker's. An item that has failed as often as MaxAttempts allows goes the
// way of Permanent. Done comes last: if the failure were counted after it,
// another worker could have succeeded with the item by then, and would have it
// retried.
//
// The context of handle has the values of ctx. It ends with ctx, or the grace
// period after that, at the deadline, and when the item is added again,
// as the options say. But handle holds its item until it returns, and so one
// that ignores its context keeps Run from returning.
//
// Run owns the end of the queue. When ctx ends, Run shuts the queue down and
// hands nothing out any more, unless the options say Drain. It returns when the
// last worker has: with nil if nothing is left, and otherwise with a
// [*DrainError] that wraps the error of ctx. That lists
//
//	Queued    what was queued, or handed out and not handled
//	InFlight  what others hold
//	Waiting   what waited for its time, what was put off by RequeueAfter since
//	          ctx ended, and what has failed since, with that failure counted
//
// Items that only waited or were put off do not make Run return an error.
//
// What is listed as queued is in the queue no more: Run takes it out. So a drain
// after Run, such as a deferred ShutDownWithDrain, waits for nothing but what
// others hold. It is up to the caller to keep what is listed.
//
// When somebody else shuts the queue down, the workers go on until nothing is
// queued, and Run returns nil. What fails meanwhile cannot be retried, which the
// log says. Only an item that was handed out and not handled makes Run return a
// *DrainError, which then wraps [ErrShutDown].
//
// The queue may be any implementation. Of these methods Run makes use if it has
// them, so that a type that embeds a queue of ours and replaces Get should
// replace GetContext too:
//
//	GetContext(ctx context.Context) (T, error)
//	Drain(ctx context.Context) error
//
// Without the first, workers that wait for an item are woken by the shutdown. If
// it fails for another reason than ctx or a shutdown, the worker ends; when all
// have, Run returns what it has failed with, and leaves the queue as it is.
// Without the second, what waited for its time is not in the error. If it is not
// ours, that is in the error as far as it says so. What a queue drops itself when
// it is shut down is counted there, but has no name. If the queue cannot tell
// that an item is added again, as only ours can, and CancelOnReAdd is set, Run
// returns at once with an error that wraps [errors.ErrUnsupported], and leaves
// the queue as it is.
//
// A panic in a method of the queue, which can be one of its limiter or metrics,
// ends the program, as there is no retry without them; Done is called before.
// Run panics if the queue or handle is nil, if the queue is a
// [TypedRateLimiting] whose limiter is nil, or if a number in the options is
// negative.
//
// Several calls may share a queue, until the context of the first ends. That call
// ends the queue for all of them, and the others return with what they are at.
// Run blocks; it takes one goroutine for each worker, and without options that end the
// context of a handler it allocates nothing for an item.
func Run[T comparable](ctx context.Context, queue TypedRateLimitingInterface[T], handle func(ctx context.Context, item T) error, options RunOptions[T]) error {
	switch {
	case queue == nil:
		panic("workqueue: queue is nil")
	case handle == nil:
		panic("workqueue: handler is nil")
	}
	if q, ok := queue.(*TypedRateLimiting[T]); ok {
		q.mustLimiter() // Here its panic reaches the caller. In a worker it would end the program.
	}
	options.check()
	r := newRunner(ctx, queue, handle, options)
	defer r.cancel(nil)
	if options.CancelOnReAdd && !r.canWatch() {
		return fmt.Errorf("workqueue: %T does not tell that an item is added again: %w", queue, errors.ErrUnsupported)
	}
	r.start()
	select {
	case <-r.working.Done():
	case <-ctx.Done():
	}
	// Both may have happened, as the workers end with ctx. What counts is whether ctx
	// has ended, not which of the two the select has noticed.
	if ctx.Err() != nil {
		return r.end()
	}
	return r.leftBehind(&DrainError[T]{}, nil)
}

func (o *RunOptions[T]) check() {
	for _, number := range []struct {
		name     string
		value    any
		negative bool
	}{
		{"Workers", o.Workers, o.Workers < 0},
		{"Deadline", o.Deadline, o.Deadline < 0},
		{"Grace", o.Grace, o.Grace < 0},
		{"MaxAttempts", o.MaxAttempts, o.MaxAttempts < 0},
	} {
		if number.negative {
			panic(fmt.Sprintf("workqueue: %s is negative: %v", number.name, number.value))
		}
	}
}
