package workqueue

import (
	"time"

	"k8s.io/utils/clock"
)

// This file is the API for items of type any, which client-go had before type
// parameters: names for the typed API and nothing else. All 32 are kept for
// programs that use them.

// Interface is a queue of items of any type.
//
// Deprecated: use [TypedInterface].
type Interface TypedInterface[any]

// Type is a queue of items of any type.
//
// Deprecated: use [Typed].
type Type = Typed[any]

// QueueConfig are the options of a queue of items of any type.
//
// Deprecated: use [TypedQueueConfig].
type QueueConfig = TypedQueueConfig[any]

// New returns an empty queue.
//
// Deprecated: use [NewTyped].
func New() *Type { return NewTyped[any]() }

// NewNamed returns an empty queue whose metrics have the name.
//
// Deprecated: use [NewTypedWithConfig].
func NewNamed(name string) *Type { return NewTypedWithConfig(QueueConfig{Name: name}) }

// NewWithConfig returns an empty queue.
//
// Deprecated: use [NewTypedWithConfig].
func NewWithConfig(config QueueConfig) *Type { return NewTypedWithConfig(config) }

// DelayingInterface is a delaying queue of items of any type.
//
// Deprecated: use [TypedDelayingInterface].
type DelayingInterface TypedDelayingInterface[any]

// DelayingQueueConfig are the options of a delaying queue of items of any type.
//
// Deprecated: use [TypedDelayingQueueConfig].
type DelayingQueueConfig = TypedDelayingQueueConfig[any]

// NewDelayingQueue returns an empty delaying queue.
//
// Deprecated: use [NewTypedDelayingQueue].
func NewDelayingQueue() DelayingInterface { return NewTypedDelayingQueue[any]() }

// NewDelayingQueueWithConfig returns an empty delaying queue.
//
// Deprecated: use [NewTypedDelayingQueueWithConfig].
func NewDelayingQueueWithConfig(config DelayingQueueConfig) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(config)
}

// NewDelayingQueueWithCustomQueue returns a delaying queue on top of q.
//
// Deprecated: use [NewTypedDelayingQueueWithConfig].
func NewDelayingQueueWithCustomQueue(q Interface, name string) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(DelayingQueueConfig{Name: name, Queue: q})
}

// NewNamedDelayingQueue returns an empty delaying queue whose metrics have the
// name.
//
// Deprecated: use [NewTypedDelayingQueueWithConfig].
func NewNamedDelayingQueue(name string) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(DelayingQueueConfig{Name: name})
}

// NewDelayingQueueWithCustomClock returns an empty delaying queue with the
// clock, whose metrics have the name.
//
// Deprecated: use [NewTypedDelayingQueueWithConfig].
func NewDelayingQueueWithCustomClock(clock clock.WithTicker, name string) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(DelayingQueueConfig{Name: name, Clock: clock})
}

// TypedNewDelayingQueue returns an empty delaying queue.
//
// Deprecated: use [NewTypedDelayingQueue].
func TypedNewDelayingQueue[T comparable]() TypedDelayingInterface[T] {
	return NewTypedDelayingQueue[T]()
}

// RateLimitingInterface is a rate limiting queue of items of any type.
//
// Deprecated: use [TypedRateLimitingInterface].
type RateLimitingInterface TypedRateLimitingInterface[any]

// RateLimitingQueueConfig are the options of a rate limiting queue of items of
// any type.
//
// Deprecated: use [TypedRateLimitingQueueConfig].
type RateLimitingQueueConfig = TypedRateLimitingQueueConfig[any]

// NewRateLimitingQueue returns an empty rate limiting queue.
//
// Deprecated: use [NewTypedRateLimitingQueue].
func NewRateLimitingQueue(rateLimiter RateLimiter) RateLimitingInterface {
	return NewTypedRateLimitingQueue[any](rateLimiter)
}

// NewRateLimitingQueueWithConfig returns an empty rate limiting queue.
//
// Deprecated: use [NewTypedRateLimitingQueueWithConfig].
func NewRateLimitingQueueWithConfig(rateLimiter RateLimiter, config RateLimitingQueueConfig) RateLimitingInterface {
	return NewTypedRateLimitingQueueWithConfig[any](rateLimiter, config)
}

