package workqueue_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// linesOf returns the series whose name has the part.
func linesOf(t *testing.T, g prometheus.Gatherer, part string) (lines []string) {
	t.Helper()
	for _, line := range scrape(t, g) {
		if strings.Contains(line, part) {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestSeriesOfThePriorities(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{})
	clock := testingclock.NewFakeClock(epoch)
	open := func(name string) *workqueue.TypedDelaying[int] {
		return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
			Name: name, MetricsProvider: p, Clock: clock,
			Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{}),
		})
	}
	q := open("q")
	addAt(q, 5, 1, 2, 3)
	clock.Step(time.Second)
	q.AddAll(4, 5)
	q.Get()
	addAt(q, 0, 1)
	addAt(q, -7, 1) // Held, and marked to be queued with 0.
	clock.Step(time.Second)
	want := []string{
		`depth_by_priority{name="q",priority="0"} 3`,
		`depth_by_priority{name="q",priority="5"} 2`,
		`oldest_item_age_by_priority_seconds{name="q",priority="0"} 1`,
		`oldest_item_age_by_priority_seconds{name="q",priority="5"} 2`,
	}
	if got := linesOf(t, r, "by_priority"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for q.Len() > 0 {
		item, _ := q.Get()
		q.Done(item)
	}
	for i, line := range want {
		want[i] = line[:strings.LastIndexByte(line, ' ')] + " 0"
	}
	want[0] = `depth_by_priority{name="q",priority="0"} 1` // Still held.
	if got := linesOf(t, r, "by_priority"); !slices.Equal(got, want) {
		t.Errorf("when they are taken: got %q, want %q", got, want)
	}
	q.ShutDown()
	if got := linesOf(t, r, "by_priority"); len(got) > 0 {
		t.Errorf("after the shutdown: got %q", got)
	}
}

// 25 priorities have series of their own, the first ones, and all others share one. Two
// queues of a name share 25.
func TestSeriesOfManyPriorities(t *testing.T) {
	captureLog(t)
	r, p := newExposed(workqueue.PrometheusOptions{})
	var queues []*workqueue.Typed[int]
	for n, from := range []int{0, 20} {
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{
			Name: "q", MetricsProvider: p, Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{}),
		})
		defer q.ShutDown()
		for i := range 30 {
			addAt(q, 100+from+i, i)
		}
		queues = append(queues, q)
		got := linesOf(t, r, "depth_by_priority")
		others := []string{`depth_by_priority{name="q",priority="other"} 5`, `depth_by_priority{name="q",priority="other"} 30`}[n]
		if len(got) != 26 || !slices.Contains(got, others) {
			t.Errorf("%d queues: %d series, want 26 with %s: %q", n+1, len(got), others, got)
		}
	}
	for _, q := range queues {
		for q.Len() > 0 {
			q.Get()
		}
	}
	for _, line := range linesOf(t, r, "depth_by_priority") {
		if !strings.HasSuffix(line, " 0") {
			t.Errorf("nothing is queued, got %s", line)
		}
	}
}

