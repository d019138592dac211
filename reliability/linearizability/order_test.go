package linearizability

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed16c08ea7/workqueue"
)

// A shape is the Order of a queue. The groups of items are their remainders. In the zero
// shape, all items are of one group.
type shape struct {
	every       int8 // OldestEvery
	groups      int8 // how many groups there are
	weights     bool
	limits      bool
	groupsFirst bool
	asks        bool // there is a Priority function
}

const (
	maxGroups = 3
	maxBands  = 4 // the priorities are -1 to 2
)

func (k shape) group(item int8) int8 { return item % max(1, k.groups) }

// priority is that of an add that names none.
func (k shape) priority(item int8) int8 {
	if k.asks {
		return item % 4 / 2
	}
	return 0
}

func (k shape) weight(group int8) int8 {
	if k.weights {
		return 1 + (group+1)%2
	}
	return 1
}

func (k shape) limit(group int8) int8 {
	if !k.limits || group == 2 {
		return 0
	}
	return 1
}

// band returns among which items the groups take turns: those of the priority, or all.
func (k shape) band(priority int8) int8 {
	if k.groupsFirst {
		return 0
	}
	return priority + 1
}

// An order is what a state knows of priorities and groups. The line of the state is in the
// order in which the items were added, or raised.
//
// The order is promised under concurrency too. It is that of the calls: groups take turns
// in the order in which they got their first item, or were below their limit again. In
// its turn a group hands out as many items as its weight says, or all that may go. A group
// that comes to its limit in its turn goes on with its turn, before all others, when it is
// below its limit.
type order struct {
	shape  shape
	of     [maxItems]int8            // the priorities of what is queued or added again; else 0
	turns  [maxBands]turns           // the groups with items that may go
	credit [maxBands][maxGroups]int8 // items left of a turn that has begun
	since  [maxGroups]int8           // hand-outs since that of the oldest item: of each group with groupsFirst, else of 0
}

// turns are groups, that whose turn it is first.
type turns struct {
	groups [maxGroups]int8
	n      int8
}

func (t *turns) list() []int8 { return slices.Clone(t.groups[:t.n]) }

func (t *turns) set(groups []int8) {
	*t = turns{n: int8(len(groups))}
	copy(t.groups[:], groups)
}

// push puts an item at the end of the line.
func (s *state) push(item int8) {
	s.line[s.queued] = item
	s.queued++
	s.arrange()
}

// lift raises an item that is queued.
func (s *state) lift(item, priority int8) {
	if s.order.of[item] < priority {
		s.leave(s.at(item))
		s.order.of[item] = priority
		s.push(item)
	}
}

// arrange lets groups enter and leave the turns. It follows each change.
func (s *state) arrange() {
	o := &s.order
	var queued [maxBands][maxGroups]bool
	for _, item := range s.line[:s.queued] {
		queued[o.shape.band(o.of[item])][o.shape.group(item)] = true
	}
	for band := range o.turns {
		for g := range max(1, o.shape.groups) {
			s.arrangeGroup(band, g, queued[band][g])
		}
	}
}

func (s *state) arrangeGroup(band int, g int8, queued bool) {
	o := &s.order
	if !queued {
		o.credit[band][g] = 0
		if o.shape.groupsFirst && band == 0 {
			o.since[g] = 0
		}
	}
	t := &o.turns[band]
	at := slices.Index(t.groups[:t.n], g)
	switch may := queued && !s.full(g); {
	case may && at < 0 && o.credit[band][g] > 0:
		t.set(append([]int8{g}, t.list()...))
	case may && at < 0:
		t.set(append(t.list(), g))
	case !may && at >= 0:
		t.set(slices.Delete(t.list(), at, at+1))
	}
}

// full reports whether a group is at its limit.
func (s *state) full(group int8) bool {
	k, n := s.order.shape, int8(0)
	for item := range int8(maxItems) {
		if s.held.has(item) && k.group(item) == group {
			n++
		}
	}
	return k.limit(group) > 0 && n >= k.limit(group)
}

// ready reports whether there is an item to hand out.
func (s *state) ready() bool { return s.top() >= 0 }

// top returns the highest band with a group whose turn it is, or -1.
func (s *state) top() int {
	band := maxBands - 1
	for band >= 0 && s.order.turns[band].n == 0 {
		band--
	}
	return band
}

