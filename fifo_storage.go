package workqueue

import "time"

// Queue stores the queued items of a [Typed] and so decides their order. It
// may be handed an item by Push, asked to hand one out by Pop, and be told by
// Touch that an item it holds was added again, so that it can move it.
//
// The methods are called with the lock of the queue held: they are never
// called concurrently, must not call the queue, and everybody waits for them.
// They are called from different goroutines. Pop is called only when Len is
// positive. Get blocks while Len is zero.
//
// A panic in a method reaches the caller of the queue and leaves the queue
// usable: after one in Push the item is queued all the same, ahead of what is
// stored, and after one in the other methods nothing has happened.
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

// storeLocked puts a queued record into the storage. If Push does not return, because
// it panics or ends its goroutine, the record goes in line instead: dropping
// it would lose the item, and dropping only the record would let a storage
// that has kept the item hand it out beside a new Add of it.
func (q *Typed[T]) storeLocked(i uint32, r *record[T]) {
	defer func() {
		if r.state == queued {
			r.pos = q.line.push(i)
			q.wakeLocked()
		}
	}()
	q.storage.Push(r.item)
	r.state = inStorage
	q.stored++
}

// storeUnfindableLocked puts an item that is not equal to itself into the
// storage. It gets no record there: what Pop returns could not be matched with
// it. Where Push does not return, it goes in line, as any other does.
func (q *Typed[T]) storeUnfindableLocked(item T, now time.Duration) {
	stored := false
	defer func() {
		if !stored {
			q.lineUpUnfindableLocked(item, now)
			q.wakeLocked()
		}
	}()
	q.storage.Push(item)
	stored = true
	q.stored++
	q.unmatched++
}

// takeStoredLocked hands out the next item of the storage. The storage is
// foreign code: an item that it was not given is handed out like any other,
// and one that it returns although it is in line or held is dropped, since it
// is accounted for there, as is one that was removed. If it does not return, another worker has to look.
func (q *Typed[T]) takeStoredLocked(now time.Duration) (item T, waited time.Duration, ok bool) {
	returned := false
	defer func() {
		if !returned {
			q.wakeLocked()
		}
	}()
	for !ok && q.storage.Len() > 0 {
		item, waited, ok = q.acceptLocked(q.storage.Pop(), now)
	}
	returned = true
	return item, waited, ok
}

// acceptLocked hands out an item that has come out of the storage.
func (q *Typed[T]) acceptLocked(item T, now time.Duration) (_ T, waited time.Duration, ok bool) {
	hash := hashOf(item)
	at, found := q.items.find(hash, item)
	if !found {
		if !equal(item, item) {
			q.matchLocked()
			return item, 0, true
		}
		i, _ := q.items.insert(at, hash, item)
		q.stampLocked(i, now)
		q.startLocked(i, now)
		return q.holdLocked(i), 0, true
	}
	i := q.items.slots[at].ref - 1
	switch r := q.items.records.at(i); r.state {
	case inStorage:
	case removed:
		q.ghosts--
		q.dismissLocked(at, r)
		return item, 0, false
	default:
		return item, 0, false
	}
	q.stored--
	waited = q.startLocked(i, now)
	return q.holdLocked(i), waited, true
}

// matchLocked counts an item that is not equal to itself out of the storage. If
// there should be none, it was not given to the storage, or that has kept it in a
// Push that failed: it counts for nothing.
func (q *Typed[T]) matchLocked() {
	if q.unmatched > 0 {
		q.unmatched--
		q.stored--
		q.settleLocked()
	}
}
