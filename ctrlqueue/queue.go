package ctrlqueue

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/seed16c08ea7/workqueue"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// NewQueue returns what the options of a controller take as NewQueue. It panics if the
// options make no sense.
//
// Each call of the function makes a *[Queue]. controller-runtime does so when it starts
// the controller, and passes the name of that, which labels the metrics and is what
// [Lookup] knows the queue by. A nil limiter is [workqueue.DefaultTypedControllerRateLimiter].
func NewQueue[R comparable](options Options[R]) func(name string, limiter clientgo.TypedRateLimiter[R]) clientgo.TypedRateLimitingInterface[R] {
	options.check()
	return func(name string, limiter clientgo.TypedRateLimiter[R]) clientgo.TypedRateLimitingInterface[R] {
		return newQueue(name, limiter, options)
	}
}

// A Queue is the queue of a controller. It is a PriorityQueue of controller-runtime,
// which controllers and event handlers look for.
//
// The zero value is not usable. All methods may be called concurrently, and none
// blocks unless it says so. A Queue must not be copied. The controller owns it: it
// shuts it down, and calls Done with what it gets.
//
// It has no goroutine at rest, and one while items wait for their time.
type Queue[R comparable] struct {
	// Immutable after construction.

	queue   *workqueue.TypedRateLimiting[R]
	name    string
	options Options[R]
	logger  logr.Logger

	// closed is set when adds do nothing any more, and ended when nothing is to be
	// handed out either. Both come before the shutdown of queue, which begins on
	// another goroutine if it drains, and which hands out what it has left. Nobody else
	// shuts queue down, so an add has to ask for closed alone, which takes no lock.
	closed, ended atomic.Bool

	over   context.Context // has ended when ended was set
	cancel context.CancelFunc

	grace    func() grace // the same for all calls
	draining sync.Once    // makes one of several shutdowns begin the drain
	release  func()       // makes Lookup forget the queue

	heldMu sync.Mutex
	held   map[R]int // priorities of hand-outs other than 0; guarded by heldMu
}

var _ priorityqueue.PriorityQueue[int] = (*Queue[int])(nil)

func newQueue[R comparable](name string, limiter clientgo.TypedRateLimiter[R], options Options[R]) *Queue[R] {
	logger := log.Log.WithName("workqueue").WithValues("controller", name)
	if options.Logger != nil {
		logger = *options.Logger
	}
	config := workqueue.TypedRateLimitingQueueConfig[R]{
		Name: name, Clock: options.Clock, Logger: &logger, Order: options.order(), OneEntry: true,
	}
	if name != "" {
		config.MetricsProvider = metricsProvider()
	}
	q := &Queue[R]{
		queue:   workqueue.NewTypedRateLimiting(limiter, config),
		name:    name,
		options: options,
		logger:  logger,
		held:    make(map[R]int),
	}
	q.over, q.cancel = context.WithCancel(context.Background())
	q.grace = sync.OnceValue(q.newGrace)
	q.release = register(q)
	return q
}

// Add adds the item without naming a priority, see [Queue.AddWithOpts].
func (q *Queue[R]) Add(item R) {
	switch {
	case q.closed.Load():
	case q.options.Quiet > 0:
		q.AddWithOpts(priorityqueue.AddOpts{}, item)
	default:
		q.queue.Add(item) // Which allocates nothing.
	}
}

// AddAfter adds the item after the duration without naming a priority, see
// [Queue.AddWithOpts].
func (q *Queue[R]) AddAfter(item R, duration time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: duration}, item)
}

// AddRateLimited adds the item after the time that the limiter says without naming a
// priority, see [Queue.AddWithOpts].
func (q *Queue[R]) AddRateLimited(item R) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, item)
}

