package sharding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/cache"
)

// A cut is noticed at the RenewDeadline, and the other replica begins after the LeaseDuration.
// All times are the same in both kinds of a cut.
func TestCut(t *testing.T) {
	for _, kind := range []string{"black hole", "refusal"} {
		playAs(t, kind, func(w *world) {
			a, b := w.pair(2 * time.Second)
			cut := time.Now()
			a.cut(kind == "black hole")
			w.await(func() bool { return len(a.Held()) == 0 })
			w.within("the loss", time.Since(cut), 8*time.Second, 10*time.Second)
			w.await(func() bool { return len(b.Held()) > 0 })
			w.within("the adoption", time.Since(cut), 13*time.Second, 17*time.Second)
			a.heal()
			time.Sleep(time.Minute)
			w.alone()
			if first, second := a.gained.all(), b.gained.all(); second[0].epoch <= first[0].epoch {
				w.Errorf("the first owner had %v and the second %v, want an epoch that grows", first, second)
			}
			if lines := a.log.all(); strings.Contains(fmt.Sprint(lines), "not released") {
				w.Errorf("the log tells of a hand-over after a loss: %q", lines)
			}
		})
	}
}

// A handler that goes on after its CancelBound is told to OnOverrun before another replica may
// adopt the slot.
func TestOverrun(t *testing.T) {
	play(t, func(w *world) {
		a, b := w.pair(20 * time.Second)
		cut := time.Now()
		a.cut(true)
		w.await(func() bool { return len(a.overruns.all()) > 0 })
		w.within("OnOverrun", time.Since(cut), 11*time.Second, 13*time.Second)
		if len(b.Held()) > 0 {
			t.Error("the other replica has the slot before OnOverrun")
		}
		if want := []any{itemOf(a.Shards, 0)}; !slices.Equal(a.overruns.all(), want) {
			t.Errorf("OnOverrun was told of %v, want %v", a.overruns.all(), want)
		}
		a.heal()
		time.Sleep(time.Minute)
		if len(a.Held())+len(b.Held()) != 1 {
			t.Error("nobody has the slot, or both")
		}
		a.stop()
		<-a.err // Its last handler may go on for too long.
	})
}

// OnOverrun protects the next owner, and came only when a list had returned that did not look at its context.
func TestOverrunDuringAList(t *testing.T) {
	play(t, func(w *world) {
		a := w.one("a", nil)
		a.labour(20 * time.Second)
		attach(a, adder(func(string) {}), func(int) ([]string, error) {
			time.Sleep(time.Minute)
			return nil, nil
		})
		a.run()
		time.Sleep(8 * time.Second)
		b := w.one(loser, nil).work(0)
		time.Sleep(8 * time.Second)
		a.cut(true)
		w.await(func() bool { return len(b.Held()) > 0 })
		if len(a.overruns.all()) == 0 {
			t.Error("another replica works, and OnOverrun was not called")
		}
		time.Sleep(2 * time.Minute)
		a.stop()
		b.stop()
		time.Sleep(2 * time.Minute)
	})
}

// A replica whose watch does not show that a Lease is another's tries once in a RetryPeriod, and not
// as fast as the API server answers.
func TestTriesThatFailAreFarApart(t *testing.T) {
	for range 5 {
		play(t, func(w *world) {
			a := w.owner(nil)
			a.blind()
			w.edit(leaseUnderTest, stolen)
			time.Sleep(4 * time.Second) // The elector renews every 2 s, and so learns of the thief.
			if len(a.Held()) != 0 {
				t.Fatal("the slot is held after its Lease was stolen")
			}
			before := w.reads.Load()
			time.Sleep(8 * time.Second)
			if n := w.reads.Load() - before; n < 4 || n > 5 { // An elector that goes on has a jitter.
				t.Errorf("%d tries in 8 s, want one in 2 s", n)
			}
		})
	}
}

