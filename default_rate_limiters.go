package workqueue

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// TypedRateLimiter decides how long an item waits until its next try.
//
// A queue calls the limiter without a lock held, on any goroutine that calls the queue. So
// implementations must be safe for concurrent use.
type TypedRateLimiter[T comparable] interface {
	// When counts a failure of the item and returns how long the item should wait.
	When(item T) time.Duration
	// Forget drops the failures of the item, after a success or when the caller gives up.
	Forget(item T)
	// NumRequeues returns how many failures of the item are known.
	NumRequeues(item T) int
}

// DefaultTypedControllerRateLimiter returns the limiter of most controllers. Each item waits 5 ms
// after its first failure, and twice as long after each further failure, at most 1000 s. All
// items together are tried again at 10 a second after a burst of 100. The longer of the two
// waits counts.
func DefaultTypedControllerRateLimiter[T comparable]() TypedRateLimiter[T] {
	return NewTypedMaxOfRateLimiter(
		NewTypedItemExponentialFailureRateLimiter[T](5*time.Millisecond, 1000*time.Second),
		&TypedBucketRateLimiter[T]{Limiter: rate.NewLimiter(10, 100)},
	)
}

// DefaultTypedItemBasedRateLimiter returns a limiter of each item by itself. An item waits 1 ms
// after its first failure, and twice as long after each further failure, at most 1000 s.
func DefaultTypedItemBasedRateLimiter[T comparable]() TypedRateLimiter[T] {
	return NewTypedItemExponentialFailureRateLimiter[T](time.Millisecond, 1000*time.Second)
}

// TypedBucketRateLimiter limits all items together by a token bucket: each
// When takes a token and returns the time until the token is there. The bucket does not know
// items, so Forget does nothing and NumRequeues returns 0. Tokens do not come back.
//
// The zero value has no bucket and panics when used. All methods may be called concurrently,
// including SetLimit and SetBurst. A bucket with no burst never has a
// token, unless the limit is [rate.Inf]: the wait is [rate.InfDuration].
type TypedBucketRateLimiter[T comparable] struct {
	*rate.Limiter
}

var _ TypedRateLimiter[any] = &TypedBucketRateLimiter[any]{}

// When takes a token and returns the time until the token is there.
func (r *TypedBucketRateLimiter[T]) When(item T) time.Duration {
	if r.Limiter == nil {
		panic("workqueue: the Limiter of TypedBucketRateLimiter is nil: set it to one from rate.NewLimiter")
	}
	// In a single line, and with a time of our own, the reservation stays on the stack. Reserve
	// allocates a reservation.
	now := time.Now()
	return r.ReserveN(now, 1).DelayFrom(now)
}

// NumRequeues returns 0.
func (r *TypedBucketRateLimiter[T]) NumRequeues(item T) int { return 0 }

// Forget does nothing.
func (r *TypedBucketRateLimiter[T]) Forget(item T) {}

// String describes the limiter for people.
func (r *TypedBucketRateLimiter[T]) String() string {
	if r.Limiter == nil {
		return "bucket (none)"
	}
	return fmt.Sprintf("bucket (%s)", describeBucket(r.Limit(), r.Burst(), r.Tokens()))
}

func describeBucket(limit rate.Limit, burst int, tokens float64) string {
	return fmt.Sprintf("%v/s, burst %d, %.1f tokens", limit, burst, tokens)
}

// TypedItemExponentialFailureRateLimiter delays an item by
//
//	min(baseDelay * 2^failures, maxDelay)
//
// where failures counts the earlier calls of When for the item since the last
// Forget. The arithmetic saturates: for any base and any number of failures, the
// delay is at most maxDelay, and at least the delay of the failure before.
//
// There is no jitter: items that have failed at the same time are tried again
// at the same time, each time. [TypedItemBackoffRateLimiter] has jitter.
//
// The zero value never delays. All methods may be called concurrently, and take constant time.
// The limiter remembers an item until Forget, in some 50 bytes beyond the item's own.
type TypedItemExponentialFailureRateLimiter[T comparable] struct {
	failures  failures[T]
	baseDelay time.Duration
	maxDelay  time.Duration
}

