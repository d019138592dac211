package compat_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// failures is how far each limiter is followed: well beyond the 64 at which a
// doubled delay has left its type.
const failures = 200

// A formula is the delay of the nth failure in a row, from 1.
type formula func(n int) time.Duration

type limiterCase struct {
	name      string
	construct func(implementation) rateLimiter[string]
	want      formula
	upstream  map[int]time.Duration // by failure, where client-go strays from the formula
	forgetful bool                  // knows nothing of items
	shared    bool                  // its delays depend on other items
}

const maxDuration = time.Duration(math.MaxInt64)

func TestRateLimiters(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		for _, c := range limiterCases() {
			t.Run(c.name, func(t *testing.T) {
				// Bucket limiters read the time, which in a bubble stands still.
				synctest.Test(t, func(t *testing.T) { c.run(t, impl) })
			})
		}
	})
}

func (c limiterCase) run(t *testing.T, impl implementation) {
	limiter := c.construct(impl)
	for n := 1; n <= failures; n++ {
		expected := outcome[time.Duration]{want: c.want(n)}
		if d, ok := c.upstream[n]; ok {
			expected.upstream = &d
		}
		expected.check(t, impl, fmt.Sprintf("failure %d", n), limiter.When("a"))
		c.count(t, limiter, "a", n)
	}
	if got, want := limiter.When("b"), c.want(1); got != want && !c.shared {
		t.Errorf("first failure of another item: %v, want %v", got, want)
	}
	limiter.Forget("a")
	c.count(t, limiter, "a", 0)
	c.count(t, limiter, "b", 1)
	if got, want := limiter.When("a"), c.want(1); got != want && !c.shared {
		t.Errorf("first failure after Forget: %v, want %v", got, want)
	}
	limiter.Forget("stranger")
	c.count(t, limiter, "a", 1)
}

func (c limiterCase) count(t *testing.T, limiter rateLimiter[string], item string, want int) {
	t.Helper()
	if c.forgetful {
		want = 0
	}
	if got := limiter.NumRequeues(item); got != want {
		t.Errorf("%q has %d failures, want %d", item, got, want)
	}
}

func limiterCases() []limiterCase {
	var all []limiterCase
	all = append(all, exponentialCases()...)
	all = append(all, fastSlowCases()...)
	all = append(all, bucketCases()...)
	all = append(all, compoundCases()...)
	return append(all, limiterCase{
		name:      "default_item_based",
		construct: func(impl implementation) rateLimiter[string] { return impl.itemDefault() },
		want:      doubling(time.Millisecond, 1000*time.Second),
	}, limiterCase{
		name:      "default_controller",
		construct: func(impl implementation) rateLimiter[string] { return impl.controllerDefault() },
		want:      longer(doubling(5*time.Millisecond, 1000*time.Second), dripping(10, 100)),
		shared:    true,
	})
}

// doubling is min(base * 2^(n-1), limit), in steps that cannot overflow.
func doubling(base, limit time.Duration) formula {
	return func(n int) time.Duration {
		d := base
		for range n - 1 {
			if d > limit-d {
				return limit
			}
			d += d
		}
		return min(d, limit)
	}
}

// dripping is a bucket with so many tokens, and qps more a second. It reckons
// in floating point, as the bucket does: a tenth is not a binary fraction, and
// some multiples of it come out a nanosecond short.
func dripping(qps float64, burst int) formula {
	return func(n int) time.Duration {
		return time.Duration(float64(time.Second) * (float64(max(0, n-burst)) / qps))
	}
}

func longer(a, b formula) formula {
	return func(n int) time.Duration { return max(a(n), b(n)) }
}

// converted is what time.Duration makes of 2^63, which is implementation
// specific: the least duration on amd64, the greatest on arm64.
func converted(limit time.Duration) time.Duration {
	overflow := math.Ldexp(1, 63)
	return min(time.Duration(overflow), limit)
}

