package workqueue_test

import (
	"fmt"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// A fair queue at a steady load allocates nothing: groups that come and go are used
// again, with their queues.
func TestAllocationsOfAFairQueue(t *testing.T) {
	tenants := []string{"a", "b", "c", "d"}
	byLength := func(item string) string { return tenants[len(item)%len(tenants)] }
	options := workqueue.FairOptions[string, string]{Group: byLength}
	limited := options
	limited.MaxInFlight = func(string) int { return 3 }
	within := options
	within.Within = workqueue.DefaultQueue[string]
	noAllocations(t, map[string]func(){
		"plain":  cycle(workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: workqueue.NewFairQueue(options)})),
		"limits": pushPopDone(workqueue.NewFairQueue(limited).(workqueue.HoldingQueue[string])),
		"within": cycle(workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: workqueue.NewFairQueue(within)})),
	})
}

func pushPopDone(q workqueue.HoldingQueue[string]) func() {
	items := items64()
	return func() {
		for _, item := range items {
			q.Push(item)
		}
		for q.Ready() {
			q.Done(q.Pop())
		}
	}
}

// What many groups of one item each have taken comes back, and so does what as many
// items of one group have, held or not.
func TestMemoryOfAFairQueueReturns(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("the figures mean nothing under the race detector")
	}
	const many = million / 4
	self := func(item int) int { return item }
	one := func(int) int { return 1 }
	for name, options := range map[string]workqueue.FairOptions[int, int]{
		"many groups":                    {Group: self},
		"many groups, held":              {Group: self, MaxInFlight: one},
		"many groups, with within":       {Group: self, Within: workqueue.DefaultQueue[int]},
		"one group":                      {Group: one},
		"one group, held":                {Group: one, MaxInFlight: func(int) int { return many }},
		"one group, with within":         {Group: one, Within: workqueue.DefaultQueue[int]},
		"one group, with fairness in it": {Group: one, Within: func() workqueue.Queue[int] { return newFairOfInts() }},
	} {
		got := retained(func() any {
			q := workqueue.NewFairQueue(options)
			h, holds := q.(workqueue.HoldingQueue[int])
			for item := range many {
				q.Push(item)
			}
			for q.Len() > 0 && (!holds || h.Ready()) {
				q.Pop()
			}
			if q.Len() > 0 {
				t.Errorf("%s: %d items are left", name, q.Len())
			}
			for item := range many {
				if holds {
					h.Done(item)
				}
			}
			return q
		})
		if most := int64(96 << 10); got > most {
			t.Errorf("%s: %d bytes are kept, want %d at most", name, got, most)
		}
	}
}

func newFairOfInts() workqueue.Queue[int] {
	return workqueue.NewFairQueue(workqueue.FairOptions[int, int]{Group: func(item int) int { return item % 10 }})
}

// What the comment of NewFairQueue says that groups and items take.
func TestBytesOfAFairQueue(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("the figures mean nothing under the race detector")
	}
	items := make([]string, 400_000)
	for i := range items {
		items[i] = fmt.Sprint("namespace/some-object-", i)
	}
	all := func(string) string { return "" }
	self := func(item string) string { return item }
	for name, test := range map[string]struct {
		options workqueue.FairOptions[string, string]
		hold    bool
		most    int64
	}{
		"an item":           {options: workqueue.FairOptions[string, string]{Group: all}, most: 22},
		"an item, within":   {options: workqueue.FairOptions[string, string]{Group: all, Within: workqueue.DefaultQueue[string]}, most: 110},
		"an item that held": {options: workqueue.FairOptions[string, string]{Group: all, MaxInFlight: func(string) int { return 0 }}, hold: true, most: 88},
		"a group":           {options: workqueue.FairOptions[string, string]{Group: self}, most: 480},
	} {
		got := retained(func() any {
			q := workqueue.NewFairQueue(test.options)
			pushAll(q, items...)
			if test.hold {
				popAll(q)
			}
			return q
		}) / int64(len(items))
		t.Logf("%s: %d bytes", name, got)
		if got > test.most {
			t.Errorf("%s: %d bytes, want %d at most", name, got, test.most)
		}
	}
}
