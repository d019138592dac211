package workqueuetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue"
)

// Handle has [workqueue.Run] call the handler for the item, once, and returns the calls of
// the queue from the hand-out to Done. With [HandleOn] the calls of the handler are among
// them. Workers is 1 and AtEnd is EndStop, whatever the options say.
//
//	nil               Get a, Forget a, Done a
//	an error          Get a, AddRateLimited a, Done a
//	RequeueAfter(d)   Get a, Forget a, AddAfter a d, Done a
//	DeferFor(d)       Get a, AddWith a d firm, Done a
//	both              Get a, AddWith a firm and rate limited, with the longer time, Done a
//	Permanent(err)    Get a, Forget a, Done a, and OnGiveUp is told
//
// both is an error joined with a DeferFor. With StrictBackoff every failure has a firm wait, also that
// of a RetryAfter, which is not rate limited.
//
// If the handler removes its item, Run plans no retry, whatever the handler returns: the calls have a Forget
// instead.
//
// Handle returns when the handler does. Handle panics if the handler is nil, as Run does, and if ctx
// has ended, as the handler would not be called.
func Handle[T comparable](ctx context.Context, handle func(ctx context.Context, item T) error, item T, options workqueue.RunOptions[T]) []Call[T] {
	return HandleOn(ctx, newQueue(Options[T]{}), handle, item, options)
}

// HandleOn is [Handle] with a queue, for a handler that adds items itself. HandleOn shuts the
// queue down at the end, so each call needs a queue of its own. HandleOn panics if the queue
// is shut down, has an item queued, which the handler would get instead, or has an item in flight,
// for which the handler might wait for ever. HandleOn also panics if the queue would not hand out the
// item: it has to wait, MaxInFlight holds its group back, or the queue is paused, see [workqueue.QueueStats].
func HandleOn[T comparable](ctx context.Context, q *Queue[T], handle func(ctx context.Context, item T) error, item T, options workqueue.RunOptions[T]) []Call[T] {
	switch {
	case handle == nil:
		panic("workqueuetest: handler is nil")
	case ctx.Err() != nil:
		panic(fmt.Sprintf("workqueuetest: the context of Handle has ended: %v", ctx.Err()))
	case q.ShuttingDown():
		panic("workqueuetest: the queue of HandleOn is shut down: give each call a new queue")
	case q.Len() > 0:
		panic(fmt.Sprintf("workqueuetest: the queue of HandleOn is not empty: %d items", q.Len()))
	case q.Stats().InFlight > 0:
		panic(fmt.Sprintf("workqueuetest: a worker holds items of the queue of HandleOn: %d items", q.Stats().InFlight))
	}
	q.TypedRateLimiting.Add(item)
	if info, _ := q.Find(item); info.Why != "" || q.Stats().Paused {
		panic(fmt.Sprintf("workqueuetest: the queue of HandleOn does not hand out %v: the item has to wait, MaxInFlight holds its group back, or the limiter of Pace has a limit or a burst of 0", item))
	}
	if q.failures > 0 {
		q.fail(ctx, item)
	}
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
	if options.OnStop == nil { // Otherwise each item with a retry would be logged as left.
		options.OnStop = func(context.Context, workqueue.Snapshot[T]) {}
	}
	// The error of Run is about items that are left, and the calls say more about them.
	_ = workqueue.Run(ctx, once, func(ctx context.Context, item T) error {
		defer func() { once.asked = q.asked.Load() }()
		return handle(ctx, item)
	}, options)
	q.ShutDown()
	return once.calls
}

// fail has Run fail the queued item as often as the options say, without a wait in between, and leaves it
// queued. An add would not do: only Run counts for MaxAttempts. The limiter is asked as for each failure, but
// its wait is not waited for: a hand-out before its end would be early, and early failures do not count.
// A Wake ends the wait for a token of ItemPace.
func (q *Queue[T]) fail(ctx context.Context, item T) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	quiet, failed := logr.Discard(), 0
	_ = workqueue.Run(ctx, q.TypedRateLimiting, func(context.Context, T) error {
		q.limiter.When(item)
		if failed++; failed == q.failures {
			stop()
		}
		return workqueue.RetryAfter(0, errFailedBefore)
	}, workqueue.RunOptions[T]{
		AtEnd: workqueue.EndKeep, Logger: &quiet,
		OnResult: func(_ context.Context, item T, _ workqueue.HandlerResult) { q.TypedRateLimiting.Wake(item) }, // ItemPace
	})
}

var errFailedBefore = errors.New("workqueuetest: a failure before the call")

// once hands out one item. When the worker asks for the next item, the calls for the first
// one are complete, and the Run ends.
type once[T comparable] struct {
	*Queue[T]
	handedOut atomic.Bool
	stop      context.CancelFunc
	calls     []Call[T] // written by the only worker
	asked     int64     // how often the limiter was asked when the handler returned
}

// noteResult records the calls that Run has made on the embedded queue, in the order of Run.
// A retry is an AddAfter if the limiter was not asked for its wait.
func (q *once[T]) noteResult(item T, result workqueue.HandlerResult) {
	limited := q.Queue.asked.Load() > q.asked
	switch result.Outcome {
	case workqueue.OutcomeSucceeded, workqueue.OutcomeGivenUp, workqueue.OutcomeRemoved: // A removed item has no retry.
		q.note(Call[T]{Method: "Forget", Item: item})
		return
	case workqueue.OutcomeReAdded:
		return
	case workqueue.OutcomeRequeued:
		if !limited {
			q.note(Call[T]{Method: "Forget", Item: item})
		}
	}
	wait, _ := q.Find(item)
	switch {
	case wait.Firm && result.Again:
		q.note(Call[T]{Method: "AddWith", Item: item, Delay: result.After, RateLimited: limited, Firm: true})
	case limited:
		q.note(Call[T]{Method: "AddRateLimited", Item: item})
	case result.Again:
		q.note(Call[T]{Method: "AddAfter", Item: item, Delay: result.After})
	}
}

// GetInfo hands out the first item. The second call ends the run.
func (q *once[T]) GetInfo(ctx context.Context) (workqueue.ItemInfo[T], error) {
	if q.handedOut.Swap(true) {
		q.calls = q.Take()
		q.stop()
		<-ctx.Done()
		return workqueue.ItemInfo[T]{}, ctx.Err()
	}
	return q.Queue.GetInfo(ctx)
}
