package sharding

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed16c08ea7/workqueue"
)

// TestLife starts, adds, stops and kills replicas.
func TestLife(t *testing.T) {
	play(t, func(w *world) {
		start := func(name string) *replica {
			return w.make(name, func(o *Options, _ *client) { o.DrainTimeout = time.Millisecond }).work(0)
		}
		a, b, c := start("a"), start("b"), start("c")
		time.Sleep(10 * time.Second)
		w.spread(a, b, c)

		d := start("d")
		time.Sleep(10 * time.Second)
		w.spread(a, b, c, d)
		w.gap("on a join", time.Millisecond, time.Second)

		b.end()
		time.Sleep(10 * time.Second)
		w.spread(a, c, d)
		w.gap("on a leave", time.Millisecond, time.Second)
		w.alone()

		c.cut(true)
		time.Sleep(30 * time.Second)
		w.spread(a, d)
		w.gap("on a cut", 3*time.Second, 7*time.Second)
		c.heal()
		time.Sleep(30 * time.Second)
		w.spread(a, c, d)
		w.alone()
		for _, r := range []*replica{a, c, d} {
			r.end()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.leases); n != 8 {
			t.Errorf("%d Leases are left, want those of 8 slots", n)
		}
	})
}

// With one slot, one replica does all the work. The leadership goes to the other replica when this one is cut off,
// and comes back.
func TestOneSlotIsALeadershipThatCanBeWonAgain(t *testing.T) {
	play(t, func(w *world) {
		a, b := w.one("a", nil).work(0), w.one("b", nil).work(0)
		defer a.end()
		defer b.end()
		time.Sleep(30 * time.Second)
		w.spread(a, b)
		leader, other := a, b
		if len(a.Held()) == 0 {
			leader, other = b, a
		}
		for range 3 {
			leader.cut(true)
			time.Sleep(30 * time.Second)
			if len(leader.Held()) != 0 || len(other.Held()) != 1 {
				t.Errorf("after the cut %s holds %v, and %s holds %v", leader.id, leader.Held(), other.id, other.Held())
			}
			leader.heal()
			other.cut(true)
			time.Sleep(30 * time.Second)
			if len(leader.Held()) != 1 || len(other.Held()) != 0 {
				t.Errorf("after both cuts %s holds %v, and %s holds %v", leader.id, leader.Held(), other.id, other.Held())
			}
			other.heal()
		}
		w.alone()
	})
}

// TestWriteRates measures what the README says of the load on the API server.
func TestWriteRates(t *testing.T) {
	for _, tc := range []struct {
		slots, replicas int
		lease, renew    time.Duration
		retry           time.Duration
		want            float64
	}{
		{32, 3, 15 * time.Second, 10 * time.Second, 2 * time.Second, 17.5},
		{32, 3, 30 * time.Second, 20 * time.Second, 5 * time.Second, 7},
		{256, 3, 60 * time.Second, 40 * time.Second, 10 * time.Second, 26},
		{32, 20, 30 * time.Second, 20 * time.Second, 5 * time.Second, 10.4},
	} {
		t.Run(fmt.Sprintf("%dx%d,%v", tc.slots, tc.replicas, tc.retry), func(t *testing.T) {
			play(t, func(w *world) {
				for _, name := range names(tc.replicas) {
					w.start(name, func(o *Options, c *client) {
						o.Slots, o.LeaseDuration, o.RenewDeadline, o.RetryPeriod, o.Force = tc.slots, tc.lease, tc.renew, tc.retry, true
						c.timeout = tc.renew / 2
					})
				}
				time.Sleep(time.Minute)
				writes, reads := w.writes.Load(), w.reads.Load()
				time.Sleep(2 * time.Minute)
				rate := float64(w.writes.Load()-writes) / 120
				if rate < 0.95*tc.want || rate > 1.02*tc.want {
					t.Errorf("%.1f writes a second, want %.1f", rate, tc.want)
				}
				if n := w.reads.Load() - reads; n > 0 {
					t.Errorf("%d reads at rest, want none", n)
				}
				w.spread(w.replicas...)
			})
		})
	}
}

