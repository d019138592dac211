package workqueue_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// These are tests of the orders by priority as a Queue of their own, of a FIFO in each
// level and of another Queue in each.

func rankOfMany(item int) int { return item*7919%11 - 5 }

// handOutsOf is the order in which items are handed out.
func handOutsOf(queued []int, every int) (got []int) {
	for since := 0; len(queued) > 0; {
		at := 0
		if since++; every == 0 || since < every {
			for i, item := range queued {
				if rankOfMany(item) > rankOfMany(queued[at]) {
					at = i
				}
			}
		}
		if at == 0 {
			since = 0
		}
		got = append(got, queued[at])
		queued = slices.Delete(queued, at, at+1)
	}
	return got
}

func upTo(n int) (items []int) {
	for item := range n {
		items = append(items, item)
	}
	return items
}

// Most of many items are taken, so that the memory of the order is given back while it
// has some. The order of the others is what it was.
func TestOrderOutlivesTheMemoryOfABurst(t *testing.T) {
	const many = 2500
	for _, every := range []int{0, 1, 5} {
		want := handOutsOf(upTo(many), every)
		for name, within := range map[string]func() workqueue.Queue[int]{"": nil, " of queues": workqueue.DefaultQueue[int]} {
			options := workqueue.PriorityOptions[int]{Of: rankOfMany, OldestEvery: every, Within: within}
			order := workqueue.NewPriorityQueue(options)
			queue := newPrioritized(options)
			pushAll(order, upTo(many)...)
			queue.AddAll(upTo(many)...)
			var popped []int
			for range many {
				popped = append(popped, order.Pop())
			}
			if taken := takeAll(queue); !slices.Equal(popped, want) || !slices.Equal(taken, want) {
				t.Errorf("every %d%s: the order is not that of the priorities", every, name)
			}
			checkInvariants(t, every, queue)
			queue.ShutDown()
		}
	}
}

// As the Queue of somebody else, the order may be told to push what it has, or to touch
// what it has not.
func TestOrderAsAQueue(t *testing.T) {
	for name, within := range map[string]func() workqueue.Queue[int]{"": nil, "of queues": workqueue.DefaultQueue[int]} {
		boost := 0
		q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Within: within, Of: func(item int) int { return item%10 + boost }}).(workqueue.PrioritizedQueue[int])
		pushAll[int](q, 11, 12, 13)
		q.Push(12)
		q.PushWithPriority(11, 1)
		q.Touch(99)
		q.TouchWithPriority(98, 9)
		if n := q.Len(); n != 3 {
			t.Errorf("%s: the length is %d, want 3", name, n)
		}
		q.PushWithPriority(12, 4)
		boost = 5
		q.Touch(11)
		if got, want := popRanked(q), "11@6 12@4 13@3 "; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		pushAll[int](q, 5, 7)
		if got := []int{q.Pop(), q.Pop()}; !slices.Equal(got, []int{7, 5}) {
			t.Errorf("%s: got %v", name, got)
		}
		if got := goes(func() { q.Pop() }); got != "workqueue: Pop of an empty Queue" {
			t.Errorf("%s: got the panic %v", name, got)
		}
	}
}

// Items that differ from themselves are in the order as often as they were pushed, each
// with its own priority, also where a level has other items.
func TestOrderOfQueuesWithItemsThatDifferFromThemselves(t *testing.T) {
	for _, every := range []int{0, 3} {
		nan := math.NaN()
		q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[float64]{
			OldestEvery: every, Within: workqueue.DefaultQueue[float64],
		}).(workqueue.PrioritizedQueue[float64])
		for _, push := range []struct {
			item     float64
			priority int
		}{{1, 1}, {nan, 1}, {nan, 2}, {2, 2}, {nan, 3}, {nan, 1}} {
			q.PushWithPriority(push.item, push.priority)
		}
		want := map[int]string{0: "NaN@3 NaN@2 2@2 1@1 NaN@1 NaN@1 ", 3: "NaN@3 NaN@2 1@1 2@2 NaN@1 NaN@1 "}[every]
		got := ""
		for n := 6; q.Len() > 0; n-- {
			if q.Len() != n {
				t.Fatalf("every %d: the length is %d, want %d", every, q.Len(), n)
			}
			item, priority := q.PopWithPriority()
			got += fmt.Sprint(item, "@", priority, " ")
		}
		if got != want {
			t.Errorf("every %d: got %s, want %s", every, got, want)
		}
	}
}

