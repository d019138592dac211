package attack

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// A seat is where an item is queued, or what lane it was handed out from.
type seat struct {
	priority int
	group    string
	seq      int // in the lane
}

// A hall is a Typed with groups whose names, weights and limits change, and a latency that
// panics now and then, which puts the item back. The model says which items may come next.
type hall struct {
	t      *testing.T
	rnd    *rand.Rand
	queue  *workqueue.Typed[int]
	order  workqueue.Order[int]
	mood   int
	limits [3]int

	queued map[int]seat
	held   map[int]seat
	again  map[int]seat
	said   map[string]int // the limit of a group, by its last add
	first  int            // falls with each item that is put back
	last   int

	taken int // by the hand-out that is observed, or -1
	log   []string
}

// TestGroups has groups whose names, weights and limits change from add to add, and hand-outs
// that are taken back. An item comes if and only if its group is not full, the first of its
// priority and group comes first, and no count of what is in flight is ever wrong.
func TestGroups(t *testing.T) {
	play(t, 150, func(t *testing.T, rnd *rand.Rand) int {
		h := newHall(t, rnd)
		calls := 300
		for range calls {
			h.step()
			if t.Failed() {
				t.Log(strings.Join(h.log[max(0, len(h.log)-40):], "\n"))
				return calls
			}
		}
		h.finish()
		if t.Failed() {
			t.Log(strings.Join(h.log[max(0, len(h.log)-40):], "\n"))
		}
		return calls
	})
}

// observer is a histogram that calls a function.
type observer func()

func (o observer) Observe(float64) { o() }

type watching struct {
	workqueue.NoMetrics
	latency observer
}

func (w watching) NewLatencyMetric(string) workqueue.HistogramMetric { return w.latency }

func newHall(t *testing.T, rnd *rand.Rand) *hall {
	h := &hall{
		t: t, rnd: rnd, queued: map[int]seat{}, held: map[int]seat{}, again: map[int]seat{}, said: map[string]int{},
	}
	h.order = workqueue.Order[int]{
		Group:       func(item int) string { return []string{"", "g", "h"}[(item+h.mood)%3] },
		Weight:      func(string) int { return 1 + rnd.IntN(3) },
		MaxInFlight: func(group string) int { return h.limits[int((group + "f")[0])%3] },
		GroupsFirst: rnd.IntN(2) == 0,
		OldestEvery: rnd.IntN(3),
	}
	config := workqueue.TypedQueueConfig[int]{Order: h.order}
	if rnd.IntN(2) == 0 {
		config.Name, config.MetricsProvider = "hall", watching{latency: h.observe}
	}
	h.queue = workqueue.NewTypedWithConfig(config)
	return h
}

func (h *hall) note(format string, arguments ...any) {
	h.log = append(h.log, fmt.Sprintf(format, arguments...))
}

func (h *hall) full(group string) bool {
	n := 0
	for _, s := range h.held {
		if s.group == group {
			n++
		}
	}
	return h.said[group] > 0 && n >= h.said[group]
}

func (h *hall) add(item, priority int) {
	h.note("add %d at %d, group %q of %d", item, priority, h.order.Group(item), h.order.MaxInFlight(h.order.Group(item)))
	h.queue.AddWith(workqueue.AddOptions{Priority: &priority}, item)
	if h.queue.ShuttingDown() {
		return
	}
	s := seat{priority, h.order.Group(item), 0}
	h.said[s.group] = h.order.MaxInFlight(s.group)
	at, queued := h.queued[item]
	again, marked := h.again[item]
	_, held := h.held[item]
	h.last++
	s.seq = h.last
	switch {
	case queued && priority > at.priority:
		h.queued[item] = seat{priority, at.group, s.seq}
	case queued:
	case marked:
		s.priority = max(priority, again.priority)
		h.again[item] = s
	case held:
		h.again[item] = s
	default:
		h.queued[item] = s
	}
}