// A replica gives up its tries for a slot as soon as the slot is assigned to another, and not only
// after Settle: nobody is at work on the slot.
func TestTryEndsWithTheAssignment(t *testing.T) {
	play(t, func(w *world) {
		var tried journal[string]
		a := w.start("a", func(_ *Options, c *client) {
			c.before = each("get", "", func(_ context.Context, _, name string) error {
				tried.add(name)
				return errRefused
			})
		})
		time.Sleep(10 * time.Second)
		b := w.start("b", nil)
		time.Sleep(time.Second)
		before := len(tried.all())
		time.Sleep(3 * time.Second)
		again := tried.all()[before:]
		for slot, owner := range assign([]string{a.id, b.id}, 8) {
			if owner == b.id && slices.Contains(again, a.slotName(slot)) {
				t.Errorf("the first replica tries for slot %d, which is assigned to the second", slot)
			}
		}
		if len(again) == 0 {
			t.Error("the first replica does not try for its own slots")
		}
	})
}

// Replicas of the same Identity, by mistake or as a container that was started again, are told
// apart by their UUIDs.
func TestEqualIdentities(t *testing.T) {
	play(t, func(w *world) {
		var all []*replica
		for range 3 {
			r := w.make("same", func(o *Options, _ *client) {
				o.DrainTimeout, o.OnGained, o.OnLost = time.Millisecond, nil, nil
			}).work(0)
			all = append(all, r)
		}
		time.Sleep(20 * time.Second)
		w.spread(all...)
		w.alone()
		for _, r := range all {
			r.end()
		}
		if n := len(w.leases); n != 8 {
			t.Errorf("%d Leases are left, want those of 8 slots", n)
		}
	})
}

// An item that is added during the hand-over, also with a delay, does not stay.
func TestAddDuringHandOver(t *testing.T) {
	play(t, func(w *world) {
		queue := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](), workqueue.TypedRateLimitingQueueConfig[string]{})
		a := w.one("a", nil)
		item := itemOf(a.Shards, 0)
		attach(a, queue, func(int) ([]string, error) { return []string{item}, nil })
		began, ends := make(chan struct{}, 1), make(chan struct{})
		var calls atomic.Int32
		w.group.Go(func() {
			handle := Handle(a.Shards, func(ctx context.Context, item string) error {
				calls.Add(1)
				began <- struct{}{}
				<-ends
				if ctx.Err() != nil {
					t.Error("the hand-over has ended the context of a handler that is quick enough")
				}
				queue.AddAfter(item, time.Hour)
				queue.Add(item)
				return nil
			})
			if err := workqueue.Run(w.Context(), queue, handle, workqueue.RunOptions[string]{Workers: 2, CancelOnReAdd: 3}); !errors.Is(err, workqueue.ErrShutDown) {
				t.Error(err)
			}
		})
		a.run()
		<-began
		a.stop()
		time.Sleep(time.Second)
		if a.Owns(item) {
			t.Error("the gate is open during the hand-over")
		}
		if w.holder(leaseUnderTest) == "" {
			t.Error("the Lease was released while a handler was at work")
		}
		close(ends)
		<-a.err
		time.Sleep(time.Minute)
		if s := queue.Snapshot(-1); len(s.Queued)+len(s.Waiting) > 0 {
			t.Errorf("left in the queue: %v", s)
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
		queue.ShutDown()
	})
}

