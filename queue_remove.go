package workqueue

// Remove takes back what was added: a queued item leaves the queue, and one that is
// held and was added again is not queued by its Done. Whoever holds it keeps it. It
// reports whether there was an Add to take back. The next Add is as if it were the first.
//
// A [Queue] in the config keeps the removed item, which is dropped when it comes out. If
// it is added again before, it keeps its place there. Remove does not block. It takes
// constant time, amortized.
func (q *Typed[T]) Remove(item T) bool {
	hash := hashOf(item)
	if !q.remove(hash, item) {
		return false
	}
	q.metrics.removed()
	return true
}

func (q *Typed[T]) remove(hash uint32, item T) bool {
	q.mu.Lock()
	removed := q.fifo.remove(hash, item)
	q.settle()
	q.mu.Unlock()
	return removed
}
