package workqueue

import (
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue/internal/agenda"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// TypedDedupBucketRateLimiter limits all items together by one token bucket, in which each waiting
// item counts once: a When for an item that waits for its token returns the rest of the wait,
// and takes no token. For n items at once, on a full bucket, the last wait is
//
//	(n - burst) / limit
//
// however often the items are added meanwhile. With a [TypedBucketRateLimiter] each duplicate
// takes a token, and all other items wait longer.
//
// The limiter is for one queue. Two queues that share a limiter get one token for an item that
// both have, and a Forget of the first queue gives away the token that the item waits for in
// the second. Queues can share a [TypedBucketRateLimiter], or items that name their queue.
//
// Forget gives back a token that is not there yet. The next item gets its place in line: the
// earliest of the places that were given back. A place that nobody takes before its time
// becomes a token for the next When. The bucket keeps such tokens up to the burst, like the
// others, and keeps a place that was given back when the limit or the burst changes.
// ([rate.Reservation.Cancel] gives a token back to a [rate.Limiter] only for the last item in line.) The hand-outs of tokens conform to the limit and a burst of one more.
//
// With a limit of 0 no token comes after those of the burst, and with a burst of 0 there are none,
// unless the limit is [rate.Inf]: the wait is [rate.InfDuration]. Such a wait is no place in line: it delays no item when the limit is
// raised later.
//
// The zero value is not usable. All methods may be called concurrently. When and Forget take
// logarithmic time, amortized, in the number of places given back. A waiting item takes some
// 50 bytes beyond its own. The limiter drops items whose token has come little by little, and
// has less than three times the largest number of items that waited at the same time.
type TypedDedupBucketRateLimiter[T comparable] struct {
	epoch time.Time // Immutable. The times below are relative to the epoch.

	mu sync.Mutex
	// The fields below are guarded by mu.

	bucket   bucket
	promised slab.Ledger[T, time.Duration] // when the item's token is there
	// returned has the places given back, under numbers of no meaning, until
	// their time has come and they are tokens.
	returned agenda.Agenda[uint64]
	number   uint64
}

var _ TypedRateLimiter[any] = &TypedDedupBucketRateLimiter[any]{}

// NewTypedDedupBucketRateLimiter returns a limiter whose bucket is filled at the
// limit, in tokens per second, up to the burst, and is full now. NewTypedDedupBucketRateLimiter
// panics if the limit or the burst is negative, and if the limit is not a number.
func NewTypedDedupBucketRateLimiter[T comparable](limit rate.Limit, burst int) *TypedDedupBucketRateLimiter[T] {
	mustLimit(limit)
	mustBurst(burst)
	return &TypedDedupBucketRateLimiter[T]{
		epoch:  time.Now(),
		bucket: bucket{limit: float64(limit), burst: burst, tokens: float64(burst)},
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

func (r *TypedDedupBucketRateLimiter[T]) now() time.Duration { return time.Since(r.epoch) }

// When returns the time until the item's token is there. When takes a token, unless the item
// waits for a token already.
func (r *TypedDedupBucketRateLimiter[T]) When(item T) time.Duration {
	hash := slab.HashOf(item)
	at := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refillLocked(at)
	if due := r.promised.Find(hash, item); due != nil && *due > at {
		return *due - at
	}
	switch due := r.spendLocked(at); due {
	case at:
		r.promised.Remove(hash, item)
		return 0
	case math.MaxInt64:
		return rate.InfDuration
	default:
		*r.promised.Enter(hash, item) = due
		return due - at
	}
}

// spendLocked takes a token and returns when the token is there, or the end of time if there
// will never be a token.
func (r *TypedDedupBucketRateLimiter[T]) spendLocked(at time.Duration) (due time.Duration) {
	if r.bucket.extra > 0 {
		r.bucket.extra--
		return at
	}
	due = dueAfter(at, r.bucket.wait())
	if r.returned.Len() > 0 && r.returned.Next() <= due {
		due = r.returned.Next()
		r.returned.Pop(nil)
		return due
	}
	if due < math.MaxInt64 {
		r.bucket.tokens--
	}
	return due
}

// refillLocked turns the places whose time has come into tokens, and drops
// records of items whose token has come.
func (r *TypedDedupBucketRateLimiter[T]) refillLocked(at time.Duration) {
	for r.returned.Len() > 0 && r.returned.Next() <= at {
		r.returned.Pop(nil)
		r.bucket.extra++
	}
	r.bucket.advance(at)
	for range 2 {
		if item, due := r.promised.Step(); due != nil && *due <= at {
			r.promised.Remove(slab.HashOf(item), item)
		}
	}
}

// NumRequeues returns 0: the limiter does not count failures.
func (r *TypedDedupBucketRateLimiter[T]) NumRequeues(item T) int { return 0 }

// Forget gives the item's token back, if the item waits for the token.
func (r *TypedDedupBucketRateLimiter[T]) Forget(item T) {
	hash := slab.HashOf(item)
	at := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if due := r.promised.Find(hash, item); due != nil && *due > at {
		r.number++
		r.returned.Schedule(slab.HashOf(r.number), r.number, 0, &agenda.Timing{Due: *due}, nil)
	}
	r.promised.Remove(hash, item)
}

// Limit returns how many tokens a second there are.
func (r *TypedDedupBucketRateLimiter[T]) Limit() rate.Limit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return rate.Limit(r.bucket.limit)
}

// Burst returns how many tokens the bucket holds at most.
func (r *TypedDedupBucketRateLimiter[T]) Burst() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bucket.burst
}

// SetLimit changes how many tokens a second there are. Waiting items keep their time. SetLimit
// panics if the limit is negative or not a number.
func (r *TypedDedupBucketRateLimiter[T]) SetLimit(limit rate.Limit) {
	mustLimit(limit)
	at := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refillLocked(at) // At the old limit.
	r.bucket.limit = float64(limit)
}

// SetBurst changes how many tokens the bucket holds at most. SetBurst panics if the
// burst is negative.
func (r *TypedDedupBucketRateLimiter[T]) SetBurst(burst int) {
	mustBurst(burst)
	at := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refillLocked(at) // Up to the old burst.
	r.bucket.burst = burst
}

// Tokens returns how many items could have a token now. A negative number counts the places in line:
// those of waiting items, and those given back.
func (r *TypedDedupBucketRateLimiter[T]) Tokens() float64 {
	at := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refillLocked(at)
	return r.bucket.tokens + float64(r.bucket.extra)
}

// String describes the limiter for people.
func (r *TypedDedupBucketRateLimiter[T]) String() string {
	return fmt.Sprintf("dedup bucket (%s; %d items)", describeBucket(r.Limit(), r.Burst(), r.Tokens()), r.Len())
}

// Len returns the number of items in the limiter.
func (r *TypedDedupBucketRateLimiter[T]) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.promised.Len()
}

