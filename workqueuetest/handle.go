package workqueuetest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// Handle has [workqueue.Run] call the handler for the item, once, and returns what that
// has come to: the calls of the queue from the hand-out to Done, and those of the
// handler if it has the queue from [HandleOn]. Of the options, Workers is 1 and the end
// is not drained.
//
//	nil               Get a, Forget a, Done a
//	an error          Get a, AddRateLimited a, Done a
//	RequeueAfter(d)   Get a, Forget a, AddAfter a d, Done a
//	Permanent(err)    Get a, Forget a, Done a, and OnGiveUp is told
//
// It returns when the handler has. The order of Forget and AddAfter is that of Run.
func Handle[T comparable](ctx context.Context, handle func(ctx context.Context, item T) error, item T, options workqueue.RunOptions[T]) []Call[T] {
	return HandleOn(ctx, newQueue(Options[T]{Limiter: patient[T]{}}), handle, item, options)
}

// HandleOn is [Handle] with a queue, for a handler that adds items itself. The queue has
// to be empty, and is shut down when HandleOn returns.
func HandleOn[T comparable](ctx context.Context, q *Queue[T], handle func(ctx context.Context, item T) error, item T, options workqueue.RunOptions[T]) []Call[T] {
	q.TypedRateLimiting.Add(item)
	q.Take()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	once := &once[T]{Queue: q, stop: stop}
	options.Workers, options.Drain = 1, false
	if options.OnStop == nil { // Or each item that is to come again would be logged as left.
		options.OnStop = func(workqueue.Snapshot[T]) {}
	}
	// What Run returns is about items that are left, which the calls say better.
	_ = workqueue.Run(ctx, once, handle, options)
	q.ShutDown()
	return once.calls
}

// once hands out one item. The worker comes for the next one when all is done for the
// first: then the calls are complete, and the run ends.
type once[T comparable] struct {
	*Queue[T]
	handedOut atomic.Bool
	stop      context.CancelFunc
	calls     []Call[T] // written by the only worker
}

// GetContext hands out the first item. The second call ends the run.
func (q *once[T]) GetContext(ctx context.Context) (T, error) {
	if q.handedOut.Swap(true) {
		q.calls = q.Take()
		q.stop()
		<-ctx.Done()
		return *new(T), ctx.Err()
	}
	return q.Queue.GetContext(ctx)
}

// patient is a limiter whose retries come long after the test.
type patient[T comparable] struct{}

func (patient[T]) When(T) time.Duration { return 24 * time.Hour }
func (patient[T]) Forget(T)             {}
func (patient[T]) NumRequeues(T) int    { return 0 }
