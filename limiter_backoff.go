package workqueue

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/spread"
	"github.com/seed16c08ea7/workqueue/wait"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// TypedItemBackoffRateLimiter delays each item by the intervals of a [wait.Backoff].
// Every item has a sequence of its own. The wait after the n-th failure since the
// last Forget, counted from 0, is chosen uniformly at random between i and
// i + Jitter*i, for
//
//	i = min(Duration * Factor^n, Cap / (1 + Jitter))
//
// No wait exceeds Cap, jitter included. The longest waits have jitter too, so items that have
// failed together are not tried together. A Factor of 0 counts as 1, and a Cap of 0 is no maximum. If
// Steps is positive, n is Steps at most. If Steps is 0, only Cap ends the growth, in contrast to
// [wait.Backoff.Step].
//
// For controllers a Jitter of 1, or 0.5, is a good choice. [TypedItemExponentialFailureRateLimiter]
// says what happens without jitter.
//
// The zero value never delays. All methods may be called concurrently. When, Forget and
// NumRequeues take constant time, amortized, and no memory for a known item. The limiter
// remembers an item until Forget, in some 60 bytes beyond the item's own. If nobody calls Forget,
// use [NewTypedExpiringRateLimiter] around the limiter.
type TypedItemBackoffRateLimiter[T comparable] struct {
	// Rand returns the random numbers for the jitter, in [0, 1). nil is [rand.Float64]. Set Rand
	// before the limiter is used. Rand is called without a lock held, and must be safe for
	// concurrent use if several goroutines use the limiter.
	Rand func() float64

	// Immutable after construction.

	growth wait.Backoff // of the intervals, without jitter; Cap is the highest interval
	steps  uint32       // math.MaxUint32 for no end
	jitter float64
	limit  time.Duration // of a wait, with jitter

	mu sync.Mutex
	// The field below is guarded by mu.

	items slab.Ledger[T, streak]
}

// A streak is what is known of an item that fails.
type streak struct {
	interval time.Duration // of the last wait, without jitter
	failures uint32
}

var _ TypedRateLimiter[any] = &TypedItemBackoffRateLimiter[any]{}

// NewTypedItemBackoffRateLimiter returns a limiter of each item by itself. It
// panics if the Duration is negative, if the Factor or the Jitter is negative,
// infinite or not a number, and if there is a Cap that is below the Duration.
//
// With Steps 0 the waits grow up to Cap. The formula of [wait.Backoff] is for [wait.Backoff.Step],
// whose intervals do not grow with Steps 0.
func NewTypedItemBackoffRateLimiter[T comparable](backoff wait.Backoff) *TypedItemBackoffRateLimiter[T] {
	mustBackoff(backoff)
	steps := uint32(math.MaxUint32)
	if backoff.Steps > 0 {
		steps = uint32(min(uint64(backoff.Steps), math.MaxUint32))
	}
	limit := backoff.Cap
	if limit == 0 {
		limit = math.MaxInt64
	}
	ceiling := spread.Ceiling(limit, backoff.Jitter)
	// Steps is 1, for one step at a time: the failures are counted for each item.
	growth := wait.Backoff{Duration: min(backoff.Duration, ceiling), Factor: backoff.Factor, Steps: 1, Cap: ceiling}
	return &TypedItemBackoffRateLimiter[T]{growth: growth, steps: steps, jitter: backoff.Jitter, limit: limit}
}

func mustBackoff(b wait.Backoff) {
	if b.Duration < 0 {
		panic(fmt.Sprintf("workqueue: Backoff.Duration %v is negative", b.Duration))
	}
	if b.Cap != 0 && b.Cap < b.Duration {
		panic(fmt.Sprintf("workqueue: Backoff.Cap %v is below Backoff.Duration %v", b.Cap, b.Duration))
	}
	mustFinite("Backoff.Factor", b.Factor)
	mustFinite("Backoff.Jitter", b.Jitter)
}

func mustFinite(name string, x float64) {
	if !(x >= 0 && x <= math.MaxFloat64) {
		panic(fmt.Sprintf("workqueue: %s %v is not a finite number of at least 0", name, x))
	}
}

// When counts a failure of the item and returns its wait.
func (r *TypedItemBackoffRateLimiter[T]) When(item T) time.Duration {
	hash := slab.HashOf(item)
	return min(spread.Add(r.fail(hash, item), r.jitter, r.random()), r.limit)
}

// random returns a number for the jitter, if there is any to be had.
func (r *TypedItemBackoffRateLimiter[T]) random() float64 {
	switch {
	case r.jitter == 0:
		return 0
	case r.Rand == nil:
		return rand.Float64()
	}
	return max(0, r.Rand())
}

// fail counts a failure and returns the interval after it.
func (r *TypedItemBackoffRateLimiter[T]) fail(hash uint32, item T) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.items.Enter(hash, item)
	switch {
	case s.failures == 0:
		s.interval = r.growth.Duration
	case s.failures <= r.steps:
		s.interval = r.after(s.interval)
	}
	s.failures = oneMore(s.failures)
	return s.interval
}

// after returns the interval that follows the given interval.
func (r *TypedItemBackoffRateLimiter[T]) after(interval time.Duration) time.Duration {
	next := r.growth
	next.Duration = interval
	next.Step()
	return next.Duration
}

// NumRequeues returns the number of calls of When since the last Forget.
func (r *TypedItemBackoffRateLimiter[T]) NumRequeues(item T) int {
	hash := slab.HashOf(item)
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.items.Find(hash, item); s != nil {
		return int(s.failures)
	}
	return 0
}

// Forget makes the item's intervals start over.
func (r *TypedItemBackoffRateLimiter[T]) Forget(item T) {
	hash := slab.HashOf(item)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.items.Remove(hash, item)
}

// Len returns the number of items with failures.
func (r *TypedItemBackoffRateLimiter[T]) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.items.Len()
}

// String describes the limiter for people.
func (r *TypedItemBackoffRateLimiter[T]) String() string {
	s := r.growth.Duration.String()
	if r.growth.Factor != 0 {
		s = fmt.Sprintf("%v * %v^n", r.growth.Duration, r.growth.Factor)
	}
	if r.steps != math.MaxUint32 {
		s += fmt.Sprintf(" for n up to %d", r.steps)
	}
	if r.jitter > 0 {
		s += fmt.Sprintf(", jitter %v", r.jitter)
	}
	if r.limit < math.MaxInt64 {
		s += fmt.Sprintf(", at most %v", r.limit)
	}
	return fmt.Sprintf("item backoff (%s; %d items)", s, r.Len())
}