// No event at the gain is lost. An object that comes before the gate opens is in the list, and an
// event between the gate and the list passes.
func TestEventAtTheGain(t *testing.T) {
	play(t, func(w *world) {
		var events journal[string]
		var gate cache.ResourceEventHandler
		add := func(name string) { gate.OnAdd(object(name), false) }
		a := w.one("a", func(o *Options, _ *client) {
			o.OnGained = func(context.Context, int, int64) { add("before") }
		})
		gate = a.Handler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { events.add(KeyOf(obj)) }})
		indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, a.Indexers())
		if err := indexer.Add(object("before")); err != nil {
			t.Fatal(err)
		}
		list := Lister(indexer, cache.MetaNamespaceKeyFunc)
		queue := adder(func(item string) { events.add(item + " listed") })
		attach(a, queue, func(slot int) ([]string, error) {
			add("between")
			return list(w.Context(), slot)
		})
		a.run()
		time.Sleep(8 * time.Second)
		if want := []string{"ns/between", "ns/before listed"}; !slices.Equal(events.all(), want) {
			t.Errorf("the queue got %v, want %v", events.all(), want)
		}
		gate.OnUpdate(object("x"), object("x"))
		a.end()
		add("after")
		if want := []string{"ns/between", "ns/before listed"}; !slices.Equal(events.all(), want) {
			t.Errorf("the queue got %v at the end, want %v", events.all(), want)
		}
	})
}

func object(name string) *coordinationv1.Lease {
	l := new(coordinationv1.Lease)
	l.Namespace, l.Name = "ns", name
	return l
}

// A watch that shows nothing any more, while requests go on, changes nothing.
func TestBlindWatch(t *testing.T) {
	play(t, func(w *world) {
		replicas := []*replica{w.start("a", nil), w.start("b", nil)}
		time.Sleep(15 * time.Second)
		w.spread(replicas...)
		for _, r := range replicas {
			r.blind()
		}
		time.Sleep(5 * time.Minute)
		w.spread(replicas...)
		for _, r := range replicas {
			r.heal()
		}
		time.Sleep(time.Minute)
		w.spread(replicas...)
	})
}

// Clocks of replicas may be hours apart: what they write of the time means nothing to others. They
// may run at rates that differ by the margin: a replica with a clock that is slow by some
// percent does all that its clock says later by so much.
func TestClocks(t *testing.T) {
	const pace = 1.06 // The margin of 2 s is 6.6 % of the other 28 s.
	for _, skew := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		playAs(t, skew.String(), func(w *world) {
			a := w.one("a", func(o *Options, c *client) {
				slow(o, c)
				c.amend = func(l *coordinationv1.Lease) {
					l.Spec.RenewTime.Time = l.Spec.RenewTime.Add(skew)
					l.Spec.AcquireTime.Time = l.Spec.AcquireTime.Add(skew)
				}
			})
			o := &a.options
			for _, d := range []*time.Duration{&o.RenewDeadline, &o.RetryPeriod, &o.CancelBound} {
				*d = time.Duration(float64(*d) * pace)
			}
			a.work(o.CancelBound - time.Millisecond)
			time.Sleep(15 * time.Second)
			b := w.one(loser, slow).work(0)
			for range 10 {
				time.Sleep(time.Duration(float64(5*time.Second) * pace / 10))
				if len(a.Held()) != 1 {
					w.Fatal("A has lost its slot")
				}
			}
			a.cut(true)
			time.Sleep(time.Minute)
			if len(b.Held()) != 1 {
				w.Error("B has not adopted the slot")
			}
			w.alone()
		})
	}
}

// A process that is stopped for longer than the LeaseDuration owns nothing from its first
// instruction on, before any timer has fired.
func TestStopped(t *testing.T) {
	play(t, func(w *world) {
		a := w.owner(nil)
		sl := &a.slots[0]
		item := itemOf(a.Shards, 0)
		sl.mu.Lock()
		sl.term.timer.Stop() // As if no timer had fired yet.
		sl.term.until = time.Now()
		sl.mu.Unlock()
		if _, _, err := a.Context(w.Context(), item); !errors.Is(err, ErrNotOwned) || a.Owns(item) || len(a.Held()) > 0 {
			t.Error("the slot is owned after the end of its validity")
		}
		time.Sleep(5 * time.Second)
		if !a.Owns(item) {
			t.Error("the slot was not taken again")
		}
	})
}