// NewNamedRateLimitingQueue returns an empty rate limiting queue whose metrics
// have the name.
//
// Deprecated: use [NewTypedRateLimitingQueueWithConfig].
func NewNamedRateLimitingQueue(rateLimiter RateLimiter, name string) RateLimitingInterface {
	return NewTypedRateLimitingQueueWithConfig[any](rateLimiter, RateLimitingQueueConfig{Name: name})
}

// NewRateLimitingQueueWithDelayingInterface returns a rate limiting queue on
// top of di.
//
// Deprecated: use [NewTypedRateLimitingQueueWithConfig].
func NewRateLimitingQueueWithDelayingInterface(di DelayingInterface, rateLimiter RateLimiter) RateLimitingInterface {
	return NewTypedRateLimitingQueueWithConfig[any](rateLimiter, RateLimitingQueueConfig{DelayingQueue: di})
}

// RateLimiter limits items of any type.
//
// Deprecated: use [TypedRateLimiter].
type RateLimiter TypedRateLimiter[any]

// DefaultControllerRateLimiter returns the limiter that most controllers use.
//
// Deprecated: use [DefaultTypedControllerRateLimiter].
func DefaultControllerRateLimiter() RateLimiter { return DefaultTypedControllerRateLimiter[any]() }

// DefaultItemBasedRateLimiter returns an exponential limiter of each item by
// itself.
//
// Deprecated: use [DefaultTypedItemBasedRateLimiter].
func DefaultItemBasedRateLimiter() RateLimiter { return DefaultTypedItemBasedRateLimiter[any]() }

// BucketRateLimiter limits items of any type together.
//
// Deprecated: use [TypedBucketRateLimiter].
type BucketRateLimiter = TypedBucketRateLimiter[any]

// ItemExponentialFailureRateLimiter delays items of any type exponentially.
//
// Deprecated: use [TypedItemExponentialFailureRateLimiter].
type ItemExponentialFailureRateLimiter = TypedItemExponentialFailureRateLimiter[any]

// NewItemExponentialFailureRateLimiter returns an exponential limiter.
//
// Deprecated: use [NewTypedItemExponentialFailureRateLimiter].
func NewItemExponentialFailureRateLimiter(baseDelay time.Duration, maxDelay time.Duration) RateLimiter {
	return NewTypedItemExponentialFailureRateLimiter[any](baseDelay, maxDelay)
}

// ItemFastSlowRateLimiter delays items of any type first a little, then more.
//
// Deprecated: use [TypedItemFastSlowRateLimiter].
type ItemFastSlowRateLimiter = TypedItemFastSlowRateLimiter[any]

// NewItemFastSlowRateLimiter returns a limiter with two delays.
//
// Deprecated: use [NewTypedItemFastSlowRateLimiter].
func NewItemFastSlowRateLimiter(fastDelay, slowDelay time.Duration, maxFastAttempts int) RateLimiter {
	return NewTypedItemFastSlowRateLimiter[any](fastDelay, slowDelay, maxFastAttempts)
}

// MaxOfRateLimiter takes the longest wait of several limiters.
//
// Deprecated: use [TypedMaxOfRateLimiter].
type MaxOfRateLimiter = TypedMaxOfRateLimiter[any]

// NewMaxOfRateLimiter returns a limiter that takes the longest wait of several.
//
// Deprecated: use [NewTypedMaxOfRateLimiter].
func NewMaxOfRateLimiter(limiters ...TypedRateLimiter[any]) RateLimiter {
	return NewTypedMaxOfRateLimiter(limiters...)
}

// WithMaxWaitRateLimiter cuts off the waits of another limiter.
//
// Deprecated: use [TypedWithMaxWaitRateLimiter].
type WithMaxWaitRateLimiter = TypedWithMaxWaitRateLimiter[any]

// NewWithMaxWaitRateLimiter returns a limiter that cuts off another's waits.
//
// Deprecated: use [NewTypedWithMaxWaitRateLimiter].
func NewWithMaxWaitRateLimiter(limiter RateLimiter, maxDelay time.Duration) RateLimiter {
	return NewTypedWithMaxWaitRateLimiter[any](limiter, maxDelay)
}
