package sharding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed16c08ea7/workqueue"
)

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
		playAs(t, fmt.Sprintf("%dx%d,%v", tc.slots, tc.replicas, tc.retry), func(w *world) {
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
				w.Errorf("%.1f writes a second, want %.1f", rate, tc.want)
			}
			if n := w.reads.Load() - reads; n > 0 {
				w.Errorf("%d reads at rest, want none", n)
			}
			w.spread(w.replicas...)
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
	})
}

// TestSettle starts replicas in a row, closer than Settle: slots stay with their owners until the members have
// settled, and a new replica takes nothing at first.
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

func byHand(l *coordinationv1.Lease) { l.Annotations = map[string]string{"by": "hand"} }

// TestMembers follows the Leases of members: owner, a deletion by hand, a conflict, and the
// collection of dead members.
func TestMembers(t *testing.T) {
	play(t, func(w *world) {
		a := w.make("a", func(o *Options, _ *client) { o.Owner = &metav1.OwnerReference{Kind: "Pod", Name: "a", UID: "uid"} })
		a.id = "a_12345678-1234-1234-1234-123456789012" // Such a Lease is not that of a slot.
		a.run()
		b := w.start("b", nil)
		c := w.start("c", nil)
		time.Sleep(15 * time.Second)
		name := leaseOf(a)
		if owners := w.lease(name).OwnerReferences; len(owners) != 1 || owners[0].UID != "uid" {
			t.Errorf("the owners of the membership are %v", owners)
		}

		w.remove(name)
		time.Sleep(4 * time.Second)
		w.edit(name, byHand)
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

		a.cut(true)
		b.cut(false)
		w.remove(leaseOf(a))
		time.Sleep(time.Second)
		b.heal() // No watch shows the deletion, but the next list of B does.
		time.Sleep(5 * time.Second)
		if members, _ := b.view.alive(time.Now()); slices.Contains(members, a.id) {
			t.Errorf("the members are %v, and the Lease of the first is deleted", members)
		}
	})
}

// TestMembershipAfterLostReads has the answer of the Create lost. Then somebody else changes the Lease of the
// member, and the reads after the conflict fail: the member renews its Lease again as soon as requests succeed.
func TestMembershipAfterLostReads(t *testing.T) {
	play(t, func(w *world) {
		a := w.start("a", func(_ *Options, c *client) { c.after = once("create", "", refused) })
		b := w.start("b", nil)
		both := func() {
			t.Helper()
			if members, _ := b.view.alive(time.Now()); len(members) != 2 {
				t.Errorf("the members are %v, want both replicas", members)
			}
			w.spread(a, b)
		}
		time.Sleep(25 * time.Second)
		both()
		a.meet(each("get", leaseOf(a), refused))
		w.edit(leaseOf(a), byHand)
		time.Sleep(5 * time.Second)
		a.meet(nil)
		time.Sleep(time.Minute)
		both()
	})
}

// TestAttach attaches a queue while slots are owned, and a queue whose list fails at first.
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
		attach(a, q, func(int) ([]string, error) { return nil, nil })
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

// TestHandle calls a handler for items of this replica, of another, and of a slot that is lost meanwhile.
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

// many are the times of a program, with 32 slots.
func many(o *Options, c *client) {
	slow(o, c)
	o.Slots = 32
}

// A replica is killed, and another starts within the LeaseDuration. The dead replica counted as a member beside the
// new replica, and live replicas handed slots over to the dead: nobody owned these slots for 19 s.
func TestSlotsOfLiveReplicasDoNotGoToADeadOne(t *testing.T) {
	for _, restarts := range []string{"pod-0", "pod-new"} {
		for range 3 { // The random part of an identity decides the assignment.
			play(t, func(w *world) {
				all := []*replica{w.start("pod-0", many), w.start("pod-1", many), w.start("pod-2", many)}
				time.Sleep(time.Minute)
				w.spread(all...)
				live := slices.Concat(all[1].Held(), all[2].Held())
				all[0].cut(false)
				all[0].stop()
				time.Sleep(time.Second)
				all[0] = w.start(restarts, many)
				without := make(map[int]time.Duration)
				const step = 100 * time.Millisecond
				for range 90 * time.Second / step {
					time.Sleep(step)
					owned := slices.Concat(all[0].Held(), all[1].Held(), all[2].Held())
					for _, slot := range live {
						if !slices.Contains(owned, slot) {
							without[slot] += step
						}
					}
				}
				for slot, d := range without {
					if d > time.Second {
						t.Errorf("%s starts: slot %d of a live replica was without an owner for %v", restarts, slot, d)
					}
				}
				w.spread(all...)
			})
		}
	}
}

