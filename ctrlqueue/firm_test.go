package ctrlqueue_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A script has what the reconciles of an object do, one after the other, and when each began. A
// further reconcile succeeds.
type script struct {
	*running
	do    []func(ctx context.Context) (reconcile.Result, error)
	began []time.Duration
}

func startScript(t *testing.T, name string, o options, do ...func(ctx context.Context) (reconcile.Result, error)) *script {
	t.Helper()
	s := &script{do: do}
	from := time.Now()
	s.running = start(t, name, o, func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		n := len(s.began)
		s.began = append(s.began, time.Since(from))
		if n < len(s.do) {
			return s.do[n](ctx)
		}
		return reconcile.Result{}, nil
	})
	return s
}

// defers returns a step that defers for 5 s and takes a second.
func defers(err error) func(ctx context.Context) (reconcile.Result, error) {
	return func(ctx context.Context) (reconcile.Result, error) {
		defer time.Sleep(time.Second)
		return ctrlqueue.DeferFor(ctx, 5*time.Second), err
	}
}

func TestDeferForHoldsOffEvents(t *testing.T) {
	const s = time.Second
	failed, terminal := errors.New("failed"), reconcile.TerminalError(errors.New("failed for good"))
	for _, c := range []struct {
		name string
		do   func(ctx context.Context) (reconcile.Result, error)
		at   time.Duration // of a call while the first reconcile runs, which takes a second, or later
		call func(q *requestQueue)
		want []time.Duration // when reconciles begin
	}{
		{"nothing", defers(nil), 0, nil, []time.Duration{0, 6 * s}},
		{"an event meanwhile", defers(nil), s / 2, func(q *requestQueue) { q.Add(request("a")) }, []time.Duration{0, 6 * s}},
		{"an event afterwards", defers(nil), 3 * s, func(q *requestQueue) { q.Add(request("a")) }, []time.Duration{0, 6 * s}},
		{"a Wake meanwhile", defers(nil), s / 2, func(q *requestQueue) { q.Wake(request("a")) }, []time.Duration{0, s}},
		{"a Wake afterwards", defers(nil), 3 * s, func(q *requestQueue) { q.Wake(request("a")) }, []time.Duration{0, 3 * s}},
		{"a WakeFunc afterwards", defers(nil), 3 * s, func(q *requestQueue) {
			q.WakeFunc(func(r reconcile.Request) bool { return r.Name == "a" })
		}, []time.Duration{0, 3 * s}},
		{"a Remove meanwhile", defers(nil), s / 2, func(q *requestQueue) { q.Remove(request("a")) }, []time.Duration{0}},
		{"a Remove and an event meanwhile", defers(nil), s / 2, func(q *requestQueue) {
			q.Remove(request("a"))
			q.Add(request("a"))
		}, []time.Duration{0, 6 * s}},
		{"a Remove afterwards", defers(nil), 3 * s, func(q *requestQueue) { q.Remove(request("a")) }, []time.Duration{0}},
		{"a failure", defers(failed), 3 * s, func(q *requestQueue) { q.Add(request("a")) }, []time.Duration{0, 6 * s}},
		{"a terminal error", defers(terminal), 0, nil, []time.Duration{0}},
		{"a terminal error and an event", defers(terminal), 3 * s, func(q *requestQueue) { q.Add(request("a")) }, []time.Duration{0, 3 * s}},
		{"twice, and another result", func(ctx context.Context) (reconcile.Result, error) {
			ctrlqueue.DeferFor(ctx, 8*s)
			ctrlqueue.DeferFor(ctx, 2*s)
			return reconcile.Result{}, nil
		}, 3 * s, func(q *requestQueue) { q.Add(request("a")) }, []time.Duration{0, 8 * s}},
		{"zero", func(ctx context.Context) (reconcile.Result, error) {
			return ctrlqueue.DeferFor(ctx, 0), nil
		}, 0, nil, []time.Duration{0, time.Nanosecond}},
		{"a Wake, then RequeueAfter", func(context.Context) (reconcile.Result, error) {
			time.Sleep(s)
			return reconcile.Result{RequeueAfter: time.Hour}, nil
		}, s / 2, func(q *requestQueue) { q.Wake(request("a")) }, []time.Duration{0, s}},
		{"a Wake, then a failure", func(context.Context) (reconcile.Result, error) {
			time.Sleep(s)
			return reconcile.Result{}, failed
		}, s / 2, func(q *requestQueue) { q.Wake(request("a")) }, []time.Duration{0, s}},
		{"a Remove, then Requeue", func(context.Context) (reconcile.Result, error) {
			time.Sleep(s)
			//lint:ignore SA1019 Controllers still look at Requeue.
			return reconcile.Result{Requeue: true}, nil
		}, s / 2, func(q *requestQueue) { q.Remove(request("a")) }, []time.Duration{0}},
		{"a Remove, then a failure", func(context.Context) (reconcile.Result, error) {
			time.Sleep(s)
			return reconcile.Result{}, failed
		}, s / 2, func(q *requestQueue) { q.Remove(request("a")) }, []time.Duration{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := startScript(t, "defers", options{}, c.do)
				p.q.Add(request("a"))
				if c.call != nil {
					time.Sleep(c.at)
					c.call(p.q)
				}
				time.Sleep(time.Minute)
				p.end(t)
				if !slices.Equal(p.began, c.want) {
					t.Errorf("reconciles began at %v, want %v", p.began, c.want)
				}
			})
		})
	}
}

