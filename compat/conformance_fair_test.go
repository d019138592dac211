package compat_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// These tests play our fair order at the seam for storages of both packages.

// fairStorage groups "a/1" by what stands before the slash. Items without one are a
// group.
func fairStorage(o workqueue.FairOptions[string, string]) func(implementation) itemStorage[string] {
	return func(implementation) itemStorage[string] {
		o := o
		o.Group = func(item string) string {
			group, _, named := strings.Cut(item, "/")
			if !named {
				return ""
			}
			return group
		}
		return workqueue.NewFairQueue(o)
	}
}

func withPriorities() workqueue.Queue[string] {
	return workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{
		Of: func(item string) int { return strings.Count(item, "!") },
	})
}

// Of one group, a fair queue is a FIFO: it passes all that a queue without a storage
// does, on all layers. A limit has no effect where nobody tells of Done.
func TestFairQueueOfOneGroupIsAFIFO(t *testing.T) {
	for name, o := range map[string]workqueue.FairOptions[string, string]{
		"plain":  {},
		"within": {Within: workqueue.DefaultQueue[string]},
		"limits": {MaxInFlight: func(string) int { return 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			timelines := slices.Concat(fifoTimelines, shutdownTimelines, drainTimelines, interruptedDrainTimelines)
			for i := range timelines {
				timelines[i].storage = fairStorage(o)
			}
			for _, on := range layers {
				t.Run("layer="+string(on), func(t *testing.T) { play(t, on, timelines) })
			}
		})
	}
}

func TestFairStorage(t *testing.T) {
	play(t, fifo, fairTimelines)
}

var fairTimelines = []timeline{{
	name:    "groups_take_turns",
	storage: fairStorage(workqueue.FairOptions[string, string]{}),
	steps: []step{
		{call: "add a/1 a/2 a/3 a/4 b/1 c/1 b/2"},
		{call: "get", want: "a/1"},
		{call: "add d/1 a/1"},
		{call: "done a/1"},
		{call: "take", want: "b/1 c/1 a/2 d/1 b/2 a/3 a/4 a/1"},
		{call: "get", want: "blocks"},
		{call: "add b/1", want: "get=b/1"},
	},
}, {
	name: "turns_are_as_long_as_the_weight",
	storage: fairStorage(workqueue.FairOptions[string, string]{
		Weight: func(group string) int { return len(group) },
	}),
	steps: []step{
		{call: "add a/1 a/2 bb/1 bb/2 bb/3"},
		{call: "take", want: "a/1 bb/1 bb/2 a/2 bb/3"},
	},
}, {
	name:    "priorities_order_the_items_of_a_group",
	storage: fairStorage(workqueue.FairOptions[string, string]{Within: withPriorities}),
	steps: []step{
		{call: "add a/1 a/2! b/1 a/3!! a/1 b/2!"},
		{call: "take", want: "a/3!! b/2! a/2! b/1 a/1"},
	},
}}

// MaxInFlight is the one thing that works with our queue alone: client-go's tells no
// storage of Done. There it must not hold back anything, nor keep anything.
func TestFairLimitsAtTheSeam(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		q := impl.queue(settings{storage: fairStorage(workqueue.FairOptions[string, string]{
			MaxInFlight: func(string) int { return 1 },
		})(impl)})
		defer q.ShutDown()
		for range 3 {
			for _, item := range []string{"a/1", "a/2", "b/1"} {
				q.Add(item)
			}
			want := []string{"a/1", "b/1", "a/2"}
			for i, wanted := range want {
				if item, _ := q.Get(); item != wanted {
					t.Fatalf("got %s, want %s", item, wanted)
				}
				if held := i == 1 && impl.name != clientGoName; held {
					q.Done("a/1") // a/2 would not come before.
				}
			}
			for _, item := range want {
				q.Done(item)
			}
		}
	})
}

// Fair queues with limits, within a priority queue, hold back nothing either where
// nobody tells of Done.
func TestFairLimitsWithinPrioritiesAtTheSeam(t *testing.T) {
	limited := func() workqueue.Queue[string] {
		return fairStorage(workqueue.FairOptions[string, string]{MaxInFlight: func(string) int { return 1 }})(implementation{})
	}
	q := clientGo().queue(settings{storage: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{Within: limited})})
	defer q.ShutDown()
	for range 3 {
		for _, item := range []string{"a/1", "a/2", "b/1"} {
			q.Add(item)
		}
		for _, want := range []string{"a/1", "b/1", "a/2"} {
			if item, _ := q.Get(); item != want {
				t.Fatalf("got %s, want %s", item, want)
			}
		}
		for _, item := range []string{"a/1", "a/2", "b/1"} {
			q.Done(item)
		}
	}
}
