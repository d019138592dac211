package compat_test

import (
	"testing"
)

// A duel compares most sequences of calls. The timelines have what a duel cannot play: calls that
// block, several drains, and a clock that is set back. They also have each difference to client-go
// that the documentation lists.

// onLayers plays timelines on the layers of both implementations.
func onLayers(t *testing.T, timelines []timeline, layers ...layer) {
	for _, on := range layers {
		t.Run("layer="+string(on), func(t *testing.T) { play(t, on, timelines) })
	}
}

func TestFIFO(t *testing.T) { onLayers(t, fifoTimelines, layers...) }

var fifoTimelines = []timeline{{
	name: "added_while_processed_is_queued_by_Done",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "add a"},
		{call: "len", want: "0"},
		{call: "get", want: "blocks"},
		{call: "done a", want: "get=a"},
		{call: "done a"},
		{call: "len", want: "0"},
	},
}, {
	name: "Get_blocks_until_an_Add",
	steps: []step{
		{call: "get", want: "blocks"},
		{call: "get", want: "blocks"},
		{call: "add a", want: "get=a"},
		{call: "len", want: "0"},
		{call: "add a"},
		{call: "add b", want: "get=b"},
		{call: "get", want: "blocks"},
		{call: "done a", want: "get=a"},
	},
}, {
	name: "several_adds_release_as_many_workers",
	steps: []step{
		{call: "get", want: "blocks"},
		{call: "get", want: "blocks"},
		{call: "get", want: "blocks"},
		{call: "add a a b", want: "get=a, get=b"},
		{call: "add c", want: "get=c"},
	},
}, {
	// A Done of an item that nobody holds: two workers would hold the item afterwards.
	name: "Done_before_Get_changes_nothing_kubernetes#79934",
	steps: []step{
		{call: "add a"},
		{call: "done a"},
		{call: "len", want: "1", upstream: new("2")},
		{call: "done a"},
		{call: "len", want: "1", upstream: new("3")},
		{call: "get", want: "a"},
		{call: "get", want: "blocks", upstream: new("a")},
	},
}, {
	name: "Done_twice_changes_nothing_kubernetes#141079",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "add a"},
		{call: "done a a"},
		{call: "len", want: "1", upstream: new("2")},
		{call: "get", want: "a"},
		{call: "get", want: "blocks", upstream: new("a")},
	},
}}

func TestShutDown(t *testing.T) { onLayers(t, shutdownTimelines, layers...) }

var shutdownTimelines = []timeline{{
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
}}

func TestShutDownWithDrain(t *testing.T) { onLayers(t, drainTimelines, layers...) }

var drainTimelines = []timeline{{
	name: "of_a_queue_at_rest_returns",
	steps: []step{
		{call: "drain", want: "returned"},
		{call: "drain", want: "returned"},
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
	name: "all_of_them_end_with_ShutDown",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "drain", want: "blocks"},
		{call: "drain", want: "blocks"},
		{call: "drain", want: "blocks"},
		{call: "shutdown", want: "drain=returned, drain=returned, drain=returned"},
	},
}}

func TestDelays(t *testing.T) { onLayers(t, delayTimelines, delayed, rateLimited) }

var delayTimelines = []timeline{{
	name: "a_blocked_worker_is_released",
	steps: []step{
		{call: "get", want: "blocks"},
		{call: "after a 1s"},
		{call: "elapse 1s", want: "get=a"},
	},
}, {
	// D7: a heap alone forgets who came first.
	name: "equal_deadlines_keep_the_order_of_their_AddAfter",
	steps: []step{
		{call: "after a 1s"},
		{call: "after b 1s"},
		{call: "after c 1s"},
		{call: "after d 1s"},
		{call: "after e 1s"},
		{call: "elapse 1s"},
		{call: "take", want: "a b c d e", upstream: new("a e d c b")},
	},
}, {
	name: "a_clock_set_back_puts_everything_off",
	steps: []step{
		{call: "after a 10s"},
		{call: "elapse -1h"},
		{call: "elapse 1h"},
		{call: "len", want: "0"},
		{call: "elapse 10s"},
		{call: "take", want: "a"},
	},
}}
