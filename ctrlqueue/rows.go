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

// rows are what a queue knows of the last reconciles of an item: how many in a row were cut short, when
// the limiter lets the item come again, and what a reconcile asks for that has just ended. An item
// without any of it has no row. While no item has one, the methods take one atomic load and no lock.
//
// A row has no item that differs from itself: nobody could find the row again.
type rows[R comparable] struct {
	some atomic.Bool // there are rows

	mu   sync.Mutex
	all  map[R]row // guarded by mu
	most int       // rows since the map was made; guarded by mu
}

// A row is what is known of an item. Its zero value is that of an item without a row.
type row struct {
	cancels int           // reconciles in a row that were cut short
	cut     bool          // the last reconcile was cut short, and the controller still has to call Forget
	due     time.Time     // when the retry is due; zero if the limiter was not asked
	early   bool          // the item is held, and was handed out before due
	ended   bool          // the reconcile has ended, and what it asks for comes next
	firm    time.Duration // of DeferFor, with ended
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
		rs.putLocked(item, r)
	}
}

// begin calls f with the row of an item, which may be new.
func (rs *rows[R]) begin(item R, f func(r *row)) {
	if item != item {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.all[item]
	f(&r)
	rs.putLocked(item, r)
}

// putLocked makes the map anew when few rows of many are left: a map gives no memory back.
func (rs *rows[R]) putLocked(item R, r row) {
	switch {
	case r == row{}:
		delete(rs.all, item)
	case rs.all == nil:
		rs.all = map[R]row{item: r}
	default:
		rs.all[item] = r
	}
	rs.most = max(rs.most, len(rs.all))
	if len(rs.all) < rs.most/4 {
		rs.most = len(rs.all)
		few := make(map[R]row, rs.most)
		maps.Copy(few, rs.all)
		rs.all = few
	}
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

// A retryLimiter is the limiter of a controller. It notes when each retry is due, and does not count an
// early failure, see [Queue.AddWithOpts].
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

// When returns the rest of the backoff after an early failure. Otherwise it asks the limiter, and notes
// the time before the wait begins: the hand-out of the retry itself is never early. Of several retries
// that wait, the first counts, as the queue hands the item out then.
func (l retryLimiter[R]) When(item R) time.Duration {
	now := l.clock.Now()
	if r := l.rows.of(item); r.early {
		return max(0, r.due.Sub(now))
	}
	after := l.TypedRateLimiter.When(item)
	l.dueAt(item, now, after)
	return after
}

func (l retryLimiter[R]) dueAt(item R, now time.Time, after time.Duration) {
	l.rows.begin(item, func(r *row) {
		if due := now.Add(max(0, after)); !r.due.After(now) || due.Before(r.due) {
			r.due = due
		}
	})
}

// dueBy notes that retries come after a time that a call has named, if the limiter has named a later one.
func (l retryLimiter[R]) dueBy(items []R, after time.Duration) {
	for _, item := range items {
		l.dueAt(item, l.clock.Now(), after)
	}
}

// handOut notes whether a hand-out is early. It reads the clock, which may be foreign code, without the
// lock of the rows.
func (l retryLimiter[R]) handOut(item R) {
	if l.rows.some.Load() {
		now := l.clock.Now()
		l.rows.change(item, func(r *row) { r.early = now.Before(r.due) })
	}
}