func exponentialCases() []limiterCase {
	var all []limiterCase
	for _, c := range []struct {
		base, limit time.Duration
		strays      int // the failure at which client-go converts 2^63
		thread      string
	}{
		{base: 5 * time.Millisecond, limit: 1000 * time.Second},
		{base: time.Millisecond, limit: 1000 * time.Second},
		{base: 3, limit: time.Hour},
		{base: 5 * time.Millisecond, limit: maxDuration},
		{base: time.Minute, limit: time.Minute},
		{base: time.Minute, limit: time.Second},
		{base: time.Second, limit: 0},
		{base: 0, limit: time.Second},
		{base: 1 << 20, limit: 1000 * time.Second, strays: 44, thread: "_kubernetes#31396"},
		{base: 1, limit: maxDuration, strays: 64, thread: "_kubernetes#31396"},
	} {
		next := limiterCase{
			name: fmt.Sprintf("exponential_from_%v_to_%v%s", c.base, c.limit, c.thread),
			construct: func(impl implementation) rateLimiter[string] {
				return impl.exponential(c.base, c.limit)
			},
			want: doubling(c.base, c.limit),
		}
		if c.strays > 0 {
			next.upstream = map[int]time.Duration{c.strays: converted(c.limit)}
		}
		all = append(all, next)
	}
	return all
}

func fastSlowCases() []limiterCase {
	const fast, slow = 5 * time.Millisecond, 10 * time.Second
	var all []limiterCase
	for _, attempts := range []int{0, 1, 3, failures - 1, failures, failures + 1, -1} {
		all = append(all, limiterCase{
			name: fmt.Sprintf("fast_slow_after_%d", attempts),
			construct: func(impl implementation) rateLimiter[string] {
				return impl.fastSlow(fast, slow, attempts)
			},
			want: func(n int) time.Duration {
				if n <= attempts {
					return fast
				}
				return slow
			},
		})
	}
	return all
}

func bucketCases() []limiterCase {
	return []limiterCase{{
		name:      "bucket_of_3_and_1_a_second",
		construct: func(impl implementation) rateLimiter[string] { return impl.bucket(1, 3) },
		want:      dripping(1, 3),
		forgetful: true,
		shared:    true,
	}, {
		name:      "bucket_of_100_and_10_a_second",
		construct: func(impl implementation) rateLimiter[string] { return impl.bucket(10, 100) },
		want:      dripping(10, 100),
		forgetful: true,
		shared:    true,
	}}
}

func compoundCases() []limiterCase {
	return []limiterCase{{
		name: "max_of_exponential_and_fast_slow",
		construct: func(impl implementation) rateLimiter[string] {
			return impl.maxOf(impl.exponential(time.Millisecond, 20*time.Second), impl.fastSlow(time.Second, 15*time.Second, 12))
		},
		want: longer(doubling(time.Millisecond, 20*time.Second), func(n int) time.Duration {
			if n <= 12 {
				return time.Second
			}
			return 15 * time.Second
		}),
	}, {
		name:      "max_of_nothing",
		construct: func(impl implementation) rateLimiter[string] { return impl.maxOf() },
		want:      func(int) time.Duration { return 0 },
		forgetful: true,
	}, {
		name: "max_wait_of_exponential",
		construct: func(impl implementation) rateLimiter[string] {
			return impl.maxWait(impl.exponential(time.Millisecond, time.Hour), 3*time.Second)
		},
		want: doubling(time.Millisecond, 3*time.Second),
	}, {
		name: "max_wait_of_bucket",
		construct: func(impl implementation) rateLimiter[string] {
			return impl.maxWait(impl.bucket(1, 10), time.Minute)
		},
		want:      func(n int) time.Duration { return min(dripping(1, 10)(n), time.Minute) },
		forgetful: true,
		shared:    true,
	}, {
		name: "max_wait_longer_than_any",
		construct: func(impl implementation) rateLimiter[string] {
			return impl.maxWait(impl.exponential(time.Millisecond, time.Hour), maxDuration)
		},
		want: doubling(time.Millisecond, time.Hour),
	}}
}

