package workqueue

// A ladder is a set of levels, one for each priority in use, and finds the highest
// of them that has something. What a level holds is the owner's: C.
//
// Levels that are up lie in a heap with four children a node. One that goes down
// stays known, with the memory that its content has, as most come again: otherwise
// a queue that swings between empty and one item would make a level each time. Each
// level that is made looks at two others, and takes the place of one that is down.
// So there are no more levels than twice those that were up at a time, and a few.
//
// Invariants, for a level l:
//
//	known[l.priority] == l
//	all[l.number] == l
//	l.at >= 0: up[l.at] == l
//	l.at > 0: up[(l.at-1)/4].priority > l.priority
//	l.at == parked: the owner needs it, although it is not up
//	recent[k] is nil or known, and k is the slot of its priority
//
// All take O(log n) time at most in the number of levels that are up. A ladder is
// not safe for concurrent use; its zero value is empty.
type ladder[C any] struct {
	up    []*level[C]
	known map[int]*level[C]
	all   []*level[C]
	hand  int // the next of all to be looked at
	peak  int // the most levels since all and known have shrunk

	first firstUsed

	// recent has levels that were looked for, by the last bits of their priority. It
	// makes a cycle with 3 or 25 levels some 8 ns faster than the map.
	recent [recentLevels]*level[C]
}

// A level is what has one priority.
type level[C any] struct {
	content  C
	priority int
	at       int // its index in up, or where it is instead
	number   int
}

const (
	down   = -1
	parked = -2

	recentLevels = 32

	// idleLevels is how many levels are known without a look at those that are down.
	// Not tuned: it is more than the priorities that programs tell apart by name.
	idleLevels = 64
)

// level returns the level of a priority, and makes it if it is not known.
func (l *ladder[C]) level(priority int) *level[C] {
	if v := l.recent[uint(priority)%recentLevels]; v != nil && v.priority == priority {
		return v
	}
	return l.lookUp(priority)
}

// lookUp is the rest of level.
func (l *ladder[C]) lookUp(priority int) *level[C] {
	v := l.known[priority]
	if v == nil {
		v = l.extend(priority)
	}
	l.recent[uint(priority)%recentLevels] = v
	return v
}

// extend makes a level, which is down.
func (l *ladder[C]) extend(priority int) *level[C] {
	for n := 0; n < 2 && len(l.all) >= idleLevels; n++ {
		l.look()
	}
	if l.known == nil {
		l.known = make(map[int]*level[C])
	}
	v := &level[C]{priority: priority, at: down, number: len(l.all)}
	l.known[priority] = v
	l.all = append(l.all, v)
	l.peak = max(l.peak, len(l.all))
	l.first.use(priority)
	return v
}

// look looks at a level and forgets it if it is down.
func (l *ladder[C]) look() {
	if l.hand >= len(l.all) {
		l.hand = 0
	}
	v := l.all[l.hand]
	if v.at != down {
		l.hand++
		return
	}
	delete(l.known, v.priority)
	if slot := &l.recent[uint(v.priority)%recentLevels]; *slot == v {
		*slot = nil
	}
	last := len(l.all) - 1
	moved := l.all[last]
	l.all[v.number], moved.number = moved, v.number
	l.all[last] = nil
	l.all = l.all[:last]
	if l.peak > minUp && 16*last < l.peak {
		l.trim()
	}
}

// trim gives memory back: a map does not shrink.
func (l *ladder[C]) trim() {
	l.peak = len(l.all)
	l.all = append(make([]*level[C], 0, 2*l.peak), l.all...)
	l.known = make(map[int]*level[C], 2*l.peak)
	for _, v := range l.all {
		l.known[v.priority] = v
	}
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
	l.up = append(l.up, v)
	l.climb(len(l.up)-1, v)
}

// lower takes a level that is up out of those that have something. It is down then,
// or parked.
func (l *ladder[C]) lower(v *level[C], to int) {
	at, last := v.at, len(l.up)-1
	moved := l.up[last]
	l.up[last] = nil
	l.up = l.up[:last]
	v.at = to
	if at < last {
		l.sift(at, moved)
	}
	if 16*last < cap(l.up) && cap(l.up) > minUp {
		l.up = append(make([]*level[C], 0, 2*last), l.up...)
	}
}

// put raises or lowers a level, or leaves it where it is.
func (l *ladder[C]) put(v *level[C], up bool, rest int) {
	switch {
	case !up && v.at >= 0:
		l.lower(v, rest)
	case !up:
		v.at = rest
	case v.at < 0:
		l.raise(v)
	}
}

// minUp is the size below which the heap, the map and the list of all levels keep
// their memory.
const minUp = 1024

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
