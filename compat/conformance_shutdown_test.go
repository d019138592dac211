package compat_test

import (
	"slices"
	"sync"
	"testing"
)

func TestShutDown(t *testing.T) {
	for _, on := range layers {
		t.Run("layer="+string(on), func(t *testing.T) { play(t, on, shutdownTimelines) })
	}
}

var shutdownTimelines = []timeline{{
	name: "queued_items_are_handed_out_first",
	steps: []step{
		{call: "add a b"},
		{call: "down", want: "false"},
		{call: "shutdown"},
		{call: "down", want: "true"},
		{call: "len", want: "2"},
		{call: "get", want: "a"},
		{call: "get", want: "b"},
		{call: "get", want: "shutdown"},
		{call: "get", want: "shutdown"},
	},
}, {
	name: "adds_are_ignored",
	steps: []step{
		{call: "add a b"},
		{call: "get", want: "a"},
		{call: "shutdown"},
		{call: "add a b c"},
		{call: "len", want: "1"},
		{call: "done a"},
		{call: "len", want: "1"},
		{call: "get", want: "b"},
		{call: "done b"},
		{call: "get", want: "shutdown"},
	},
}, {
	name: "an_item_added_again_before_is_handed_out_again",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "add a"},
		{call: "shutdown"},
		{call: "get", want: "shutdown"},
		{call: "done a"},
		{call: "get", want: "a"},
		{call: "done a"},
		{call: "get", want: "shutdown"},
	},
}, {
	name: "all_blocked_workers_are_released",
	steps: []step{
		{call: "get", want: "blocks"},
		{call: "get", want: "blocks"},
		{call: "get", want: "blocks"},
		{call: "shutdown", want: "get=shutdown, get=shutdown, get=shutdown"},
	},
}, {
	name: "a_second_call_changes_nothing_kubernetes#77170",
	steps: []step{
		{call: "add a"},
		{call: "shutdown"},
		{call: "shutdown"},
		{call: "take", want: "a"},
		{call: "shutdown"},
		{call: "drain", want: "returned"},
		{call: "get", want: "shutdown"},
	},
}, {
	name: "does_not_wait_for_work_in_flight",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "shutdown"},
		{call: "done a"},
		{call: "get", want: "shutdown"},
	},
}}

func TestShutDownWithDrain(t *testing.T) {
	for _, on := range layers {
		t.Run("layer="+string(on), func(t *testing.T) {
			play(t, on, slices.Concat(drainTimelines, interruptedDrainTimelines))
		})
	}
}

var drainTimelines = []timeline{{
	name: "of_a_queue_at_rest_returns",
	steps: []step{
		{call: "drain", want: "returned"},
		{call: "down", want: "true"},
		{call: "drain", want: "returned"},
		{call: "get", want: "shutdown"},
	},
}, {
	name: "waits_for_work_in_flight",
	steps: []step{
		{call: "add a b"},
		{call: "get", want: "a"},
		{call: "get", want: "b"},
		{call: "drain", want: "blocks"},
		{call: "down", want: "true"},
		{call: "add c"},
		{call: "done b"},
		{call: "len", want: "0"},
		{call: "done a", want: "drain=returned"},
		{call: "get", want: "shutdown"},
	},
}, {
	name: "releases_blocked_workers",
	steps: []step{
		{call: "get", want: "blocks"},
		{call: "get", want: "blocks"},
		{call: "drain", want: "returned, get=shutdown, get=shutdown"},
	},
}, {
	name: "with_queued_items_and_none_in_flight_kubernetes#141079",
	steps: []step{
		{call: "add a b"},
		{call: "drain", want: "blocks", upstream: new("returned")},
		{call: "get", want: "a"},
		{call: "get", want: "b"},
		{call: "done a"},
		{call: "done b", want: "drain=returned", upstream: new("")},
		{call: "get", want: "shutdown"},
	},
}, {
	name: "with_queued_items_and_one_in_flight_kubernetes#141079",
	steps: []step{
		{call: "add a b c"},
		{call: "get", want: "a"},
		{call: "drain", want: "blocks"},
		{call: "done a", want: "", upstream: new("drain=returned")},
		{call: "len", want: "2"},
		{call: "get", want: "b"},
		{call: "done b"},
		{call: "get", want: "c"},
		{call: "done c", want: "drain=returned", upstream: new("")},
	},
}, {
	name: "with_an_item_added_again_in_flight_kubernetes#141079",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "add a"},
		{call: "drain", want: "blocks"},
		{call: "done a", want: "", upstream: new("drain=returned")},
		{call: "len", want: "1"},
		{call: "get", want: "a"},
		{call: "add a"},
		{call: "done a", want: "drain=returned", upstream: new("")},
		{call: "len", want: "0"},
	},
}, {
	// The last Done must wake everybody who waits for it. client-go wakes one.
	name: "two_at_a_time_both_return_kubernetes#141079",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "drain", want: "blocks"},
		{call: "drain", want: "blocks"},
		{call: "done a", want: "drain=returned, drain=returned", upstream: new("drain=returned")},
	},
}, {
	name: "a_later_one_waits_as_well",
	steps: []step{
		{call: "add a b"},
		{call: "get", want: "a"},
		{call: "get", want: "b"},
		{call: "drain", want: "blocks"},
		{call: "done a"},
		{call: "drain", want: "blocks"},
		{call: "done b", want: "drain=returned, drain=returned", upstream: new("drain=returned")},
	},
}, {
	name: "after_ShutDown_still_waits",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "shutdown"},
		{call: "drain", want: "blocks"},
		{call: "done a", want: "drain=returned"},
	},
}}

var interruptedDrainTimelines = []timeline{{
	name: "ends_with_ShutDown",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "drain", want: "blocks"},
		{call: "shutdown", want: "drain=returned"},
		{call: "done a"},
		{call: "get", want: "shutdown"},
	},
}, {
	name: "all_of_them_end_with_ShutDown",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "drain", want: "blocks"},
		{call: "drain", want: "blocks"},
		{call: "drain", want: "blocks"},
		{call: "shutdown", want: "drain=returned, drain=returned, drain=returned"},
	},
}, {
	name: "leaves_queued_items_to_the_workers",
	steps: []step{
		{call: "add a b"},
		{call: "get", want: "a"},
		{call: "add a"},
		{call: "drain", want: "blocks"},
		{call: "shutdown", want: "drain=returned"},
		{call: "get", want: "b"},
		{call: "done a"},
		{call: "get", want: "a"},
		{call: "get", want: "shutdown"},
	},
}}

// TestShutDownFromManyGoroutines has no order of calls to check, only that all
// of them return and that nothing is wrong with a queue told so often.
func TestShutDownFromManyGoroutines(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		for _, on := range layers {
			t.Run("layer="+string(on), func(t *testing.T) {
				w := newWorld(impl, on, timeline{})
				w.queue.Add("a")
				var all sync.WaitGroup
				for range 32 {
					all.Go(w.queue.ShutDown)
					all.Go(func() { w.queue.Add("b") })
				}
				all.Wait()
				for item, shutdown := w.queue.Get(); !shutdown; item, shutdown = w.queue.Get() {
					w.queue.Done(item)
				}
				w.queue.ShutDownWithDrain()
			})
		}
	})
}
