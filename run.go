package workqueue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue/internal/gate"
)

// Run works off the items of a queue of this package, and refuses any other queue. The queue must be a
// [TypedRateLimiting] on a [TypedDelaying] on a [Typed], or a type that embeds such a TypedRateLimiting.
// For any other queue Run logs and returns an error that names the type and wraps
// [errors.ErrUnsupported].
//
// Run gets items from the queue and calls handle for each item, on as many workers as the
// options say, until ctx ends or the queue is shut down.
//
// The error of handle decides when the item is handed out again, see
// https://github.com/seed16c08ea7/workqueue/blob/main/docs/semantics.md#what-a-handler-returns. A
// panic of handle is a failure with a [*PanicError]. A call of [runtime.Goexit] is a failure too, and
// another goroutine replaces the worker.
//
// Several workers call handle at a time, but never for one item: an item that is added
// meanwhile comes again afterwards. A handler may call the queue, also for its own
// item. A handler may shut the queue down, but must not wait for a drain, as the drain
// waits for the handler.
//
// The context of handle has the values of ctx, a logger with the names of the queue and
// of the item, see [logr.FromContext], and [ItemInfoFromContext]. The context ends with ctx,
// or later by the Grace; after the Timeout; and with CancelOnReAdd when the item is added again or removed. A
// handler holds its item until it returns, so a handler that ignores its context keeps Run from returning.
//
// When ctx ends, Run waits for the handlers that are at work, and [RunOptions].AtEnd decides what
// becomes of the queue. The same holds for a ctx that has ended before the call: with [EndDrain] Run drains. Run
// returns when the last worker has ended, and returns nil only if ctx has ended. With [EndDrain], Run returns a
// [*DrainError] if items are left. In the error, [errors.Is] finds [ErrNotDrained] and the error of ctx. OnStop is
// told what is left, unless Run has returned at once:
//
//	Queued    items that were queued, or handed out and not handled
//	InFlight  items that others hold
//	Waiting   items that waited for their time, or for a retry, then with their failures
//	Failed    items that failed when no retry could come any more
//
// For EndDrain, an item that waits without a failure, also by RequeueAfter, does not count as left:
// alone it makes no error, and a DrainError for others counts it under Waiting. Run takes the queued
// items out before it lists them: the caller may save them elsewhere. So a drain after Run, such as a
// deferred ShutDownWithDrain, waits only for items that others hold. If such an item was added again,
// its Done queues the item, and the drain waits until a worker of the others has handled it.
//
// If the queue is shut down already, Run returns [ErrShutDown] at once and leaves the queue
// as it is. When somebody else shuts the queue down later, the workers go on until Get has nothing for
// them, and items of groups that are held back are left. An item that fails meanwhile cannot be retried, and
// OnStop is told. Run then returns ErrShutDown, or a DrainError that wraps ErrShutDown.
//
// Several calls of Run may share a queue. The first Run to end ends the queue for all, and the
// others return ErrShutDown once nothing is queued. There are two exceptions. A Run with
// [EndKeep] does not end the queue. And while a Run drains the queue, any other Run that ends
// gives its items back for the drain; its OnStop is told only the items that came too late for
// the drain.
//
// Run calls GetInfo and Done on the given value, so that an embedding type can replace both, and all
// other methods on the embedded queue. If a GetInfo of such a type fails while neither ctx nor the
// queue has ended, the worker ends. When all workers have ended, Run returns the error and leaves the
// queue as it is.
//
// A panic in the limiter, the metrics, the [Queue] or a function of the [Order] of the queue ends
// the program, as no retry works without them; Done is called before. Run panics if the queue or handle
// is nil, if the limiter of the queue is nil, if a number in the options is negative, if
// AtEnd is none of the three constants, and for EndDrain without Grace.
//
// Run blocks, and takes one goroutine for each worker. Without options that end the context of
// a handler, an item costs 8 bytes and its own size for its context, and 8 more if the queue keeps
// times, allocated for several items at a time.
func Run[T comparable](ctx context.Context, queue TypedRateLimitingInterface[T], handle func(ctx context.Context, item T) error, options RunOptions[T]) error {
	switch {
	case queue == nil:
		panic("workqueue: queue is nil")
	case handle == nil:
		panic("workqueue: handler is nil")
	}
	options.check()
	l, err := layersOf(queue)
	if err != nil {
		logger := loggerFor(ctx, options.Logger)
		logger.Error(err, "Run refuses the queue, and no item is handled", "queue", options.Name)
		return err
	}
	l.limiting.mustLimiter() // Here its panic reaches the caller. In a worker it would end the program.
	l.delaying.keepDropped() // Before ShuttingDown: OnStop has to name what a shutdown right after it drops.
	defer l.delaying.forgetDropped()
	if l.limiting.ShuttingDown() {
		return ErrShutDown
	}
	r := newRunner(ctx, l, handle, options)
	defer r.cancel(nil)
	defer r.takeLate() // Where nobody is told of the late items.
	r.start()
	select {
	case <-r.working:
	case <-ctx.Done():
	}
	// Both may have happened, as the workers end with ctx. The end of ctx counts, and not
	// which of the two the select has noticed.
	if ctx.Err() != nil {
		return r.end()
	}
	if kept, err := r.keep(); kept { // GetInfo has failed.
		return err
	}
	return r.leftBehind(r.takeHeldBack(), false)
}

