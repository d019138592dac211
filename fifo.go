package workqueue

import "time"

// A fifo is the machine inside a [Typed]: the items that are queued or held, and
// how they go from one state to the next. It knows no lock, no parked worker and no
// metric. The Typed around it holds its lock during each call, and calls settle
// afterwards.
//
// An item is in one of these states, and in none when items has no record of it:
//
//	queued      in line, waiting for a take
//	inStorage   in storage, waiting for a take
//	ranked      in ranks, waiting for a take
//	removed     in storage, to be dropped when that hands it out
//	unfindable  in line, but not equal to itself: take forgets it
//	processing  handed out, done is owed
//	watched     the same, and the add of it is to be reported
//	reprocess   handed out and added again since: done queues it
//
// and moves as follows, where queued stands for inStorage and ranked too, and
// processing for watched:
//
//	add      none, removed → queued;  none → unfindable;  processing → reprocess
//	take     queued → processing;     removed, unfindable → none
//	done     processing → none;       reprocess → queued
//	putBack  processing, reprocess → queued
//	remove   queued → none, removed;  reprocess → processing
//
// Invariants, for a record r with index i:
//
//	r.state is queued or unfindable: line.at(r.pos) == i
//	r.state.held(): held[r.pos] == i
//	line.len() + len(held) + number of records inStorage, ranked or removed == items.live
//	r.state is ranked: storage.ranks has i, with its place in r.pos
//	stored == number of records inStorage or ranked + unmatched
//	ghosts == number of records removed
//	the items in watchers are those of the records watched
//	stamps.n == items.records.n, or 0 if not timed
//
// All of them hold before each call of the storage, which is foreign code: a
// method of it that does not return leaves a transition that is complete, or one
// that has not begun.
//
// A fifo is not safe for concurrent use. Its zero value is empty and keeps no
// times.
type fifo[T comparable] struct {
	// Immutable after construction.

	storage   *storageGuard[T] // nil for the line alone
	reflexive bool             // it is known that no item differs from itself
	timed     bool             // stamps are kept

	closed bool // add changes nothing any more

	items  table[T]
	line   line
	held   []uint32
	stored int
	ghosts int
	// unmatched is how many items that differ from themselves the storage has been
	// given and has not given back. They have no record.
	unmatched int
	dry       bool // the storage said that it is empty, and nothing has come to it since
	stamps    pages[stamp]
	watchers  map[T]watcher
}

const (
	queued state = 1 + iota
	inStorage
	removed
	unfindable
	ranked // an item that differs from itself too
	processing
	watched
	reprocess
)

// held reports whether a record of this state is one that a worker holds.
func (s state) held() bool { return s >= processing }

// A stamp holds the times of an item.
type stamp struct {
	added   time.Duration // at the add that it is queued or marked for
	started time.Duration // at the take that handed it out
}

// ready reports whether a take may find an item. A storage is taken at its word
// that it has none: otherwise a worker who finds nothing would be woken again
// for what stored still counts, and so for ever.
func (f *fifo[T]) ready() bool { return f.line.len() > 0 || f.stored > 0 && !f.dry }

// idle reports whether nothing is held and a take finds nothing. What a storage has
// lost, as by a Pop that has not returned, is not waited for.
func (f *fifo[T]) idle() bool { return len(f.held) == 0 && !f.ready() }

// len returns how many items are queued. Beside a storage, see size.
func (f *fifo[T]) len() int { return f.line.len() + f.stored }

// size is len for a caller who wants to know what the storage says of itself.
func (f *fifo[T]) size() int {
	if f.native() {
		return f.len()
	}
	return f.line.len() + f.storage.size() - f.ghosts
}

// add queues an item that has no record, and reports whether it did. The caller
// has looked for it; at is where that ended. The search is the caller's, and not
// made here, because only a probe that is inlined in Add and Done is fast enough:
// see BenchmarkCycle.
//
// The record is complete before the storage is called, which may not return.
func (f *fifo[T]) add(at, hash uint32, item T, now time.Duration) (added bool) {
	if f.closed {
		return false
	}
	if !f.reflexive && !equal(item, item) {
		f.addUnfindable(item, now)
		return true
	}
	i, r := f.items.insert(at, hash, item)
	r.state = queued
	if f.timed {
		f.stampAdded(i, now)
	}
	if f.storage != nil {
		f.enqueue(i, r)
		return true
	}
	r.pos = f.line.push(i) // enqueue is not inlined.
	return true
}

