package workqueue_test

import (
	"maps"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// The depths of the levels are those that a reader of the queue expects, and their sum
// is the depth.
func TestDepthByPriority(t *testing.T) {
	r := &reader{}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name: "q", MetricsProvider: r, Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{}),
	})
	defer q.ShutDown()
	with := func(priority int, items ...string) { q.AddWith(workqueue.AddOptions{Priority: priority}, items...) }
	want := func(what string, want map[int]int) {
		t.Helper()
		s, _ := r.reads[0]()
		if !maps.Equal(s.DepthByPriority, want) {
			t.Errorf("%s: %v, want %v", what, s.DepthByPriority, want)
		}
		sum := 0
		for _, n := range s.DepthByPriority {
			sum += n
		}
		if sum != s.Depth {
			t.Errorf("%s: the sum is %d, the depth %d", what, sum, s.Depth)
		}
	}
	want("empty", map[int]int{})
	with(-100, "a", "b", "c")
	q.Add("d")
	want("two levels", map[int]int{-100: 3, 0: 1})
	with(7, "b")
	want("one raised", map[int]int{-100: 2, 0: 1, 7: 1})
	q.Get()
	want("one held", map[int]int{-100: 2, 0: 1})
	with(9, "b")
	want("one held and added again", map[int]int{-100: 2, 0: 1, 9: 1})
	with(11, "b")
	want("and again", map[int]int{-100: 2, 0: 1, 11: 1})
	q.Done("b")
	want("and done", map[int]int{-100: 2, 0: 1, 11: 1})
	q.Remove("a")
	want("one removed", map[int]int{-100: 1, 0: 1, 11: 1})
	for range 3 {
		item, _ := q.Get()
		q.Done(item)
	}
	want("empty again", map[int]int{})
}

// A queue whose order knows no priorities has no depths by them.
func TestNoDepthByPriority(t *testing.T) {
	for name, order := range map[string]workqueue.Queue[string]{"none": nil, "of another make": workqueue.DefaultQueue[string]()} {
		r := &reader{}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r, Order: order})
		q.Add("a")
		if s, _ := r.reads[0](); s.DepthByPriority != nil || s.Depth != 1 {
			t.Errorf("order %s: %v", name, s.DepthByPriority)
		}
		q.ShutDown()
	}
}
