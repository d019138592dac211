package workqueue

import (
	"fmt"
	"sync"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// TypedExpiringRateLimiter makes another limiter forget an item after an idle time without
// failures. So memory is bounded even if nobody calls Forget, as for keys of objects that were
// deleted while they failed. The idle time begins when the last wait of the item is over. So an
// item is never forgotten during a wait.
//
// After the idle time, the item is new to the next When, and NumRequeues returns 0. If the item
// never comes back, later calls drop its record, up to two records in each When. There is no
// goroutine: without calls, no record is dropped. There are fewer than three times as many
// records as items that fail within an idle time (plus the wait). With a wait of
// [rate.InfDuration], an item does not expire. If several calls of When for one expired item come
// together, the limiter may forget the item after a call has counted a failure.
//
// The zero value is not usable. All methods may be called concurrently if the other limiter
// allows concurrent calls. The other limiter is called without a lock held, and must not be
// used directly. When, Forget and NumRequeues add constant time, amortized, and for a known item
// no memory. A record takes some 50 bytes beyond the item's own.
type TypedExpiringRateLimiter[T comparable] struct {
	// Immutable after construction.

	limiter TypedRateLimiter[T]
	idle    time.Duration
	epoch   time.Time // the times below are relative to the epoch

	// Each item in limiter has a record. The record is written after limiter has counted a
	// failure, and dropped before limiter forgets the item. If a When and an expiry of the same
	// item race, a record can be left without the item in limiter, never an item without a
	// record.

	mu sync.Mutex
	// The field below is guarded by mu.

	expiries slab.Ledger[T, time.Duration]
}

var _ TypedRateLimiter[any] = &TypedExpiringRateLimiter[any]{}

// NewTypedExpiringRateLimiter returns a limiter that makes the given limiter forget items after
// an idle time. NewTypedExpiringRateLimiter panics if the limiter is nil or the idle time is not
// positive.
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

// When makes the limiter forget expired items, the given item included, and returns the
// limiter's wait for the item. A negative wait is 0.
func (r *TypedExpiringRateLimiter[T]) When(item T) (wait time.Duration) {
	hash := slab.HashOf(item)
	now := r.now()
	expired, n := r.expire(hash, item, now)
	for _, stale := range expired[:n] {
		r.limiter.Forget(stale)
	}
	// Also if When panics: the failure may be counted already.
	defer func() { r.note(hash, item, dueAfter(dueAfter(now, wait), r.idle)) }()
	return max(0, r.limiter.When(item))
}

// expire drops up to three expired records: the record of the given item, and the next two to
// which the hand of the ledger comes.
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

// NumRequeues returns the number of the limiter, or 0 if the item has expired.
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
