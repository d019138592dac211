package workqueue

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
//
// A Queue may have more methods: those of a [PrioritizedQueue] if it knows a priority
// for each add, and those of a [HoldingQueue] if it holds items back while others are
// being processed. [NewPriorityQueue] makes an order.
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
	items ring[T]
}

func (s *sequence[T]) Touch(T)     {}
func (s *sequence[T]) Push(item T) { s.items.push(item) }
func (s *sequence[T]) Len() int    { return s.items.len() }

func (s *sequence[T]) Pop() T {
	if s.items.len() == 0 {
		panic("workqueue: Pop of an empty Queue")
	}
	item := s.items.pop()
	s.items.shrink()
	return item
}

// A storageGuard calls a [Queue], which is foreign code, with the lock of a [Typed]
// held. A method may panic or end its goroutine. The callers do not defer Unlock,
// as that costs a cycle 30 %. So leave gives the lock back in their place, and
// nothing else of them runs. A caller that did defer it would unlock twice.
//
// A guard with ranks has no queue: the fifo keeps the order itself, and of is all that
// is foreign.
type storageGuard[T comparable] struct {
	queue       Queue[T]
	prioritized PrioritizedQueue[T] // queue, or nil if it is none
	holding     HoldingQueue[T]     // queue, or nil if it is none
	ranker      ranker              // queue, or nil if it is none
	leave       func()

	ranks *ranks
	of    func(item T) int // the priority of a plain add; nil is 0 for all

	// priorities are those of ranks. Beside a queue they are what adds have named, or what
	// a ranker has said of the records in the storage, and what was handed out; 0 is nothing.
	priorities *priorities
	first      firstUsed // of a ranker

	asked rank // that of the add under way; ask takes it
	took  int  // the priority of what was taken last
}

func newStorageGuard[T comparable](queue Queue[T], leave func()) *storageGuard[T] {
	g := &storageGuard[T]{queue: queue, leave: leave, priorities: new(priorities)}
	g.prioritized, _ = queue.(PrioritizedQueue[T])
	g.holding, _ = queue.(HoldingQueue[T])
	g.ranker = rankerOf(queue)
	return g
}

// ask returns what the add under way says of its priority. An add that says nothing
// leaves nothing.
func (g *storageGuard[T]) ask() (k rank) {
	k, g.asked = g.asked, rank{}
	return k
}

// leaveUnless is deferred by the methods below. It does not recover: the panic goes
// on to the caller of the queue, with the lock free.
func (g *storageGuard[T]) leaveUnless(returned *bool) {
	if !*returned {
		g.leave()
	}
}

func (g *storageGuard[T]) touch(item T, k rank) {
	returned := false
	defer g.leaveUnless(&returned)
	if k.named {
		g.prioritized.TouchWithPriority(item, k.priority)
	} else {
		g.queue.Touch(item)
	}
	returned = true
}

func (g *storageGuard[T]) push(item T, k rank) {
	returned := false
	defer g.leaveUnless(&returned)
	if k.named {
		g.prioritized.PushWithPriority(item, k.priority)
	} else {
		g.queue.Push(item)
	}
	returned = true
}

// done tells a queue that holds items back that a hand-out is over.
func (g *storageGuard[T]) done(item T) {
	if g.holding == nil {
		return
	}
	returned := false
	defer g.leaveUnless(&returned)
	g.holding.Done(item)
	returned = true
}

// ready reports whether the queue, which is not empty, hands anything out.
func (g *storageGuard[T]) ready() bool {
	if g.holding == nil {
		return true
	}
	returned := false
	defer g.leaveUnless(&returned)
	ok := g.holding.Ready()
	returned = true
	return ok
}

func (g *storageGuard[T]) size() int {
	returned := false
	defer g.leaveUnless(&returned)
	n := g.queue.Len()
	returned = true
	return n
}

// pop returns the hash too: what a storage makes up may have none.
func (g *storageGuard[T]) pop() (item T, hash uint32) {
	returned := false
	defer g.leaveUnless(&returned)
	if g.prioritized != nil {
		item, g.took = g.prioritized.PopWithPriority()
	} else {
		item = g.queue.Pop()
	}
	hash = hashOf(item)
	returned = true
	return item, hash
}

