package workqueue

import "iter"

// A line is the FIFO of queued records, from which any one can be taken out. That
// leaves a hole: to close the gap would take time in proportion to the line, and
// so would closing all of them at once when there are many. So while there are
// more holes than records, a sweep goes from the head to the tail, four records
// in each call that takes one out. It moves the first record behind a gap, which is a row of
// holes, to its start. The gap so moves on and swallows the next one, until it gets to the
// tail and is removed.
//
// A place is the index of a record, or a hole. A hole at either end of a gap has
// the length of the gap beside the mark, so that a gap is skipped, removed and
// joined with another in one step. The index of a record has no such bit, as no
// more than 2^31 fit into a ring.
//
// A sweep over n records begins with as many holes. It takes n/4 calls if nothing
// is pushed, which make no more than n/4 holes and leave 3n/4 records: 5 holes
// for 3 records is the most.
//
// Invariants:
//
//	the first place and the last are no holes
//	no two gaps touch, and both ends of each say its length
//	holes == the lengths of all gaps, added up
//	3*holes <= 5*len(), and a few
//	holes > 0: head <= sweep <= tail, and sweep == head or sweep-1 is no hole
//
// The last one keeps the sweep from being within a gap. What lies around the line
// is not cleared, as it refers to nothing.
//
// A line is not safe for concurrent use; its zero value is empty.
type line struct {
	ring[uint32]
	holes uint32
	sweep uint32 // the next place that it looks at
}

const (
	holeMark = 1 << 31 // the mark

	// sweepPace is how many records the sweep goes on in a call. With one it would
	// never arrive where all calls take out what is behind it.
	sweepPace = 4
)

// len returns the number of records.
func (l *line) len() int { return l.ring.len() - int(l.holes) }

func (l *line) empty() bool { return l.head == l.tail }

// first returns the first record of a line that is not empty.
func (l *line) first() uint32 { return *l.at(l.head) }

// last returns the last record of a line that is not empty.
func (l *line) last() uint32 { return *l.at(l.tail - 1) }

// release gives the memory of a line back that is empty, if it is much.
func (l *line) release() {
	if len(l.buf) > minRing {
		l.buf = nil
	}
}

// all returns the records in their order.
func (l *line) all() iter.Seq[uint32] {
	return func(yield func(i uint32) bool) {
		for n := l.head; n != l.tail; n++ {
			if holes := l.gap(n); holes > 0 {
				n += holes - 1
			} else if !yield(*l.at(n)) {
				return
			}
		}
	}
}

// gap returns the length of the gap that begins or ends at a place, and 0 for a
// record.
func (l *line) gap(n uint32) uint32 {
	if e := *l.at(n); e&holeMark != 0 {
		return e &^ holeMark
	}
	return 0
}

// remove takes the record at a place out. It calls moved for each record that has
// another place now. An only record is always taken out by the short way, as its line has
// no holes: tidy must not look at a line that is empty.
func (l *line) remove(n uint32, moved func(i, n uint32)) {
	if n == l.head && l.holes == 0 {
		l.head++
		return
	}
	l.holes++
	l.dig(n, n)
	l.tidy(moved)
}

// unpush takes back a push that nothing has followed. The place before it was the last
// one, and so is no hole.
func (l *line) unpush() { l.tail-- }

// tidy has to follow a pop where there are holes. It is no part of that, so that
// a pop can be inlined. The line is not empty then, as its last place is a record.
func (l *line) tidy(moved func(i, n uint32)) {
	skipped := l.gap(l.head)
	l.head += skipped
	l.holes -= skipped
	if l.sweep-l.head > l.tail-l.head { // Where there were no holes, nobody has moved it.
		l.sweep = l.head
	}
	for range sweepPace {
		if int(l.holes) <= l.len() {
			l.sweep = l.head
			return
		}
		l.advance(moved)
	}
}

// advance takes the sweep past one record.
func (l *line) advance(moved func(i, n uint32)) {
	if l.sweep == l.tail {
		l.sweep = l.head
	}
	to := l.sweep
	holes := l.gap(to)
	l.sweep++
	if holes > 0 {
		i := *l.at(to + holes)
		*l.at(to) = i
		moved(i, to)
		l.dig(to+1, to+holes)
	}
}

// dig makes one gap of the places from start to end, which are counted as holes,
// and of the gaps beside them. A gap at the tail is removed here, one at the head by
// tidy.
func (l *line) dig(start, end uint32) {
	if start != l.head {
		start -= l.gap(start - 1)
	}
	if end+1 != l.tail {
		end += l.gap(end + 1)
	}
	holes := end - start + 1
	*l.at(start), *l.at(end) = holeMark|holes, holeMark|holes
	if l.sweep-start <= holes {
		l.sweep = start
	}
	if end+1 == l.tail {
		l.tail = start
		l.holes -= holes
	}
}
