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

// Of more groups than have a series, the deepest have one, and the first of those that are
// as deep. All others are one series, whether it is of one item or of queues that tell it.
func TestSeriesOfTheDeepestGroups(t *testing.T) {
	captureLog(t)
	r, p := newExposed(workqueue.PrometheusOptions{})
	open := func() *workqueue.Typed[int] {
		return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{
			Name: "q", MetricsProvider: p,
			Order: workqueue.NewFairQueue(workqueue.FairOptions[int, string]{Group: func(item int) string { return fmt.Sprintf("g%02d", item%100) }}),
		})
	}
	fill := func(q *workqueue.Typed[int], from, to int) {
		for group := from; group < to; group++ {
			for n := range 1 + group {
				q.Add(100*n + group)
			}
		}
	}
	expect := func(series int, want ...string) {
		t.Helper()
		got := linesOf(t, r, "depth_by_group")
		if len(got) != series {
			t.Errorf("got %d series, want %d: %q", len(got), series, got)
		}
		for _, line := range want {
			if !slices.Contains(got, line) {
				t.Errorf("got %q without %s", got, line)
			}
		}
	}
	one, other := open(), open()
	fill(one, 0, 25)
	expect(25, `depth_by_group{group="g00",name="q"} 1`)
	fill(other, 25, 26)
	expect(26, `depth_by_group{group="other",name="q"} 1`, `depth_by_group{group="g01",name="q"} 2`, `depth_by_group{group="g25",name="q"} 26`)
	fill(other, 26, 28)
	expect(26, `depth_by_group{group="other",name="q"} 6`, `depth_by_group{group="g03",name="q"} 4`)
	one.ShutDown()
	fill(other, 0, 23)
	expect(26, `depth_by_group{group="other",name="q"} 1`, `depth_by_group{group="g01",name="q"} 2`)
	fill(other, 28, 29)
	expect(26, `depth_by_group{group="other",name="q"} 3`, `depth_by_group{group="g02",name="q"} 3`)
	other.ShutDown()
}

// One group more than have a series is told among the others, also if all are as deep.
func TestSeriesOfOneGroupMoreThanHaveAPlace(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{})
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{
		Name: "q", MetricsProvider: p,
		Order: workqueue.NewFairQueue(workqueue.FairOptions[int, string]{Group: func(item int) string { return fmt.Sprintf("g%02d", item) }}),
	})
	defer q.ShutDown()
	q.AddAll(upTo(26)...)
	got := linesOf(t, r, "depth_by_group")
	groups := 0
	for _, line := range got {
		if strings.Contains(line, `group="g`) {
			groups++
		}
	}
	if len(got) != 26 || groups != 25 || !slices.Contains(got, `depth_by_group{group="other",name="q"} 1`) {
		t.Errorf("got %q, want 25 groups and the others", got)
	}
}
