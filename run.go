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
	// ends, until nothing is or Grace is over.
	Drain bool

	// MaxAttempts is how many times in a row an item may fail before it is given
	// up; 0 is any number of times. Run keeps this count itself, since not all
	// limiters count.
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
// call of [runtime.Goexit], after which another goroutine takes the worker's
// place. The item counts as failed before Done, and not after as the words may
// suggest: another worker that got it in between could succeed, and the
// failure would then count against a success. An item that has failed as often
// as MaxAttempts allows goes the way of Permanent.
//
// The context of handle is ctx, or descends from its values: it ends when ctx
// does or a grace period after that, at the deadline, and when the item is
// added again, if the options say so. Nothing but handle's return ends its hold
// on the item; one that ignores its context keeps Run from returning.
//
// Run owns the end of the queue. When ctx ends, no more items are handed out to
// handle, the queue is shut down, and Run returns after the last worker has:
// with nil if nothing is left that was queued or has failed since, or with a
// [*DrainError] that names what is, Waiting being those that have failed
// since. It wraps the error of ctx. When the queue is shut down by somebody
// else, the workers handle what is queued, and Run returns nil; retries are
// dropped by then, as the log says.
//
// The queue may be any implementation. Run makes use of these methods of it if
// there are such, as of ours. A type that embeds one of ours and replaces Get
// should replace GetContext too:
//
//	GetContext(ctx context.Context) (T, error)
//	Drain(ctx context.Context) error
//
// Without the first, Run wakes its workers by ShutDown, and what Get still hands
// out to them is done at once and left behind. Without the second, what waits
// for its time cannot be named, and neither can what a queue drops itself when
// it is shut down. Where the queue cannot tell that an item is added again but
// CancelOnReAdd is set, Run leaves it as it is and returns an error that wraps
// [errors.ErrUnsupported].
//
// A panic of the queue itself, which includes its limiter and metrics, ends the
// program: there is no way to retry by a queue that fails. Run panics if the
// queue or handle is nil, or a number in the options is negative.
//
// Run may be called while others add, get and are done with items. It starts
// its workers at once and one goroutine for each.
func Run[T comparable](ctx context.Context, queue TypedRateLimitingInterface[T], handle func(ctx context.Context, item T) error, options RunOptions[T]) error {
	switch {
	case queue == nil:
		panic("workqueue: queue is nil")
	case handle == nil:
		panic("workqueue: handler is nil")
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
	// The workers may be gone because ctx has ended: that is asked, and not which
	// of the two was noticed first.
	if ctx.Err() != nil {
		return r.end()
	}
	return r.leftBehind(nil)
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
