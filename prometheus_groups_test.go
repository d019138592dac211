package workqueue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// The depth of each group is a series, as its items are queued. Queues of one name add up,
// and groups of the same text are one.
func TestSeriesOfTheGroups(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{})
	open := func() *workqueue.Typed[string] {
		return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
			Name: "q", MetricsProvider: p,
			Order: workqueue.NewFairQueue(workqueue.FairOptions[string, string]{
				Group: func(item string) string { return strings.Split(item, "/")[0] },
			}),
		})
	}
	expect := func(when string, want ...string) {
		t.Helper()
		if got := linesOf(t, r, "depth_by_group"); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}
	q := open()
	expect("empty")
	q.AddAll("a/1", "a/2", "b/1")
	expect("two groups", `depth_by_group{group="a",name="q"} 2`, `depth_by_group{group="b",name="q"} 1`)
	other := open()
	other.Add("b/2")
	expect("two queues", `depth_by_group{group="a",name="q"} 2`, `depth_by_group{group="b",name="q"} 2`)
	other.ShutDown()
	item, _ := q.Get()
	q.Done(item)
	expect("one done", `depth_by_group{group="a",name="q"} 1`, `depth_by_group{group="b",name="q"} 1`)
	q.Add("\xff/1")
	expect("no UTF-8", `depth_by_group{group="a",name="q"} 1`, `depth_by_group{group="b",name="q"} 1`, "depth_by_group{group=\"\uFFFD\",name=\"q\"} 1")
	q.ShutDown()
	expect("after the shutdown")
}

// However many groups there are, 26 series have all of their items.
func TestSeriesOfManyGroups(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{})
	for range 2 { // Two queues, with 40 groups of their own each.
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{
			Name: "q", MetricsProvider: p,
			Order: workqueue.NewFairQueue(workqueue.FairOptions[int, *int]{Group: func(item int) *int { return &many[item%40] }}),
		})
		defer q.ShutDown()
		for item := range 400 {
			q.Add(item)
		}
	}
	lines := linesOf(t, r, "depth_by_group")
	sum := 0
	for _, line := range lines {
		var n int
		if _, err := fmt.Sscan(line[strings.LastIndex(line, " "):], &n); err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if len(lines) != 26 || sum != 800 {
		t.Errorf("%d series have %d items, want 26 and 800: %q", len(lines), sum, lines)
	}
}

var many [40]int
