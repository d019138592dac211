package workqueue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
	testingclock "k8s.io/utils/clock/testing"
)

// With OneEntry a delayed add of an item that is queued, or will be by its Done, does
// not make it wait. Its priority counts all the same: a retry that somebody asked for
// urgently must not stand behind the initial list.
func TestDelayedAddRaisesTheOneEntry(t *testing.T) {
	calls := map[string]struct {
		call func(q *workqueue.TypedDelaying[string])
		want int
	}{
		"AddWith 5": {func(q *workqueue.TypedDelaying[string]) {
			q.AddWith(workqueue.AddOptions{After: time.Hour, Priority: 5}, "a")
		}, 5},
		"AddWith -200": {func(q *workqueue.TypedDelaying[string]) {
			q.AddWith(workqueue.AddOptions{After: time.Hour, Priority: -200}, "a")
		}, -100},
		"AddAfter": {func(q *workqueue.TypedDelaying[string]) { q.AddAfter("a", time.Hour) }, 0},
		"Debounce": {func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", time.Hour, 0) }, 0},
	}
	orders := map[string]func() workqueue.Queue[string]{
		"levels":  func() workqueue.Queue[string] { return workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{}) },
		"foreign": func() workqueue.Queue[string] { return &sorted{} },
	}
	for order, open := range orders {
		for name, c := range calls {
			for _, held := range []bool{false, true} {
				t.Run(fmt.Sprint(order, "/", name, "/held=", held), func(t *testing.T) {
					q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
						OneEntry: true, Order: open(), Clock: testingclock.NewFakeClock(epoch),
					})
					defer q.ShutDown()
					if held {
						q.Add("a")
						q.Get()
					}
					q.AddWith(workqueue.AddOptions{Priority: -100}, "a")
					c.call(q)
					if s := q.Snapshot(1); s.WaitingTotal != 0 {
						t.Errorf("it waits: %v", s)
					}
					if held {
						q.Done("a")
					}
					if _, priority, _ := q.GetWithPriority(); priority != c.want {
						t.Errorf("its priority is %d, want %d", priority, c.want)
					}
				})
			}
		}
	}
}

// sorted is a foreign order with priorities: a list that is searched.
type sorted struct {
	items      []string
	priorities []int
}

func (s *sorted) Push(item string)  { s.PushWithPriority(item, 0) }
func (s *sorted) Touch(item string) { s.TouchWithPriority(item, 0) }
func (s *sorted) Len() int          { return len(s.items) }
func (s *sorted) Pop() string       { item, _ := s.PopWithPriority(); return item }

func (s *sorted) PushWithPriority(item string, priority int) {
	s.items, s.priorities = append(s.items, item), append(s.priorities, priority)
}

func (s *sorted) TouchWithPriority(item string, priority int) {
	for i, other := range s.items {
		if other == item {
			s.priorities[i] = max(s.priorities[i], priority)
		}
	}
}

func (s *sorted) PopWithPriority() (item string, priority int) {
	first := 0
	for i, p := range s.priorities {
		if p > s.priorities[first] {
			first = i
		}
	}
	item, priority = s.items[first], s.priorities[first]
	s.items = append(s.items[:first], s.items[first+1:]...)
	s.priorities = append(s.priorities[:first], s.priorities[first+1:]...)
	return item, priority
}