// comes checks a hand-out.
func (h *hall) comes(item int) {
	at, ok := h.queued[item]
	if !ok || h.full(at.group) {
		h.t.Errorf("%d has come: %v", item, at)
	}
	for other, s := range h.queued {
		switch {
		case s.group == at.group && s.priority == at.priority && s.seq < at.seq:
			h.t.Errorf("%d has come before %d of the same lane", item, other)
		case s.priority > at.priority && !h.full(s.group) && h.order.OldestEvery == 0 && (!h.order.GroupsFirst || s.group == at.group):
			h.t.Errorf("%d has come before %d, which has a higher priority", item, other)
		}
	}
	delete(h.queued, item)
	h.held[item] = at
}

// observe is the latency. The item is in flight, and nobody has it yet.
func (h *hall) observe() {
	for _, info := range h.queue.Snapshot(-1).InFlight {
		if _, known := h.held[info.Item]; !known {
			h.taken = info.Item
			h.comes(info.Item)
		}
	}
	if h.rnd.IntN(3) == 0 {
		h.change()
		h.add(h.taken, h.rnd.IntN(4))
	}
	if h.rnd.IntN(3) > 0 {
		return
	}
	s := h.held[h.taken]
	delete(h.held, h.taken)
	if again, ok := h.again[h.taken]; ok {
		delete(h.again, h.taken)
		if again.priority > s.priority {
			s = again
		}
	}
	h.first--
	s.seq = h.first
	h.queued[h.taken] = s
	h.note("put back %d", h.taken)
	panic("latency")
}

func (h *hall) change() {
	switch h.rnd.IntN(6) {
	case 0:
		h.mood++
	case 1:
		h.limits[h.rnd.IntN(3)] = h.rnd.IntN(4)
	}
}

func (h *hall) get() (ok bool) {
	h.taken = -1
	possible := slices.ContainsFunc(items(h.queued), func(item int) bool { return !h.full(h.queued[item].group) })
	var item int
	panicked := true
	caught(func() {
		item, ok = h.queue.TryGet()
		panicked = false
	})
	if panicked {
		return true
	}
	h.note("get %d %v", item, ok)
	if ok != possible {
		h.t.Errorf("an item comes: %v, want %v", ok, possible)
	}
	switch {
	case !ok:
	case h.taken >= 0:
		if item != h.taken {
			h.t.Errorf("got %d, but %d was observed", item, h.taken)
		}
	default:
		h.comes(item)
	}
	return ok
}

func (h *hall) done(item int) {
	h.note("done %d", item)
	h.queue.Done(item)
	if _, held := h.held[item]; !held {
		return
	}
	delete(h.held, item)
	if again, ok := h.again[item]; ok {
		delete(h.again, item)
		h.last++
		again.seq = h.last
		h.queued[item] = again
	}
}

func (h *hall) step() {
	item := h.rnd.IntN(12)
	h.change()
	switch h.rnd.IntN(8) {
	case 0, 1, 2:
		h.add(item, h.rnd.IntN(4))
	case 3, 4:
		h.get()
	case 5, 6:
		h.done(item)
	case 7:
		if h.rnd.IntN(2) == 0 {
			h.note("remove %d", item)
			h.queue.Remove(item)
			delete(h.queued, item)
			delete(h.again, item)
		}
	}
	s := h.queue.Snapshot(-1)
	if s.QueuedTotal != len(h.queued) || s.InFlightTotal != len(h.held) {
		h.t.Errorf("%v, want %d queued, %d in flight", s, len(h.queued), len(h.held))
	}
	for _, info := range s.Queued {
		if at, ok := h.queued[info.Item]; !ok || at.priority != info.Priority {
			h.t.Errorf("%+v is queued, want %v", info, at)
		}
	}
}

// finish shuts the queue down and works it off.
func (h *hall) finish() {
	h.queue.ShutDown()
	for n := 0; len(h.queued)+len(h.held) > 0 && !h.t.Failed(); n++ {
		if !h.get() && len(h.held) == 0 || n > 10_000 {
			h.t.Fatalf("stuck with %v", h.queue.Snapshot(-1))
		}
		for _, item := range items(h.held) {
			h.done(item)
		}
	}
	call(h.t, "a drain", h.queue.ShutDownWithDrain)
}

func items(m map[int]seat) (items []int) {
	for item := range m {
		items = append(items, item)
	}
	slices.Sort(items)
	return items
}
