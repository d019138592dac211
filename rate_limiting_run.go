package workqueue

// This file has what a TypedRateLimiting is to a Run on it. A type that embeds one has
// these methods too, and Run uses them, except limit: the AddRateLimited of that type
// may do more.

func (q *TypedRateLimiting[T]) dropWaiting() (dropped func(*Snapshot[T]), release func()) {
	if d, ok := q.queue.(dropper[T]); ok {
		return d.dropWaiting()
	}
	return nil, func() {}
}

// queueName is the name for a Run.
func (q *TypedRateLimiting[T]) queueName() string { return q.name }

func (q *TypedRateLimiting[T]) resultMetrics() resultMetrics { return q.metrics.forRun() }

// failureCounts returns the count of the queue, which is made for the first Run
// that asks.
func (q *TypedRateLimiting[T]) failureCounts() *failures[T] {
	q.attempts.CompareAndSwap(nil, new(failures[T]))
	return q.attempts.Load()
}

func (q *TypedRateLimiting[T]) forgetAttempts(item T) {
	if f := q.attempts.Load(); f != nil {
		f.forgetAny(item)
	}
}
