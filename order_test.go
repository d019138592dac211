package workqueue_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

func newPrioritized(order workqueue.Order[int]) *workqueue.Typed[int] {
	return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: order})
}

func addAt(q interface {
	AddWith(workqueue.AddOptions, ...int) int
}, priority int, items ...int) {
	q.AddWith(workqueue.AddOptions{Priority: prio(priority)}, items...)
}

// takeRanked takes all that is queued, with the priorities.
func takeRanked(q *workqueue.Typed[int]) (got []string) {
	for q.Len() > 0 {
		item, priority := getRanked(q)
		got = append(got, fmt.Sprint(item, "@", priority))
		q.Done(item)
	}
	return got
}

// The bound in docs/ordering.md: of each n hand-outs in a row, one is that of the oldest item. So an
// item with k older items before it is handed out after n*(k+1) hand-outs at most, although urgent
// items come all the time. The bound is reached. Without OldestEvery the item is never handed out.
func TestOldestEveryBoundsHowOftenAnItemIsOvertaken(t *testing.T) {
	const k = 10
	for _, every := range []int{0, 1, 2, 3, 10} {
		q := newPrioritized(workqueue.Order[int]{OldestEvery: every})
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

// Nothing is added if the function panics or ends its goroutine.
func TestPriorityThatFailsAddsNothing(t *testing.T) {
	for kind, fail := range map[string]func(){"panic": func() { panic("of") }, "Goexit": runtime.Goexit} {
		for _, row := range []struct {
			name   string
			before func(q *workqueue.Typed[int])
			f      func(q *workqueue.Typed[int])
			want   []string
		}{
			{"Add of a new item", nil, func(q *workqueue.Typed[int]) { q.Add(9) }, []string{"2@2", "1@1"}},
			{"Add of a queued item", nil, func(q *workqueue.Typed[int]) { q.Add(1) }, []string{"2@2", "1@1"}},
			{"Add of a held item", func(q *workqueue.Typed[int]) { q.Get() },
				func(q *workqueue.Typed[int]) { defer q.Done(2); q.Add(2) }, []string{"1@1"}},
			{"AddAll", nil, func(q *workqueue.Typed[int]) { q.AddAll(9, 8) }, []string{"2@2", "1@1"}},
		} {
			t.Run(row.name+"/"+kind, func(t *testing.T) {
				failing := false
				q := newPrioritized(workqueue.Order[int]{Priority: func(item int) int {
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
					t.Error("Priority was not called")
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
		order := workqueue.Order[float64]{OldestEvery: every}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[float64]{Order: order})
		q.AddWith(workqueue.AddOptions{Priority: prio(1)}, nan, 1)
		q.AddWith(workqueue.AddOptions{Priority: prio(2)}, nan, 2)
		want := map[int]string{0: "[NaN 2 2 2 NaN 1 1 1]", 2: "[NaN 2 NaN 1 2 2 1 1]"}[every]
		var got []any
		for q.Len() > 0 {
			item, priority := getRanked(q)
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

// byLetter is an order by the first letter of an item.
func byLetter(weights, limits map[string]int) workqueue.Order[string] {
	o := workqueue.Order[string]{Group: func(item string) string { return item[:1] }}
	if weights != nil {
		o.Weight = func(group string) int { return max(1, weights[group]) }
	}
	if limits != nil {
		o.MaxInFlight = func(group string) int { return limits[group] }
	}
	return o
}

func newOrdered(order workqueue.Order[string]) *workqueue.Typed[string] {
	return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: order})
}

// The oldest item comes out of turn, and the group whose turn it was has it afterwards: otherwise c would wait for
// all items of a.
func TestOldestItemUsesUpNoTurnOfAnotherGroup(t *testing.T) {
	order := byLetter(nil, nil)
	order.OldestEvery = 2
	q := newOrdered(order)
	q.AddAll("a0", "a1", "a2", "a3", "b0", "b1", "c0", "c1")
	var got []string
	for q.Len() > 0 {
		item, _ := q.Get()
		q.Done(item)
		got = append(got, item)
	}
	if want := "[a0 b0 a1 c0 a2 b1 a3 c1]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// With k items of its own group before it, an item comes after (k/w + 1) * v items of each
// other group at most, where the weight of its group is w and that of the other is v.
func TestFairBoundIsReached(t *testing.T) {
	weights := map[string]int{"a": 2, "b": 3}
	q := newOrdered(byLetter(weights, nil))
	for i := range 100 {
		q.Add(fmt.Sprint("b", i))
	}
	const k = 5
	for i := range k + 1 {
		q.Add(fmt.Sprint("a", i))
	}
	others := 0
	for item := ""; item != fmt.Sprint("a", k); {
		item, _ = q.Get()
		q.Done(item)
		if item[0] == 'b' {
			others++
		}
	}
	if want := (k/2 + 1) * 3; others != want {
		t.Errorf("%d items of the other group came before, want %d", others, want)
	}
}

// A negative limit made the add panic, and a tenant could only be held back by a limit of 1 and an item
// that nobody finishes.
func TestNegativeMaxInFlightHoldsTheGroupBack(t *testing.T) {
	limits := map[string]int{"a": workqueue.HoldBack, "c": -7}
	q := newOrdered(byLetter(nil, limits))
	q.AddAll("a1", "b1", "c1")
	if got := fmt.Sprint(takeAll(q)); got != "[b1]" {
		t.Errorf("handed out %s while the groups a and c are held back", got)
	}
	for _, p := range q.Stats().ByGroup {
		if p.HeldBack != (limits[p.Key] < 0) {
			t.Errorf("the group %q with the limit %d is held back: %v", p.Key, limits[p.Key], p.HeldBack)
		}
	}
	if err := q.WaitIdle(canceled()); err == nil {
		t.Error("WaitIdle takes a queue for idle whose items are held back")
	}
	if err := q.Barrier(canceled()); err == nil {
		t.Error("a Barrier takes items for done that are held back")
	}
	limits["a"] = 0
	q.Add("a1")
	if got := fmt.Sprint(takeAll(q)); got != "[a1]" {
		t.Errorf("handed out %s after an add of the group a without a limit", got)
	}
	checkInvariants(t, 0, q)
	q.ShutDown()
	if item, shutdown := q.Get(); !shutdown {
		t.Errorf("handed out %s after the shutdown", item)
	}
}

// Of more groups than have a part of their own, some are held back.
func TestOthersSayThatAGroupIsHeldBack(t *testing.T) {
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: workqueue.Order[int]{
		Group: func(item int) string { return fmt.Sprint(item % 100) },
		MaxInFlight: func(group string) int {
			if group == "99" {
				return workqueue.HoldBack
			}
			return 0
		},
	}})
	for item := range 1000 {
		if item%100 < 99 || item < 100 { // The group that is held back is the least deep.
			q.Add(item)
		}
	}
	s := q.Stats()
	for _, p := range s.ByGroup {
		if p.HeldBack != p.Others {
			t.Errorf("%+v: held back is %v", p, p.HeldBack)
		}
	}
	s.Merge(workqueue.QueueStats{ByGroup: []workqueue.PartStats[string]{{Key: "0", HeldBack: true}}})
	if i := slices.IndexFunc(s.ByGroup, func(p workqueue.PartStats[string]) bool { return p.Key == "0" }); i < 0 || !s.ByGroup[i].HeldBack {
		t.Errorf("a group that one of two queues holds back is not held back in their sum: %+v", s.ByGroup)
	}
}

// The groups that may go on come to their turn in the order of their names, however many there are.
func TestLimitsChangedHasGroupsGoOnByName(t *testing.T) {
	limit := workqueue.HoldBack
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: workqueue.Order[int]{
		Group: func(item int) string { return fmt.Sprintf("%04d", item) }, MaxInFlight: func(string) int { return limit },
	}})
	defer q.ShutDown()
	for item := range 1000 {
		q.Add(item * 7 % 1000)
	}
	limit = 1
	q.LimitsChanged()
	if got := takeAll(q); len(got) != 1000 || !slices.IsSorted(got) {
		t.Errorf("handed out %d items, want 1000 in the order of their groups: %v", len(got), got)
	}
	checkInvariants(t, 0, q)
}

// MaxInFlight is foreign code: while LimitsChanged asks, the queue ends, or a wait gives its record to the wait of
// another group. The answer is for the group that was asked about, and for no other.
func TestLimitsChangedWhileTheWaitsChange(t *testing.T) {
	for _, name := range []string{"the queue ends", "another group waits"} {
		synctest.Test(t, func(t *testing.T) {
			var q *workqueue.TypedDelaying[string]
			change := func() {}
			order := byLetter(nil, nil)
			order.MaxInFlight = func(group string) int {
				if group != "a" {
					return 0
				}
				change()
				return workqueue.HoldBack
			}
			q = workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Order: order})
			defer q.ShutDown()
			q.AddAfter("a1", time.Minute)
			change = func() {
				change = func() {}
				if name == "the queue ends" {
					q.ShutDown()
					return
				}
				q.Remove("a1")
				q.AddAfter("b1", time.Minute)
			}
			q.LimitsChanged()
			time.Sleep(time.Hour)
			if item, ok := q.TryGet(); ok != (name == "another group waits") || ok && item != "b1" {
				t.Errorf("%s: got %q, %v", name, item, ok)
			}
		})
	}
}

// An add asks for the limit, LimitsChanged follows, and then the add takes effect. The old limit would
// hold the group back for ever.
func TestLimitsChangedWhileAnAddAsks(t *testing.T) {
	type delaying = workqueue.TypedDelaying[string]
	type changing interface {
		LimitsChanged()
		TryGet() (string, bool)
		ShutDown()
	}
	onFIFO := func(add func(q *workqueue.Typed[string])) func(o workqueue.Order[string]) (changing, func()) {
		return func(o workqueue.Order[string]) (changing, func()) {
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: o})
			return q, func() { add(q) }
		}
	}
	onDelays := func(add func(q *delaying)) func(o workqueue.Order[string]) (changing, func()) {
		return func(o workqueue.Order[string]) (changing, func()) {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Order: o})
			return q, func() { add(q) }
		}
	}
	for name, open := range map[string]func(o workqueue.Order[string]) (changing, func()){
		"Add of a Typed":    onFIFO(func(q *workqueue.Typed[string]) { q.Add("a") }),
		"AddAll of a Typed": onFIFO(func(q *workqueue.Typed[string]) { q.AddAll("a", "a2") }),
		"AddAll of one":     onFIFO(func(q *workqueue.Typed[string]) { q.AddAll("a") }),
		"Add":               onDelays(func(q *delaying) { q.Add("a") }),
		"AddAll":            onDelays(func(q *delaying) { q.AddAll("a", "a2") }),
		"AddAfter":          onDelays(func(q *delaying) { q.AddAfter("a", time.Minute) }),
		"AddAllAfter":       onDelays(func(q *delaying) { q.AddWith(workqueue.AddOptions{After: 1}, "a", "a2") }),
		"Reschedule":        onDelays(func(q *delaying) { q.Reschedule("a", time.Minute) }),
		"Debounce":          onDelays(func(q *delaying) { q.Debounce("a", time.Minute, 0) }),
	} {
		for change := range 2 { // While the first or the second item asks.
			synctest.Test(t, func(t *testing.T) {
				var q changing
				limit, asked := workqueue.HoldBack, 0
				q, add := open(workqueue.Order[string]{
					Group: func(string) string { return "g" },
					MaxInFlight: func(string) int {
						was := limit
						if asked++; asked == change+1 {
							limit = 0
							q.LimitsChanged()
						}
						return was
					},
				})
				defer q.ShutDown()
				add()
				time.Sleep(time.Hour)
				if item, ok := q.TryGet(); asked > change && (!ok || item != "a") {
					t.Errorf("%s: got %q, %v, want a", name, item, ok)
				}
			})
		}
	}
}

