package ctrlqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A controller without need of an election goes on without a leadership.
func TestDrainOfAControllerThatNeedsNoElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := ctrlqueue.NewLock(new(lock))
		o := draining(20 * time.Second)
		o.Lock = l
		mgr := newStandIn()
		wrapped := ctrlqueue.WrapManager(mgr, o)
		if err := l.Update(t.Context(), held(l, 15*time.Second)); err != nil { // The leadership of an old term.
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		var live []error
		addController(t, wrapped, "stand-by", controller.Options{NeedLeaderElection: new(false), Reconciler: reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			time.Sleep(time.Second)
			live = append(live, ctx.Err())
			return reconcile.Result{}, nil
		})}, func(q *requestQueue) {
			q.Add(request("a"))
			q.Add(request("b"))
		})
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- wrapped.Start(ctx) }()
		synctest.Wait()
		stop()
		if err := <-over; err != nil || fmt.Sprint(live) != "[<nil> <nil>]" {
			t.Errorf("the contexts had %v, the error is %v", live, err)
		}
		time.Sleep(time.Hour)
	})
}

// held returns the record of a leader.
func held(l *ctrlqueue.Lock, lease time.Duration) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaseDurationSeconds: int(lease / time.Second)}
}

// drainsFor returns for how many seconds a drain that begins now hands items out.
func drainsFor(t *testing.T, l *ctrlqueue.Lock) (seconds int) {
	t.Helper()
	q := openStopped(t, "", stringOptions{AtEnd: workqueue.EndDrain, Grace: time.Hour, Lock: l})
	for i := range 100 {
		q.Add(strconv.Itoa(i))
	}
	q.ShutDown()
	time.Sleep(time.Second / 2) // No hand-out comes at the instant of the end.
	for ; ; seconds++ {
		item, shutdown := q.Get()
		if shutdown {
			return seconds
		}
		q.Done(item)
		time.Sleep(time.Second)
	}
}

// A renewal whose answer comes after the time that the renewal has bought revives nothing.
func TestLateAnswerOfARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowLock{lock: new(lock)}
		l := ctrlqueue.NewLock(slow)
		if err := l.Create(t.Context(), held(l, 15*time.Second)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		slow.answers = 16 * time.Second // 26 s after the Create, and 11 after the end of the leadership.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := l.Update(ctx, held(l, 15*time.Second)); err != nil {
			t.Fatal(err)
		}
		if took := drainsFor(t, l); took > 0 {
			t.Errorf("items were handed out for %d s after the leadership", took)
		}
	})
}

// A slowLock answers late.
type slowLock struct {
	*lock
	answers time.Duration
}

func (l *slowLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	time.Sleep(l.answers)
	return l.lock.Update(ctx, r)
}

// A release ends the leadership before others can learn of it, and an error of the lock is that of
// the Lock.
func TestLockCallsTheLockBelow(t *testing.T) {
	below := new(lock)
	l := ctrlqueue.NewLock(below)
	if l.Identity() != below.Identity() || l.Describe() != below.Describe() {
		t.Errorf("the Lock is %s of %s", l.Identity(), l.Describe())
	}
	record := held(l, 15*time.Second)
	if err := errors.Join(l.Create(t.Context(), record), l.Update(t.Context(), resourcelock.LeaderElectionRecord{})); err != nil {
		t.Fatal(err)
	}
	if r, _, err := l.Get(t.Context()); err != nil || r.HolderIdentity != "" {
		t.Errorf("the record is %v, %v", r, err)
	}
	below.stolen.Store(true)
	if err := l.Update(t.Context(), record); err == nil {
		t.Error("a renewal that fails has no error")
	}
}

// The second manager of a Lock has a shorter RenewDeadline: the drain went on until others might take the lock.
func TestRenewDeadlineOfTheNextManager(t *testing.T) {
	for name, release := range map[string]func(l *ctrlqueue.Lock){
		"released": func(l *ctrlqueue.Lock) { l.Update(t.Context(), resourcelock.LeaderElectionRecord{}) },
		"expired":  func(*ctrlqueue.Lock) { time.Sleep(time.Minute) },
	} {
		synctest.Test(t, func(t *testing.T) {
			l := ctrlqueue.NewLock(new(lock))
			lead := func(lease, renew time.Duration) {
				l.Create(t.Context(), held(l, lease))
				time.Sleep(time.Second)
				ctx, done := context.WithTimeout(t.Context(), renew)
				defer done()
				l.Update(ctx, held(l, lease))
			}
			lead(15*time.Second, 10*time.Second)
			release(l)
			lead(9*time.Second, 5*time.Second)
			if took := drainsFor(t, l); took != 5 {
				t.Errorf("%s: items are handed out for %d s, want those of RenewDeadline, 5", name, took)
			}
		})
	}
}

// A context of the election with a deadline of its own, as that of a program with a bounded life, was taken
// for RenewDeadline: the drain went on for a LeaseDuration after the last renewal.
func TestDeadlineOfTheElectionIsNotRenewDeadline(t *testing.T) {
	for _, life := range []time.Duration{24 * time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			l := ctrlqueue.NewLock(new(lock))
			ctx, stop := context.WithTimeout(t.Context(), life)
			defer stop()
			l.Create(ctx, held(l, 15*time.Second))
			for range 5 {
				time.Sleep(2 * time.Second)
				renew, done := context.WithTimeout(ctx, 10*time.Second)
				l.Update(renew, held(l, 15*time.Second))
				done()
			}
			if took := drainsFor(t, l); took != 10 {
				t.Errorf("items were handed out for %d s after the last renewal, want 10", took)
			}
		})
	}
}
