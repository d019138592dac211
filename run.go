package workqueue

import (
	"context"
	"errors"
	"fmt"
)

// Run gets items from the queue and calls handle for each, on as many workers
// as the options say, until ctx ends or the queue is shut down. What handle
// returns decides what becomes of the item:
//
//	nil                 it has succeeded
//	any other error     it has failed, and comes again when the limiter says
//	RetryAfter(d, err)  it has failed, and comes again after d
//	RequeueAfter(d)     it has not failed, and comes again after d
//	Requeue()           it has not failed, and comes again when the limiter says
//	Permanent(err)      it is given up: OnGiveUp
//
// An error beside a RequeueAfter or Requeue, as by [errors.Join], is a failure.
// docs/semantics.md has all combinations. A panic of handle is an error like any
// other, a [*PanicError], and so is a call of [runtime.Goexit], after which another
// goroutine takes the place of the worker's. So is a panic in a method of an error that
// handle has returned. An item that has failed as often as MaxAttempts allows is given up
// too. An item that has succeeded, was given up or comes again by RequeueAfter is
// forgotten by the limiter.
//
// Several workers call handle at a time, but never for one item: if that is added
// meanwhile, it comes again afterwards. A handler may call the queue, also for its own
// item. It may shut the queue down, but must not wait for a drain, which waits for it.
//
// The context of handle has the values of ctx, a logger with the names of the queue and
// of the item, see [logr.FromContext], and [ItemInfoFromContext]. It ends with ctx, or
// the grace period after that, after the timeout, and when the item is added again,
// as the options say. But handle holds its item until it returns, and so one
// that ignores its context keeps Run from returning.
//
// Unless KeepQueue is set, Run owns the end of the queue. When ctx ends, Run shuts the
// queue down, waits for the handlers that are at work, and hands nothing out any more.
// With Drain it goes on until nothing is queued and nothing that has failed waits for
// its retry, or until the grace period is over. Meanwhile ShuttingDown reports true,
// and a [TypedRateLimiting] ignores what is added. Any other queue takes it, so stop
// what adds to it before.
//
// Run returns when the last worker has ended: nil, if what was asked for is done. With
// Drain, it returns a [*DrainError] if something is left, in which [errors.Is] finds
// [ErrNotDrained] and the error of ctx. OnStop is told what is left in any case:
//
//	Queued    what was queued, or handed out and not handled
//	InFlight  what others hold
//	Waiting   what waited for its time, or for a retry, then with its failures
//	Failed    what has failed when no retry could come any more
//
// What waits or was put off by RequeueAfter, and has not failed, does not count as
// left for Drain. What is listed as queued is in the queue no more: Run takes it out. So
// a drain after Run, such as a deferred ShutDownWithDrain, waits for nothing but what
// others hold. It is up to the caller to keep what is listed.
//
// If the queue is shut down already, Run returns [ErrShutDown] at once and leaves all
// where it is, so that a drain after Run waits for whoever gets the rest. When somebody
// else shuts it down later, the workers go on until nothing is queued. What fails
// meanwhile cannot be retried, which the log and OnStop tell, and Run returns as above,
// with ErrShutDown in the place of the error of ctx.
//
// The queue may be any implementation. Of these methods Run makes use if it has
// them, so that a type that embeds a queue of ours and replaces Get should
// replace GetContext too:
//
//	GetContext(ctx context.Context) (T, error)
//	Drain(ctx context.Context) error
//	ReAddContext(ctx context.Context, item T) (context.Context, context.CancelFunc)
//
// Without the first, workers that wait for an item are woken by the shutdown. If
// it fails for another reason than ctx or a shutdown, the worker ends; when all
// have, Run returns what it has failed with, and leaves the queue as it is.
// Without the second, what waited for its time is not named, unless it has failed. If
// it is not ours, that is named as far as it says so. What a queue drops itself when
// it is shut down is counted there, but has no name. If the queue cannot do what
// CancelOnReAdd or KeepQueue need, Run returns at once with an error that wraps
// [errors.ErrUnsupported], and leaves the queue as it is.
// A queue of ours has them as far as the queue below it has. A retry has the priority of
// the hand-out if the queue is a [TypedRateLimiting] on layers of this package, and else
// names none.
//
// A panic in a method of the queue, which can be one of its limiter or metrics,
// ends the program, as there is no retry without them; Done is called before.
// Run panics if the queue or handle is nil, if the queue is a
// [TypedRateLimiting] whose limiter is nil, if a number in the options is
// negative, if Drain is set without Grace, and if it is set with KeepQueue.
//
// Several calls may share a queue. Without KeepQueue, the first of them to end
// ends the queue for all, and the others return with what they are at.
// Run blocks; it takes one goroutine for each worker. Without options that end the
// context of a handler, an item costs 50 to 100 bytes for its context, which are
// allocated for several items at a time.
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
	if queue.ShuttingDown() {
		return ErrShutDown
	}
	r := newRunner(ctx, queue, handle, options)
	defer r.release()
	defer r.cancel(nil)
	if err := r.refusal(); err != nil {
		return err
	}
	r.start()
	select {
	case <-r.working.Done():
	case <-ctx.Done():
	}
	// Both may have happened, as the workers end with ctx. What counts is whether ctx
	// has ended, not which of the two the select has noticed.
	switch {
	case ctx.Err() != nil:
		return r.end()
	case !queue.ShuttingDown(): // GetContext has failed.
		return r.keep()
	}
	return r.leftBehind(&DrainError[T]{Snapshot: r.heldByOthers()}, nil)
}

// refusal is the error for a queue that cannot do what the options need.
func (r *runner[T]) refusal() error {
	switch {
	case r.options.CancelOnReAdd && r.reAdder == nil:
		return fmt.Errorf("workqueue: %T does not tell that an item is added again: %w", r.queue, errors.ErrUnsupported)
	case r.options.KeepQueue && r.getter == nil:
		return fmt.Errorf("workqueue: a worker that waits in Get of %T can leave it only by a shutdown: %w", r.queue, errors.ErrUnsupported)
	}
	return nil
}
