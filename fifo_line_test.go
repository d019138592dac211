package workqueue_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// A lineDuel plays a line against a slice. Both have numbers for records; places
// knows where the line says that they are.
type lineDuel struct {
	t      *testing.T
	line   *workqueue.Line
	model  []uint32
	places map[uint32]uint32
	next   uint32
	moves  int // in the last call
}

func newLineDuel(t *testing.T, start uint32) *lineDuel {
	return &lineDuel{t: t, line: workqueue.NewLineAt(start), places: map[uint32]uint32{}}
}

func (d *lineDuel) moved(i, place uint32) {
	d.moves++
	d.places[i] = place
}

func (d *lineDuel) push() {
	d.places[d.next] = d.line.Push(d.next)
	d.model = append(d.model, d.next)
	d.next++
}

func (d *lineDuel) pushFront() {
	d.places[d.next] = d.line.PushFront(d.next)
	d.model = slices.Insert(d.model, 0, d.next)
	d.next++
}

func (d *lineDuel) pop() {
	d.moves = 0
	if got := d.line.Pop(d.moved); got != d.model[0] {
		d.t.Fatalf("popped %d, want %d", got, d.model[0])
	}
	delete(d.places, d.model[0])
	d.model = d.model[1:]
}

func (d *lineDuel) remove(at int) {
	i := d.model[at]
	d.moves = 0
	d.line.Remove(d.places[i], d.moved)
	delete(d.places, i)
	d.model = slices.Delete(d.model, at, at+1)
}

// check compares all there is to see. The length of the line is bounded by the
// invariants.
func (d *lineDuel) check(call string) {
	d.t.Helper()
	checkInvariants(d.t, int(d.next), d.line)
	if d.moves > 4 {
		d.t.Fatalf("%s has moved %d records", call, d.moves)
	}
	if d.line.Len() != len(d.model) || d.line.Empty() != (len(d.model) == 0) {
		d.t.Fatalf("%s: %d records, empty %v, want %d", call, d.line.Len(), d.line.Empty(), len(d.model))
	}
	if len(d.model) > 0 && d.line.First() != d.model[0] {
		d.t.Fatalf("%s: the first is %d, want %d", call, d.line.First(), d.model[0])
	}
	if got := slices.Collect(d.line.All()); !slices.Equal(got, d.model) {
		d.t.Fatalf("%s: got %v, want %v", call, got, d.model)
	}
	for i, place := range d.places {
		if d.line.Record(place) != i {
			d.t.Fatalf("%s: record %d is not at %d", call, i, place)
		}
	}
}

// step makes one call. One byte says which, the other with which record.
func (d *lineDuel) step(op, arg byte) (call string) {
	at := 0
	if len(d.model) > 0 {
		at = int(arg) * len(d.model) / 256
	}
	switch {
	case op%16 < 5 || len(d.model) == 0:
		d.push()
		return "push"
	case op%16 == 5:
		d.pushFront()
		return "pushFront"
	case op%16 < 8:
		d.pop()
		return "pop"
	case op%16 == 8:
		for len(d.model) < int(arg)/2 {
			d.push()
		}
		return "push many"
	case op%16 == 9:
		d.line.Shrink()
		return "shrink"
	case op%16 == 10: // A row of neighbours.
		for range min(int(op)/16, len(d.model)-at) {
			d.remove(at)
			d.check("remove one of a row")
		}
		return "remove a row"
	default:
		d.remove(at)
		return fmt.Sprint("remove ", at)
	}
}

func playLine(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	d := newLineDuel(t, []uint32{0, math.MaxUint32 - 300, math.MaxUint32, 1 << 31}[script[0]%4])
	for i := 1; i+1 < len(script); i += opSize {
		d.check(d.step(script[i], script[i+1]))
	}
}

// TestModelLine and FuzzLine play random calls on a line and on a slice.
func TestModelLine(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	for range scripts() {
		playLine(t, randomScript(rnd, 400))
	}
}

func FuzzLine(f *testing.F) { f.Fuzz(inParallel(playLine)) }

// Whichever records leave a long line, and whatever comes meanwhile, no call
// moves more than a few, and holes do not pile up.
func TestNoRemovalMovesTheLine(t *testing.T) {
	t.Parallel()
	const n = 1200
	for name, next := range map[string]func(rnd *rand.Rand, left int) int{
		"from the second on": func(*rand.Rand, int) int { return 1 },
		"from the end on":    func(_ *rand.Rand, left int) int { return left - 2 },
		"from the middle on": func(_ *rand.Rand, left int) int { return left / 2 },
		"at random":          func(rnd *rand.Rand, left int) int { return rnd.IntN(left) },
		"at either end":      func(_ *rand.Rand, left int) int { return 1 + left%2*(left-3) },
	} {
		for pushes := range 3 { // For each two that leave.
			for pops := range 2 {
				d := newLineDuel(t, math.MaxUint32-n/2)
				rnd := newRand(t)
				for range n {
					d.push()
				}
				for i := 0; len(d.model) > 4 && i < 2*n; i++ {
					if pops == 1 && i%3 == 0 {
						d.pop()
					} else {
						d.remove(next(rnd, len(d.model)))
					}
					if i%2 == 1 {
						for range pushes {
							d.push()
						}
					}
					if i%97 == 0 || len(d.model) < 20 {
						d.check(name)
					} else if d.moves > 4 || 3*d.line.Holes() > 5*len(d.model)+8 {
						d.t.Fatalf("%s: %d records moved, %d holes among %d", name, d.moves, d.line.Holes(), len(d.model))
					}
				}
			}
		}
	}
}

// A sweep that has got somewhere when the queue works off what was before it, or
// when its place becomes a hole, is not lost.
func TestSweepThatIsOvertaken(t *testing.T) {
	t.Parallel()
	for _, leave := range []func(d *lineDuel){
		func(d *lineDuel) { d.pop() },
		func(d *lineDuel) { d.remove(0) },
		func(d *lineDuel) { d.remove(len(d.model) - 1) },
		func(d *lineDuel) { d.remove(len(d.model) / 4) },
		func(d *lineDuel) { d.remove(min(20, len(d.model)-1)) },
	} {
		for _, start := range []uint32{0, math.MaxUint32 - 50} {
			d := newLineDuel(t, start)
			for range 200 {
				d.push()
			}
			for at := 1; d.line.Holes() < 105; at++ {
				d.remove(at % (len(d.model) - 1))
				d.check("remove")
			}
			for len(d.model) > 0 {
				leave(d)
				d.check("leave")
			}
		}
	}
}

// While there are no more holes than records, no record is moved: a sweep would cost each
// removal for nothing. One hole more, and it begins.
func TestAFewHolesMoveNothing(t *testing.T) {
	t.Parallel()
	d := newLineDuel(t, 0)
	for range 20 {
		d.push()
	}
	for at := 1; at <= 10; at++ {
		d.remove(min(at, 9))
		if d.check("remove"); d.moves > 0 {
			t.Fatalf("%d records moved for %d holes among %d", d.moves, d.line.Holes(), len(d.model))
		}
	}
	if d.remove(1); d.moves == 0 {
		t.Errorf("none moved for %d holes among %d", d.line.Holes(), len(d.model))
	}
	d.check("the sweep")
}