// TestMaxMoving counts how many slots a replica hands over at a time.
func TestMaxMoving(t *testing.T) {
	play(t, func(w *world) {
		var moving, most atomic.Int32
		a := w.start("a", func(o *Options, _ *client) {
			o.Slots, o.MaxMoving = 32, 3
			o.OnLost = func(context.Context, int, int64) {
				most.Store(max(most.Load(), moving.Add(1)))
				time.Sleep(time.Second)
				moving.Add(-1)
			}
		})
		time.Sleep(10 * time.Second)
		b := w.start("b", func(o *Options, _ *client) { o.Slots = 32 })
		time.Sleep(20 * time.Second)
		w.spread(a, b)
		if n := most.Load(); n != 3 {
			t.Errorf("%d slots were handed over at a time, want 3", n)
		}
		most.Store(0)
		a.end()
		if n := most.Load(); n != 16 {
			t.Errorf("%d slots were handed over at a time at the end, want all 16", n)
		}
		b.end()
	})
}

// TestSettle starts replicas one after the other, closer than Settle: slots that are owned stay
// where they are until the members have settled, and a new replica takes nothing at first.
func TestSettle(t *testing.T) {
	play(t, func(w *world) {
		a := w.start("a", nil)
		time.Sleep(4900 * time.Millisecond)
		if n := len(a.Held()); n > 0 {
			t.Errorf("%d slots were taken before Settle was over", n)
		}
		time.Sleep(time.Second)
		all := []*replica{a}
		for _, name := range names(4) {
			all = append(all, w.start(name, nil))
			time.Sleep(4 * time.Second)
			if n := len(a.Held()); n != 8 {
				t.Errorf("A has %d slots while replicas come, want all 8", n)
			}
		}
		time.Sleep(10 * time.Second)
		w.spread(all...)
	})
}

// TestMembers follows the Leases of members: owner, a deletion by hand, a conflict, and the
// collection of those that are gone.
func TestMembers(t *testing.T) {
	play(t, func(w *world) {
		a := w.start("a", func(o *Options, _ *client) { o.Owner = &metav1.OwnerReference{Kind: "Pod", Name: "a", UID: "uid"} })
		b := w.start("b", nil)
		c := w.start("c", nil)
		time.Sleep(15 * time.Second)
		name := leaseOf(a)
		w.mu.Lock()
		if owners := w.leases[name].OwnerReferences; len(owners) != 1 || owners[0].UID != "uid" {
			t.Errorf("the owners of the membership are %v", owners)
		}
		w.mu.Unlock()

		w.remove(name)
		time.Sleep(4 * time.Second)
		w.edit(name, func(l *coordinationv1.Lease) {
			l.Annotations = map[string]string{"by": "hand"}
		})
		time.Sleep(20 * time.Second)
		w.spread(a, b, c)

		c.cut(false)
		gone := leaseOf(c)
		time.Sleep(28 * time.Second)
		if w.holder(gone) == "" {
			t.Error("the Lease of the member was collected before two LeaseDurations")
		}
		time.Sleep(7 * time.Second)
		if w.holder(gone) != "" {
			t.Error("the Lease of the member was not collected")
		}
		c.heal()
		time.Sleep(20 * time.Second)
		w.spread(a, b, c)
	})
}

// TestMembershipAfterLostReads has somebody else change the Lease of a member, and the reads that
// follow the conflict fail: the member renews its Lease again as soon as requests succeed.
func TestMembershipAfterLostReads(t *testing.T) {
	play(t, func(w *world) {
		var fails atomic.Bool
		a := w.start("a", func(_ *Options, c *client) {
			c.before = func(_ context.Context, verb, name string) error {
				if fails.Load() && verb == "get" && strings.Contains(name, kindMember) {
					return errRefused
				}
				return nil
			}
		})
		b := w.start("b", nil)
		time.Sleep(15 * time.Second)
		fails.Store(true)
		w.edit(leaseOf(a), func(l *coordinationv1.Lease) {
			l.Annotations = map[string]string{"by": "hand"}
		})
		time.Sleep(5 * time.Second)
		fails.Store(false)
		time.Sleep(time.Minute)
		if members, _ := b.view.alive(time.Now()); len(members) != 2 {
			t.Errorf("the members are %v, want both replicas", members)
		}
		w.spread(a, b)
	})
}

