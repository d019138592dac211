package workqueue

import (
	"fmt"
	"sync"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// TypedExpiringRateLimiter makes another limiter forget items that have not
// failed for an idle time. So its memory is bounded even if nobody calls Forget, as
// for keys of objects that were deleted while they failed. The idle time of an item
// begins when its last wait is over. So an item is never forgotten during a wait,
// however long that is.
//
// An item that was idle for long enough is new to the next When, and
// NumRequeues returns 0 for it. The record of one that never comes back is
// dropped by later calls, up to two such records in each When, and without a
// goroutine. There are fewer than three times as many records as items that fail
// within an idle time (plus the wait). When the calls end, no more are dropped. An
// item that is to wait for ever, for [rate.InfDuration], does not expire.
//
// The zero value is not usable. It is safe for concurrent use if the other
// limiter is, which is called without a lock held and must be used through
// this one only. When, Forget and NumRequeues add constant time, amortized, to
// those of the other limiter, and for a known item no memory. A record takes
// some 50 bytes beyond the item's own.
type TypedExpiringRateLimiter[T comparable] struct {
	// Immutable after construction.

	limiter TypedRateLimiter[T]
	idle    time.Duration
	epoch   time.Time // the times below are relative to the epoch

	// Each item that limiter knows has a record: only after limiter has counted
	// a failure is the record written, and only after the record is dropped is
	// limiter told to forget. A When and an expiry of the same item that race
	// can leave a record of an item that limiter does not know, never the
	// other way around.

	mu sync.Mutex
	// The field below is guarded by mu.

	expiries slab.Ledger[T, time.Duration]
}

var _ TypedRateLimiter[any] = &TypedExpiringRateLimiter[any]{}

// NewTypedExpiringRateLimiter returns a limiter that makes another one forget
// items after an idle time. It panics if the limiter is nil or the idle time
// is not positive.
func NewTypedExpiringRateLimiter[T comparable](limiter TypedRateLimiter[T], idle time.Duration) *TypedExpiringRateLimiter[T] {
	if limiter == nil {
		panic("workqueue: rate limiter is nil")
	}
	if idle <= 0 {
		panic(fmt.Sprintf("workqueue: idle time %v is not positive", idle))
	}
	return &TypedExpiringRateLimiter[T]{limiter: limiter, idle: idle, epoch: time.Now()}
}

func (r *TypedExpiringRateLimiter[T]) now() time.Duration { return time.Since(r.epoch) }

// When makes the limiter forget what has expired, the item itself included,
// and returns the limiter's wait for the item; a negative one is none.
func (r *TypedExpiringRateLimiter[T]) When(item T) (wait time.Duration) {
	hash := slab.HashOf(item)
	now := r.now()
	expired, n := r.expire(hash, item, now)
	for _, stale := range expired[:n] {
		r.limiter.Forget(stale)
	}
	// Also if When panics: it may have counted the failure before.
	defer func() { r.note(hash, item, dueAfter(dueAfter(now, wait), r.idle)) }()
	return max(0, r.limiter.When(item))
}

// expire drops up to three records that have expired: that of the given item, and
// those of two items that the hand of the ledger comes to.
func (r *TypedExpiringRateLimiter[T]) expire(hash uint32, item T, now time.Duration) (expired [3]T, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if expiry := r.expiries.Find(hash, item); expiry != nil && *expiry <= now {
		r.expiries.Remove(hash, item)
		expired[n] = item
		n++
	}
	for range 2 {
		if stale, expiry := r.expiries.Step(); expiry != nil && *expiry <= now {
			r.expiries.Remove(slab.HashOf(stale), stale)
			expired[n] = stale
			n++
		}
	}
	return expired, n
}

func (r *TypedExpiringRateLimiter[T]) note(hash uint32, item T, expiry time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.expiries.Enter(hash, item) = expiry
}

// NumRequeues returns what the limiter knows, or 0 if it has expired.
func (r *TypedExpiringRateLimiter[T]) NumRequeues(item T) int {
	if r.expired(item) {
		return 0
	}
	return r.limiter.NumRequeues(item)
}

func (r *TypedExpiringRateLimiter[T]) expired(item T) bool {
	hash := slab.HashOf(item)
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	expiry := r.expiries.Find(hash, item)
	return expiry != nil && *expiry <= now
}

// Forget makes the limiter forget the item.
func (r *TypedExpiringRateLimiter[T]) Forget(item T) {
	r.erase(item)
	r.limiter.Forget(item)
}

func (r *TypedExpiringRateLimiter[T]) erase(item T) {
	hash := slab.HashOf(item)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expiries.Remove(hash, item)
}

// Len returns the number of records.
func (r *TypedExpiringRateLimiter[T]) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.expiries.Len()
}

// String describes the limiter for people.
func (r *TypedExpiringRateLimiter[T]) String() string {
	return fmt.Sprintf("%s, expiring when idle for %v (%d items)", describeLimiter(r.limiter), r.idle, r.Len())
}
