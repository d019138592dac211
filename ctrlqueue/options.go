package ctrlqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/debugpage"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Options are the options of [For] and [WrapManager]. The zero value is valid: it gives the
// rules of controller-runtime's own queue. Several controllers can have the same Options.
type Options[R comparable] struct {
	// Order decides which item is handed out next. With the zero Order, the highest
	// priority is handed out first, and within a priority the item that was added first.
	//
	// The Order has fairness and limits for groups of items: [Namespace] as its Group makes
	// the namespaces take turns. With a Priority function, an item has a priority also if
	// the add names none.
	Order workqueue.Order[R]

	// Pace limits the reconciles of a controller, whatever has added the item, see
	// [workqueue.TypedQueueConfig]. Controllers with the same Options share the limiter.
	Pace *rate.Limiter

	// ItemPace slows down an object that is reconciled too often, and no other, see
	// [workqueue.TypedDelayingQueueConfig]. Each controller has tokens of its own. Together with a
	// Quiet, the later time counts.
	ItemPace workqueue.Rate

	// StrictBackoff keeps an event from cutting short the backoff of a failed object, see
	// [workqueue.TypedRateLimitingQueueConfig]. A change of the spec and a deletion wait too, up to the
	// cap of the limiter: 1000 s by default. [Queue.Wake] ends such a wait.
	StrictBackoff bool

	// Quiet puts an add off until its item was not added for the time Quiet, so that a burst of
	// events leads to one reconcile. The cancel of CancelOnReAdd is put off with the add. Most is
	// how long the item is put off at most, from the first add on; 0 is no bound. Adds that name
	// a delay, a limiter or a priority other than 0 are not put off, which includes the initial
	// list. If the Order has a Priority function, adds that name 0 are not put off either. Quiet
	// puts off every object, and ItemPace only an object with many events.
	Quiet, Most time.Duration

	// CancelOnReAdd is how many reconciles of an object in a row a change of the object may
	// cancel; 0 is none. The context of the reconcile ends with the cause
	// [workqueue.ErrReAdded]. If the reconcile then returns an error that wraps
	// [context.Canceled] or the cause, the reconcile was cut short. The error is dropped:
	// nothing is logged or counted as a failure. The next reconcile of the object follows
	// at once, unless the object was removed by [Queue.Remove]. Its priority is the
	// higher of the priorities of the change and of the reconcile that was cut short.
	//
	// After so many reconciles in a row, the next one is not cancelled, so that it can come to
	// an end, and a [Queue.Remove] does not end its context either: [ReAddContext] does. A reconcile that
	// writes to its own object cancels itself each time: 3 is a good number.
	CancelOnReAdd int

	// MaxAttempts is how many times in a row the reconcile of an object may return an error before the
	// object is given up; 0 is any number. The last error becomes a [reconcile.TerminalError], which
	// controller-runtime logs and counts. GiveUpFor says when the object is tried again. Then the count starts
	// anew, as after a success, a RequeueAfter, [Queue.Forget] and [Queue.Remove]. A Requeue neither counts nor ends
	// the row.
	//
	// A failure before the retry was due does not count, see [Queue.AddWithOpts]: an object with many
	// events may be reconciled more often, and StrictBackoff keeps the events back. A reconcile that
	// CancelOnReAdd or the end of the manager has cut short does not count either. A panic counts too. If it is the
	// last failure, controller-runtime logs a panic and no TerminalError.
	MaxAttempts int

	// GiveUpFor is how long no event brings an object that is given up, by MaxAttempts or by a
	// [reconcile.TerminalError] of its reconcile: the object waits firmly, as after a [DeferFor], and is then tried
	// again. [WakeOn] ends the wait when the spec of the object changes, and [Queue.Wake] at any time. With 0 the
	// next event tries the object again, with the first and shortest waits: an object with many events is then
	// reconciled more often than without MaxAttempts.
	GiveUpFor time.Duration

	// OnGiveUp is told of each object that MaxAttempts gives up, or whose reconcile has returned a
	// [reconcile.TerminalError], with the context and the error of the reconcile: for a status or a record of an event.
	// It is called by the worker, and the object waits meanwhile. If OnGiveUp returns an error or panics, the object is
	// not given up: the reconcile has failed, is retried with the backoff, and OnGiveUp is called at its next failure.
	// The context of the reconcile may be over, such as after a ReconciliationTimeout: give a write
	// [context.WithoutCancel] and a timeout of its own.
	OnGiveUp func(ctx context.Context, controller string, item R, err error) error

	// AtEnd is what becomes of the queue when the manager ends because the context of its
	// Start has ended. [workqueue.EndStop], the zero value, is the end of
	// controller-runtime: until the shutdown of the queue workers begin queued items with an
	// ended context, and the rest is dropped. With [workqueue.EndDrain], workers
	// finish the queued items, as long as Grace lasts. Waiting items are dropped, and an item
	// that fails during the drain is not retried. [workqueue.EndKeep] panics.
	//
	// A manager that ends for another reason, such as the loss of its leadership, always
	// drops the queued items. A leadership that is lost during the drain ends the drain only
	// with a Lock.
	AtEnd workqueue.End

	// Grace is how long the contexts of reconciles outlast the context of the manager's
	// Start. EndDrain needs a Grace, and a Grace needs [WrapManager]. The contexts, and the
	// drain, end in any case when Start of the manager below returns, so Grace should be
	// shorter than GracefulShutdownTimeout of the manager.
	Grace time.Duration

	// Finish is the last part of the Grace, in which nothing is handed out, so that the reconciles that have begun can
	// finish: set it to a time in which nearly all do. The drain ends when they have. With 0, reconciles begin until the
	// end of the Grace, and the last one of each worker is cut short.
	Finish time.Duration

	// Lock ends the Grace, which it needs, when the leadership ends, see [Lock]. Lock is the same as
	// LeaderElectionResourceLockInterface of the manager. Without a Lock, and with
	// controller-runtime's own lock, the contexts of reconciles and the drain go on until the
	// Grace is over or Start returns, although another replica may lead. A controller that
	// needs no leader election is not bound to the Lock.
	Lock *Lock

	// OnStop is told what the queue of a controller has left when the queue ends: by the end of the manager,
	// after a drain too, or by the loss of the leadership. left names, each once, the objects that are queued
	// and in flight, those that wait, which the end drops, and those whose reconcile has failed or has asked
	// for a time since the end began: as failed, or as waiting without a time. If the Grace was too short, what
	// is in flight is that of the moment before the contexts ended. Events since the end began are not named.
	//
	// OnStop is called once for each controller that has begun. The workers end when OnStop has returned, and
	// so does Start of the manager that [WrapManager] has returned. OnStop must not wait for the manager. The
	// names of millions of objects take seconds.
	OnStop func(controller string, left workqueue.Snapshot[R])

	// Clock tells the time that delays are measured in; nil is the real one.
	Clock clock.WithTicker

	// Page shows the queue of each controller under the name of the controller, from the start of
	// the controller until its queue has ended, which is after a drain. The page keeps the queue in memory
	// meanwhile. nil is no page.
	Page *debugpage.Page

	// Logger is told of panics in foreign code on the goroutine of the queue, of queued items that are
	// dropped at the end, and of an object that was cancelled as often as CancelOnReAdd allows. If nil, it
	// is the logger of controller-runtime.
	Logger *logr.Logger
}

