package workqueue

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/agenda"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// failures counts the failures of items, or their cancels. The zero value is empty. All methods
// may be called concurrently. Each method hashes the item before it locks: an item without a hash
// panics, and must not leave the lock held.
//
// The count lies in a record's pos, so that a failing item costs only its record
// and its slot: 19 to 29 bytes beyond its own. The count stops at two billion.
type failures[T comparable] = counts[T, slab.None]

// attempts are failures of which each has the time when the retry is due.
type attempts[T comparable] = counts[T, time.Duration]

// counts are failures with a note X on each item, which begins with the zero value.
type counts[T comparable, X any] struct {
	failing atomic.Int64 // items.Live, to be read without the lock

	mu    sync.Mutex
	items slab.Table[T, X] // guarded by mu
}

const failedState slab.State = 1

// add counts a failure and returns how many there were before. An item that differs from itself
// could not be found again. So add keeps nothing of the item, and returns 0.
func (f *counts[T, X]) add(item T) (before int) {
	hash := slab.HashOf(item)
	f.mu.Lock()
	defer f.mu.Unlock()
	at, r := f.items.Find(hash, item)
	if r == nil {
		if slab.Equal(item, item) {
			_, r := f.items.Insert(at, hash, item)
			r.State, r.Pos = failedState, 1
			f.failing.Add(1)
		}
		return 0
	}
	before = int(r.Pos)
	r.Pos = oneMore(r.Pos)
	return before
}

// oneMore returns n + 1, up to the greatest int of 32 bits: NumRequeues returns an int, and a
// negative count would make the next wait the shortest.
func oneMore(n uint32) uint32 { return min(n, math.MaxInt32-1) + 1 }

// number returns how many failures of the item have been counted.
func (f *counts[T, X]) number(item T) int {
	n, _ := f.look(item)
	return n
}

// look returns how many failures of the item have been counted, and the note.
func (f *counts[T, X]) look(item T) (n int, note X) {
	hash := slab.HashOf(item)
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, r := f.items.Find(hash, item); r != nil {
		n, note = int(r.Pos), r.X
	}
	return n, note
}

// note replaces the note on an item that has failed.
func (f *counts[T, X]) note(item T, note X) {
	hash := slab.HashOf(item)
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, r := f.items.Find(hash, item); r != nil {
		r.X = note
	}
}

// forget removes the item, without the lock while no item has failed. When few of many
// items are left, the table gives memory back. Nothing else refers to its records, so
// nothing has to follow their move.
//
// The hash comes first also where nothing has failed: whether an item panics must not
// depend on what others have done.
func (f *counts[T, X]) forget(item T) {
	hash := slab.HashOf(item)
	if f.failing.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at, r := f.items.Find(hash, item)
	if r == nil {
		return
	}
	f.items.Remove(at, r)
	f.failing.Add(-1)
	if f.items.Sparse() {
		f.items.Shrink(func(_, _ uint32, _ *slab.Record[T, X]) {})
	}
}

// forgetAny is forget for callers who mostly have nothing to forget: Run calls forgetAny after
// each success. While no item has failed, forgetAny neither hashes nor locks. It may miss a
// failure that another caller counts at the same time, as if the failure came afterwards.
func (f *counts[T, X]) forgetAny(item T) {
	if f.failing.Load() > 0 {
		f.forget(item)
	}
}

// len returns the number of items with failures.
func (f *counts[T, X]) len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.items.Live
}

// count returns how many items with failures satisfy a condition, or most if there are more.
func (f *counts[T, X]) count(most int, is func(item T) bool) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := uint32(0); i < uint32(f.items.Records.N) && n < most; i++ {
		if r := f.items.Records.At(i); r.State == failedState && is(r.Item) {
			n++
		}
	}
	return n
}

// waiting returns how many items with failures wait, or most if there are more. An item that
// differs from itself has no count: once such an item has failed, nan is true, and each waiting
// item that differs from itself counts.
func (f *counts[T, X]) waiting(a *agenda.Agenda[T], nan bool, most int) (n int) {
	if f.failing.Load() > 0 {
		n = f.count(most, a.Has)
	}
	if nan {
		n += a.CountNaN(most - n)
	}
	return n
}

// A forgetter is Forget of a limiter and of tallies, resolved once for the many calls of a Run.
// Nearly all items that succeed have never failed. While no item has, a forgetter takes one atomic
// load for each limiter of ours that counts, and does not hash the item, which its Add has hashed.
type forgetter[T comparable] struct {
	failed *attempts[T]
	counts []*failures[T]
	others []TypedRateLimiter[T]
}

// add resolves a limiter, if the limiter is of exactly one of our types: a type that embeds one may
// have a Forget of its own.
func (f *forgetter[T]) add(limiter TypedRateLimiter[T]) {
	switch l := limiter.(type) {
	case *TypedItemExponentialFailureRateLimiter[T]:
		f.counts = append(f.counts, &l.failures)
	case *TypedItemFastSlowRateLimiter[T]:
		f.counts = append(f.counts, &l.failures)
	case *TypedBucketRateLimiter[T]: // Its Forget does nothing.
	case *TypedWithMaxWaitRateLimiter[T]:
		f.addWithin(limiter, l.limiter)
	case *TypedMaxOfRateLimiter[T]:
		f.addWithin(limiter, l.limiters...)
	default:
		f.others = append(f.others, limiter)
	}
}

// addWithin resolves the limiters within a limiter. If one is nil, the Forget of the whole panics,
// as everywhere.
func (f *forgetter[T]) addWithin(whole TypedRateLimiter[T], within ...TypedRateLimiter[T]) {
	if slices.Contains(within, nil) {
		f.others = append(f.others, whole)
		return
	}
	for _, l := range within {
		f.add(l)
	}
}

func (f *forgetter[T]) forget(item T) {
	for _, l := range f.others {
		l.Forget(item)
	}
	for _, count := range f.counts {
		count.forgetAny(item)
	}
	f.failed.forgetAny(item)
}

// tallies are the counts of all Runs on a queue. They are not in a call of Run, because a count has
// to end with the item: by a Forget or a Remove of any caller.
type tallies[T comparable] struct {
	failed  attempts[T] // of handlers in a row, for MaxAttempts
	cancels failures[T] // in a row, for CancelOnReAdd
}

// runTallies returns the counts of the queue. The first Run makes the counts.
func (q *TypedRateLimiting[T]) runTallies() *tallies[T] {
	q.tallies.CompareAndSwap(nil, new(tallies[T]))
	return q.tallies.Load()
}

// forgetTallies ends the counts of an item that was removed. After a shutdown no item comes again, and the counts tell
// which items of those that are left have failed: a Remove that has found nothing takes nothing from these.
func (q *TypedRateLimiting[T]) forgetTallies(item T) {
	if t := q.tallies.Load(); t != nil && !q.queue.ShuttingDown() {
		t.failed.forgetAny(item)
		t.cancels.forgetAny(item)
	}
}
