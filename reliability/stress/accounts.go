package main

import "sync/atomic"

// The items of a round are numbers. What may be done with one depends on it.
const (
	hot   = 4   // a quarter of all calls are for these
	loose = 450 // from here on, strangers call Done for whatever state it is in
	far   = 500 // from here on, added with huge delays only, and never announced
	alien = 510 // from here on, never added at all
	items = 520
)

// strict reports whether only its holder ever calls Done for the item. A Done
// carries no name, so that a stranger's ends the hold of a worker, as
// documented: of other items two workers may be seen.
func strict(item int) bool { return item < loose }

// An account says what has become of an item.
//
// Before each add, the producer announces a version. The worker who gets the
// item has been told of the add by the queue, and so sees that version or a
// later one. When all is done, the last version announced must have been seen:
// one that was lost can be covered for only by a later add, of which the last
// has none.
type account struct {
	announced atomic.Int64 // last version there is
	accepted  atomic.Int64 // last version added without delay before a shutdown
	excused   atomic.Int64 // versions up to this one may have been removed
	seen      atomic.Int64 // last version that a worker has seen
	owed      atomic.Bool  // a handler has left it undone, and it was not seen since

	adds, gets atomic.Int64 // calls that may have caused a hand-out, hand-outs
	held       atomic.Int32 // workers who hold the item, if it is strict

	// worked is not atomic: the queue promises that whoever holds an item sees
	// what its holders before have written, and the race detector looks.
	worked int
}

// raise sets v to n unless it is higher.
func raise(v *atomic.Int64, n int64) {
	for old := v.Load(); old < n && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}

// see notes that a worker has the item.
func (a *account) see() {
	a.owed.Store(false)
	a.gets.Add(1)
	raise(&a.seen, a.announced.Load())
}

// pending reports whether a version is still to be seen.
func (a *account) pending() bool {
	announced := a.announced.Load()
	return a.owed.Load() || a.seen.Load() < announced && a.excused.Load() < announced
}

// missed reports whether a version that was accepted before a shutdown has not
// been seen.
func (a *account) missed() bool {
	accepted := a.accepted.Load()
	return a.owed.Load() || a.seen.Load() < accepted && a.excused.Load() < accepted
}