// Namespace returns the namespace of the object of a request, for the Group of an Order.
func Namespace(r reconcile.Request) string { return r.Namespace }

// check panics if the options make no sense. The constructor of a queue checks the Order.
func (o Options[R]) check() {
	workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[R]{Order: o.Order})
	switch {
	case min(o.Quiet, o.Most, o.Grace, o.Finish) < 0:
		panic(fmt.Sprintf("ctrlqueue: a duration is negative: Quiet %v, Most %v, Grace %v, Finish %v", o.Quiet, o.Most, o.Grace, o.Finish))
	case o.Finish > 0 && o.Finish >= o.Grace:
		panic(fmt.Sprintf("ctrlqueue: Finish leaves nothing of the Grace: %v of %v", o.Finish, o.Grace))
	case o.Most > 0 && o.Quiet == 0:
		panic("ctrlqueue: Most needs a Quiet")
	case o.Most > 0 && o.Most < o.Quiet:
		panic(fmt.Sprintf("ctrlqueue: Most is less than Quiet: %v and %v", o.Most, o.Quiet))
	case o.CancelOnReAdd < 0:
		panic(fmt.Sprintf("ctrlqueue: CancelOnReAdd is negative: %d", o.CancelOnReAdd))
	case o.MaxAttempts < 0:
		panic(fmt.Sprintf("ctrlqueue: MaxAttempts is negative: %d", o.MaxAttempts))
	case o.GiveUpFor < 0:
		panic(fmt.Sprintf("ctrlqueue: GiveUpFor is negative: %v", o.GiveUpFor))
	}
	o.checkEnd()
}

// needReconciler reports whether an option has no effect without the Reconciler of the [Binding].
func (o Options[R]) needReconciler() bool {
	return o.CancelOnReAdd > 0 || o.MaxAttempts > 0 || o.GiveUpFor > 0 || o.OnGiveUp != nil
}

func (o Options[R]) checkEnd() {
	switch {
	case o.AtEnd == workqueue.EndKeep:
		panic("ctrlqueue: EndKeep keeps nothing: a controller that starts again makes a new queue")
	case o.AtEnd > workqueue.EndKeep:
		panic(fmt.Sprintf("ctrlqueue: AtEnd has an unknown value: %d", uint8(o.AtEnd)))
	case o.AtEnd == workqueue.EndDrain && o.Grace == 0:
		panic("ctrlqueue: EndDrain without Grace: there is no time to drain in")
	case o.Lock != nil && o.Grace == 0:
		panic("ctrlqueue: Lock without Grace: there is nothing that the Lock could end")
	}
}