// layers are the queue of a Run: the given value, and our queues in it. Run gets and ends
// items by source, and calls all other methods on our queues: only our queues can take a
// retry below the seal of a drain, and say what is left.
type layers[T comparable] struct {
	source   source[T]
	limiting *TypedRateLimiting[T]
	delaying *TypedDelaying[T]
	typed    *Typed[T]
}

// A source has the methods that an embedding type can replace.
type source[T comparable] interface {
	GetInfo(ctx context.Context) (ItemInfo[T], error)
	Done(item T)
}

// embedded returns the queue itself. Only a type that embeds a TypedRateLimiting has the
// method too.
func (q *TypedRateLimiting[T]) embedded() *TypedRateLimiting[T] { return q }

// layersOf returns the layers of a queue, or an error that names the type of the layer that
// is not ours. The source of a TypedRateLimiting is its lowest layer, as the other layers
// only pass the two calls on, each by a search for an interface that takes 30 ns.
func layersOf[T comparable](queue TypedRateLimitingInterface[T]) (l layers[T], err error) {
	e, ours := queue.(interface{ embedded() *TypedRateLimiting[T] })
	s, gets := queue.(source[T])
	if !ours || !gets || e.embedded() == nil {
		return l, unsupported(queue)
	}
	l.source, l.limiting = s, e.embedded()
	if l.delaying, ours = l.limiting.queue.(*TypedDelaying[T]); !ours {
		return l, unsupported(l.limiting.queue)
	}
	if l.typed = l.delaying.typed; l.typed == nil {
		return l, unsupported(l.delaying.queue)
	}
	if queue == TypedRateLimitingInterface[T](l.limiting) {
		l.source = l.typed
	}
	return l, nil
}

func unsupported(layer any) error {
	return fmt.Errorf("workqueue: Run needs a TypedRateLimiting of this package or a type that embeds one, on this package's layers, and not a %T: %w", layer, errors.ErrUnsupported)
}

// A runner is one call of Run. All workers share it. A worker keeps its own state in worker,
// where the state needs no lock.
type runner[T comparable] struct {
	// Immutable while workers run.

	layers[T]
	options     RunOptions[T]
	handle      func(ctx context.Context, item T) error
	direct      bool            // source is typed: no type embeds the queue
	passes      bool            // typed may take Done and the next hand-out in one
	ending      <-chan struct{} // of intake
	forgetter   forgetter[T]    // Forget of limiting
	derives     bool            // handlers need a context of their own
	simple      bool            // nobody is told of a success
	logger      logr.Logger
	results     *resultCounts // nil if nobody counts
	*tallies[T]               // of all Runs on the queue
	late        *lateItems[T] // of all Runs on the queue

	// Contexts, made before the first worker. None ends before the one above it. The
	// contexts of the handlers descend from handling. Unless handling is ctx, cancel ends
	// handling. The hand-outs end with intake, which is ctx or handling.
	ctx      context.Context
	intake   context.Context
	handling context.Context
	cancel   context.CancelCauseFunc
	working  chan struct{} // closed by the last worker

	workers atomic.Int64
	gaveWay atomic.Bool // the grace period is over, and another Run goes on to drain the queue
	// The queue does not count an item as held, and failed has no item, that differs from
	// itself. nanWork is how many such items are at work, and nanFailed whether one has failed.
	nanWork   atomic.Int64
	nanFailed atomic.Bool

	mu  gate.Mutex
	err error // of a failed GetInfo, if not ctx or a shutdown is the reason; guarded by mu until working is closed

	// The fields below are written when the workers have ended.
	queued  []T               // items that are left behind and did not fail
	lost    map[T]lateItem[T] // items that have failed or were put off
	dropped *leftover[T]      // items that waited at the shutdown and that this Run names; nil for none
}