// AddWithOpts adds the items. An item is handed out when its time has come, and of
// those the one with the highest priority first, in the order in which they became
// ready. With RateLimited the limiter counts a failure and says the time; with After
// as well, the earlier of both holds. An item whose add names no priority has 0, unless the
// order has a Priority function.
//
// An item has one entry. If it is queued or waits, it keeps the higher of the
// priorities and the earlier of the times, and goes to the end of its new level if it
// is raised. If a worker holds it, it gets a new entry, which Done makes ready.
//
// The call takes effect before it returns. After a shutdown it does nothing.
func (q *Queue[R]) AddWithOpts(o priorityqueue.AddOpts, items ...R) {
	if q.ShuttingDown() || len(items) == 0 {
		return
	}
	calm := o.Priority == nil || *o.Priority == 0 && q.options.Order.Priority == nil
	if q.options.Quiet > 0 && calm && o.After <= 0 && !o.RateLimited {
		for _, item := range items {
			q.queue.Debounce(item, q.options.Quiet, q.options.Most)
		}
		return
	}
	q.queue.AddWith(workqueue.AddOptions(o), items...)
}

// Get is [Queue.GetWithPriority] without the priority.
func (q *Queue[R]) Get() (item R, shutdown bool) {
	item, _, shutdown = q.GetWithPriority()
	return item, shutdown
}

// GetWithPriority hands out the next item and the priority that it has. The caller must
// call Done with it. It blocks while no item is ready. After a shutdown it returns
// shutdown == true and no item, also if items are queued: the workers of
// controller-runtime look at nothing else, and would reconcile a whole backlog with a
// context that has ended. During a drain it hands out what is queued.
func (q *Queue[R]) GetWithPriority() (item R, priority int, shutdown bool) {
	if q.ended.Load() {
		return item, 0, true
	}
	info, err := q.queue.GetInfo(context.Background())
	switch {
	case err != nil:
		return item, 0, true
	case q.ended.Load():
		q.queue.Done(info.Item) // The shutdown came in between, and the worker will leave.
		return item, 0, true
	}
	if info.Priority != 0 {
		q.heldMu.Lock()
		defer q.heldMu.Unlock()
		q.held[info.Item] = info.Priority
	}
	return info.Item, info.Priority, false
}

// Done ends the hand-out of the item. If it was added in the meantime, it is queued now
// or, with a delay, when its time has come.
func (q *Queue[R]) Done(item R) {
	q.handOut(item, true)
	q.queue.Done(item)
}

// handOut returns the priority that a held item was handed out with. A caller of Done has
// it forgotten.
func (q *Queue[R]) handOut(item R, done bool) (priority int) {
	q.heldMu.Lock()
	defer q.heldMu.Unlock()
	priority = q.held[item]
	if done {
		delete(q.held, item)
	}
	return priority
}

// redo has Done queue the item of a reconcile that was cut short, also if its re-add was
// removed, at the priority of the hand-out if that is higher.
func (q *Queue[R]) redo(item R) {
	priority := q.handOut(item, false)
	q.queue.AddWith(workqueue.AddOptions{Priority: &priority}, item)
}

// Forget makes the limiter forget the failures of the item.
func (q *Queue[R]) Forget(item R) { q.queue.Forget(item) }

// NumRequeues returns how many failures of the item the limiter knows.
func (q *Queue[R]) NumRequeues(item R) int { return q.queue.NumRequeues(item) }

// Len returns the number of items that are ready and that no worker holds.
func (q *Queue[R]) Len() int { return q.queue.Len() }

// ShuttingDown reports whether a shutdown has been called.
func (q *Queue[R]) ShuttingDown() bool { return q.closed.Load() }

// Name returns the name of the controller.
func (q *Queue[R]) Name() string { return q.name }

// Snapshot returns what the queue holds, with at most limit items of each state. See
// [workqueue.Typed.Snapshot].
func (q *Queue[R]) Snapshot(limit int) workqueue.Snapshot[R] { return q.queue.Snapshot(limit) }

// Remove takes the item back, and reports whether it was queued or waited. What a
// worker holds it keeps, and an add of it in the meantime is dropped.
func (q *Queue[R]) Remove(item R) bool { return q.queue.Remove(item) }

// Reschedule makes the item wait for that long from now, earlier or later than it
// would have come. What is queued stays.
func (q *Queue[R]) Reschedule(item R, duration time.Duration) (taken bool) {
	return q.queue.Reschedule(item, duration)
}

// ReAddContext returns a context that ends when the item, which the caller holds, is
// added again, see [workqueue.Typed.ReAddContext]. The function [ReAddContext] finds the
// queue of a reconcile.
func (q *Queue[R]) ReAddContext(ctx context.Context, item R) (context.Context, context.CancelFunc) {
	return q.queue.ReAddContext(ctx, item)
}
