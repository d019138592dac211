package compat_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// Foreign code that panics: the panic is its caller's to deal with, and the
// queue must be of use after it. client-go runs metrics and storages in the
// middle of its own steps, so that their panics leave a step half done, and an
// item that nobody will ever be handed.
func TestForeignPanics(t *testing.T) {
	for _, on := range layers {
		t.Run("layer="+string(on), func(t *testing.T) {
			play(t, on, metricFaults)
			t.Run("storage", func(t *testing.T) { play(t, on, storageFaults) })
			if on != fifo {
				t.Run("delays", func(t *testing.T) { play(t, on, delayFaults) })
			}
		})
	}
}

var metricFaults = []timeline{{
	name: "a_metric_in_Add",
	steps: []step{
		{call: "break adds"},
		{call: "add a", want: "panics"},
		{call: "len", want: "1", upstream: new("0")},
		{call: "add a"},
		{call: "take", want: "a"},
	},
}, {
	name: "a_metric_in_Add_of_an_item_in_flight",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "break adds"},
		{call: "add a", want: "panics"},
		{call: "done a"},
		{call: "len", want: "1", upstream: new("0")},
		{call: "add a"},
		{call: "take", want: "a"},
	},
}, {
	name: "a_metric_in_Get_puts_the_item_back_at_the_head",
	steps: []step{
		{call: "add a b"},
		{call: "break depth"},
		{call: "get", want: "panics"},
		{call: "len", want: "2", upstream: new("1")},
		{call: "add a"},
		{call: "take", want: "a b", upstream: new("b")},
	},
}, {
	name: "a_metric_in_a_Get_that_was_blocked",
	steps: []step{
		{call: "get", want: "blocks"},
		{call: "break latency"},
		{call: "add a", want: "get=panics"},
		{call: "len", want: "1", upstream: new("0")},
		{call: "get", want: "a", upstream: new("blocks")},
	},
}, {
	name: "a_metric_in_Done",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "add a"},
		{call: "break work"},
		{call: "done a", want: "panics"},
		{call: "len", want: "1", upstream: new("0")},
		{call: "take", want: "a", upstream: new("")},
		{call: "drain", want: "returned", upstream: new("blocks")},
	},
}}

var storageFaults = []timeline{{
	name:    "Push_in_Add",
	storage: newStack,
	steps: []step{
		{call: "break push"},
		{call: "add a", want: "panics"},
		{call: "len", want: "1", upstream: new("0")},
		{call: "add a"},
		{call: "take", want: "a", upstream: new("")},
		{call: "drain", want: "returned"},
	},
}, {
	name:    "Push_in_Done",
	storage: newStack,
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "add a"},
		{call: "break push"},
		{call: "done a", want: "panics"},
		{call: "len", want: "1", upstream: new("0")},
		{call: "take", want: "a", upstream: new("")},
	},
}, {
	name:    "Pop",
	storage: newStack,
	steps: []step{
		{call: "add a b"},
		{call: "break pop"},
		{call: "get", want: "panics"},
		{call: "len", want: "2"},
		{call: "take", want: "b a"},
	},
}, {
	name:    "Touch",
	storage: newStack,
	steps: []step{
		{call: "add a b"},
		{call: "break touch"},
		{call: "add a", want: "panics"},
		{call: "len", want: "2"},
		{call: "take", want: "b a"},
	},
}}

var delayFaults = []timeline{{
	name: "a_metric_in_AddAfter",
	steps: []step{
		{call: "break retries"},
		{call: "after a 1s", want: "panics"},
		{call: "elapse 1s"},
		{call: "take", want: "a", upstream: new("")},
	},
}, {
	name: "a_metric_in_AddAfter_without_a_delay",
	steps: []step{
		{call: "break retries"},
		{call: "after a 0s", want: "panics"},
		{call: "take", want: "a", upstream: new("")},
	},
}}

// TestNaN is about items that are comparable, but equal to none, not even to
// themselves: nothing can name them.
func TestNaN(t *testing.T) {
	nan := math.NaN()
	onEach(t, func(t *testing.T, impl implementation) {
		synctest.Test(t, func(t *testing.T) {
			q := impl.untyped.queues["New"]()
			defer synctest.Wait()
			defer q.ShutDown()
			q.Add(nan)
			q.Add(nan)
			if n := q.Len(); n != 2 {
				t.Fatalf("%d items after two adds", n)
			}
			for range 2 {
				item, _ := q.Get()
				if f, ok := item.(float64); !ok || !math.IsNaN(f) {
					t.Errorf("Get: %v", item)
				}
				q.Done(item)
			}
			drained := false
			go func() {
				q.ShutDownWithDrain()
				drained = true
			}()
			synctest.Wait()
			outcome[bool]{true, new(false)}.check(t, impl, "drained", drained)
		})
	})
}

// TestNilLimiter is about a mistake that both packages answer with a panic, and
// not before the limiter is needed: there are programs that never need it.
func TestNilLimiter(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		for name, construct := range map[string]func() rateLimiter[string]{
			"queue": func() rateLimiter[string] {
				q := impl.rateLimiting(nil, settings{})
				t.Cleanup(q.ShutDown)
				return limitedOnly{q}
			},
			"max_of":   func() rateLimiter[string] { return impl.maxOf(nil) },
			"max_wait": func() rateLimiter[string] { return impl.maxWait(nil, time.Second) },
		} {
			t.Run(name, func(t *testing.T) {
				var limiter rateLimiter[string]
				got := "never"
				if recovered(func() { limiter = construct() }) != "" {
					got = "at construction"
				} else if recovered(func() { limiter.When("a") }) != "" {
					got = "at its first use"
				}
				outcome[string]{want: "at its first use"}.check(t, impl, "panics", got)
			})
		}
	})
}

// limitedOnly is a queue as the limiter that it contains.
type limitedOnly struct{ rateLimitingQueue[string] }

func (q limitedOnly) When(item string) time.Duration {
	q.AddRateLimited(item)
	return 0
}

func TestNegativeWorkers(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		if recovered(func() { impl.parallelize(context.Background(), -1, 3, func(int) {}, nil) }) == "" {
			t.Error("no panic")
		}
	})
}
