package workqueue_test

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

// allLimiters returns one of each that the package has, for items of a type.
func allLimiters[T comparable]() map[string]workqueue.TypedRateLimiter[T] {
	exponential := func() workqueue.TypedRateLimiter[T] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[T](time.Millisecond, time.Minute)
	}
	return map[string]workqueue.TypedRateLimiter[T]{
		"default":      workqueue.DefaultTypedControllerRateLimiter[T](),
		"item default": workqueue.DefaultTypedItemBasedRateLimiter[T](),
		"fast slow":    workqueue.NewTypedItemFastSlowRateLimiter[T](1, 2, 3),
		"bucket":       &workqueue.TypedBucketRateLimiter[T]{Limiter: rate.NewLimiter(1e6, 1)},
		"max wait":     workqueue.NewTypedWithMaxWaitRateLimiter(exponential(), time.Second),
		"item backoff": workqueue.NewTypedItemBackoffRateLimiter[T](workqueue.Backoff{
			Duration: 1, Factor: 2, Jitter: 1, Cap: time.Second,
		}),
		"key bucket":   workqueue.NewTypedKeyBucketRateLimiter[T](1e6, 1),
		"slow bucket":  workqueue.NewTypedKeyBucketRateLimiter[T](1, 1),
		"expiring":     workqueue.NewTypedExpiringRateLimiter(exponential(), time.Hour),
		"soon expired": workqueue.NewTypedExpiringRateLimiter(exponential(), 1),
	}
}

func TestLimitersConcurrent(t *testing.T) {
	t.Parallel()
	for name, l := range allLimiters[int]() {
		t.Run(name, func(t *testing.T) {
			var wg sync.WaitGroup
			for worker := range 4 {
				wg.Go(func() {
					for n := range 2000 {
						useLimiter(t, l, n%100, worker+n)
					}
				})
			}
			wg.Wait()
			checkInvariants(t, 0, l)
			for key := range 100 {
				l.Forget(key)
				if n := l.NumRequeues(key); n != 0 {
					t.Fatalf("key %d has %d failures after Forget", key, n)
				}
			}
			if sized, ok := l.(interface{ Len() int }); ok && sized.Len() != 0 {
				t.Errorf("%d records after all are forgotten", sized.Len())
			}
		})
	}
}

func useLimiter(t *testing.T, l workqueue.TypedRateLimiter[int], key, n int) {
	switch n % 8 {
	case 0:
		l.Forget(key)
	case 1:
		l.NumRequeues(key)
	case 2:
		_ = fmt.Sprint(l)
	case 3:
		if bucket, ok := l.(interface {
			SetLimit(rate.Limit)
			SetBurst(int)
		}); ok {
			bucket.SetLimit(rate.Limit(1 + n%5))
			bucket.SetBurst(n % 5)
		}
	default:
		if d := l.When(key); d < 0 {
			t.Errorf("key %d waits %v", key, d)
		}
	}
}

func TestLimitersAllocateNothingForAKnownKey(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, l := range allLimiters[string]() {
		for range 3 {
			l.When("a")
		}
		if n := testing.AllocsPerRun(1000, func() { l.When("a") }); n != 0 {
			t.Errorf("%s: %v allocations in a When", name, n)
		}
		if n := testing.AllocsPerRun(1000, func() { l.When("b"); l.Forget("b") }); n > 0.1 {
			t.Errorf("%s: %v allocations in a When and a Forget of another", name, n)
		}
	}
}

// An item that cannot be compared panics, as in a map, and the limiter goes on.
func TestLimitersWithAnItemThatCannotBeCompared(t *testing.T) {
	for name, l := range allLimiters[any]() {
		if name == "bucket" {
			continue // It never looks at the item.
		}
		for _, call := range []func(){
			func() { l.When([]int{}) },
			func() { l.Forget([]int{}) },
		} {
			if goes(call) == nil {
				t.Errorf("%s: no panic", name)
			}
		}
		l.When("a")
		l.Forget("a")
	}
}

// An item that differs from itself could not be forgotten: nothing is kept.
func TestLimitersWithNaN(t *testing.T) {
	for name, l := range allLimiters[float64]() {
		for range 100 {
			if d := l.When(math.NaN()); d < 0 {
				t.Errorf("%s: wait %v", name, d)
			}
		}
		l.Forget(math.NaN())
		if n := l.NumRequeues(math.NaN()); n != 0 {
			t.Errorf("%s: %d failures", name, n)
		}
		if sized, ok := l.(interface{ Len() int }); ok && sized.Len() != 0 {
			t.Errorf("%s: %d records", name, sized.Len())
		}
	}
}

func BenchmarkWhen(b *testing.B) {
	for name, l := range allLimiters[string]() {
		b.Run("impl="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.When("key")
			}
		})
	}
}
