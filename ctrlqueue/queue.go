package ctrlqueue

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/debugpage"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// A Queue is the queue of a controller, made by [Binding.NewQueue]. A Queue is a
// PriorityQueue of controller-runtime, which controllers and event handlers look for.
//
// The zero value is not usable. All methods may be called concurrently. A method blocks only
// if its comment says so. A Queue must not be copied. The controller shuts its queue down,
// and calls Done for each item.
//
// A Queue has no goroutine at rest, and one while items wait for their time.
type Queue[R comparable] struct {
	// Immutable after construction.

	queue    *workqueue.TypedRateLimiting[R]
	name     string
	binding  *Binding[R]
	options  Options[R] // of the binding
	logger   logr.Logger
	looks    atomic.Int64 // see seemsToHold
	begun    atomic.Bool  // a worker has asked for an item
	attempts attempts[R]
	limiter  retryLimiter[R] // whose attempts are those of the queue

	removing removing // orders removals and addResult

	// closed is set when adds do nothing any more, and over ends when nothing is to be
	// handed out either. Both come before the shutdown of queue: a drain begins on
	// another goroutine, and hands out the items that are left. Nobody else shuts queue
	// down, so an add asks for closed alone, without a lock.
	closed  atomic.Bool
	over    context.Context
	cancel  context.CancelFunc
	dropped atomic.Bool // a worker has got an item after the end, and has reconciled nothing

	grace      func() *grace[R]         // the same for all calls, the first of which begins the grace
	begunGrace atomic.Pointer[grace[R]] // nil before
	draining   sync.Once                // makes one of several shutdowns begin the drain
	release    func()                   // makes Lookup and the page forget the queue
	stopping   stopping[R]
}

var (
	_ priorityqueue.PriorityQueue[int] = (*Queue[int])(nil)
	_ debugpage.Queue[int]             = (*Queue[int])(nil)
)

