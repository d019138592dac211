package workqueue_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A foreign order below a queue that a provider reads: a panic in the constructor once.
func TestForeignOrderBelowAQueueThatIsRead(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{})
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
		Name: "q", MetricsProvider: p, Clock: clock, Order: workqueue.DefaultQueue[string](),
	})
	q.Add("a")
	q.AddAfter("b", time.Second)
	clock.Step(500 * time.Millisecond)
	for _, want := range []string{`depth{name="q"} 1`, `waiting{name="q"} 1`, `oldest_item_age_seconds{name="q"} 0.5`} {
		if got := scrape(t, r); !slices.Contains(got, want) {
			t.Errorf("got %q, want %s", got, want)
		}
	}
	q.ShutDown()
}

// Items that become due at the same time enter their level in the order in which they
// were to wait, and those of different times in the order of these.
func TestDueItemsEnterTheirLevelInTheOrderOfTheirTimes(t *testing.T) {
	for _, apart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			clock := testingclock.NewFakeClock(epoch)
			order := workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{})
			config := workqueue.TypedDelayingQueueConfig[int]{Clock: clock, Order: order}
			if apart {
				config.Order, config.Queue = nil, struct{ *workqueue.Typed[int] }{
					workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Order: order})}
			}
			q := workqueue.NewTypedDelaying(config)
			after := func(seconds, priority int, items ...int) {
				q.AddWith(workqueue.AddOptions{After: time.Duration(seconds) * time.Second, Priority: priority}, items...)
			}
			after(3, 1, 1, 2)
			after(2, 1, 3)
			after(3, 2, 4)
			after(1, 2, 5)
			after(1, -1, 6)
			after(2, 1, 1) // Earlier, and so behind 3.
			synctest.Wait()
			clock.Step(5 * time.Second)
			synctest.Wait()
			if got, want := takeAllOf(q), []int{5, 4, 3, 1, 2, 6}; !slices.Equal(got, want) {
				t.Errorf("apart %v: got %v, want %v", apart, got, want)
			}
			q.ShutDown()
		})
	}
}

// Of is asked when an item begins to wait, by the caller, whom a panic reaches with
// nothing changed. So what is due later calls no foreign code with the locks held.
func TestOfIsAskedWhenAnItemBeginsToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := testingclock.NewFakeClock(epoch)
		asked, failing := 0, false
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
			Clock: clock,
			Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Of: func(item int) int {
				if asked++; failing {
					panic("of")
				}
				return item
			}}),
		})
		defer q.ShutDown()
		q.AddAfter(1, time.Second)
		q.Debounce(2, time.Second, time.Hour)
		q.Reschedule(3, time.Second)
		failing = true
		for name, f := range map[string]func(){
			"AddAfter":   func() { q.AddAfter(4, time.Second) },
			"Debounce":   func() { q.Debounce(5, time.Second, 0) },
			"Reschedule": func() { q.Reschedule(6, time.Second) },
		} {
			if got := goes(f); got != "of" {
				t.Errorf("%s: got the panic %v, want that of Of", name, got)
			}
		}
		synctest.Wait()
		clock.Step(time.Second)
		synctest.Wait()
		if got := takeAllOf(q); !slices.Equal(got, []int{3, 2, 1}) || asked != 6 {
			t.Errorf("got %v, asked %d times, want 3, 2, 1 and 6", got, asked)
		}
	})
}

// Of the priorities of a wait and of the add that ends it the higher one counts, also below
// 0, which a plain Add has. A call that moves the wait names none.
func TestPriorityOfAWaitBelowZero(t *testing.T) {
	for name, tt := range map[string]struct {
		f    func(q *workqueue.TypedDelaying[string])
		want int
	}{
		"Add":                  {func(q *workqueue.TypedDelaying[string]) { q.Add("a") }, 0},
		"AddWith":              {func(q *workqueue.TypedDelaying[string]) { q.AddWith(workqueue.AddOptions{Priority: -6}, "a") }, -4},
		"AddAfter":             {func(q *workqueue.TypedDelaying[string]) { q.AddAfter("a", 0) }, 0},
		"AddAfter and queued":  {func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", 0); q.AddAfter("a", time.Hour) }, 0},
		"Reschedule":           {func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", 0) }, -4},
		"Debounce":             {func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 0, 0) }, -4},
		"Reschedule, not due":  {func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", 1); time.Sleep(time.Nanosecond) }, -4},
		"Reschedule, no entry": {func(q *workqueue.TypedDelaying[string]) { q.Remove("a"); q.Reschedule("a", 0) }, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
				OneEntry: true, Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{}),
			})
			q.AddWith(workqueue.AddOptions{Priority: -4, After: time.Minute}, "a")
			tt.f(q)
			synctest.Wait()
			if item, priority, _ := q.GetWithPriority(); item != "a" || priority != tt.want {
				t.Errorf("%s: got %s with the priority %d, want a with %d", name, item, priority, tt.want)
			}
			q.Done("a")
			q.ShutDown()
		})
	}
}

// Items that wait keep their priorities when the memory of others is given back.
func TestPrioritiesOfWaitsOutliveABurst(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
		Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{}),
	})
	defer q.ShutDown()
	const many, each = 4000, 100
	for item := range many {
		q.AddWith(workqueue.AddOptions{After: time.Hour, Priority: 1 + item/each}, item)
	}
	for item := range many {
		if item%each != 0 {
			q.Remove(item)
		}
	}
	s := q.Snapshot(many)
	if s.WaitingTotal != many/each {
		t.Errorf("%d items wait, want %d", s.WaitingTotal, many/each)
	}
	for _, info := range s.Waiting {
		if want := 1 + info.Item/each; info.Priority != want {
			t.Errorf("%d waits with the priority %d, want %d", info.Item, info.Priority, want)
		}
	}
}

// The priority of one item that waits is not that of others, however many there are before
// it, and whatever comes in the place of one of them.
func TestOneItemOfManyThatWaitHasAPriority(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
		Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{}),
	})
	defer q.ShutDown()
	const many = 200
	for item := range many {
		q.AddAfter(item, time.Hour)
	}
	q.AddWith(workqueue.AddOptions{After: time.Hour, Priority: 7}, many)
	q.Remove(0)
	q.AddAfter(0, time.Hour)
	for _, info := range q.Snapshot(many + 1).Waiting {
		if want := info.Item / many * 7; info.Priority != want {
			t.Errorf("%d waits with the priority %d, want %d", info.Item, info.Priority, want)
		}
	}
}