// A queue within hears of each Touch of its items. One that was raised and comes back
// before the queue has handed it out is touched, not pushed a second time.
func TestQueueInALevelIsTouched(t *testing.T) {
	var first *shelf[int]
	q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Within: func() workqueue.Queue[int] {
		s := &shelf[int]{}
		if first == nil {
			first = s
		}
		return s
	}}).(workqueue.PrioritizedQueue[int])
	pushAll[int](q, 1, 2, 3, 4)
	q.Touch(1) // It goes to the top.
	if want := []string{"push[1]", "push[2]", "push[3]", "push[4]", "touch[1]"}; !slices.Equal(first.calls, want) {
		t.Errorf("got the calls %v, want %v", first.calls, want)
	}
	q.TouchWithPriority(2, 1) // Is raised: the next of the level is taken out ahead, 1.
	first.calls = nil
	q.Touch(1) // Is not in the queue any more.
	q.Touch(3)
	if item, priority := q.PopWithPriority(); item != 2 || priority != 1 {
		t.Errorf("got %d@%d, want 2@1", item, priority)
	}
	q.Push(2) // Is there still, and goes to the top.
	if want := []string{"touch[3]", "touch[2]"}; !slices.Equal(first.calls, want) {
		t.Errorf("got the calls %v, want %v", first.calls, want)
	}
	if got, want := popAll[int](q), []int{1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A queue within that holds items back hears that the hand-out is over of what it has
// handed out for nothing: of an item that was raised, before or after that.
func TestHoldingQueueInALevelHearsOfEachEnd(t *testing.T) {
	var withins []*capped
	q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Within: func() workqueue.Queue[int] {
		withins = append(withins, newCapped(1))
		return withins[len(withins)-1]
	}}).(interface {
		workqueue.PrioritizedQueue[int]
		workqueue.HoldingQueue[int]
	})
	q.Ready()
	pushAll[int](q, 0, 1, 3, 6)
	q.TouchWithPriority(1, 1) // In the queue still: 0 is taken out ahead of time.
	q.TouchWithPriority(0, 2) // This one is told.
	var got []int
	for q.Len() > 0 {
		if !q.Ready() {
			t.Fatalf("after %v, nothing is ready", got)
		}
		item := q.Pop()
		got = append(got, item)
		q.Done(item)
	}
	if want := []int{0, 1, 3, 6}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, c := range withins {
		if c.wrong != "" || len(c.out) != 0 {
			t.Errorf("a queue within heard wrong of %q, and has %v out", c.wrong, c.out)
		}
	}
	// The end of what is held is heard also when all that is left in the level was raised.
	pushAll[int](q, 0, 3)
	item := q.Pop()
	q.TouchWithPriority(3, 5)
	if got := q.Pop(); got != 3 || item != 0 {
		t.Errorf("got %d and %d, want 0 and 3", item, got)
	}
	q.Done(0)
	q.Done(3)
	q.Push(6)
	if !q.Ready() || q.Pop() != 6 {
		t.Error("6 was not handed out")
	}
}

// A Within that returns nothing is a mistake, and is one in Push.
func TestWithinThatReturnsNothing(t *testing.T) {
	calls := 0
	q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Within: func() workqueue.Queue[int] {
		if calls++; calls > 1 {
			return nil
		}
		return workqueue.DefaultQueue[int]()
	}}).(workqueue.PrioritizedQueue[int])
	var panicked any
	for priority := range 3 {
		if p := goes(func() { q.PushWithPriority(priority, priority) }); p != nil {
			panicked = p
		}
	}
	if panicked != "workqueue: Within has returned nil" {
		t.Errorf("got the panic %v", panicked)
	}
}

