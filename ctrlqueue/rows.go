package ctrlqueue

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed16c08ea7/workqueue"
	clientgo "k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// rows are what a queue knows of the last reconciles of an item: how many in a row were cut short, and
// when the limiter lets the item come again. An item has a row from its first failure or cancel until
// its next success. While no item has one, the methods take one atomic load and no lock.
type rows[R comparable] struct {
	some atomic.Bool // there are rows

	mu  sync.Mutex
	all map[R]row // guarded by mu
}

// A row is what is known of an item.
type row struct {
	cancels int       // reconciles in a row that were cut short
	cut     bool      // the last reconcile was cut short, and the controller still has to call Forget
	due     time.Time // when the last retry is due; zero if the limiter was not asked
	early   bool      // the item is held, and was handed out before due
}

func (rs *rows[R]) of(item R) row {
	if !rs.some.Load() {
		return row{}
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.all[item]
}

// change calls f with the row of an item, if the item has one.
func (rs *rows[R]) change(item R, f func(r *row)) {
	if !rs.some.Load() {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r, ok := rs.all[item]; ok {
		f(&r)
		rs.all[item] = r
	}
}

// begin calls f with the row of an item, which may be new.
func (rs *rows[R]) begin(item R, f func(r *row)) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.all == nil {
		rs.all = make(map[R]row)
	}
	r := rs.all[item]
	f(&r)
	rs.all[item] = r
	rs.some.Store(true)
}

func (rs *rows[R]) end(item R) {
	if !rs.some.Load() {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.all, item)
	rs.some.Store(len(rs.all) > 0)
}

// items returns the items that have a row.
func (rs *rows[R]) items() []R {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return slices.Collect(maps.Keys(rs.all))
}

// forgive reports whether the last reconcile of the item was cut short and nobody has asked since.
func (rs *rows[R]) forgive(item R) (cut bool) {
	rs.change(item, func(r *row) { cut, r.cut = r.cut, false })
	return cut
}

// A retryLimiter is the limiter of a controller. It notes when each retry is due, so that the queue can
// tell an early failure, see [Queue.AddRateLimited].
type retryLimiter[R comparable] struct {
	clientgo.TypedRateLimiter[R]
	rows  *rows[R]
	clock clock.PassiveClock
}

func newRetryLimiter[R comparable](limiter clientgo.TypedRateLimiter[R], rows *rows[R], c clock.PassiveClock) retryLimiter[R] {
	if limiter == nil {
		limiter = workqueue.DefaultTypedControllerRateLimiter[R]()
	}
	if c == nil {
		c = clock.RealClock{}
	}
	return retryLimiter[R]{limiter, rows, c}
}

// When notes the time before the wait begins: the hand-out of the retry itself is never early.
func (l retryLimiter[R]) When(item R) time.Duration {
	now := l.clock.Now()
	after := l.TypedRateLimiter.When(item)
	l.rows.begin(item, func(r *row) { r.due = now.Add(after) })
	return after
}

// handOut notes whether a hand-out is early.
func (l retryLimiter[R]) handOut(item R) {
	l.rows.change(item, func(r *row) { r.early = l.clock.Now().Before(r.due) })
}

// left returns how long the retry of an item was still to wait, if the item is held after an early
// hand-out. The time is not negative.
func (l retryLimiter[R]) left(item R) (left time.Duration, early bool) {
	r := l.rows.of(item)
	return max(0, r.due.Sub(l.clock.Now())), r.early
}