// MaxInFlight is foreign code: it calls the queue, and is asked once for each group. A panic reaches the
// caller and leaves the queue usable.
func TestLimitsChangedAsksWithoutALock(t *testing.T) {
	var q *workqueue.TypedDelaying[string]
	asked, fails := map[string]int{}, false
	order := byLetter(nil, map[string]int{})
	order.MaxInFlight = func(group string) int {
		if asked[group]++; fails {
			panic("oops")
		}
		return q.Len()
	}
	q = workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Order: order})
	defer q.ShutDown()
	q.AddAll("a1", "a2", "b1")
	q.AddAfter("b2", time.Hour)
	q.AddAfter("w", time.Hour)
	clear(asked)
	q.LimitsChanged()
	if got, want := fmt.Sprint(asked), "map[a:1 b:1 w:1]"; got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
	fails = true
	if got := goes(q.LimitsChanged); got != "oops" || q.Locked() || q.FIFO().Locked() {
		t.Errorf("got the panic %v, and a lock is held: %v, %v", got, q.Locked(), q.FIFO().Locked())
	}
	fails = false
	q.LimitsChanged()
	if got := fmt.Sprint(takeAll(q.FIFO())); got != "[a1 b1 a2]" {
		t.Errorf("handed out %s", got)
	}
	checkInvariants(t, 0, q)
}

