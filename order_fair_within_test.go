package workqueue_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// byWord groups "a/b/1" by the word at a place.
func byWord(place int) func(string) string {
	return func(key string) string { return strings.Split(key, "/")[place] }
}

// Fair queues within a fair queue: tenants take turns, and their users within them. An
// item of a user at its limit holds up nobody else.
func TestFairWithinFair(t *testing.T) {
	q := workqueue.NewFairQueue(workqueue.FairOptions[string, string]{
		Group: byWord(0),
		Within: func() workqueue.Queue[string] {
			return workqueue.NewFairQueue(workqueue.FairOptions[string, string]{
				Group: byWord(1), MaxInFlight: func(string) int { return 1 },
			})
		},
	}).(workqueue.HoldingQueue[string])
	pushAll(q, strings.Fields("a/x/1 a/x/2 a/y/1 b/x/1 b/x/2")...)
	if got := strings.Join(popAll[string](q), " "); got != "a/x/1 b/x/1 a/y/1" || q.Len() != 2 {
		t.Errorf("got %s, %d left", got, q.Len())
	}
	q.Done("a/y/1")
	if q.Ready() {
		t.Error("it is ready, with a slot free that nobody waits for")
	}
	q.Done("b/x/1")
	if got := strings.Join(popAll[string](q), " "); got != "b/x/2" {
		t.Errorf("got %s, want b/x/2", got)
	}
	q.Done("a/x/1")
	checkInvariants(t, 0, q)
	if got := strings.Join(popAll[string](q), " "); got != "a/x/2" || q.Len() != 0 {
		t.Errorf("got %s, want a/x/2", got)
	}
}

// Limits that are within are not asked for by a caller without Done either.
func TestFairWithinFairForACallerWithoutDone(t *testing.T) {
	q := workqueue.NewFairQueue(workqueue.FairOptions[string, string]{
		Group: byWord(0),
		Within: func() workqueue.Queue[string] {
			return newFair(nil, map[string]int{"a": 1})
		},
	})
	for range 10 {
		pushAll(q, "a/1", "a/2", "a/3")
		for range 3 {
			q.Pop()
		}
	}
	if _, owners, _ := q.(fairRoom).FairRoom(); q.Len() != 0 || owners > 3 {
		t.Errorf("%d left, memory for %d items", q.Len(), owners)
	}
}

// A moody queue fails when it is told to, before or after it has done what it was
// called for, and says that it is not ready when it is told to.
type moody struct {
	pile
	fails  *string // the method, with ! behind it for after
	end    *func()
	frozen bool
}

func (m *moody) fail(call string) {
	if *m.fails == call {
		(*m.end)()
	}
}

func (m *moody) Push(item int) {
	m.fail("push")
	m.pile.Push(item)
	m.fail("push!")
}

func (m *moody) TouchWithPriority(item, priority int) {
	m.fail("touch")
	m.pile.TouchWithPriority(item, priority)
	m.fail("touch!")
}

func (m *moody) PopWithPriority() (item, priority int) {
	m.fail("pop")
	item, priority = m.pile.PopWithPriority()
	m.fail("pop!")
	return item, priority
}

func (m *moody) Len() int {
	m.fail("len")
	return m.pile.Len()
}

func (m *moody) Ready() bool {
	m.fail("ready")
	return m.pile.Len() > 0 && !m.frozen
}

func (m *moody) Done(int) { m.fail("done") }

