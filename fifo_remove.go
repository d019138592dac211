package workqueue

import "time"

// This file is how items leave a fifo without a take, and how the one who holds
// an item learns that it was added again. A watcher is in queue_readd.go.

// remove takes back what was added, and reports whether there was an add to take
// back. What is in the storage stays there, and is dropped when it comes out: a
// [Queue] has no method to remove an item from its middle.
func (f *fifo[T]) remove(hash uint32, item T) bool {
	at, r := f.items.find(hash, item)
	if r == nil {
		return false
	}
	switch r.state {
	case queued:
		f.line.remove(r.pos, f.moved)
		f.forget(at, r)
		f.tellPutBack(item)
	case ranked:
		f.storage.ranks.remove(f.items.index(at))
		f.stored--
		f.forget(at, r)
	case inStorage:
		r.state = removed
		f.stored--
		f.ghosts++
	case reprocess:
		r.state = processing
		if f.storage != nil {
			f.storage.priorities.forget(f.items.index(at))
		}
	default:
		return false
	}
	return true
}

// moved notes that the line has moved a record.
func (f *fifo[T]) moved(i, pos uint32) { f.items.records.at(i).pos = pos }

// restore adds an item that was removed and is still in the storage.
func (f *fifo[T]) restore(i uint32, r *record[T], now time.Duration) {
	r.state = inStorage
	f.ghosts--
	f.stored++
	f.dry = false
	if f.timed {
		f.stampAdded(i, now)
	}
	k := f.storage.ask()
	f.storage.touch(r.item, k) // Last: if it does not return, the add is not lost.
	f.storage.learn(i, k)
	f.askReady()
}

// watch has the watcher told of the next add of the item, which is held, until done. It
// reports whether the item was added since it was handed out; nothing is kept then.
// Watchers that have ended are forgotten here, so that they do not pile up.
func (f *fifo[T]) watch(hash uint32, item T, w watcher) (again bool) {
	_, r := f.items.find(hash, item)
	if r == nil {
		return false // It may differ from itself: no add is one of the same item.
	}
	switch r.state {
	case processing, watched:
		if f.watchers == nil {
			f.watchers = make(map[T]watcher)
		}
		r.state = watched
		w.more = f.watchers[item].live()
		f.watchers[item] = w
	case reprocess:
		return true
	}
	return false
}

// tellWatchers ends the contexts of all who watch the item.
func (f *fifo[T]) tellWatchers(item T) {
	first := f.watchers[item]
	delete(f.watchers, item)
	for w := &first; w != nil; w = w.more {
		w.cancel(ErrReAdded)
	}
}