// A queue without limits has nothing to ask.
func TestLimitsChangedWithoutLimits(t *testing.T) {
	for name, order := range map[string]workqueue.Order[string]{
		"FIFO": {}, "priorities": {Priority: func(item string) int { return len(item) }}, "groups": byLetter(nil, nil),
	} {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Order: order})
		q.Add("a")
		q.LimitsChanged()
		q.FIFO().LimitsChanged()
		if item, ok := q.TryGet(); item != "a" || !ok {
			t.Errorf("%s: got %q, %v", name, item, ok)
		}
		q.ShutDown()
	}
}

// Priority, Group, Weight and MaxInFlight are asked once for each add and once when a wait
// begins, and never with a lock held.
func TestOrderIsAskedOnceForEachAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		var q *workqueue.TypedDelaying[string]
		order := workqueue.Order[string]{
			Priority:    func(string) int { asked++; return q.Len() },
			Group:       func(item string) string { asked++; return fmt.Sprint(q.Len()) },
			Weight:      func(string) int { asked++; return 1 + q.Len() },
			MaxInFlight: func(string) int { asked++; return q.Len() },
		}
		q = workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Order: order})
		defer q.ShutDown()
		for i, call := range []func(){
			func() { q.Add("a") },
			func() { q.Add("a") },
			func() { q.AddAfter("b", time.Second) },
			func() { q.Debounce("c", time.Second, 0) },
			func() { q.Reschedule("d", time.Second) },
			func() { q.AddAll("e") },
			func() { item, _ := q.Get(); q.Add(item) },
		} {
			call()
			if asked != 4*(i+1) {
				t.Fatalf("after call %d the functions were asked %d times, want %d", i, asked, 4*(i+1))
			}
		}
		time.Sleep(time.Minute)
		if asked != 4*7 {
			t.Errorf("%d questions when the waits ended", asked-4*7)
		}
		checkInvariants(t, 0, q)
	})
}

