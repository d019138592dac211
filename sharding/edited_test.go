package sharding

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file has Leases that somebody edits, copies or deletes, beside slow requests and slow handlers.

// A makes the Lease that was deleted while B, which is cut off, works. Its late watch ends the ownership, and
// nothing is released. The next term did not know of it: its first read was slow, Run of A ended, and the
// release gave the slot to C, beside B.
func TestReleaseOfALeaseThatAnEarlierTermHasMade(t *testing.T) {
	play(t, func(w *world) {
		w.isNew = true
		var fails, slow atomic.Bool
		fails.Store(true)
		a := w.one("a", func(_ *Options, c *client) {
			c.lag = 8 * time.Second
			c.before = func(ctx context.Context, verb, name string) error {
				switch {
				case name != leaseUnderTest:
				case fails.Load():
					return errRefused
				case verb == "get" && slow.CompareAndSwap(true, false):
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		})
		a.run()
		time.Sleep(10 * time.Second)
		b := w.one(loser, func(_ *Options, c *client) {
			c.hides = func(l *coordinationv1.Lease) bool { return *l.Spec.HolderIdentity == a.id }
		}).work(2 * time.Second)
		time.Sleep(16 * time.Second)
		if len(b.Held()) != 1 {
			t.Fatal("B does not hold the slot")
		}
		b.cut(true)
		w.remove(leaseUnderTest)
		fails.Store(false)
		w.await(func() bool { return w.holder(leaseUnderTest) != "" })
		time.Sleep(20 * time.Millisecond) // For the answer of the Create.
		slow.Store(true)
		c := w.make("c", func(o *Options, _ *client) { o.Slots = 1; o.Settle = time.Millisecond }).work(0)
		w.await(func() bool { return !slow.Load() })
		a.stop()
		<-a.err
		w.remove(leaseOf(b))
		w.await(func() bool { return len(c.Held()) > 0 })
		time.Sleep(30 * time.Second)
		w.alone()
	})
}

// The label of the kind is taken off the Lease of a holder that is cut off, and then the Lease is deleted. The
// watch did not show either, so another replica worked at once.
func TestDeletedLeaseWithoutAKind(t *testing.T) {
	play(t, func(w *world) {
		a := w.one("a", nil).work(0)
		time.Sleep(8 * time.Second)
		a.cut(true)
		w.edit(leaseUnderTest, func(l *coordinationv1.Lease) { delete(l.Labels, labelKind) })
		w.remove(leaseOf(a))
		time.Sleep(50 * time.Millisecond)
		b := w.one(loser, nil).work(0)
		time.Sleep(4 * time.Second)
		w.remove(leaseUnderTest)
		w.await(func() bool { return len(b.Held()) > 0 })
		time.Sleep(time.Minute)
		w.alone()
	})
}

// Nobody ever took the slot: its last record, of a holder, stayed in the view.
func TestSlotComesBackAfterALeaseWithoutAKind(t *testing.T) {
	play(t, func(w *world) {
		a, b := w.pair(0, nil)
		w.edit(leaseUnderTest, func(l *coordinationv1.Lease) { delete(l.Labels, labelKind) })
		w.remove(leaseUnderTest)
		time.Sleep(time.Hour)
		if len(a.Held())+len(b.Held()) != 1 {
			t.Errorf("no owner after an hour; the log of A: %q, of B: %q", a.log.all(), b.log.all())
		}
	})
}

// A Lease without the labels may be another program's, and is never taken.
func TestLeaseWithoutAKindIsNotTaken(t *testing.T) {
	play(t, func(w *world) {
		a, b := w.pair(0, nil)
		a.cut(false)
		w.edit(leaseUnderTest, func(l *coordinationv1.Lease) { l.Labels = map[string]string{labelSet: "set"} })
		time.Sleep(time.Minute)
		if len(b.Held()) != 0 {
			t.Errorf("taken without the label of the kind; the log: %q", b.log.all())
		}
	})
}

// A member renewed for ever what somebody had written into its Lease: slots were assigned to nobody, or a
// dead member counted for a year.
func TestEditedLeaseOfAMember(t *testing.T) {
	for name, edit := range map[string]func(*coordinationv1.Lease){
		"the holder is cleared":      func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") },
		"the holder is gone":         func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil },
		"the holder is another":      func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("thief") },
		"the labels are gone":        func(l *coordinationv1.Lease) { l.Labels = nil },
		"the number of slots":        func(l *coordinationv1.Lease) { delete(l.Labels, labelSlots) },
		"the kind":                   func(l *coordinationv1.Lease) { delete(l.Labels, labelKind) },
		"a LeaseDuration for a year": func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(31536000)) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				a, b := w.start("a", nil), w.start("b", nil)
				time.Sleep(20 * time.Second)
				w.edit(leaseOf(a), edit)
				time.Sleep(time.Minute)
				w.spread(a, b)
				c := w.start("c", nil)
				time.Sleep(time.Minute)
				w.spread(a, b, c)
				a.cut(false)
				time.Sleep(time.Minute)
				w.spread(b, c)
				b.stop()
				c.stop()
			})
		})
	}
}

// OnOverrun protects the next owner, and came only when a list had returned that did not look at its context.
func TestOverrunDuringAList(t *testing.T) {
	play(t, func(w *world) {
		var over atomic.Bool
		a := w.one("a", func(o *Options, _ *client) { o.OnOverrun = func(int, []any) { over.Store(true) } })
		a.labour(20 * time.Second)
		if err := Attach(t.Context(), a.Shards, adder(func(string) {}), func(context.Context, int) ([]string, error) {
			time.Sleep(time.Minute)
			return nil, nil
		}); err != nil {
			t.Fatal(err)
		}
		a.run()
		time.Sleep(8 * time.Second)
		b := w.one(loser, nil).work(0)
		time.Sleep(8 * time.Second)
		a.cut(true)
		w.await(func() bool { return len(b.Held()) > 0 })
		if !over.Load() {
			t.Error("another replica works, and OnOverrun was not called")
		}
		time.Sleep(2 * time.Minute)
		a.stop()
		b.stop()
		time.Sleep(2 * time.Minute)
	})
}

