package compat_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

func TestMetricValues(t *testing.T) {
	for _, on := range layers {
		t.Run("layer="+string(on), func(t *testing.T) {
			play(t, on, slices.Concat(countTimelines, timeTimelines, gaugeTimelines))
		})
	}
}

var countTimelines = []timeline{{
	name: "an_item_counts_when_added_and_leaves_the_depth_when_handed_out",
	steps: []step{
		{call: "metrics", want: ""},
		{call: "add a b"},
		{call: "metrics", want: "adds +1 +1, depth +1 +1"},
		{call: "get", want: "a"},
		{call: "metrics", want: "depth -1, latency 0"},
		{call: "done a"},
		{call: "metrics", want: "work 0"},
	},
}, {
	name: "a_duplicate_does_not_count",
	steps: []step{
		{call: "add a a a"},
		{call: "metrics", want: "adds +1, depth +1"},
	},
}, {
	name: "an_item_added_while_processed_counts_at_its_Add_and_not_at_Done",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "metrics", want: "adds +1, depth +1 -1, latency 0"},
		{call: "add a a"},
		{call: "metrics", want: "adds +1, depth +1"},
		{call: "done a"},
		{call: "metrics", want: "work 0"},
		{call: "get", want: "a"},
		{call: "metrics", want: "depth -1, latency 0"},
	},
}, {
	name: "a_blocked_worker_counts_when_it_gets_its_item",
	steps: []step{
		{call: "get", want: "blocks"},
		{call: "metrics", want: ""},
		{call: "add a", want: "get=a"},
		{call: "metrics sorted", want: "adds +1, depth +1 -1, latency 0"},
	},
}, {
	name: "what_is_ignored_does_not_count",
	steps: []step{
		{call: "done a"},
		{call: "shutdown"},
		{call: "add a"},
		{call: "get", want: "shutdown"},
		{call: "metrics", want: ""},
	},
}, {
	name: "work_in_flight_at_the_shutdown_counts",
	steps: []step{
		{call: "add a b"},
		{call: "get", want: "a"},
		{call: "add a"},
		{call: "shutdown"},
		{call: "metrics", want: "adds +1 +1 +1, depth +1 +1 -1 +1, latency 0"},
		{call: "elapse 1s"},
		{call: "done a"},
		{call: "take", want: "b a"},
		{call: "metrics", want: "depth -1 -1, latency 1 1, work 1 0 0"},
	},
}, {
	name:    "a_queue_without_a_name_has_none",
	unnamed: true,
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "elapse 1s"},
		{call: "done a"},
		{call: "metrics", want: ""},
		{call: "gauges", want: "unfinished 0, longest 0"},
	},
}}

var timeTimelines = []timeline{{
	name: "latency_is_from_Add_to_Get_and_work_from_Get_to_Done",
	steps: []step{
		{call: "add a"},
		{call: "elapse 1500ms"},
		{call: "add b"},
		{call: "elapse 250ms"},
		{call: "get", want: "a"},
		{call: "get", want: "b"},
		{call: "elapse 4s"},
		{call: "done b"},
		{call: "elapse 1m"},
		{call: "done a"},
		{call: "metrics", want: "adds +1 +1, depth +1 +1 -1 -1, latency 1.75 0.25, work 4 64"},
	},
}, {
	name: "latency_of_a_duplicate_is_from_the_first_Add",
	steps: []step{
		{call: "add a"},
		{call: "elapse 3s"},
		{call: "add a"},
		{call: "elapse 2s"},
		{call: "get", want: "a"},
		{call: "metrics", want: "adds +1, depth +1 -1, latency 5"},
	},
}, {
	name: "latency_of_an_item_added_while_processed_is_from_that_Add",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "metrics", want: "adds +1, depth +1 -1, latency 0"},
		{call: "elapse 1s"},
		{call: "add a"},
		{call: "elapse 2s"},
		{call: "add a"},
		{call: "done a"},
		{call: "elapse 4s"},
		{call: "get", want: "a"},
		{call: "metrics", want: "adds +1, depth +1 -1, latency 6, work 3"},
		{call: "elapse 8s"},
		{call: "done a"},
		{call: "metrics", want: "work 8"},
	},
}, {
	name: "nanoseconds_are_not_lost",
	steps: []step{
		{call: "add a"},
		{call: "elapse 1ns"},
		{call: "get", want: "a"},
		{call: "elapse 1h0m0.000000001s"},
		{call: "done a"},
		{call: "metrics", want: "adds +1, depth +1 -1, latency 1e-09, work 3600.000000001"},
	},
}}