// A queue within that does not return from a call does not stop the others, nor itself
// from then on: the counts are right again with the next call.
func TestQueueWithinThatDoesNotReturn(t *testing.T) {
	for how, end := range map[string]func(){"panic": func() { panic("within") }, "Goexit": runtime.Goexit} {
		for _, method := range []string{"push", "push!", "touch", "touch!", "pop", "pop!", "len", "ready", "done"} {
			fails := ""
			q := workqueue.NewFairQueue(workqueue.FairOptions[int, int]{
				Group:       func(item int) int { return item / 10 },
				MaxInFlight: func(int) int { return 2 },
				Within:      func() workqueue.Queue[int] { return &moody{fails: &fails, end: &end} },
			})
			p, h := q.(workqueue.PrioritizedQueue[int]), q.(workqueue.HoldingQueue[int])
			pushAll(q, 11, 12, 13, 21, 22)
			h.Ready()
			q.Pop()
			for _, call := range []func(){
				func() { q.Push(14) }, func() { p.TouchWithPriority(13, 1) }, func() { q.Pop() }, func() { h.Done(11) },
			} {
				fails = method
				goes(call)
				fails = ""
				q.Len()
				if err := q.(interface{ CheckCounts() error }).CheckCounts(); err != nil {
					t.Errorf("%s in %s: %v", how, method, err)
				}
			}
			got := map[int]bool{}
			for q.Len() > 0 {
				item := q.Pop()
				got[item] = true
				h.Done(item)
			}
			missing := 0
			for _, item := range []int{12, 13, 21, 22} {
				if !got[item] {
					missing++
				}
			}
			// What the queue within has popped and not returned is lost there.
			if method != "pop!" && missing > 1 || missing > 2 {
				t.Errorf("%s in %s: got %v", how, method, got)
			}
		}
	}
}

// A queue within that is not ready is passed over until it is.
func TestQueueWithinThatIsNotReady(t *testing.T) {
	fails, end := "", func() {}
	var withins []*moody
	q := workqueue.NewFairQueue(workqueue.FairOptions[int, int]{
		Group: func(item int) int { return item / 10 },
		Within: func() workqueue.Queue[int] {
			withins = append(withins, &moody{fails: &fails, end: &end})
			return withins[len(withins)-1]
		},
	}).(workqueue.HoldingQueue[int])
	pushAll(q, 11, 12, 21)
	withins[0].frozen = true
	if got := fmt.Sprint(popAll[int](q)); got != "[21]" || q.Len() != 2 {
		t.Errorf("got %s, want 21 of the group that is ready", got)
	}
	withins[0].frozen = false
	q.Push(13) // A call of its own tells.
	if got := fmt.Sprint(popAll[int](q)); got != "[11 12 13]" {
		t.Errorf("got %s, want [11 12 13]", got)
	}
}

// A queue within that has taken an item, or has lost one, and panicked: the queue hands
// out each item that it knows once, and takes new ones.
func TestQueueWithinThatFailsBelowATyped(t *testing.T) {
	for _, method := range []string{"push", "push!", "pop!", "len", "ready", "done"} {
		fails, end := "", func() { panic("within") }
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Queue: workqueue.NewFairQueue(workqueue.FairOptions[int, int]{
			Group:       func(item int) int { return item / 10 },
			MaxInFlight: func(int) int { return 1 },
			Within:      func() workqueue.Queue[int] { return &moody{fails: &fails, end: &end} },
		})})
		q.AddAll(11, 21)
		fails = method
		goes(func() { q.Add(12) })
		goes(func() {
			if item, ok := q.TryGet(); ok {
				q.Done(item)
			}
		})
		fails = ""
		checkInvariants(t, 0, q)
		known := map[int]bool{}
		for _, round := range []string{"then", "and again"} {
			seen := map[int]bool{}
			for _, item := range takeAll(q) {
				if seen[item] {
					t.Errorf("%s, %s: %d comes twice", method, round, item)
				}
				seen[item], known[item] = true, true
			}
			if round != "then" && len(seen) != 3 {
				t.Errorf("%s, %s: got %v", method, round, seen)
			}
			q.AddAll(31, 21, 22)
		}
		// One was handed out while it failed.
		if lost := map[string]int{"pop!": 1}[method]; len(known)+1+lost < 5 {
			t.Errorf("%s: got only %v", method, known)
		}
		checkInvariants(t, 1, q)
	}
}

// Fair queues within priorities: the higher priority first, and its tenants in turn. A
// limit is one of each priority.
func TestFairQueueWithinPriorities(t *testing.T) {
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{
		Within: func() workqueue.Queue[string] { return newFair(nil, map[string]int{"a": 1}) },
	})})
	defer q.ShutDown()
	q.AddAll("a/1", "a/2", "b/1")
	q.AddWith(workqueue.AddOptions{Priority: 1}, "a/3", "a/4", "b/2")
	if got, want := strings.Join(queuedOf(q, 10), " "), "a/3 b/2 a/4 a/1 b/1 a/2"; got != want {
		t.Errorf("a Snapshot lists %s, want %s", got, want)
	}
	var got []string
	for item, ok := q.TryGet(); ok; item, ok = q.TryGet() {
		got = append(got, item)
	}
	if want := "a/3 b/2 a/1 b/1"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, item := range got {
		q.Done(item)
	}
	if got := strings.Join(takeAll(q), " "); got != "a/4 a/2" {
		t.Errorf("got %s, want a/4 a/2", got)
	}
}

