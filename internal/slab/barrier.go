package slab

import (
	"math"
	"slices"
	"sort"
)

// Barriers tell when all records of a moment are gone. A record carries a mark, and a barrier is
// raised behind all marks given so far: nothing has to be done for each record. The records
// between two barriers are a span. A barrier is passed when its span and all spans before have no
// record left. While there is no barrier, all marks mean the same, and the next barrier takes
// all records into its span.
//
// The owner gives each new record the Mark, and calls Pass with the mark of each record that goes.
// The zero value has no barrier. The owner must not use Barriers concurrently.
//
// Invariants:
//
//	the marks of barriers rise, and Mark is greater than all of them
//	all[0].left > 0
//	open == sum of left of all barriers
type Barriers struct {
	Mark uint16 // of new records
	open int
	all  []*Barrier // the oldest first; nil for none
}

// A Barrier is shared by the callers that have raised it at one moment.
type Barrier struct {
	Over    chan struct{} // closed when the barrier is passed, or dropped
	Dropped bool          // not written after the close

	mark    uint16 // the last one of the span
	left    int    // records of the span
	callers int
}

// maxBarriers bounds the marks in use. A further barrier takes the place of the last one.
const maxBarriers = math.MaxUint16 / 2

// Raise raises a barrier behind the present records, live in number, for a caller. It returns
// nil if there is no record. If Full reports true afterwards, the owner must call Renumber.
func (b *Barriers) Raise(live int) *Barrier {
	if live == 0 {
		return nil
	}
	if live > b.open {
		if len(b.all) < maxBarriers {
			b.all = append(b.all, &Barrier{Over: make(chan struct{})})
		}
		last := b.all[len(b.all)-1]
		last.mark = b.Mark
		last.left += live - b.open
		b.open = live
		b.Mark++
	}
	last := b.all[len(b.all)-1]
	last.callers++
	return last
}

// Full reports whether the marks are used up, as after 65,535 barriers.
func (b *Barriers) Full() bool { return b.Mark == math.MaxUint16 }

// Renumber makes the marks count from 0 again. each must call its argument for the marks of all
// records.
func (b *Barriers) Renumber(each func(renumber func(mark *uint16))) {
	each(func(mark *uint16) { *mark = uint16(b.find(*mark)) })
	for i, barrier := range b.all {
		barrier.mark = uint16(i)
	}
	b.Mark = uint16(len(b.all))
}

// find returns the index of the barrier whose span has a mark, or len(all) for newer marks.
func (b *Barriers) find(mark uint16) int {
	return sort.Search(len(b.all), func(i int) bool { return mark <= b.all[i].mark })
}

// Any reports whether there is a barrier.
func (b *Barriers) Any() bool { return b.all != nil }

// Pass follows a record that is done or removed.
func (b *Barriers) Pass(mark uint16) {
	i := b.find(mark)
	if i == len(b.all) {
		return
	}
	b.open--
	b.all[i].left--
	passed := 0
	for passed < len(b.all) && b.all[passed].left == 0 {
		close(b.all[passed].Over)
		passed++
	}
	b.cut(0, passed)
}

// Drop ends all barriers that wait for a record, which is about to be dropped.
func (b *Barriers) Drop(mark uint16) {
	i := b.find(mark)
	for _, barrier := range b.all[i:] {
		b.open -= barrier.left
		barrier.Dropped = true
		close(barrier.Over)
	}
	b.cut(i, len(b.all))
}

// Leave ends the wait of a caller, and returns how many records are left. A span without callers
// joins the next span. Without a next span, its records are like new ones.
func (b *Barriers) Leave(barrier *Barrier) (left int) {
	i := slices.Index(b.all, barrier)
	if i < 0 {
		return 0
	}
	for _, before := range b.all[:i+1] {
		left += before.left
	}
	if barrier.callers--; barrier.callers > 0 {
		return left
	}
	if i+1 < len(b.all) {
		b.all[i+1].left += barrier.left
	} else {
		b.open -= barrier.left
	}
	b.cut(i, i+1)
	return left
}

// cut forgets barriers. An empty list is nil: Any is asked at each Done.
func (b *Barriers) cut(from, to int) {
	b.all = slices.Delete(b.all, from, to)
	if len(b.all) == 0 {
		b.all = nil
	}
}
