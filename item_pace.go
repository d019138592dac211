package workqueue

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// Rate is a limit as a plain value: each queue with the Rate in its config has tokens of its own. The
// zero Rate is no limit.
type Rate struct {
	// Limit is how many tokens a second there are. [rate.Inf] is no limit. The constructor of a
	// queue panics if Limit is negative or not a number, and if it is 0 and Burst is not.
	Limit rate.Limit

	// Burst is how many tokens an item can collect at most; 0 is 1. The constructor of a queue
	// panics if Burst is negative.
	Burst int
}

// itemPaces has a token bucket for each item. A hand-out takes a token of its item, even if there is
// none, as after a Wake. The bucket is full at the time full; then each token that was taken is back.
//
// itemPaces needs the lock of its owner. A nil *itemPaces limits nothing. It keeps an item until its
// bucket is full, and drops items with a full bucket little by little: it has less than three times the
// largest number of items whose buckets were not full at the same time. An item takes some 40 bytes
// beyond its own.
type itemPaces[T comparable] struct {
	interval float64 // nanoseconds from token to token
	lead     float64 // how long before full an item has a token
	full     slab.Ledger[T, float64]
}

// newItemPaces returns nil for a rate that limits nothing.
func newItemPaces[T comparable](r Rate) *itemPaces[T] {
	switch {
	case !(r.Limit >= 0):
		panic(fmt.Sprintf("workqueue: limit %v is not a number of at least 0", float64(r.Limit)))
	case r.Burst < 0:
		panic(fmt.Sprintf("workqueue: burst %d is negative", r.Burst))
	case r.Limit == 0 && r.Burst != 0:
		panic(fmt.Sprintf("workqueue: a Rate with a burst of %d needs a Limit above 0", r.Burst))
	case r.Limit == 0 || r.Limit == rate.Inf:
		return nil
	}
	// A longer interval than a clock can tell would make the lead infinite, too.
	interval := min(float64(time.Second)/float64(r.Limit), math.MaxInt64/2)
	return &itemPaces[T]{interval: interval, lead: float64(max(1, r.Burst)-1) * interval}
}

// take takes a token at a hand-out. An item that differs from itself has no bucket, as no later add is
// of the same item.
func (p *itemPaces[T]) take(item T, now time.Duration) {
	if p == nil || !slab.Equal(item, item) {
		return
	}
	for range 2 {
		if item, full := p.full.Step(); full != nil && *full <= float64(now) {
			p.full.Remove(slab.HashOf(item), item)
		}
	}
	full := p.full.Enter(slab.HashOf(item), item)
	if *full == 0 { // A new item. The clock may be before 0.
		*full = float64(now)
	}
	*full = max(*full, float64(now)) + p.interval
}

// putBack gives the token of a hand-out back that was undone.
func (p *itemPaces[T]) putBack(item T) {
	if p == nil {
		return
	}
	if full := p.full.Find(slab.HashOf(item), item); full != nil {
		*full -= p.interval
	}
}

// floor returns when the next token of an item is there, or 0 if there is no limit or no hand-out counts
// any more. The time is rounded up: a part of a nanosecond earlier there is no token.
func (p *itemPaces[T]) floor(hash uint32, item T) time.Duration {
	if p == nil {
		return 0
	}
	full := p.full.Find(hash, item)
	if full == nil {
		return 0
	}
	if at := math.Ceil(*full - p.lead); at < math.MaxInt64 {
		return max(0, time.Duration(at))
	}
	return math.MaxInt64
}
