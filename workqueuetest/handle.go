package workqueuetest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// Handle has [workqueue.Run] call the handler for the item, once, and returns what that
// has come to: the calls of the queue from the hand-out to Done, and those of the
// handler if it has the queue from [HandleOn]. Of the options, Workers is 1 and AtEnd
// is EndStop.
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
	options.Workers, options.AtEnd = 1, workqueue.EndStop
	told := options.OnResult
	options.OnResult = func(ctx context.Context, item T, result workqueue.HandlerResult) {
		once.noteResult(item, result)
		if told != nil {
			told(ctx, item, result)
		}
	}
	if options.OnStop == nil { // Or each item that is to come again would be logged as left.
		options.OnStop = func(workqueue.Snapshot[T]) {}
	}
	// What Run returns is about items that are left, which the calls say better.
	_ = workqueue.Run(ctx, once, func(ctx context.Context, item T) error {
		defer func() { once.asked = q.asked.Load() }()
		return handle(ctx, item)
	}, options)
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
	asked     int64     // how often the limiter was, when the handler has returned
}

// noteResult notes the calls that a result stands for, in the order of Run. Run makes them
// on the embedded queue. A retry whose wait the limiter has not said is by AddAfter.
func (q *once[T]) noteResult(item T, result workqueue.HandlerResult) {
	limited := q.Queue.asked.Load() > q.asked
	switch result.Outcome {
	case workqueue.OutcomeSucceeded, workqueue.OutcomeGivenUp:
		q.note("Forget", item, 0)
		return
	case workqueue.OutcomeReAdded:
		return
	case workqueue.OutcomeRequeued:
		if !limited {
			q.note("Forget", item, 0)
		}
	}
	if limited {
		q.note("AddRateLimited", item, 0)
	} else if result.Again {
		q.note("AddAfter", item, result.After)
	}
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