// A panic and an answer without a meaning add nothing, whatever the call.
func TestOrderThatFailsAddsNothing(t *testing.T) {
	for want, order := range map[string]workqueue.Order[string]{
		"oops": {Group: func(item string) string {
			if item == "b" {
				panic("oops")
			}
			return item
		}},
		"no": {Priority: func(item string) int {
			if item == "b" {
				panic("no")
			}
			return 1
		}},
		`workqueue: Order.Weight is 0 for group "b", and has to be 1 at least`: byLetterFailing("b", 0),
	} {
		for name, call := range map[string]func(q *workqueue.TypedDelaying[string]){
			"Add":     func(q *workqueue.TypedDelaying[string]) { q.Add("b") },
			"AddAll":  func(q *workqueue.TypedDelaying[string]) { q.AddAll("a", "b", "c") },
			"AddWith": func(q *workqueue.TypedDelaying[string]) { q.AddWith(workqueue.AddOptions{Priority: prio(1)}, "a", "b") },
			"AddWith, later": func(q *workqueue.TypedDelaying[string]) {
				q.AddWith(workqueue.AddOptions{After: time.Hour}, "a", "b")
			},
			"AddAfter":   func(q *workqueue.TypedDelaying[string]) { q.AddAfter("b", time.Hour) },
			"Reschedule": func(q *workqueue.TypedDelaying[string]) { q.Reschedule("b", time.Hour) },
			"Debounce":   func(q *workqueue.TypedDelaying[string]) { q.Debounce("b", time.Hour, 0) },
		} {
			if name == "AddWith" && order.Priority != nil {
				continue // The call names a priority, and does not ask.
			}
			for _, oneEntry := range []bool{false, true} {
				q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Order: order, OneEntry: oneEntry})
				if got := goes(func() { call(q) }); got != want {
					t.Errorf("%s: got the panic %v, want %s", name, got, want)
				}
				if s := q.Snapshot(1); s.QueuedTotal+s.WaitingTotal != 0 {
					t.Errorf("%s: %v", name, s)
				}
				q.ShutDown()
			}
		}
	}
}

