package workqueuetest

import (
	"context"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// This file has the methods that change a queue. Each records the call and makes it. The
// method of the same name of [workqueue.TypedRateLimiting] is the real one.

// Add records an Add.
func (q *Queue[T]) Add(item T) {
	q.record(func() { q.TypedRateLimiting.Add(item) }, Call[T]{Method: "Add", Item: item})
}

// AddAll records an Add of each item.
func (q *Queue[T]) AddAll(items ...T) (taken int) {
	q.record(func() { taken = q.TypedRateLimiting.AddAll(items...) }, each(Call[T]{Method: "Add"}, items)...)
	return taken
}

// AddAfter records an AddAfter with its duration.
func (q *Queue[T]) AddAfter(item T, duration time.Duration) {
	q.record(func() { q.TypedRateLimiting.AddAfter(item, duration) }, Call[T]{Method: "AddAfter", Item: item, Delay: duration})
}

// AddRateLimited records an AddRateLimited.
func (q *Queue[T]) AddRateLimited(item T) {
	q.record(func() { q.TypedRateLimiting.AddRateLimited(item) }, Call[T]{Method: "AddRateLimited", Item: item})
}

// AddWith records an AddWith of each item, with the options.
func (q *Queue[T]) AddWith(options workqueue.AddOptions, items ...T) (taken int) {
	call := Call[T]{Method: "AddWith", Delay: options.After, RateLimited: options.RateLimited, Firm: options.Firm}
	if options.Priority != nil {
		call.Priority, call.PriorityNamed = *options.Priority, true
	}
	q.record(func() { taken = q.TypedRateLimiting.AddWith(options, items...) }, each(call, items)...)
	return taken
}

// Reschedule records a Reschedule with its duration.
func (q *Queue[T]) Reschedule(item T, duration time.Duration) (taken bool) {
	q.record(func() { taken = q.TypedRateLimiting.Reschedule(item, duration) }, Call[T]{Method: "Reschedule", Item: item, Delay: duration})
	return taken
}

// Debounce records a Debounce with its quiet time.
func (q *Queue[T]) Debounce(item T, quiet, maxWait time.Duration) (taken bool) {
	q.record(func() { taken = q.TypedRateLimiting.Debounce(item, quiet, maxWait) }, Call[T]{Method: "Debounce", Item: item, Delay: quiet})
	return taken
}

// Forget records a Forget.
func (q *Queue[T]) Forget(item T) {
	q.record(func() { q.TypedRateLimiting.Forget(item) }, Call[T]{Method: "Forget", Item: item})
}

// Remove records a Remove.
func (q *Queue[T]) Remove(item T) (removed bool) {
	q.record(func() { removed = q.TypedRateLimiting.Remove(item) }, Call[T]{Method: "Remove", Item: item})
	return removed
}

// RemoveFunc records a Remove for each item for which del returns true.
func (q *Queue[T]) RemoveFunc(del func(item T) bool) (removed int) {
	return q.TypedRateLimiting.RemoveFunc(func(item T) bool {
		ok := del(item)
		if ok {
			q.note(Call[T]{Method: "Remove", Item: item})
		}
		return ok
	})
}

// Wake records a Wake for each item.
func (q *Queue[T]) Wake(items ...T) (woken int) {
	calls := make([]Call[T], len(items))
	for i, item := range items {
		calls[i] = Call[T]{Method: "Wake", Item: item}
	}
	q.record(func() { woken = q.TypedRateLimiting.Wake(items...) }, calls...)
	return woken
}

// WakeFunc records a Wake for each item for which match returns true.
func (q *Queue[T]) WakeFunc(match func(item T) bool) (woken int) {
	return q.TypedRateLimiting.WakeFunc(func(item T) bool {
		ok := match(item)
		if ok {
			q.note(Call[T]{Method: "Wake", Item: item})
		}
		return ok
	})
}

// Done records a Done.
func (q *Queue[T]) Done(item T) {
	q.record(func() { q.TypedRateLimiting.Done(item) }, Call[T]{Method: "Done", Item: item})
}

// Get records a Get once there is an item.
func (q *Queue[T]) Get() (item T, shutdown bool) {
	item, shutdown = q.TypedRateLimiting.Get()
	q.recordGet(item, 0, !shutdown)
	return item, shutdown
}

// GetInfo records a Get with its priority once there is an item.
func (q *Queue[T]) GetInfo(ctx context.Context) (workqueue.ItemInfo[T], error) {
	info, err := q.TypedRateLimiting.GetInfo(ctx)
	q.recordGet(info.Item, info.Priority, err == nil)
	return info, err
}

// GetContext records a Get once there is an item.
func (q *Queue[T]) GetContext(ctx context.Context) (T, error) {
	item, err := q.TypedRateLimiting.GetContext(ctx)
	q.recordGet(item, 0, err == nil)
	return item, err
}

// TryGet records a Get if there is an item.
func (q *Queue[T]) TryGet() (item T, ok bool) {
	item, ok = q.TypedRateLimiting.TryGet()
	q.recordGet(item, 0, ok)
	return item, ok
}
