package workqueue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
)

// A runner is one call of Run. All workers share it. What each of them has for itself is in
// worker, so that it needs no lock.
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

	// Contexts. None ends before the one above it. All are made before the first
	// worker. Those of the handlers descend from handling, which cancel ends if it is
	// not ctx. The hand-outs end with intake, which is one of these two, and working
	// with the last worker.
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
	cancels map[T]int     // calls in a row that were cut short by CancelOnReAdd
	err     error         // what GetContext has failed with, if not for ctx or a shutdown

	dropped func(*Snapshot[T]) // adds what waited when ctx ended; nil if that is not known
}

// A runnable is a queue of ours, or a type that embeds one. A type of another
// package cannot replace these two, whatever it does with Add and Get.
type runnable interface {
	queueName() string
	resultMetrics() resultMetrics
}

// newRunner prepares a Run: what its queue can do, its contexts, and who counts. It starts
// no goroutine. The queue gets counters of results and failures if it has none, and those
// of a queue that is not ours are taken back by release.
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
	// Each of these needs a context beneath that of the item, which has to be allocated.
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
// Drain and ReAddContext. The value may have them. That is asked once, as to look
// for an interface takes 30 ns.
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

// adopt takes over what a queue of ours says of itself. A name in the options comes first:
// two Runs of one queue may want to be told apart in a log.
func (r *runner[T]) adopt(q runnable) {
	if r.options.Name == "" {
		r.options.Name = q.queueName()
	}
	r.results = q.resultMetrics()
}

// findBelow finds out whether the queue is ours to the bottom. A type that embeds a
// queue of ours is not: its methods may do more, and must not be passed over. What is below
// may be of another type too. Then Run uses the methods of the queue on top for all.
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

// descend makes the contexts. With a grace period the handlers live on when ctx ends, and
// with Drain so do the hand-outs. WithoutCancel keeps the values of ctx for them.
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
// count could be 0 before the last has begun, and Run would return while it works.
func (r *runner[T]) start() {
	n := max(1, r.options.Workers)
	r.workers.Store(int64(n))
	for range n {
		w := &worker[T]{runner: r}
		go w.work()
	}
}

// workerDone ends working with the last worker, and so the drain of end. A drain that
// went on would wait for items that nobody gets.
func (r *runner[T]) workerDone() {
	if r.workers.Add(-1) == 0 {
		r.idle()
	}
}

// next waits for an item to handle, and reports false when there will be none. No lock of
// Run is held meanwhile, so that any worker can wait for as long as it takes.
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

// accept reports whether an item that the queue has handed out is to be handled. If
// not, it declines the item, or gives it back to a queue that is kept.
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

// decline leaves an item behind that will not be handled. It notes the item before Done,
// after which the queue may have forgotten it. What comes with a
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

// giveBack puts an item back that was handed out, with its priority. The Add comes
// before Done, which then queues the item in the same step as it ends the hand-out. A
// queue of ours without an order has it first in line again.
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
// spin. Of the errors of several workers the last one is kept.
func (r *runner[T]) noteError(err error) {
	if r.intake.Err() != nil || errors.Is(err, ErrShutDown) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}
