package workqueue

import (
	"reflect"
	"time"
)

// This file holds the transitions of Typed. Each is one critical section, its
// deferred Unlock included, and metrics are observed after it: a metric that
// panics, blocks or calls the queue finds the transition complete and no lock
// held. Only the methods of a custom Queue run with the lock held; where one
// panics, the item stays accounted for, see fifo_storage.go.

// addObserved is Add for a queue with metrics or a storage.
func (q *Typed[T]) addObserved(hash uint32, item T) {
	if q.addGuarded(hash, item, q.metrics.now()) {
		q.metrics.added()
	}
}

// observeAdds observes that items were added which were no duplicates.
func (q *Typed[T]) observeAdds(n int) {
	if q.metrics == nil {
		return
	}
	for range n {
		q.metrics.added()
	}
}

func (q *Typed[T]) addGuarded(hash uint32, item T, now time.Duration) bool {
	lockSoon(&q.mu)
	defer q.mu.Unlock()
	return q.addCountedLocked(hash, item, now)
}

// addCountedLocked is what Add does with the lock held, for a queue whose Adds
// are counted. It reports whether the item was no duplicate.
func (q *Typed[T]) addCountedLocked(hash uint32, item T, now time.Duration) (added bool) {
	if q.items.old != nil {
		q.items.fetch(hash, item)
	}
	at, r := q.items.probe(q.items.slots, hash, item)
	switch {
	case r == nil:
		added = q.addNewLocked(at, hash, item, now)
	case r.state != queued:
		added = q.addAgainLocked(at, r, now)
	}
	if added {
		q.adds++
	} else if !q.shuttingDown.Load() {
		q.duplicates++
	}
	return added
}

// addAll is AddAll without the metrics, and returns how many items were no
// duplicates. An item that cannot be hashed panics before any is added.
func (q *Typed[T]) addAll(items []T, now time.Duration) (added int) {
	var few [64]uint32
	hashes := few[:0]
	for _, item := range items {
		hashes = append(hashes, hashOf(item))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, item := range items {
		if q.addCountedLocked(hashes[i], item, now) {
			added++
		}
	}
	return added
}

// addNewLocked adds an item that has no record, at the slot where it was looked
// for, and reports whether it did.
func (q *Typed[T]) addNewLocked(at, hash uint32, item T, now time.Duration) bool {
	if q.shuttingDown.Load() {
		return false
	}
	if !q.reflexive && !equal(item, item) {
		q.addUnfindableLocked(item, now)
		return true
	}
	i, r := q.items.insert(at, hash, item)
	r.state = queued
	if q.plain() { // enqueueLocked and stampLocked in short.
		r.pos = q.line.push(i)
		q.wakeLocked()
		return true
	}
	q.stampLocked(i, now)
	q.enqueueLocked(i, r)
	return true
}

// addAgainLocked adds an item that has a record, which is not queued, and
// reports whether it was no duplicate.
func (q *Typed[T]) addAgainLocked(at uint32, r *record[T], now time.Duration) bool {
	if q.shuttingDown.Load() {
		return false
	}
	i := q.items.slots[at].ref - 1
	switch r.state {
	case inStorage:
		q.storage.Touch(r.item)
	case removed:
		q.restoreLocked(i, r, now)
		return true
	case processing, watched:
		was := r.state
		r.state = reprocess
		if q.metrics != nil {
			q.stamps.at(i).added = now
		}
		if was == watched {
			q.reportLocked(r.item)
		}
		return true
	}
	return false
}

// addUnfindableLocked queues an item that is not equal to itself.
func (q *Typed[T]) addUnfindableLocked(item T, now time.Duration) {
	if q.storage != nil {
		q.storeUnfindableLocked(item, now)
	} else {
		q.lineUpUnfindableLocked(item, now)
	}
	q.wakeLocked()
}

func (q *Typed[T]) lineUpUnfindableLocked(item T, now time.Duration) {
	i, r := q.items.insertUnindexed(item)
	r.state = unfindable
	r.pos = q.line.push(i)
	q.stampLocked(i, now)
}

// equal exists because a comparison of a variable with itself, which only a
// NaN fails, looks like a mistake.
func equal[T comparable](a, b T) bool { return a == b }

// reflexive reports whether the type alone tells that its values are equal to
// themselves. To ask each item takes 1.3 ns of a cycle for a string.
func reflexive(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128, reflect.Interface:
		return false
	case reflect.Array:
		return reflexive(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !reflexive(t.Field(i).Type) {
				return false
			}
		}
	}
	return true
}

