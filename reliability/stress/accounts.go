package main

import "sync/atomic"

// The items of a round are numbers. The number says which calls may be made for the item. A
// stranger is a goroutine that calls Done for an item without holding the item.
const (
	hot   = 4   // a quarter of the random items are below hot
	loose = 450 // from here on, strangers call Done in any state of the item
	far   = 500 // from here on, never announced: added with huge delays, and by passTime
	alien = 510 // from here on, never added at all
	items = 520
)

// strict reports whether only its holder calls Done for the item while workers
// run. A stranger's Done ends the hold of a worker, as documented, so two workers
// may hold an item that is not strict.
func strict(item int) bool { return item < loose }

// An account records the adds and hand-outs of an item.
//
// Before each add, the producer announces a version. The queue makes the add
// visible to the worker who gets the item, so the worker sees the announced
// version or a later version. At the end, the last announced version must have
// been seen. A later add hides a lost add, but no add follows the last version.
type account struct {
	announced atomic.Int64 // last announced version
	accepted  atomic.Int64 // last version added without delay before a shutdown
	excused   atomic.Int64 // versions up to this one may have been removed
	seen      atomic.Int64 // last version seen by a worker
	owed      atomic.Bool  // a handler has left the item undone, and no worker has seen the item since

	// Removals of the item: begun, ended, and ended before the last call of the handler returned. A
	// Run does not retry an item that was removed since its hand-out.
	removing, removed, removedBefore atomic.Int64

	adds, gets atomic.Int64 // calls that may have caused a hand-out, hand-outs
	held       atomic.Int32 // workers who hold the item, if it is strict

	// worked is not atomic: the queue promises that the holder of an item sees the
	// writes of earlier holders, and the race detector checks the promise.
	worked int
}

// raise sets v to the larger of v and n.
func raise(v *atomic.Int64, n int64) {
	for old := v.Load(); old < n && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}

// see notes a hand-out of the item.
func (a *account) see() {
	a.owed.Store(false)
	a.gets.Add(1)
	raise(&a.seen, a.announced.Load())
}

// excuse excuses what has been announced and is owed so far.
func (a *account) excuse() {
	a.owed.Store(false)
	raise(&a.excused, a.announced.Load())
}

// pending reports whether a worker must still see the last version.
func (a *account) pending() bool {
	announced := a.announced.Load()
	return a.owed.Load() || a.seen.Load() < announced && a.excused.Load() < announced
}

// missed reports whether no worker has seen the last version accepted before a
// shutdown.
func (a *account) missed() bool {
	accepted := a.accepted.Load()
	return a.owed.Load() || a.seen.Load() < accepted && a.excused.Load() < accepted
}
