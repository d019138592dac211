package ctrlqueue

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Reconciler returns a reconciler that calls r with a context which knows the queue of
// the controller with that name, so that [ReAddContext] works. The name is that of the
// controller, which the builder makes of the kind in lower case if Named does not give
// one. If there is no such queue, the context knows none. Of several queues of the name
// it is the youngest, and during a drain that of the manager that has stopped; [Manager]
// does not depend on names.
//
// If the queue is one that drains when the manager ends, see Drain of [Options], the
// context goes on during the drain, and ends with it. Its deadline stays.
func Reconciler[R comparable](name string, r reconcile.TypedReconciler[R]) reconcile.TypedReconciler[R] {
	return &reconciler[R]{next: r, find: func(ctx context.Context) *Queue[R] {
		stopped := ctx.Err() != nil
		if q, ok := lookup(name, func(q *Queue[R]) bool { return q.stopped() == stopped }); ok {
			return q
		}
		q, _ := Lookup[R](name)
		return q
	}}
}

type reconciler[R comparable] struct {
	next reconcile.TypedReconciler[R]
	find func(context.Context) *Queue[R] // of a reconcile that begins now; nil if there is none
}

func (r *reconciler[R]) Reconcile(ctx context.Context, item R) (reconcile.Result, error) {
	var q *Queue[R]
	if ctx.Value(queueKey[R]{}) == nil { // Otherwise the one that wraps this has found it.
		q = r.find(ctx)
	}
	if q == nil {
		return r.next.Reconcile(ctx, item)
	}
	ctx, cancel := q.outlive(context.WithValue(ctx, queueKey[R]{}, q))
	defer cancel()
	return r.next.Reconcile(ctx, item)
}

// queueKey is the key under which a context has the *Queue[R] of its reconcile.
type queueKey[R comparable] struct{}

// outlive returns ctx or, if the queue may drain, a context that ends with ctx or with
// the drain, whichever is later. What ends for another reason than the end of the
// manager ends at once: a deadline, or the loss of the leadership.
func (q *Queue[R]) outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	if q.options.Drain == 0 {
		return ctx, func() {}
	}
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if q.options.Stopped.Err() == nil || ctx.Err() != context.Canceled {
			cancel(context.Cause(ctx))
			return
		}
		g := q.grace()
		context.AfterFunc(g.ctx, func() { cancel(context.Cause(g.ctx)) })
	})
	end := func() {
		stop()
		cancel(context.Canceled)
	}
	if deadline, ok := ctx.Deadline(); ok {
		limited, release := context.WithDeadline(longer, deadline)
		return limited, func() { release(); end() }
	}
	return longer, end
}

// ReAddContext returns a context that ends when the item of this reconcile is added
// again, as it is when its object changes: work on the old state can stop, or look at
// the new one. Its cause is [workqueue.ErrReAdded] then. It ends with ctx too. The
// CancelFunc releases it; it must be called.
//
// ctx must be the one that a reconciler made by [Reconciler] or [Manager] was called
// with, or one derived from it. With any other, as in a test that calls Reconcile, the
// returned context ends with ctx alone.
//
// Beware of a reconcile that writes to its own object: the event of that write adds
// the item again, and ends the context. Make one before the part that is worth
// stopping, after the write, or use [CancelOnReAdd], which has a bound.
func ReAddContext[R comparable](ctx context.Context, item R) (context.Context, context.CancelFunc) {
	if q, ok := ctx.Value(queueKey[R]{}).(*Queue[R]); ok {
		return q.ReAddContext(ctx, item)
	}
	return context.WithCancel(ctx)
}