// A program that deletes the Lease whenever a replica has it, or takes its labels off, made 180 requests a
// second: an ownership that had begun ended at once, and the next try had no pause.
func TestRequestsBesideSomebodyWhoEndsEachOwnership(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"deleted":        func(w *world) { w.remove(leaseUnderTest) },
		"without labels": func(w *world) { w.edit(leaseUnderTest, func(l *coordinationv1.Lease) { l.Labels = nil }) },
	} {
		play(t, func(w *world) {
			a := w.owner(nil)
			before := w.reads.Load() + w.writes.Load()
			for range 60_000 {
				time.Sleep(time.Millisecond)
				w.server.mu.Lock()
				l := w.server.leases[leaseUnderTest]
				is := l != nil && *l.Spec.HolderIdentity == a.id && l.Labels[labelSet] != ""
				w.server.mu.Unlock()
				if is {
					end(w)
				}
			}
			if n := w.reads.Load() + w.writes.Load() - before; n > 60*4 {
				t.Errorf("%s: %d requests in a minute", name, n)
			}
		})
	}
}

// One failed request of a hand-over cost a LeaseDuration without an owner, and no line said so.
func TestHandOverBesideAFailedRequest(t *testing.T) {
	for _, what := range []string{"get", "update"} {
		play(t, func(w *world) {
			var ending atomic.Bool
			a := w.owner(func(_ *Options, c *client) {
				c.before = func(_ context.Context, verb, name string) error {
					if verb == what && name == leaseUnderTest && ending.CompareAndSwap(true, false) {
						return errRefused
					}
					return nil
				}
			})
			b := w.one(loser, nil)
			b.run()
			time.Sleep(8*time.Second + 100*time.Millisecond)
			ending.Store(true)
			began := time.Now()
			a.stop()
			if err := <-a.err; err != nil {
				t.Error(err)
			}
			w.await(func() bool { return len(b.Held()) > 0 })
			if took := time.Since(began); ending.Load() || took > time.Second {
				t.Errorf("%s: an owner after %v", what, took)
			}
		})
	}
}

// The deletions of many dead members kept a replica from the renewal of its own Lease, so it was no member.
func TestMembershipBesideManyDeadMembers(t *testing.T) {
	play(t, func(w *world) {
		a := w.make("a", func(_ *Options, c *client) {
			c.before = func(ctx context.Context, verb, _ string) error {
				if verb == "delete" {
					return pause(ctx, 200*time.Millisecond)
				}
				return nil
			}
		})
		for i := range 200 {
			w.add(&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("set-member-%d", i), Labels: a.labels(kindMember)},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(fmt.Sprint("dead_", i)), LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NowMicro())},
			})
		}
		a.run()
		time.Sleep(20 * time.Second)
		for range 1000 {
			time.Sleep(100 * time.Millisecond)
			if members, _ := a.view.alive(time.Now()); len(members) == 0 {
				t.Fatal("a is no member any more")
			}
		}
	})
}

// A copy of a Lease under another name with the same number was taken for the Lease of the slot.
func TestCopyOfALease(t *testing.T) {
	for _, copied := range []string{"old-0", "set-00"} {
		play(t, func(w *world) {
			var lost atomic.Int32
			a := w.owner(func(o *Options, _ *client) { o.OnLost = func(context.Context, int, int64) { lost.Add(1) } })
			w.server.mu.Lock()
			l := w.server.leases[leaseUnderTest].DeepCopy()
			l.Name, l.Spec.HolderIdentity = copied, new("somebody")
			w.commitLocked("ADDED", l)
			w.server.mu.Unlock()
			time.Sleep(time.Minute)
			if lost.Load() != 0 || len(a.Held()) != 1 {
				t.Errorf("%s ended an ownership", copied)
			}
		})
	}
}

// An API server refuses a negative number of transitions, so the slot had no owner for ever.
func TestLastEpoch(t *testing.T) {
	play(t, func(w *world) {
		a := w.one("a", nil)
		w.edit(leaseUnderTest, func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = new(int32(math.MaxInt32)) })
		a.run()
		time.Sleep(10 * time.Second)
		w.edit(leaseUnderTest, func(l *coordinationv1.Lease) {
			if *l.Spec.LeaseTransitions < 0 || len(a.Held()) != 1 {
				t.Errorf("the slot has %d transitions, and A holds %v", *l.Spec.LeaseTransitions, a.Held())
			}
		})
	})
}

// The watch shows a deletion before the answer of the write arrives. The answer began an ownership all the
// same.
func TestLeaseDeletedBeforeTheAnswer(t *testing.T) {
	play(t, func(w *world) {
		var slow atomic.Bool
		slow.Store(true)
		a := w.one("a", func(_ *Options, c *client) {
			c.after = func(ctx context.Context, verb, name string) error {
				if name == leaseUnderTest && verb == "update" && slow.CompareAndSwap(true, false) {
					return pause(ctx, time.Second)
				}
				return nil
			}
		})
		a.run()
		w.await(func() bool { return w.holder(leaseUnderTest) != "" })
		time.Sleep(10 * time.Millisecond)
		w.remove(leaseUnderTest)
		for range 6000 {
			time.Sleep(time.Millisecond)
			if len(a.Held()) > 0 && w.holder(leaseUnderTest) == "" {
				t.Fatal("held after a deletion that the watch has shown")
			}
		}
	})
}