// learn notes the priority of a record that the queue has stored, or was told of again.
func (g *storageGuard[T]) learn(i uint32, k rank) {
	switch {
	case g.ranker != nil:
		p := g.ranker.lastRank()
		g.priorities.set(i, p)
		g.first.use(p)
	case k.named:
		g.priorities.set(i, max(g.priorities.of(i), k.priority))
	}
}

// store moves the last record of the line into the storage. The record stays in
// line until Push has returned. If it left the line first, a Push that panics would
// lose the item. If its record were forgotten too, a storage that has kept the item
// in spite of the panic could hand it out beside a new add of it.
//
// An item that differs from itself keeps no record: what Pop returns could not
// be matched with it.
func (f *fifo[T]) store(i uint32, r *record[T]) {
	f.dry = false
	k := f.storage.ask()
	if f.storage.prioritized != nil {
		f.storage.priorities.set(i, k.priority)
	}
	f.storage.push(r.item, k)
	f.storage.learn(i, k)
	f.line.unpush()
	f.stored++
	if r.state == unfindable {
		f.unmatched++
		f.forgetUnindexed(i, r)
	} else {
		r.state = inStorage
	}
	f.askReady()
}

// askReady asks a storage that holds items back whether a take would find one. It comes
// last in a transition: Ready may not return, and then counts for false.
func (f *fifo[T]) askReady() {
	if f.storage.holding != nil {
		f.dry = true
		f.dry = !f.storage.ready()
	}
}

// takeStored hands out the next item of the storage. The loop is there because a
// storage may return items that are not to be handed out, see accept. It ends when
// the storage says that it is empty, whatever stored counts: dry remembers that,
// see ready.
//
// A storage that hands out for ever what is held must not keep the lock for ever:
// it may do so as often as it said it had items.
func (f *fifo[T]) takeStored(now time.Duration) (item T, waited time.Duration, ok bool) {
	refusals := f.storage.size()
	for n := refusals; n > 0 && refusals > 0 && f.storage.ready(); n = f.storage.size() {
		ghosts := f.ghosts
		item, hash := f.storage.pop()
		if item, waited, ok = f.accept(hash, item, now); ok {
			f.askReadyAfterTake(item, now)
			return item, waited, true
		}
		f.storage.done(item)
		if f.ghosts == ghosts {
			refusals--
		}
	}
	f.dry = true
	return *new(T), 0, false
}

// accept hands out an item that has come out of the storage. One that the
// storage was not given is handed out like any other. One that is in line or
// held is dropped, since it is accounted for there, and so is one that was
// removed.
func (f *fifo[T]) accept(hash uint32, item T, now time.Duration) (_ T, waited time.Duration, ok bool) {
	at, r := f.items.find(hash, item)
	if r == nil {
		return item, 0, f.acceptStranger(at, hash, item, now)
	}
	switch r.state {
	case inStorage:
		f.stored--
	case removed:
		f.ghosts--
		f.forget(at, r)
		return item, 0, false
	default:
		return item, 0, false
	}
	i := f.items.index(at)
	if f.timed {
		waited = f.stampStarted(i, now)
	}
	if f.storage.prioritized != nil {
		f.storage.priorities.set(i, f.storage.took)
	}
	f.hold(i, r)
	return item, waited, true
}

// acceptStranger hands out an item that has no record, which the storage has
// made up unless it differs from itself. Of such items there may be more than
// were stored: one whose Push has failed is in line, whether or not the storage
// has kept it. So they count for nothing then.
func (f *fifo[T]) acceptStranger(at, hash uint32, item T, now time.Duration) bool {
	if !equal(item, item) {
		if f.unmatched > 0 {
			f.unmatched--
			f.stored--
		}
		return true
	}
	i, r := f.items.insert(at, hash, item)
	if f.timed {
		f.stampAdded(i, now)
		f.stampStarted(i, now)
	}
	if f.storage.prioritized != nil {
		f.storage.priorities.set(i, f.storage.took)
	}
	f.hold(i, r)
	return true
}
