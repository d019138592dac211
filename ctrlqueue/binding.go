package ctrlqueue

import (
	"fmt"
	"sync"
	"sync/atomic"

	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A Binding makes the queue of one controller, and the reconciler that belongs to the queue.
// [For] makes a Binding. A Binding must not be copied, and its methods may be called
// concurrently.
//
// Both methods go into the options of the same controller. A controller does not start if
// one of its Options needs both and has one. A reconcile returns an error if the queue of
// its controller is of another Binding, or of none.
type Binding[R comparable] struct {
	options Options[R]
	term    *term       // of the manager, nil if For made the Binding
	lock    *Lock       // with which the controller is elected, nil for none
	wraps   atomic.Bool // Reconciler was called

	mu    sync.Mutex               // held while a queue is made
	queue atomic.Pointer[Queue[R]] // the last one, nil if the controller was never started
}

// For returns a Binding for one controller. For panics if the options make no sense, and if
// they have a Grace or a Lock: a Binding of For does not learn why the manager has ended, see
// [WrapManager].
func For[R comparable](options Options[R]) *Binding[R] {
	options.check()
	if options.Grace > 0 || options.Lock != nil {
		panic("ctrlqueue: For with a Grace, which EndDrain needs too, or with a Lock: use WrapManager, which learns why the manager has ended")
	}
	return &Binding[R]{options: options}
}

// NewQueue makes the *[Queue] of the controller. It goes into the options of the controller
// as a method value:
//
//	controller.Options{NewQueue: binding.NewQueue}
//
// controller-runtime calls NewQueue when it starts the controller, with the name of the
// controller. Metrics have the name as a label, and [Lookup] finds the queue by the name. A
// nil limiter is [workqueue.DefaultTypedControllerRateLimiter].
//
// NewQueue panics with the name of the controller
//   - if the last queue of the Binding has not ended: the Binding has another controller;
//   - if the options have CancelOnReAdd, MaxAttempts, GiveUpFor or OnGiveUp, and nobody has called Reconciler;
//   - if the options have a Grace, and the manager that WrapManager returned is not the one
//     that was started.
func (b *Binding[R]) NewQueue(name string, limiter clientgo.TypedRateLimiter[R]) clientgo.TypedRateLimitingInterface[R] {
	if b.options.needReconciler() && !b.wraps.Load() {
		panic(fmt.Sprintf("ctrlqueue: controller %q: CancelOnReAdd, MaxAttempts, GiveUpFor and OnGiveUp need the Reconciler of the Binding around the reconciler", name))
	}
	if b.options.Grace > 0 && !b.term.begun.Load() {
		panic(fmt.Sprintf("ctrlqueue: controller %q: Grace needs a Start of the manager that WrapManager has returned", name))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := b.queue.Load(); last != nil && last.over.Err() == nil {
		panic(fmt.Sprintf("ctrlqueue: controller %q: the Binding is that of controller %q, whose queue has not ended: call For for each controller", name, last.name))
	}
	q := newQueue(b, name, limiter)
	b.queue.Store(q)
	if b.term != nil {
		b.term.add(q.endTerm)
	}
	return q
}

// Reconciler returns a reconciler that calls r with a context which knows the queue of the
// controller, for [ReAddContext]. CancelOnReAdd and Grace of the [Options] act on the same
// context, and MaxAttempts on the error. The deadline of the context is the deadline that the controller has set.
//
// If no controller calls the reconciler, as in a test of r, r gets the context of the caller.
func (b *Binding[R]) Reconciler(r reconcile.TypedReconciler[R]) reconcile.TypedReconciler[R] {
	b.wraps.Store(true)
	return &reconciler[R]{binding: b, next: r}
}
