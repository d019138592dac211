package compat_test

import (
	"strings"
	"testing"
	"testing/synctest"
)

func TestCustomStorage(t *testing.T) { onLayers(t, storageTimelines, layers...) }

var storageTimelines = []timeline{{
	name:  "touch_tells_of_a_queued_item_only",
	stack: true,
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
	name:  "a_blocked_worker_gets_its_item_through_the_storage",
	stack: true,
	steps: []step{
		{call: "get", want: "blocks"},
		{call: "add a", want: "get=a"},
		{call: "journal", want: "push a, pop a"},
	},
}, {
	name:  "nothing_is_told_after_a_shutdown",
	stack: true,
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
	name:  "a_drain_waits_for_what_is_stored_kubernetes#141079",
	stack: true,
	steps: []step{
		{call: "add a b"},
		{call: "get", want: "b"},
		{call: "drain", want: "blocks"},
		{call: "done b", want: "", upstream: new("drain=returned")},
		{call: "take", want: "a, drain=returned", upstream: new("a")},
	},
}, {
	name:  "Done_of_a_stranger_is_not_stored_kubernetes#79934",
	stack: true,
	steps: []step{
		{call: "add a"},
		{call: "done a"},
		{call: "journal", want: "push a", upstream: new("push a, push a")},
	},
}}

// A duel compares the metrics of a queue, but not its gauges.
func TestMetricValues(t *testing.T) { onLayers(t, gaugeTimelines, layers...) }

// The gauges below are set every 500 ms while work is in flight, at a phase of
// which nothing is said. So they are looked at after longer steps, which a tick
// follows whatever its phase is.
var gaugeTimelines = []timeline{{
	name: "a_blocked_worker_counts_when_it_gets_its_item",
	steps: []step{
		{call: "get", want: "blocks"},
		{call: "metrics", want: ""},
		{call: "add a", want: "get=a"},
		{call: "metrics", want: "adds +1, depth +1 -1, latency 0"},
	},
}, {
	name: "unfinished_is_the_sum_and_longest_the_greatest",
	steps: []step{
		{call: "gauges", want: "unfinished 0, longest 0"},
		{call: "add a b c"},
		{call: "elapse 10s"},
		{call: "gauges", want: "unfinished 0, longest 0"},
		{call: "get", want: "a"},
		{call: "elapse 2s"},
		{call: "gauges", want: "unfinished 2, longest 2"},
		{call: "get", want: "b"},
		{call: "elapse 1250ms"},
		{call: "gauges", want: "unfinished 4.5, longest 3.25"},
		{call: "done a"},
		{call: "elapse 1s"},
		{call: "gauges", want: "unfinished 2.25, longest 2.25"},
		{call: "done b"},
		{call: "elapse 1s"},
		{call: "gauges", want: "unfinished 0, longest 0"},
		{call: "elapse 1h"},
		{call: "gauges", want: "unfinished 0, longest 0"},
	},
}, {
	name: "an_item_added_again_is_timed_from_its_latest_Get",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "elapse 5s"},
		{call: "add a"},
		{call: "gauges", want: "unfinished 5, longest 5"},
		{call: "done a"},
		{call: "get", want: "a"},
		{call: "elapse 1s"},
		{call: "gauges", want: "unfinished 1, longest 1"},
	},
}, {
	name: "work_after_a_rest_is_seen_again",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "done a"},
		{call: "elapse 1h"},
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "elapse 1s"},
		{call: "gauges", want: "unfinished 1, longest 1"},
	},
}}

// TestMetricConstruction is about the metrics that a queue asks its provider for. A layer below from
// the config has asked for its own metrics.
func TestMetricConstruction(t *testing.T) {
	const ofFIFO = "q/adds q/depth q/latency q/longest q/unfinished q/work"
	const ofDelaying = "q/adds q/depth q/latency q/longest q/retries q/unfinished q/work"
	onEach(t, func(t *testing.T, impl implementation) {
		for name, row := range map[string]struct {
			build func(s settings) typedQueue[string]
			want  string
		}{
			"queue":         {func(s settings) typedQueue[string] { return impl.queue(s) }, ofFIFO},
			"delaying":      {func(s settings) typedQueue[string] { return impl.delaying(s) }, ofDelaying},
			"rate limiting": {func(s settings) typedQueue[string] { return impl.rateLimiting(s) }, ofDelaying},
			"delaying above a queue": {func(s settings) typedQueue[string] {
				s.queue = impl.queue(settings{})
				return impl.delaying(s)
			}, "q/retries"},
			"rate limiting above a delaying queue": {func(s settings) typedQueue[string] {
				s.delaying = impl.delaying(settings{})
				return impl.rateLimiting(s)
			}, ""},
			"without a name": {func(s settings) typedQueue[string] {
				s.name = ""
				return impl.rateLimiting(s)
			}, ""},
		} {
			synctest.Test(t, func(t *testing.T) {
				m := new(meter)
				q := row.build(settings{name: "q", meter: m})
				if got := strings.Join(m.names(), " "); got != row.want {
					t.Errorf("%s: made %q, want %q", name, got, row.want)
				}
				q.ShutDown()
				synctest.Wait()
			})
		}
	})
}
