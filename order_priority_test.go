package workqueue_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

func newPrioritized(options workqueue.PriorityOptions[int]) *workqueue.Typed[int] {
	return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: workqueue.NewPriorityQueue(options)})
}

func addAt(q interface {
	AddWith(workqueue.AddOptions, ...int)
}, priority int, items ...int) {
	q.AddWith(workqueue.AddOptions{Priority: priority}, items...)
}

// takeRanked takes all that is queued, with the priorities.
func takeRanked(q *workqueue.Typed[int]) (got []string) {
	for q.Len() > 0 {
		item, priority, _ := q.GetWithPriority()
		got = append(got, fmt.Sprint(item, "@", priority))
		q.Done(item)
	}
	return got
}

func TestHighestPriorityFirstAndFIFOWithin(t *testing.T) {
	q := newPrioritized(workqueue.PriorityOptions[int]{})
	defer q.ShutDown()
	q.AddAll(1, 2)
	addAt(q, 5, 3, 4)
	addAt(q, -5, 5)
	addAt(q, math.MaxInt, 6)
	addAt(q, math.MinInt, 7)
	addAt(q, 5, 8, 2) // 2 is raised, to the end of the level.
	q.Add(7)          // A plain add has the priority 0.
	want := []string{fmt.Sprint("6@", math.MaxInt), "3@5", "4@5", "8@5", "2@5", "1@0", "7@0", "5@-5"}
	if got := takeRanked(q); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The bound that is documented: of each n hand-outs in a row one is that of the item
// that is queued for longest, so that k items before an item delay it by no more than
// n*(k+1) hand-outs in all, although each of them is overtaken for ever. The bound is
// reached, and the strict order starves.
func TestOldestEveryBoundsHowOftenAnItemIsOvertaken(t *testing.T) {
	const k = 10
	for _, every := range []int{0, 1, 2, 3, 10} {
		q := newPrioritized(workqueue.PriorityOptions[int]{OldestEvery: every})
		for item := range k + 1 {
			q.Add(item)
		}
		handed := 0
		for item := 0; item != k && handed < 2000; handed++ {
			addAt(q, 1, 1000+handed)
			item, _ = q.Get()
			q.Done(item)
		}
		switch want := every * (k + 1); {
		case every == 0 && handed != 2000:
			t.Errorf("strict: the last item came after %d hand-outs", handed)
		case every > 0 && handed != want:
			t.Errorf("every %d: the last of %d items came after %d hand-outs, want %d", every, k+1, handed, want)
		}
		q.ShutDown()
	}
}

// Whatever is added meanwhile: of any n hand-outs in a row one is that of the oldest.
func TestOldestEveryHoldsForRandomAdds(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	for _, every := range []int{1, 2, 5, 9} {
		q := newPrioritized(workqueue.PriorityOptions[int]{OldestEvery: every})
		var queued []int // the oldest first
		since := 0
		for n := range rounds(20_000) {
			if rnd.IntN(2) == 0 || len(queued) == 0 {
				addAt(q, 1+rnd.IntN(5), n)
				queued = append(queued, n)
			}
			if rnd.IntN(3) == 0 {
				addAt(q, 1+rnd.IntN(9), queued[rnd.IntN(len(queued))])
			}
			if rnd.IntN(2) == 0 {
				continue
			}
			item, _ := q.Get()
			q.Done(item)
			if since++; item == queued[0] {
				since = 0
			}
			if since >= every {
				t.Fatalf("every %d: %d hand-outs in a row were not of the oldest item", every, since)
			}
			queued = without(queued, item)
		}
		checkInvariants(t, every, q)
		q.ShutDown()
	}
}

func TestOfGivesThePriorityOfPlainAdds(t *testing.T) {
	boost := 0
	q := newPrioritized(workqueue.PriorityOptions[int]{Of: func(item int) int { return item%10 + boost }})
	defer q.ShutDown()
	q.AddAll(11, 12, 13)
	addAt(q, 9, 21)  // A named priority takes the place of that of Of,
	addAt(q, -9, 29) // also if it is lower,
	addAt(q, 1, 13)  // but an item keeps the higher one.
	boost = 5
	q.Add(12) // The item is known: Of is asked, and it is raised.
	if got, want := takeRanked(q), []string{"21@9", "12@7", "13@3", "11@1", "29@-9"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The queue is given back and nothing is lost if Of panics or ends its goroutine.
func TestOfThatFails(t *testing.T) {
	for kind, fail := range map[string]func(){"panic": func() { panic("of") }, "Goexit": runtime.Goexit} {
		for _, row := range []struct {
			name   string
			before func(q *workqueue.Typed[int])
			f      func(q *workqueue.Typed[int])
			want   []string
		}{
			{"Add of a new item", nil, func(q *workqueue.Typed[int]) { q.Add(9) }, []string{"9@0", "2@2", "1@1"}},
			{"Add of a queued item", nil, func(q *workqueue.Typed[int]) { q.Add(1) }, []string{"2@2", "1@1"}},
			{"Add of a held item", func(q *workqueue.Typed[int]) { q.Get() },
				func(q *workqueue.Typed[int]) { defer q.Done(2); q.Add(2) }, []string{"1@1", "2@0"}},
			{"AddAll", nil, func(q *workqueue.Typed[int]) { q.AddAll(9, 8) }, []string{"9@0", "2@2", "1@1"}},
		} {
			t.Run(row.name+"/"+kind, func(t *testing.T) {
				failing := false
				q := newPrioritized(workqueue.PriorityOptions[int]{Of: func(item int) int {
					if failing {
						failing = false
						fail()
					}
					return item
				}})
				q.AddAll(1, 2)
				if row.before != nil {
					row.before(q)
				}
				failing = true
				goes(func() { row.f(q) })
				if failing {
					t.Error("Of was not called")
				}
				checkInvariants(t, 0, q)
				if got := takeRanked(q); !slices.Equal(got, row.want) {
					t.Errorf("handed out %v afterwards, want %v", got, row.want)
				}
				q.ShutDownWithDrain()
			})
		}
	}
}

func TestItemsThatDifferFromThemselvesInAnOrder(t *testing.T) {
	nan := math.NaN()
	for _, every := range []int{0, 2} {
		order := workqueue.NewPriorityQueue(workqueue.PriorityOptions[float64]{OldestEvery: every})
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[float64]{Order: order})
		q.AddWith(workqueue.AddOptions{Priority: 1}, nan, 1)
		q.AddWith(workqueue.AddOptions{Priority: 2}, nan, 2)
		want := map[int]string{0: "[NaN 2 2 2 NaN 1 1 1]", 2: "[NaN 2 NaN 1 2 2 1 1]"}[every]
		var got []any
		for q.Len() > 0 {
			item, priority, _ := q.GetWithPriority()
			got = append(got, item, priority)
			q.Done(item)
			checkInvariants(t, len(got), q)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("every %d: got %v, want %v", every, got, want)
		}
		q.ShutDownWithDrain()
	}
}

func TestMistakesWithPriorities(t *testing.T) {
	named := workqueue.AddOptions{Priority: 5}
	type typed = workqueue.TypedQueueConfig[int]
	type delaying = workqueue.TypedDelayingQueueConfig[int]
	type limiting = workqueue.TypedRateLimitingQueueConfig[int]
	order := func() workqueue.Queue[int] {
		return workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{})
	}
	const noOrder = "workqueue: AddWith with priority 5: the order of the queue knows no priorities, see NewPriorityQueue"
	const twoOrders = "workqueue: a config has an Order beside a queue that was configured, which has an order of its own"
	const shared = "workqueue: what NewPriorityQueue returns was given to two queues, or is not empty"
	for name, row := range map[string]struct {
		f    func()
		want string
	}{
		"no order":          {func() { workqueue.NewTyped[int]().AddWith(named, 1) }, noOrder},
		"no order, delayed": {func() { workqueue.NewTypedDelaying(delaying{}).AddWith(workqueue.AddOptions{Priority: 5, After: 1}, 1) }, noOrder},
		"no order, limited": {func() {
			workqueue.NewTypedRateLimiting[int](nil, limiting{}).AddWith(workqueue.AddOptions{Priority: 5, RateLimited: true}, 1)
		}, noOrder},
		"an order without priorities": {func() {
			workqueue.NewTypedWithConfig(typed{Order: workqueue.DefaultQueue[int]()}).AddWith(named, 1)
		}, noOrder},
		"a storage without priorities, delayed": {func() {
			below := workqueue.NewTypedWithConfig(typed{Queue: workqueue.DefaultQueue[int]()})
			workqueue.NewTypedDelaying(delaying{Queue: below}).AddWith(named, 1)
		}, noOrder},
		"a queue below without AddWith": {func() {
			workqueue.NewTypedDelaying(delaying{Queue: onlyTyped[int]{workqueue.NewTyped[int]()}}).AddWith(named, 1)
		}, "workqueue: workqueue_test.onlyTyped[int] has no AddWith"},
		"a delay of a Typed":    {func() { workqueue.NewTyped[int]().AddWith(workqueue.AddOptions{After: 1}, 1) }, "workqueue: AddWith of *workqueue.Typed[int] with {After:1ns RateLimited:false Priority:0}: it has no delays and no limiter"},
		"a limit of a Delaying": {func() { workqueue.NewTypedDelaying(delaying{}).AddWith(workqueue.AddOptions{RateLimited: true}, 1) }, "workqueue: AddWith of *workqueue.TypedDelaying[int] with {After:0s RateLimited:true Priority:0}: it has no limiter"},
		"a nil limiter": {func() {
			workqueue.NewTypedRateLimiting[int](nil, limiting{}).AddWith(workqueue.AddOptions{RateLimited: true}, 1)
		}, "workqueue: the rate limiter of TypedRateLimiting is nil: give one to its constructor"},
		"OldestEvery":     {func() { workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{OldestEvery: -1}) }, "workqueue: OldestEvery is -1, want 0 or more"},
		"Queue and Order": {func() { workqueue.NewTypedWithConfig(typed{Queue: order(), Order: order()}) }, "workqueue: a config has both a Queue and an Order"},
		"two orders":      {func() { workqueue.NewTypedDelaying(delaying{Queue: workqueue.NewTyped[int](), Order: order()}) }, twoOrders},
		"two orders, limiting": {func() {
			workqueue.NewTypedRateLimiting[int](nil, limiting{DelayingQueue: workqueue.NewTypedDelaying(delaying{}), Order: order()})
		}, twoOrders},
		"shared": {func() {
			one := order()
			workqueue.NewTypedWithConfig(typed{Order: one})
			workqueue.NewTypedWithConfig(typed{Queue: one})
		}, shared},
		"not empty": {func() {
			one := order()
			one.Push(1)
			workqueue.NewTypedWithConfig(typed{Order: one})
		}, shared},
		"Pop of nothing": {func() { order().Pop() }, "workqueue: Pop of an empty Queue"},
	} {
		if got := goes(row.f); fmt.Sprint(got) != row.want {
			t.Errorf("%s: got the panic %v, want %q", name, got, row.want)
		}
	}
}

