package workqueue_test

import (
	"fmt"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// The depths are those of the groups, whatever the queue goes through, and no more than
// 26 of them: a cluster may have more tenants than a metrics store bears.
func TestDepthByGroup(t *testing.T) {
	r := &reader{}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name: "q", MetricsProvider: r, Order: newFair(nil, map[string]int{"a": 1}),
	})
	defer q.ShutDown()
	want := func(what, want string) {
		t.Helper()
		s, _ := r.reads[0]()
		if got := fmt.Sprint(s.DepthByGroup); got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
	want("empty", "[]")
	q.AddAll("b/1", "a/1", "a/2")
	want("two groups", "[{a 1 2 0} {b 1 1 0}]")
	q.Get()
	q.Get()
	want("both held", "[{a 1 1 1} {b 1 0 1}]")
	q.Done("b/1")
	q.Done("a/1")
	want("one is done", "[{a 1 1 0}]")
	for tenant := range 40 {
		q.AddAll(keysOf(fmt.Sprint("t", tenant), 1+tenant)...)
	}
	s, _ := r.reads[0]()
	if n := len(s.DepthByGroup); n != 26 {
		t.Fatalf("%d groups are told of", n)
	}
	sum, groups := 0, 0
	for i, d := range s.DepthByGroup {
		sum += d.Queued
		groups += d.Groups
		if named := fmt.Sprint("t", 39-i); i < 25 && (d.Group != named || d.Queued != 40-i) {
			t.Errorf("at %d: %v, want %s with %d", i, d, named, 40-i)
		}
	}
	if last := s.DepthByGroup[25]; last.Group != nil || last.Groups != 16 || sum != s.Depth || groups != 41 {
		t.Errorf("others: %v; the sum is %d of %d", last, sum, s.Depth)
	}
}

// One group more than have a name is told of as the others, with what is held.
func TestDepthOfTheOtherGroups(t *testing.T) {
	r := &reader{}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name: "q", MetricsProvider: r, Order: newFair(nil, map[string]int{}),
	})
	defer q.ShutDown()
	q.Add("least/1")
	q.Get()
	for tenant := range 25 {
		q.AddAll(keysOf(fmt.Sprint("t", tenant), 2)...)
	}
	s, _ := r.reads[0]()
	if n := len(s.DepthByGroup); n != 26 {
		t.Fatalf("got %d groups: %v", n, s.DepthByGroup)
	}
	if got, want := s.DepthByGroup[25], (workqueue.GroupDepth{Groups: 1, InFlight: 1}); got != want {
		t.Errorf("got %+v for the others, want %+v", got, want)
	}
}

// A queue without groups has no depths by them.
func TestNoDepthByGroup(t *testing.T) {
	for name, order := range map[string]workqueue.Queue[string]{
		"none":            nil,
		"of another make": workqueue.DefaultQueue[string](),
		"priorities, within which there are none": workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{Within: workqueue.DefaultQueue[string]}),
	} {
		r := &reader{}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r, Order: order})
		q.Add("a")
		if s, _ := r.reads[0](); s.DepthByGroup != nil {
			t.Errorf("order %s: %v", name, s.DepthByGroup)
		}
		q.ShutDown()
	}
}

// The groups of one priority are told of, whatever order another one has.
func TestDepthByGroupBesideAnotherOrder(t *testing.T) {
	t.Parallel()
	r, calls := &reader{}, 0
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name: "q", MetricsProvider: r, Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{
			Within: func() workqueue.Queue[string] {
				if calls++; calls == 1 {
					return newFair(nil, nil)
				}
				return workqueue.DefaultQueue[string]()
			},
		}),
	})
	defer q.ShutDown()
	for priority := range 3 {
		q.AddWith(workqueue.AddOptions{Priority: priority}, fmt.Sprint("a/", priority))
	}
	if s, _ := r.reads[0](); fmt.Sprint(s.DepthByGroup) != "[{a 1 1 0}]" {
		t.Errorf("got %v", s.DepthByGroup)
	}
}

// BenchmarkDepthByGroup says for how long a scrape holds up a queue with many groups, also
// where those of three priorities are added up and the priorities are counted.
func BenchmarkDepthByGroup(b *testing.B) {
	const groups, items = 100_000, 600_000
	fair := func() workqueue.Queue[int] {
		return workqueue.NewFairQueue(workqueue.FairOptions[int, int]{Group: func(item int) int { return item % groups }})
	}
	for name, order := range map[string]workqueue.Queue[int]{
		"groups":                   fair(),
		"groups within priorities": workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Within: fair}),
		"orders within priorities": workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Within: workqueue.DefaultQueue[int]}),
	} {
		b.Run(name, func(b *testing.B) {
			r := &reader{}
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Name: "q", MetricsProvider: r, Order: order})
			defer q.ShutDown()
			for item := range items {
				if name == "groups" {
					q.Add(item)
				} else {
					addAt(q, item/groups%3, item)
				}
			}
			for b.Loop() {
				r.reads[0]()
			}
			perScrape := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			b.ReportMetric(perScrape/groups, "ns/group")
			b.ReportMetric(perScrape/items, "ns/item")
		})
	}
}
