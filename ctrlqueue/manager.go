package ctrlqueue

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// WrapManager returns a manager that binds each controller added to the manager: each gets a
// queue of this package, and the Reconciler of the same [Binding] around its reconciler.
// controller-runtime has no option for all controllers of a manager. The builders and
// controller.New
// take the returned manager in place of mgr:
//
//	mgr, err := ctrl.NewManager(...)
//	mgr = ctrlqueue.WrapManager(mgr, ctrlqueue.Options[reconcile.Request]{})
//
// Start the returned manager, and not mgr: Start learns why the manager ends. With a
// Grace in the options, controllers panic if mgr was started instead.
//
// WrapManager replaces the queue of each controller of requests R, also a queue that NewQueue
// or UsePriorityQueue of the controller's options has chosen: a finished controller does not
// tell. Add controllers that shall keep their queue to mgr itself. Add returns
// an error for a reconciler that a Binding has wrapped already. Controllers of other types of
// requests keep their queues.
//
// Managers can be wrapped several times, each time with the options of some controllers, or
// for another type of requests. A controller has the options of the manager to which the
// controller was added. Start the manager that was wrapped last.
//
// A controller has a field for its queue, which is set by its name. If a version of
// controller-runtime has no such field, Add returns an error. WrapManager panics if the
// options make no sense.
func WrapManager[R comparable](mgr manager.Manager, options Options[R]) manager.Manager {
	options.check()
	w := &wrapped[R]{Manager: mgr, options: options}
	w.term.ctx, w.term.end = context.WithCancelCause(context.Background())
	return w
}

type wrapped[R comparable] struct {
	manager.Manager
	options Options[R]
	term    term
}

// A term is a run of a manager, from Start to the end.
type term struct {
	begun atomic.Bool // Start was called
	asked atomic.Bool // to end, by the context of Start

	ctx context.Context // ends with end, when Start of the manager below has returned
	end context.CancelCauseFunc

	mu     sync.Mutex
	queues []func() // end the queues of the term; guarded by mu
}

// add has the end of the term end a queue.
func (t *term) add(end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queues = append(t.queues, end)
}

// close ends the term, and then the queues that have not ended: a leadership that is lost ends the manager
// before its controllers.
func (t *term) close() {
	t.end(errReturned)
	t.mu.Lock()
	queues := t.queues
	t.queues = nil
	t.mu.Unlock()
	for _, end := range queues {
		end()
	}
}

// errReturned is the cause of the end of a term.
var errReturned = errors.New("ctrlqueue: Start of the manager has returned")

// Start implements [manager.Manager]. When the leadership is lost, Start of the manager
// below returns, and the caller may then end ctx. The controllers learn of the end
// later. So the end of ctx is noted only while Start of the manager below runs, and that
// manager gets a context which ends after the note.
//
// Start of the manager below may return while reconciles go on: after GracefulShutdownTimeout, or
// when the leadership is lost. The term is over then, and a Grace with it. The queues end before Start
// returns, so that OnStop is called although the process may end next.
func (w *wrapped[R]) Start(ctx context.Context) error {
	if w.term.begun.Swap(true) {
		return w.Manager.Start(ctx) // Which refuses.
	}
	defer w.term.close()
	inner, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	defer context.AfterFunc(ctx, func() {
		w.term.asked.Store(true)
		end(context.Cause(ctx))
	})()
	return w.Manager.Start(inner)
}

// Add implements [manager.Manager].
func (w *wrapped[R]) Add(r manager.Runnable) error {
	if c, ok := r.(controller.TypedController[R]); ok {
		if err := w.bind(c); err != nil {
			return err
		}
	}
	return w.Manager.Add(r)
}

type newQueueFunc[R comparable] = func(string, clientgo.TypedRateLimiter[R]) clientgo.TypedRateLimitingInterface[R]

// bind sets two fields of a controller that was not started yet. The type of controllers is
// internal, and its fields are exported.
func (w *wrapped[R]) bind(c controller.TypedController[R]) error {
	v := reflect.ValueOf(c)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("ctrlqueue: a %T is no controller of a known version of controller-runtime: use For", c)
	}
	name, okName := field[string](v, "Name")
	queue, okQueue := field[newQueueFunc[R]](v, "NewQueue")
	do, okDo := field[reconcile.TypedReconciler[R]](v, "Do")
	if !okName || !okQueue || !okDo {
		return fmt.Errorf("ctrlqueue: a %T has not the fields Name, NewQueue and Do that were expected: use For", c)
	}
	if r, ok := (*do).(*reconciler[R]); ok {
		if r.binding.term != nil { // The manager around this one was first.
			return nil
		}
		return fmt.Errorf("ctrlqueue: controller %q has a Binding: add it to the manager that was wrapped", *name)
	}
	b := &Binding[R]{options: w.options, term: &w.term, lock: w.options.Lock}
	if l, ok := c.(manager.LeaderElectionRunnable); ok && !l.NeedLeaderElection() {
		b.lock = nil
	}
	*queue, *do = b.NewQueue, b.Reconciler(*do)
	return nil
}

// field returns a pointer to a field of the struct that v points to.
func field[F any](v reflect.Value, name string) (*F, bool) {
	f := v.Elem().FieldByName(name)
	if !f.IsValid() || !f.CanAddr() || !f.CanInterface() {
		return nil, false
	}
	p, ok := f.Addr().Interface().(*F)
	return p, ok
}