// A renewal whose answer arrives when the validity has just ended does not bring the ownership back:
// items that were dropped in between would be listed by nobody. The answer and the timer come at the same
// instant, so many plays are needed.
func TestItemDroppedBeforeALateAnswer(t *testing.T) {
	lost, drops := 0, 0
	const plays = 100
	for range plays {
		play(t, func(w *world) {
			var late, dropped, listed atomic.Bool
			var a *replica
			var last time.Time // when the last renewal in time was sent
			a = w.one("a", func(_ *Options, c *client) {
				c.timeout, c.rtt = 0, 0
				c.before = func(_ context.Context, _, name string) error {
					switch {
					case name != leaseUnderTest:
					case !late.Load():
						last = time.Now()
					case time.Since(last) < 7*time.Second: // A later request leaves a longer validity.
						return errRefused
					}
					return nil
				}
				c.after = func(_ context.Context, verb, name string) error {
					if verb == "update" && name == leaseUnderTest && late.CompareAndSwap(true, false) {
						time.Sleep(time.Until(last.Add(a.options.RenewDeadline)))
						dropped.Store(!a.Owns(itemOf(a.Shards, 0)))
					}
					return nil
				}
			})
			attach(a, adder(func(string) {}), func(int) ([]string, error) {
				listed.Store(dropped.Load())
				return nil, nil
			})
			a.run()
			time.Sleep(8 * time.Second)
			late.Store(true)
			time.Sleep(30 * time.Second)
			if dropped.Load() {
				drops++
				if !listed.Load() {
					lost++
				}
			}
		})
	}
	if drops < plays || lost > 0 {
		t.Errorf("an item was dropped in %d of %d plays, and not listed again in %d", drops, plays, lost)
	}
}

// TestOwnerAfterAKill measures the bounds of the package comment: the slot of a replica that is killed has
// an owner after the LeaseDuration, and later if a request of the next owner is lost.
func TestOwnerAfterAKill(t *testing.T) {
	for _, loses := range []bool{false, true} {
		var longest time.Duration
		for i := range 40 {
			play(t, func(w *world) {
				a, b := w.pair(0)
				time.Sleep(time.Duration(i) * a.options.RetryPeriod / 20)
				killed := time.Now()
				a.cut(false)
				time.Sleep(12 * time.Second) // The last request of A is over.
				if loses {
					b.meet(once("", leaseUnderTest, hung))
				}
				w.await(func() bool { return len(b.Held()) > 0 })
				longest = max(longest, time.Since(killed))
			})
		}
		// L = 15 s, D = 10 s, P = 2 s.
		least, most := 13*time.Second, 15100*time.Millisecond
		if loses {
			least, most = 22*time.Second, 24500*time.Millisecond
		}
		if t.Logf("a lost request: %v, the longest: %v", loses, longest); longest < least || longest > most {
			t.Errorf("an owner after %v, want %v to %v", longest, least, most)
		}
	}
}

// OnLost is called after the last handler of a slot, and so never for a slot whose handler outlives Run.
// The error of Run names these slots.
func TestOnLostWithAHandlerThatOutlivesRun(t *testing.T) {
	play(t, func(w *world) {
		a := w.start("a", nil)
		time.Sleep(8 * time.Second)
		_, done, err := a.Context(w.Context(), itemOf(a.Shards, 5))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		a.stop()
		err = <-a.err
		w.within("the end of Run", time.Since(began), 13*time.Second, 14*time.Second)
		if err == nil || !strings.Contains(err.Error(), "slot 5") || !strings.Contains(err.Error(), itemOf(a.Shards, 5)) {
			t.Errorf("Run returned %v, want an error with the slot and the item", err)
		}
		isFive := func(o ownership) bool { return o.slot == 5 }
		if lost := a.lost.all(); len(lost) != 7 || slices.ContainsFunc(lost, isFive) {
			t.Errorf("OnLost was called for %v, want all slots without a handler", lost)
		}
		if w.holder(a.slotName(5)) != a.id {
			t.Error("the Lease was released while a handler is at work")
		}
		done()
	})
}
