package ctrlqueue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type reconciler[R comparable] struct {
	binding *Binding[R]
	next    reconcile.TypedReconciler[R]
}

func (r *reconciler[R]) Reconcile(ctx context.Context, item R) (reconcile.Result, error) {
	q, err := r.binding.queueOf(ctx, item)
	if err != nil {
		return reconcile.Result{}, err
	}
	if q == nil {
		return r.next.Reconcile(ctx, item)
	}
	h := &handOut[R]{queue: q, item: item}
	ctx, cancel := q.outlive(context.WithValue(ctx, handOutKey{}, h))
	defer cancel()
	defer h.release(ctx)
	if r.binding.options.CancelOnReAdd > 0 && q.mayCancel(item) {
		return r.cancelOnReAdd(ctx, h)
	}
	result, err := r.next.Reconcile(ctx, item)
	return h.conclude(ctx, result, err)
}

// handOutKey is the key under which a context has the *handOut[R] of its reconcile.
type handOutKey struct{}

// A handOut is an item that a controller reconciles.
type handOut[R comparable] struct {
	queue *Queue[R]
	item  R
	firm  atomic.Int64 // the longest wait of DeferFor, in nanoseconds

	gaveUp   bool // giveUp has begun: a panic is one of OnGiveUp, and the failure is counted
	returned bool // neither the reconcile nor OnGiveUp has panicked
}

// conclude notes that the reconcile has ended, and returns the result for the controller. The add of the
// controller that follows is what the reconcile asks for, see [Queue.AddWithOpts].
func (h *handOut[R]) conclude(ctx context.Context, result reconcile.Result, err error) (reconcile.Result, error) {
	//lint:ignore SA1019 Controllers still look at Requeue.
	again := result.RequeueAfter > 0 || result.Requeue
	firm := h.wait(err != nil || again)
	if err != nil && (h.countFailure(ctx, err) || isTerminal(err)) {
		err = h.giveUp(ctx, err, firm)
	}
	h.returned = true // OnGiveUp may panic.
	if err == nil && firm > 0 {
		firm = max(firm, result.RequeueAfter)
		result.RequeueAfter, again = firm, true
	}
	if err != nil && firm > 0 {
		result.RequeueAfter = 0 // The add of the failure has the wait, and the controller would warn of a time beside an error.
	}
	if err != nil && !isTerminal(err) || err == nil && again {
		h.note(firm)
	}
	h.queue.queue.CountResult(outcomeOf(ctx, again, err, firm))
	return result, err
}

// isTerminal reports whether the controller adds nothing after the error of a reconcile.
func isTerminal(err error) bool { return errors.Is(err, reconcile.TerminalError(nil)) }

// outcomeOf returns what Run would call the end of a reconcile, for the alerts about failures.
func outcomeOf(ctx context.Context, again bool, err error, firm time.Duration) workqueue.Outcome {
	switch {
	case isInterrupted(ctx, err):
		return workqueue.OutcomeInterrupted
	case isTerminal(err):
		return workqueue.OutcomeGivenUp
	case err != nil:
		return workqueue.OutcomeFailed
	case firm > 0:
		return workqueue.OutcomeDeferred
	case again:
		return workqueue.OutcomeRequeued
	}
	return workqueue.OutcomeSucceeded
}

// isInterrupted reports whether the end of the manager has cut a reconcile short.
func isInterrupted(ctx context.Context, err error) bool {
	return ctx.Err() == context.Canceled && errors.Is(err, context.Canceled)
}

// countFailure counts the error of a reconcile, and reports whether MaxAttempts gives the item up. The
// failures of the limiter would not do: a bucket has none. An early failure must not give the item up
// either, as the retry of the failure before is still due.
func (h *handOut[R]) countFailure(ctx context.Context, err error) (last bool) {
	most := h.queue.options.MaxAttempts
	if most == 0 || isInterrupted(ctx, err) || isTerminal(err) {
		return false
	}
	h.queue.attempts.begin(h.item, func(a *attempt) {
		if !a.early {
			a.failed++
			last = a.failed >= most
		}
	})
	return last
}

// giveUp tells of an item that nothing tries again, and returns a TerminalError for the controller. If OnGiveUp fails,
// it returns another error: the reconcile has failed once more, and so gives the item up the next time.
func (h *handOut[R]) giveUp(ctx context.Context, err error, firm time.Duration) error {
	q := h.queue
	h.gaveUp = true
	if q.options.OnGiveUp != nil {
		if failed := q.options.OnGiveUp(ctx, q.name, h.item, err); failed != nil {
			return fmt.Errorf("%v; OnGiveUp: %v", err, failed)
		}
	}
	own, failures := isTerminal(err), q.NumRequeues(h.item)+1
	if !own || q.options.GiveUpFor > 0 { // Otherwise nothing changes for those who know TerminalErrors.
		h.endRow(firm)
	}
	if q.ShuttingDown() { // After the add of endRow, which a shutdown drops.
		q.removing.add(func() {
			q.noteLeft(workqueue.ItemInfo[R]{Item: h.item, State: workqueue.ItemFailed, Failures: failures})
		})
	}
	if own {
		return err
	}
	return reconcile.TerminalError(err)
}