// addAgain adds an item that has a record, and reports whether it was no
// duplicate. An item that is held is only marked: done queues it, so that no two
// workers hold it at a time. Its stamp becomes the time of this add, as that is
// when its next wait begins.
func (f *fifo[T]) addAgain(at uint32, r *record[T], now time.Duration) (added bool) {
	if f.closed {
		return false
	}
	switch r.state {
	case queued, inStorage, ranked:
		if f.storage != nil {
			f.touch(f.items.index(at), r)
		}
	case removed:
		f.restore(f.items.index(at), r, now)
		return true
	case processing, watched:
		f.mark(f.items.index(at), r, now)
		return true
	case reprocess:
		if f.storage != nil {
			f.rankAgain(f.items.index(at), r, true)
		}
	}
	return false
}

// mark marks an item that is held.
func (f *fifo[T]) mark(i uint32, r *record[T], now time.Duration) {
	was := r.state
	r.state = reprocess
	if f.timed {
		f.stamps.at(i).added = now
	}
	if was == watched {
		f.tellWatchers(r.item)
	}
	if f.storage != nil {
		f.rankAgain(i, r, false)
	}
}

// addUnfindable queues an item that differs from itself. No later add, done or
// remove can name it, so it needs no slot in the index.
func (f *fifo[T]) addUnfindable(item T, now time.Duration) {
	i, r := f.items.insertUnindexed(item)
	r.state = unfindable
	if f.timed {
		f.stampAdded(i, now)
	}
	f.enqueue(i, r)
}

// enqueue puts a record in line whose state is queued or unfindable, and moves it
// on into the storage if there is one.
func (f *fifo[T]) enqueue(i uint32, r *record[T]) {
	if f.storage != nil && f.storage.ranks != nil {
		f.rank(i, r)
		return
	}
	r.pos = f.line.push(i)
	if f.storage != nil {
		f.store(i, r)
	}
}

// done ends the hand-out of the item and queues it if it was added again. It
// reports for how long the item was held, if it was. The caller has looked for
// it; r is nil if there is no record.
func (f *fifo[T]) done(at uint32, r *record[T], now time.Duration) (worked time.Duration, ok bool) {
	if r == nil || !r.state.held() {
		return 0, false
	}
	i := f.items.index(at)
	if f.timed {
		worked = max(0, now-f.stamps.at(i).started)
	}
	again := r.state == reprocess
	f.letGo(i, r)
	if again {
		r.state = queued
		f.enqueueAgain(i, r)
		return worked, true
	}
	if f.storage != nil && f.storage.holding != nil {
		f.doneHolding(at, r)
		return worked, true
	}
	f.items.remove(at, r) // forget is not inlined.
	if f.items.sparse() {
		f.compact()
	}
	return worked, true
}

// letGo takes a record out of held, where the last one takes its place: the order
// of held means nothing. The caller gives the record another place or forgets it.
// A watcher ends here, as it must not be called after done.
func (f *fifo[T]) letGo(i uint32, r *record[T]) {
	if r.state == watched {
		delete(f.watchers, r.item)
	}
	last := len(f.held) - 1
	if moved := f.held[last]; moved != i {
		f.held[r.pos] = moved
		f.items.records.at(moved).pos = r.pos
	}
	f.held = f.held[:last]
}

// forget removes a record that has no place, and the slot that refers to it.
func (f *fifo[T]) forget(at uint32, r *record[T]) {
	f.items.remove(at, r)
	if f.items.sparse() {
		f.compact()
	}
}

// forgetUnindexed removes a record that has no place and no slot.
func (f *fifo[T]) forgetUnindexed(i uint32, r *record[T]) {
	f.items.release(i, r)
	if f.items.sparse() {
		f.compact()
	}
}

// stampAdded notes when a record was added. A record that is new at the end of the
// slab has no stamp yet; one that is used again has that of the item before it.
func (f *fifo[T]) stampAdded(i uint32, now time.Duration) {
	if int(i) == f.stamps.n {
		f.stamps.push(stamp{})
	}
	f.stamps.at(i).added = now
}

// compact gives memory back, see table.compact. That renumbers all records, so
// everything that refers to one by its index is written anew: the line, held and
// the stamps. The line and held are at most as long as the table, and shrink with
// it. It follows each removal of a record and does not wait for settle, since a
// check there costs every call.
func (f *fifo[T]) compact() {
	f.line.shrink()
	f.held = append(make([]uint32, 0, 2*len(f.held)), f.held...)
	old := f.stamps
	f.stamps = pages[stamp]{}
	renumbered := f.storage.renumber()
	f.items.compact(func(from, to uint32, r *record[T]) {
		switch r.state {
		case queued, unfindable:
			*f.line.at(r.pos) = to
		case processing, watched, reprocess:
			f.held[r.pos] = to
		}
		if f.timed {
			f.stamps.push(*old.at(from))
		}
		renumbered(from, to, r.state == ranked)
	})
}
