package compat_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// Where all items have one priority, an order by priority is a FIFO: a queue of either
// package with one is held to the same as one that has none. Left out is what client-go
// does wrong by a second Push of an item that is stored: the order has it once.
func TestPriorityQueueAsStorage(t *testing.T) {
	for name, options := range map[string]workqueue.PriorityOptions[string]{
		"strict": {},
		"oldest": {OldestEvery: 2},
		"of":     {Of: func(string) int { return 7 }},
		"within": {Within: workqueue.DefaultQueue[string]},
	} {
		t.Run(name, func(t *testing.T) {
			timelines := slices.Concat(fifoTimelines, shutdownTimelines, drainTimelines, interruptedDrainTimelines)
			timelines = slices.DeleteFunc(timelines, func(line timeline) bool {
				return strings.HasPrefix(line.name, "Done_before_Get") || strings.HasPrefix(line.name, "Done_twice")
			})
			for i := range timelines {
				timelines[i].storage = func(implementation) itemStorage[string] { return workqueue.NewPriorityQueue(options) }
			}
			play(t, fifo, timelines)
		})
	}
}

// The items are handed out by their priority by a queue of either package.
func TestPriorityQueueDecidesTheOrder(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		for name, within := range map[string]func() workqueue.Queue[string]{"alone": nil, "within": workqueue.DefaultQueue[string]} {
			boost := 0
			q := impl.queue(settings{storage: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{
				Of:     func(item string) int { return len(item) + boost },
				Within: within,
			})})
			for _, item := range []string{"a", "bb", "ccc", "c", "dd"} {
				q.Add(item)
			}
			boost = 2
			q.Add("c") // Raised to the end of the level of ccc.
			var got []string
			for q.Len() > 0 {
				item, _ := q.Get()
				got = append(got, item)
				q.Done(item)
			}
			if want := []string{"ccc", "c", "bb", "dd", "a"}; !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
			q.ShutDown()
		}
	})
}