// endRow ends the row of failures of an item that is given up, and has the item wait for GiveUpFor.
func (h *handOut[R]) endRow(firm time.Duration) {
	q := h.queue
	q.Forget(h.item)
	if q.options.GiveUpFor > 0 {
		wait := max(firm, q.options.GiveUpFor)
		h.note(wait)
		held, _ := q.Find(h.item)
		q.addResult(priorityqueue.AddOpts{After: wait, Priority: &held.Priority}, h.item)
	}
}

func (h *handOut[R]) note(firm time.Duration) {
	h.queue.attempts.begin(h.item, func(a *attempt) { a.ended, a.firm = true, firm })
}

// errPanicked stands for the panic of a reconcile, which controller-runtime logs with its stack.
var errPanicked = errors.New("ctrlqueue: the reconcile has panicked, see the log")

// release notes the end of a reconcile that has panicked: the controller takes a panic for a failure, and adds the
// item. If the item is given up, the add does nothing. OnGiveUp may panic too.
func (h *handOut[R]) release(ctx context.Context) {
	if h.returned {
		return
	}
	firm, over := h.wait(true), false
	defer func() {
		if over {
			h.queue.queue.CountResult(workqueue.OutcomeGivenUp)
			h.queue.attempts.begin(h.item, func(a *attempt) { a.ended, a.over = true, true })
			return
		}
		h.queue.queue.CountResult(workqueue.OutcomeFailed)
		h.note(firm)
	}()
	if !h.gaveUp && h.countFailure(ctx, errPanicked) {
		err := h.giveUp(ctx, errPanicked, firm)
		if over = isTerminal(err); !over {
			h.queue.logger.Error(err, "The object is not given up yet", "item", h.item)
		}
	}
}

// wait returns the wait of DeferFor. One that was over brings the item only if nothing else does.
func (h *handOut[R]) wait(again bool) time.Duration {
	if d := time.Duration(h.firm.Load()); d > time.Nanosecond || !again {
		return d
	}
	return 0
}

// deferFor notes a wait of DeferFor: the longest counts. One that is over is as short as can be: 0 is none.
func (h *handOut[R]) deferFor(d time.Duration) {
	d = max(d, time.Nanosecond)
	for old := h.firm.Load(); old < int64(d) && !h.firm.CompareAndSwap(old, int64(d)); old = h.firm.Load() {
	}
}

// errNotBound names no controller: controller-runtime logs the error with the name.
var errNotBound = errors.New("ctrlqueue: this reconciler is of one Binding, and the queue of the controller is not: set NewQueue of the controller to that of the same Binding")

// queueOf returns the queue of the controller that calls the reconciler. The queue is nil if
// no controller does, and if a reconciler of the same Binding around this one has found the
// queue already.
func (b *Binding[R]) queueOf(ctx context.Context, item R) (*Queue[R], error) {
	q := b.queue.Load()
	outer, bound := ctx.Value(handOutKey{}).(*handOut[R])
	switch {
	case bound && outer.queue.binding == b:
		return nil, nil
	case !bound && controller.ReconcileIDFromContext(ctx) == "":
		return nil, nil
	case bound || q == nil || !q.seemsToHold(item):
		return nil, errNotBound
	}
	return q, nil
}

// mostLooks is how many reconciles look for their item in the queue. One is too few: two
// controllers that have each other's queues by mistake may both reconcile an object of the
// same name.
const mostLooks = 100

// seemsToHold reports whether a worker holds the item. After mostLooks calls it reports true
// without a look.
func (q *Queue[R]) seemsToHold(item R) bool {
	if q.looks.Load() >= mostLooks {
		return true
	}
	q.looks.Add(1)
	return q.holds(item)
}

// holds reports whether a worker holds the item. It looks at all items that are held.
func (q *Queue[R]) holds(item R) bool {
	for limit := mostLooks; ; limit *= 4 {
		s := q.queue.Snapshot(limit)
		for _, held := range s.InFlight {
			if held.Item == item {
				return true
			}
		}
		if s.InFlightTotal <= limit {
			return false
		}
	}
}

// outlive returns ctx or, if there is a Grace, a context that ends with ctx or with the
// Grace, whichever is later. If ctx ends for another reason than the context of the
// manager's Start, the returned context ends at once: at a deadline, for example, or when
// the leadership is lost. At a deadline the error is [context.DeadlineExceeded].
func (q *Queue[R]) outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	if q.options.Grace == 0 {
		return ctx, func() {}
	}
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	deadline, limited := ctx.Deadline()
	stop := q.follow(ctx, limited, cancel)
	end := func() {
		stop()
		cancel(context.Canceled)
	}
	if limited {
		timed, release := context.WithDeadline(longer, deadline)
		return timed, func() { release(); end() }
	}
	return longer, end
}

