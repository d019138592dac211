package workqueue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// A naiveFair is the model of a fair queue: slices that are searched. Groups have
// numbers below groupsInAll, items below itemsInAll.
type naiveFair struct {
	groups [groupsInAll]naiveGroup
	turns  []int       // groups that may be popped from, in the order of their turns
	of     map[int]int // the groups of items that are queued or held
	held   []int
	limits bool // hold, as there was a Ready
}

type naiveGroup struct {
	items                     []naiveRanked
	weight, limit, left, held int
}

type naiveRanked struct{ item, priority int }

const groupsInAll, itemsInAll = 4, 16

func (m *naiveFair) push(item, group, priority int) {
	g := &m.groups[group]
	g.items = append(g.items, naiveRanked{item, priority})
	m.of[item] = group
	m.arrange()
}

// raise moves an item behind those of its new priority.
func (m *naiveFair) raise(item, priority int) {
	g := &m.groups[m.of[item]]
	at := slices.IndexFunc(g.items, func(r naiveRanked) bool { return r.item == item })
	if r := g.items[at]; r.priority < priority {
		g.items = append(slices.Delete(g.items, at, at+1), naiveRanked{item, priority})
	}
}

// pop takes the first item of the highest priority in the group whose turn it is.
func (m *naiveFair) pop() (item, priority int) {
	group := m.turns[0]
	g := &m.groups[group]
	at := 0
	for i, r := range g.items {
		if r.priority > g.items[at].priority {
			at = i
		}
	}
	r := g.items[at]
	g.items = slices.Delete(g.items, at, at+1)
	if g.left == 0 {
		g.left = g.weight
	}
	if g.left--; g.left == 0 {
		m.turns = append(m.turns[1:], group)
	}
	if m.limits {
		g.held++
		m.held = append(m.held, r.item)
	} else {
		delete(m.of, r.item)
	}
	m.arrange()
	return r.item, r.priority
}

func (m *naiveFair) done(item int) {
	if slices.Contains(m.held, item) {
		m.held = without(m.held, item)
		m.groups[m.of[item]].held--
		delete(m.of, item)
		m.arrange()
	}
}

// arrange follows each change. One group at most is not where it belongs.
func (m *naiveFair) arrange() {
	for group := range m.groups {
		g := &m.groups[group]
		may := len(g.items) > 0 && (!m.limits || g.limit == 0 || g.held < g.limit)
		switch in := slices.Contains(m.turns, group); {
		case in && !may:
			m.turns = without(m.turns, group)
		case may && !in && g.left > 0:
			m.turns = slices.Insert(m.turns, 0, group)
		case may && !in:
			m.turns = append(m.turns, group)
		}
		if len(g.items) == 0 {
			g.left = 0
		}
	}
}

func (m *naiveFair) len() (n int) {
	for _, g := range m.groups {
		n += len(g.items)
	}
	return n
}

// A pile is a queue with priorities that is searched.
type pile struct{ items []naiveRanked }

func (p *pile) Push(item int)  { p.PushWithPriority(item, 0) }
func (p *pile) Touch(item int) { p.TouchWithPriority(item, 0) }
func (p *pile) Len() int       { return len(p.items) }

func (p *pile) Pop() int {
	item, _ := p.PopWithPriority()
	return item
}

func (p *pile) PushWithPriority(item, priority int) {
	at := slices.IndexFunc(p.items, func(r naiveRanked) bool { return r.priority < priority })
	if at < 0 {
		at = len(p.items)
	}
	p.items = slices.Insert(p.items, at, naiveRanked{item, priority})
}

func (p *pile) TouchWithPriority(item, priority int) {
	at := slices.IndexFunc(p.items, func(r naiveRanked) bool { return r.item == item })
	if p.items[at].priority < priority {
		p.items = slices.Delete(p.items, at, at+1)
		p.PushWithPriority(item, priority)
	}
}

func (p *pile) PopWithPriority() (item, priority int) {
	r := p.items[0]
	p.items = p.items[1:]
	return r.item, r.priority
}

// A fairGame plays a script on a fair queue and on the model. Groups, weights and
// limits change all the time.
type fairGame struct {
	t       *testing.T
	queue   workqueue.Queue[int]
	model   *naiveFair
	groups  [itemsInAll]int // as the group function says now
	weights [groupsInAll]int
	limits  [groupsInAll]int
	ranked  bool
}

