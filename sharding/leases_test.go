package sharding

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What somebody does to Leases by hand, while replicas work: deletes, edits, copies. TestRandomFaults does
// the same at random.

// stolen gives a Lease to another.
func stolen(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("thief") }

// cleared takes the holder out of a Lease.
func cleared(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") }

func unlabelled(l *coordinationv1.Lease) { l.Labels = nil }

func withoutKind(l *coordinationv1.Lease) { delete(l.Labels, labelKind) }

func aYear(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(31536000)) }

// A replica that finds no Lease at all cannot know whether the set is new: all Leases may have been
// deleted while other replicas work, in reach or not.
func TestAllLeasesDeletedBeforeAReplicaStarts(t *testing.T) {
	for _, where := range []string{"in reach", "cut off"} {
		playAs(t, where, func(w *world) {
			a := w.make("a", slow).work(4 * time.Second)
			time.Sleep(8 * time.Second)
			if where == "cut off" {
				a.cut(true)
			}
			w.remove()
			time.Sleep(10 * time.Millisecond) // The first list shows nothing.
			b := w.make("b", slow).work(0)
			time.Sleep(time.Minute)
			a.heal()
			time.Sleep(time.Minute)
			w.alone()
			w.spread(a, b)
		})
	}
}

// A set that has never run begins to work a LeaseDuration after its start. Later starts find Leases that
// were released, and wait for Settle.
func TestFirstStartOfASet(t *testing.T) {
	play(t, func(w *world) {
		w.isNew = true
		for _, wait := range []time.Duration{15 * time.Second, 5 * time.Second} {
			began := time.Now()
			a, b := w.start("a", nil), w.start("b", nil)
			w.await(func() bool { return len(a.Held())+len(b.Held()) == 8 })
			w.within("the start", time.Since(began), wait, wait+100*time.Millisecond)
			w.spread(a, b)
			a.stop()
			b.end()
		}
	})
}

// A Lease that is deleted ends the ownership when the watch shows the deletion. Nobody else takes the
// slot before a LeaseDuration is over, as the holder may be out of reach.
func TestDeletedLease(t *testing.T) {
	play(t, func(w *world) {
		a, b := w.pair(0)
		deleted := time.Now()
		before := w.audit.count()
		a.cut(true)
		w.remove(leaseUnderTest)
		w.await(func() bool { return len(b.Held()) > 0 })
		w.within("the adoption of a deleted Lease", time.Since(deleted), 15*time.Second, 17*time.Second)
		a.heal()
		time.Sleep(30 * time.Second)
		w.alone()
		if w.audit.count() == before {
			t.Error("nobody has worked since")
		}
	})
	play(t, func(w *world) { // The holder makes the Lease anew, with a new epoch.
		a := w.one("a", nil).work(time.Second)
		time.Sleep(8 * time.Second)
		deleted := time.Now()
		w.remove(leaseUnderTest)
		w.await(func() bool { return len(a.Held()) == 0 })
		w.within("the loss", time.Since(deleted), 0, 10*time.Millisecond)
		w.await(func() bool { return w.holder(leaseUnderTest) != "" })
		w.within("a new Lease", time.Since(deleted), time.Second, 3*time.Second) // After the last handler.
		time.Sleep(time.Second)
		if e := a.gained.all(); len(e) != 2 || e[1].epoch <= e[0].epoch {
			t.Errorf("the ownerships are %v, want two with epochs that grow", e)
		}
	})
}

// A record that somebody gives to another ends the ownership at once, with or without a new epoch. An
// epoch that is set back is noticed at the next renewal.
func TestStolenLease(t *testing.T) {
	for epochs, seconds := range map[int32]int32{-1: 15, 0: 15, 1: 60} {
		play(t, func(w *world) {
			a := w.owner(nil)
			w.edit(leaseUnderTest, func(l *coordinationv1.Lease) {
				stolen(l)
				*l.Spec.LeaseTransitions += epochs
				l.Spec.LeaseDurationSeconds = &seconds
			})
			began := time.Now()
			w.await(func() bool { return len(a.Held()) == 0 })
			most := 10 * time.Millisecond
			if epochs < 0 {
				most = 2100 * time.Millisecond
			}
			w.within("the loss", time.Since(began), 0, most)
			time.Sleep(time.Until(began.Add(time.Duration(seconds-1) * time.Second)))
			if w.holder(leaseUnderTest) != "thief" {
				t.Error("the thief has lost the Lease before its LeaseDuration")
			}
			time.Sleep(4 * time.Second)
			if len(a.Held()) != 1 {
				t.Error("the Lease of the thief was not adopted")
			}
		})
	}
}