// A queue within is told of each Touch of what it has, and of nothing else.
func TestQueueWithinAGroupIsTouched(t *testing.T) {
	var withins []*shelf[int]
	q := workqueue.NewFairQueue(workqueue.FairOptions[int, int]{
		Group: func(item int) int { return item / 10 },
		Within: func() workqueue.Queue[int] {
			withins = append(withins, &shelf[int]{})
			return withins[len(withins)-1]
		},
	})
	pushAll(q, 11, 12, 13)
	q.Touch(11) // It goes to the top.
	q.Touch(99)
	first := q.Pop()
	q.Touch(first)
	if got := append([]int{first}, popAll(q)...); fmt.Sprint(got) != "[11 13 12]" {
		t.Errorf("got %v, want [11 13 12]", got)
	}
	if got, want := fmt.Sprint(withins[0].calls), "[push[11] push[12] push[13] touch[11] pop[] pop[] pop[]]"; got != want {
		t.Errorf("got the calls %s, want %s", got, want)
	}
}

// A plain Push and Touch of a fair queue are those of the order within, which may give a
// priority to them. A priority that is named takes its place.
func TestPriorityWithinAGroup(t *testing.T) {
	boost := 0
	q := workqueue.NewFairQueue(workqueue.FairOptions[int, int]{
		Group: func(int) int { return 0 },
		Within: func() workqueue.Queue[int] {
			return workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Of: func(item int) int { return item + boost }})
		},
	}).(workqueue.PrioritizedQueue[int])
	pushAll[int](q, 1, 3, 2)
	q.PushWithPriority(4, -1)
	q.TouchWithPriority(2, 9)
	boost = 5
	q.Touch(1)
	if got, want := popRanked(q), "2@9 1@6 3@3 4@-1 "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A Snapshot with a limit has the first items of all that there are, in the turns of the
// groups, and behind them in those of groups at their limits.
func TestSnapshotOfTheFirstInTurns(t *testing.T) {
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Order: newFair(map[string]int{"a": 2}, map[string]int{"c": 1, "d": 1}),
	})
	defer q.ShutDown()
	for _, tenant := range []string{"a", "b", "c", "d"} {
		q.AddAll(keysOf(tenant, 4)...)
	}
	for range 6 {
		q.TryGet()
	}
	all := q.Snapshot(100).Queued
	if len(all) != 10 {
		t.Fatalf("got %d items, want 10", len(all))
	}
	for limit := range 12 {
		some := q.Snapshot(limit).Queued
		if len(some) != min(limit, len(all)) {
			t.Errorf("limit %d: got %d items", limit, len(some))
		}
		for i, info := range some {
			if info.Item != all[i].Item {
				t.Errorf("limit %d: got %s at %d, want %s", limit, info.Item, i, all[i].Item)
			}
		}
	}
}

// A sulky queue is a moody one with a fault of its own. It writes down each Touch, which
// makes it ready if woken says so.
type sulky struct {
	moody
	fault string
	calls []string
	woken bool
}

func (n *sulky) Touch(item int) {
	n.calls = append(n.calls, fmt.Sprint("touch ", item))
	n.frozen = n.frozen && !n.woken
	n.fail("touch!")
}

// newSulky returns a fair queue of tens, with a limit for each, and a function that
// returns the queues within, in the order in which they were made.
func newSulky(limit int) (q workqueue.HoldingQueue[int], within func(at int) *sulky) {
	var made []*sulky
	end := func() { panic("within") }
	q = workqueue.NewFairQueue(workqueue.FairOptions[int, int]{
		Group:       func(item int) int { return item / 10 },
		MaxInFlight: func(int) int { return limit },
		Within: func() workqueue.Queue[int] {
			n := &sulky{}
			n.fails, n.end = &n.fault, &end
			made = append(made, n)
			return n
		},
	}).(workqueue.HoldingQueue[int])
	return q, func(at int) *sulky { return made[at] }
}

