package fifo

import (
	"time"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// A Queue stores the queued items in the place of the FIFO, and decides their order. The methods
// are called with the lock of the owner held. A method may panic or end its goroutine: the states
// of the items are right at each call.
type Queue[T comparable] interface {
	// Touch reports a further add of a stored item.
	Touch(item T)
	// Push stores an item.
	Push(item T)
	// Len returns the number of items stored.
	Len() int
	// Pop removes the next item and returns it. Pop is called only when Len is positive.
	Pop() (item T)
}

// A storage calls the [Queue] of a Config with the lock of the owner held. The Queue is
// foreign code: a method may panic or end its goroutine. The callers of a storage do not
// defer Unlock, because a deferred Unlock makes a cycle 30 % longer. So the storage calls
// unlock when a method of the Queue does not return, and the rest of the caller does not
// run. A caller with a deferred Unlock would unlock twice.
//
// Invariants:
//
//	stored == number of records inStorage + nans
//	ghosts == number of records ghost, or kept with the note stored
type storage[T comparable] struct {
	queue  Queue[T]
	unlock func()

	stored int
	ghosts int
	// nans counts the stored items that differ from themselves. No record belongs to
	// such an item.
	nans int
	dry  bool // the last take found nothing, and no Push or Touch came since
}

// ready is false while the storage is dry, even if stored is positive: a Queue may have
// lost items. Otherwise the owner would wake workers for the lost items again and again, for
// ever.
func (g *storage[T]) ready() bool { return g.stored > 0 && !g.dry }

// The methods below defer unlockUnless. It does not recover a panic: the panic goes on to
// the caller of the queue, with the lock free.
func (g *storage[T]) unlockUnless(returned *bool) {
	if !*returned {
		g.unlock()
	}
}

func (g *storage[T]) touch(item T) {
	returned := false
	defer g.unlockUnless(&returned)
	g.queue.Touch(item)
	returned = true
}

func (g *storage[T]) push(item T) {
	returned := false
	defer g.unlockUnless(&returned)
	g.queue.Push(item)
	returned = true
}

func (g *storage[T]) size() int {
	returned := false
	defer g.unlockUnless(&returned)
	n := g.queue.Len()
	returned = true
	return n
}

// pop hashes the item before it returns: an item that the Queue has made up may have no
// hash, and HashOf then panics.
func (g *storage[T]) pop() (item T, hash uint32) {
	returned := false
	defer g.unlockUnless(&returned)
	item = g.queue.Pop()
	hash = slab.HashOf(item)
	returned = true
	return item, hash
}

// store moves the last record of the line into the storage. The record stays in the line
// until Push has returned. Without the record, a panic in Push would lose the item. Or a
// Queue that keeps the item in spite of the panic would hand the item out once more beside
// a later add.
//
// The record of an item that differs from itself is forgotten: no item from Pop could be
// matched with the record.
func (f *FIFO[T]) store(i uint32, r *slab.Record[T, links]) {
	g := f.storage
	g.dry = false
	g.push(r.Item)
	f.unlink(&f.line, i, r)
	f.n--
	g.stored++
	if r.State == nan {
		g.nans++
		f.forgetNaN(i, r)
	} else {
		r.State = inStorage
	}
}

// takeStored hands out the next item of the storage. The loop skips items that must not be
// handed out, see accept. The loop ends when Len is 0, whatever stored counts, and sets
// dry.
//
// A Queue may go on for ever to return items that accept refuses, but the lock must not be
// held for ever. So the loop also ends after as many refusals as Len returned at the start.
// A dropped item that was removed is no refusal.
func (f *FIFO[T]) takeStored(now time.Duration) (item T, waited time.Duration, ok bool) {
	g := f.storage
	refusals := g.size()
	for n := refusals; n > 0 && refusals > 0; n = g.size() {
		ghosts := g.ghosts
		item, hash := g.pop()
		if waited, ok = f.accept(hash, item, now); ok {
			return item, waited, true
		}
		if g.ghosts == ghosts {
			refusals--
		}
	}
	g.dry = true
	return *new(T), 0, false
}

// accept hands out an item from Pop if the item is stored, or has no record because the
// Queue has made the item up. accept drops an item that was removed or is held, and an item
// in the line, which will be handed out from there.
func (f *FIFO[T]) accept(hash uint32, item T, now time.Duration) (waited time.Duration, ok bool) {
	at, r := f.Items.Find(hash, item)
	if r == nil {
		return 0, f.acceptStranger(at, hash, item, now)
	}
	switch r.State {
	case inStorage:
		f.storage.stored--
	case ghost:
		f.storage.ghosts--
		f.forget(at, r)
		return 0, false
	case kept:
		if r.Note&storedNote != 0 {
			f.storage.ghosts--
			r.Note &^= storedNote
		}
		return 0, false
	default:
		return 0, false
	}
	i := f.Items.Index(at)
	if f.timed {
		waited = f.stampStarted(i, now)
	}
	f.hold(i, r)
	return waited, true
}

// acceptStranger hands out an item without a record. The Queue has made the item up, unless
// the item differs from itself. More such items may come out than nans counts: an item
// whose Push has panicked is in the line, and the Queue may have kept the item too. Items
// beyond nans change no count.
func (f *FIFO[T]) acceptStranger(at, hash uint32, item T, now time.Duration) bool {
	if !slab.Equal(item, item) {
		if f.storage.nans > 0 {
			f.storage.nans--
			f.storage.stored--
		}
		return true
	}
	i, r := f.Items.Insert(at, hash, item)
	r.Mark = f.Barriers.Mark
	if f.timed {
		f.stampAdded(i, now)
		f.stampStarted(i, now)
	}
	f.hold(i, r)
	return true
}

// restore adds an item that was removed and is still in the storage.
func (f *FIFO[T]) restore(i uint32, r *slab.Record[T, links], now time.Duration) {
	g := f.storage
	r.State, r.Mark = inStorage, f.Barriers.Mark
	g.ghosts--
	g.stored++
	g.dry = false
	if f.timed {
		f.stampAdded(i, now)
	}
	g.touch(r.Item) // Last: the add counts even if Touch does not return.
}