var _ TypedRateLimiter[any] = &TypedItemExponentialFailureRateLimiter[any]{}

// NewTypedItemExponentialFailureRateLimiter returns a
// *[TypedItemExponentialFailureRateLimiter]. Negative delays count as zero.
func NewTypedItemExponentialFailureRateLimiter[T comparable](baseDelay time.Duration, maxDelay time.Duration) TypedRateLimiter[T] {
	return &TypedItemExponentialFailureRateLimiter[T]{
		baseDelay: max(0, baseDelay),
		maxDelay:  max(0, maxDelay),
	}
}

// When counts a failure of the item and returns its delay.
func (r *TypedItemExponentialFailureRateLimiter[T]) When(item T) time.Duration {
	return doubledDelay(r.baseDelay, r.failures.add(item), r.maxDelay)
}

// doubledDelay returns min(base * 2^n, limit). The comparison is made with the
// bits shifted out of the limit. Bits shifted into the base would
// overflow.
func doubledDelay(base time.Duration, n int, limit time.Duration) time.Duration {
	if base > limit>>n {
		return limit
	}
	return base << n
}

// NumRequeues returns the number of calls of When since the last Forget.
func (r *TypedItemExponentialFailureRateLimiter[T]) NumRequeues(item T) int {
	return r.failures.number(item)
}

// Forget drops the item's failures.
func (r *TypedItemExponentialFailureRateLimiter[T]) Forget(item T) { r.failures.forget(item) }

// String describes the limiter for people.
func (r *TypedItemExponentialFailureRateLimiter[T]) String() string {
	return fmt.Sprintf("item exponential (%v * 2^n, at most %v; %d items)", r.baseDelay, r.maxDelay, r.failures.len())
}

// TypedItemFastSlowRateLimiter delays an item by fastDelay for the first
// maxFastAttempts failures, and then by slowDelay.
//
// The zero value never delays. All methods may be called concurrently, and take constant time.
// The limiter remembers an item until Forget, in some 50 bytes beyond the item's own.
type TypedItemFastSlowRateLimiter[T comparable] struct {
	failures        failures[T]
	fastDelay       time.Duration
	slowDelay       time.Duration
	maxFastAttempts int
}

var _ TypedRateLimiter[any] = &TypedItemFastSlowRateLimiter[any]{}

// NewTypedItemFastSlowRateLimiter returns a *[TypedItemFastSlowRateLimiter].
// Negative delays count as zero.
func NewTypedItemFastSlowRateLimiter[T comparable](fastDelay, slowDelay time.Duration, maxFastAttempts int) TypedRateLimiter[T] {
	return &TypedItemFastSlowRateLimiter[T]{
		fastDelay:       max(0, fastDelay),
		slowDelay:       max(0, slowDelay),
		maxFastAttempts: maxFastAttempts,
	}
}

// When counts a failure of the item and returns its delay.
func (r *TypedItemFastSlowRateLimiter[T]) When(item T) time.Duration {
	if r.failures.add(item) < r.maxFastAttempts {
		return r.fastDelay
	}
	return r.slowDelay
}

// NumRequeues returns the number of calls of When since the last Forget.
func (r *TypedItemFastSlowRateLimiter[T]) NumRequeues(item T) int { return r.failures.number(item) }

// Forget drops the item's failures.
func (r *TypedItemFastSlowRateLimiter[T]) Forget(item T) { r.failures.forget(item) }

// String describes the limiter for people.
func (r *TypedItemFastSlowRateLimiter[T]) String() string {
	return fmt.Sprintf("item fast slow (%v for %d attempts, then %v; %d items)",
		r.fastDelay, r.maxFastAttempts, r.slowDelay, r.failures.len())
}

// TypedMaxOfRateLimiter asks several limiters and takes the longest wait. All limiters count
// each failure, so a token bucket among them spends tokens also on items that another limiter
// delays for longer.
//
// The zero value never delays. All methods may be called concurrently if the limiters allow
// concurrent calls. A nil limiter makes each method but String panic.
type TypedMaxOfRateLimiter[T comparable] struct {
	limiters []TypedRateLimiter[T]
}

