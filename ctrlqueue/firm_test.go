package ctrlqueue_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"golang.org/x/time/rate"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
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

// asks returns a step that calls DeferFor and takes no time.
func asks(result reconcile.Result, err error, waits ...time.Duration) func(ctx context.Context) (reconcile.Result, error) {
	return func(ctx context.Context) (reconcile.Result, error) {
		for _, d := range waits {
			ctrlqueue.DeferFor(ctx, d)
		}
		return result, err
	}
}

// takes returns a step that takes a second.
func takes(result reconcile.Result, err error) func(ctx context.Context) (reconcile.Result, error) {
	return func(context.Context) (reconcile.Result, error) {
		time.Sleep(time.Second)
		return result, err
	}
}

func TestDeferForHoldsOffEvents(t *testing.T) {
	const s = time.Second
	failed, terminal := errors.New("failed"), reconcile.TerminalError(errors.New("failed for good"))
	event := func(q *requestQueue) { q.Add(request("a")) }
	wake := func(q *requestQueue) { q.Wake(request("a")) }
	wakeFunc := func(q *requestQueue) { q.WakeFunc(func(r reconcile.Request) bool { return r.Name == "a" }) }
	remove := func(q *requestQueue) { q.Remove(request("a")) }
	reschedule := func(q *requestQueue) { q.Reschedule(request("a"), s) }
	deferFor := func(d time.Duration) func(*requestQueue) {
		return func(q *requestQueue) { q.DeferFor(request("a"), d) }
	}
	both := func(first, second func(*requestQueue)) func(*requestQueue) {
		return func(q *requestQueue) { first(q); second(q) }
	}
	for _, c := range []struct {
		name string
		do   func(ctx context.Context) (reconcile.Result, error)
		at   time.Duration // of a call while the first reconcile runs, which takes a second, or later
		call func(q *requestQueue)
		want []time.Duration // when reconciles begin
	}{
		{"nothing", defers(nil), 0, nil, []time.Duration{0, 6 * s}},
		{"an event meanwhile", defers(nil), s / 2, event, []time.Duration{0, 6 * s}},
		{"an event afterwards", defers(nil), 3 * s, event, []time.Duration{0, 6 * s}},
		{"a Wake meanwhile", defers(nil), s / 2, wake, []time.Duration{0, s}},
		{"a Wake afterwards", defers(nil), 3 * s, wake, []time.Duration{0, 3 * s}},
		{"a WakeFunc afterwards", defers(nil), 3 * s, wakeFunc, []time.Duration{0, 3 * s}},
		{"a Remove meanwhile", defers(nil), s / 2, remove, []time.Duration{0}},
		{"a Remove and an event meanwhile", defers(nil), s / 2, both(remove, event), []time.Duration{0, 6 * s}},
		{"a Remove afterwards", defers(nil), 3 * s, remove, []time.Duration{0}},
		{"a failure", defers(failed), 3 * s, event, []time.Duration{0, 6 * s}},
		{"a terminal error", defers(terminal), 0, nil, []time.Duration{0}},
		{"a terminal error and an event", defers(terminal), 3 * s, event, []time.Duration{0, 3 * s}},
		{"a longer RequeueAfter", asks(reconcile.Result{RequeueAfter: 20 * s}, nil, 2*s), 3 * s, event, []time.Duration{0, 20 * s}},
		{"a failure whose backoff is longer", asks(reconcile.Result{}, failed, 2*time.Millisecond), 0, nil, []time.Duration{0, 5 * time.Millisecond}},
		{"a panic", func(ctx context.Context) (reconcile.Result, error) {
			ctrlqueue.DeferFor(ctx, 5*s)
			panic(failed)
		}, 3 * s, event, []time.Duration{0, 5 * s}},
		{"twice, and another result", asks(reconcile.Result{}, nil, 8*s, 2*s), 3 * s, event, []time.Duration{0, 8 * s}},
		{"zero", func(ctx context.Context) (reconcile.Result, error) {
			return ctrlqueue.DeferFor(ctx, 0), nil
		}, 0, nil, []time.Duration{0, time.Nanosecond}},
		{"a time that has passed, and another result", asks(reconcile.Result{}, nil, -s), 0, nil, []time.Duration{0, time.Nanosecond}},
		{"a time that has passed, a failure, and an event", asks(reconcile.Result{}, failed, -s), 2 * time.Millisecond, event, []time.Duration{0, 2 * time.Millisecond}},
		{"a longer DeferFor from outside, and an event", defers(nil), s / 2, both(deferFor(20*s), event), []time.Duration{0, 20*s + s/2}},
		{"an event, and then a DeferFor from outside", defers(nil), s / 2, both(event, deferFor(20*s)), []time.Duration{0, 20*s + s/2}},
		{"a shorter DeferFor from outside", defers(nil), s / 2, deferFor(2 * s), []time.Duration{0, 6 * s}},
		{"a Remove and a shorter DeferFor from outside", defers(nil), s / 2, both(remove, deferFor(2*s)), []time.Duration{0, 2*s + s/2}},
		{"a Remove and a shorter DeferFor from outside, afterwards", defers(nil), 3 * s, both(remove, deferFor(s)), []time.Duration{0, 4 * s}},
		{"a Reschedule, afterwards", defers(nil), 3 * s, reschedule, []time.Duration{0, 4 * s}},
		{"a Reschedule and an event, afterwards", defers(nil), 3 * s, both(reschedule, event), []time.Duration{0, 3 * s}},
		{"a Wake, and then a DeferFor from outside", defers(nil), s / 2, both(wake, deferFor(20*s)), []time.Duration{0, s}},
		{"a DeferFor from outside of zero, afterwards", defers(nil), 3 * s, deferFor(0), []time.Duration{0, 3 * s}},
		{"a DeferFor from outside, and then a success", takes(reconcile.Result{}, nil), s / 2, deferFor(20 * s), []time.Duration{0, 20*s + s/2}},
		{"a DeferFor from outside, and then a RequeueAfter", takes(reconcile.Result{RequeueAfter: s}, nil), s / 2, deferFor(20 * s), []time.Duration{0, 20*s + s/2}},
		{"a DeferFor from outside, and then a failure", takes(reconcile.Result{}, failed), s / 2, deferFor(20 * s), []time.Duration{0, 20*s + s/2}},
		{"a DeferFor from outside, and then a terminal error", takes(reconcile.Result{}, terminal), s / 2, deferFor(20 * s), []time.Duration{0, 20*s + s/2}},
		{"a Wake, then RequeueAfter", takes(reconcile.Result{RequeueAfter: time.Hour}, nil), s / 2, wake, []time.Duration{0, s}},
		{"a Wake, then a failure", takes(reconcile.Result{}, failed), s / 2, wake, []time.Duration{0, s}},
		//lint:ignore SA1019 Controllers still look at Requeue.
		{"a Remove, then Requeue", takes(reconcile.Result{Requeue: true}, nil), s / 2, remove, []time.Duration{0}},
		{"a Remove, then a failure", takes(reconcile.Result{}, failed), s / 2, remove, []time.Duration{0}},
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

// A failure whose backoff is over, or whose limiter names no wait, took the wait of DeferFor away.
func TestDeferForBesideAFailureWithoutAWait(t *testing.T) {
	for name, row := range map[string]struct {
		limiter workqueue.TypedRateLimiter[reconcile.Request]
		event   time.Duration // of an event that brings the object before its retry
	}{
		"an early failure": {workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Hour), 500 * time.Millisecond},
		"a bucket":         {&workqueue.TypedBucketRateLimiter[reconcile.Request]{Limiter: rate.NewLimiter(10, 100)}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var began []time.Time
			c := start(t, fresh("defers"), options{}, func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				switch began = append(began, time.Now()); len(began) {
				case 1:
					return fail(ctx)
				case 2:
					time.Sleep(time.Second) // The retry of the first failure is due.
					ctrlqueue.DeferFor(ctx, time.Hour)
					return fail(ctx)
				}
				return reconcile.Result{}, nil
			}, func(o *controller.Options) { o.RateLimiter = row.limiter })
			c.q.Add(request("a"))
			if row.event > 0 {
				time.Sleep(row.event)
				c.q.Add(request("a"))
			}
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			if len(began) != 3 || began[2].Sub(began[1]) < time.Hour {
				t.Errorf("%s: began at %v", name, began)
			}
			c.end(t)
		})
	}
}