// TestMaxOfIsSharedByItems is about the limiter that most controllers have:
// its bucket does not care whose token it gives.
func TestMaxOfIsSharedByItems(t *testing.T) {
	onEach(t, func(t *testing.T, impl implementation) {
		synctest.Test(t, func(t *testing.T) {
			limiter := impl.controllerDefault()
			want := longer(doubling(5*time.Millisecond, 5*time.Millisecond), dripping(10, 100))
			for n := 1; n <= failures; n++ {
				if got := limiter.When(fmt.Sprint(n)); got != want(n) {
					t.Errorf("item %d: %v, want %v", n, got, want(n))
				}
			}
			if n := limiter.NumRequeues("1"); n != 1 {
				t.Errorf("the first item has %d failures", n)
			}
			time.Sleep(10 * time.Second)
			limiter.Forget("1")
			if got := limiter.When("1"); got != 100*time.Millisecond {
				t.Errorf("with an empty bucket: %v", got)
			}
			if n := limiter.NumRequeues("1"); n != 1 {
				t.Errorf("after Forget and a failure: %d failures", n)
			}
			time.Sleep(20 * time.Second)
			if got := limiter.When("1"); got != 10*time.Millisecond {
				t.Errorf("with a full bucket: %v", got)
			}
		})
	})
}

func TestRateLimitedAdds(t *testing.T) { play(t, rateLimited, rateLimitedTimelines) }

// The limiter of these queues is exponential from 1 s to 1 h.
var rateLimitedTimelines = []timeline{{
	name: "each_failure_doubles_the_delay",
	steps: []step{
		{call: "requeues a", want: "0"},
		{call: "limited a"},
		{call: "requeues a", want: "1"},
		{call: "elapse 999ms"},
		{call: "len", want: "0"},
		{call: "elapse 1ms"},
		{call: "take", want: "a"},
		{call: "limited a"},
		{call: "requeues a", want: "2"},
		{call: "elapse 1999ms"},
		{call: "len", want: "0"},
		{call: "elapse 1ms"},
		{call: "take", want: "a"},
	},
}, {
	name: "Forget_starts_over",
	steps: []step{
		{call: "limited a"},
		{call: "elapse 1s"},
		{call: "limited a"},
		{call: "elapse 2s"},
		{call: "forget a"},
		{call: "requeues a", want: "0"},
		{call: "take", want: "a"},
		{call: "limited a"},
		{call: "requeues a", want: "1"},
		{call: "elapse 1s"},
		{call: "take", want: "a"},
	},
}, {
	name: "Forget_leaves_the_item_where_it_is",
	steps: []step{
		{call: "limited a"},
		{call: "forget a"},
		{call: "elapse 1s"},
		{call: "get", want: "a"},
		{call: "add a"},
		{call: "forget a"},
		{call: "len", want: "0"},
		{call: "done a"},
		{call: "len", want: "1"},
	},
}, {
	name: "a_failure_that_waits_already_counts_but_is_not_put_off",
	steps: []step{
		{call: "limited a a a"},
		{call: "requeues a", want: "3"},
		{call: "elapse 1s"},
		{call: "take", want: "a"},
		{call: "elapse 1h"},
		{call: "len", want: "0"},
	},
}, {
	name: "items_are_limited_by_themselves",
	steps: []step{
		{call: "limited a a b"},
		{call: "requeues a", want: "2"},
		{call: "requeues b", want: "1"},
		{call: "forget a"},
		{call: "requeues a", want: "0"},
		{call: "requeues b", want: "1"},
		{call: "requeues c", want: "0"},
	},
}, {
	name: "a_failure_in_flight_comes_back_after_its_Done",
	steps: []step{
		{call: "add a"},
		{call: "get", want: "a"},
		{call: "limited a"},
		{call: "done a"},
		{call: "len", want: "0"},
		{call: "get", want: "blocks"},
		{call: "elapse 1s", want: "get=a"},
	},
}, {
	name: "after_a_shutdown_nothing_is_added",
	steps: []step{
		{call: "limited a"},
		{call: "shutdown"},
		{call: "limited b"},
		{call: "elapse 1h"},
		{call: "len", want: "0"},
		{call: "requeues a", want: "1"},
		{call: "forget a"},
		{call: "requeues a", want: "0"},
	},
}}
