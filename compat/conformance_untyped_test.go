package compat_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// untypedConstructors are the constructors of the deprecated API by name. A
// delaying one may take the clock or leave it.
type untypedConstructors struct {
	queues       map[string]func() typedQueue[any]
	delaying     map[string]func(clock.WithTicker) delayingQueue[any]
	rateLimiting map[string]func() rateLimitingQueue[any]
	limiters     map[string]func() rateLimiter[any]
}

// A point is an item like any other: comparable, and not equal to 1 or "1".
type point struct{ x, y int }

var mixedItems = []any{1, "1", int64(1), point{1, 1}, nil, true}

func TestUntypedQueues(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		for name, construct := range impl.untyped.queues {
			t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { useUntyped(t, construct()) }) })
		}
		for name, construct := range impl.untyped.delaying {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := construct(clock.RealClock{})
					useUntyped(t, q, func() { useUntypedDelays(t, q) })
				})
			})
		}
		for name, construct := range impl.untyped.rateLimiting {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := construct()
					useUntyped(t, q, func() { useUntypedDelays(t, q) }, func() { useUntypedLimits(t, q) })
				})
			})
		}
	})
}

// useUntyped checks what Typed[any] does not get from Typed[string]: items of
// several types beside each other. It leaves the queue shut down.
func useUntyped(t *testing.T, q typedQueue[any], more ...func()) {
	for range 2 {
		for _, item := range mixedItems {
			q.Add(item)
		}
	}
	takeUntyped(t, q, mixedItems...)
	for _, use := range more {
		use()
	}
	q.Add(point{2, 2})
	q.ShutDown()
	takeUntyped(t, q, point{2, 2})
	if item, shutdown := q.Get(); item != nil || !shutdown {
		t.Errorf("Get after the shutdown: %v, %v", item, shutdown)
	}
}

func useUntypedDelays(t *testing.T, q delayingQueue[any]) {
	q.AddAfter(point{1, 2}, 2*time.Second)
	q.AddAfter("late", 3*time.Second)
	takeUntyped(t, q)
	time.Sleep(2 * time.Second)
	takeUntyped(t, q, point{1, 2})
	time.Sleep(time.Second)
	takeUntyped(t, q, "late")
}

func useUntypedLimits(t *testing.T, q rateLimitingQueue[any]) {
	q.AddRateLimited(point{1, 3})
	q.AddRateLimited(point{1, 3})
	if n := q.NumRequeues(point{1, 3}); n != 2 {
		t.Errorf("two failures count as %d", n)
	}
	q.Forget(point{1, 3})
	if n := q.NumRequeues(point{1, 3}); n != 0 {
		t.Errorf("a forgotten item has %d failures", n)
	}
	takeUntyped(t, q)
	time.Sleep(time.Millisecond)
	takeUntyped(t, q, point{1, 3})
}

// takeUntyped lets things settle and checks that the queue has the items.
func takeUntyped(t *testing.T, q typedQueue[any], want ...any) {
	t.Helper()
	synctest.Wait()
	var got []any
	for q.Len() > 0 {
		item, _ := q.Get()
		got = append(got, item)
		q.Done(item)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the queue had %v, want %v", got, want)
	}
}

func TestUntypedQueueTakesClock(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		for _, name := range []string{"NewDelayingQueueWithConfig", "NewDelayingQueueWithCustomClock"} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fake := clocktesting.NewFakeClock(time.Now())
					q := impl.untyped.delaying[name](fake)
					defer synctest.Wait()
					defer q.ShutDown()
					q.AddAfter(1, time.Second)
					time.Sleep(time.Hour)
					takeUntyped(t, q)
					fake.Step(time.Second)
					takeUntyped(t, q, 1)
				})
			})
		}
	})
}

func TestUntypedLimiters(t *testing.T) {
	const ms = time.Millisecond
	want := map[string][4]time.Duration{
		"DefaultControllerRateLimiter":         {5 * ms, 10 * ms, 20 * ms, 40 * ms},
		"DefaultItemBasedRateLimiter":          {1 * ms, 2 * ms, 4 * ms, 8 * ms},
		"NewItemExponentialFailureRateLimiter": {1000 * ms, 2000 * ms, 3000 * ms, 3000 * ms},
		"NewItemFastSlowRateLimiter":           {1000 * ms, 1000 * ms, 60000 * ms, 60000 * ms},
		"NewMaxOfRateLimiter":                  {2000 * ms, 3000 * ms, 4000 * ms, 8000 * ms},
		"NewWithMaxWaitRateLimiter":            {1000 * ms, 2000 * ms, 3000 * ms, 3000 * ms},
		"BucketRateLimiter":                    {0, 0, 1000 * ms, 2000 * ms},
	}
	onEach(t, func(t *testing.T, impl implementation) {
		for name, construct := range impl.untyped.limiters {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					limiter := construct()
					var got [4]time.Duration
					for i := range got {
						got[i] = limiter.When(point{1, 1})
					}
					if got != want[name] {
						t.Errorf("delays %v, want %v", got, want[name])
					}
				})
			})
		}
	})
}

// TestUnhashableItem is about items that == cannot compare. The compiler lets
// them into an untyped queue; the queue throws them back at whoever brought
// them, and works on.
func TestUnhashableItem(t *testing.T) {
	bad := []int{1}
	calls := map[string]func(rateLimitingQueue[any]){
		"Add":                func(q rateLimitingQueue[any]) { q.Add(bad) },
		"AddAfter_no_delay":  func(q rateLimitingQueue[any]) { q.AddAfter(bad, 0) },
		"AddRateLimited":     func(q rateLimitingQueue[any]) { q.AddRateLimited(bad) },
		"Done":               func(q rateLimitingQueue[any]) { q.Done(bad) },
		"Forget":             func(q rateLimitingQueue[any]) { q.Forget(bad) },
		"NumRequeues":        func(q rateLimitingQueue[any]) { q.NumRequeues(bad) },
		"Add_in_a_struct":    func(q rateLimitingQueue[any]) { q.Add(struct{ a any }{bad}) },
		"Add_of_a_map":       func(q rateLimitingQueue[any]) { q.Add(map[string]int{}) },
		"Add_of_a_func":      func(q rateLimitingQueue[any]) { q.Add(func() {}) },
		"Add_in_an_array_of": func(q rateLimitingQueue[any]) { q.Add([1]any{bad}) },
	}
	onEach(t, func(t *testing.T, impl implementation) {
		for name, call := range calls {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := impl.untyped.rateLimiting["NewRateLimitingQueue"]()
					defer synctest.Wait()
					q.Add("held")
					q.Get()
					if panicked := recovered(func() { call(q) }); panicked == "" {
						t.Error("no panic")
					}
					q.Done("held")
					useUntyped(t, q, func() { useUntypedDelays(t, q) }, func() { useUntypedLimits(t, q) })
				})
			})
		}
	})
}

// recovered returns what f panicked with, as text, or "".
func recovered(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}
