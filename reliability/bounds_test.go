package reliability

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// A race is a queue with a random Order. It counts, for each queued item, the items that came before
// the item. The first group has no limit.
type race struct {
	t           *testing.T
	rnd         *rand.Rand
	queue       *workqueue.Typed[int]
	every       int
	groupsFirst bool
	weights     []int
	limits      []int
	queued      map[int]*runner
	held        []int
	next        int
	reached     map[string]bool
}

// A runner is an item since it was added, or raised.
type runner struct {
	priority  int
	ahead     int // queued items
	ownAhead  int // queued items of its own group
	overtaken int
	by        []int // the same by group
}

// The bounds in docs/ordering.md hold for random adds, raises and hand-outs, and each bound is reached.
func TestBoundsOfTheOrder(t *testing.T) {
	const histories = 30_000
	reached := map[string]bool{}
	for seed := range histories {
		r := newRace(t, rand.New(rand.NewPCG(uint64(seed), 8)), reached)
		for range 120 {
			r.step()
		}
		r.queue.ShutDown()
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
	for _, bound := range []string{"oldest", "oldest of a group", "turns", "interrupted turns"} {
		if !reached[bound] {
			t.Errorf("the bound %q is not reached in %d histories", bound, histories)
		}
	}
}

func newRace(t *testing.T, rnd *rand.Rand, reached map[string]bool) *race {
	r := &race{
		t: t, rnd: rnd, reached: reached, queued: map[int]*runner{},
		every: rnd.IntN(4), groupsFirst: rnd.IntN(2) == 0,
	}
	limited, often := rnd.IntN(2) == 0, rnd.IntN(2) == 0
	if limited && often { // Turns are interrupted more often.
		r.every = 0
	}
	for g := range 2 + rnd.IntN(2) {
		r.weights = append(r.weights, 1+rnd.IntN(3))
		r.limits = append(r.limits, 0)
		switch {
		case g == 0 || !limited:
		case often:
			r.weights[g], r.limits[g] = 2, 1
		default:
			r.limits[g] = 1 + rnd.IntN(3)
		}
	}
	r.queue = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: workqueue.Order[int]{
		OldestEvery: r.every,
		GroupsFirst: r.groupsFirst,
		Group:       func(item int) string { return strings.Repeat("g", r.group(item)) },
		Weight:      func(group string) int { return r.weights[len(group)] },
		MaxInFlight: func(group string) int { return r.limits[len(group)] },
	}})
	return r
}

func (r *race) group(item int) int { return item % len(r.weights) }

func (r *race) step() {
	switch r.rnd.IntN(6) {
	case 0, 1:
		r.add(r.next)
		r.next += 1 + r.rnd.IntN(len(r.weights))
	case 2:
		if item := r.rnd.IntN(r.next + 1); r.queued[item] != nil {
			r.add(item)
		}
	case 3, 4:
		if item, ok := r.queue.TryGet(); ok {
			r.comes(item)
			r.held = append(r.held, item)
		}
	case 5:
		if n := len(r.held); n > 0 {
			at := r.rnd.IntN(n)
			r.queue.Done(r.held[at])
			r.held[at] = r.held[n-1]
			r.held = r.held[:n-1]
		}
	}
}

// add names priorities only where the oldest item has its turns: without them, an item of a
// low priority waits as long as items of higher ones come.
func (r *race) add(item int) {
	priority := 0
	if r.every > 0 {
		priority = r.rnd.IntN(4)
	}
	r.queue.AddWith(workqueue.AddOptions{Priority: &priority}, item)
	if was := r.queued[item]; was != nil && was.priority >= priority {
		return
	}
	delete(r.queued, item)
	one := &runner{priority: priority, ahead: len(r.queued), by: make([]int, len(r.weights))}
	for other := range r.queued {
		if r.group(other) == r.group(item) {
			one.ownAhead++
		}
	}
	r.queued[item] = one
}

// comes checks an item that is handed out, unless a limit of its own may have kept it.
func (r *race) comes(item int) {
	one, g := r.queued[item], r.group(item)
	delete(r.queued, item)
	for _, other := range r.queued {
		other.overtaken++
		other.by[g]++
	}
	if r.limits[g] > 0 {
		return
	}
	own := one.ownAhead
	switch {
	case r.every > 0 && !r.groupsFirst:
		r.atMost("oldest", one.overtaken, r.every*(one.ahead+1)-1)
		return
	case r.every > 0:
		own = r.every*(own+1) - 1
		r.atMost("oldest of a group", one.by[g], own)
	}
	for h, n := range one.by {
		most := (own/r.weights[g] + 1) * r.weights[h]
		switch {
		case h == g:
		case r.limits[h] > 0 && r.weights[h] > 1:
			r.atMost("interrupted turns", n, most+r.weights[h]-1)
		default:
			r.atMost("turns", n, most)
		}
	}
}

func (r *race) atMost(bound string, got, most int) {
	if got > most {
		r.t.Errorf("%s: %d items came before one, want %d at most: OldestEvery %d, GroupsFirst %v, weights %v, limits %v",
			bound, got, most, r.every, r.groupsFirst, r.weights, r.limits)
	}
	if got == most && most > 1 {
		r.reached[bound] = true
	}
}
