package sharding

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// one makes a replica with one slot that does not run.
func (w *world) one(name string, set func(*Options, *client)) *replica {
	w.Helper()
	return w.make(name, func(o *Options, c *client) {
		o.Slots = 1
		if set != nil {
			set(o, c)
		}
	})
}

// owner starts a replica with one slot, and waits until it owns the slot.
func (w *world) owner(set func(*Options, *client)) *replica {
	w.Helper()
	r := w.one("a", set)
	r.run()
	time.Sleep(8 * time.Second)
	return r
}

// loser is an Identity that a set of one slot does not assign the slot to beside "a".
var loser = func() string {
	for i := 0; ; i++ {
		if name := "b" + strconv.Itoa(i); assign([]string{"a", name}, 1)[0] == "a" {
			return name
		}
	}
}()

// pair starts A with a handler at work, and B that has seen everything and owns nothing, with the
// same options.
func (w *world) pair(heedless time.Duration, set func(*Options, *client)) (a, b *replica) {
	w.Helper()
	a = w.one("a", set).work(heedless)
	time.Sleep(8 * time.Second)
	b = w.one(loser, set).work(heedless)
	time.Sleep(8 * time.Second)
	if got := w.leaders(); !slices.Equal(got, []string{"a"}) || len(a.Held()) != 1 {
		w.Fatalf("%v are at work, want the first replica", got)
	}
	return a, b
}

// A cut is noticed at the RenewDeadline, and the other replica begins after the LeaseDuration.
// All times are the same in both kinds of a cut.
func TestCut(t *testing.T) {
	for _, kind := range []string{"black hole", "refusal"} {
		t.Run(kind, func(t *testing.T) {
			play(t, func(w *world) {
				a, b := w.pair(2*time.Second, nil)
				cut := time.Now()
				a.cut(kind == "black hole")
				w.await(func() bool { return len(a.Held()) == 0 })
				w.within("the loss", time.Since(cut), 8*time.Second, 10*time.Second)
				w.await(func() bool { return len(b.Held()) > 0 })
				w.within("the adoption", time.Since(cut), 13*time.Second, 17*time.Second)
				a.heal()
				time.Sleep(time.Minute)
				w.alone()
				a.stop()
				b.end()
			})
		})
	}
}

// A handler that goes on after its CancelBound is told to OnOverrun before another replica may
// adopt the slot.
func TestOverrun(t *testing.T) {
	play(t, func(w *world) {
		a, b := w.pair(20*time.Second, nil)
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
		b.stop()
	})
}

// A hand-over waits for a handler that ignores its context, and the replica owns the slot
// meanwhile. The end of Run does not wait for ever, and names the item.
func TestHeedlessHandler(t *testing.T) {
	play(t, func(w *world) {
		a := w.make("a", nil).work(time.Hour)
		time.Sleep(8 * time.Second)
		b := w.start("b", nil)
		time.Sleep(10 * time.Minute)
		if n := len(b.Held()); n > 0 {
			t.Errorf("B has %d slots whose handlers are at work in A", n)
		}
		if o := a.overruns.all(); len(o) > 0 {
			t.Errorf("OnOverrun was told of %v, which A owns", o)
		}
		began := time.Now()
		a.stop()
		err := <-a.err
		w.within("the end of Run", time.Since(began), 3*time.Second, 14*time.Second)
		if err == nil || !strings.Contains(err.Error(), itemOf(a.Shards, 3)) {
			t.Errorf("Run returned %v, want an error with the items", err)
		}
		b.end()
	})
}

// A replica whose watch does not show that a Lease is another's tries once in a RetryPeriod, and not
// as fast as the API server answers.
func TestTriesThatFailAreFarApart(t *testing.T) {
	play(t, func(w *world) {
		var reads atomic.Int64
		a := w.owner(func(_ *Options, c *client) {
			c.before = func(_ context.Context, verb, name string) error {
				if verb == "get" && name == leaseUnderTest {
					reads.Add(1)
				}
				return nil
			}
		})
		a.blind()
		w.edit(leaseUnderTest, func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity = new("thief")
			*l.Spec.LeaseTransitions++
		})
		time.Sleep(4 * time.Second) // The elector renews every 2 s, and so learns of the thief.
		if len(a.Held()) != 0 {
			t.Fatal("the slot is held after its Lease was stolen")
		}
		reads.Store(0)
		time.Sleep(8 * time.Second)
		if n := reads.Load(); n < 3 || n > 5 {
			t.Errorf("%d tries in 8 s, want one in 2 s", n)
		}
	})
}

