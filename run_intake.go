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

	options  RunOptions[T]
	queue    TypedRateLimitingInterface[T]
	handle   func(ctx context.Context, item T) error
	getter   getter[T]             // the queue, if it is that
	reAdder  reAdder[T]            // the queue, if it has to be that
	ours     *TypedRateLimiting[T] // the queue, if it is exactly that
	typed    *Typed[T]             // the FIFO of ours, if it is below
	passing  bool                  // typed takes Done and the next Get in one
	derives  bool                  // handlers need a context of their own
	simple   bool                  // nobody is told of a success
	counting bool                  // inHand is kept
	logger   logr.Logger
	results  resultMetrics // nil if nobody counts

	// Contexts. None ends before the one above it. Those of the handlers
	// descend from handling, which cancel ends if it is not ctx. The hand-outs end
	// with intake, which is one of these two, and working with the last worker.
	ctx      context.Context
	intake   context.Context
	ending   <-chan struct{} // intake.Done()
	handling context.Context
	cancel   context.CancelCauseFunc
	working  context.Context
	idle     context.CancelFunc // ends working

	workers atomic.Int64
	inHand  atomic.Int64 // items of workers that drain, if the queue does not count them
	closing atomic.Bool  // what is added from now on may be dropped by the shutdown
	anyLate atomic.Bool  // late has had items

	oblivion oblivion[T]  // of failed, and of the limiter of ours
	failed   *failures[T] // in a row
	release  func()       // of failed

	mu sync.Mutex
	// The fields below are guarded by mu until working has ended.
	queued  []T           // handed out after the end of intake, or not handled to the end
	late    []lateItem[T] // failed or put off when it could not come again, and not handled since
	cancels map[T]int     // runs in a row that were cut short by CancelOnReAdd
	err     error         // what GetContext has failed with, if not for ctx or a shutdown

	dropped func(*Snapshot[T]) // adds what waited when ctx ended; nil if that is not known
}

// A runnable is a queue of ours, or a type that embeds one.
type runnable interface {
	queueName() string
	resultMetrics() resultMetrics
}

func newRunner[T comparable](ctx context.Context, queue TypedRateLimitingInterface[T], handle func(ctx context.Context, item T) error, options RunOptions[T]) *runner[T] {
	r := &runner[T]{
		options:  options,
		queue:    queue,
		handle:   handle,
		logger:   loggerFor(ctx, options.Logger),
		ctx:      ctx,
		intake:   ctx,
		handling: ctx,
		cancel:   func(error) {},
	}
	r.findMethods()
	r.derives = options.ProfileLabels || options.CancelOnReAdd || options.Timeout > 0
	r.counting = options.Drain && r.typed == nil
	r.simple = options.OnResult == nil && !options.CancelOnReAdd && r.results == nil
	if r.options.Name != "" {
		r.logger = r.logger.WithValues("queue", r.options.Name)
	}
	r.failed, r.release = attemptsOf(queue)
	r.oblivion.counts = append(r.oblivion.counts, r.failed)
	r.descend()
	r.ending = r.intake.Done()
	return r
}

// findMethods finds out what the queue can do beyond its interface, which lacks GetContext,
// Drain and ReAddContext. The value may have them.
func (r *runner[T]) findMethods() {
	if hasMethod[getter[T]](r.queue) {
		r.getter = r.queue.(getter[T])
	}
	if r.options.CancelOnReAdd && hasMethod[reAdder[T]](r.queue) {
		r.reAdder = r.queue.(reAdder[T])
	}
	if q, ok := r.queue.(runnable); ok {
		r.adopt(q)
	}
	r.findBelow()
}

// adopt takes over what a queue of ours says of itself.
func (r *runner[T]) adopt(q runnable) {
	if r.options.Name == "" {
		r.options.Name = q.queueName()
	}
	r.results = q.resultMetrics()
}

// findBelow finds out whether the queue is ours to the bottom. A type that embeds a
// queue of ours is not: its methods may do more, and must not be passed over.
func (r *runner[T]) findBelow() {
	var ok bool
	if r.ours, ok = r.queue.(*TypedRateLimiting[T]); !ok {
		return
	}
	r.oblivion.add(r.ours.limiter)
	if d, ok := r.ours.queue.(*TypedDelaying[T]); ok {
		r.typed, _ = d.queue.(*Typed[T])
	}
	r.passing = r.typed != nil && r.typed.passes()
}

// descend makes the contexts.
func (r *runner[T]) descend() {
	switch {
	case r.options.Grace > 0:
		r.handling, r.cancel = context.WithCancelCause(context.WithoutCancel(r.ctx))
		if r.options.Drain {
			r.intake = r.handling
		}
	case r.options.CancelOnReAdd:
		// A ReAddContext needs such a context above it, and would make one for each
		// item.
		r.handling, r.cancel = context.WithCancelCause(r.ctx)
	}
	// In all other cases the handlers get the caller's context, which costs nothing.
	//
	// working is a context and not a channel because Drain takes one.
	r.working, r.idle = context.WithCancel(context.WithoutCancel(r.ctx))
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
func (w *worker[T]) next() (item T, ok bool) {
	if w.getter == nil {
		return w.get()
	}
	item, err := w.getContext()
	if err != nil {
		w.noteError(err)
		return item, false
	}
	return w.accept(item, false)
}

// get is next for a queue without GetContext, where only the shutdown ends the wait
// for an item. It does not ask for an item after the end of intake: what a queue
// hands out during its shutdown it may have forgotten itself, see decline.
func (w *worker[T]) get() (item T, ok bool) {
	if w.intake.Err() != nil {
		return item, false
	}
	item, shutdown := w.queue.Get()
	return w.accept(item, shutdown)
}

// accept reports whether an item is to be handled. If not, it declines the item, or gives
// it back to a queue that is kept.
func (w *worker[T]) accept(item T, shutdown bool) (T, bool) {
	switch {
	case !shutdown && w.intake.Err() == nil:
		return item, true
	case w.options.KeepQueue: // Which has a GetContext, and that says no shutdown.
		w.giveBack(item)
	default:
		w.decline(item, shutdown)
	}
	return item, false
}

// decline leaves an item behind that will not be handled. What comes with a
// shutdown is no item, but controller-runtime's queue looks whether it is shut
// down after it has handed one out, and says both. The zero item is then taken
// for none: a Done of it could be one for another worker.
func (r *runner[T]) decline(item T, shutdown bool) {
	if shutdown && item == *new(T) {
		return
	}
	r.noteQueued(item)
	r.queue.Done(item)
}

// giveBack puts an item back that was handed out, with its priority. A queue of ours
// without an order has it first in line again.
func (w *worker[T]) giveBack(item T) {
	if w.passing {
		w.typed.putBack(item, 0)
		return
	}
	w.add(item)
	w.queue.Done(item)
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