// NewTypedMaxOfRateLimiter returns a *[TypedMaxOfRateLimiter].
func NewTypedMaxOfRateLimiter[T comparable](limiters ...TypedRateLimiter[T]) TypedRateLimiter[T] {
	return &TypedMaxOfRateLimiter[T]{limiters: limiters}
}

// When asks all limiters and returns the longest wait.
func (r *TypedMaxOfRateLimiter[T]) When(item T) time.Duration {
	var longest time.Duration
	for _, l := range r.limiters {
		longest = max(longest, mustLimiter(l, "TypedMaxOfRateLimiter").When(item))
	}
	return longest
}

// NumRequeues returns the highest number of the limiters.
func (r *TypedMaxOfRateLimiter[T]) NumRequeues(item T) int {
	var most int
	for _, l := range r.limiters {
		most = max(most, mustLimiter(l, "TypedMaxOfRateLimiter").NumRequeues(item))
	}
	return most
}

// Forget makes all limiters forget the item.
func (r *TypedMaxOfRateLimiter[T]) Forget(item T) {
	for _, l := range r.limiters {
		mustLimiter(l, "TypedMaxOfRateLimiter").Forget(item)
	}
}

// String describes the limiters for people.
func (r *TypedMaxOfRateLimiter[T]) String() string {
	all := make([]string, len(r.limiters))
	for i, l := range r.limiters {
		all[i] = describeLimiter(l)
	}
	return "max of [" + strings.Join(all, ", ") + "]"
}

// TypedWithMaxWaitRateLimiter takes the waits of another limiter, up to a
// maximum.
//
// Without a limiter, as in the zero value, each method but String panics. All methods may be
// called concurrently if the other limiter allows concurrent calls.
type TypedWithMaxWaitRateLimiter[T comparable] struct {
	limiter  TypedRateLimiter[T]
	maxDelay time.Duration
}

// NewTypedWithMaxWaitRateLimiter returns a *[TypedWithMaxWaitRateLimiter].
func NewTypedWithMaxWaitRateLimiter[T comparable](limiter TypedRateLimiter[T], maxDelay time.Duration) TypedRateLimiter[T] {
	return &TypedWithMaxWaitRateLimiter[T]{limiter: limiter, maxDelay: max(0, maxDelay)}
}

// When asks the limiter and returns its wait, or the maximum.
func (w TypedWithMaxWaitRateLimiter[T]) When(item T) time.Duration {
	return max(0, min(mustLimiter(w.limiter, "TypedWithMaxWaitRateLimiter").When(item), w.maxDelay))
}

// Forget makes the limiter forget the item.
func (w TypedWithMaxWaitRateLimiter[T]) Forget(item T) {
	mustLimiter(w.limiter, "TypedWithMaxWaitRateLimiter").Forget(item)
}

// NumRequeues returns the number of the limiter.
func (w TypedWithMaxWaitRateLimiter[T]) NumRequeues(item T) int {
	return mustLimiter(w.limiter, "TypedWithMaxWaitRateLimiter").NumRequeues(item)
}

// String describes the limiter for people.
func (w TypedWithMaxWaitRateLimiter[T]) String() string {
	return fmt.Sprintf("%s, at most %v", describeLimiter(w.limiter), w.maxDelay)
}

// describeLimiter names a limiter of somebody else's by its type. To print its fields
// would be to read them without its lock.
func describeLimiter[T comparable](l TypedRateLimiter[T]) string {
	if s, ok := l.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", l)
}

// mustLimiter returns a limiter before its use, and panics if the limiter is nil. client-go's
// constructors take a nil limiter, and so do constructors of the same name here: some callers
// never use the limiter, such as tests of the type of a queue.
func mustLimiter[T comparable](l TypedRateLimiter[T], owner string) TypedRateLimiter[T] {
	if l == nil {
		panic("workqueue: the rate limiter of " + owner + " is nil: give one to its constructor")
	}
	return l
}