// A bucket collects tokens and parts of tokens. Tokens come back to a bucket. If a bucket with
// room for 1 token has 0.2 tokens when a token comes back, the bucket must then have 1. A
// [rate.Limiter] takes back only a whole token, and would lose the other 0.8.
//
// Invariants, just after advance:
//
//	tokens <= burst
//	0 <= extra <= burst
//	extra > 0 implies tokens < 0
type bucket struct {
	limit float64 // tokens a second
	burst int

	// tokens is negative while items wait for tokens.
	tokens float64
	// extra are the tokens that came back in the meantime. They are to be had at
	// once, whatever is promised to waiting items.
	extra int
	last  time.Duration // when tokens was right
}

func (b *bucket) endless() bool { return b.limit >= float64(rate.Inf) }

// advance adds the tokens that have come since the last call. Callers read the clock before they
// lock, so the times of two callers can arrive in the wrong order.
func (b *bucket) advance(at time.Duration) {
	at = max(at, b.last)
	if b.endless() {
		b.tokens = float64(b.burst) // Also after no time at all.
	} else {
		b.tokens += (at - b.last).Seconds() * b.limit
	}
	b.last = at
	// As soon as no item waits for a token, the extra tokens are like the others and share
	// their room, where a part of a token may be already. Tokens above the burst are lost.
	if b.tokens >= 0 {
		b.tokens += float64(b.extra)
		b.extra = 0
	}
	b.tokens = min(b.tokens, float64(b.burst))
	b.extra = min(b.extra, b.burst)
}

// wait returns the time until there is a token for the next caller.
func (b *bucket) wait() time.Duration {
	switch {
	case b.endless():
		return 0
	case b.burst < 1:
		return math.MaxInt64
	case b.tokens >= 1:
		return 0
	}
	// Rounded, as a sum of parts of a token may miss 1 by some 1e-16.
	if wait := math.Round((1 - b.tokens) / b.limit * float64(time.Second)); wait < math.MaxInt64 {
		return time.Duration(wait)
	}
	return math.MaxInt64 // A limit of 0 among others.
}
