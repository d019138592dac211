package linearizability

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/seed16c08ea7/workqueue"
)

// A kind says which fair order a queue has. Items are in groups by their remainder: three
// groups of two items, or two groups where there are levels too.
type kind int8

const (
	unfair   kind = iota
	weighted      // weights alone
	limited       // and a limit for the items of a group that are held
	within        // and priorities within each group
	levels        // the same, within each of two levels: those of the items 0 to 2, and 3 to 5
	kinds
)

var kindNames = [kinds]string{"", "fair, weights", "fair, limits", "fair, priorities within groups", "fair within priorities"}

const maxGroups = 3

func (k kind) group(item int8) int8 {
	if k == levels {
		return item % 2
	}
	return item % maxGroups
}

func (k kind) level(item int8) int8 {
	if k == levels {
		return item / 3
	}
	return 0
}

func weight(group int8) int8 { return 1 + (group+1)%2 }

func (k kind) limit(group int8) int8 {
	if k == weighted || group == 2 {
		return 0
	}
	return 1
}

// Rounds are what a state knows of a fair order. Each level has one of its own.
//
// The order is promised under concurrency too. It is that of the calls: groups take turns
// in the order in which they got their first item, or were below their limit again. In
// its turn a group hands out as many items as it has weight, or all that it may. One
// that comes to its limit in its turn has the rest of it, and first, when it is below.
type rounds struct {
	kind   kind
	levels [2]struct {
		turns          [maxGroups]int8 // the groups that may be taken from, in the order of their turns
		n              int8            // how many these are
		credit, flying [maxGroups]int8 // items left of the turn that has begun; items held
	}
}

// settle puts the group of an item where it belongs, after each change of it.
func (s *state) settle(item int8) {
	k := s.rounds.kind
	if k == unfair {
		return
	}
	r, g := &s.rounds.levels[k.level(item)], k.group(item)
	at := slices.Index(r.turns[:r.n], g)
	queued := s.head(k.level(item), g) >= 0
	may := k.limit(g) == 0 || r.flying[g] < k.limit(g)
	if !queued {
		r.credit[g] = 0
	}
	turns := slices.Clone(r.turns[:r.n])
	switch {
	case queued && may && at < 0 && r.credit[g] > 0:
		turns = slices.Insert(turns, 0, g)
	case queued && may && at < 0:
		turns = append(turns, g)
	case !(queued && may) && at >= 0:
		turns = slices.Delete(turns, at, at+1)
	}
	s.setTurns(k.level(item), turns)
}

func (s *state) setTurns(level int8, turns []int8) {
	r := &s.rounds.levels[level]
	r.turns = [maxGroups]int8{}
	r.n = int8(copy(r.turns[:], turns))
}

// head returns the place of the first item of a group, or -1. The line is in the order of
// the priorities, and so are the items of a group in it.
func (s *state) head(level, group int8) int {
	k := s.rounds.kind
	return slices.IndexFunc(s.line[:s.queued], func(item int8) bool { return k.level(item) == level && k.group(item) == group })
}

// turn returns the place of the item that is handed out next, or -1.
func (s *state) turn() int {
	for level := int8(1); level >= 0; level-- {
		if r := &s.rounds.levels[level]; r.n > 0 {
			return s.head(level, r.turns[0])
		}
	}
	return -1
}

// fly counts an item that is handed out, and charges it to the turn of its group.
func (s *state) fly(item int8) {
	k := s.rounds.kind
	r, g := &s.rounds.levels[k.level(item)], k.group(item)
	if r.credit[g] == 0 {
		r.credit[g] = weight(g)
	}
	if r.credit[g]--; r.credit[g] == 0 {
		s.setTurns(k.level(item), append(slices.Clone(r.turns[1:r.n]), g))
	}
	r.flying[g]++
	s.settle(item)
}

// land ends the hand-out of an item.
func (s *state) land(item int8) {
	if k := s.rounds.kind; k != unfair {
		s.rounds.levels[k.level(item)].flying[k.group(item)]--
		s.settle(item)
	}
}

