package workqueue_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
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

func TestHighestPriorityFirstAndFIFOWithin(t *testing.T) {
	q := newPrioritized(workqueue.Order[int]{})
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

// Whatever is added meanwhile: of any n hand-outs in a row one is that of the oldest.
func TestOldestEveryHoldsForRandomAdds(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	for _, every := range []int{1, 2, 5, 9} {
		q := newPrioritized(workqueue.Order[int]{OldestEvery: every})
		var queued []int // the oldest first, where a raise makes an item the youngest
		priorities := make(map[int]int)
		since := 0
		for n := range rounds(20_000) {
			if rnd.IntN(2) == 0 || len(queued) == 0 {
				priorities[n] = 1 + rnd.IntN(5)
				addAt(q, priorities[n], n)
				queued = append(queued, n)
			}
			if rnd.IntN(3) == 0 {
				item, priority := queued[rnd.IntN(len(queued))], 1+rnd.IntN(9)
				addAt(q, priority, item)
				if priority > priorities[item] {
					priorities[item] = priority
					queued = append(slices.DeleteFunc(queued, func(i int) bool { return i == item }), item)
				}
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
			queued = slices.DeleteFunc(queued, func(i int) bool { return i == item })
		}
		checkInvariants(t, every, q)
		q.ShutDown()
	}
}

func TestOfGivesThePriorityOfPlainAdds(t *testing.T) {
	boost := 0
	q := newPrioritized(workqueue.Order[int]{Priority: func(item int) int { return item%10 + boost }})
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

// A named priority takes the place of that of the function for an item that is queued or
// held, too.
func TestNamedPriorityRaisesAboveThatOfTheFunction(t *testing.T) {
	q := newPrioritized(workqueue.Order[int]{Priority: func(item int) int { return item % 10 }})
	defer q.ShutDown()
	q.AddAll(11, 12)
	addAt(q, 8, 11)
	if item, priority := getRanked(q); item != 11 || priority != 8 {
		t.Errorf("got %d@%d, want 11@8", item, priority)
	}
	addAt(q, 7, 11)
	q.Done(11)
	if got, want := takeRanked(q), []string{"11@7", "12@2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
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

func TestGroupsTakeTurns(t *testing.T) {
	for name, row := range map[string]struct {
		order workqueue.Order[string]
		want  string
	}{
		"equal":    {byLetter(nil, nil), "[c1 a1 b1 a2 a3 a4 a5]"},
		"weighted": {byLetter(map[string]int{"a": 3}, nil), "[c1 a1 a2 a3 b1 a4 a5]"},
		"groups first": {workqueue.Order[string]{Group: byLetter(nil, nil).Group, GroupsFirst: true},
			"[a1 b1 c1 a2 a3 a4 a5]"},
	} {
		q := newOrdered(row.order)
		q.AddAll("a1", "a2", "a3", "a4", "a5", "b1")
		q.AddWith(workqueue.AddOptions{Priority: prio(1)}, "c1")
		if got := fmt.Sprint(takeAll(q)); got != row.want {
			t.Errorf("%s: got %s, want %s", name, got, row.want)
		}
		checkInvariants(t, 0, q)
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

// A group that has reached its limit is passed over, at every priority, until a Done. An
// item that is removed while it is held goes on to count.
func TestMaxInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newOrdered(byLetter(nil, map[string]int{"a": 2}))
		for i := range 5 {
			q.AddWith(workqueue.AddOptions{Priority: prio(i)}, fmt.Sprint("a", i))
		}
		q.Add("b")
		var got []string
		for item, ok := q.TryGet(); ok; item, ok = q.TryGet() {
			got = append(got, item)
		}
		if fmt.Sprint(got) != "[a4 a3 b]" {
			t.Errorf("got %v", got)
		}
		q.Remove("a4")
		var next string
		go func() { next, _ = q.Get() }()
		synctest.Wait()
		if next != "" {
			t.Errorf("got %s of a full group", next)
		}
		q.Done("a3")
		synctest.Wait()
		if next != "a2" {
			t.Errorf("got %q after a Done", next)
		}
		checkInvariants(t, 0, q)
	})
}

// A limit that an add raises wakes workers, also an add that changes nothing else.
func TestRaisedMaxInFlightWakesWorkers(t *testing.T) {
	for _, again := range []string{"a1", "a2", "a3"} {
		synctest.Test(t, func(t *testing.T) {
			limits := map[string]int{"a": 1}
			q := newOrdered(byLetter(nil, limits))
			q.AddAll("a1", "a2")
			first(q.Get())
			next := ""
			go func() { next, _ = q.Get() }()
			synctest.Wait()
			limits["a"] = 2
			q.Add(again)
			synctest.Wait()
			if next != "a2" {
				t.Errorf("after an add of %s: got %q", again, next)
			}
			checkInvariants(t, 0, q)
		})
	}
}

// An Add that ends the wait of its item with OneEntry says the limit of the group, and a wait that ends
// later does not change the limit.
func TestAddThatEndsAWaitSaysTheLimitOfItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := 1
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{OneEntry: true, Order: workqueue.Order[string]{
			Group:       func(string) string { return "g" },
			MaxInFlight: func(string) int { return limit },
		}})
		defer q.ShutDown()
		q.AddAfter("added", time.Hour)
		q.AddAfter("due", time.Minute)
		limit = 2
		q.Add("added")
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, want := range []string{"added", "due"} {
			if got, ok := q.TryGet(); got != want || !ok {
				t.Errorf("got %q, %v, want %q", got, ok, want)
			}
		}
	})
}

