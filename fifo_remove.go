package workqueue

import "time"

// This file is how items leave a queue without a worker, and how the worker
// that holds an item learns that it was added again.

// Remove takes back what was added: a queued item leaves the queue, and an item
// that is held and was added again is not queued by its Done; the worker that
// holds it keeps it. It reports whether there was an Add to take back. The next
// Add of the item is as if it were the first.
//
// With a [Queue] in the config the removed item stays in it, and is dropped
// when it hands the item out; if it is added again before, it keeps its place
// there.
//
// Remove does not block. It takes constant time, amortized.
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
	defer q.mu.Unlock()
	return q.removeLocked(hash, item)
}

func (q *Typed[T]) removeLocked(hash uint32, item T) bool {
	at, found := q.items.find(hash, item)
	if !found {
		return false
	}
	switch r := q.items.records.at(q.items.slots[at].ref - 1); r.state {
	case queued:
		q.line.remove(r.pos, q.placeLocked)
		q.dismissLocked(at, r)
	case inStorage:
		r.state = removed
		q.stored--
		q.ghosts++
		q.settleLocked()
	case reprocess:
		r.state = processing
	default:
		return false
	}
	return true
}

// dismissLocked drops a record that is in no place any more.
func (q *Typed[T]) dismissLocked(at uint32, r *record[T]) {
	q.items.remove(at, r)
	if q.items.sparse() {
		q.compactLocked()
	}
	q.settleLocked()
}

// placeLocked tells a record its place in the line.
func (q *Typed[T]) placeLocked(i, place uint32) { q.items.records.at(i).pos = place }

// restoreLocked adds an item that was removed and is still in the storage.
func (q *Typed[T]) restoreLocked(i uint32, r *record[T], now time.Duration) {
	r.state = inStorage
	q.ghosts--
	q.stored++
	q.stampLocked(i, now)
	q.wakeLocked()
	q.storage.Touch(r.item)
}

// A watcher is a queue that tells when an item is added again.
type watcher[T comparable] interface {
	// watch has f called when the item, which the caller holds, is added again:
	// at once if that has happened since it was handed out, so that no Add is
	// missed, and otherwise within the Add, with the lock of the queue held. It
	// is called at most once, and not after Done. watch reports false if the
	// queue cannot tell; with a nil f it does nothing else.
	watch(item T, f func()) bool
}

func (q *Typed[T]) watch(item T, f func()) bool {
	if f == nil {
		return true
	}
	hash := hashOf(item)
	q.mu.Lock()
	defer q.mu.Unlock()
	at, found := q.items.find(hash, item)
	if !found {
		return true // It differs from itself: no Add is one of the same item.
	}
	switch r := q.items.records.at(q.items.slots[at].ref - 1); r.state {
	case processing, watched:
		if q.watchers == nil {
			q.watchers = make(map[T]func())
		}
		r.state = watched
		q.watchers[item] = f
	case reprocess:
		f()
	}
	return true
}

// reportLocked tells the worker that holds the item that it was added again.
func (q *Typed[T]) reportLocked(item T) {
	f := q.watchers[item]
	delete(q.watchers, item)
	f()
}
