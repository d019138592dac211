package compat_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
)

// Foreign code panics: the caller deals with the panic, and the
// queue must be of use afterwards. client-go runs metrics and storages in the
// middle of its own steps, so a panic leaves a step half done, and an
// item that nobody ever gets.
func TestForeignPanics(t *testing.T) {
	onLayers(t, slices.Concat(metricFaults, storageFaults), layers...)
	t.Run("delays", func(t *testing.T) { onLayers(t, delayFaults, delayed, rateLimited) })
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
	name:  "Push_in_Add",
	stack: true,
	steps: []step{
		{call: "break push"},
		{call: "add a", want: "panics"},
		{call: "len", want: "1", upstream: new("0")},
		{call: "add a"},
		{call: "take", want: "a", upstream: new("")},
		{call: "drain", want: "returned"},
	},
}, {
	name:  "Push_in_Done",
	stack: true,
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
	name:  "Pop",
	stack: true,
	steps: []step{
		{call: "add a b"},
		{call: "break pop"},
		{call: "get", want: "panics"},
		{call: "len", want: "2"},
		{call: "take", want: "b a"},
	},
}, {
	name:  "Touch",
	stack: true,
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
			q := impl.untyped()
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

// TestUnhashableItem is about items that == cannot compare. The compiler lets them into an untyped
// queue; the queue throws them back at the caller, and works on.
func TestUnhashableItem(t *testing.T) {
	bad := []int{1}
	calls := map[string]func(rateLimitingQueue[any]){
		"Add":               func(q rateLimitingQueue[any]) { q.Add(bad) },
		"AddAfter_no_delay": func(q rateLimitingQueue[any]) { q.AddAfter(bad, 0) },
		"AddRateLimited":    func(q rateLimitingQueue[any]) { q.AddRateLimited(bad) },
		"Done":              func(q rateLimitingQueue[any]) { q.Done(bad) },
		"Forget":            func(q rateLimitingQueue[any]) { q.Forget(bad) },
		"NumRequeues":       func(q rateLimitingQueue[any]) { q.NumRequeues(bad) },
		"Add_in_a_struct":   func(q rateLimitingQueue[any]) { q.Add(struct{ a any }{bad}) },
	}
	onEach(t, func(t *testing.T, impl implementation) {
		for name, call := range calls {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := impl.untyped()
					defer synctest.Wait()
					q.Add("held")
					q.Get()
					if panicked := recovered(func() { call(q) }); panicked == "" {
						t.Error("no panic")
					}
					q.Done("held")
					q.AddRateLimited(1)
					if item, _ := q.Get(); item != 1 {
						t.Errorf("after the panic: got %v, want 1", item)
					}
					q.Done(1)
					q.ShutDown()
				})
			})
		}
	})
}

// recovered returns the value of a panic of f, as text, or "".
func recovered(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}