func newFairGame(t *testing.T, kind byte) *fairGame {
	g := &fairGame{t: t, model: &naiveFair{of: map[int]int{}}, ranked: kind&2 != 0}
	for group := range groupsInAll {
		g.weights[group], g.limits[group] = 1+group, group
	}
	for item := range itemsInAll {
		g.groups[item] = item % groupsInAll
	}
	options := workqueue.FairOptions[int, int]{
		Group:  func(item int) int { return g.groups[item] },
		Weight: func(group int) int { return g.weights[group] },
	}
	if kind&1 != 0 {
		options.MaxInFlight = func(group int) int { return g.limits[group] }
	}
	if g.ranked {
		options.Within = func() workqueue.Queue[int] { return &pile{} }
	}
	g.queue = workqueue.NewFairQueue(options)
	if h, ok := g.queue.(workqueue.HoldingQueue[int]); ok != (kind&1 != 0) {
		t.Fatalf("kind %d: it is a HoldingQueue: %v", kind, ok)
	} else if g.model.limits = ok && kind&4 != 0; g.model.limits {
		h.Ready()
	}
	if _, ok := g.queue.(workqueue.PrioritizedQueue[int]); ok != g.ranked {
		t.Fatalf("kind %d: it is a PrioritizedQueue: %v", kind, ok)
	}
	return g
}

func (g *fairGame) knows(item int) bool { _, ok := g.model.of[item]; return ok }

// add pushes an item that is neither queued nor held, and touches one that is queued.
// One that is held is done and queued again, as a queue does it.
func (g *fairGame) add(item, priority int) string {
	if !g.ranked {
		priority = 0
	}
	p, _ := g.queue.(workqueue.PrioritizedQueue[int])
	if g.knows(item) && !slices.Contains(g.model.held, item) {
		if g.model.raise(item, priority); p != nil {
			p.TouchWithPriority(item, priority)
		} else {
			g.queue.Touch(item)
		}
		return fmt.Sprintf("touch %d, priority %d", item, priority)
	}
	if slices.Contains(g.model.held, item) {
		g.done(item)
	}
	group := g.groups[item]
	m := &g.model.groups[group]
	m.weight, m.limit = g.weights[group], 0
	m.left = min(m.left, m.weight)
	if _, holds := g.queue.(workqueue.HoldingQueue[int]); holds {
		m.limit = g.limits[group]
	}
	g.model.push(item, group, priority)
	if p != nil {
		p.PushWithPriority(item, priority)
	} else {
		g.queue.Push(item)
	}
	return fmt.Sprintf("push %d into %d, priority %d", item, group, priority)
}

func (g *fairGame) pop() string {
	if len(g.model.turns) == 0 {
		return "nothing to pop"
	}
	want, wantPriority := g.model.pop()
	got, gotPriority := 0, 0
	if p, ok := g.queue.(workqueue.PrioritizedQueue[int]); ok {
		got, gotPriority = p.PopWithPriority()
	} else {
		got = g.queue.Pop()
	}
	if got != want || gotPriority != wantPriority {
		g.t.Fatalf("popped %d with priority %d, want %d with %d", got, gotPriority, want, wantPriority)
	}
	return fmt.Sprint("pop ", got)
}

func (g *fairGame) done(item int) string {
	if h, ok := g.queue.(workqueue.HoldingQueue[int]); ok {
		h.Done(item)
		g.model.done(item)
	}
	return fmt.Sprint("done ", item)
}

// step plays two bytes.
func (g *fairGame) step(op, arg byte) string {
	item, value := int(arg&15), int(arg>>4)
	switch op & 7 {
	case 0, 1, 2:
		return g.add(item, value&3)
	case 3, 4:
		return g.pop()
	case 5:
		if len(g.model.held) > 0 {
			return g.done(g.model.held[item%len(g.model.held)])
		}
		return g.done(item)
	case 6:
		g.groups[item] = value % groupsInAll
		return fmt.Sprintf("group of %d is %d", item, g.groups[item])
	default:
		g.weights[item%groupsInAll], g.limits[item%groupsInAll] = 1+value%4, int(op>>3)%4
		return fmt.Sprintf("group %d has weight %d, limit %d", item%groupsInAll, 1+value%4, int(op>>3)%4)
	}
}

// TestModelFair and FuzzFair play random calls on a fair queue and on the model.
func TestModelFair(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	for range 4 * scripts() {
		playFair(t, randomScript(rnd, 200))
	}
}

