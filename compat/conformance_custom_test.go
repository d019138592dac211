package compat_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestCustomStorage(t *testing.T) {
	for _, on := range layers {
		t.Run("layer="+string(on), func(t *testing.T) { play(t, on, storageTimelines) })
	}
}

var storageTimelines = []timeline{{
	name:    "a_stack_hands_out_the_last_first",
	storage: newStack,
	steps: []step{
		{call: "add a b c a"},
		{call: "len", want: "3"},
		{call: "get", want: "c"},
		{call: "add d"},
		{call: "take", want: "d b a"},
		{call: "get", want: "blocks"},
	},
}, {
	name:    "a_priority_holds_across_adds",
	storage: newSorted,
	steps: []step{
		{call: "add m x a"},
		{call: "get", want: "a"},
		{call: "add b a"},
		{call: "get", want: "b"},
		{call: "done a"},
		{call: "take", want: "a m x"},
	},
}, {
	name:    "touch_can_move_an_item",
	storage: newEager,
	steps: []step{
		{call: "add a b c"},
		{call: "add b"},
		{call: "add c"},
		{call: "take", want: "c b a"},
	},
}, {
	name:    "touch_tells_of_a_queued_item_only",
	storage: newStack,
	steps: []step{
		{call: "add a"},
		{call: "journal", want: "push a"},
		{call: "add a a"},
		{call: "journal", want: "touch a, touch a"},
		{call: "get", want: "a"},
		{call: "journal", want: "pop a"},
		{call: "add a a"},
		{call: "journal", want: ""},
		{call: "done a"},
		{call: "journal", want: "push a"},
		{call: "add a"},
		{call: "journal", want: "touch a"},
		{call: "get", want: "a"},
		{call: "done a"},
		{call: "journal", want: "pop a"},
		{call: "add a"},
		{call: "journal", want: "push a"},
	},
}, {
	name:    "a_blocked_worker_gets_its_item_through_the_storage",
	storage: newStack,
	steps: []step{
		{call: "get", want: "blocks"},
		{call: "add a", want: "get=a"},
		{call: "journal", want: "push a, pop a"},
	},
}, {
	name:    "nothing_is_told_after_a_shutdown",
	storage: newStack,
	steps: []step{
		{call: "add a b"},
		{call: "get", want: "b"},
		{call: "add b"},
		{call: "shutdown"},
		{call: "journal", want: "push a, push b, pop b"},
		{call: "add a b c"},
		{call: "journal", want: ""},
		{call: "done b"},
		{call: "journal", want: "push b"},
		{call: "take", want: "b a"},
		{call: "get", want: "shutdown"},
	},
}, {
	name:    "a_drain_waits_for_what_is_stored_kubernetes#141079",
	storage: newStack,
	steps: []step{
		{call: "add a b"},
		{call: "get", want: "b"},
		{call: "drain", want: "blocks"},
		{call: "done b", want: "", upstream: new("drain=returned")},
		{call: "take", want: "a, drain=returned", upstream: new("a")},
	},
}, {
	name:    "Done_of_a_stranger_is_not_stored_kubernetes#79934",
	storage: newStack,
	steps: []step{
		{call: "add a"},
		{call: "done a"},
		{call: "journal", want: "push a", upstream: new("push a, push a")},
	},
}}

// TestDefaultQueueAsStorage holds a queue to the same as one that has no
// storage in its config.
func TestDefaultQueueAsStorage(t *testing.T) {
	timelines := slices.Concat(fifoTimelines, shutdownTimelines, drainTimelines, interruptedDrainTimelines)
	for i := range timelines {
		timelines[i].storage = func(impl implementation) itemStorage[string] { return impl.storage() }
	}
	play(t, fifo, timelines)
}

func TestInnerQueue(t *testing.T) {
	t.Run("below_delaying", func(t *testing.T) { play(t, delayed, belowDelaying) })
	t.Run("below_rate_limiting", func(t *testing.T) { play(t, rateLimited, belowRateLimiting) })
}