// The gauges below are set every 500 ms while work is in flight, at a phase of
// which nothing is said. So they are looked at after longer steps, which a tick
// follows whatever its phase is.
var gaugeTimelines = []timeline{{
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

func TestRetryMetric(t *testing.T) {
	play(t, delayed, retryTimelines)
	t.Run("rate-limited", func(t *testing.T) { play(t, rateLimited, slices.Concat(retryTimelines, limitedRetryTimelines)) })
}

// retries is the metric of the delaying queue. It counts calls: of duplicates
// and of adds that were not delayed, too.
var retryTimelines = []timeline{{
	name: "every_AddAfter_counts",
	steps: []step{
		{call: "after a 0s"},
		{call: "metrics", want: "adds +1, depth +1, retries +1"},
		{call: "after a -1s"},
		{call: "metrics", want: "retries +1"},
		{call: "after b 5s"},
		{call: "after b 5s"},
		{call: "after b 7s"},
		{call: "metrics", want: "retries +1 +1 +1"},
	},
}, {
	name: "a_delayed_item_is_added_when_it_is_due",
	steps: []step{
		{call: "after a 5s"},
		{call: "metrics", want: "retries +1"},
		{call: "elapse 5s"},
		{call: "metrics", want: "adds +1, depth +1"},
		{call: "elapse 2s"},
		{call: "get", want: "a"},
		{call: "metrics", want: "depth -1, latency 2"},
	},
}, {
	name: "Add_does_not_count",
	steps: []step{
		{call: "add a"},
		{call: "metrics", want: "adds +1, depth +1"},
	},
}, {
	name: "nothing_counts_after_a_shutdown",
	steps: []step{
		{call: "after a 1s"},
		{call: "metrics", want: "retries +1"},
		{call: "shutdown"},
		{call: "after b 1s"},
		{call: "after b 0s"},
		{call: "elapse 1h"},
		{call: "metrics", want: ""},
	},
}}

var limitedRetryTimelines = []timeline{{
	name: "every_AddRateLimited_counts",
	steps: []step{
		{call: "limited a a b"},
		{call: "metrics", want: "retries +1 +1 +1"},
		{call: "forget a"},
		{call: "metrics", want: ""},
	},
}}

const (
	ofFIFO     = "q/adds q/depth q/latency q/longest q/unfinished q/work"
	ofDelaying = "q/adds q/depth q/latency q/longest q/retries q/unfinished q/work"
)

// A construction is a queue and which metrics it asks its provider for.
type construction struct {
	name  string
	build func(implementation, settings) typedQueue[string]
	want  string
}

var constructions = []construction{{
	name:  "queue",
	build: func(impl implementation, s settings) typedQueue[string] { return impl.queue(s) },
	want:  ofFIFO,
}, {
	name:  "delaying",
	build: func(impl implementation, s settings) typedQueue[string] { return impl.delaying(s) },
	want:  ofDelaying,
}, {
	name: "rate_limiting",
	build: func(impl implementation, s settings) typedQueue[string] {
		return impl.rateLimiting(impl.itemDefault(), s)
	},
	want: ofDelaying,
}, {
	name: "delaying_with_inner_queue",
	build: func(impl implementation, s settings) typedQueue[string] {
		s.queue = impl.plain.queue()
		return impl.delaying(s)
	},
	want: "q/retries",
}, {
	name: "rate_limiting_with_inner_queue",
	build: func(impl implementation, s settings) typedQueue[string] {
		s.delaying = impl.plain.delaying()
		return impl.rateLimiting(impl.itemDefault(), s)
	},
	want: "",
}, {
	name: "without_a_name",
	build: func(impl implementation, s settings) typedQueue[string] {
		s.name = ""
		return impl.rateLimiting(impl.itemDefault(), s)
	},
	want: "",
}}

func TestMetricConstruction(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		for _, c := range constructions {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := new(meter)
					q := c.build(impl, settings{name: "q", meter: m})
					defer synctest.Wait()
					defer q.ShutDown()
					if got := strings.Join(m.names(), " "); got != c.want {
						t.Errorf("made %q, want %q", got, c.want)
					}
				})
			})
		}
	})
}
