package sharding

import (
	"context"
	"slices"
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

// A contender is an elector, or a replica with one slot, with a handler at work while it leads.
type contender struct {
	*client
	stop func()
}

// contend starts a contender. set prepares its client.
func (w *world) contend(stock bool, name string, set func(*client)) *contender {
	if !stock {
		r := w.make(name, func(o *Options, c *client) {
			o.Slots, o.DrainTimeout = 1, time.Millisecond
			if set != nil {
				set(c)
			}
		})
		r.work(0)
		return &contender{r.client, r.stop}
	}
	c := &client{server: w.server, rtt: 5 * time.Millisecond, timeout: 5 * time.Second}
	if set != nil {
		set(c)
	}
	o := quick(name)
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "ns", Name: leaseUnderTest}, Client: c,
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}
	ctx, stop := context.WithCancel(context.Background())
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
	return &contender{c, stop}
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

// duel lets A lead and B stand by.
func (w *world) duel(stock bool, prepare func(*client)) (a, b *contender) {
	a = w.contend(stock, "a", prepare)
	time.Sleep(8 * time.Second)
	b = w.contend(stock, loser, prepare)
	time.Sleep(20 * time.Second)
	return a, b
}

// The elector waits for its release before it ends the context of the leader. Requests that hang
// keep the release for the whole RenewDeadline.
func TestDefectHangingRelease(t *testing.T) {
	both(t, func(w *world, stock bool) {
		a, b := w.duel(stock, func(c *client) { c.timeout = 0 }) // As a clientset has by default.
		a.cut(true)
		time.Sleep(time.Minute)
		a.heal()
		time.Sleep(time.Minute)
		a.stop()
		b.stop()
	})
}

// leaders returns the contenders at work.
func (w *world) leaders() (names []string) {
	w.audit.mu.Lock()
	defer w.audit.mu.Unlock()
	for _, at := range w.audit.at {
		for name := range at {
			names = append(names, identityOf(name))
		}
	}
	slices.Sort(names)
	return names
}

// A process that was stopped in the middle of a renewal finds its context over, and releases the
// record, which names another by then.
func TestDefectStaleRelease(t *testing.T) {
	both(t, func(w *world, stock bool) {
		var until atomic.Int64 // as Unix time in nanoseconds
		freeze := func(c *client) {
			c.before = func(context.Context, string, string) error {
				time.Sleep(time.Until(time.Unix(0, until.Load())))
				return nil
			}
		}
		a := w.contend(stock, "a", freeze)
		time.Sleep(8 * time.Second)
		until.Store(time.Now().Add(22 * time.Second).UnixNano())
		b, c := w.contend(stock, loser, nil), w.contend(stock, "c", nil)
		time.Sleep(3 * time.Minute)
		a.stop()
		b.stop()
		c.stop()
	})
}

// A leader whose record names another goes on to its RenewDeadline.
func TestDefectLateNotice(t *testing.T) {
	both(t, func(w *world, stock bool) {
		a := w.contend(stock, "a", nil)
		time.Sleep(11 * time.Second)
		w.remove(leaseUnderTest)
		b := w.contend(stock, loser, nil)
		time.Sleep(time.Minute)
		a.stop()
		b.stop()
	})
}

// A renewal whose answer comes late is counted from the answer.
func TestDefectLateAnswer(t *testing.T) {
	both(t, func(w *world, stock bool) {
		var slow, alone atomic.Bool
		a := w.contend(stock, "a", func(c *client) {
			c.timeout = 0
			c.before = func(_ context.Context, _, name string) error {
				if alone.Load() && name != leaseUnderTest {
					return errRefused // The other Leases of a replica would keep the slot where it is.
				}
				return nil
			}
			c.after = func(ctx context.Context, verb, name string) error {
				if verb != "update" || name != leaseUnderTest || !slow.CompareAndSwap(true, false) {
					return nil
				}
				alone.Store(true)
				err := pause(ctx, 7*time.Second)
				time.AfterFunc(4*time.Millisecond, func() { c.cut(false) }) // After this answer.
				return err
			}
		})
		time.Sleep(8 * time.Second)
		b := w.contend(stock, loser, nil)
		time.Sleep(time.Second)
		slow.Store(true)
		time.Sleep(90 * time.Second)
		alone.Store(false)
		a.heal()
		time.Sleep(20 * time.Second)
		a.stop()
		b.stop()
	})
}