func newQueue[R comparable](b *Binding[R], name string, limiter clientgo.TypedRateLimiter[R]) *Queue[R] {
	options := b.options
	logger := log.Log.WithName("workqueue").WithValues("controller", name)
	if options.Logger != nil {
		logger = *options.Logger
	}
	config := workqueue.TypedRateLimitingQueueConfig[R]{
		Name: name, Clock: options.Clock, Logger: &logger, Order: options.Order, OneEntry: true,
		Pace: options.Pace, ItemPace: options.ItemPace, StrictBackoff: options.StrictBackoff,
	}
	if name != "" {
		config.MetricsProvider = metricsProvider(logger)
	}
	q := &Queue[R]{
		name:    name,
		binding: b,
		options: options,
		logger:  logger,
	}
	q.limiter = newRetryLimiter(limiter, &q.attempts, options.Clock)
	q.queue = workqueue.NewTypedRateLimiting(q.limiter, config)
	q.over, q.cancel = context.WithCancel(context.Background())
	q.grace = sync.OnceValue(q.newGrace)
	q.stopping.told = make(chan struct{})
	q.removing.init()
	q.release = register(q)
	if options.Page != nil {
		unregister, remove := q.release, debugpage.Add(options.Page, name, q.queue)
		q.release = func() { unregister(); remove() }
	}
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

// AddWithOpts adds the items. An item is ready when its time has come. The ready item with
// the highest priority is handed out first, and within a priority the item that became ready
// first. With RateLimited the limiter counts a failure and says the time. With After
// as well, the earlier of the two times holds. Without a Priority the item has priority 0,
// unless the order has a Priority function.
//
// An item has one entry. A queued or waiting item keeps the higher of the priorities and the
// earlier of the times. A raised item goes to the end of its new priority. An item that a
// worker holds gets a new entry, which Done makes ready.
//
// An early failure does not count: RateLimited for an item that a worker holds, and that was handed out
// before its last retry was due. The limiter is not asked then, and the item comes when the retry was
// due. Otherwise each event would double the backoff of an object that fails.
//
// The call takes effect before AddWithOpts returns. After a shutdown it does nothing.
func (q *Queue[R]) AddWithOpts(o priorityqueue.AddOpts, items ...R) {
	retries, delays := o.RateLimited, o.After > 0
	switch {
	case (retries || delays) && o.Priority != nil && len(items) == 1 && q.addResult(o, items[0]):
	case q.ShuttingDown():
	case !retries && !delays && q.isCalm(o.Priority):
		for _, item := range items {
			q.queue.Debounce(item, q.options.Quiet, q.options.Most)
		}
	default:
		q.queue.AddWith(workqueue.AddOptions{After: o.After, RateLimited: retries, Priority: o.Priority}, items...)
		if retries && delays {
			q.limiter.dueBy(items, o.After)
		}
	}
}

// isCalm reports whether an add of that priority is put off by Quiet.
func (q *Queue[R]) isCalm(priority *int) bool {
	return q.options.Quiet > 0 && (priority == nil || *priority == 0 && q.options.Order.Priority == nil)
}

// addResult adds what the reconcile of an item asks for, and reports false if the call is another add:
// the first add with a priority and a time after the end of the reconcile is taken for that of the
// controller. An event handler that adds in such a way between the two, which lie microseconds apart,
// is mistaken for the controller.
//
// Nothing is added for an item that was removed since its hand-out, and not added again.
//
// What a shutdown drops is noted for OnStop, also if the shutdown comes during the add: the worker holds the item until
// its Done, so the note comes before any further hand-out.
func (q *Queue[R]) addResult(o priorityqueue.AddOpts, item R) (ok bool) {
	over, firm := false, time.Duration(0)
	q.attempts.change(item, func(a *attempt) {
		ok, over, firm = a.ended, a.over, a.firm
		a.ended, a.over = false, false
	})
	if !ok || over {
		return ok
	}
	q.removing.add(func() {
		if q.sinceHandOut(item) == workqueue.ErrRemoved {
			q.Forget(item)
			return
		}
		left := workqueue.ItemInfo[R]{Item: item, State: workqueue.ItemWaiting}
		if o.RateLimited {
			left.State = workqueue.ItemFailed
		}
		switch {
		case !q.ShuttingDown():
			if firm > 0 && o.RateLimited { // The later of the two times counts, see retryLimiter.When.
				q.queue.AddWith(workqueue.AddOptions{After: firm, Firm: true, Priority: o.Priority}, item)
			}
			q.queue.AddWith(workqueue.AddOptions{After: o.After, RateLimited: o.RateLimited, Firm: firm > 0, Priority: o.Priority}, item)
		case o.RateLimited:
			left.Failures++ // The limiter is not asked any more.
		}
		if q.ShuttingDown() {
			left.Failures += q.NumRequeues(item)
			q.noteLeft(left)
		}
	})
	q.attempts.change(item, func(a *attempt) { a.firm = 0 })
	return true
}

// Get is [Queue.GetWithPriority] without the priority.
func (q *Queue[R]) Get() (item R, shutdown bool) {
	item, _, shutdown = q.GetWithPriority()
	return item, shutdown
}

// GetWithPriority hands out the next item and its priority. The caller must
// call Done with the item. GetWithPriority blocks while no item is ready. After a shutdown
// shutdown is true and there is no item, also if items are queued: the workers of
// controller-runtime look at nothing else, and would reconcile a whole backlog with a
// context that has ended. It returns after OnStop then. During a drain GetWithPriority hands out the queued
// items.
func (q *Queue[R]) GetWithPriority() (item R, priority int, shutdown bool) {
	item, priority, shutdown = q.take()
	if shutdown && q.options.OnStop != nil {
		<-q.stopping.told // The process may end with the last worker.
	}
	return item, priority, shutdown
}

// take is GetWithPriority without the wait for OnStop.
func (q *Queue[R]) take() (item R, priority int, shutdown bool) {
	if q.isOver() {
		return item, 0, true
	}
	if !q.begun.Load() {
		q.begun.Store(true)
	}
	info, err := q.queue.GetInfo(q.over) // Which also ends the wait for a token of Pace.
	switch {
	case err != nil:
		return item, 0, true
	case q.isOver():
		info.State = workqueue.ItemQueued
		q.removing.add(func() { q.noteLeft(info) })
		q.dropped.Store(true)
		q.queue.Done(info.Item) // The end came in between, and the worker will leave.
		q.endFinished()
		return item, 0, true
	}
	q.limiter.handOut(info.Item)
	if q.closed.Load() {
		q.stopping.forget(info.Item)
	}
	return info.Item, info.Priority, false
}

// Done ends the hand-out of the item. An item that was added in the meantime is queued now
// or, with a delay, when its time has come.
func (q *Queue[R]) Done(item R) {
	q.attempts.change(item, func(a *attempt) { a.cut, a.early, a.ended, a.over, a.firm = false, false, false, false, 0 })
	q.queue.Done(item)
	q.endFinished()
}

// Forget makes the limiter forget the failures of the item.
//
// The controller calls Forget after each reconcile that asks for a time. For a reconcile that
// CancelOnReAdd has cut short the call does nothing: such a reconcile has neither failed nor
// succeeded, and the next failure waits as long as if it had not begun.
func (q *Queue[R]) Forget(item R) {
	if q.attempts.forgive(item) {
		return
	}
	q.attempts.forget(item)
	q.queue.Forget(item)
}

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

// Items returns all items of the queue, for a walk over them. See [workqueue.Typed.Items].
func (q *Queue[R]) Items() iter.Seq[workqueue.ItemInfo[R]] { return q.queue.Items() }

// Stats returns the numbers that the metrics show. See [workqueue.Typed.Stats].
func (q *Queue[R]) Stats() workqueue.QueueStats { return q.queue.Stats() }

// LimitsChanged asks MaxInFlight of the Order again for all groups, see [workqueue.Typed.LimitsChanged].
func (q *Queue[R]) LimitsChanged() { q.queue.LimitsChanged() }

// Remove removes the item, and reports whether the queue had the item: queued, waiting or held. A
// worker keeps the item that it holds. What its reconcile asks for afterwards does not come, unless an add has
// queued the item again, if the controller has the Reconciler of the [Binding]. An add that has to wait, as with
// Quiet and ItemPace, comes by itself.
//
// The count for CancelOnReAdd starts anew, and the next failure is not early. If no worker holds the item,
// the limiter still knows its failures: call Forget to reset the limiter too.
//
// Remove waits while the queue adds what a reconcile has asked for, and the add asks the limiter and the Order: both
// must not call Remove or RemoveFunc.
func (q *Queue[R]) Remove(item R) (removed bool) {
	q.removing.remove(func() {
		removed = q.queue.Remove(item)
		q.forgetRemoved(item)
	})
	return removed
}

// forgetRemoved is the rest of a removal. If closed is not set yet, the list of what waits comes after the removal.
func (q *Queue[R]) forgetRemoved(item R) {
	q.attempts.forget(item)
	q.attempts.change(item, func(a *attempt) { a.cancels = 0 }) // A later add is of another life of the object.
	if q.ShuttingDown() {
		q.stopping.remove(item)
	}
}

// RemoveFunc calls Remove for the items for which del returns true, see
// [workqueue.Typed.RemoveFunc]: for a shard, a namespace or a tenant that is somebody else's now.
// As after Remove, the context of a reconcile at work ends with the cause [workqueue.ErrRemoved], if it is
// of [ReAddContext] or if CancelOnReAdd cancels the reconcile.
func (q *Queue[R]) RemoveFunc(del func(item R) bool) (removed int) {
	q.queue.RemoveFunc(func(item R) bool {
		if del(item) && q.Remove(item) {
			removed++
		}
		return false
	})
	for _, item := range slices.Concat(q.stopping.items(), q.attempts.items()) { // What the queue has no more.
		if del(item) {
			q.removing.remove(func() { q.forgetRemoved(item) })
		}
	}
	return removed
}

// Wake ends the waits of the items now, and adds the items, see [workqueue.TypedDelaying.Wake]: the
// backoff of a failed object, a RequeueAfter and the wait of [DeferFor]. It adds no item that does not
// wait. A Wake of an item that is reconciled ends the wait that its reconcile asks for, and is not
// counted in woken.
func (q *Queue[R]) Wake(items ...R) (woken int) { return q.queue.Wake(items...) }

// WakeFunc ends the waits of the items that match, see [workqueue.TypedDelaying.WakeFunc].
func (q *Queue[R]) WakeFunc(match func(item R) bool) (woken int) { return q.queue.WakeFunc(match) }

// Find returns what the queue knows of an item, see [workqueue.TypedDelaying.Find].
func (q *Queue[R]) Find(item R) (info workqueue.ItemInfo[R], ok bool) { return q.queue.Find(item) }

// Barrier waits until all items that are queued or reconciled at the call have been reconciled
// once, see [workqueue.Typed.Barrier]. After the caches have synced, it tells when the initial
// list is done. It returns [workqueue.ErrShutDown] when nothing is handed out any more: what is left is not reconciled.
func (q *Queue[R]) Barrier(ctx context.Context) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(q.over, cancel)()
	err := q.queue.Barrier(within)
	if err == nil && q.dropped.Load() || err != nil && ctx.Err() == nil { // A dropped item had its Done too.
		return workqueue.ErrShutDown
	}
	return err
}

