package workqueue

import "time"

// take hands out the first item, if there is one, and says for how long it was
// queued. The line comes before the storage: if there is a storage, the line holds
// only items whose Push has failed.
func (f *fifo[T]) take(now time.Duration) (item T, waited time.Duration, ok bool) {
	if f.line.empty() {
		if f.storage == nil {
			return item, 0, false
		}
		if f.storage.ranks != nil {
			return f.takeRanked(now)
		}
		return f.takeStored(now)
	}
	i := f.line.pop()
	if f.line.holes > 0 {
		f.line.tidy(f.moved)
	}
	r := f.items.records.at(i)
	if f.timed {
		waited = f.stampStarted(i, now)
	}
	if r.state == unfindable {
		return f.takeUnfindable(i, r), waited, true
	}
	f.hold(i, r)
	return r.item, waited, true
}

// hold makes a record that has left line or storage one that is held.
func (f *fifo[T]) hold(i uint32, r *record[T]) {
	r.state = processing
	r.pos = uint32(len(f.held))
	f.held = append(f.held, i)
}

// takeUnfindable hands out an item that done cannot name, and so forgets it. It is a
// function of its own because its calls would make take slower for all items: see
// BenchmarkCycle.
func (f *fifo[T]) takeUnfindable(i uint32, r *record[T]) T {
	item := r.item
	f.items.release(i, r)
	if f.items.sparse() {
		f.compact()
	}
	return item
}

// stampStarted notes when a record was handed out, and returns for how long it
// was queued.
func (f *fifo[T]) stampStarted(i uint32, now time.Duration) (waited time.Duration) {
	s := f.stamps.at(i)
	s.started = now
	return max(0, now-s.added)
}

// putBack undoes a take: the item is queued again, before all others. It does
// nothing for an item that is not held. One that differs from itself has lost its record,
// and with it the time when it was added, which the caller says again.
func (f *fifo[T]) putBack(item T, added time.Duration) {
	if equal(item, item) {
		f.putBackFindable(item)
	} else {
		f.putBackUnfindable(item, added)
	}
}

func (f *fifo[T]) putBackFindable(item T) {
	at, r := f.items.find(hashOf(item), item)
	if r == nil || !r.state.held() {
		return
	}
	i := f.items.index(at)
	f.letGo(i, r)
	r.state = queued
	r.pos = f.line.pushFront(i)
}

func (f *fifo[T]) putBackUnfindable(item T, added time.Duration) {
	i, r := f.items.insertUnindexed(item)
	r.state = unfindable
	if f.timed {
		f.stampAdded(i, added)
	}
	r.pos = f.line.pushFront(i)
}