// The object keeps the higher priority of its hand-out and of an event, so a deferral does not put an
// urgent object behind the initial list.
func TestDeferForKeepsThePriority(t *testing.T) {
	for _, hand := range []int{-100, 0, 7} {
		synctest.Test(t, func(t *testing.T) {
			p := startScript(t, "keeps", options{}, defers(nil))
			p.q.AddWithOpts(priorityqueue.AddOpts{Priority: &hand}, request("a"))
			time.Sleep(3 * time.Second)
			info, _ := p.q.Find(request("a"))
			if info.Priority != hand || !info.Firm {
				t.Errorf("handed out at %d: %v waits, want the same priority and a firm wait", hand, info)
			}
			p.q.AddWithOpts(priorityqueue.AddOpts{Priority: new(9)}, request("a"))
			if info, _ = p.q.Find(request("a")); info.Priority != 9 {
				t.Errorf("after an event of priority 9: %v waits", info)
			}
			p.end(t)
		})
	}
}

// A reconcile that a change has cut short has not done the work after which it wanted to wait.
func TestDeferForOfAReconcileThatWasCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startScript(t, "cut", options{CancelOnReAdd: 3}, func(ctx context.Context) (reconcile.Result, error) {
			result := ctrlqueue.DeferFor(ctx, time.Hour)
			<-ctx.Done()
			return result, ctx.Err()
		})
		p.q.Add(request("a"))
		time.Sleep(time.Second)
		p.q.Add(request("a"))
		time.Sleep(time.Minute)
		p.end(t)
		if want := []time.Duration{0, time.Second}; !slices.Equal(p.began, want) {
			t.Errorf("reconciles began at %v, want %v", p.began, want)
		}
	})
}

// A test of a reconciler calls it with a context of no controller.
func TestDeferForWithoutAController(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, 0: 1, -1: 1} {
		if got := ctrlqueue.DeferFor(t.Context(), d); got != (reconcile.Result{RequeueAfter: want}) {
			t.Errorf("DeferFor(%v) is %+v, want a RequeueAfter of %v", d, got, want)
		}
	}
}

// cluster-api writes and waits until its cache shows the write. The cache of the test shows a write
// 30 ms later, and the handler of the event adds the object and wakes it.
func TestDeferUntilTheCacheShowsTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writes, behind = 800, 30 * time.Millisecond
		written, shown, stale, nets := 0, 0, 0, 0
		var last time.Time
		var q *requestQueue
		show := func(n int) {
			shown = n
			q.Add(request("a"))
			q.Wake(request("a"))
		}
		c := start(t, "cache", options{}, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			if shown < written {
				stale++
				if time.Since(last) >= time.Minute {
					nets++
				}
			}
			if written == writes {
				return reconcile.Result{}, nil
			}
			written++
			last = time.Now()
			n := written
			time.AfterFunc(behind, func() { show(n) })
			q.Add(r) // Some other event.
			return ctrlqueue.DeferFor(ctx, time.Minute), nil
		})
		q = c.q
		q.Add(request("a"))
		time.Sleep(time.Hour)
		c.end(t)
		if written != writes || stale > 0 || nets > 0 {
			t.Errorf("%d writes, %d reconciles on a stale cache, %d by the safety net, want %d, 0 and 0", written, stale, nets, writes)
		}
	})
}

// An object fails until 20 s have passed, and an event of it comes each second. Each failure of a
// hand-out by an event doubled the backoff.
func TestEventsDoNotLengthenTheBackoff_kubernetes136853(t *testing.T) {
	heals := func(q priorityqueue.PriorityQueue[string]) time.Duration {
		from := time.Now()
		go func() {
			for range 20 {
				q.Add("a")
				time.Sleep(time.Second)
			}
		}()
		for {
			item, priority, _ := q.GetWithPriority()
			if time.Since(from) >= 20*time.Second {
				q.Forget(item)
				q.Done(item)
				return time.Since(from)
			}
			q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, Priority: &priority}, item)
			q.Done(item)
		}
	}
	limiter := func() clientgo.TypedRateLimiter[string] {
		return clientgo.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 1000*time.Second)
	}
	for _, c := range []struct {
		name      string
		i         impl
		low, high time.Duration
	}{
		{"ours", ours, 20 * time.Second, 21 * time.Second},
		{"controller-runtime", theirs, 10 * time.Minute, 20 * time.Minute}, // If this is less, the row of the README goes.
	} {
		synctest.Test(t, func(t *testing.T) {
			q := c.i.open(limiter())
			defer q.ShutDown()
			if d := heals(q); d < c.low || d > c.high {
				t.Errorf("%s: heals after %v, want %v to %v", c.name, d, c.low, c.high)
			} else {
				t.Logf("%s: heals after %v", c.name, d)
			}
		})
	}
}

