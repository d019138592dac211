package workqueue

// A ledger is a set of items with a note on each. A hand goes round over the
// items, a step at a time, for owners whose notes become void with time: they
// look at a few items in each call instead of at all of them in some, and need
// no goroutine.
//
// If each call that enters an item also looks at two, then a round over n items
// takes n/2 calls. What is void when it begins is gone when it ends, so for v,
// the most items that are not void at a time, v + n/2 are left: the ledger
// ends up at 2v or less, and below 3v within a round.
//
// Invariants, for a record r with index i:
//
//	r.state is notedState or freeRecord
//	r.state is notedState: places.at(r.pos) == i
//	places.n == items.live
//	notes.n == items.records.n
//
// A ledger is not safe for concurrent use; its zero value is empty.
type ledger[T comparable, N any] struct {
	items  table[T]
	notes  pages[N]
	places pages[uint32]
	hand   int // every place from here on has been looked at in this round
}

const notedState state = 1

func (l *ledger[T, N]) len() int { return l.places.n }

// find returns the note on an item, or nil. It is valid until the next call
// that enters or drops an item.
func (l *ledger[T, N]) find(hash uint32, item T) *N {
	at, r := l.items.find(hash, item)
	if r == nil {
		return nil
	}
	return l.notes.at(l.items.index(at))
}

// enter returns the note on an item, which is zero if there was none. The note
// on an item that differs from itself is not kept.
func (l *ledger[T, N]) enter(hash uint32, item T) *N {
	at, r := l.items.find(hash, item)
	if r != nil {
		return l.notes.at(l.items.index(at))
	}
	if !equal(item, item) {
		return new(N)
	}
	i, r := l.items.insert(at, hash, item)
	r.state, r.pos = notedState, l.places.push(i)
	if int(i) == l.notes.n {
		l.notes.push(*new(N))
	}
	note := l.notes.at(i)
	*note = *new(N)
	return note
}

// remove removes an item, if it is there.
func (l *ledger[T, N]) remove(hash uint32, item T) {
	at, r := l.items.find(hash, item)
	if r == nil {
		return
	}
	*l.notes.at(l.items.index(at)) = *new(N) // It may refer to much memory.
	if last := l.places.pop(); r.pos < uint32(l.places.n) {
		*l.places.at(r.pos) = last
		l.items.records.at(last).pos = r.pos
	}
	l.items.remove(at, r)
	if l.items.sparse() {
		l.compact()
	}
}

// step moves the hand one step and returns the item there with its note, which
// is nil if there are no items. The hand goes down, so that dropping the item
// moves one to its place that has been looked at.
func (l *ledger[T, N]) step() (item T, note *N) {
	if l.places.n == 0 {
		return item, nil
	}
	if l.hand == 0 {
		l.hand = l.places.n
	}
	l.hand = min(l.hand, l.places.n) - 1
	i := *l.places.at(uint32(l.hand))
	return l.items.records.at(i).item, l.notes.at(i)
}

// compact gives memory back; it renumbers all records.
func (l *ledger[T, N]) compact() {
	old := l.notes
	l.notes = pages[N]{}
	l.items.compact(func(from, to uint32, r *record[T]) {
		*l.places.at(r.pos) = to
		l.notes.push(*old.at(from))
	})
}
