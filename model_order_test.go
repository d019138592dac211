package workqueue_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// A naiveOrder is the model of NewPriorityQueue: a list, which is sorted each time
// that anything is taken from it.
type naiveOrder struct {
	items []rankedInt
	every int
	since int
	clock int

	// Where levels are orders themselves, it is not the turn of the oldest item but
	// of its level.
	nested bool
}

type rankedInt struct {
	item, priority int
	added, ranked  int // when it was queued, and when it came to its level
}

func (m *naiveOrder) find(item int) int {
	return slices.IndexFunc(m.items, func(r rankedInt) bool { return r.item == item })
}

func (m *naiveOrder) push(item, priority int) {
	m.clock++
	m.items = append(m.items, rankedInt{item, priority, m.clock, m.clock})
}

func (m *naiveOrder) touch(item, priority int) {
	m.clock++
	if r := &m.items[m.find(item)]; r.priority < priority {
		r.priority, r.ranked = priority, m.clock
	}
}

func (m *naiveOrder) remove(item int) { m.items = slices.Delete(m.items, m.find(item), m.find(item)+1) }

// sorted returns the items in the order of the levels.
func (m *naiveOrder) sorted() []rankedInt {
	items := slices.Clone(m.items)
	slices.SortFunc(items, func(a, b rankedInt) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.ranked, b.ranked))
	})
	return items
}

func (m *naiveOrder) pop() (item, priority int) {
	next := m.sorted()[0]
	oldest := slices.MinFunc(m.items, func(a, b rankedInt) int { return cmp.Compare(a.added, b.added) })
	if m.nested {
		oldest = m.sorted()[slices.IndexFunc(m.sorted(), func(r rankedInt) bool { return r.priority == oldest.priority })]
	}
	if m.since++; m.every > 0 && m.since >= m.every {
		next = oldest
	}
	if next == oldest {
		m.since = 0
	}
	m.remove(next.item)
	return next.item, next.priority
}

// TestModelPriorities and FuzzPriorities play random calls on the order as a Queue by itself.
func TestModelPriorities(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	for range rounds(scripts()) { // The naive order sorts at each step.
		playPriorities(t, randomScript(rnd, 400))
		playNested(t, randomScript(rnd, 400))
	}
}

func FuzzPriorities(f *testing.F) {
	f.Fuzz(func(t *testing.T, script []byte) {
		t.Parallel()
		playPriorities(t, script)
		playNested(t, script)
	})
}

// playNested plays on an order whose levels are orders, which are FIFOs here. No item
// comes twice: it would come back to where it was in a level that it was raised from.
func playNested(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	m := &naiveOrder{every: []int{0, 1, 2, 7}[script[0]%4], nested: true}
	levels := []int{1, 3, 25, 250}[script[0]/4%4]
	q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{
		OldestEvery: m.every, Within: workqueue.DefaultQueue[int],
	}).(workqueue.PrioritizedQueue[int])
	for i := 1; i+1 < len(script); i += opSize {
		op, arg := script[i], int(script[i+1])
		p := (int(op)*7+arg)%levels - levels/2
		var call string
		switch {
		case op%4 < 2:
			call = stepPriorities(q, m, 1000+i, p)
		case len(m.items) == 0:
		case op%4 == 2:
			call = stepPriorities(q, m, m.items[arg%len(m.items)].item, p)
		default:
			wantItem, wantPriority := m.pop()
			gotItem, gotPriority := q.PopWithPriority()
			call = same("Pop", fmt.Sprint(gotItem, gotPriority), fmt.Sprint(wantItem, wantPriority))
		}
		if q.Len() != len(m.items) || len(call) > len(mismatch) && call[:len(mismatch)] == mismatch {
			t.Fatalf("step %d: %s: %d items, want %d", i/opSize, call, q.Len(), len(m.items))
		}
		checkInvariants(t, i/opSize, q)
	}
}

