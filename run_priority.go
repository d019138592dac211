package workqueue

import "context"

// This file has what Run needs to retry an item with the priority that it was handed
// out with. Only a [TypedRateLimiting] of ours says what that was: a type that embeds
// one may have a GetContext of its own, which must not be passed over.

// getContext returns an item and notes its priority.
func (w *worker[T]) getContext() (item T, err error) {
	if w.ours != nil {
		item, w.priority, err = w.ours.getContextWithPriority(w.intake)
		return item, err
	}
	return w.getter.GetContext(w.intake)
}

// getContextWithPriority is GetContext, with the priority of the item, which is 0 if the
// queue below is of another make.
func (q *TypedRateLimiting[T]) getContextWithPriority(ctx context.Context) (item T, priority int, err error) {
	if d, ok := q.queue.(*TypedDelaying[T]); ok {
		return d.getContextWithPriority(ctx)
	}
	item, err = q.GetContext(ctx)
	return item, 0, err
}

func (q *TypedDelaying[T]) getContextWithPriority(ctx context.Context) (item T, priority int, err error) {
	if t, ok := q.queue.(*Typed[T]); ok {
		return t.getContextWithPriority(ctx)
	}
	item, err = q.GetContext(ctx)
	return item, 0, err
}