// The limiter counts what it counts without this queue: a failure after the retry was due, and one
// after a success.
func TestFailuresThatAreNotEarly(t *testing.T) {
	failed := errors.New("failed")
	fails := func(context.Context) (reconcile.Result, error) { return reconcile.Result{}, failed }
	succeeds := func(context.Context) (reconcile.Result, error) { return reconcile.Result{}, nil }
	for _, strict := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := startScript(t, "counts", options{StrictBackoff: strict}, fails, fails, fails, succeeds, fails)
			p.q.Add(request("a"))
			time.Sleep(time.Minute)
			synctest.Wait()
			if want := []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond, 35 * time.Millisecond}; !slices.Equal(p.began, want) {
				t.Errorf("strict %v: reconciles began at %v, want %v", strict, p.began, want)
			}
			p.q.Add(request("a"))
			synctest.Wait()
			if n := p.q.NumRequeues(request("a")); n != 1 {
				t.Errorf("strict %v: %d failures after a success and a failure, want 1", strict, n)
			}
			p.end(t)
		})
	}
}

// The retry of an early failure names a priority and, as no controller does, a time.
func TestEarlyFailureWithAPriorityAndATime(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{0: 800 * time.Millisecond, 300 * time.Millisecond: 300 * time.Millisecond, time.Hour: 800 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			q := ours.open(newLimiter())
			defer q.ShutDown()
			q.AddRateLimited("a") // The retry is due after a second.
			time.Sleep(200 * time.Millisecond)
			q.Add("a")
			q.GetWithPriority()
			from := time.Now()
			q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, After: after, Priority: new(7)}, "a")
			q.Done("a")
			if _, priority, _ := q.GetWithPriority(); time.Since(from) != want || priority != 7 {
				t.Errorf("after %v: comes after %v at %d, want %v at 7", after, time.Since(from), priority, want)
			}
		})
	}
}

// The controller logs and counts the error of a reconcile whose object was removed, and retries nothing.
func TestErrorOfAReconcileThatWasRemoved(t *testing.T) {
	failed := errors.New("failed")
	synctest.Test(t, func(t *testing.T) {
		var got error
		b := ctrlqueue.For(options{})
		inner := b.Reconciler(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			time.Sleep(time.Second)
			return reconcile.Result{}, failed
		}))
		s := newStandIn()
		c := startIn(t, s, s, "removed", controller.Options{NewQueue: b.NewQueue, Reconciler: reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			result, err := inner.Reconcile(ctx, r)
			got = err
			return result, err
		})})
		c.q.Add(request("a"))
		time.Sleep(time.Second / 2)
		c.q.Remove(request("a"))
		time.Sleep(time.Minute)
		c.end(t)
		if !errors.Is(got, failed) || !errors.Is(got, reconcile.TerminalError(nil)) {
			t.Errorf("the controller gets %v, want the error as a terminal one", got)
		}
	})
}

// With StrictBackoff only a Wake brings an object before its time. The wait goes on firmly.
func TestEarlyFailureWithStrictBackoff(t *testing.T) {
	failed := errors.New("failed")
	fails := func(context.Context) (reconcile.Result, error) { return reconcile.Result{}, failed }
	synctest.Test(t, func(t *testing.T) {
		p := startScript(t, "strict", options{StrictBackoff: true}, slices.Repeat([]func(context.Context) (reconcile.Result, error){fails}, 11)...)
		p.q.Add(request("a")) // The tenth failure begins a wait of 2.56 s.
		time.Sleep(3 * time.Second)
		before, _ := p.q.Find(request("a"))
		p.q.Wake(request("a"))
		synctest.Wait()
		p.q.Add(request("a"))
		after, _ := p.q.Find(request("a"))
		if len(p.began) != 11 || !after.Due.Equal(before.Due) || !after.Firm || p.q.NumRequeues(request("a")) != 10 {
			t.Errorf("%d reconciles, and %v waits with %d failures, want 11, 10 failures and %v", len(p.began), after, p.q.NumRequeues(request("a")), before)
		}
		p.end(t)
	})
}