// A group whose queue has failed is settled by the next call, whichever that is, and
// whichever group it is about.
func TestCallForAnotherGroupSettlesTheOneThatHasFailed(t *testing.T) {
	for name, test := range map[string]struct {
		call func(q workqueue.HoldingQueue[int])
		want int
	}{
		"Push":  {func(q workqueue.HoldingQueue[int]) { q.Push(23) }, 5},
		"Touch": {func(q workqueue.HoldingQueue[int]) { q.Touch(22) }, 4},
		"Pop":   {func(q workqueue.HoldingQueue[int]) { q.Pop() }, 3},
		"Done":  {func(q workqueue.HoldingQueue[int]) { q.Done(21) }, 4},
	} {
		q, within := newSulky(2)
		q.Ready()
		pushAll[int](q, 11, 13, 21, 22, 31)
		if first, second := q.Pop(), q.Pop(); first != 11 || second != 21 {
			t.Fatalf("%s: got %d and %d, want 11 and 21", name, first, second)
		}
		within(0).fault = "push!"
		if goes(func() { q.Push(12) }) == nil {
			t.Fatalf("%s: the Push has not failed", name)
		}
		within(0).fault = ""
		test.call(q)
		if got := q.Len(); got != test.want {
			t.Errorf("%s: %d items, want %d: 12 is in its queue", name, got, test.want)
		}
	}
	q, within := newSulky(1)
	q.Ready()
	pushAll[int](q, 11, 12)
	q.Pop()
	within(0).fault = "done"
	if goes(func() { q.Done(11) }); !q.Ready() {
		t.Error("it is not ready: the slot of 11 is free, although its queue failed to hear of it")
	}
}

// A new group whose queue fails when it has taken the first item is known all the same.
func TestFirstItemOfAGroupWhoseLenFails(t *testing.T) {
	q, within := newSulky(0)
	within(0).fault = "len"
	if goes(func() { q.Push(11) }) == nil {
		t.Fatal("the Push has not failed")
	}
	within(0).fault = ""
	if n := q.Len(); n != 1 || q.Pop() != 11 {
		t.Errorf("%d items, want 11", n)
	}
}

// A queue within that fails each time fails in calls for its own group, and once in a
// call of somebody else.
func TestQueueWithinThatFailsForEverStopsNobodyElse(t *testing.T) {
	q, within := newSulky(0)
	pushAll[int](q, 11, 21)
	within(0).fault = "len"
	failures := 0
	for _, call := range []func(){
		func() { q.Push(12) }, func() { q.Len() }, func() { q.Len() }, func() { q.Push(22) }, func() { q.Touch(21) }, func() { q.Ready() },
	} {
		if goes(call) != nil {
			failures++
		}
	}
	if n := within(1).pile.Len(); failures != 3 || n != 2 { // The first Ready asks all groups.
		t.Errorf("%d calls failed, want 3; the other group has %d items, want 2", failures, n)
	}
}

// A group whose queue cannot be settled after a hand-out, nor in the next call, has its
// turn all the same.
func TestGroupThatCannotBeSettledKeepsItsTurn(t *testing.T) {
	q, within := newSulky(0)
	pushAll[int](q, 11, 12, 21)
	within(0).fault = "len"
	if goes(func() { q.Pop() }) == nil || goes(func() { q.Len() }) == nil {
		t.Fatal("the calls have not failed")
	}
	within(0).fault = ""
	if first, second := q.Pop(), q.Pop(); first != 21 || second != 12 {
		t.Errorf("got %d and %d, want 21 and 12", first, second)
	}
}

// A queue within that has lost an item hears no more of it, and is not used for another
// group, which would hear of it.
func TestQueueWithinThatHasLostAnItemIsDropped(t *testing.T) {
	q, within := newSulky(0)
	q.Push(11)
	within(0).fault = "pop!"
	goes(func() { q.Pop() })
	within(0).fault = ""
	q.Push(21)
	q.Touch(11)
	if n := within(1).Len(); n != 1 || len(within(0).calls)+len(within(1).calls) != 0 {
		t.Errorf("the new queue has %d items; they were told %v and %v", n, within(0).calls, within(1).calls)
	}
}