// Four handlers that ignored their contexts kept all slots from moving, for ever and without a word.
func TestHandlersThatHangKeepTheirSlotsOnly(t *testing.T) {
	const hung = 5 // More than MaxMoving.
	play(t, func(w *world) {
		a := w.start("a", many)
		time.Sleep(time.Minute)
		b := w.make("b", many)
		owners := assign([]string{a.id, b.id}, 32)
		theirs := 0
		var free []func()
		for slot, owner := range owners {
			if owner != b.id {
				continue
			}
			if theirs++; len(free) < hung {
				_, done, err := a.Context(context.Background(), itemOf(a.Shards, slot))
				if err != nil {
					t.Fatal(err)
				}
				free = append(free, done)
			}
		}
		b.run()
		time.Sleep(5 * time.Minute)
		if n := len(b.Held()); n != theirs-hung {
			t.Errorf("b has %d slots of %d, and %d handlers hang", n, theirs, hung)
		}
		lines := 0
		for _, line := range a.log.all() {
			if strings.Contains(line, "a slot cannot be handed over") {
				lines++
			}
		}
		if lines != hung || len(a.overruns.all()) != 0 {
			t.Errorf("%d handlers hang, and the log has %d lines: %q; overruns %v", hung, lines, a.log.all(), a.overruns.all())
		}
		for _, done := range free {
			done()
		}
		time.Sleep(time.Minute)
		w.spread(a, b)
	})
}

// The failures of the items that were handed over stayed in the limiter, and the backoff went on when the slot came
// back.
func TestFailuresOfLostSlotsAreForgotten(t *testing.T) {
	play(t, func(w *world) {
		a := w.one("a", nil)
		q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour),
			workqueue.TypedRateLimitingQueueConfig[string]{})
		items := []string{"ns/a", "ns/b", "ns/c"}
		attach(a, q, func(int) ([]string, error) { return items, nil })
		a.run()
		ctx, stop := context.WithCancel(w.Context())
		discard := logr.Discard()
		w.group.Go(func() {
			workqueue.Run(ctx, q, Handle(a.Shards, func(context.Context, string) error { return errors.New("down") }),
				workqueue.RunOptions[string]{Logger: &discard})
		})
		time.Sleep(time.Minute)
		for _, item := range items {
			if q.NumRequeues(item) == 0 {
				t.Errorf("%s has not failed", item)
			}
		}
		a.cut(true)
		time.Sleep(time.Minute)
		for _, item := range items {
			if n := q.NumRequeues(item); n > 0 {
				t.Errorf("the slot is lost, and %s has %d failures", item, n)
			}
		}
		stop()
	})
}

// The watch shows the Lease of another replica, the deletion, and twice our own Lease, made anew. Our second Lease
// ended the wait for the other replica.
func TestLeaseThatIsMadeTwiceWaitsForTheOtherHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := quick("b")
		o.Slots = 1
		if err := o.complete(); err != nil {
			t.Fatal(err)
		}
		s := newShards(nil, nil, o)
		lease := func(holder string, epoch int32) *coordinationv1.Lease {
			return &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: s.slotName(0), Labels: s.labels(kindSlot)},
				Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), LeaseTransitions: &epoch,
					RenewTime: new(metav1.NowMicro())},
			}
		}
		s.view.Replace(nil, "")
		time.Sleep(time.Minute)
		s.view.Add(lease("c_uuid", 1))
		s.view.Delete(lease("c_uuid", 1))
		gone := time.Now()
		for epoch := range int32(3) {
			s.view.Add(lease(s.id, epoch+1))
			if got := s.view.slots[0].alone.Sub(gone); got != o.LeaseDuration {
				t.Errorf("epoch %d: alone %v after the deletion of the Lease of c, want %v", epoch+1, got, o.LeaseDuration)
			}
			s.view.Delete(lease(s.id, epoch+1))
			time.Sleep(time.Second)
		}
	})
}