var belowDelaying = []timeline{{
	name:  "calls_are_passed_on",
	inner: true,
	steps: []step{
		{call: "add a"},
		{call: "journal", want: "Add a"},
		{call: "get", want: "a"},
		{call: "journal", want: "Get"},
		{call: "done a"},
		{call: "journal", want: "Done a"},
		{call: "shutdown"},
		{call: "journal", want: "ShutDown"},
	},
}, {
	name:  "an_item_is_added_when_due_and_not_before",
	inner: true,
	steps: []step{
		{call: "after a 0s"},
		{call: "journal", want: "Add a"},
		{call: "after b 2s"},
		{call: "after b 3s"},
		{call: "after c 1s"},
		{call: "journal", want: ""},
		{call: "elapse 1s"},
		{call: "journal", want: "Add c"},
		{call: "elapse 5s"},
		{call: "journal", want: "Add b"},
	},
}, {
	name:  "a_drain_is_one_below_as_well",
	inner: true,
	steps: []step{
		{call: "after a 1s"},
		{call: "drain", want: "returned"},
		{call: "journal", want: "ShutDownWithDrain"},
		{call: "elapse 1h"},
		{call: "journal", want: ""},
	},
}}

var belowRateLimiting = []timeline{{
	name:  "calls_are_passed_on",
	inner: true,
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "done a"},
		{call: "after a 5s"},
		{call: "journal", want: "Add a, Get, Done a, AddAfter a 5s"},
		{call: "drain", want: "returned"},
		{call: "shutdown"},
		{call: "journal", want: "ShutDownWithDrain, ShutDown"},
	},
}, {
	name:  "failures_become_delays",
	inner: true,
	steps: []step{
		{call: "limited a a b"},
		{call: "journal", want: "AddAfter a 1s, AddAfter a 2s, AddAfter b 1s"},
		{call: "forget a"},
		{call: "requeues a", want: "0"},
		{call: "journal", want: ""},
		{call: "limited a"},
		{call: "journal", want: "AddAfter a 1s"},
	},
}}

// TestInnerQueueShutDownBelow is about an inner queue that its owner shuts
// down without telling the queue on top.
func TestInnerQueueShutDownBelow(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		synctest.Test(t, func(t *testing.T) {
			fake := clocktesting.NewFakeClock(time.Now())
			inner := impl.plain.queue()
			q := impl.delaying(settings{clock: fake, queue: inner})
			defer synctest.Wait()
			defer q.ShutDown()
			q.AddAfter("a", time.Second)
			q.Add("b")
			inner.ShutDown()
			if !q.ShuttingDown() {
				t.Error("the queue on top does not know")
			}
			q.AddAfter("c", 0)
			q.AddAfter("d", time.Second)
			synctest.Wait()
			fake.Step(time.Hour)
			synctest.Wait()
			if n := q.Len(); n != 1 {
				t.Errorf("%d items, want 1", n)
			}
			if item, shutdown := q.Get(); item != "b" || shutdown {
				t.Errorf("Get: %q, %v", item, shutdown)
			}
			q.Done("b")
			if item, shutdown := q.Get(); !shutdown {
				t.Errorf("Get after the shutdown: %q", item)
			}
		})
	})
}

// fixed is a limiter that somebody wrote who counts nothing.
type fixed time.Duration

func (f fixed) When(string) time.Duration { return time.Duration(f) }
func (f fixed) Forget(string)             {}
func (f fixed) NumRequeues(string) int    { return 7 }

func TestCustomLimiter(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		for name, c := range map[string]struct {
			delay  fixed
			before int // items queued before the delay is over
		}{
			"a_second":   {delay: fixed(time.Second), before: 0},
			"zero":       {delay: 0, before: 1},
			"less":       {delay: fixed(-time.Second), before: 1},
			"much_less":  {delay: fixed(-maxDuration), before: 1},
			"nanosecond": {delay: 1, before: 0},
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fake := clocktesting.NewFakeClock(time.Now())
					q := impl.rateLimiting(c.delay, settings{clock: fake})
					defer synctest.Wait()
					defer q.ShutDown()
					q.AddRateLimited("a")
					synctest.Wait()
					if n := q.Len(); n != c.before {
						t.Errorf("%d items at once, want %d", n, c.before)
					}
					fake.Step(time.Second)
					synctest.Wait()
					if n := q.Len(); n != 1 {
						t.Errorf("%d items in the end, want 1", n)
					}
					if n := q.NumRequeues("a"); n != 7 {
						t.Errorf("%d requeues, want the limiter's 7", n)
					}
				})
			})
		}
	})
}