// A Touch of what is held is not passed on.
func TestQueueWithinIsNotToldOfATouchOfWhatIsHeld(t *testing.T) {
	q, within := newSulky(0)
	q.Ready()
	pushAll[int](q, 11, 12)
	q.Touch(q.Pop())
	if calls := within(0).calls; len(calls) != 0 {
		t.Errorf("it was told %v", calls)
	}
}

// A Touch may make a queue within ready, also if it fails then.
func TestTouchThatMakesAQueueWithinReady(t *testing.T) {
	for _, fault := range []string{"", "touch!"} {
		q, within := newSulky(0)
		within(0).frozen, within(0).woken = true, true
		q.Push(11)
		if q.Ready() {
			t.Fatal("it is ready, with one queue that is not")
		}
		within(0).fault = fault
		if panicked := goes(func() { q.Touch(11) }); (panicked != nil) != (fault != "") {
			t.Errorf("fault %q: got the panic %v", fault, panicked)
		}
		if !q.Ready() {
			t.Errorf("fault %q: it is not ready", fault)
		}
	}
}

// Within may return queues of which only the first one knows priorities. The others are
// told of plain adds.
func TestWithinThatReturnsQueuesOfTwoKinds(t *testing.T) {
	made := 0
	second := &shelf[int]{}
	q := workqueue.NewFairQueue(workqueue.FairOptions[int, int]{
		Group: func(item int) int { return item / 10 },
		Within: func() workqueue.Queue[int] {
			if made++; made == 1 {
				return workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{})
			}
			return second
		},
	})
	p := q.(workqueue.PrioritizedQueue[int])
	p.PushWithPriority(11, 1)
	p.PushWithPriority(21, 2)
	p.TouchWithPriority(21, 3)
	got := ""
	for q.Len() > 0 {
		item, priority := p.PopWithPriority()
		got += fmt.Sprint(item, "@", priority, " ")
	}
	if got != "11@1 21@0 " || fmt.Sprint(second.calls) != "[push[21] touch[21] pop[]]" {
		t.Errorf("got %s, and the calls %s", got, second.calls)
	}
	ordered := false
	stored := newStored(workqueue.NewFairQueue(workqueue.FairOptions[string, string]{
		Group: byTenant,
		Within: func() workqueue.Queue[string] {
			if ordered = !ordered; ordered {
				return &shelf[string]{}
			}
			return workqueue.DefaultQueue[string]()
		},
	}))
	stored.AddAll("a/1", "b/1")
	if s := stored.Snapshot(10); len(s.Queued) != 2 || s.Queued[0].Position != 0 {
		t.Errorf("got %v, want two items in no order", s.Queued)
	}
}

// What is noted of items for the queues within goes with them: of each that was handed
// out to a caller without Done, and of those that differ from themselves from the start.
func TestFairQueueForgetsWhatIsWithinNoMore(t *testing.T) {
	q := workqueue.NewFairQueue(workqueue.FairOptions[float64, bool]{
		Group: func(item float64) bool { return item > 50 }, Within: workqueue.DefaultQueue[float64],
	})
	for item := range 100 {
		pushAll(q, float64(item), math.NaN())
		q.Pop()
		q.Pop()
	}
	if _, owners, _ := q.(fairRoom).FairRoom(); q.Len() != 0 || owners > 2 {
		t.Errorf("%d left, memory for %d items", q.Len(), owners)
	}
}

// A queue within is not asked whether it is ready for a caller that does not ask: it
// would keep account of what is handed out.
func TestQueueWithinIsNotAskedForACallerWithoutDone(t *testing.T) {
	q := workqueue.NewFairQueue(workqueue.FairOptions[string, string]{
		Group: byWord(0),
		Within: func() workqueue.Queue[string] {
			return workqueue.NewFairQueue(workqueue.FairOptions[string, string]{
				Group: byWord(1), MaxInFlight: func(string) int { return 1 },
			})
		},
	})
	pushAll(q, strings.Fields("a/x/1 a/x/2 b/x/1 b/y/1")...)
	var got []string
	for q.Len() > 0 {
		got = append(got, q.Pop())
	}
	if want := "a/x/1 b/x/1 a/x/2 b/y/1"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