// A fair queue has a fair order. Remove is hidden, see the Typed with a Queue.
type fair struct {
	*workqueue.Typed[int8]
	noRemove
	kind kind
}

// An order that deviates from the kind by options or as a Queue is to be found illegal.
type deviation struct {
	options func(*workqueue.FairOptions[int8, int8])
	order   func(workqueue.Queue[int8]) workqueue.Queue[int8]
}

func newFair(k kind, d deviation) fair {
	options := workqueue.FairOptions[int8, int8]{Group: k.group, Weight: func(group int8) int { return int(weight(group)) }}
	if k != weighted {
		options.MaxInFlight = func(group int8) int { return int(k.limit(group)) }
	}
	if k == within {
		options.Within = func() workqueue.Queue[int8] { return newOrder(0) }
	}
	if d.options != nil {
		d.options(&options)
	}
	order := workqueue.NewFairQueue(options)
	if k == levels {
		order = workqueue.NewPriorityQueue(workqueue.PriorityOptions[int8]{
			Of:     func(item int8) int { return int(k.level(item)) },
			Within: func() workqueue.Queue[int8] { return workqueue.NewFairQueue(options) },
		})
	}
	if d.order != nil {
		order = d.order(order)
	}
	return fair{workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int8]{Order: order}), noRemove{}, k}
}

func kindOf(q queue) kind {
	if q, ok := q.(fair); ok {
		return q.kind
	}
	return unfair
}

// fairs are implementations with each kind of fair order.
func fairs() (all []implementation) {
	for k := weighted; k < kinds; k++ {
		all = append(all, implementation{kindNames[k], func() queue { return newFair(k, deviation{}) }})
	}
	return all
}

// deaf is an order that does not hear each fourth Done.
type deaf struct {
	workqueue.HoldingQueue[int8]
	dones int
}

func (d *deaf) Done(item int8) {
	if d.dones++; d.dones%4 != 3 {
		d.HoldingQueue.Done(item)
	}
}

// skipping is an order in which a group loses a turn at times: what it would hand out goes
// behind all others.
type skipping struct {
	workqueue.Queue[int8]
	pops int
}

func (s *skipping) Pop() int8 {
	if s.pops++; s.pops%4 == 3 && s.Len() > 1 {
		s.Push(s.Queue.Pop())
	}
	return s.Queue.Pop()
}

// The check of the fair orders can fail.
func TestBrokenFairOrdersHaveIllegalHistories(t *testing.T) {
	deafness := func(q workqueue.Queue[int8]) workqueue.Queue[int8] {
		return &deaf{HoldingQueue: q.(workqueue.HoldingQueue[int8])}
	}
	for name, test := range map[string]struct {
		kind kind
		deviation
	}{
		"a group loses its turn at times": {weighted, deviation{
			order: func(q workqueue.Queue[int8]) workqueue.Queue[int8] { return &skipping{Queue: q} }}},
		"a weight is not heard": {weighted, deviation{
			options: func(o *workqueue.FairOptions[int8, int8]) { o.Weight = nil }}},
		"a limit is too high": {limited, deviation{
			options: func(o *workqueue.FairOptions[int8, int8]) { o.MaxInFlight = func(int8) int { return 2 } }}},
		"a Done is not heard":            {limited, deviation{order: deafness}},
		"a Done is not heard by a level": {levels, deviation{order: deafness}},
		"a weight is not heard in a level": {levels, deviation{
			options: func(o *workqueue.FairOptions[int8, int8]) { o.Weight = nil }}},
	} {
		t.Run(name, func(t *testing.T) {
			n, illegal := manyHistories(), 0
			for i := range n {
				ops, ended := record(newFair(test.kind, test.deviation), randomLoad(rand.New(rand.NewPCG(3, uint64(i))), true))
				if !ended || !porcupine.CheckOperations(spec(0, test.kind), ops) {
					illegal++
				}
				if illegal > 3 {
					return
				}
			}
			t.Errorf("%d of %d histories are illegal", illegal, n)
		})
	}
}

func (r rounds) String() string {
	if r.kind == unfair {
		return ""
	}
	return fmt.Sprintf(", %s: %+v", kindNames[r.kind], r.levels)
}