// byLetterFailing has a group with a weight that is invalid.
func byLetterFailing(group string, weight int) workqueue.Order[string] {
	return workqueue.Order[string]{Group: byLetter(nil, nil).Group, Weight: func(g string) int {
		if g == group {
			return weight
		}
		return 1
	}}
}

func TestOrderWithoutEffectPanics(t *testing.T) {
	number := func(string) int { return 1 }
	ordered := workqueue.Order[string]{OldestEvery: 1}
	typed := workqueue.NewTyped[string]()
	const beside = "workqueue: Order has no effect in a config with Queue"
	rows := []struct {
		call func()
		want string
	}{
		{func() { newOrdered(workqueue.Order[string]{OldestEvery: -1}) }, "workqueue: Order.OldestEvery is negative: -1"},
		{func() { newOrdered(workqueue.Order[string]{Weight: number}) }, "workqueue: Order.Weight has no effect without Order.Group"},
		{func() { newOrdered(workqueue.Order[string]{MaxInFlight: number}) }, "workqueue: Order.MaxInFlight has no effect without Order.Group"},
		{func() { newOrdered(workqueue.Order[string]{GroupsFirst: true}) }, "workqueue: Order.GroupsFirst has no effect without Order.Group"},
		{func() {
			workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: ordered, Queue: workqueue.DefaultQueue[string]()})
		}, beside},
		{func() {
			workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Order: ordered, Queue: typed})
		}, beside},
		{func() {
			workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[string]{Order: ordered, Queue: typed})
		}, beside},
	}
	for _, o := range []workqueue.Order[string]{
		{Priority: number}, {Group: byLetter(nil, nil).Group}, {Weight: number}, {MaxInFlight: number}, {GroupsFirst: true},
	} {
		rows = append(rows, struct {
			call func()
			want string
		}{func() { workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Order: o, Queue: typed}) }, beside})
	}
	for _, row := range rows {
		if got := goes(row.call); got != row.want {
			t.Errorf("got the panic %v, want %s", got, row.want)
		}
	}
}

// Lanes, levels and groups that were in use once leave nothing, whether their items were
// handed out or removed.
func TestBurstOfLanesLeavesNothing(t *testing.T) {
	t.Parallel()
	n := rounds(20_000)
	for name, order := range map[string]workqueue.Order[string]{
		"priorities":   {OldestEvery: 10},
		"groups":       {Group: strings.Clone},
		"groups first": {Group: strings.Clone, GroupsFirst: true, OldestEvery: 3},
	} {
		for _, removes := range []bool{false, true} {
			q := newOrdered(order)
			for i := range n {
				q.AddWith(workqueue.AddOptions{Priority: prio(i * 7919 % n)}, fmt.Sprint(i))
			}
			for i := range n {
				if removes {
					q.Remove(fmt.Sprint(i))
				} else {
					q.Done(first(q.Get()))
				}
			}
			if lanes, levels, groups := q.Lanes(); lanes > 30 || levels > 30 || groups != 0 {
				t.Errorf("%s, removed: %v: %d lanes, %d levels and %d groups are left", name, removes, lanes, levels, groups)
			}
			checkInvariants(t, 0, q)
		}
	}
}