// An item whose Of has failed is before all levels, with the priority 0, and has a place in
// the series like any other.
func TestSeriesOfAnItemBeforeAllLevels(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{})
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
		Name: "q", MetricsProvider: p, Clock: clock,
		Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Of: func(item int) int {
			if item == 9 {
				panic("of")
			}
			return item
		}}),
	})
	defer q.ShutDown()
	clock.Step(time.Minute)
	goes(func() { q.Add(9) })
	clock.Step(time.Second)
	q.Add(3)
	clock.Step(time.Second)
	for range 2 { // A scrape changes nothing.
		for part, want := range map[string][]string{
			"by_priority": {
				`depth_by_priority{name="q",priority="0"} 1`,
				`depth_by_priority{name="q",priority="3"} 1`,
				`oldest_item_age_by_priority_seconds{name="q",priority="0"} 2`,
				`oldest_item_age_by_priority_seconds{name="q",priority="3"} 1`,
			},
			"oldest_item_age_seconds": {`oldest_item_age_seconds{name="q"} 2`},
		} {
			if got := linesOf(t, r, part); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
	q.Get()
	if got, want := linesOf(t, r, "oldest_item_age_seconds"), []string{`oldest_item_age_seconds{name="q"} 1`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A reader is told of 25 priorities and of all others in one element at the end.
func TestLevelsOfManyPriorities(t *testing.T) {
	r := &reader{}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{
		Name: "q", MetricsProvider: r, Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{}),
	})
	defer q.ShutDown()
	for i := range 30 {
		addAt(q, 100+i, i)
	}
	s, _ := r.reads[0]()
	if n := len(s.Levels); n != 26 {
		t.Fatalf("got %d levels, want 26: %+v", n, s.Levels)
	}
	if last := s.Levels[25]; !last.Others || last.Depth != 5 {
		t.Errorf("got %+v for the others, want 5 items", last)
	}
}

// Priorities that contain orders, or are within groups, have the same series, and the
// priority of a plain add is what Of says.
func TestSeriesOfPrioritiesWithOrders(t *testing.T) {
	t.Parallel()
	group := func(item int) int { return item % 2 }
	of := func(item int) int { return item }
	for name, order := range map[string]workqueue.Queue[int]{
		"groups within priorities": workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Of: of, Within: func() workqueue.Queue[int] {
			return workqueue.NewFairQueue(workqueue.FairOptions[int, int]{Group: group})
		}}),
		"priorities within groups": workqueue.NewFairQueue(workqueue.FairOptions[int, int]{Group: group, Within: func() workqueue.Queue[int] {
			return workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{Of: of})
		}}),
	} {
		r, p := newExposed(workqueue.PrometheusOptions{})
		clock := testingclock.NewFakeClock(epoch)
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Name: "q", MetricsProvider: p, Clock: clock, Order: order})
		defer q.ShutDown()
		q.AddAll(1, 2, 2)
		clock.Step(time.Second)
		addAt(q, 7, 1)
		addAt(q, 7, 3)
		clock.Step(time.Second)
		want := []string{
			`depth_by_priority{name="q",priority="1"} 0`,
			`depth_by_priority{name="q",priority="2"} 1`,
			`depth_by_priority{name="q",priority="7"} 2`,
			`oldest_item_age_by_priority_seconds{name="q",priority="1"} 0`,
			`oldest_item_age_by_priority_seconds{name="q",priority="2"} 2`,
			`oldest_item_age_by_priority_seconds{name="q",priority="7"} 2`,
			`oldest_item_age_seconds{name="q"} 2`,
		}
		if got := slices.Concat(linesOf(t, r, "by_priority"), linesOf(t, r, "oldest_item_age_seconds")); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		q.Remove(3)
		q.Remove(2)
		if got, want := linesOf(t, r, "depth_by_priority")[1:], []string{
			`depth_by_priority{name="q",priority="2"} 0`, `depth_by_priority{name="q",priority="7"} 1`,
		}; !slices.Equal(got, want) {
			t.Errorf("%s: two are removed: got %q, want %q", name, got, want)
		}
		addAt(q, 7, 2) // The order has it still, with priority 2.
		if got, want := linesOf(t, r, "depth_by_priority")[1:], []string{
			`depth_by_priority{name="q",priority="2"} 0`, `depth_by_priority{name="q",priority="7"} 2`,
		}; !slices.Equal(got, want) {
			t.Errorf("%s: one is added again: got %q, want %q", name, got, want)
		}
	}
}

// Groups whose items are in an order of another make have no series by priority: nobody
// says which priority an item has there.
func TestNoSeriesOfPrioritiesThatNobodyTells(t *testing.T) {
	t.Parallel()
	r, p := newExposed(workqueue.PrometheusOptions{})
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{
		Name: "q", MetricsProvider: p, Order: workqueue.NewFairQueue(workqueue.FairOptions[int, int]{
			Group: func(item int) int { return item % 2 },
			Within: func() workqueue.Queue[int] {
				order := workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{}).(workqueue.PrioritizedQueue[int])
				return struct {
					workqueue.PrioritizedQueue[int]
				}{order}
			},
		}),
	})
	defer q.ShutDown()
	addAt(q, 7, 1)
	if got := linesOf(t, r, "by_priority"); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	if got := linesOf(t, r, "depth_by_group"); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}