// enqueueLocked puts a record in line or in storage and wakes a worker for it.
func (q *Typed[T]) enqueueLocked(i uint32, r *record[T]) {
	if q.storage != nil {
		q.storeLocked(i, r)
	} else {
		r.pos = q.line.push(i)
	}
	q.wakeLocked()
}

// doneObserved is Done for a queue with metrics or a storage.
func (q *Typed[T]) doneObserved(hash uint32, item T) {
	if worked, ok := q.doneGuarded(hash, item, q.metrics.now()); ok {
		q.metrics.done(worked)
	}
}

func (q *Typed[T]) doneGuarded(hash uint32, item T, now time.Duration) (worked time.Duration, ok bool) {
	lockSoon(&q.mu)
	defer q.mu.Unlock()
	return q.doneLocked(hash, item, now)
}

// doneLocked reports for how long the item was held, if it was.
func (q *Typed[T]) doneLocked(hash uint32, item T, now time.Duration) (worked time.Duration, ok bool) {
	if q.items.old != nil {
		q.items.fetch(hash, item)
	}
	at, r := q.items.probe(q.items.slots, hash, item)
	if r == nil || !r.state.held() {
		return 0, false
	}
	i := q.items.slots[at].ref - 1
	if q.metrics != nil {
		worked = q.stopLocked(i, now)
	}
	again := r.state == reprocess
	if r.state == watched {
		delete(q.watchers, item)
	}
	q.dropLocked(i, r)
	if again {
		q.enqueueLocked(i, r)
		return worked, true
	}
	q.items.remove(at, r)
	if q.items.sparse() {
		q.compactLocked()
	}
	if q.drained != nil {
		q.settleLocked()
	}
	return worked, true
}

// dropLocked takes a held record out of held and leaves it queued in name: the
// caller finds it a place or removes it.
func (q *Typed[T]) dropLocked(i uint32, r *record[T]) {
	last := len(q.held) - 1
	if moved := q.held[last]; moved != i {
		q.held[r.pos] = moved
		q.items.records.at(moved).pos = r.pos
	}
	q.held = q.held[:last]
	r.state = queued
}

// stopLocked returns for how long a record was held.
func (q *Typed[T]) stopLocked(i uint32, now time.Duration) (worked time.Duration) {
	worked = max(0, now-q.stamps.at(i).started)
	if q.durations != nil {
		q.durations.held.observe(worked)
	}
	return worked
}

// stampLocked notes when a record was added.
func (q *Typed[T]) stampLocked(i uint32, added time.Duration) {
	if q.metrics == nil {
		return
	}
	if int(i) == q.stamps.n {
		q.stamps.push(stamp{})
	}
	q.stamps.at(i).added = added
}

// compactLocked gives memory back; it renumbers all records. The line and held
// are no longer than the table, holes aside, and shrink with it.
func (q *Typed[T]) compactLocked() {
	q.line.shrink()
	q.held = append(make([]uint32, 0, 2*len(q.held)), q.held...)
	old := q.stamps
	q.stamps = pages[stamp]{}
	q.items.compact(func(from, to uint32, r *record[T]) {
		switch r.state {
		case queued, unfindable:
			*q.line.at(r.pos) = to
		case processing, watched, reprocess:
			q.held[r.pos] = to
		}
		if q.metrics != nil {
			q.stamps.push(*old.at(from))
		}
	})
}
