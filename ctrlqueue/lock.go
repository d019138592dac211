package ctrlqueue

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The causes of the end of a leadership. The elector gives a lock up when the manager has stopped waiting, or after a
// loss, which has ended the leadership already.
var (
	errNotLeading = errors.New("ctrlqueue: the leadership is over")
	errReleased   = errors.New("ctrlqueue: the manager has given the leadership up")
)

// A Lock is a lock of leader election that knows when the leadership ends. [NewLock] makes a
// Lock. It goes into the options of the manager and, as Lock, into the [Options]:
//
//	lock := ctrlqueue.NewLock(leases)
//	mgr, err := ctrl.NewManager(config, ctrl.Options{LeaderElection: true, LeaderElectionResourceLockInterface: lock})
//	mgr = ctrlqueue.WrapManager(mgr, ctrlqueue.Options[reconcile.Request]{Lock: lock, ...})
//
// controller-runtime goes on to renew the lock while a manager ends. If a renewal fails then,
// controller-runtime tells nobody before its Start returns, and another replica leads by that
// time. Until the end of the manager a Lock changes nothing. A Lock sees each call of the elector:
//
//	a renewal succeeds            the leadership lasts for RenewDeadline from the instant at
//	                              which the renewal was sent
//	no renewal succeeds           the leadership ends at that time, which is before others may
//	                              take the lock: RenewDeadline is shorter than LeaseDuration
//	the record names another      the leadership ends when the elector reads the record, which is
//	                              RetryPeriod after the last time at most
//	the record is gone            the same
//	the elector gives the lock up the leadership ends before the release is sent
//
// The elector gives the Lock its RenewDeadline as the deadline of a renewal. For the call that
// takes the lock there is none, and the LeaseDuration of the record counts.
//
// A Lock may be used by one manager after the other. The methods may be called concurrently, and
// block as those of the lock below.
type Lock struct {
	lock resourcelock.Interface

	mu       sync.Mutex
	deadline time.Duration           // RenewDeadline, 0 as long as it is not known; guarded by mu
	leads    context.Context         // of the last leadership, nil before the first; guarded by mu
	end      context.CancelCauseFunc // of leads; guarded by mu
	timer    *time.Timer             // ends leads; guarded by mu
}

var _ resourcelock.Interface = (*Lock)(nil)

// NewLock returns a Lock that calls lock. NewLock panics if lock is nil.
func NewLock(lock resourcelock.Interface) *Lock {
	if lock == nil {
		panic("ctrlqueue: NewLock of a nil lock")
	}
	return &Lock{lock: lock}
}

// Get implements [resourcelock.Interface].
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.lock.Get(ctx)
	if apierrors.IsNotFound(err) || err == nil && record.HolderIdentity != l.lock.Identity() {
		l.lose(errNotLeading)
	}
	return record, raw, err
}

// Create implements [resourcelock.Interface].
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := time.Now()
	err := l.lock.Create(ctx, record)
	if err == nil {
		l.renewed(ctx, sent, record)
	}
	return err
}

// Update implements [resourcelock.Interface].
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != l.lock.Identity() {
		l.lose(errReleased)
		return l.lock.Update(ctx, record)
	}
	sent := time.Now()
	err := l.lock.Update(ctx, record)
	if err == nil {
		l.renewed(ctx, sent, record)
	}
	return err
}

// RecordEvent implements [resourcelock.Interface].
func (l *Lock) RecordEvent(event string) { l.lock.RecordEvent(event) }

// Identity implements [resourcelock.Interface].
func (l *Lock) Identity() string { return l.lock.Identity() }

// Describe implements [resourcelock.Interface].
func (l *Lock) Describe() string { return l.lock.Describe() }

// renewed notes a call that has taken or renewed the lock. All attempts of a renewal have one
// deadline, so the longest time to a deadline is that of a first attempt: RenewDeadline. An
// answer that comes after the end of the time that its call has bought revives nothing: the next
// renewal begins a leadership of its own.
func (l *Lock) renewed(ctx context.Context, sent time.Time, record resourcelock.LeaderElectionRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lasts := time.Duration(record.LeaseDurationSeconds) * time.Second
	// A later deadline is that of the whole election: RenewDeadline is shorter than LeaseDuration.
	if at, ok := ctx.Deadline(); ok && at.Sub(sent) < lasts {
		l.deadline = max(l.deadline, at.Sub(sent))
	} else if l.leads == nil || l.leads.Err() != nil {
		l.deadline = 0 // Of the manager before.
	}
	if l.deadline > 0 {
		lasts = min(lasts, l.deadline)
	}
	left := time.Until(sent.Add(lasts))
	if left <= 0 {
		return
	}
	if l.leads != nil && l.leads.Err() == nil && l.timer.Stop() {
		l.timer.Reset(left)
		return
	}
	leads, end := context.WithCancelCause(context.Background())
	l.leads, l.end = leads, end
	l.timer = time.AfterFunc(left, func() { end(errNotLeading) })
}

func (l *Lock) lose(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leads != nil {
		l.timer.Stop()
		l.end(cause)
	}
}

// leading returns a context that ends with the present leadership. Without a Lock, or with a
// Lock that no elector has ever taken, the context never ends.
func (l *Lock) leading() context.Context {
	if l == nil {
		return context.Background()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leads == nil {
		return context.Background()
	}
	return l.leads
}