// A Snapshot with a limit has the first items in the order in which they are handed out,
// those before all levels as well whose Of has failed.
func TestSnapshotOfTheFirstInAnOrder(t *testing.T) {
	for _, options := range []workqueue.PriorityOptions[int]{{}, {OldestEvery: 2}, {Within: workqueue.DefaultQueue[int]}} {
		failing := true
		options.Of = func(item int) int {
			if item == 0 && failing {
				failing = false
				panic("of")
			}
			return item % 3
		}
		q := newPrioritized(options)
		goes(func() { q.Add(0) })
		q.AddAll(1, 2, 3, 4, 5, 6, 7)
		n := q.Len()
		var shown [][]int
		for limit := range n + 2 {
			s := q.Snapshot(limit)
			if s.QueuedTotal != n {
				t.Errorf("%d items are queued, want %d", s.QueuedTotal, n)
			}
			items := []int{}
			for _, info := range s.Queued {
				items = append(items, info.Item)
			}
			shown = append(shown, items)
		}
		taken := takeAll(q)
		for limit, got := range shown {
			if want := taken[:min(limit, n)]; !slices.Equal(got, want) {
				t.Errorf("every %d, limit %d: got %v, want %v", options.OldestEvery, limit, got, want)
			}
		}
		q.ShutDown()
	}
	stored := newStored(&shelf[string]{quiet: true})
	defer stored.ShutDown()
	stored.AddAll("a", "b", "c")
	for limit := range 5 {
		if n := len(stored.Snapshot(limit).Queued); n != min(limit, 3) {
			t.Errorf("limit %d: got %d items", limit, n)
		}
	}
}

// The levels above which most are in use, and those that are not any more, come and go
// without a trace in the order.
func TestOrderOfManyLevelsThatComeAndGo(t *testing.T) {
	for name, within := range map[string]func() workqueue.Queue[int]{"": nil, " of queues": workqueue.DefaultQueue[int]} {
		q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Within: within}).(workqueue.PrioritizedQueue[int])
		for _, levels := range []int{3000, 40, 1500, 100, 5} {
			for item := range levels {
				q.PushWithPriority(item, item*7919%levels-levels/2)
			}
			for want := levels - levels/2 - 1; q.Len() > 0; want-- {
				item, priority := q.PopWithPriority()
				if priority != want || item*7919%levels-levels/2 != want {
					t.Fatalf("%d levels%s: got %d@%d, want the priority %d", levels, name, item, priority, want)
				}
			}
		}
	}
}

// The priorities of what is queued and held are known when the memory of the rest is given
// back.
func TestPrioritiesOutliveTheMemoryOfABurst(t *testing.T) {
	const many = 2500
	for name, within := range map[string]func() workqueue.Queue[int]{"": nil, "of queues": workqueue.DefaultQueue[int]} {
		q := newPrioritized(workqueue.PriorityOptions[int]{Within: within})
		for item := range many {
			addAt(q, 1+item%7, item)
		}
		q.Get() // The first of the highest level, which stays held.
		for q.Len() > 10 {
			item, _ := q.Get()
			q.Done(item)
		}
		s := q.Snapshot(100)
		if len(s.Queued) != 10 || len(s.InFlight) != 1 {
			t.Errorf("%s: got %d items queued and %d held, want 10 and 1", name, len(s.Queued), len(s.InFlight))
		}
		for _, info := range append(s.Queued, s.InFlight...) {
			if want := 1 + info.Item%7; info.Priority != want {
				t.Errorf("%s: %d is %v with the priority %d, want %d", name, info.Item, info.State, info.Priority, want)
			}
		}
		q.Done(s.InFlight[0].Item)
		if got := takeAll(q); len(got) != 10 {
			t.Errorf("%s: got %v in the end", name, got)
		}
		q.ShutDown()
	}
}