// A test of a reconciler calls it with a context of no controller.
func TestDeferForWithoutAController(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, 0: 1, -1: 1} {
		if got := ctrlqueue.DeferFor(t.Context(), d); got != (reconcile.Result{RequeueAfter: want}) {
			t.Errorf("DeferFor(%v) is %+v, want a RequeueAfter of %v", d, got, want)
		}
	}
}

// The limiter keeps nothing of an object that was removed while its reconcile failed, or panicked.
func TestReconcileThatWasRemovedLeavesNoFailures(t *testing.T) {
	for name, end := range map[string]func() (reconcile.Result, error){
		"error": func() (reconcile.Result, error) { return reconcile.Result{}, errors.New("failed") },
		"panic": func() (reconcile.Result, error) { panic("failed") },
	} {
		synctest.Test(t, func(t *testing.T) {
			p := startScript(t, "removed", options{}, func(context.Context) (reconcile.Result, error) {
				return reconcile.Result{}, errors.New("failed before")
			}, func(context.Context) (reconcile.Result, error) {
				time.Sleep(time.Second)
				return end()
			})
			p.q.Add(request("a"))
			time.Sleep(time.Second / 2)
			p.q.Remove(request("a"))
			time.Sleep(time.Minute)
			if n := p.q.NumRequeues(request("a")); n != 0 || len(p.began) != 2 {
				t.Errorf("%s: %d reconciles and %d failures, want 2 and 0", name, len(p.began), n)
			}
			p.end(t)
		})
	}
}

