package compat_test

import (
	"slices"
	"testing"
)

func TestDelays(t *testing.T) {
	for _, on := range []layer{delayed, rateLimited} {
		t.Run("layer="+string(on), func(t *testing.T) {
			play(t, on, slices.Concat(
				delayTimelines, sameItemTimelines, extremeDelayTimelines, delayAndShutdownTimelines,
			))
		})
	}
}

var delayTimelines = []timeline{{
	name: "an_item_is_added_when_its_time_has_come",
	steps: []step{
		{call: "after a 50ms"},
		{call: "len", want: "0"},
		{call: "elapse 49ms"},
		{call: "len", want: "0"},
		{call: "elapse 1ms"},
		{call: "len", want: "1"},
		{call: "take", want: "a"},
		{call: "elapse 1h"},
		{call: "len", want: "0"},
	},
}, {
	name: "items_come_in_the_order_of_their_times",
	steps: []step{
		{call: "after c 3s"},
		{call: "after a 1s"},
		{call: "after d 4s"},
		{call: "after b 2s"},
		{call: "elapse 1s"},
		{call: "take", want: "a"},
		{call: "elapse 10s"},
		{call: "take", want: "b c d"},
	},
}, {
	name: "a_shorter_delay_added_later_comes_first",
	steps: []step{
		{call: "after b 1h"},
		{call: "elapse 1s"},
		{call: "after a 1s"},
		{call: "elapse 1s"},
		{call: "take", want: "a"},
		{call: "elapse 1h"},
		{call: "take", want: "b"},
	},
}, {
	name: "a_blocked_worker_is_released",
	steps: []step{
		{call: "get", want: "blocks"},
		{call: "after a 1s"},
		{call: "elapse 1s", want: "get=a"},
	},
}, {
	name: "a_due_item_is_a_duplicate_of_a_queued_one",
	steps: []step{
		{call: "after a 1s"},
		{call: "add a"},
		{call: "elapse 1s"},
		{call: "len", want: "1"},
		{call: "take", want: "a"},
		{call: "get", want: "blocks"},
	},
}, {
	name: "an_item_due_while_processed_is_queued_by_Done",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "after a 1s"},
		{call: "elapse 1s"},
		{call: "len", want: "0"},
		{call: "done a"},
		{call: "len", want: "1"},
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
	name: "equal_deadlines_of_different_delays_keep_the_order_of_their_AddAfter",
	steps: []step{
		{call: "after a 3s"},
		{call: "elapse 1s"},
		{call: "after b 2s"},
		{call: "elapse 1s"},
		{call: "after c 1s"},
		{call: "after d 1s"},
		{call: "elapse 1s"},
		{call: "take", want: "a b c d", upstream: new("a d c b")},
	},
}, {
	name: "a_clock_stepped_far_brings_everything_in_order",
	steps: []step{
		{call: "after c 30h"},
		{call: "after b 20m"},
		{call: "after a 10s"},
		{call: "elapse 100h"},
		{call: "take", want: "a b c"},
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

var sameItemTimelines = []timeline{{
	name: "an_earlier_time_replaces_a_later",
	steps: []step{
		{call: "after a 1h"},
		{call: "after a 1s"},
		{call: "elapse 1s"},
		{call: "take", want: "a"},
		{call: "elapse 1h"},
		{call: "len", want: "0"},
	},
}, {
	name: "a_later_time_does_not_replace_an_earlier",
	steps: []step{
		{call: "after a 1s"},
		{call: "after a 1h"},
		{call: "elapse 1s"},
		{call: "take", want: "a"},
		{call: "elapse 1h"},
		{call: "len", want: "0"},
	},
}, {
	name: "copies_of_a_delay_make_one_entry",
	steps: []step{
		{call: "after a 1s"},
		{call: "after a 1s"},
		{call: "after a 1s"},
		{call: "elapse 999ms"},
		{call: "len", want: "0"},
		{call: "elapse 1ms"},
		{call: "take", want: "a"},
		{call: "elapse 1h"},
		{call: "len", want: "0"},
	},
}, {
	name: "copies_made_later_are_due_later_and_dropped",
	steps: []step{
		{call: "after a 2s"},
		{call: "elapse 1s"},
		{call: "after a 2s"},
		{call: "elapse 1s"},
		{call: "take", want: "a"},
		{call: "elapse 1h"},
		{call: "len", want: "0"},
	},
}, {
	name: "an_earlier_time_overtakes_other_items",
	steps: []step{
		{call: "after a 3s"},
		{call: "after b 2s"},
		{call: "after c 4s"},
		{call: "after c 1s"},
		{call: "elapse 4s"},
		{call: "take", want: "c b a"},
	},
}, {
	name: "Add_leaves_the_waiting_entry_so_that_it_runs_twice_kubernetes#110642",
	steps: []step{
		{call: "after a 1s"},
		{call: "add a"},
		{call: "take", want: "a"},
		{call: "elapse 1s"},
		{call: "take", want: "a"},
		{call: "elapse 1h"},
		{call: "len", want: "0"},
	},
}, {
	name: "AddAfter_without_a_delay_leaves_the_waiting_entry_too",
	steps: []step{
		{call: "after a 1s"},
		{call: "after a 0s"},
		{call: "take", want: "a"},
		{call: "elapse 1s"},
		{call: "take", want: "a"},
	},
}, {
	name: "an_item_can_wait_again_once_it_has_been_added",
	steps: []step{
		{call: "after a 1s"},
		{call: "elapse 1s"},
		{call: "after a 2s"},
		{call: "take", want: "a"},
		{call: "elapse 2s"},
		{call: "take", want: "a"},
	},
}}

var extremeDelayTimelines = []timeline{{
	name: "zero_and_less_are_now",
	steps: []step{
		{call: "after b 0s"},
		{call: "after a -1s"},
		{call: "after d min"},
		{call: "after c 0s"},
		{call: "take", want: "b a d c"},
	},
}, {
	name: "a_nanosecond_is_a_delay",
	steps: []step{
		{call: "after a 1ns"},
		{call: "len", want: "0"},
		{call: "elapse 1ns"},
		{call: "take", want: "a"},
	},
}, {
	name: "the_longest_delay_does_not_overflow_kubernetes#83945",
	steps: []step{
		{call: "elapse 1h"},
		{call: "after a max"},
		{call: "len", want: "0"},
		{call: "elapse 1000h"},
		{call: "len", want: "0"},
		{call: "after b 1s"},
		{call: "after c max"},
		{call: "elapse 1s"},
		{call: "take", want: "b"},
	},
}, {
	name: "the_longest_delay_gives_way_to_a_short_one",
	steps: []step{
		{call: "after a max"},
		{call: "after a 20ms"},
		{call: "elapse 20ms"},
		{call: "take", want: "a"},
	},
}}

var delayAndShutdownTimelines = []timeline{{
	name: "AddAfter_after_ShutDown_is_ignored",
	steps: []step{
		{call: "shutdown"},
		{call: "after a 0s"},
		{call: "after b 1s"},
		{call: "elapse 1h"},
		{call: "len", want: "0"},
		{call: "get", want: "shutdown"},
	},
}, {
	name: "AddAfter_after_a_drain_is_ignored",
	steps: []step{
		{call: "drain", want: "returned"},
		{call: "after a 0s"},
		{call: "after b 1s"},
		{call: "elapse 1h"},
		{call: "len", want: "0"},
	},
}, {
	name: "ShutDown_drops_what_waits",
	steps: []step{
		{call: "after a 1s"},
		{call: "add b"},
		{call: "shutdown"},
		{call: "elapse 1h"},
		{call: "take", want: "b"},
		{call: "get", want: "shutdown"},
	},
}, {
	name: "a_drain_does_not_wait_for_what_waits",
	steps: []step{
		{call: "after a 1s"},
		{call: "drain", want: "returned"},
		{call: "elapse 1h"},
		{call: "get", want: "shutdown"},
	},
}, {
	name: "what_comes_due_during_a_drain_is_dropped",
	steps: []step{
		{call: "after a 1s"},
		{call: "add b"},
		{call: "get", want: "b"},
		{call: "drain", want: "blocks"},
		{call: "elapse 1h"},
		{call: "len", want: "0"},
		{call: "done b", want: "drain=returned"},
	},
}}
