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

// attempts are what a queue knows of the last reconciles of its items: how many in a row were cut short or have
// failed, when the limiter lets an item be retried, and what a reconcile has asked for that has just ended. An
// item without any of this has no attempt, and no record. While no item has one, each method takes one
// atomic load and no lock. Otherwise a method takes constant time, amortized.
//
// An item that differs from itself has no attempt: nobody could find the record again.
type attempts[R comparable] struct {
	some atomic.Bool // there are records

	mu   sync.Mutex    // no foreign code runs with mu held, but the hash of an item
	all  map[R]attempt // guarded by mu
	most int           // records since the map was made; guarded by mu
}

// An attempt is what the queue knows of an item. The zero value is that of an item without a record.
type attempt struct {
	cancels int           // reconciles in a row that were cut short
	failed  int           // failures in a row, with MaxAttempts
	cut     bool          // the last reconcile was cut short, and the controller still has to call Forget
	due     time.Time     // when the retry is due; zero if the limiter was not asked
	early   bool          // the item is held, and was handed out before due
	ended   bool          // the reconcile has ended, and the controller's add follows
	over    bool          // with ended: a panic has given the item up, and the add does nothing
	firm    time.Duration // of DeferFor, from ended to the end of the add
}

func (as *attempts[R]) of(item R) attempt {
	if !as.some.Load() {
		return attempt{}
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	return as.all[item]
}

// change calls f with the record of an item, if the item has one.
func (as *attempts[R]) change(item R, f func(a *attempt)) {
	if !as.some.Load() {
		return
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	if a, ok := as.all[item]; ok {
		f(&a)
		as.putLocked(item, a)
	}
}

// begin calls f with the record of an item, which may be new.
func (as *attempts[R]) begin(item R, f func(a *attempt)) {
	if item != item {
		return
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	a := as.all[item]
	f(&a)
	as.putLocked(item, a)
}

// putLocked makes the map anew when few records of many are left: a map gives no memory back.
func (as *attempts[R]) putLocked(item R, a attempt) {
	switch {
	case a == attempt{}:
		delete(as.all, item)
	case as.all == nil:
		as.all = map[R]attempt{item: a}
	default:
		as.all[item] = a
	}
	as.most = max(as.most, len(as.all))
	if len(as.all) < as.most/4 {
		as.most = len(as.all)
		few := make(map[R]attempt, as.most)
		maps.Copy(few, as.all)
		as.all = few
	}
	as.some.Store(len(as.all) > 0)
}

// forget forgets the failures and the retry of an item. What its reconcile has asked for stays: the controller calls
// Forget before its add. The row of cancels stays too, as WakeOn forgets at each change of a spec: an object that
// changes faster than a reconcile takes would never be reconciled to the end.
func (as *attempts[R]) forget(item R) {
	as.change(item, func(a *attempt) { *a = attempt{cancels: a.cancels, ended: a.ended, over: a.over, firm: a.firm} })
}

// items returns the items that have a record.
func (as *attempts[R]) items() []R {
	as.mu.Lock()
	defer as.mu.Unlock()
	return slices.Collect(maps.Keys(as.all))
}

// forgive reports whether the last reconcile of the item was cut short and nobody has asked since.
func (as *attempts[R]) forgive(item R) (cut bool) {
	as.change(item, func(a *attempt) { cut, a.cut = a.cut, false })
	return cut
}

// A retryLimiter is the limiter of a controller. It notes when each retry is due, and does not count an
// early failure, see [Queue.AddWithOpts].
type retryLimiter[R comparable] struct {
	clientgo.TypedRateLimiter[R]
	attempts *attempts[R]
	clock    clock.PassiveClock
}

func newRetryLimiter[R comparable](limiter clientgo.TypedRateLimiter[R], as *attempts[R], c clock.PassiveClock) retryLimiter[R] {
	if limiter == nil {
		limiter = workqueue.DefaultTypedControllerRateLimiter[R]()
	}
	if c == nil {
		c = clock.RealClock{}
	}
	return retryLimiter[R]{limiter, as, c}
}

// When returns the rest of the backoff after an early failure. Otherwise it asks the limiter, and notes
// the time before the wait begins: the hand-out of the retry itself is never early. Of several retries
// that wait, the first counts, as the queue hands the item out then.
func (l retryLimiter[R]) When(item R) time.Duration {
	now := l.clock.Now()
	a := l.attempts.of(item)
	least := min(time.Nanosecond, a.firm) // A firm add without a wait would end the wait of DeferFor.
	if a.early {
		return max(least, a.due.Sub(now))
	}
	after := max(least, l.TypedRateLimiter.When(item))
	l.dueAt(item, now, after)
	return after
}

func (l retryLimiter[R]) dueAt(item R, now time.Time, after time.Duration) {
	l.attempts.begin(item, func(a *attempt) {
		if due := now.Add(max(0, after)); !a.due.After(now) || due.Before(a.due) {
			a.due = due
		}
	})
}

// dueBy notes that retries come after a time that a call has named, if the limiter has named a later one.
func (l retryLimiter[R]) dueBy(items []R, after time.Duration) {
	for _, item := range items {
		l.dueAt(item, l.clock.Now(), after)
	}
}

// handOut notes whether a hand-out is early. The clock may be foreign code, and is read without the lock.
func (l retryLimiter[R]) handOut(item R) {
	if l.attempts.some.Load() {
		now := l.clock.Now()
		l.attempts.change(item, func(a *attempt) { a.early = now.Before(a.due) })
	}
}