// Somebody clears the holders of slots that are handed over, while handlers are at work: the handlers end
// at once, and the next owner begins a LeaseDuration later. A record without a holder is a release only
// if the record says so.
func TestHolderClearedDuringAHandOver(t *testing.T) {
	phases(func(phase time.Duration) {
		play(t, func(w *world) {
			a := w.make("a", nil).work(2 * time.Second) // A hand-over takes 12 s.
			time.Sleep(8 * time.Second)
			b := w.make("b", nil).work(0)
			time.Sleep(7*time.Second + phase)
			if n := len(a.Held()); n != 4 {
				t.Fatalf("the gates of %d slots are open, want those of the 4 that stay", n)
			}
			for slot, owner := range assign([]string{a.id, b.id}, 8) {
				if owner == b.id {
					w.edit(a.slotName(slot), cleared)
				}
			}
			time.Sleep(14 * time.Second)
			if n := len(b.Held()); n > 0 {
				t.Errorf("%d slots were taken before a LeaseDuration was over", n)
			}
			time.Sleep(2 * time.Second)
			w.alone()
			w.spread(a, b)
		})
	})
}

// A record that the watch shows late says nothing of an ownership that began since: a release by this
// process, and a list that is older than the take.
func TestLateRecord(t *testing.T) {
	play(t, func(w *world) {
		late := func(_ *Options, c *client) { c.lag = 3 * time.Second }
		a := w.start("a", late)
		time.Sleep(10 * time.Second)
		b := w.start("b", late)
		time.Sleep(5500 * time.Millisecond)
		b.stop() // A sees the end of B when A has released, and not yet seen, 4 slots for B.
		time.Sleep(4 * time.Second)
		if n := len(a.lost.all()); n != 4 || len(a.Held()) != 8 {
			t.Fatalf("%d slots were handed over and %d are held, want 4 and all 8", n, len(a.Held()))
		}
		a.delay(5 * time.Second) // The list shows the releases.
		time.Sleep(20 * time.Second)
		if lost, gained := a.lost.all(), a.gained.all(); len(lost) != 4 || len(gained) != 8+4 {
			t.Errorf("late records have ended ownerships: lost are %v, gained %v", lost, gained)
		}
	})
	play(t, func(w *world) {
		w.isNew = true
		a := w.start("a", nil)
		time.Sleep(20 * time.Second)
		a.delay(10 * time.Second) // The list is older than the Leases.
		time.Sleep(time.Minute)
		if n := len(a.gained.all()); n != 8 || len(a.Held()) != 8 {
			t.Errorf("slots were gained %d times, and %d are held, want 8", n, len(a.Held()))
		}
	})
}

// A Lease with the name of a slot and without the labels may be another program's. It is not written to,
// and one line tells what to do. Either mend gives the slot an owner.
func TestLeaseWithoutLabels(t *testing.T) {
	for _, holder := range []string{"dead", ""} {
		for mend, found := range map[string]map[string]string{"label": {"app": "other"}, "delete": {labelSet: "set"}} {
			play(t, func(w *world) {
				a := w.make("a", nil)
				stray := a.slotName(3)
				w.edit(stray, func(l *coordinationv1.Lease) {
					l.Labels, l.Spec.HolderIdentity = found, &holder
				})
				a.run()
				time.Sleep(2 * time.Minute)
				if n := len(a.Held()); n != 7 || w.holder(stray) != holder {
					t.Errorf("%d slots are held, want 7 of 8, and the holder of the Lease is %q, want %q", n, w.holder(stray), holder)
				}
				lines := a.log.all()
				if len(lines) != 1 || !strings.Contains(lines[0], stray) || !strings.Contains(lines[0], labelSet+"=set") || !strings.Contains(lines[0], "delete") {
					t.Errorf("the log has %d lines %q, want one with the Lease, the labels and what to do", len(lines), lines)
				}
				if mend == "delete" {
					w.remove(stray)
				} else {
					w.edit(stray, func(l *coordinationv1.Lease) { l.Labels = a.labels(kindSlot) })
				}
				time.Sleep(18 * time.Second)
				w.spread(a)
			})
		}
	}
}

