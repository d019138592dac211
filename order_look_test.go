package workqueue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// A Snapshot shows the levels of an order in turn: without what was raised in its old one,
// and with the item that is taken out ahead of time there. A level that has nothing left
// does not matter.
func TestSnapshotOfLevelsThatItemsHaveLeft(t *testing.T) {
	q := newPrioritized(workqueue.PriorityOptions[int]{Within: workqueue.DefaultQueue[int]})
	defer q.ShutDown()
	addAt(q, 5, 7)
	addAt(q, 6, 7) // It was alone in its level.
	q.AddAll(1, 2, 0, 3)
	addAt(q, 1, 2) // Now 1 is taken out ahead of time.
	addAt(q, -1, 9)
	want := []int{7, 2, 1, 0, 3, 9}
	for limit := 1; limit <= len(want)+1; limit++ {
		var got []int
		for place, info := range q.Snapshot(limit).Queued {
			if got = append(got, info.Item); info.Position != place+1 {
				t.Errorf("limit %d: %d is at %d", limit, info.Item, info.Position)
			}
		}
		if !slices.Equal(got, want[:min(limit, len(want))]) {
			t.Errorf("limit %d: got %v of %v", limit, got, want)
		}
	}
	if got := takeAll(q); !slices.Equal(got, want) {
		t.Errorf("got %v in the end, want %v", got, want)
	}
}

// A Snapshot says that it does not know the order where it depends on the turns of the
// oldest item, or on a queue within of another make.
func TestSnapshotOfLevelsWhoseOrderIsNotKnown(t *testing.T) {
	for name, options := range map[string]workqueue.PriorityOptions[int]{
		"OldestEvery 1": {OldestEvery: 1, Within: workqueue.DefaultQueue[int]},
		"OldestEvery 2": {OldestEvery: 2, Within: workqueue.DefaultQueue[int]},
		"foreign":       {Within: func() workqueue.Queue[int] { return &shelf[int]{quiet: true} }},
	} {
		q := newPrioritized(options)
		q.AddAll(1, 2)
		addAt(q, 1, 3)
		s := q.Snapshot(10)
		if len(s.Queued) != 3 || slices.ContainsFunc(s.Queued, func(info workqueue.ItemInfo[int]) bool { return info.Position != 0 }) {
			t.Errorf("%s: got %v, want 3 items at no place", name, s.Queued)
		}
		q.ShutDown()
	}
}

// A Snapshot shows a level that holds everything back behind those that do not, whichever
// of them was there first.
func TestSnapshotOfALevelThatHoldsEverythingBack(t *testing.T) {
	for name, first := range map[string]bool{"first": true, "last": false} {
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{
			Within: func() workqueue.Queue[string] { return newFair(nil, map[string]int{"a": 1}) },
		})})
		if !first {
			q.Add("b/1")
		}
		q.AddWith(workqueue.AddOptions{Priority: 1}, "a/1", "a/2")
		q.Add("b/1")
		q.TryGet()
		if got := strings.Join(queuedOf(q, 10), " "); got != "b/1 a/2" {
			t.Errorf("%s: got %s, want b/1 a/2", name, got)
		}
		q.ShutDown()
	}
}

// A Snapshot has as many levels as there are, in their order.
func TestSnapshotOfManyLevels(t *testing.T) {
	const many = 211
	for name, within := range map[string]func() workqueue.Queue[int]{"": nil, " of queues": workqueue.DefaultQueue[int]} {
		q := newPrioritized(workqueue.PriorityOptions[int]{Within: within})
		var want []int
		for item := range many {
			addAt(q, 1+item*7919%many, item)
			want = append(want, item)
		}
		slices.SortFunc(want, func(a, b int) int { return b*7919%many - a*7919%many })
		for _, limit := range []int{many / 2, many} {
			var got []int
			for _, info := range q.Snapshot(limit).Queued {
				got = append(got, info.Item)
			}
			if !slices.Equal(got, want[:limit]) {
				t.Errorf("levels%s, limit %d: got %s", name, limit, fmt.Sprint(got))
			}
		}
		q.ShutDown()
	}
}
