package sharding

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The four defects of the stock elector. Each is played with client-go's elector on client-go's
// lock, where the defect must show, and with Shards of one slot, where it must not. If a new
// client-go has a defect no more, its test fails, and the part of term goes.

const leaseUnderTest = "set-0"

// contend starts an elector, or a replica with one slot, with a handler at work while it leads. set prepares
// its client; nil for nothing.
func (w *world) contend(stock bool, name string, set func(*client)) *client {
	if set == nil {
		set = func(*client) {}
	}
	if !stock {
		return w.one(name, func(o *Options, c *client) {
			o.DrainTimeout = time.Millisecond
			set(c)
		}).work(0).client
	}
	c := &client{server: w.server, rtt: 5 * time.Millisecond, timeout: 5 * time.Second}
	set(c)
	o := quick(name)
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "ns", Name: leaseUnderTest}, Client: c,
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stops = append(w.stops, stop)
	w.group.Go(func() {
		for ctx.Err() == nil {
			var handlers sync.WaitGroup
			elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
				Lock: lock, ReleaseOnCancel: true, Name: name,
				LeaseDuration: o.LeaseDuration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(ctx context.Context) {
						handlers.Add(1)
						defer handlers.Done()
						w.audit.enter("item", name)
						<-ctx.Done()
						w.audit.leave("item", name)
					},
					OnStoppedLeading: func() {},
				},
			})
			if err != nil {
				w.Error(err)
				return
			}
			elector.Run(ctx)
			time.Sleep(time.Millisecond)
			handlers.Wait()
		}
	})
	return c
}

// both plays a defect with either, several times: the elector has jitter.
func both(t *testing.T, f func(w *world, stock bool)) {
	t.Helper()
	const plays = 30
	t.Run("stock", func(t *testing.T) {
		var overlap time.Duration
		for range plays {
			play(t, func(w *world) {
				f(w, true)
				overlap = max(overlap, w.overlap())
			})
		}
		if overlap == 0 {
			t.Error("no overlap: client-go has the defect no more")
		}
		t.Logf("two at work for %v at most", overlap)
	})
	t.Run("sharding", func(t *testing.T) {
		for range plays {
			play(t, func(w *world) {
				f(w, false)
				w.alone()
				if w.audit.count() < 2 {
					t.Error("the slot had no second owner: nothing was tested")
				}
			})
		}
	})
}

// The elector waits for its release before it ends the context of the leader. Hanging requests
// keep the release for the whole RenewDeadline.
func TestDefectHangingRelease(t *testing.T) {
	both(t, func(w *world, stock bool) {
		unbounded := func(c *client) { c.timeout = 0 } // As a clientset is by default.
		a := w.contend(stock, "a", unbounded)
		time.Sleep(8 * time.Second)
		w.contend(stock, loser, unbounded)
		time.Sleep(20 * time.Second)
		a.cut(true)
		time.Sleep(time.Minute)
		a.heal()
		time.Sleep(time.Minute)
	})
}

// A process that was stopped in the middle of a renewal finds its context over, and releases the
// record, which names another by then.
func TestDefectStaleRelease(t *testing.T) {
	both(t, func(w *world, stock bool) {
		a := w.contend(stock, "a", nil)
		time.Sleep(8 * time.Second)
		until := time.Now().Add(22 * time.Second)
		a.meet(func(context.Context, string, string) error {
			time.Sleep(time.Until(until))
			return nil
		})
		w.contend(stock, loser, nil)
		w.contend(stock, "c", nil)
		time.Sleep(3 * time.Minute)
	})
}

// A leader whose record names another goes on to its RenewDeadline.
func TestDefectLateNotice(t *testing.T) {
	both(t, func(w *world, stock bool) {
		w.contend(stock, "a", nil)
		time.Sleep(11 * time.Second)
		w.remove(leaseUnderTest)
		w.contend(stock, loser, nil)
		time.Sleep(time.Minute)
	})
}

// A renewal whose answer comes late is counted from the answer.
func TestDefectLateAnswer(t *testing.T) {
	both(t, func(w *world, stock bool) {
		var slow atomic.Bool
		a := w.contend(stock, "a", func(c *client) {
			c.timeout = 0
			c.after = each("update", leaseUnderTest, func(ctx context.Context, _, _ string) error {
				if !slow.CompareAndSwap(true, false) {
					return nil
				}
				c.meet(func(_ context.Context, _, name string) error {
					if name != leaseUnderTest {
						return errRefused // The other Leases of a replica would keep the slot where it is.
					}
					return nil
				})
				err := pause(ctx, 7*time.Second)
				time.AfterFunc(4*time.Millisecond, func() { c.cut(false) }) // After this answer.
				return err
			})
		})
		time.Sleep(8 * time.Second)
		w.contend(stock, loser, nil)
		time.Sleep(time.Second)
		slow.Store(true)
		time.Sleep(90 * time.Second)
		a.meet(nil)
		a.heal()
		time.Sleep(20 * time.Second)
	})
}