// Somebody takes the labels off a Lease: the watch shows a deletion, and the holder gives the labels back.
func TestLabelsTakenOffALease(t *testing.T) {
	play(t, func(w *world) {
		a, b := w.pair(time.Second)
		w.edit(leaseUnderTest, unlabelled)
		time.Sleep(5 * time.Second)
		w.alone()
		w.spread(a)
		if labels := w.lease(leaseUnderTest).Labels; len(b.Held()) > 0 || labels[labelSet] != "set" {
			t.Errorf("the other replica has the slots %v, and the labels are %v", b.Held(), labels)
		}
	})
}

// TestDeletedLeaseBehindASlowWatch deletes the Lease of B before the watch of A has shown that B made it.
// For A, the slot has had no Lease for a LeaseDuration.
func TestDeletedLeaseBehindASlowWatch(t *testing.T) {
	phases(func(phase time.Duration) {
		play(t, func(w *world) {
			a, b := w.lateAndWorking(phase)
			w.remove(leaseUnderTest)
			b.heal()
			a.meet(nil)
			time.Sleep(time.Minute)
			w.alone()
			w.spread(a, b)
		})
	})
}

// lateAndWorking returns a replica A with a late watch, which tries in vain for the slot of a new set, and B,
// which holds the slot and has not seen A.
func (w *world) lateAndWorking(phase time.Duration) (a, b *replica) {
	w.isNew = true
	a = w.one("a", func(_ *Options, c *client) {
		c.lag = 8 * time.Second
		c.before = each("", leaseUnderTest, refused)
	}).work(0)
	time.Sleep(10 * time.Second)
	b = w.one(loser, func(_ *Options, c *client) {
		c.hides = func(l *coordinationv1.Lease) bool { return *l.Spec.HolderIdentity == a.id }
	}).work(2 * time.Second)
	time.Sleep(16*time.Second + phase)
	if len(b.Held()) != 1 {
		w.Fatal("B does not hold the slot")
	}
	return a, b
}

// TestDeletedLeaseBehindACut deletes the Lease of B while A is cut off. In the last record that A has
// seen, A itself is the holder. Before the cut, A may have seen another deletion: then all of the Lease
// of B is hidden from A.
func TestDeletedLeaseBehindACut(t *testing.T) {
	for _, before := range []bool{false, true} {
		phases(func(phase time.Duration) {
			play(t, func(w *world) {
				a, b := w.pair(0)
				if before {
					w.remove(leaseUnderTest)
					time.Sleep(10 * time.Millisecond)
				}
				a.cut(false)
				time.Sleep(25*time.Second + phase)
				if len(b.Held()) != 1 {
					t.Fatal("B does not hold the slot")
				}
				w.remove(leaseUnderTest)
				a.heal()
				time.Sleep(time.Minute)
				w.alone()
				w.spread(a, b)
			})
		})
	}
}