func FuzzFair(f *testing.F) { f.Fuzz(inParallel(playFair)) }

func playFair(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	g := newFairGame(t, script[0])
	for i := 1; i+1 < len(script); i += 2 {
		call := g.step(script[i], script[i+1])
		g.check(i, call)
	}
	for left := g.model.len() + len(g.model.held); left > 0; left-- {
		for _, item := range slices.Clone(g.model.held) {
			g.done(item)
		}
		g.check(len(script), g.pop())
	}
	if g.queue.Len() != 0 {
		t.Fatalf("in the end %d items are left", g.queue.Len())
	}
}

func (g *fairGame) check(step int, call string) {
	g.t.Helper()
	if got, want := g.queue.Len(), g.model.len(); got != want {
		g.t.Fatalf("step %d, %s: %d items, want %d", step, call, got, want)
	}
	if h, ok := g.queue.(workqueue.HoldingQueue[int]); ok && g.model.limits {
		if got, want := h.Ready(), len(g.model.turns) > 0; got != want {
			g.t.Fatalf("step %d, %s: ready %v, want %v", step, call, got, want)
		}
	}
	checkInvariants(g.t, step, g.queue)
}

// A wait is an item in a fair queue, with what is handed out meanwhile of each group
// while its own is not at its limit.
type wait struct {
	item, group, before int // before: how many of its own group come before it
	seen                [groupsInAll]int
}

// The bound that NewFairQueue promises, for all items in random histories: of another
// group with weight v, no more than (k/w + 1)*v items come before one of a group of
// weight w that has k before it, and the rest of a turn more if the other one has a limit.
func TestFairBoundHolds(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	reached := 0
	for range max(40, 4*scripts()) { // With few of them, none may come to the bound.
		reached += playBound(t, rnd)
	}
	if reached == 0 {
		t.Error("no item has waited as long as it may")
	}
}

func playBound(t *testing.T, rnd *rand.Rand) (reached int) {
	var weights, limits, held [groupsInAll]int
	for group := range groupsInAll {
		weights[group], limits[group] = 1+rnd.IntN(5), rnd.IntN(4)
	}
	groups := make(map[int]int)
	q := workqueue.NewFairQueue(workqueue.FairOptions[int, int]{
		Group:       func(item int) int { return groups[item] },
		Weight:      func(group int) int { return weights[group] },
		MaxInFlight: func(group int) int { return limits[group] },
	}).(workqueue.HoldingQueue[int])
	var waits []*wait
	var flying []int
	for item := range 400 {
		group := rnd.IntN(groupsInAll)
		if rnd.IntN(4) > 0 {
			group = 0 // It floods.
		}
		w := &wait{item: item, group: group}
		for _, other := range waits {
			if other.group == group {
				w.before++
			}
		}
		groups[item] = group
		waits = append(waits, w)
		q.Push(item)
		for range rnd.IntN(3) {
			if len(flying) > 0 && rnd.IntN(2) == 0 {
				done := flying[rnd.IntN(len(flying))]
				flying = without(flying, done)
				held[groups[done]]--
				q.Done(done)
			}
			if !q.Ready() {
				continue
			}
			got := q.Pop()
			flying = append(flying, got)
			reached += accountFair(t, &waits, got, groups[got], weights, limits, func(group int) bool { return limits[group] > 0 && held[group] >= limits[group] })
			held[groups[got]]++
		}
	}
	return reached
}

// accountFair notes a hand-out with all who wait, and checks the one whose wait is over.
func accountFair(t *testing.T, waits *[]*wait, item, group int, weights, limits [groupsInAll]int, atLimit func(group int) bool) (reached int) {
	at := slices.IndexFunc(*waits, func(w *wait) bool { return w.item == item })
	over := (*waits)[at]
	*waits = slices.Delete(*waits, at, at+1)
	for _, w := range *waits {
		if !atLimit(w.group) {
			w.seen[group]++
		}
	}
	for other, n := range over.seen {
		most := (over.before/weights[group] + 1) * weights[other]
		if limits[other] > 0 {
			most += weights[other] - 1
		}
		if other != group && n > most {
			t.Fatalf("%+v: %d of group %d came before it, %d may; weights %v", *over, n, other, most, weights)
		}
		if other != group && n == most {
			reached++
		}
	}
	return reached
}
