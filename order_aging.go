package workqueue

// An aging is the order of records by the time when they came, and counts the turns of
// the oldest: of so many hand-outs in a row one is that of the record which is the
// oldest then. It may come out for its priority too, which counts as its turn.
//
// Invariants, for a record i that is in it:
//
//	line.at(places[i]) == i
//	since < every, unless the turn could not be given
//
// The zero value keeps no order. It is not safe for concurrent use.
type aging struct {
	every  int // 0 if there are no turns
	since  int // hand-outs since the last turn
	line   line
	places pages[uint32]
	moved  func(i, n uint32)
}

// start makes an aging with turns. There are none if every is 0.
func (a *aging) start(every int) {
	a.every = every
	a.moved = func(i, n uint32) { *a.places.at(i) = n }
}

func (a *aging) enter(i uint32) { a.note(i, a.line.push(i)) }

func (a *aging) note(i, place uint32) {
	for int(i) >= a.places.n {
		a.places.push(0)
	}
	*a.places.at(i) = place
}

func (a *aging) leave(i uint32) { a.line.remove(*a.places.at(i), a.moved) }

// first returns the oldest record. There must be one.
func (a *aging) first() uint32 { return a.line.first() }

// turn reports whether the next hand-out has to be that of the oldest.
func (a *aging) turn() bool { return a.since+1 >= a.every }

// count counts a hand-out.
func (a *aging) count(oldest bool) {
	if a.since++; oldest {
		a.since = 0
	}
}

// renumber gives memory back when the owner renumbers its records, and returns what
// the owner calls for each that is in it, with the old and the new index.
func (a *aging) renumber() (moved func(from, to uint32)) {
	old := a.places
	a.places = pages[uint32]{}
	a.line.shrink()
	return func(from, to uint32) {
		a.note(to, *old.at(from))
		*a.line.at(*a.places.at(to)) = to
	}
}
