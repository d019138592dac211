package workqueue

// ForeignCounts returns for how many queues of other types Run counts failures.
func ForeignCounts() int {
	foreignAttempts.mu.Lock()
	defer foreignAttempts.mu.Unlock()
	return len(foreignAttempts.counts)
}

// Watchers returns how many contexts are kept for an item.
func (q *Typed[T]) Watchers(item T) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for w, ok := q.fifo.watchers[item]; ok; w, ok = *w.more, true {
		if n++; w.more == nil {
			break
		}
	}
	return n
}

// ForgetInRun is Forget of a limiter as a Run does it.
func ForgetInRun[T comparable](limiter TypedRateLimiter[T], item T) {
	var o oblivion[T]
	o.add(limiter)
	o.forget(item)
}
