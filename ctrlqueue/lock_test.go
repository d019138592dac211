package ctrlqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A shift notes the reconciles of a controller that has much to do when its manager ends.
type shift struct {
	mu    sync.Mutex
	began []time.Time // guarded by mu
	live  []time.Time // when reconciles ended whose contexts had not; guarded by mu
}

// work is a reconcile of a second, or until its context ends.
func (s *shift) work(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	began := time.Now()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began = append(s.began, began); ctx.Err() == nil {
		s.live = append(s.live, time.Now())
	}
	return reconcile.Result{}, nil
}

// after returns how many reconciles with a live context began at the time or later, or ended later.
func (s *shift) after(at time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.live {
		if s.live[i].After(at) {
			n++
		}
	}
	return n
}

// play starts a controller with 1,000 items on mgr, ends the context of Start after a minute, and
// calls then. It returns when Start has returned and an hour has passed.
func (s *shift) play(t *testing.T, mgr manager.Manager, then func()) (returned time.Time) {
	t.Helper()
	addController(t, mgr, "shift", controller.Options{Reconciler: reconcile.Func(s.work)}, func(q *requestQueue) {
		for i := range 1000 {
			q.Add(request(fmt.Sprint(i)))
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan time.Time)
	go func() {
		mgr.Start(ctx) // Its error depends on the kind of loss.
		over <- time.Now()
	}()
	time.Sleep(time.Minute)
	stop()
	then()
	returned = <-over
	time.Sleep(time.Hour)
	return returned
}

// While a manager ends, controller-runtime only logs that the leadership is lost: without a Lock,
// the drain went on until the Grace was over, beside another leader.
func TestDrainAfterALeadershipThatWasLostMeanwhile(t *testing.T) {
	const renewDeadline = 10 * time.Second
	for name, row := range map[string]struct {
		lose func(*lock)
		left time.Duration // of the leadership at most, after the last renewal
	}{
		"renewals fail":            {func(l *lock) { l.stolen.Store(true) }, renewDeadline},
		"the record names another": {func(l *lock) { l.stolen.Store(true); l.name("another replica") }, 3 * time.Second},
		"the record is gone":       {func(l *lock) { l.stolen.Store(true); l.name("") }, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s shift
				l := new(lock)
				watched := ctrlqueue.NewLock(l)
				o := draining(28 * time.Second)
				o.Lock = watched
				s.play(t, ctrlqueue.WrapManager(newElected(t, watched, 30*time.Second), o), func() {
					time.Sleep(5 * time.Second)
					row.lose(l)
				})
				over := l.renewed().Add(row.left)
				if n := s.after(over); n > 0 {
					t.Errorf("%d reconciles had live contexts after the leadership", n)
				}
				// The drain began: the leadership lasted for five seconds of it at least.
				if n := s.after(over.Add(-row.left)); n == 0 {
					t.Error("nothing was drained before the end of the leadership")
				}
			})
		})
	}
}

// A leadership that lasts does not end the drain before its Grace.
func TestDrainWhileTheLeadershipLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shift
		l := ctrlqueue.NewLock(new(lock))
		o := draining(20 * time.Second)
		o.Lock = l
		var stopped time.Time
		s.play(t, ctrlqueue.WrapManager(newElected(t, l, 30*time.Second), o), func() { stopped = time.Now() })
		if n := s.after(stopped); n < 19 || n > 21 {
			t.Errorf("%d reconciles were finished in the 20 seconds of Grace", n)
		}
	})
}

// Start returns after GracefulShutdownTimeout. Reconciles with live contexts went on after that
// until the Grace was over. The manager gives its lock up then: the log said that the leadership is over.
func TestGraceLongerThanTheManagerWaits(t *testing.T) {
	for _, locked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var s shift
			logger, logged := newLog()
			o := draining(time.Minute)
			o.Logger = &logger
			l := ctrlqueue.NewLock(new(lock))
			if locked {
				o.Lock = l
			}
			returned := s.play(t, ctrlqueue.WrapManager(newElected(t, l, 5*time.Second), o), func() {})
			if n := s.after(returned); n > 0 {
				t.Errorf("%d reconciles had live contexts after Start had returned", n)
			}
			if lines := logged(); len(lines) != 1 || !strings.Contains(lines[0], "The Grace is longer than the manager has waited") {
				t.Errorf("with a Lock %v: logged are %q", locked, lines)
			}
		})
	}
}

// A controller that needs no election goes on without one.
func TestDrainOfAControllerThatNeedsNoElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := ctrlqueue.NewLock(new(lock))
		o := draining(20 * time.Second)
		o.Lock = l
		mgr := newStandIn()
		wrapped := ctrlqueue.WrapManager(mgr, o)
		record := resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaseDurationSeconds: 15}
		if err := l.Update(t.Context(), record); err != nil { // The leadership of a term that is long over.
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

// A renewal whose answer comes after the time that the renewal has bought ends nothing and revives
// nothing.
func TestLateAnswerOfARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowLock{lock: new(lock)}
		l := ctrlqueue.NewLock(slow)
		o := stringOptions{AtEnd: workqueue.EndDrain, Grace: time.Hour, Lock: l}
		record := resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaseDurationSeconds: 15}
		if err := l.Create(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		slow.answers = 16 * time.Second // 26 s after the Create, and 11 after the end of the leadership.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		q := openStopped(t, "", o)
		q.Add("a")
		q.Get()
		q.Add("b")
		if err := l.Update(ctx, record); err != nil {
			t.Fatal(err)
		}
		q.ShutDown()
		synctest.Wait()
		if item, shutdown := q.Get(); !shutdown {
			t.Errorf("%s was handed out after the leadership", item)
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
	record := resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaseDurationSeconds: 15}
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
				record := resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaseDurationSeconds: int(lease / time.Second)}
				l.Create(t.Context(), record)
				time.Sleep(time.Second)
				ctx, done := context.WithTimeout(t.Context(), renew)
				defer done()
				l.Update(ctx, record)
			}
			lead(15*time.Second, 10*time.Second)
			release(l)
			lead(9*time.Second, 5*time.Second)
			q := openStopped(t, "", stringOptions{AtEnd: workqueue.EndDrain, Grace: time.Hour, Lock: l})
			q.Add("a")
			q.Add("b")
			q.ShutDown()
			time.Sleep(4 * time.Second)
			if _, shutdown := q.Get(); shutdown {
				t.Errorf("%s: nothing is handed out before RenewDeadline", name)
			}
			time.Sleep(2 * time.Second)
			if _, shutdown := q.Get(); !shutdown {
				t.Errorf("%s: an item is handed out after RenewDeadline", name)
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
			record := resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaseDurationSeconds: 15}
			l.Create(ctx, record)
			for range 5 {
				time.Sleep(2 * time.Second)
				renew, done := context.WithTimeout(ctx, 10*time.Second)
				l.Update(renew, record)
				done()
			}
			q := openStopped(t, "", stringOptions{AtEnd: workqueue.EndDrain, Grace: time.Hour, Lock: l})
			for i := range 100 {
				q.Add(strconv.Itoa(i))
			}
			renewed := time.Now()
			q.ShutDown()
			last := renewed
			for {
				time.Sleep(time.Second)
				item, shutdown := q.Get()
				if shutdown {
					break
				}
				last = time.Now()
				q.Done(item)
			}
			if took := last.Sub(renewed); took < 8*time.Second || took > 10*time.Second {
				t.Errorf("the last item was handed out %v after the last renewal", took)
			}
		})
	}
}