// Levels that are in use stay known when those are forgotten that were not for long.
func TestLevelInUseIsKnownWhenOthersAreForgotten(t *testing.T) {
	for name, within := range map[string]func() workqueue.Queue[int]{"": nil, "of queues": workqueue.DefaultQueue[int]} {
		q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Within: within}).(workqueue.PrioritizedQueue[int])
		q.PushWithPriority(-1, -1)
		const many = 3000
		for item := range many {
			q.PushWithPriority(item, item)
		}
		for q.Len() > 1 {
			q.Pop()
		}
		for item := many; item < 3*many; item++ {
			q.PushWithPriority(item, item)
			if got := q.Pop(); got != item {
				t.Fatalf("%s: got %d, want %d", name, got, item)
			}
		}
		q.PushWithPriority(-2, -1)
		q.PushWithPriority(-3, -1)
		if got := popAll[int](q); !slices.Equal(got, []int{-1, -2, -3}) {
			t.Errorf("%s: got %v, want them in the order of their pushes", name, got)
		}
	}
}

// A solo queue is a FIFO that hands out one item at a time: the next one when it is told
// that the last one is done.
type solo[T comparable] struct {
	items []T
	busy  bool
	hook  func(call string)
}

func (s *solo[T]) Touch(T)     {}
func (s *solo[T]) Push(item T) { s.items = append(s.items, item) }
func (s *solo[T]) Len() int    { return len(s.items) }
func (s *solo[T]) Done(T)      { s.busy = false }

func (s *solo[T]) Ready() bool {
	if s.hook != nil {
		s.hook("ready")
	}
	return len(s.items) > 0 && !s.busy
}

func (s *solo[T]) Pop() (item T) {
	if s.hook != nil {
		s.hook("pop")
	}
	item, s.items, s.busy = s.items[0], s.items[1:], true
	return item
}

// A caller without Done gets everything from an order that would hold it back, and no
// account is kept.
func TestOrderOfHoldingQueuesForACallerWithoutDone(t *testing.T) {
	q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Within: func() workqueue.Queue[int] { return &solo[int]{} }})
	pushAll(q, 1, 2, 3)
	for want := 1; q.Len() > 0; want++ {
		if got := q.Pop(); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
		checkInvariants(t, want, q)
	}
}

// A level whose order was not ready before anybody asked is held back from the first
// Ready on. One that owes nothing any more is not needed, and may be forgotten.
func TestLevelWhoseOrderIsNotReady(t *testing.T) {
	within := &solo[int]{busy: true}
	q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Within: func() workqueue.Queue[int] { return within }}).(workqueue.HoldingQueue[int])
	q.Push(1)
	if q.Ready() {
		t.Error("it is ready, and its only level is not")
	}
	within.busy = false
	q.Touch(1)
	if !q.Ready() || q.Pop() != 1 {
		t.Error("1 is not handed out when its level is ready")
	}
	checkInvariants(t, 1, q)
	q.Done(1)
	checkInvariants(t, 2, q)
}

// A hiding queue says that it is empty while hides is set.
type hiding struct {
	shelf[int]
	hides bool
}

func (h *hiding) Len() int {
	if h.hides {
		return 0
	}
	return h.shelf.Len()
}

// A queue in a level that has something and says that its Len is 0 is asked again at the
// next Touch, as one without priorities is.
func TestQueueInALevelThatHidesItsItems(t *testing.T) {
	within := &hiding{hides: true}
	q := newPrioritized(workqueue.PriorityOptions[int]{Within: func() workqueue.Queue[int] { return within }})
	defer q.ShutDown()
	q.Add(1)
	if item, ok := q.TryGet(); ok {
		t.Errorf("got %d of a queue that says it is empty", item)
	}
	within.hides = false
	q.Add(1)
	if item, ok := q.TryGet(); item != 1 || !ok {
		t.Errorf("got %d, %v, want 1", item, ok)
	}
}

// The item that is the zero value is touched and raised as any other.
func TestZeroValueInALevel(t *testing.T) {
	within := &shelf[int]{}
	q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Within: func() workqueue.Queue[int] {
		s := within
		within = &shelf[int]{}
		return s
	}}).(workqueue.PrioritizedQueue[int])
	level := within
	pushAll[int](q, 1, 0, 2)
	q.Touch(0) // It goes to the top.
	if want := "[push[1] push[0] push[2] touch[0]]"; fmt.Sprint(level.calls) != want {
		t.Errorf("got the calls %v, want %s", level.calls, want)
	}
	q.TouchWithPriority(0, 1)
	if got := popAll[int](q); !slices.Equal(got, []int{0, 2, 1}) {
		t.Errorf("got %v, want [0 2 1]", got)
	}
}

