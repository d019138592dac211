package sharding

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// What somebody does to Leases by hand, while replicas work. TestRandomFaults does the same at random.

// A replica that finds no Lease at all cannot know whether the set is new: all Leases may have been
// deleted while other replicas work, in reach or not.
func TestAllLeasesDeletedBeforeAReplicaStarts(t *testing.T) {
	for _, where := range []string{"in reach", "cut off"} {
		t.Run(where, func(t *testing.T) {
			play(t, func(w *world) {
				defaults := func(o *Options, c *client) {
					o.LeaseDuration, o.RenewDeadline, o.RetryPeriod, o.CancelBound = 0, 0, 0, 0
					c.timeout = 10 * time.Second
				}
				a := w.make("a", defaults).work(4 * time.Second)
				time.Sleep(8 * time.Second)
				if where == "cut off" {
					a.cut(true)
				}
				w.removeAll()
				time.Sleep(10 * time.Millisecond) // The first list shows nothing.
				b := w.make("b", defaults).work(0)
				time.Sleep(time.Minute)
				a.heal()
				time.Sleep(time.Minute)
				w.alone()
				w.spread(a, b)
			})
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
		a, b := w.pair(0, nil)
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
		a.stop()
		b.end()
	})
	play(t, func(w *world) { // The holder makes the Lease anew, with a new epoch.
		var epochs journal[int64]
		a := w.one("a", func(o *Options, _ *client) {
			o.OnGained = func(_ context.Context, _ int, epoch int64) { epochs.add(epoch) }
		}).work(time.Second)
		time.Sleep(8 * time.Second)
		deleted := time.Now()
		w.remove(leaseUnderTest)
		w.await(func() bool { return len(a.Held()) == 0 })
		w.within("the loss", time.Since(deleted), 0, 10*time.Millisecond)
		w.await(func() bool { return w.holder(leaseUnderTest) != "" })
		w.within("a new Lease", time.Since(deleted), time.Second, 3*time.Second) // After the last handler.
		time.Sleep(time.Second)
		if e := epochs.all(); len(e) != 2 || e[1] <= e[0] {
			t.Errorf("the epochs are %v, want two that grow", e)
		}
		a.end()
	})
}

// A record that somebody gives to another ends the ownership at once, with or without a new epoch. An
// epoch that is set back is noticed at the next renewal.
func TestStolenLease(t *testing.T) {
	for _, epochs := range []int32{-1, 0, 1} {
		play(t, func(w *world) {
			a := w.owner(nil)
			w.edit(leaseUnderTest, func(l *coordinationv1.Lease) {
				l.Spec.HolderIdentity = new("thief")
				*l.Spec.LeaseTransitions += epochs
			})
			stolen := time.Now()
			w.await(func() bool { return len(a.Held()) == 0 })
			most := 10 * time.Millisecond
			if epochs < 0 {
				most = 2100 * time.Millisecond
			}
			w.within("the loss", time.Since(stolen), 0, most)
			time.Sleep(time.Until(stolen.Add(14 * time.Second)))
			if w.holder(leaseUnderTest) != "thief" {
				t.Error("the thief has lost the Lease before its LeaseDuration")
			}
			time.Sleep(4 * time.Second)
			if len(a.Held()) != 1 {
				t.Error("the Lease of the thief was not adopted")
			}
			a.end()
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
					w.clear(a.slotName(slot))
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
		var lost atomic.Int32
		slow := func(o *Options, c *client) {
			c.lag = 3 * time.Second
			o.OnLost = func(context.Context, int, int64) { lost.Add(1) }
		}
		a := w.start("a", slow)
		time.Sleep(10 * time.Second)
		b := w.start("b", slow)
		time.Sleep(5500 * time.Millisecond)
		b.stop() // A sees the end of B when A has released, and not yet seen, 4 slots for B.
		time.Sleep(4 * time.Second)
		epochs := func() (list []int64) {
			for i := range a.slots {
				sl := &a.slots[i]
				sl.mu.Lock()
				list = append(list, sl.epoch)
				sl.mu.Unlock()
			}
			return list
		}
		before := epochs()
		if n := lost.Load(); n != 4 || len(a.Held()) != 8 {
			t.Fatalf("%d slots were handed over and %d are held, want 4 and all 8", n, len(a.Held()))
		}
		a.delay(5 * time.Second) // The list shows the releases.
		time.Sleep(20 * time.Second)
		if n := lost.Load(); n != 4 || !slices.Equal(before, epochs()) {
			t.Errorf("late records have ended %d ownerships, the epochs were %v and are %v", n-4, before, epochs())
		}
	})
	play(t, func(w *world) {
		w.isNew = true
		var gained atomic.Int32
		a := w.start("a", func(o *Options, _ *client) {
			o.OnGained = func(context.Context, int, int64) { gained.Add(1) }
		})
		time.Sleep(20 * time.Second)
		a.delay(10 * time.Second) // The list is older than the Leases.
		time.Sleep(time.Minute)
		if n := gained.Load(); n != 8 || len(a.Held()) != 8 {
			t.Errorf("slots were gained %d times, and %d are held, want 8", n, len(a.Held()))
		}
	})
}

// A replica that finds a Lease missing does not know for how long: its holder may be at work, and
// out of reach.
func TestMissingLease(t *testing.T) {
	play(t, func(w *world) {
		two := func(o *Options, _ *client) { o.Slots = 2 }
		a := w.make("a", two).work(2 * time.Second)
		time.Sleep(8 * time.Second)
		a.cut(true)
		w.remove(leaseUnderTest)
		b := w.make("b", two)
		b.labour(0)
		began := time.Now()
		b.run()
		w.await(func() bool { return b.Owns(itemOf(b.Shards, 0)) })
		w.within("the adoption", time.Since(began), 15*time.Second, 18*time.Second)
		w.alone()
		a.stop()
		b.end()
	})
}

// A Lease with the name of a slot and without the labels may be another program's. It is not written to,
// and one line tells what to do. Either mend gives the slot an owner.
func TestLeaseWithoutLabels(t *testing.T) {
	for _, holder := range []string{"dead", ""} {
		for _, mend := range []string{"label", "delete"} {
			play(t, func(w *world) {
				a := w.make("a", nil)
				stray := a.slotName(3)
				w.edit(stray, func(l *coordinationv1.Lease) {
					l.Labels = map[string]string{"app": "other"}
					l.Spec.HolderIdentity = &holder
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
					w.edit(stray, func(l *coordinationv1.Lease) {
						l.Labels = a.labels(kindSlot)
					})
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
		a, b := w.pair(time.Second, nil)
		w.edit(leaseUnderTest, func(l *coordinationv1.Lease) {
			l.Labels = nil
		})
		time.Sleep(5 * time.Second)
		w.alone()
		w.spread(a)
		w.edit(leaseUnderTest, func(l *coordinationv1.Lease) {
			if n := len(b.Held()); n > 0 || l.Labels[labelSet] != "set" {
				t.Errorf("the other replica has %d slots, and the labels are %v", n, l.Labels)
			}
		})
	})
}

// phases calls f with times of one RetryPeriod: two replicas renew at any distance from each other.
func phases(f func(phase time.Duration)) {
	for phase := time.Duration(0); phase < 2*time.Second; phase += 100 * time.Millisecond {
		f(phase)
	}
}

// TestDeletedLeaseDuringATry deletes the Lease of B while the requests of A fail. A tries for the slot
// since the time when the slot was free.
func TestDeletedLeaseDuringATry(t *testing.T) {
	phases(func(phase time.Duration) {
		play(t, func(w *world) {
			var slotFails, allFail atomic.Bool
			slotFails.Store(true)
			a := w.one("a", func(_ *Options, c *client) {
				c.before = func(_ context.Context, _, name string) error {
					if allFail.Load() || slotFails.Load() && name == leaseUnderTest {
						return errRefused
					}
					return nil
				}
			}).work(0)
			time.Sleep(8 * time.Second) // A tries.
			allFail.Store(true)
			w.remove(leaseOf(a))
			b := w.one(loser, nil).work(0)
			time.Sleep(8*time.Second + phase)
			if len(b.Held()) != 1 {
				t.Fatal("B does not hold the slot")
			}
			w.remove(leaseUnderTest)
			slotFails.Store(false)
			allFail.Store(false)
			time.Sleep(time.Minute)
			w.alone()
			w.spread(a, b)
		})
	})
}

// TestDeletedLeaseBehindASlowWatch deletes the Lease of B before the watch of A has shown that B made it.
// For A, the slot has had no Lease for a LeaseDuration.
func TestDeletedLeaseBehindASlowWatch(t *testing.T) {
	phases(func(phase time.Duration) {
		play(t, func(w *world) {
			w.isNew = true
			var fails atomic.Bool
			fails.Store(true)
			a := w.one("a", func(_ *Options, c *client) {
				c.lag = 8 * time.Second
				c.before = func(_ context.Context, _, name string) error {
					if fails.Load() && name == leaseUnderTest {
						return errRefused
					}
					return nil
				}
			}).work(0)
			time.Sleep(10 * time.Second)
			b := w.one(loser, func(_ *Options, c *client) {
				c.hides = func(l *coordinationv1.Lease) bool { return *l.Spec.HolderIdentity == a.id }
			}).work(2 * time.Second)
			time.Sleep(16*time.Second + phase)
			if len(b.Held()) != 1 {
				t.Fatal("B does not hold the slot")
			}
			w.remove(leaseUnderTest)
			b.heal()
			fails.Store(false)
			time.Sleep(time.Minute)
			w.alone()
			w.spread(a, b)
		})
	})
}

// TestDeletedLeaseBehindACut deletes the Lease of B while A is cut off. In the last record that A has
// seen, A itself is the holder. Before the cut, A may have seen another deletion: then all of the Lease
// of B is hidden from A.
func TestDeletedLeaseBehindACut(t *testing.T) {
	for _, before := range []bool{false, true} {
		phases(func(phase time.Duration) {
			play(t, func(w *world) {
				a, b := w.pair(0, nil)
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