// WaitIdle waits until nothing is queued or reconciled, see [workqueue.Typed.WaitIdle].
func (q *Queue[R]) WaitIdle(ctx context.Context) error { return q.queue.WaitIdle(ctx) }

// WaitEmpty waits until nothing is queued, reconciled or waiting, see
// [workqueue.TypedDelaying.WaitEmpty].
func (q *Queue[R]) WaitEmpty(ctx context.Context) error { return q.queue.WaitEmpty(ctx) }

// Reschedule makes the item wait for that long from now, whether that is earlier or later than before. A queued
// item stays queued. The wait is not firm, also where that of a [DeferFor] was: an event ends it. Of a held item
// the earlier of this time and of what its reconcile asks for counts, and a firm wait of the reconcile takes the place
// of this one. taken is false after a shutdown.
func (q *Queue[R]) Reschedule(item R, duration time.Duration) (taken bool) {
	return !q.ShuttingDown() && q.queue.Reschedule(item, duration)
}

// DeferFor makes the item wait firmly for d from now, as the function [DeferFor] does in a reconcile: no event
// brings the item before. A queued item leaves the queue and waits. The wait of an item that is reconciled begins now
// and goes on after the reconcile, whatever the reconcile asks for, unless a [Queue.Wake] came since the hand-out: then
// the item comes again at once. Of two firm waits the later time counts. A d of zero or less ends the wait and adds
// the item. After a shutdown DeferFor does nothing.
func (q *Queue[R]) DeferFor(item R, d time.Duration) {
	if !q.ShuttingDown() {
		q.queue.AddWith(workqueue.AddOptions{After: d, Firm: true}, item)
	}
}

// ReAddContext returns a context that ends when the item, which the caller holds, is
// added again, see [workqueue.Typed.ReAddContext]. The function [ReAddContext] finds the
// queue of a reconcile.
func (q *Queue[R]) ReAddContext(ctx context.Context, item R) (context.Context, context.CancelFunc) {
	return q.queue.ReAddContext(ctx, item)
}