// A queue that has only the methods of the interface.
type onlyTyped[T comparable] struct{ workqueue.TypedInterface[T] }

// Programs can use AddWith and GetWithPriority whatever queue there is below.
func TestPriorityZeroNeedsNoOrder(t *testing.T) {
	below := onlyTyped[int]{workqueue.NewTyped[int]()}
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Queue: below})
	defer q.ShutDown()
	q.AddWith(workqueue.AddOptions{}, 1, 2)
	if item, priority, shutdown := q.GetWithPriority(); item != 1 || priority != 0 || shutdown {
		t.Errorf("got %d, %d, %v, want 1, 0, false", item, priority, shutdown)
	}
}

// With Within, an item that was raised and comes back to its old level before that has
// handed it out is the item again, at its old place, and not dropped as what was raised.
func TestItemThatComesBackToTheLevelItWasRaisedFrom(t *testing.T) {
	q := newPrioritized(workqueue.PriorityOptions[int]{Within: workqueue.DefaultQueue[int]})
	q.AddAll(1, 2, 3)
	addAt(q, 1, 2, 3)
	for _, want := range []int{2, 3} {
		if item, priority, _ := q.GetWithPriority(); item != want || priority != 1 {
			t.Fatalf("got %d@%d, want %d@1", item, priority, want)
		}
	}
	q.Add(2)
	q.Done(2)
	q.Done(3)
	q.Add(4)
	if got, want := takeRanked(q), []string{"1@0", "2@0", "4@0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	q.ShutDownWithDrain()
}

// Items whose Of has failed are in line before all levels. That line may have a hole when
// the next item comes, which is at its end until its Of has returned.
func TestOfIsAskedBehindAHole(t *testing.T) {
	failing := true
	q := newPrioritized(workqueue.PriorityOptions[int]{Of: func(item int) int {
		if failing {
			panic("of")
		}
		return item
	}})
	defer q.ShutDown()
	for item := range 5 {
		goes(func() { q.Add(item) })
	}
	q.Remove(1)
	q.Remove(3)
	failing = false
	q.AddAll(10, 11)
	q.Remove(4)
	q.Add(12)
	checkInvariants(t, 0, q)
	if got, want := takeRanked(q), []string{"0@0", "2@0", "12@12", "11@11", "10@10"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A raise of an item in line counts for its priority, not for its place.
func TestRaiseOfAnItemBeforeAllLevels(t *testing.T) {
	for name, within := range map[string]func() workqueue.Queue[int]{"": nil, "of queues": workqueue.DefaultQueue[int]} {
		failing := true
		q := newPrioritized(workqueue.PriorityOptions[int]{Within: within, Of: func(item int) int {
			if failing {
				panic("of")
			}
			return item
		}})
		goes(func() { q.Add(1) })
		failing = false
		q.Add(9)
		addAt(q, 5, 1)
		addAt(q, 3, 1)
		if s := q.Snapshot(2); s.Queued[0].Item != 1 || s.Queued[0].Priority != 5 {
			t.Errorf("%s: got %+v first in line, want 1@5", name, s.Queued[0])
		}
		if got, want := takeRanked(q), []string{"1@5", "9@9"}; !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		q.ShutDown()
	}
}

// The priority of an item is known while an order of queues has it, and while it is held,
// also if that has given it to an item that nobody had added.
func TestPriorityInAnOrderOfQueues(t *testing.T) {
	made := &inventive{PrioritizedQueue: workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Within: workqueue.DefaultQueue[int]}).(workqueue.PrioritizedQueue[int])}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: made})
	defer q.ShutDown()
	addAt(q, 5, 1)
	if got := q.Snapshot(1).Queued[0].Priority; got != 5 {
		t.Errorf("it is queued with the priority %d, want 5", got)
	}
	for _, want := range []int{99, 1} {
		item, priority, _ := q.GetWithPriority()
		held := q.Snapshot(1).InFlight
		if item != want || len(held) != 1 || held[0].Priority != priority || priority != map[int]int{99: 7, 1: 5}[item] {
			t.Errorf("got %d@%d and %+v held, want %d", item, priority, held, want)
		}
		q.Done(item)
	}
}