// TestAttach attaches a queue while slots are owned, and one whose list fails at first.
func TestAttach(t *testing.T) {
	play(t, func(w *world) {
		a := w.make("a", func(o *Options, _ *client) { o.Key = func(item any) string { return fmt.Sprint(item) } })
		var fails atomic.Bool
		fails.Store(true)
		var listed, more [8]atomic.Int32
		list := func(_ context.Context, slot int) ([]int, error) {
			if fails.Load() {
				return nil, errors.New("no list")
			}
			listed[slot].Add(1)
			return []int{slot}, nil
		}
		w.group.Go(func() {
			time.Sleep(8 * time.Second)
			fails.Store(false)
		})
		var added atomic.Int32
		queue := adderOf[int](func(int) { added.Add(1) })
		if err := Attach(w.Context(), a.Shards, queue, list); err != nil {
			t.Error(err)
		}
		a.run()
		time.Sleep(7 * time.Second)
		if err := Attach(w.Context(), a.Shards, queue, list); err == nil || !strings.Contains(err.Error(), "slot 7") {
			t.Errorf("Attach returned %v, want the errors of the lists", err)
		}
		time.Sleep(7 * time.Second)
		for slot := range listed {
			if n := listed[slot].Load(); n != 1 && n != 2 {
				t.Errorf("slot %d was listed %d times, want once for the first queue, or for both", slot, n)
			}
		}
		err := Attach(w.Context(), a.Shards, queue, func(_ context.Context, slot int) ([]int, error) {
			more[slot].Add(1)
			return nil, nil
		})
		if err != nil {
			t.Error(err)
		}
		for slot := range more {
			if n := more[slot].Load(); n != 1 {
				t.Errorf("slot %d was listed %d times by Attach, want once", slot, n)
			}
		}
		if added.Load() < 8 {
			t.Errorf("%d items were added, want 8 at least", added.Load())
		}
	})
}

// TestHandOverOfAnItemThatIsNoKey hands over a slot while a handler has an item which cannot be the key
// of a map. Context takes items of any type.
func TestHandOverOfAnItemThatIsNoKey(t *testing.T) {
	play(t, func(w *world) {
		a := w.one("a", func(o *Options, _ *client) { o.Key = func(item any) string { return fmt.Sprint(item) } })
		q := workqueue.NewTyped[string]()
		if err := Attach(w.Context(), a.Shards, q, func(context.Context, int) ([]string, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
		a.run()
		time.Sleep(8 * time.Second)
		owned, done, err := a.Context(w.Context(), []string{"ns", "name"})
		if err != nil {
			t.Fatal(err)
		}
		w.group.Go(func() {
			time.Sleep(time.Second)
			done()
		})
		a.end()
		if context.Cause(owned) != context.Canceled {
			t.Errorf("the handler was cut short: %v", context.Cause(owned))
		}
	})
}

// TestHandle calls a handler for items that are owned, not owned, and lost meanwhile.
func TestHandle(t *testing.T) {
	play(t, func(w *world) {
		a := w.one("a", nil)
		item := itemOf(a.Shards, 0)
		failed := errors.New("failed")
		calls := 0
		reconcile := Reconcile(a.Shards, func(ctx context.Context, item string) (string, error) {
			calls++
			if calls == 2 {
				<-ctx.Done()
				return "result", ctx.Err()
			}
			return "result", failed
		})
		if result, err := reconcile(w.Context(), item); result != "" || err != nil || calls != 0 {
			t.Errorf("before the gain: %q, %v, %d calls", result, err, calls)
		}
		a.run()
		time.Sleep(8 * time.Second)
		if result, err := reconcile(w.Context(), item); result != "result" || err != failed {
			t.Errorf("while owned: %q, %v", result, err)
		}
		w.group.Go(func() { time.Sleep(time.Second); a.cut(true) })
		if result, err := reconcile(w.Context(), item); result != "" || err != nil {
			t.Errorf("the ownership ended: %q, %v", result, err)
		}
		a.heal()
		time.Sleep(20 * time.Second)
		if err := Handle(a.Shards, func(context.Context, string) error { return failed })(w.Context(), item); err != failed {
			t.Errorf("the error of the handler is %v", err)
		}
		owned, done, err := a.Context(w.Context(), item)
		if err != nil {
			t.Fatal(err)
		}
		done()
		done()
		if context.Cause(owned) != context.Canceled {
			t.Error("done has not ended the context")
		}
	})
}
