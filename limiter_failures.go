package workqueue

import (
	"math"
	"sync"
	"sync/atomic"
)

// failures counts the failures of items. Its zero value is empty; it is safe
// for concurrent use. Each method hashes the item before it locks: an item that
// cannot be hashed panics, and must not leave the lock held.
//
// The count lies in a record's pos, so that a failing item costs only its record
// and its slot: 19 to 29 bytes beyond its own. The count stops at two billion.
type failures[T comparable] struct {
	failing atomic.Int64 // items.live, for those who do not want to lock

	mu    sync.Mutex
	items table[T] // guarded by mu
}

const failedState state = 1

// add counts a failure and returns how many there were before. An item that
// differs from itself could not be found again, so it always has none, and takes no
// memory that nobody could give back.
func (f *failures[T]) add(item T) (before int) {
	hash := hashOf(item)
	f.mu.Lock()
	defer f.mu.Unlock()
	at, r := f.items.find(hash, item)
	if r == nil {
		if equal(item, item) {
			_, r := f.items.insert(at, hash, item)
			r.state, r.pos = failedState, 1
			f.failing.Add(1)
		}
		return 0
	}
	before = int(r.pos)
	r.pos = oneMore(r.pos)
	return before
}

// oneMore returns n + 1, up to what an int of 32 bits holds: NumRequeues returns an
// int, and a count that turned negative would make the next wait the shortest.
func oneMore(n uint32) uint32 { return min(n, math.MaxInt32-1) + 1 }

// number returns how many failures of the item have been counted.
func (f *failures[T]) number(item T) int {
	hash := hashOf(item)
	f.mu.Lock()
	defer f.mu.Unlock()
	_, r := f.items.find(hash, item)
	if r == nil {
		return 0
	}
	return int(r.pos)
}

// forget removes the item. While no item has failed it does not lock. When few of many
// items are left, the table gives memory back. Nothing else refers to its records, so
// nothing has to follow their move.
//
// The hash comes first also where nothing has failed: whether an item panics must not
// depend on what others have done.
func (f *failures[T]) forget(item T) {
	hash := hashOf(item)
	if f.failing.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at, r := f.items.find(hash, item)
	if r == nil {
		return
	}
	f.items.remove(at, r)
	f.failing.Add(-1)
	if f.items.sparse() {
		f.items.compact(func(_, _ uint32, _ *record[T]) {})
	}
}

// forgetAny is forget for callers who mostly have nothing to forget: Run calls it
// after each item that succeeds. While no item has failed it neither hashes nor
// locks. A failure that is counted at the same time may be missed, as if it came
// afterwards; that of the caller's own item was counted before.
func (f *failures[T]) forgetAny(item T) {
	if f.failing.Load() > 0 {
		f.forget(item)
	}
}

// len returns the number of items that have failures.
func (f *failures[T]) len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.items.live
}

// all returns the items that have failures, with their number. It copies them with the
// lock held, as whoever ends a Run wants all of them at one instant.
func (f *failures[T]) all() map[T]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := make(map[T]int, f.items.live)
	for i := range uint32(f.items.records.n) {
		if r := f.items.records.at(i); r.state == failedState {
			counts[r.item] = int(r.pos)
		}
	}
	return counts
}