// follow calls cancel when the longer context of a reconcile ends, until stop is called. A reconcile that
// begins after the end gets an ended context: follow calls cancel before it returns.
func (q *Queue[R]) follow(ctx context.Context, limited bool, cancel context.CancelCauseFunc) (stop func() bool) {
	ended := func() (stop func() bool) {
		none := func() bool { return true }
		if limited && ctx.Err() == context.DeadlineExceeded {
			return none // The timer of the deadline ends the longer context. A cancel would be another error.
		}
		if !q.binding.term.asked.Load() || ctx.Err() != context.Canceled {
			cancel(context.Cause(ctx))
			return none
		}
		g := q.grace()
		if cause := g.cause(); cause != nil {
			cancel(cause)
			return none
		}
		return context.AfterFunc(g.ctx, func() { cancel(context.Cause(g.ctx)) })
	}
	if ctx.Err() != nil {
		return ended()
	}
	return context.AfterFunc(ctx, func() { ended() })
}

// ReAddContext returns a context that ends when the item of this reconcile is added
// again, because its object has changed: work on the old state can stop, or look at
// the new state. The cause is then [workqueue.ErrReAdded]. The context ends with ctx too.
// The CancelFunc releases the context; it must be called.
//
// ctx must be the context of a reconciler that [Binding.Reconciler] or [WrapManager] has
// wrapped, or derived from such a context. With any other context, as in a test that calls
// Reconcile, the returned context ends with ctx alone. If a Binding has made the queue of the
// controller, but nobody has called the Reconciler of that Binding, ReAddContext panics with the
// name of the controller.
//
// A reconcile that stops early returns a Result with a RequeueAfter, however short. Without
// a RequeueAfter, the work is lost if [Queue.Remove] takes the add back, and a resync of low priority
// moves an urgent item behind all others.
//
// Beware of a reconcile that writes to its own object: the event of the write adds
// the item again, and ends the context. Call ReAddContext after the write, before the part
// worth stopping. Or use CancelOnReAdd of the [Options], which has a bound.
func ReAddContext[R comparable](ctx context.Context, item R) (context.Context, context.CancelFunc) {
	if h, ok := ctx.Value(handOutKey{}).(*handOut[R]); ok {
		return h.queue.ReAddContext(ctx, item)
	}
	if controller.ReconcileIDFromContext(ctx) != "" {
		if name, ok := unwrapped(item); ok {
			panic(fmt.Sprintf("ctrlqueue: controller %q: ReAddContext needs the Reconciler of the Binding around the reconciler", name))
		}
	}
	return context.WithCancel(ctx)
}

// unwrapped returns the name of a controller whose queue is of a Binding without a Reconciler, and
// whose worker holds the item.
func unwrapped[R comparable](item R) (name string, ok bool) {
	for _, name := range Names() {
		q, ok := Lookup[R](name)
		if ok && !q.binding.wraps.Load() && q.holds(item) {
			return name, true
		}
	}
	return "", false
}

// cancelOnReAdd calls the reconciler with a context that ends when the item is added again.
// The add has marked the item, so Done queues the item at once. After a reconcile that was cut short, the
// controller is told to requeue the item after some time: the controller names the priority of the
// hand-out. The item has one entry, so the higher priority and the earlier time hold. The add of the
// controller is what the reconcile asks for: an item that was removed meanwhile stays away.
func (r *reconciler[R]) cancelOnReAdd(ctx context.Context, h *handOut[R]) (reconcile.Result, error) {
	q, item := h.queue, h.item
	watching, cancel := q.ReAddContext(ctx, item)
	defer cancel()
	cut := false
	defer func() {
		if !cut { // Also after a panic.
			q.attempts.change(item, func(a *attempt) { a.cancels = 0 })
		}
	}()
	result, err := r.next.Reconcile(watching, item)
	cause := context.Cause(watching)
	if cause != workqueue.ErrReAdded && cause != workqueue.ErrRemoved || !errors.Is(err, context.Canceled) && !errors.Is(err, cause) {
		return h.conclude(ctx, result, err)
	}
	h.returned = true
	if q.sinceHandOut(item) == workqueue.ErrRemoved {
		q.queue.CountResult(workqueue.OutcomeRemoved)
		return reconcile.Result{}, nil
	}
	cut = true
	q.queue.CountResult(workqueue.OutcomeReAdded)
	q.attempts.begin(item, func(a *attempt) {
		a.cancels++
		a.cut, a.ended = true, true
	})
	return reconcile.Result{RequeueAfter: time.Nanosecond}, nil
}

// sinceHandOut returns [workqueue.ErrReAdded] if a held item was added since its hand-out,
// [workqueue.ErrRemoved] if it was removed and not added since, and nil otherwise.
func (q *Queue[R]) sinceHandOut(item R) error {
	ctx, cancel := q.ReAddContext(context.Background(), item)
	defer cancel()
	return context.Cause(ctx)
}

// mayCancel reports whether the next reconcile of the item may be cut short. If not, the
// count starts anew.
func (q *Queue[R]) mayCancel(item R) bool {
	n := q.attempts.of(item).cancels
	if n < q.options.CancelOnReAdd {
		return true
	}
	q.attempts.change(item, func(a *attempt) { a.cancels = 0 })
	q.logger.Info("The next reconcile is not cancelled, as the object has changed in each of the last ones", "item", item, "cancels", n)
	return false
}