// The order of a level is kept while nothing is in it, unless it has what was raised.
func TestOrderOfALevelIsKeptWhileItIsEmpty(t *testing.T) {
	made := 0
	q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Within: func() workqueue.Queue[int] {
		made++
		return workqueue.DefaultQueue[int]()
	}}).(workqueue.PrioritizedQueue[int])
	for range 10 {
		q.Push(1)
		q.Pop()
	}
	if made != 1 {
		t.Errorf("%d orders were made for one level", made)
	}
	q.Push(1)
	q.TouchWithPriority(1, 5)
	if q.Push(2); made != 3 {
		t.Errorf("%d orders were made, want 3: what has nothing but a ghost is dropped", made)
	}
}

// It is the turn of the oldest item, whose level holds it back: the highest level that does
// not comes instead.
func TestTurnOfAnItemThatIsHeldBack(t *testing.T) {
	q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{
		OldestEvery: 2, Within: func() workqueue.Queue[string] { return newFair(nil, map[string]int{"a": 1}) },
	})
	q.(workqueue.HoldingQueue[string]).Ready()
	pushAll(q, "a/1", "a/2")
	for _, item := range []string{"b/1", "b/2", "b/3"} {
		q.(workqueue.PrioritizedQueue[string]).PushWithPriority(item, 1)
	}
	if got, want := fmt.Sprint(popAll(q)), "[b/1 a/1 b/2 b/3]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// An order in a level that holds items back is told at once that what differs from itself
// is done: nobody else can.
func TestHoldingQueueInALevelOfWhatDiffersFromItself(t *testing.T) {
	q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[float64]{Within: func() workqueue.Queue[float64] { return &solo[float64]{} }})
	q.(workqueue.HoldingQueue[float64]).Ready()
	pushAll(q, math.NaN(), math.NaN(), 1, 2)
	if got := fmt.Sprint(popAll(q)); got != "[NaN NaN 1]" {
		t.Errorf("got %s, want [NaN NaN 1]", got)
	}
}

// What differs from itself is told apart from other items, and by its priority, though it
// cannot be found.
func TestOrderTellsWhatDiffersFromItselfApart(t *testing.T) {
	shelves := workqueue.NewPriorityQueue(workqueue.PriorityOptions[float64]{Within: func() workqueue.Queue[float64] { return &shelf[float64]{} }})
	pushAll(shelves, 2, math.NaN())
	for n := 1; n >= 0; n-- {
		shelves.Pop()
		if checkInvariants(t, n, shelves); shelves.Len() != n {
			t.Errorf("%d items, want %d", shelves.Len(), n)
		}
	}
	q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[float64]{OldestEvery: 2, Within: workqueue.DefaultQueue[float64]}).(workqueue.PrioritizedQueue[float64])
	for _, priority := range []int{1, 2, 2} {
		q.PushWithPriority(math.NaN(), priority)
	}
	q.PushWithPriority(5, 2)
	if got, want := popRanked(q), "NaN@2 NaN@1 NaN@2 5@2 "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// An item that a queue in a level makes up is handed out, and counts for nothing.
func TestQueueInALevelThatMakesUpItems(t *testing.T) {
	for _, made := range []float64{700, math.NaN()} {
		within := &shelf[float64]{}
		q := workqueue.NewPriorityQueue(workqueue.PriorityOptions[float64]{Within: func() workqueue.Queue[float64] { return within }})
		n := 32 // As many as there is room for.
		for item := range n {
			q.Push(float64(item))
		}
		if made == made {
			q.Push(math.NaN())
			n++
		}
		within.items = append(within.items, made)
		if got := q.Pop(); fmt.Sprint(got) != fmt.Sprint(made) || q.Len() != n {
			t.Errorf("got %v, and %d items are left, want %v and %d", got, q.Len(), made, n)
		}
		if got := popAll(q); len(got) != n || q.Len() != 0 {
			t.Errorf("got %v, and %d are left", got, q.Len())
		}
		checkInvariants(t, 0, q)
	}
}
