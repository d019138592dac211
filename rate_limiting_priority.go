package workqueue

// AddWith adds the items with a priority, at once or when they are due, see
// [TypedDelaying.AddWith]. With RateLimited the limiter says when, once for each of
// them, unless After is earlier.
//
// It panics, before it adds anything, if there is a priority and the delaying queue
// knows none.
func (q *TypedRateLimiting[T]) AddWith(options AddOptions, items ...T) {
	if !options.RateLimited {
		if !q.sealed.Load() {
			q.addWith(options, items...)
		}
		return
	}
	mustPrioritizeBelow[T](q.queue, options.Priority)
	limiter := q.mustLimiter()
	for _, item := range items {
		d := max(0, limiter.When(item))
		if options.After > 0 {
			d = min(d, options.After)
		}
		if !q.sealed.Load() {
			q.limit(item, d, options.Priority)
		}
	}
}

// addWith is AddWith without a limiter. A delaying queue that was configured may have
// no AddWith.
func (q *TypedRateLimiting[T]) addWith(options AddOptions, items ...T) {
	if d, ok := q.queue.(*TypedDelaying[T]); ok {
		d.AddWith(options, items...)
		return
	}
	switch {
	case options.Priority != 0:
		addWithBelow(q.queue, options, items)
	case options.After > 0:
		for _, item := range items {
			q.queue.AddAfter(item, options.After)
		}
	default:
		q.AddAll(items...)
	}
}

// GetWithPriority returns a queued item, see [TypedDelaying.GetWithPriority].
func (q *TypedRateLimiting[T]) GetWithPriority() (item T, priority int, shutdown bool) {
	return getWithPriorityBelow[T](q.queue)
}

// mustPrioritize is that of TypedDelaying.
func (q *TypedRateLimiting[T]) mustPrioritize(priority int) {
	mustPrioritizeBelow[T](q.queue, priority)
}
