package workqueue_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A naiveLevels is the model of what a queue shows of priorities and groups, whatever its
// order is: an account of each item.
type naiveLevels map[int]*levelItem

type levelItem struct {
	queued, held bool // both: it is held, and was added again
	priority     int
	taken        int // the priority that it was handed out with
	added        time.Duration
}

func (m naiveLevels) add(item, priority int, now time.Duration) {
	a := m[item]
	if a == nil {
		a = &levelItem{}
		m[item] = a
	}
	if a.queued {
		a.priority = max(a.priority, priority)
		return
	}
	a.queued, a.priority, a.added = true, priority, now
}

func (m naiveLevels) done(item int) {
	if m[item].held = false; !m[item].queued {
		delete(m, item)
	}
}

// levels returns the depth of each priority, and when the oldest of what is queued was
// added.
func (m naiveLevels) levels(now time.Duration) map[int]workqueue.LevelStats {
	levels := make(map[int]workqueue.LevelStats)
	for _, a := range m {
		if !a.queued {
			continue
		}
		l := levels[a.priority]
		l.Priority = a.priority
		l.Depth++
		if !a.held {
			l.OldestItem = max(l.OldestItem, now-a.added)
		}
		levels[a.priority] = l
	}
	return levels
}

// groups returns how many items of each group are queued.
func (m naiveLevels) groups() map[any]int {
	groups := make(map[any]int)
	for item, a := range m {
		if a.queued && !a.held {
			groups[item%groupsOfLevels]++
		}
	}
	return groups
}

const groupsOfLevels = 3

// levelledOrders are the orders that tell the priority of each item.
func levelledOrders() map[string]workqueue.Queue[int] {
	fair := func(within func() workqueue.Queue[int], limit int) workqueue.Queue[int] {
		options := workqueue.FairOptions[int, int]{
			Group: func(item int) int { return item % groupsOfLevels }, Within: within,
		}
		if limit > 0 {
			options.MaxInFlight = func(int) int { return limit }
		}
		return workqueue.NewFairQueue(options)
	}
	priority := func(every int, within func() workqueue.Queue[int]) workqueue.Queue[int] {
		return workqueue.NewPriorityQueue(workqueue.PriorityOptions[int]{OldestEvery: every, Within: within})
	}
	levels := func() workqueue.Queue[int] { return priority(3, nil) }
	return map[string]workqueue.Queue[int]{
		"priorities":                       priority(0, nil),
		"priorities with OldestEvery":      levels(),
		"orders within priorities":         priority(2, workqueue.DefaultQueue[int]),
		"groups within priorities":         priority(0, func() workqueue.Queue[int] { return fair(nil, 0) }),
		"limited groups within priorities": priority(3, func() workqueue.Queue[int] { return fair(nil, 2) }),
		"priorities within groups":         fair(levels, 0),
		"priorities within limited groups": fair(levels, 2),
		"such groups within priorities":    priority(0, func() workqueue.Queue[int] { return fair(levels, 0) }),
	}
}

// TestModelLevels plays random calls on a queue with each order and on the account, and
// compares the priorities in the Snapshot and all that a reader of metrics is told.
func TestModelLevels(t *testing.T) {
	t.Parallel()
	rnd := newRand(t)
	for range 1 + rounds(scripts())/10 { // There are many orders, and all is compared at each step.
		script := randomScript(rnd, 300)
		for name, order := range levelledOrders() {
			playLevels(t, name, order, script)
		}
	}
}

func playLevels(t *testing.T, name string, order workqueue.Queue[int], script []byte) {
	r, clock := &reader{}, testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{
		Name: "q", MetricsProvider: r, Clock: clock, Order: order,
	})
	defer q.ShutDown()
	m := make(naiveLevels)
	var held []int
	for i := 0; i+1 < len(script); i += opSize {
		op, item := script[i], int(script[i+1])%40
		clock.Step(time.Second)
		switch {
		case op%4 < 2:
			addAt(q, int(op>>4)%5-2, item)
			m.add(item, int(op>>4)%5-2, clock.Since(epoch))
		case op%4 == 2:
			if item, ok := q.TryGet(); ok {
				a := m[item]
				a.held, a.queued, a.taken = true, false, a.priority
				held = append(held, item)
			}
		case len(held) > 0:
			item := held[item%len(held)]
			held = without(held, item)
			q.Done(item)
			m.done(item)
		}
		step := fmt.Sprint(name, ", step ", i/opSize)
		stats := compareLevels(t, step, q, r, m, clock.Since(epoch))
		if !strings.HasSuffix(name, "within priorities") { // What was raised counts there twice.
			compareGroups(t, step, stats, m)
		}
		if t.Failed() {
			return
		}
	}
}

func compareLevels(t *testing.T, step string, q *workqueue.Typed[int], r *reader, m naiveLevels, now time.Duration) workqueue.QueueStats {
	t.Helper()
	checkInvariants(t, 0, q)
	snapshot := q.Snapshot(1000)
	for _, info := range slices.Concat(snapshot.Queued, snapshot.InFlight) {
		if a := m[info.Item]; a.queued && info.Priority != a.priority || !a.queued && info.Priority != a.taken {
			t.Errorf("%s: %v has priority %d, want %+v", step, info.Item, info.Priority, *a)
		}
	}
	stats, _ := r.reads[0]()
	got, want := make(map[int]workqueue.LevelStats), m.levels(now)
	oldest := time.Duration(0)
	for _, l := range stats.Levels {
		oldest = max(oldest, l.OldestItem)
		if l.Depth > 0 {
			got[l.Priority] = l
		}
	}
	if !maps.Equal(got, want) || oldest != stats.OldestItem {
		t.Errorf("%s: levels:\ngot  %v\nwant %v; the oldest is %v old, want %v", step, got, want, stats.OldestItem, oldest)
	}
	return stats
}

// compareGroups compares the depths of the groups.
func compareGroups(t *testing.T, step string, stats workqueue.QueueStats, m naiveLevels) {
	t.Helper()
	groups := make(map[any]int)
	for _, d := range stats.DepthByGroup {
		if d.Queued > 0 {
			groups[d.Group] = d.Queued
		}
	}
	if stats.DepthByGroup != nil && !maps.Equal(groups, m.groups()) {
		t.Errorf("%s: groups: got %v, want %v", step, groups, m.groups())
	}
}