// A makes the Lease that was deleted while B, which is cut off, works. Its late watch ends the ownership, and
// nothing is released. The next term did not know of it: its first read was slow, Run of A ended, and the
// release gave the slot to C, beside B.
func TestReleaseOfALeaseThatAnEarlierTermHasMade(t *testing.T) {
	play(t, func(w *world) {
		a, b := w.lateAndWorking(0)
		b.cut(true)
		w.remove(leaseUnderTest)
		a.meet(nil)
		w.await(func() bool { return w.holder(leaseUnderTest) != "" })
		time.Sleep(20 * time.Millisecond) // For the answer of the Create.
		reads := make(chan struct{})
		a.meet(once("get", leaseUnderTest, func(ctx context.Context, _, _ string) error {
			close(reads)
			return hung(ctx, "", "")
		}))
		c := w.one("c", func(o *Options, _ *client) { o.Settle = time.Millisecond }).work(0)
		<-reads
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
		w.edit(leaseUnderTest, withoutKind)
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
		a, b := w.pair(0)
		w.edit(leaseUnderTest, withoutKind)
		w.remove(leaseUnderTest)
		time.Sleep(time.Hour)
		if len(a.Held())+len(b.Held()) != 1 {
			t.Errorf("no owner after an hour; the log of A: %q, of B: %q", a.log.all(), b.log.all())
		}
	})
}

// A member renewed for ever what somebody had written into its Lease: slots were assigned to nobody, or a
// dead member counted for a year.
func TestEditedLeaseOfAMember(t *testing.T) {
	for name, edit := range map[string]func(*coordinationv1.Lease){
		"the holder is cleared":      cleared,
		"the holder is gone":         func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil },
		"the holder is another":      stolen,
		"the labels are gone":        unlabelled,
		"the number of slots":        func(l *coordinationv1.Lease) { delete(l.Labels, labelSlots) },
		"the kind":                   withoutKind,
		"a LeaseDuration for a year": aYear,
	} {
		playAs(t, name, func(w *world) {
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
		})
	}
}

// A program that deletes the Lease whenever a replica has it, or takes its labels off, made 180 requests a
// second: an ownership that had begun ended at once, and the next try had no pause.
func TestRequestsBesideSomebodyWhoEndsEachOwnership(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"deleted":        func(w *world) { w.remove(leaseUnderTest) },
		"without labels": func(w *world) { w.edit(leaseUnderTest, unlabelled) },
	} {
		play(t, func(w *world) {
			a := w.owner(nil)
			before := w.reads.Load() + w.writes.Load()
			for range 60_000 {
				time.Sleep(time.Millisecond)
				if l := w.lease(leaseUnderTest); l != nil && *l.Spec.HolderIdentity == a.id && l.Labels[labelSet] != "" {
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
			a, b := w.owner(nil), w.one(loser, nil)
			b.run()
			time.Sleep(8*time.Second + 100*time.Millisecond)
			fails := false
			a.meet(once(what, leaseUnderTest, func(context.Context, string, string) error {
				fails = true
				return errRefused
			}))
			began := time.Now()
			a.end()
			w.await(func() bool { return len(b.Held()) > 0 })
			if took := time.Since(began); !fails || took > time.Second {
				t.Errorf("%s: an owner after %v", what, took)
			}
		})
	}
}

// The deletions of many dead members kept a replica from the renewal of its own Lease, so it was no member.
func TestMembershipBesideManyDeadMembers(t *testing.T) {
	play(t, func(w *world) {
		a := w.make("a", func(_ *Options, c *client) {
			c.before = each("delete", "", func(ctx context.Context, _, _ string) error { return pause(ctx, 200*time.Millisecond) })
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
			a := w.owner(nil)
			l := w.lease(leaseUnderTest)
			l.Name, l.Spec.HolderIdentity = copied, new("somebody")
			w.add(l)
			time.Sleep(time.Minute)
			if len(a.lost.all()) > 0 || len(a.Held()) != 1 {
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
		if n := *w.lease(leaseUnderTest).Spec.LeaseTransitions; n < 0 || len(a.Held()) != 1 {
			t.Errorf("the slot has %d transitions, and A holds %v", n, a.Held())
		}
	})
}

// The watch shows a deletion before the answer of the write arrives. The answer began an ownership all the
// same.
func TestLeaseDeletedBeforeTheAnswer(t *testing.T) {
	play(t, func(w *world) {
		a := w.one("a", func(_ *Options, c *client) {
			c.after = once("update", leaseUnderTest, func(ctx context.Context, _, _ string) error { return pause(ctx, time.Second) })
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