// newRunner prepares a Run: its contexts, and who counts. It starts no goroutine.
func newRunner[T comparable](ctx context.Context, l layers[T], handle func(ctx context.Context, item T) error, options RunOptions[T]) *runner[T] {
	r := &runner[T]{
		layers:   l,
		options:  options,
		handle:   handle,
		logger:   loggerFor(ctx, options.Logger),
		results:  l.limiting.metrics.forRun(),
		tallies:  l.limiting.runTallies(),
		late:     l.typed.lateItems(),
		ctx:      ctx,
		intake:   ctx,
		handling: ctx,
		cancel:   func(error) {},
		working:  make(chan struct{}),
	}
	// Each of these needs a context beneath that of the item, which has to be allocated.
	r.derives = options.CancelOnReAdd > 0 || options.Timeout > 0
	r.simple = options.OnResult == nil && r.results == nil
	if r.options.Name == "" { // Two Runs of one queue may want to be told apart in a log.
		r.options.Name = l.limiting.name
	}
	if r.options.Name != "" {
		r.logger = r.logger.WithValues("queue", r.options.Name)
	}
	r.direct = l.source == source[T](l.typed)
	r.passes = r.direct && l.typed.passes()
	r.forgetter.add(l.limiting.limiter)
	r.forgetter.failed, r.forgetter.counts = &r.failed, append(r.forgetter.counts, &r.cancels)
	r.descend()
	r.ending = r.intake.Done()
	return r
}

// loggerFor returns the logger of the options, or else of the context.
func loggerFor(ctx context.Context, option *logr.Logger) logr.Logger {
	if option == nil {
		if l, err := logr.FromContext(ctx); err == nil {
			return l
		}
	}
	return loggerOrDefault(option)
}

// descend makes the contexts. With a grace period the handlers go on when ctx ends, and with
// EndDrain so do the hand-outs. WithoutCancel keeps the values of ctx for them.
func (r *runner[T]) descend() {
	switch {
	case r.options.Grace > 0:
		r.handling, r.cancel = context.WithCancelCause(context.WithoutCancel(r.ctx))
		if r.options.AtEnd == EndDrain {
			r.intake = r.handling
		}
	case r.options.CancelOnReAdd > 0:
		// A ReAddContext needs such a context above it, and would make one for each
		// item.
		r.handling, r.cancel = context.WithCancelCause(r.ctx)
	}
	// In all other cases the handlers get the caller's context, which costs nothing.
}

// start starts the workers, and logs how many: whoever looks for a change in the log finds it there. All are counted
// before the first can end: otherwise the count could be 0 before the last has begun, and Run would return too early.
func (r *runner[T]) start() {
	n := max(1, r.options.Workers)
	r.workers.Store(int64(n))
	r.logger.Info("Run has started", "workers", n)
	for range n {
		w := &worker[T]{runner: r}
		go w.work()
	}
}

// workerDone closes working with the last worker.
func (r *runner[T]) workerDone() {
	if r.workers.Add(-1) == 0 {
		close(r.working)
	}
}

// noteError keeps an error that ends a worker although there may be items. Our queues return
// no such error, but the GetInfo of an embedding type may. To ask GetInfo again could
// spin. An ErrShutDown may be about another queue, so noteError asks the queue whether it is shut down. Of
// the errors of several workers the last one is kept.
func (r *runner[T]) noteError(err error) {
	if r.intake.Err() != nil || !r.isOpen() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}
