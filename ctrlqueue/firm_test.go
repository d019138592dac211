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

	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A script has the steps of the reconciles of an object, in order, and when each began. A
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

// defers returns a step of a second, which defers for 5 s.
func defers(err error) func(ctx context.Context) (reconcile.Result, error) {
	return func(ctx context.Context) (reconcile.Result, error) {
		defer time.Sleep(time.Second)
		return ctrlqueue.DeferFor(ctx, 5*time.Second), err
	}
}

// asks returns a step without a duration, which calls DeferFor.
func asks(result reconcile.Result, err error, waits ...time.Duration) func(ctx context.Context) (reconcile.Result, error) {
	return func(ctx context.Context) (reconcile.Result, error) {
		for _, d := range waits {
			ctrlqueue.DeferFor(ctx, d)
		}
		return result, err
	}
}

// takes returns a step of a second.
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
		bubble(t, c.name, func(t *testing.T) {
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
	}
}

// A failure whose backoff is over took the wait of DeferFor away.
func TestDeferForBesideAnEarlyFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startScript(t, "defers", options{}, fail, func(ctx context.Context) (reconcile.Result, error) {
			time.Sleep(time.Second) // The retry of the first failure is due.
			ctrlqueue.DeferFor(ctx, time.Hour)
			return fail(ctx)
		})
		p.q.Add(request("a"))
		time.Sleep(time.Millisecond) // The backoff is 5 ms.
		p.q.Add(request("a"))
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if len(p.began) != 3 || p.began[2]-p.began[1] < time.Hour {
			t.Errorf("began at %v", p.began)
		}
		p.end(t)
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

func fail(context.Context) (reconcile.Result, error) { return reconcile.Result{}, errors.New("failed") }

// The limiter keeps nothing of an object that was removed while its reconcile failed, or panicked.
func TestReconcileThatWasRemovedLeavesNoFailures(t *testing.T) {
	for name, end := range map[string]func() error{"error": fails, "panic": panicked} {
		synctest.Test(t, func(t *testing.T) {
			p := startScript(t, "removed", options{}, fail, func(context.Context) (reconcile.Result, error) {
				time.Sleep(time.Second)
				return reconcile.Result{}, end()
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
// asks for, and an event that follows the Remove brings it once more.
func TestRemoveBesideTheEndOfAReconcile(t *testing.T) {
	for name, row := range map[string]struct {
		end   func(ctx context.Context) (reconcile.Result, error)
		event bool
	}{
		"RequeueAfter":       {end: asks(reconcile.Result{RequeueAfter: time.Hour}, nil)},
		"error":              {end: fail},
		"DeferFor":           {end: asks(reconcile.Result{}, nil, time.Hour)},
		"DeferFor and error": {end: asks(reconcile.Result{}, errors.New("failed"), time.Hour)},
		"error and an event": {end: fail, event: true},
	} {
		const rounds = 2000
		var begun atomic.Int64
		wrong := 0
		c := start(t, "beside", options{}, func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			begun.Add(1)
			return row.end(ctx)
		}, func(o *controller.Options) {
			o.RateLimiter = clientgo.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Hour, time.Hour)
		})
		for n := range rounds {
			r, before := request(strconv.Itoa(n)), begun.Load()
			c.q.Add(r)
			for begun.Load() == before {
				runtime.Gosched()
			}
			for range rand.IntN(300) {
				begun.Load()
			}
			removed := c.q.Remove(r)
			if row.event {
				c.q.Add(r)
			}
			if err := c.q.WaitIdle(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, waits := c.q.Find(r)
			if row.event && begun.Load() != before+2 || !row.event && removed && waits {
				wrong++
			}
			c.q.Remove(r)
		}
		c.stop()
		<-c.over
		if wrong > 0 {
			t.Errorf("%s: %d of %d removed objects wait, or have lost their event", name, wrong, rounds)
		}
	}
}