// next returns the place of the item that is handed out next, and that of the oldest item.
// There must be one.
func (s *state) next() (at, oldest int) {
	o := &s.order
	top := s.top()
	turn := o.turns[top].groups[0]
	at, oldest = -1, -1
	for i, item := range s.line[:s.queued] {
		own := o.shape.group(item) == turn && int(o.shape.band(o.of[item])) == top
		if own && (at < 0 || o.of[item] > o.of[s.line[at]]) {
			at = i
		}
		if oldest < 0 && (own || !o.shape.groupsFirst && !s.full(o.shape.group(item))) {
			oldest = i
		}
	}
	if o.shape.every > 0 && *s.since(turn)+1 >= o.shape.every {
		at = oldest
	}
	return at, oldest
}

func (s *state) since(group int8) *int8 {
	if s.order.shape.groupsFirst {
		return &s.order.since[group]
	}
	return &s.order.since[0]
}

// take hands out the next item. The oldest one uses up a turn only if it is that of its own
// group.
func (s *state) take() (item int8) {
	o := &s.order
	at, oldest := s.next()
	item = s.line[at]
	top := s.top()
	t := &o.turns[top]
	turn, group := t.groups[0], o.shape.group(item)
	if o.shape.every > 0 {
		if *s.since(turn)++; at == oldest {
			*s.since(turn) = 0
		}
	}
	if group == turn && int(o.shape.band(o.of[item])) == top {
		credit := &o.credit[top][group]
		if *credit == 0 {
			*credit = o.shape.weight(group)
		}
		if *credit--; *credit == 0 {
			t.set(append(t.list()[1:], group))
		}
	}
	s.leave(at)
	o.of[item] = 0
	s.held = s.held.with(item)
	s.arrange()
	return item
}

// inOrder returns the queued items in the order of a Snapshot that knows it: there are
// neither groups nor turns of the oldest item.
func (s *state) inOrder() []int8 {
	line := slices.Clone(s.line[:s.queued])
	slices.SortStableFunc(line, func(a, b int8) int { return int(s.order.of[b]) - int(s.order.of[a]) })
	return line
}

func (o order) String() string {
	if o == (order{}) {
		return ""
	}
	return fmt.Sprintf(", priorities %v, turns %+v, credit %v, since %v", o.of, o.turns, o.credit, o.since)
}

// An ordered queue has the Order of a shape, and is added to with priorities.
type ordered struct {
	*workqueue.TypedDelaying[int8]
	shape shape
}

func newOrdered(k shape) ordered {
	o := workqueue.Order[int8]{OldestEvery: int(k.every)}
	if k.asks {
		o.Priority = func(item int8) int { return int(k.priority(item)) }
	}
	if k.groups > 0 {
		number := func(group string) int8 { return int8(len(group)) }
		o.Group = func(item int8) string { return strings.Repeat("g", int(k.group(item))) }
		o.GroupsFirst = k.groupsFirst
		if k.weights {
			o.Weight = func(group string) int { return int(k.weight(number(group))) }
		}
		if k.limits {
			o.MaxInFlight = func(group string) int { return int(k.limit(number(group))) }
		}
	}
	return ordered{workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int8]{Order: o}), k}
}

func (k shape) String() string {
	words := []string{"priorities"}
	for _, one := range []struct {
		has  bool
		word string
	}{
		{k.asks, "a function for them"},
		{k.every > 0, fmt.Sprint("the oldest every ", k.every)},
		{k.groups > 0, fmt.Sprint(k.groups, " groups")},
		{k.weights, "weights"},
		{k.limits, "limits"},
		{k.groupsFirst, "groups first"},
	} {
		if one.has {
			words = append(words, one.word)
		}
	}
	return strings.Join(words, ", ")
}

// orders are queues with an Order of each shape.
func orders() (all []implementation) {
	shapes := []shape{{}, {every: 1}, {every: 3, asks: true}}
	for i := range 16 {
		k := shape{groups: 3, weights: i&1 > 0, limits: i&2 > 0, groupsFirst: i&4 > 0, asks: i&3 == 1}
		if i&4 > 0 {
			k.groups = 2 // of three items each, which their priorities order
		}
		if i&8 > 0 {
			k.every = 2 + int8(i&1)
		}
		shapes = append(shapes, k)
	}
	for _, k := range shapes {
		all = append(all, implementation{k.String(), func() queue { return newOrdered(k) }})
	}
	return all
}

func (q ordered) shaped() shape { return q.shape }

// shapeOf returns the shape of a queue.
func shapeOf(q queue) shape {
	if q, ok := q.(prioritizer); ok {
		return q.shaped()
	}
	return shape{}
}

// A prioritizer is an ordered queue. The other queues of the package take priorities too,
// but these tests do not name any there, so that some histories are those of a FIFO.
type prioritizer interface {
	AddWith(options workqueue.AddOptions, items ...int8) int
	GetInfo(ctx context.Context) (workqueue.ItemInfo[int8], error)
	shaped() shape
}
