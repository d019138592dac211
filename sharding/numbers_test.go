package sharding

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Replicas with different numbers of slots: a key has different slots in them.

// hide hides the Leases of a set with a number of slots from lists and watches.
func hide(slots string) func(*coordinationv1.Lease) bool {
	return func(l *coordinationv1.Lease) bool { return l.Labels[labelSlots] == slots }
}

func sixteen(o *Options, _ *client) { o.Slots = 16 }

// TestNumberOfSlots has Run refuse a set with another number of slots, before any write.
func TestNumberOfSlots(t *testing.T) {
	play(t, func(w *world) {
		a := w.start("a", nil)
		time.Sleep(10 * time.Second)
		b := w.make("b", sixteen)
		if err := b.Run(w.Context()); err == nil || !strings.Contains(err.Error(), `"8" slots`) || !strings.Contains(err.Error(), "16") {
			t.Errorf("Run returned %v, want an error with both numbers", err)
		}
		if err := a.Run(w.Context()); err == nil {
			t.Error("a second Run has begun")
		}
		if len(a.Held()) != 8 {
			t.Error("A has lost slots")
		}
	})
}

// TestNumberOfSlotsOfANewSet starts replicas with other numbers of slots at the same time, so that the
// first list of each shows nothing. At most one of them may take slots.
func TestNumberOfSlotsOfANewSet(t *testing.T) {
	for _, late := range []time.Duration{0, time.Millisecond, 4 * time.Millisecond, 6 * time.Millisecond, 20 * time.Millisecond} {
		play(t, func(w *world) {
			w.isNew = true
			a := w.start("a", nil)
			time.Sleep(late)
			b := w.start("b", sixteen)
			time.Sleep(30 * time.Second)
			if len(a.Held()) > 0 && len(b.Held()) > 0 {
				t.Errorf("B started %v after A: A holds %d of 8 slots, and B holds %d of 16", late, len(a.Held()), len(b.Held()))
			}
			for _, r := range []*replica{a, b} {
				if len(r.err) > 0 {
					w.refused(r)
				}
			}
		})
	}
}

// refused fails unless a Run has ended with an error that says that the set has another number of slots,
// and what to do, and has deleted the Lease of the member.
func (w *world) refused(r *replica) {
	w.Helper()
	select {
	case err := <-r.err:
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf(`Options.Slots is "%d"`, len(r.slots))) || !strings.Contains(err.Error(), "delete the Leases") {
			w.Errorf("Run of %s returned %v, want an error with the number of slots", r.id, err)
		}
		if w.holder(leaseOf(r)) != "" {
			w.Errorf("%s has left its Lease of a member", r.id)
		}
		r.err <- nil // For the end of the test.
	default:
		w.Errorf("%s goes on, with the slots %v", r.id, r.Held())
	}
}

// A newcomer with another number of slots that sees the Leases of the set too late has written its own
// Lease by then. The newcomer ends, and the set goes on as before.
func TestNewcomerWithAnotherNumberOfSlots(t *testing.T) {
	play(t, func(w *world) {
		a, b := w.make("a", nil).work(0), w.make("b", nil).work(0)
		time.Sleep(10 * time.Second)
		w.spread(a, b)
		c := w.make("c", func(o *Options, c *client) { o.Slots, c.hides = 16, hide("8") }).work(0)
		time.Sleep(12 * time.Second)
		if w.holder(leaseOf(c)) == "" {
			t.Fatal("the newcomer has no Lease of a member: nothing was tested")
		}
		c.heal()
		time.Sleep(100 * time.Millisecond)
		w.refused(c)
		time.Sleep(time.Minute)
		w.spread(a, b)
		w.alone()
		for _, r := range []*replica{a, b} {
			if n := len(r.gained.all()); n != len(r.Held()) {
				t.Errorf("%s holds %d slots and has gained %d: a newcomer with another number has ended some", r.id, len(r.Held()), n)
			}
			if lines := r.log.all(); len(lines) != 1 || !strings.Contains(lines[0], `\"16\" slots`) {
				t.Errorf("the log of %s has %d lines %q, want one with the number of slots", r.id, len(lines), lines)
			}
		}
	})
}

// Two sets with different numbers of slots have both taken slots before either sees the other. Both end
// at once, as a key may have two owners, and nobody can tell which set is right.
func TestTwoNumbersOfSlotsAtWork(t *testing.T) {
	play(t, func(w *world) {
		w.isNew = true
		for i := range 40 {
			w.keys = append(w.keys, fmt.Sprint("ns/", i))
		}
		a := w.make("a", func(_ *Options, c *client) { c.hides = hide("16") })
		b := w.make("b", func(o *Options, c *client) { o.Slots, c.hides = 16, hide("8") })
		a.work(0)
		w.await(func() bool { return len(a.Held()) > 0 }) // The slots of the larger set have the names of these too.
		b.work(0)
		time.Sleep(20 * time.Second)
		if len(a.Held()) == 0 || len(b.Held()) == 0 {
			t.Fatalf("the slots of the replicas are %v and %v: nothing was tested", a.Held(), b.Held())
		}
		a.heal()
		b.heal()
		time.Sleep(20 * time.Millisecond)
		if len(a.Held()) > 0 || len(b.Held()) > 0 || len(w.leaders()) > 0 {
			t.Errorf("the slots of the replicas are %v and %v, and at work are %v", a.Held(), b.Held(), w.leaders())
		}
		time.Sleep(time.Minute)
		w.refused(a)
		w.refused(b)
		for name, l := range w.leases {
			if *l.Spec.HolderIdentity != "" {
				t.Errorf("the Lease %s was not released", name)
			}
		}
	})
}
