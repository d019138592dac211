package workqueue

import (
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// TypedKeyBucketRateLimiter limits all items together by a token bucket of
// which each item takes one token at a time: a When for an item whose token is
// not there yet returns the rest of its wait and costs nothing. For n items at
// once, on a full bucket, the last wait is
//
//	(n - burst) / limit
//
// however often each of them is added meanwhile. With a
// [TypedBucketRateLimiter] each of these duplicates takes a token, and holds
// up everybody else.
//
// Forget gives back a token that is not there yet: the next item gets its
// place, the earliest that was given back, instead of one at the end of the
// line. A place that nobody takes before its time is a token to be had at
// once; like the others such tokens are kept up to the burst. (Given back to a
// [rate.Limiter] by [rate.Reservation.Cancel], the token would be lost for
// every item but the last in line.) Tokens are used as the limit and a burst of
// one more allow.
//
// A limit of 0, or a burst of 0, gives no tokens, and the wait is
// [rate.InfDuration]. It does not count as a place in line, so that a limit
// that is raised later is not held up by it.
//
// The zero value is not usable. It is safe for concurrent use, SetLimit and
// SetBurst included. When and Forget take logarithmic time at most in the
// number of places given back, amortized, and no memory for an item that
// waits. The limiter remembers an item while it waits for its token, in some
// 50 bytes beyond the item's own, and drops it after that bit by bit: it holds
// less than three times as many items as ever waited at a time.
type TypedKeyBucketRateLimiter[T comparable] struct {
	// Immutable after construction.

	clock clock.PassiveClock
	epoch time.Time // on clock; the times below are relative to it

	mu sync.Mutex
	// The fields below are guarded by mu.

	bucket *rate.Limiter
	held   ledger[T, time.Duration] // when the item's token is there
	// returned holds the places given back, under numbers of no meaning; those
	// whose time has come are in spare.
	returned agenda[uint64]
	number   uint64
	spare    int
}

var _ TypedRateLimiter[any] = &TypedKeyBucketRateLimiter[any]{}

// NewTypedKeyBucketRateLimiter returns a limiter whose bucket is filled at the
// limit, in tokens per second, up to the burst, and is full now. It panics if
// one of them is negative or the limit is not a number.
func NewTypedKeyBucketRateLimiter[T comparable](limit rate.Limit, burst int) *TypedKeyBucketRateLimiter[T] {
	return NewTypedKeyBucketRateLimiterWithClock[T](limit, burst, clock.RealClock{})
}

// NewTypedKeyBucketRateLimiterWithClock is [NewTypedKeyBucketRateLimiter] with
// the time from a clock, which must not be nil.
func NewTypedKeyBucketRateLimiterWithClock[T comparable](limit rate.Limit, burst int, c clock.PassiveClock) *TypedKeyBucketRateLimiter[T] {
	mustLimit(limit)
	mustBurst(burst)
	mustClock(c)
	return &TypedKeyBucketRateLimiter[T]{
		clock:  c,
		epoch:  c.Now(),
		bucket: rate.NewLimiter(limit, burst),
	}
}

func mustLimit(limit rate.Limit) {
	if !(limit >= 0) {
		panic(fmt.Sprintf("workqueue: limit %v is not a number of at least 0", float64(limit)))
	}
}

func mustBurst(burst int) {
	if burst < 0 {
		panic(fmt.Sprintf("workqueue: burst %d is negative", burst))
	}
}

// When returns the time until the item's token is there. It takes one unless
// the item has one that is not there yet.
func (r *TypedKeyBucketRateLimiter[T]) When(item T) time.Duration {
	hash := hashOf(item)
	now := r.clock.Now()
	at := now.Sub(r.epoch)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settleLocked(now, at)
	if due := r.held.look(hash, item); due != nil && *due > at {
		return *due - at
	}
	switch due := r.takeLocked(now, at); due {
	case at:
		r.held.drop(hash, item)
		return 0
	case math.MaxInt64:
		return rate.InfDuration
	default:
		*r.held.enter(hash, item) = due
		return due - at
	}
}

// takeLocked takes a token and returns when it is there, or the end of time if
// there is none to be had.
func (r *TypedKeyBucketRateLimiter[T]) takeLocked(now time.Time, at time.Duration) (due time.Duration) {
	if r.spare > 0 {
		r.spare--
		return at
	}
	due = later(at, r.nextLocked(now))
	if r.returned.len() > 0 && r.returned.next() <= due {
		due = r.returned.next()
		r.returned.pop()
		return due
	}
	if due < math.MaxInt64 {
		r.bucket.ReserveN(now, 1)
	}
	return due
}

// nextLocked returns for how long a token taken from the bucket would have to
// be waited for.
func (r *TypedKeyBucketRateLimiter[T]) nextLocked(now time.Time) time.Duration {
	limit, tokens := r.bucket.Limit(), r.bucket.TokensAt(now)
	switch {
	case limit == rate.Inf:
		return 0
	case r.bucket.Burst() < 1:
		return math.MaxInt64
	case tokens >= 1:
		return 0
	}
	if wait := (1 - tokens) / float64(limit) * float64(time.Second); wait < math.MaxInt64 {
		return time.Duration(wait)
	}
	return math.MaxInt64 // A limit of 0 among others.
}

// settleLocked makes the places whose time has come spare tokens, of which
// bucket and spare together hold no more than the burst, and drops records of
// items whose token has come.
func (r *TypedKeyBucketRateLimiter[T]) settleLocked(now time.Time, at time.Duration) {
	for r.returned.len() > 0 && r.returned.next() <= at {
		r.returned.pop()
		r.spare++
	}
	if r.spare > 0 {
		room := float64(r.bucket.Burst()) - max(0, r.bucket.TokensAt(now))
		r.spare = int(max(0, min(float64(r.spare), room)))
	}
	for range 2 {
		if item, due := r.held.turn(); due != nil && *due <= at {
			r.held.drop(hashOf(item), item)
		}
	}
}

// NumRequeues returns 0: the limiter does not count failures.
func (r *TypedKeyBucketRateLimiter[T]) NumRequeues(item T) int { return 0 }

// Forget gives the item's token back if it is not there yet.
func (r *TypedKeyBucketRateLimiter[T]) Forget(item T) {
	hash := hashOf(item)
	at := r.clock.Since(r.epoch)
	r.mu.Lock()
	defer r.mu.Unlock()
	if due := r.held.look(hash, item); due != nil && *due > at {
		r.number++
		r.returned.schedule(hashOf(r.number), r.number, 0, *due)
	}
	r.held.drop(hash, item)
}

// Limit returns how many tokens a second there are.
func (r *TypedKeyBucketRateLimiter[T]) Limit() rate.Limit { return r.bucket.Limit() }

// Burst returns how many tokens the bucket holds at most.
func (r *TypedKeyBucketRateLimiter[T]) Burst() int { return r.bucket.Burst() }

// SetLimit changes how many tokens a second there are. Items that wait keep
// their time. It panics if the limit is negative or not a number.
func (r *TypedKeyBucketRateLimiter[T]) SetLimit(limit rate.Limit) {
	mustLimit(limit)
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bucket.SetLimitAt(now, limit)
}

// SetBurst changes how many tokens the bucket holds at most. It panics if the
// burst is negative.
func (r *TypedKeyBucketRateLimiter[T]) SetBurst(burst int) {
	mustBurst(burst)
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bucket.SetBurstAt(now, burst)
}

// Tokens returns how many tokens are to be had at once. If negative, as many
// are promised to items that wait, or have been given back by them.
func (r *TypedKeyBucketRateLimiter[T]) Tokens() float64 {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settleLocked(now, now.Sub(r.epoch))
	return r.bucket.TokensAt(now) + float64(r.spare)
}

// String describes the limiter for people.
func (r *TypedKeyBucketRateLimiter[T]) String() string {
	return fmt.Sprintf("key bucket (%s; %d items)", describeBucket(r.Limit(), r.Burst(), r.Tokens()), r.Len())
}

// Len returns the number of items that the limiter remembers.
func (r *TypedKeyBucketRateLimiter[T]) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held.len()
}