// A replica gives up its tries for a slot as soon as the slot is assigned to another, and not only
// after Settle: nobody is at work on the slot.
func TestTryEndsWithTheAssignment(t *testing.T) {
	play(t, func(w *world) {
		var tried journal[string]
		a := w.start("a", func(_ *Options, c *client) {
			c.before = func(_ context.Context, verb, name string) error {
				if verb != "get" || strings.Contains(name, "member") {
					return nil
				}
				tried.add(name)
				return errRefused
			}
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
			r := w.make("same", func(o *Options, _ *client) { o.DrainTimeout = time.Millisecond }).work(0)
			all = append(all, r)
		}
		time.Sleep(20 * time.Second)
		w.spread(all...)
		w.alone()
		for _, r := range all {
			r.end()
		}
	})
}

// An item that is added during the hand-over, also with a delay, does not stay.
func TestAddDuringHandOver(t *testing.T) {
	play(t, func(w *world) {
		queue := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](), workqueue.TypedRateLimitingQueueConfig[string]{})
		a := w.one("a", nil)
		item := itemOf(a.Shards, 0)
		if err := Attach(w.Context(), a.Shards, queue, func(context.Context, int) ([]string, error) { return []string{item}, nil }); err != nil {
			t.Error(err)
		}
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
		err := Attach(w.Context(), a.Shards, queue, func(ctx context.Context, slot int) ([]string, error) {
			add("between")
			return list(ctx, slot)
		})
		if err != nil {
			t.Error(err)
		}
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
	for _, skew := range []time.Duration{-5 * time.Hour, 0, 5 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			play(t, func(w *world) {
				slow := func(o *Options, c *client) {
					o.Slots = 1
					o.LeaseDuration, o.RenewDeadline, o.RetryPeriod, o.CancelBound = 0, 0, 0, 0
					c.timeout = 10 * time.Second
					c.amend = func(l *coordinationv1.Lease) {
						if l.Spec.RenewTime != nil {
							l.Spec.RenewTime.Time = l.Spec.RenewTime.Add(skew)
							l.Spec.AcquireTime.Time = l.Spec.AcquireTime.Add(skew)
						}
					}
				}
				a := w.make("a", slow)
				o := &a.options
				for _, d := range []*time.Duration{&o.RenewDeadline, &o.RetryPeriod, &o.CancelBound} {
					*d = time.Duration(float64(*d) * pace)
				}
				a.work(o.CancelBound - time.Millisecond)
				time.Sleep(15 * time.Second)
				b := w.make(loser, func(o *Options, c *client) { slow(o, c); c.amend = nil }).work(0)
				for range 10 {
					time.Sleep(time.Duration(float64(5*time.Second) * pace / 10))
					if len(a.Held()) != 1 {
						t.Fatal("A has lost its slot")
					}
				}
				a.cut(true)
				time.Sleep(time.Minute)
				if len(b.Held()) != 1 {
					t.Error("B has not adopted the slot")
				}
				w.alone()
				a.stop()
				b.end()
			})
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
		a.end()
	})
}

