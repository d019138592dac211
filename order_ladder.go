package workqueue

import "slices"

// A ladder is a set of levels, one for each priority in use, and finds the highest
// of them that has something. What a level holds is the owner's: C.
//
// Levels that are up lie in a heap with four children a node. One that goes down
// keeps its content, with the memory that this has, until there are more than
// idleLevels of these. Otherwise a queue that swings between empty and an item would
// make its level anew each time.
//
// Invariants, for a level l:
//
//	known[l.priority] == l
//	l.at >= 0: up[l.at] == l
//	l.at > 0: up[(l.at-1)/4].priority > l.priority
//	l.at == down: l is in the list of idle levels, between first and newest
//	l.at == parked: l is neither up nor idle
//	idle == length of that list <= idleLevels
//
// All take O(log n) time at most in the number of levels that are up. A ladder is
// not safe for concurrent use; its zero value is empty.
type ladder[C any] struct {
	known         map[int]*level[C]
	last          *level[C] // the one found last
	up            []*level[C]
	first, newest *level[C] // the idle levels, the one that has been so for longest first
	idle          int
}

// A level is what has one priority.
type level[C any] struct {
	content      C
	priority     int
	at           int // its index in up, or where it is instead
	older, newer *level[C]
}

const (
	down   = -1
	parked = -2

	// idleLevels is how many levels are kept that hold nothing. Not tuned: it is
	// more than the priorities that programs tell apart by name.
	idleLevels = 64
)

// level returns the level of a priority, and makes it if it is not known.
func (l *ladder[C]) level(priority int) *level[C] {
	if v := l.last; v != nil && v.priority == priority {
		return v
	}
	v := l.known[priority]
	if v == nil {
		v = l.extend(priority)
	}
	l.last = v
	return v
}

// extend makes a level, which is parked.
func (l *ladder[C]) extend(priority int) *level[C] {
	if l.known == nil {
		l.known = make(map[int]*level[C])
	}
	v := &level[C]{priority: priority, at: parked}
	l.known[priority] = v
	return v
}

// highest returns the highest level that is up, or nil.
func (l *ladder[C]) highest() *level[C] {
	if len(l.up) == 0 {
		return nil
	}
	return l.up[0]
}

// raise makes a level one that has something. It must not be up.
func (l *ladder[C]) raise(v *level[C]) {
	if v.at == down {
		l.unlist(v)
	}
	l.up = append(l.up, v)
	l.climb(len(l.up)-1, v)
}

// park takes a level out of those that have something. It stays known for as
// long as it is parked.
func (l *ladder[C]) park(v *level[C]) {
	at := v.at
	if at < 0 {
		return
	}
	last := len(l.up) - 1
	moved := l.up[last]
	l.up[last] = nil
	l.up = l.up[:last]
	v.at = parked
	if moved != v {
		l.sift(at, moved)
	}
	if cap(l.up) > 16*minUp && 16*last < cap(l.up) {
		l.up = append(make([]*level[C], 0, 2*last), l.up...)
	}
}

// minUp times 16 is the size below which the heap keeps its memory.
const minUp = 64

// rest makes a level one that holds nothing and need not be kept.
func (l *ladder[C]) rest(v *level[C]) {
	l.park(v)
	if v.at == down {
		return
	}
	v.at = down
	v.older = l.newest
	if l.newest == nil {
		l.first = v
	} else {
		l.newest.newer = v
	}
	l.newest = v
	if l.idle++; l.idle > idleLevels {
		l.forget(l.first)
	}
}

// forget drops an idle level.
func (l *ladder[C]) forget(v *level[C]) {
	l.unlist(v)
	delete(l.known, v.priority)
	if len(l.known) == idleLevels { // A map does not shrink.
		known := make(map[int]*level[C], len(l.known))
		for p, v := range l.known {
			known[p] = v
		}
		l.known = known
	}
	if l.last == v {
		l.last = nil
	}
}

// unlist takes a level out of the list of idle ones.
func (l *ladder[C]) unlist(v *level[C]) {
	if v.older == nil {
		l.first = v.newer
	} else {
		v.older.newer = v.newer
	}
	if v.newer == nil {
		l.newest = v.older
	} else {
		v.newer.older = v.older
	}
	v.older, v.newer, v.at = nil, nil, parked
	l.idle--
}

// sift places a level at an index of the heap, above or below it.
func (l *ladder[C]) sift(at int, v *level[C]) {
	if l.climb(at, v) == at {
		l.sink(at, v)
	}
}

// climb places a level at an index or above it, and returns where.
func (l *ladder[C]) climb(at int, v *level[C]) int {
	for at > 0 {
		parent := (at - 1) / heapArity
		above := l.up[parent]
		if above.priority > v.priority {
			break
		}
		l.up[at], above.at = above, at
		at = parent
	}
	l.up[at], v.at = v, at
	return at
}

// sink places a level at an index or below it.
func (l *ladder[C]) sink(at int, v *level[C]) {
	for {
		from := heapArity*at + 1
		if from >= len(l.up) {
			break
		}
		child := from
		for c := from + 1; c < min(from+heapArity, len(l.up)); c++ {
			if l.up[c].priority > l.up[child].priority {
				child = c
			}
		}
		below := l.up[child]
		if below.priority < v.priority {
			break
		}
		l.up[at], below.at = below, at
		at = child
	}
	l.up[at], v.at = v, at
}

// fromTop returns the levels that are up, the highest first.
func (l *ladder[C]) fromTop() []*level[C] {
	levels := slices.Clone(l.up)
	slices.SortFunc(levels, func(a, b *level[C]) int {
		if a.priority > b.priority {
			return -1
		}
		return 1
	})
	return levels
}
