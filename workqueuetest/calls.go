package workqueuetest

import (
	"context"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// This file has the methods that change a queue. Each notes the call and makes it.

// Add is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) Add(item T) {
	q.note("Add", item, 0)
	q.TypedRateLimiting.Add(item)
}

// AddAll is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) AddAll(items ...T) (taken int) {
	for _, item := range items {
		q.note("Add", item, 0)
	}
	return q.TypedRateLimiting.AddAll(items...)
}

// AddAfter is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) AddAfter(item T, duration time.Duration) {
	q.note("AddAfter", item, duration)
	q.TypedRateLimiting.AddAfter(item, duration)
}

// AddRateLimited is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) AddRateLimited(item T) {
	q.note("AddRateLimited", item, 0)
	q.TypedRateLimiting.AddRateLimited(item)
}

// AddWith is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) AddWith(options workqueue.AddOptions, items ...T) (taken int) {
	priority := 0
	if options.Priority != nil {
		priority = *options.Priority
	}
	for _, item := range items {
		q.noteCall(Call[T]{"AddWith", item, options.After, options.RateLimited, priority})
	}
	return q.TypedRateLimiting.AddWith(options, items...)
}

// Reschedule is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) Reschedule(item T, duration time.Duration) (taken bool) {
	q.note("Reschedule", item, duration)
	return q.TypedRateLimiting.Reschedule(item, duration)
}

// Debounce is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) Debounce(item T, quiet, most time.Duration) (taken bool) {
	q.note("Debounce", item, quiet)
	return q.TypedRateLimiting.Debounce(item, quiet, most)
}

// Forget is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) Forget(item T) {
	q.note("Forget", item, 0)
	q.TypedRateLimiting.Forget(item)
}

// Remove is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) Remove(item T) bool {
	defer q.change()
	q.note("Remove", item, 0)
	return q.TypedRateLimiting.Remove(item)
}

// Get is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) Get() (item T, shutdown bool) {
	item, shutdown = q.TypedRateLimiting.Get()
	if !shutdown {
		q.note("Get", item, 0)
	}
	return item, shutdown
}

// GetInfo is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) GetInfo(ctx context.Context) (workqueue.ItemInfo[T], error) {
	info, err := q.TypedRateLimiting.GetInfo(ctx)
	if err == nil {
		q.noteCall(Call[T]{Method: "Get", Item: info.Item, Priority: info.Priority})
	}
	return info, err
}

// GetContext is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) GetContext(ctx context.Context) (T, error) {
	item, err := q.TypedRateLimiting.GetContext(ctx)
	if err == nil {
		q.note("Get", item, 0)
	}
	return item, err
}

// TryGet is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) TryGet() (item T, ok bool) {
	item, ok = q.TypedRateLimiting.TryGet()
	if ok {
		q.note("Get", item, 0)
	}
	return item, ok
}

// Done is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) Done(item T) {
	defer q.change()
	q.note("Done", item, 0)
	q.TypedRateLimiting.Done(item)
}

// ShutDown is that of [workqueue.TypedRateLimiting]. It is not noted, as no other end of
// a queue is.
func (q *Queue[T]) ShutDown() {
	defer q.change()
	q.TypedRateLimiting.ShutDown()
}

// ShutDownWithDrain is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) ShutDownWithDrain() {
	defer q.change()
	q.TypedRateLimiting.ShutDownWithDrain()
}

// Drain is that of [workqueue.TypedRateLimiting].
func (q *Queue[T]) Drain(ctx context.Context) error {
	defer q.change()
	return q.TypedRateLimiting.Drain(ctx)
}