// A record that the watch has not shown to be unchanged for a LeaseDuration is not adopted, whatever
// the watch has shown of earlier records.
func TestAdoption(t *testing.T) {
	play(t, func(w *world) {
		a := w.owner(nil)
		b := w.one(loser, nil)
		see := func() {
			l, err := b.Get(w.Context(), leaseUnderTest, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.view.Update(l); err != nil {
				t.Error(err)
			}
		}
		adopts := func() bool {
			term := b.slots[0].newTerm(w.Context())
			defer term.end()
			r, _, err := term.Get(w.Context())
			if err != nil != isClosed(term.over) {
				t.Errorf("the error is %v, and the term is over: %v", err, isClosed(term.over))
			}
			if err == nil && r.HolderIdentity != "" {
				t.Error("the elector stands by")
			}
			return err == nil
		}
		see()
		time.Sleep(20 * time.Second)
		if adopts() {
			t.Error("a record was adopted that is renewed since")
		}
		a.cut(true)
		time.Sleep(20 * time.Second)
		see()
		time.Sleep(14 * time.Second)
		if adopts() {
			t.Error("a record was adopted that was seen for less than a LeaseDuration")
		}
		time.Sleep(time.Second)
		if !adopts() {
			t.Error("a record was not adopted that was seen for a LeaseDuration")
		}
	})
}

// TestView shows a view what a list after a break tells: what is not in the list is gone.
func TestView(t *testing.T) {
	play(t, func(w *world) {
		a := w.start("a", nil)
		time.Sleep(8 * time.Second)
		v := &w.make("b", nil).view
		list, err := a.List(w.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		objs := func(skip func(*coordinationv1.Lease) bool) (objs []any) {
			for i := range list.Items {
				if l := &list.Items[i]; !skip(l) {
					objs = append(objs, l)
				}
			}
			return objs
		}
		none := func(*coordinationv1.Lease) bool { return false }
		members := func() int {
			m, _ := v.alive(time.Now())
			return len(m)
		}
		for step, skip := range []func(*coordinationv1.Lease) bool{none, func(l *coordinationv1.Lease) bool {
			return l.Name == leaseUnderTest || l.Labels[labelKind] == kindMember
		}} {
			if err := v.Replace(objs(skip), ""); err != nil {
				t.Error(err)
			}
			if got := members(); got != 1-step {
				t.Errorf("step %d: %d members, want %d", step, got, 1-step)
			}
			free, since := v.freeFrom(0, "b")
			if since != time.Now() || free != since.Add(15*time.Second) {
				t.Errorf("step %d: the slot is free from %v, seen at %v", step, free, since)
			}
			time.Sleep(time.Second)
		}
		long := list.Items[0].DeepCopy()
		long.Name, long.Spec.LeaseDurationSeconds, long.Spec.RenewTime = leaseUnderTest, new(int32(60)), new(metav1.NowMicro())
		if err := v.Update(long); err != nil {
			t.Error(err)
		}
		if free, since := v.freeFrom(0, "b"); free != since.Add(time.Minute) {
			t.Errorf("a Lease of a minute is free after %v", free.Sub(since))
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
			err := Attach(w.Context(), a.Shards, adder(func(string) {}), func(context.Context, int) ([]string, error) {
				listed.Store(dropped.Load())
				return nil, nil
			})
			if err != nil {
				t.Error(err)
			}
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
				var lose atomic.Bool
				a, b := w.pair(0, func(_ *Options, c *client) {
					c.before = func(ctx context.Context, _, name string) error {
						if name == leaseUnderTest && lose.CompareAndSwap(true, false) {
							<-ctx.Done()
							return ctx.Err()
						}
						return nil
					}
				})
				time.Sleep(time.Duration(i) * a.options.RetryPeriod / 20)
				killed := time.Now()
				a.cut(false)
				time.Sleep(12 * time.Second) // The last request of A is over.
				lose.Store(loses)
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
		var lost journal[int]
		a := w.make("a", func(o *Options, _ *client) {
			o.OnLost = func(_ context.Context, slot int, _ int64) { lost.add(slot) }
		})
		a.run()
		time.Sleep(8 * time.Second)
		_, done, err := a.Context(w.Context(), itemOf(a.Shards, 5))
		if err != nil {
			t.Fatal(err)
		}
		a.stop()
		if err := <-a.err; err == nil || !strings.Contains(err.Error(), "slot 5") {
			t.Errorf("Run returned %v, want an error with the slot", err)
		}
		if slots := lost.all(); len(slots) != 7 || slices.Contains(slots, 5) {
			t.Errorf("OnLost was called for %v, want all slots without a handler", slots)
		}
		if w.holder(a.slotName(5)) != a.id {
			t.Error("the Lease was released while a handler is at work")
		}
		done()
	})
}
