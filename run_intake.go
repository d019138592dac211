package workqueue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
)

// A runner is one call of Run.
type runner[T comparable] struct {
	// Immutable while workers run.

	options RunOptions[T]
	queue   TypedRateLimitingInterface[T]
	handle  func(ctx context.Context, item T) error
	getter  getter[T]  // the queue, if it is that
	watcher watcher[T] // the queue, if it has to be that
	logger  logr.Logger

	// Contexts. None ends before the one above it. Those of the handlers
	// descend from handling, which cancel ends if it is not ctx. The hand-outs end
	// with intake, which is one of these two, and working with the last worker.
	ctx      context.Context
	intake   context.Context
	handling context.Context
	cancel   context.CancelCauseFunc
	working  context.Context
	idle     context.CancelFunc // ends working

	workers atomic.Int64
	failed  *failures[T] // in a row; nil without MaxAttempts

	mu sync.Mutex
	// The fields below are guarded by mu until working has ended.
	queued []T           // handed out after the end of intake, or not handled to the end
	late   []lateItem[T] // failed or put off after the end of ctx, and not handled since
	err    error         // what GetContext has failed with, if not for ctx or a shutdown

	dropped func(*Snapshot[T]) // adds what waited when ctx ended; nil if that is not known
}

// What Run uses of a queue beyond its interface, and beside a watcher.
type (
	getter[T comparable] interface {
		GetContext(ctx context.Context) (T, error)
	}
	drainer interface {
		Drain(ctx context.Context) error
	}
)

func newRunner[T comparable](ctx context.Context, queue TypedRateLimitingInterface[T], handle func(ctx context.Context, item T) error, options RunOptions[T]) *runner[T] {
	r := &runner[T]{
		options:  options,
		queue:    queue,
		handle:   handle,
		logger:   loggerOrDefault(options.Logger),
		ctx:      ctx,
		intake:   ctx,
		handling: ctx,
		cancel:   func(error) {},
	}
	// The interface lacks GetContext, Drain and watch. The value may have them.
	r.getter, _ = queue.(getter[T])
	if options.CancelOnReAdd {
		r.watcher, _ = queue.(watcher[T])
	}
	if options.MaxAttempts > 0 {
		r.failed = attemptsOf(queue)
	}
	if options.Name != "" {
		r.logger = r.logger.WithValues("queue", options.Name)
	}
	switch {
	case options.Grace > 0:
		r.handling, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
		if options.Drain {
			r.intake = r.handling
		}
	case options.CancelOnReAdd:
		// An Add cancels with the queue's lock held, and a cancel asks the context
		// above for Done and Value. So this one, whose code we know, has to be
		// between the caller's and those of the handlers.
		r.handling, r.cancel = context.WithCancelCause(ctx)
	}
	// In all other cases the handlers get the caller's context, which costs nothing.
	//
	// working is a context and not a channel because Drain takes one.
	r.working, r.idle = context.WithCancel(context.WithoutCancel(ctx))
	return r
}

// attemptsOf returns the count of failures of a queue that keeps one, and a new one
// for any other.
func attemptsOf[T comparable](queue TypedRateLimitingInterface[T]) *failures[T] {
	if q, ok := queue.(interface{ countAttempts() *failures[T] }); ok {
		return q.countAttempts()
	}
	return new(failures[T])
}

// canWatch reports whether the queue tells of every Add. The layers are ours if
// it has the method, but what is below them may not be.
func (r *runner[T]) canWatch() bool {
	return r.watcher != nil && r.watcher.watch(*new(T), nil)
}

// start starts the workers. All are counted before the first can end: otherwise the
// count could be 0 before the last has begun.
func (r *runner[T]) start() {
	n := max(1, r.options.Workers)
	r.workers.Store(int64(n))
	for range n {
		w := &worker[T]{runner: r}
		go w.work()
	}
}

// workerDone ends working with the last worker, and so the drain of end.
func (r *runner[T]) workerDone() {
	if r.workers.Add(-1) == 0 {
		r.idle()
	}
}

// next waits for an item to handle, and reports false when there will be none.
// A queue looks at the context before it looks for an item, so there can be one
// although the context has ended since. Handling it would be a hand-out after
// the end, and dropping it would lose it.
func (r *runner[T]) next() (item T, ok bool) {
	if r.getter == nil {
		return r.get()
	}
	item, err := r.getter.GetContext(r.intake)
	if errors.Is(err, errors.ErrUnsupported) { // A queue below has no GetContext.
		return r.get()
	}
	if err != nil {
		r.noteError(err)
		return item, false
	}
	if r.intake.Err() != nil {
		r.decline(item, false)
		return item, false
	}
	return item, true
}

// get is next for a queue without GetContext, where only the shutdown ends the wait
// for an item. It does not ask for an item after the end of intake: what a queue
// hands out during its shutdown it may have forgotten itself, see decline.
func (r *runner[T]) get() (item T, ok bool) {
	if r.intake.Err() != nil {
		return item, false
	}
	item, shutdown := r.queue.Get()
	if shutdown || r.intake.Err() != nil {
		r.decline(item, shutdown)
		return item, false
	}
	return item, true
}

// decline leaves an item behind that will not be handled. What comes with a
// shutdown is no item, but controller-runtime's queue looks whether it is shut
// down after it has handed one out, and says both. The zero item is then taken
// for none: a Done of it could be one for another worker.
func (r *runner[T]) decline(item T, shutdown bool) {
	if shutdown && item == *new(T) {
		return
	}
	r.leaveQueued(item)
	r.queue.Done(item)
}

// noteError keeps an error that ends a worker although there may be items. Our queues
// return no such error, but a GetContext of somebody else may. To ask it again could
// spin.
func (r *runner[T]) noteError(err error) {
	if r.intake.Err() != nil || errors.Is(err, ErrShutDown) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}
