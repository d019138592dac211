package workqueue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

func TestFairLimits(t *testing.T) {
	q := newFair(map[string]int{"a": 3}, map[string]int{"a": 2}).(workqueue.HoldingQueue[string])
	pushAll(q, "a/1", "a/2", "a/3", "a/4", "b/1", "b/2")
	for i, step := range []struct {
		done, want string
		left       int
	}{
		{"", "a/1 a/2 b/1 b/2", 2}, // Two of a are held, which have one more item in their turn.
		{"b/1", "", 2},
		{"a/2", "a/3", 1},
		{"a/2", "", 1}, // It is no longer held.
		{"a/3", "a/4", 0},
		{"a/1", "", 0},
	} {
		if step.done != "" {
			q.Done(step.done)
		}
		got := strings.Join(popAll[string](q), " ")
		if got != step.want || q.Len() != step.left || q.Ready() {
			t.Errorf("step %d: got %q, %d left, ready %v; want %q, %d, false", i, got, q.Len(), q.Ready(), step.want, step.left)
		}
		checkInvariants(t, i, q)
	}
}

// A group that rests in the midst of its turn has the rest of it before others, and
// one whose turn was over comes behind them.
func TestGroupAtItsLimitKeepsItsTurn(t *testing.T) {
	for name, test := range map[string]struct {
		weight int
		want   string
	}{
		"turn begun": {2, "a/2 b/1 b/2 b/3"},
		"turn over":  {1, "b/1 b/2 a/2 b/3"},
	} {
		q := newFair(map[string]int{"a": test.weight, "b": 2}, map[string]int{"a": 1}).(workqueue.HoldingQueue[string])
		pushAll(q, "a/1", "a/2", "b/1", "b/2", "b/3")
		if q.Ready(); q.Pop() != "a/1" {
			t.Fatal("it is not the turn of a")
		}
		q.Done("a/1")
		if got := strings.Join(popAll[string](q), " "); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// The rest of a turn that was halted comes on top of a round, if it overtakes a group in
// the midst of its turn: b/4 has 2 of its own before it, so a turn of a, which is 3, and
// 2 more.
func TestRestOfAHaltedTurnComesOnTopOfARound(t *testing.T) {
	q := newFair(map[string]int{"a": 3, "b": 3}, map[string]int{"a": 1}).(workqueue.HoldingQueue[string])
	pushAll(q, keysOf("a", 7)...)
	pushAll(q, "b/1", "b/2", "b/3")
	q.Ready()
	halted := q.Pop()
	q.Pop() // b/1: the turn of b has begun.
	q.Push("b/4")
	q.Done(halted)
	var got []string
	for item := ""; item != "b/4"; q.Done(item) {
		item = q.Pop()
		got = append(got, item)
	}
	if got, want := strings.Join(got, " "), "a/1 a/2 b/2 b/3 a/3 a/4 a/5 b/4"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A caller that asks Len and Pop only, as client-go does, gets everything, in the order
// of the turns. Nothing is kept of what it will never say to be done.
func TestFairQueueForACallerWithoutDone(t *testing.T) {
	q := newFair(nil, map[string]int{"a": 1, "b": 1})
	for round := range 100 {
		pushAll(q, "a/1", "a/2", "b/1", "b/2")
		var got []string
		for q.Len() > 0 {
			got = append(got, q.Pop())
		}
		if want := "[a/1 b/1 a/2 b/2]"; fmt.Sprint(got) != want {
			t.Fatalf("round %d: got %s, want %s", round, got, want)
		}
	}
	if groups, owners, _ := q.(fairRoom).FairRoom(); groups > 2 || owners != 0 {
		t.Errorf("there is memory for %d groups and %d held items", groups, owners)
	}
}

// fairRoom is the keyhole of a fair queue.
type fairRoom interface {
	FairRoom() (groups, owners, spares int)
}

// One that asks Ready, and then pops in spite of the answer, gets an item too, of the
// groups in turn.
func TestPopOfAFairQueueThatIsNotReady(t *testing.T) {
	q := newFair(nil, map[string]int{"a": 1, "b": 1}).(workqueue.HoldingQueue[string])
	pushAll(q, "a/1", "a/2", "a/3", "b/1", "b/2")
	q.Ready()
	var got []string
	for q.Len() > 0 {
		got = append(got, q.Pop())
		checkInvariants(t, len(got), q)
	}
	if want := "[a/1 b/1 a/2 b/2 a/3]"; fmt.Sprint(got) != want || q.Ready() {
		t.Errorf("got %s, ready %v, want %s", got, q.Ready(), want)
	}
	if got := goes(func() { q.Pop() }); got != "workqueue: Pop of an empty Queue" {
		t.Errorf("Pop of an empty one: got the panic %v", got)
	}
}

// What is popped from a group at its limit, in spite of that, is not of its turn: it goes
// on with as much of that as it had left.
func TestPopOfAGroupAtItsLimitIsNoTurn(t *testing.T) {
	q := newFair(map[string]int{"a": 3}, map[string]int{"a": 1, "b": 1}).(workqueue.HoldingQueue[string])
	pushAll(q, strings.Fields("a/1 a/2 a/3 a/4 a/5 b/1 b/2 b/3")...)
	got := popAll[string](q)
	if q.Ready() {
		t.Fatal("it is ready, with both groups at their limits")
	}
	got = append(got, q.Pop(), q.Pop())
	for _, item := range slices.Clone(got) {
		q.Done(item)
	}
	for q.Len() > 0 {
		item := q.Pop()
		got = append(got, item)
		q.Done(item)
	}
	if got, want := strings.Join(got, " "), "a/1 b/1 a/2 b/2 a/3 a/4 b/3 a/5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A group function that changes its mind about queued and held items loses none, and
// the slot of one is given back to the group that it was taken from.
func TestGroupFunctionThatChangesItsMind(t *testing.T) {
	mind := "a"
	q := workqueue.NewFairQueue(workqueue.FairOptions[int, string]{
		Group:       func(int) string { return mind },
		MaxInFlight: func(string) int { return 1 },
		Within:      func() workqueue.Queue[int] { return &pile{} },
	}).(workqueue.HoldingQueue[int])
	p := q.(workqueue.PrioritizedQueue[int])
	pushAll(q, 1, 2, 3)
	mind = "b"
	q.Push(4)
	p.TouchWithPriority(3, 9) // It is in a all the same, and comes first there.
	checkInvariants(t, 0, q)
	if got := fmt.Sprint(popAll[int](q)); got != "[3 4]" {
		t.Errorf("got %s, want 3 of a and 4 of b", got)
	}
	q.Done(3)
	checkInvariants(t, 1, q)
	if got := fmt.Sprint(popAll[int](q)); got != "[1]" {
		t.Errorf("got %s, want 1, as a has a slot free", got)
	}
	q.Done(1)
	q.Done(4)
	if got := fmt.Sprint(popAll[int](q)); got != "[2]" {
		t.Errorf("got %s, want 2", got)
	}
	checkInvariants(t, 2, q)
}

// An item that is pushed while it is held gives its slot back: its Done was not heard.
func TestPushAfterALostDone(t *testing.T) {
	q := newFair(nil, map[string]int{"a": 1}).(workqueue.HoldingQueue[string])
	for range 3 {
		q.Push("a/1")
		if got := fmt.Sprint(popAll[string](q)); got != "[a/1]" {
			t.Fatalf("got %s, want [a/1]", got)
		}
		checkInvariants(t, 0, q)
	}
}

// The times of items are observed where an order hears of Done, as everywhere.
func TestMetricsOfAnOrderThatHearsOfDone(t *testing.T) {
	p := &recorder{}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name: "q", MetricsProvider: p, Order: newFair(nil, map[string]int{"a": 1}),
	})
	q.Add("a/1")
	q.Get()
	p.take()
	q.Done("a/1")
	if got := p.take(); len(got) != 1 || !strings.HasPrefix(got[0], "work(") {
		t.Errorf("the metrics were told %q, want the time of one item", got)
	}
	q.ShutDown()
}