// A Remove comes at any time beside the end of a reconcile. The object stays away whatever the reconcile
// asks for.
func TestRemoveBesideTheEndOfAReconcile(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context) (reconcile.Result, error){
		"RequeueAfter": func(context.Context) (reconcile.Result, error) { return reconcile.Result{RequeueAfter: time.Hour}, nil },
		"error":        fail,
		"DeferFor":     func(ctx context.Context) (reconcile.Result, error) { return ctrlqueue.DeferFor(ctx, time.Hour), nil },
		"both": func(ctx context.Context) (reconcile.Result, error) {
			return ctrlqueue.DeferFor(ctx, time.Hour), errors.New("failed")
		},
	} {
		again := 0
		const rounds = 2000
		besideTheEnd(t, rounds, end, func(q *requestQueue, r reconcile.Request) (settled func(reconciles int64)) {
			removed := q.Remove(r)
			return func(int64) {
				if _, has := q.Find(r); has && removed {
					again++
				}
			}
		})
		if again > 0 {
			t.Errorf("%s: %d of %d removed objects wait", name, again, rounds)
		}
	}
}

// An event follows the Remove. The queue took the event back too: 1 to 17 of 2,000.
func TestEventAfterARemoveBesideTheEndOfAReconcile(t *testing.T) {
	lost := 0
	const rounds = 2000
	besideTheEnd(t, rounds, fail, func(q *requestQueue, r reconcile.Request) (settled func(reconciles int64)) {
		q.Remove(r)
		q.Add(r)
		return func(reconciles int64) {
			if reconciles != 2 {
				lost++
			}
		}
	})
	if lost > 0 {
		t.Errorf("%d of %d events are lost", lost, rounds)
	}
}

func fail(context.Context) (reconcile.Result, error) { return reconcile.Result{}, errors.New("failed") }

// besideTheEnd has a new object reconciled in each round, and calls meanwhile at about the end of the
// reconcile. It calls what meanwhile returns with the number of reconciles of the object, once the queue
// is idle.
func besideTheEnd(t *testing.T, rounds int64, end func(context.Context) (reconcile.Result, error),
	meanwhile func(*requestQueue, reconcile.Request) (settled func(reconciles int64))) {
	t.Helper()
	var begun atomic.Int64
	c := start(t, "beside", options{}, func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		begun.Add(1)
		return end(ctx)
	}, func(o *controller.Options) {
		o.RateLimiter = clientgo.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Hour, time.Hour)
	})
	for n := range rounds {
		r, before := request(strconv.FormatInt(n, 10)), begun.Load()
		c.q.Add(r)
		for begun.Load() == before {
			runtime.Gosched()
		}
		for range rand.IntN(300) {
			begun.Load()
		}
		settled := meanwhile(c.q, r)
		if err := c.q.WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		settled(begun.Load() - before)
		c.q.Remove(r)
	}
	c.stop()
	<-c.over
}
