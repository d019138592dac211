package workqueue

import "github.com/seed16c08ea7/workqueue/internal/slab"

import "time"

// Queue stores the queued items of a [Typed] and so decides their order. It
// may be handed an item by Push, asked to hand one out by Pop, and be told by
// Touch that an item it holds was added again, so that it can move it.
//
// The methods are called with the lock of the queue held: they are never
// called concurrently, must not call the queue, and everybody waits for them.
// They are called from different goroutines. Pop is called only when Len is
// positive. Get blocks while Len is zero, and looks again after the next Push or
// Touch.
//
// A panic in a method reaches the caller of the queue and leaves the queue
// usable: after one in Push the item is queued all the same, ahead of what is
// stored, after one in Touch it is queued where it was, and after one in the other
// methods nothing has happened.
type Queue[T comparable] interface {
	// Touch tells that an item that is stored was added again.
	Touch(item T)
	// Push stores an item.
	Push(item T)
	// Len returns the number of items stored.
	Len() int
	// Pop removes the next item and returns it.
	Pop() (item T)
}

// DefaultQueue returns a FIFO in a circular buffer that grows and shrinks with
// what it holds. A queue without a Queue in its config behaves the same, and
// is faster.
func DefaultQueue[T comparable]() Queue[T] {
	return &sequence[T]{}
}

type sequence[T comparable] struct {
	items slab.Ring[T]
}

func (s *sequence[T]) Touch(T)     {}
func (s *sequence[T]) Push(item T) { s.items.Push(item) }
func (s *sequence[T]) Len() int    { return s.items.Len() }

func (s *sequence[T]) Pop() T {
	if s.items.Len() == 0 {
		panic("workqueue: Pop of an empty Queue")
	}
	item := s.items.Pop()
	s.items.Shrink()
	return item
}

// A storage calls the [Queue] of a config, which is foreign code, with the lock of a
// [Typed] held. A method may panic or end its goroutine. The callers do not defer Unlock,
// as that costs a cycle 30 %. So unlock gives the lock back in their place, and
// nothing else of them runs. A caller that did defer Unlock would unlock twice.
//
// Invariants:
//
//	stored == number of records inStorage + unmatched
//	ghosts == number of records removed
type storage[T comparable] struct {
	queue  Queue[T]
	unlock func()

	stored int
	ghosts int
	// unmatched is how many items that differ from themselves the queue has been
	// given and has not given back. They have no record.
	unmatched int
	dry       bool // the queue said that it is empty, and nothing has come to it since
}

// ready takes a queue at its word that it has nothing: otherwise a worker who finds nothing
// would be woken again for what stored still counts, and so for ever.
func (g *storage[T]) ready() bool { return g.stored > 0 && !g.dry }

// unlockUnless is deferred by the methods below. It does not recover: the panic goes
// on to the caller of the queue, with the lock free.
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

// pop returns the hash too: what a queue makes up may have none.
func (g *storage[T]) pop() (item T, hash uint32) {
	returned := false
	defer g.unlockUnless(&returned)
	item = g.queue.Pop()
	hash = slab.HashOf(item)
	returned = true
	return item, hash
}

// store moves the last record of the line into the storage. The record stays in
// line until Push has returned: otherwise a Push that panics would lose the item, or, if
// the queue has kept the item in spite of the panic, could hand it out beside a new add.
//
// An item that differs from itself keeps no record, as nothing that Pop returns could be
// matched with the record.
func (f *fifo[T]) store(i uint32, r *slab.Record[T, links]) {
	g := f.storage
	g.dry = false
	g.push(r.Item)
	f.unlink(&f.line, i, r)
	f.n--
	g.stored++
	if r.State == unfindable {
		g.unmatched++
		f.forgetUnindexed(i, r)
	} else {
		r.State = inStorage
	}
}

// takeStored hands out the next item of the storage. The loop is there because a
// queue may return items that are not to be handed out, see accept. It ends when
// the queue says that it is empty, whatever stored counts: dry remembers that.
//
// A queue that hands out for ever what is held must not keep the lock for ever:
// it may do so as often as it said it had items.
func (f *fifo[T]) takeStored(now time.Duration) (item T, waited time.Duration, ok bool) {
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

// accept hands out an item that has come out of the storage. One that the
// queue was not given is handed out like any other. One that is in line or
// held is dropped, since it is accounted for there, and so is one that was
// removed.
func (f *fifo[T]) accept(hash uint32, item T, now time.Duration) (waited time.Duration, ok bool) {
	at, r := f.items.Find(hash, item)
	if r == nil {
		return 0, f.acceptStranger(at, hash, item, now)
	}
	switch r.State {
	case inStorage:
		f.storage.stored--
	case removed:
		f.storage.ghosts--
		f.forget(at, r)
		return 0, false
	default:
		return 0, false
	}
	i := f.items.Index(at)
	if f.timed {
		waited = f.stampStarted(i, now)
	}
	f.hold(i, r)
	return waited, true
}

// acceptStranger hands out an item that has no record, which the queue has
// made up unless it differs from itself. Of such items there may be more than
// were stored: one whose Push has failed is in line, whether or not the queue
// has kept it. So they count for nothing then.
func (f *fifo[T]) acceptStranger(at, hash uint32, item T, now time.Duration) bool {
	if !slab.Equal(item, item) {
		if f.storage.unmatched > 0 {
			f.storage.unmatched--
			f.storage.stored--
		}
		return true
	}
	i, r := f.items.Insert(at, hash, item)
	if f.timed {
		f.stampAdded(i, now)
		f.stampStarted(i, now)
	}
	f.hold(i, r)
	return true
}

// restore adds an item that was removed and is still in the storage.
func (f *fifo[T]) restore(i uint32, r *slab.Record[T, links], now time.Duration) {
	g := f.storage
	r.State = inStorage
	g.ghosts--
	g.stored++
	g.dry = false
	if f.timed {
		f.stampAdded(i, now)
	}
	g.touch(r.Item) // Last: if it does not return, the add is not lost.
}