// A queued or waiting item keeps its group, the next hand-out of a held item takes the new
// one, and Done counts down the group that the item was taken from.
func TestChangedGroupHoldsFromTheNextAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := "old"
		order := workqueue.Order[string]{
			Group:       func(item string) string { return group },
			MaxInFlight: func(string) int { return 1 },
		}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Order: order})
		defer q.ShutDown()
		q.AddAll("held", "queued")
		q.AddAfter("waiting", time.Second)
		q.TryGet()
		group = "new"
		q.AddAll("held", "queued")
		q.AddAfter("waiting", time.Hour)
		time.Sleep(2 * time.Second)
		if item, ok := q.TryGet(); ok {
			t.Errorf("got %s, and its group is full", item)
		}
		q.Done("held") // Frees the old group, and is queued in the new one.
		got := []string{first(q.TryGet()), first(q.TryGet()), first(q.TryGet())}
		slices.Sort(got)
		if fmt.Sprint(got) != "[ held queued]" {
			t.Errorf("got %q, want one item of each group", got)
		}
		checkInvariants(t, 0, q)
	})
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
		`workqueue: Order.Weight is 0 for group "b", and has to be 1 at least`: byLetterFailing("b", 0, 0),
		`workqueue: Order.MaxInFlight is negative for group "b": -1`:           byLetterFailing("b", 1, -1),
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

func byLetterFailing(group string, weight, limit int) workqueue.Order[string] {
	answer := func(bad, good int) func(string) int {
		return func(g string) int {
			if g == group {
				return bad
			}
			return good
		}
	}
	return workqueue.Order[string]{Group: byLetter(nil, nil).Group, Weight: answer(weight, 1), MaxInFlight: answer(limit, 0)}
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

// A shutdown is reported while only items of full groups are left, and a drain waits for
// whoever holds the groups.
func TestShutDownWithItemsOfFullGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newOrdered(byLetter(nil, map[string]int{"a": 1}))
		q.AddAll("a1", "a2")
		held, _ := q.Get()
		drained := make(chan error, 1)
		go func() { drained <- q.Drain(t.Context()) }()
		synctest.Wait()
		if _, err := q.GetContext(t.Context()); !errors.Is(err, workqueue.ErrShutDown) {
			t.Errorf("got %v with an item that nobody may have", err)
		}
		if len(drained) > 0 {
			t.Error("the drain has ended")
		}
		q.Done(held)
		if item, _ := q.Get(); item != "a2" {
			t.Errorf("got %q after the Done", item)
		}
		q.Done("a2")
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

// What a wait knew of its group when it began does not undo what later adds have said.
func TestEndOfAWaitKeepsTheLimitOfLaterAdds(t *testing.T) {
	for name, oneEntry := range map[string]bool{"two entries": false, "one entry": true} {
		synctest.Test(t, func(t *testing.T) {
			limits := map[string]int{"a": 1}
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Order: byLetter(nil, limits), OneEntry: oneEntry})
			defer q.ShutDown()
			q.AddAfter("a1", time.Hour)
			q.AddAfter("a2", time.Hour)
			q.AddAfter("a3", time.Hour)
			limits["a"] = 2
			q.AddAll("a1", "a4")
			time.Sleep(2 * time.Hour)
			var got []string
			for item, ok := q.TryGet(); ok; item, ok = q.TryGet() {
				got = append(got, item)
			}
			if len(got) != 2 {
				t.Errorf("%s: got %v, want two items, as the last adds allow", name, got)
			}
			checkInvariants(t, 0, q)
		})
	}
}

// An item that is put back while an urgent add of it has come is as urgent as that.
func TestPutBackKeepsTheUrgencyOfAnAddMeanwhile(t *testing.T) {
	metrics := &recorder{}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: metrics})
	q.Add("a")
	metrics.setHook(func(event string) {
		if strings.HasPrefix(event, "latency") { // a is handed out.
			metrics.setHook(nil)
			q.AddWith(workqueue.AddOptions{Priority: prio(5)}, "b")
			q.AddWith(workqueue.AddOptions{Priority: prio(10)}, "a")
			panic("metric")
		}
	})
	goes(func() { q.Get() })
	checkInvariants(t, 0, q)
	if item, priority := getRanked(q); item != "a" || priority != 10 {
		t.Errorf("got %s with %d, want a with 10", item, priority)
	}
}