// newOrder returns an order and its model. Few priorities make long levels, many make
// more than are kept when they are empty.
func newOrder(kind byte) (q workqueue.PrioritizedQueue[int], m *naiveOrder, levels int) {
	m = &naiveOrder{every: []int{0, 1, 2, 7}[kind%4]}
	levels = []int{1, 3, 25, 250}[kind/4%4]
	options := workqueue.PriorityOptions[int]{OldestEvery: m.every}
	return workqueue.NewPriorityQueue(options).(workqueue.PrioritizedQueue[int]), m, levels
}

func playPriorities(t *testing.T, script []byte) {
	if len(script) == 0 {
		return
	}
	q, m, levels := newOrder(script[0])
	for i := 1; i+1 < len(script); i += opSize {
		op, item := script[i], int(script[i+1])
		p := (int(op)*7 + item) % levels
		var call string
		switch op % 4 {
		case 0, 1:
			call = stepPriorities(q, m, item, p-levels/2)
		case 2:
			if len(m.items) > 0 {
				wantItem, wantPriority := m.pop()
				gotItem, gotPriority := q.PopWithPriority()
				call = same("Pop", fmt.Sprint(gotItem, gotPriority), fmt.Sprint(wantItem, wantPriority))
			}
		case 3:
			for j := 0; j < item && op > 200; j++ {
				call = stepPriorities(q, m, 256+j, j%levels-levels/2)
			}
			for ; op < 20 && len(m.items) > 0; m.pop() {
				q.Pop()
			}
		}
		if q.Len() != len(m.items) || len(call) > len(mismatch) && call[:len(mismatch)] == mismatch {
			t.Fatalf("step %d: %s: %d items, want %d", i/opSize, call, q.Len(), len(m.items))
		}
		checkInvariants(t, i/opSize, q.(interface{ CheckInvariants() error }))
	}
}

// stepPriorities adds an item to both.
func stepPriorities(q workqueue.PrioritizedQueue[int], m *naiveOrder, item, priority int) string {
	if m.find(item) < 0 {
		q.PushWithPriority(item, priority)
		m.push(item, priority)
		return fmt.Sprint("Push ", item, priority)
	}
	q.TouchWithPriority(item, priority)
	m.touch(item, priority)
	return fmt.Sprint("Touch ", item, priority)
}

// orderOf chooses an order for a Typed, which keeps it itself or calls it through the
// interface, and a model.
func orderOf(kind byte) (workqueue.Queue[int], *naive) {
	q, order, _ := newOrder(kind)
	m := &naive{order: order, priorities: make(map[int]int)}
	if kind&64 != 0 {
		m.stored = true
		return struct {
			workqueue.PrioritizedQueue[int]
		}{q}, m
	}
	return q, m
}

// comparePriorities compares the order of what is queued, and the priorities of it and
// of what is held. A queue knows neither of what lies in a storage.
func comparePriorities(t *testing.T, step int, call string, q *workqueue.Typed[int], m *naive) {
	t.Helper()
	if m.order == nil {
		return
	}
	var got, want []string
	s := q.Snapshot(1000)
	for _, info := range s.Queued {
		if !m.stored {
			got = append(got, fmt.Sprint(info.Item, "@", info.Priority, " at ", info.Position))
		}
	}
	for place, r := range m.order.upcoming() {
		if !m.stored {
			want = append(want, fmt.Sprint(r.item, "@", r.priority, " at ", place+1))
		}
	}
	var held []string
	for _, info := range s.InFlight {
		held = append(held, fmt.Sprint(info.Item, "@", info.Priority))
	}
	var wantHeld []string
	for _, item := range m.held {
		wantHeld = append(wantHeld, fmt.Sprint(item, "@", m.priorities[item]))
	}
	slices.Sort(held)
	slices.Sort(wantHeld)
	if got, want := fmt.Sprint(got, held), fmt.Sprint(want, wantHeld); got != want {
		t.Fatalf("step %d: %s: queued and held:\ngot  %s\nwant %s", step, call, got, want)
	}
}

// upcoming returns the items in the order in which they will be handed out.
func (m *naiveOrder) upcoming() (items []rankedInt) {
	then := *m
	then.items = slices.Clone(m.items)
	for len(then.items) > 0 {
		item, _ := then.pop()
		items = append(items, m.items[m.find(item)])
	}
	return items
}
