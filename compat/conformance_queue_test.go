package compat_test

import (
	"testing"
)

// The promises of a FIFO have to hold on every layer above it, too.

func TestFIFO(t *testing.T) {
	for _, on := range layers {
		t.Run("layer="+string(on), func(t *testing.T) { play(t, on, fifoTimelines) })
	}
}

var fifoTimelines = []timeline{{
	name: "items_come_in_the_order_of_their_adds",
	steps: []step{
		{call: "add c a b"},
		{call: "len", want: "3"},
		{call: "get", want: "c"},
		{call: "add d"},
		{call: "get", want: "a"},
		{call: "get", want: "b"},
		{call: "get", want: "d"},
		{call: "len", want: "0"},
	},
}, {
	name: "duplicates_are_handed_out_once_at_the_first_place",
	steps: []step{
		{call: "add a b a a b"},
		{call: "len", want: "2"},
		{call: "take", want: "a b"},
		{call: "get", want: "blocks"},
	},
}, {
	name: "an_item_is_new_again_after_its_Done",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "done a"},
		{call: "len", want: "0"},
		{call: "add a"},
		{call: "len", want: "1"},
		{call: "get", want: "a"},
	},
}, {
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
	name: "added_many_times_while_processed_is_queued_once",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "add a a a a a"},
		{call: "done a"},
		{call: "len", want: "1"},
		{call: "get", want: "a"},
		{call: "done a"},
		{call: "len", want: "0"},
	},
}, {
	name: "added_while_processed_takes_its_place_at_Done",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "add a b"},
		{call: "get", want: "b"},
		{call: "add c"},
		{call: "done a"},
		{call: "add d"},
		{call: "take", want: "c a d"},
	},
}, {
	name: "Done_of_one_item_leaves_the_others_held",
	steps: []step{
		{call: "add a b"},
		{call: "get", want: "a"},
		{call: "get", want: "b"},
		{call: "add a b"},
		{call: "done b"},
		{call: "len", want: "1"},
		{call: "get", want: "b"},
		{call: "done a"},
		{call: "get", want: "a"},
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
}, {
	name: "Done_of_a_stranger_changes_nothing",
	steps: []step{
		{call: "done a"},
		{call: "len", want: "0"},
		{call: "add b"},
		{call: "done a"},
		{call: "take", want: "b"},
	},
}}

// TestZeroValueIsAnItem is about the zero value, which Get also returns without an item.
func TestZeroValueIsAnItem(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		q := impl.plain.queue()
		q.Add("")
		q.Add("")
		if n := q.Len(); n != 1 {
			t.Errorf("after two adds: %d items", n)
		}
		if item, shutdown := q.Get(); item != "" || shutdown {
			t.Errorf("Get: %q, %v", item, shutdown)
		}
		q.Done("")
		q.ShutDown()
		if item, shutdown := q.Get(); item != "" || !shutdown {
			t.Errorf("Get after the shutdown: %q, %v", item, shutdown)
		}
	})
}
