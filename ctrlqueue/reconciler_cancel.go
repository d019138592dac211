package ctrlqueue

import (
	"context"
	"fmt"
	"sync"

	"github.com/seed16c08ea7/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// CancelOnReAdd returns a reconciler that calls r with a [ReAddContext]: a reconcile is
// cancelled when its object changes, and follows at once with the new state. What it
// returns then is dropped, as is the count of the failures of the item: no failure is
// logged or counted, and the item does not wait. It follows also if Remove takes the re-add
// back, and with the higher of two priorities: that of its hand-out, and that of the re-add.
//
// After most cancels of an item in a row, 3 if it is 0, the next reconcile is allowed to
// finish. Without this bound an object that changes all the time, or a reconcile that
// writes to its own object, would never get done.
//
// It must be called by what [Reconciler] or [Manager] makes:
//
//	ctrlqueue.Reconciler("pod", ctrlqueue.CancelOnReAdd(r, 0))
//
// It panics if most is negative.
func CancelOnReAdd[R comparable](r reconcile.TypedReconciler[R], most int) reconcile.TypedReconciler[R] {
	if most < 0 {
		panic(fmt.Sprint("ctrlqueue: CancelOnReAdd with a negative number of cancels: ", most))
	}
	if most == 0 {
		most = 3
	}
	return &cancelling[R]{next: r, most: most, cancels: make(map[R]int)}
}

type cancelling[R comparable] struct {
	next reconcile.TypedReconciler[R]
	most int

	mu sync.Mutex
	// cancels is how often in a row the last reconciles of an item were cancelled. It
	// has only items whose last one was, and these are about to be reconciled again.
	// It is guarded by mu.
	cancels map[R]int
}

func (c *cancelling[R]) Reconcile(ctx context.Context, item R) (reconcile.Result, error) {
	if c.exhausted(item) {
		return c.next.Reconcile(ctx, item)
	}
	cancellable, cancel := ReAddContext(ctx, item)
	defer cancel()
	result, err := c.next.Reconcile(cancellable, item)
	if context.Cause(cancellable) != workqueue.ErrReAdded {
		c.forget(item)
		return result, err
	}
	c.count(item)
	if q, ok := ctx.Value(queueKey[R]{}).(*Queue[R]); ok {
		q.redo(item)
	}
	return reconcile.Result{}, nil
}

// exhausted reports whether the item was cancelled often enough, and starts anew then.
func (c *cancelling[R]) exhausted(item R) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancels[item] < c.most {
		return false
	}
	delete(c.cancels, item)
	return true
}

func (c *cancelling[R]) forget(item R) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cancels, item)
}

func (c *cancelling[R]) count(item R) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancels[item]++
}