// An item that is put back is the neighbour of the item that was the first meanwhile.
func TestRemoveBehindAnItemThatWasPutBack(t *testing.T) {
	group := func(string) string { return "" }
	for name, order := range map[string]workqueue.Order[string]{
		"in order":     {},
		"oldest first": {OldestEvery: 1},
		"of a group":   {Group: group},
		"with a limit": {Group: group, MaxInFlight: func(string) int { return 1 }},
	} {
		metrics := &recorder{}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: metrics, Order: order})
		q.AddAll("z", "a", "b", "c")
		q.Done(first(q.Get())) // The places of the records differ from those of the items.
		metrics.setHook(func(event string) {
			if strings.HasPrefix(event, "latency") {
				metrics.setHook(nil)
				panic("metric")
			}
		})
		goes(func() { q.Get() })
		q.Remove("b")
		checkInvariants(t, 0, q)
		if got := takeAll(q); !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("%s: got %v, want a and c", name, got)
		}
	}
}

// The first priority may come with the add of an item that is held.
func TestFirstPriorityOfAHeldItem(t *testing.T) {
	q := workqueue.NewTyped[string]()
	q.AddAll("a", "b")
	q.Get()
	q.AddWith(workqueue.AddOptions{Priority: prio(1)}, "a")
	checkInvariants(t, 0, q)
	q.Done("a")
	if got := fmt.Sprint(takeAll(q)); got != "[a b]" {
		t.Errorf("got %s, want a before b", got)
	}
	checkInvariants(t, 1, q)
}

// A group that is raised, and has no other item, does not lose its turn.
func TestRaiseKeepsTheTurnOfItsGroup(t *testing.T) {
	order := byLetter(map[string]int{"a": 2}, nil)
	order.GroupsFirst = true
	q := newOrdered(order)
	q.AddAll("a1", "a2", "b1")
	q.Done(first(q.Get())) // The turn of a has one more.
	q.AddWith(workqueue.AddOptions{Priority: prio(5)}, "a2")
	if got := fmt.Sprint(takeAll(q)); got != "[a2 b1]" {
		t.Errorf("got %s, want a2 before b1", got)
	}
	checkInvariants(t, 0, q)
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

// Of two adds with the same priority the first counts. ItemInfo notes which add that was.
func TestOfEqualPrioritiesTheFirstAddCounts(t *testing.T) {
	named := func(q *workqueue.TypedDelaying[string], after time.Duration) {
		q.AddWith(workqueue.AddOptions{Priority: prio(5), After: after}, "a")
	}
	plain := func(q *workqueue.TypedDelaying[string], after time.Duration) { q.AddAfter("a", after) }
	for name, prepare := range map[string]func(q *workqueue.TypedDelaying[string]) (first, second time.Duration){
		"queued":         func(q *workqueue.TypedDelaying[string]) (_, _ time.Duration) { return 0, 0 },
		"waiting":        func(q *workqueue.TypedDelaying[string]) (_, _ time.Duration) { return time.Hour, time.Minute },
		"end of a wait":  func(q *workqueue.TypedDelaying[string]) (_, _ time.Duration) { return time.Hour, 0 },
		"held and added": func(q *workqueue.TypedDelaying[string]) (_, _ time.Duration) { q.Add("a"); q.Get(); return 0, 0 },
	} {
		for i, adds := range [][2]func(*workqueue.TypedDelaying[string], time.Duration){{named, plain}, {plain, named}} {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
				Order: workqueue.Order[string]{Priority: func(string) int { return 5 }}, OneEntry: true,
			})
			first, second := prepare(q)
			adds[0](q, first)
			adds[1](q, second)
			s := q.Snapshot(1)
			for _, info := range slices.Concat(s.Queued, s.Waiting, s.InFlight) {
				if info.Priority != 5 || info.PriorityNamed() != (i == 0) {
					t.Errorf("%s, the named one as number %d: got %+v", name, i+1, info)
				}
			}
			q.ShutDown()
		}
	}
}

// A waiting item with a named priority is raised by an add that names none. The higher priority is
// then the one that counts, and nobody has named it.
func TestARaiseWithoutANameEndsTheName(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
		Order: workqueue.Order[string]{Priority: func(string) int { return 5 }},
	})
	defer q.ShutDown()
	q.AddWith(workqueue.AddOptions{Priority: prio(1), After: time.Hour}, "a")
	q.AddAfter("a", time.Hour)
	if info := q.Snapshot(1).Waiting[0]; info.Priority != 5 || info.PriorityNamed() {
		t.Errorf("got %+v, want the priority 5, which nobody has named", info)
	}
}

// A queue that gives memory back between the adds and the hand-outs hands out in the same order as a
// queue that does not. The items that one of the two queues loses were never handed out.
func TestOrderWhileTheQueueShrinks(t *testing.T) {
	for seed := range uint64(40) {
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