// A queue that gives memory back between the adds and the hand-outs hands out in the same order as a
// queue that does not. The items that one of the two queues loses were never handed out.
func TestOrderWhileTheQueueShrinks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds(40)) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		order := workqueue.Order[int]{OldestEvery: rnd.IntN(4)}
		if rnd.IntN(2) == 0 {
			order.Group = func(item int) string { return fmt.Sprint(item % 3) }
			order.Weight = func(group string) int { return 1 + len(group) }
			order.GroupsFirst = rnd.IntN(2) == 0
			if rnd.IntN(2) == 0 {
				order.MaxInFlight = func(string) int { return 2 }
			}
		}
		const real = 200
		shrunk, plain := newPrioritized(order), newPrioritized(order)
		both := func(do func(q *workqueue.Typed[int])) {
			do(shrunk)
			do(plain)
		}
		add := func(items int) {
			for range items {
				item, priority := rnd.IntN(real), rnd.IntN(4)
				both(func(q *workqueue.Typed[int]) { addAt(q, priority, item) })
			}
		}
		add(50)
		var held []int
		for range 5 {
			item, ok := plain.TryGet()
			if other, _ := shrunk.TryGet(); other != item {
				t.Fatalf("seed %d: got %d and %d", seed, other, item)
			}
			if ok {
				held = append(held, item)
			}
		}
		add(50)
		levels := 50
		if seed%2 == 1 {
			levels = 1000 // So many lanes that lanes get new ids.
		}
		for item := range 5000 {
			addAt(shrunk, item%levels-levels+10, real+item) // Level by level goes before the others.
		}
		add(50)
		for _, item := range held {
			both(func(q *workqueue.Typed[int]) { addAt(q, 10, item) })
		}
		for i := range 5000 {
			shrunk.Remove(real + i%100*50 + i/100)
		}
		for item := range 3 { // Of priorities that metrics name.
			both(func(q *workqueue.Typed[int]) { addAt(q, item-levels+10, 10*real+item) })
		}
		add(50)
		both(func(q *workqueue.Typed[int]) {
			for _, item := range held {
				q.Done(item)
			}
		})
		if got, want := takeRanked(shrunk), takeRanked(plain); !slices.Equal(got, want) {
			t.Errorf("seed %d: got %v, want %v", seed, got, want)
		}
		both((*workqueue.Typed[int]).ShutDown)
	}
}

// A tenantJob is a job of a tenant. Tenants whose names begin with "paid" pay.
type tenantJob struct {
	tenant string
	n      int
}

func (j tenantJob) pays() bool { return strings.HasPrefix(j.tenant, "paid") }

func tenantOfJob(j tenantJob) string { return j.tenant }

func threeForEach(string) int { return 3 }

func payingFirst(j tenantJob) int {
	if j.pays() {
		return 1
	}
	return 0
}

// payingMore returns a Weight for those who pay.
func payingMore(weight int) func(tenant string) int {
	return func(tenant string) int {
		if strings.HasPrefix(tenant, "paid") {
			return weight
		}
		return 1
	}
}

// playTenants returns the sorted waits of the jobs that 8 workers have begun until the end, of those who pay and of
// those who do not. A job takes 0.1 s. own is the number of workers of a second queue, for those who do not pay. tick is
// called 30 times a second, to add jobs.
func playTenants(t *testing.T, end time.Duration, own int, order workqueue.Order[tenantJob], tick func(n int, add func(tenant string, n int))) (paid, free []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		added := map[tenantJob]time.Time{}
		ctx, stop := context.WithTimeout(t.Context(), end)
		defer stop()
		handle := func(_ context.Context, j tenantJob) error {
			mu.Lock()
			wait := time.Since(added[j])
			if j.pays() {
				paid = append(paid, wait)
			} else {
				free = append(free, wait)
			}
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			return nil
		}
		var wg sync.WaitGroup
		open := func(workers int) *workqueue.TypedRateLimiting[tenantJob] {
			q := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[tenantJob]{Order: order})
			wg.Go(func() { workqueue.Run(ctx, q, handle, workqueue.RunOptions[tenantJob]{Workers: workers}) })
			return q
		}
		forPaid := open(8 - own)
		forFree := forPaid
		if own > 0 {
			forFree = open(own)
		}
		for n := 0; ctx.Err() == nil; n++ {
			tick(n, func(tenant string, n int) {
				j := tenantJob{tenant, n}
				mu.Lock()
				added[j] = time.Now()
				mu.Unlock()
				if j.pays() {
					forPaid.Add(j)
				} else {
					forFree.Add(j)
				}
			})
			time.Sleep(time.Second / 30)
		}
		wg.Wait()
	})
	slices.Sort(paid)
	slices.Sort(free)
	return paid, free
}