// inventive hands out an item that it was not given, and that first.
type inventive struct {
	workqueue.PrioritizedQueue[int]
	given bool
}

func (q *inventive) PopWithPriority() (int, int) {
	if !q.given {
		q.given = true
		return 99, 7
	}
	return q.PrioritizedQueue.PopWithPriority()
}

// A named priority takes the place of that of Of for an item that is queued or held, too. An
// item whose Of fails has none, whatever had its place in memory before.
func TestNamedPriorityRaisesAboveThatOfOf(t *testing.T) {
	failing := false
	q := newPrioritized(workqueue.PriorityOptions[int]{Of: func(item int) int {
		if failing {
			panic("of")
		}
		return item % 10
	}})
	defer q.ShutDown()
	q.AddAll(11, 12)
	addAt(q, 8, 11)
	if item, priority, _ := q.GetWithPriority(); item != 11 || priority != 8 {
		t.Errorf("got %d@%d, want 11@8", item, priority)
	}
	addAt(q, 7, 11)
	q.Done(11)
	if got, want := takeRanked(q), []string{"11@7", "12@2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	failing = true
	for item := range 3 {
		goes(func() { q.Add(item) })
	}
	if got, want := takeRanked(q), []string{"0@0", "1@0", "2@0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What is held keeps out of the order when memory is given back, also where its number
// among what is held is the place of an item in its level.
func TestHeldItemsKeepOutOfTheOrderAfterABurst(t *testing.T) {
	q := newPrioritized(workqueue.PriorityOptions[int]{})
	defer q.ShutDown()
	q.Add(0)
	addAt(q, 1, 1)
	addAt(q, 1, 0) // It is the second of its level, and came before the first.
	addAt(q, 9, 2)
	if got := []int{first(q.TryGet()), first(q.TryGet())}; got[0] != 2 || got[1] != 1 {
		t.Fatalf("got %v, want [2 1]", got)
	}
	addAt(q, 5, upTo(2500)[10:]...)
	for q.Len() > 1 {
		q.Done(first(q.TryGet()))
	}
	checkInvariants(t, 0, q)
	if got := takeAll(q); len(got) != 1 || got[0] != 0 {
		t.Errorf("got %v, want [0]", got)
	}
}