// Four tenants pay, and add 120 jobs a second for half a minute, half more than 8 workers do in that time. Another
// does not pay, and adds 4 a second. A tenant has 3 jobs at work at most. docs/choosing.md has the figures.
func TestTenantsWhoPay(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		order workqueue.Order[tenantJob]
		own   int           // workers of a queue for those who do not pay; 0 is one queue for all
		free  [2]int        // jobs done of the tenant who does not pay: at least, and at most
		wait  time.Duration // the median of their waits at most
		paid  [2]int
	}{
		{"Priority", workqueue.Order[tenantJob]{Group: tenantOfJob, MaxInFlight: threeForEach, Priority: payingFirst}, 0, [2]int{0, 3}, time.Second, [2]int{2380, 2420}},
		{"Priority and OldestEvery", workqueue.Order[tenantJob]{Group: tenantOfJob, MaxInFlight: threeForEach, Priority: payingFirst, OldestEvery: 4}, 0,
			[2]int{60, 85}, 6 * time.Second, [2]int{2300, 2350}},
		{"Weight and GroupsFirst", workqueue.Order[tenantJob]{Group: tenantOfJob, MaxInFlight: threeForEach, Weight: payingMore(4), GroupsFirst: true}, 0,
			[2]int{111, 113}, 200 * time.Millisecond, [2]int{2270, 2310}},
		{"two queues", workqueue.Order[tenantJob]{Group: tenantOfJob, MaxInFlight: threeForEach}, 2, [2]int{112, 113}, 50 * time.Millisecond, [2]int{1790, 1810}},
	} {
		paid, free := playTenants(t, 30*time.Second, row.own, row.order, func(n int, add func(string, int)) {
			for k := range 4 {
				add(fmt.Sprint("paid", k), n)
			}
			if n%8 == 0 {
				add("free", n)
			}
		})
		median := time.Duration(0)
		if len(free) > 0 {
			median = free[len(free)/2]
		}
		t.Logf("%s: %d of 113 jobs after %v, and %d of those who pay", row.name, len(free), median, len(paid))
		if len(free) < row.free[0] || len(free) > row.free[1] || median > row.wait || len(paid) < row.paid[0] || len(paid) > row.paid[1] {
			t.Errorf("%s: want %v jobs after at most %v, and %v of those who pay", row.name, row.free, row.wait, row.paid)
		}
	}
}

// 3 tenants pay, and add 60 jobs a second together. 300 others have 3 jobs each, all queued at the begin. With
// turns, one who pays waits for a turn of each other tenant. docs/choosing.md has the figures.
func TestFewTenantsWhoPay(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		order workqueue.Order[tenantJob]
		paid  [2]int        // jobs done, of 600: at least, and at most
		wait  time.Duration // the longest, at most
		free  [2]int
	}{
		{"Priority and OldestEvery", workqueue.Order[tenantJob]{Group: tenantOfJob, MaxInFlight: threeForEach, Priority: payingFirst, OldestEvery: 4},
			[2]int{590, 602}, 300 * time.Millisecond, [2]int{195, 215}},
		{"Weight 4 and GroupsFirst", workqueue.Order[tenantJob]{Group: tenantOfJob, MaxInFlight: threeForEach, Weight: payingMore(4), GroupsFirst: true},
			[2]int{20, 40}, 9 * time.Second, [2]int{760, 800}},
		{"Weight 100 and GroupsFirst", workqueue.Order[tenantJob]{Group: tenantOfJob, MaxInFlight: threeForEach, Weight: payingMore(100), GroupsFirst: true},
			[2]int{280, 320}, 5 * time.Second, [2]int{480, 520}},
	} {
		paid, free := playTenants(t, 10*time.Second, 0, row.order, func(n int, add func(string, int)) {
			if n == 0 {
				for k := range 300 {
					for i := range 3 {
						add(fmt.Sprint("free", k), i)
					}
				}
			}
			for i := range 2 {
				add(fmt.Sprint("paid", (2*n+i)%3), 2*n+i)
			}
		})
		longest := paid[len(paid)-1]
		t.Logf("%s: %d of 600 jobs of those who pay, after %v at most, and %d of the others", row.name, len(paid), longest, len(free))
		if len(paid) < row.paid[0] || len(paid) > row.paid[1] || longest > row.wait || len(free) < row.free[0] || len(free) > row.free[1] {
			t.Errorf("%s: want %v jobs of those who pay after at most %v, and %v of the others", row.name, row.paid, row.wait, row.free)
		}
	}
}
