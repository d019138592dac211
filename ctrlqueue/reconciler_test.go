package ctrlqueue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// This file runs controllers of controller-runtime without an API server: the test gives their
// source the queue.

type (
	options      = ctrlqueue.Options[reconcile.Request]
	requestQueue = ctrlqueue.Queue[reconcile.Request]
)

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}
}

func draining(grace time.Duration) options {
	return options{AtEnd: workqueue.EndDrain, Grace: grace}
}

// A running controller of a manager, and the end of both.
type running struct {
	q    *requestQueue
	mgr  *standIn
	stop context.CancelFunc
	over chan error
}

// start starts a manager, and a controller with one worker on our queue. set sets further options of the controller.
func start(t *testing.T, name string, o options, do reconcile.Func, set ...func(*controller.Options)) *running {
	t.Helper()
	opts := controller.Options{Reconciler: do}
	for _, f := range set {
		f(&opts)
	}
	s := newStandIn()
	if o.Grace > 0 {
		return startIn(t, s, ctrlqueue.WrapManager(s, o), name, opts)
	}
	b := ctrlqueue.For(o)
	opts.NewQueue, opts.Reconciler = b.NewQueue, b.Reconciler(b.Reconciler(do)) // Middleware may wrap twice.
	return startIn(t, s, s, name, opts)
}

// fromASecond has a failed object retried after 1 s, 2 s, 4 s and so on.
func fromASecond(o *controller.Options) {
	o.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Hour)
}

// atATime has a controller reconcile so many objects at a time.
func atATime(n int) func(*controller.Options) {
	return func(o *controller.Options) { o.MaxConcurrentReconciles = n }
}

// startIn starts the manager mgr, which wraps s, with a controller.
func startIn(t *testing.T, s *standIn, mgr manager.Manager, name string, opts controller.Options) *running {
	t.Helper()
	r := &running{mgr: s, over: make(chan error, 1)}
	ready := make(chan struct{})
	addController(t, mgr, name, opts, func(q *requestQueue) {
		r.q = q
		close(ready)
	})
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.over <- mgr.Start(ctx) }()
	<-ready
	return r
}

// addController adds a controller that reports its queue when it starts.
func addController(t *testing.T, mgr manager.Manager, name string, opts controller.Options, started func(*requestQueue)) {
	t.Helper()
	opts.Logger = logr.Discard()
	c, err := controller.New(name, mgr, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Watch(source.Func(func(_ context.Context, q clientgo.TypedRateLimitingInterface[reconcile.Request]) error {
		ours, ok := q.(*requestQueue)
		if !ok {
			t.Errorf("the queue of %s is a %T", name, q)
		}
		started(ours)
		return nil
	})); err != nil {
		t.Fatal(err)
	}
}

// bubble runs a subtest under virtual time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// works is the work of a reconcile: it takes d, or ends with its context.
func works(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}

// end stops the controller and waits for it.
func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.over; err != nil {
		t.Error(err)
	}
	time.Sleep(time.Minute) // A context that was left running ends.
}

func TestReAddContextEndsWhenTheObjectChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []error
		c := start(t, "told", options{}, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			changed, cancel := ctrlqueue.ReAddContext(ctx, r)
			defer cancel()
			ends = append(ends, works(changed, time.Hour))
			if ctx.Err() != nil {
				t.Error("the context of the reconcile has ended too")
			}
			return reconcile.Result{}, nil
		})
		c.q.Add(request("a"))
		synctest.Wait()
		c.q.Add(request("b")) // Another object does not end the context.
		synctest.Wait()
		if len(ends) != 0 {
			t.Error("another object has ended the context")
		}
		c.q.Add(request("a"))
		time.Sleep(3 * time.Hour) // b, and a again without an add.
		synctest.Wait()
		if want := fmt.Sprint([]error{context.Canceled, nil, nil}); fmt.Sprint(ends) != want {
			t.Errorf("the contexts have ended with %v, want %v", ends, want)
		}
		c.end(t)
	})
}

// A reconciler can be called without a controller, as tests of reconcilers do.
func TestReAddContextWithoutAController(t *testing.T) {
	for _, b := range []*ctrlqueue.Binding[reconcile.Request]{ctrlqueue.For(options{}), ctrlqueue.For(options{CancelOnReAdd: 3})} {
		r := b.Reconciler(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			ctx, cancel := ctrlqueue.ReAddContext(ctx, r)
			if ctx.Err() != nil {
				t.Error("the context has ended at once")
			}
			cancel()
			return reconcile.Result{}, ctx.Err()
		}))
		if _, err := r.Reconcile(t.Context(), request("a")); !errors.Is(err, context.Canceled) {
			t.Errorf("after its CancelFunc the context has %v", err)
		}
	}
}

// NewQueue of the Binding, without its Reconciler: no change would ever end the context.
func TestReAddContextWithoutTheReconciler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panics []any
		s := newStandIn()
		b := ctrlqueue.For(options{})
		c := startIn(t, s, s, "forgot the reconciler", controller.Options{NewQueue: b.NewQueue, Reconciler: reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			defer func() { panics = append(panics, recover()) }()
			_, cancel := ctrlqueue.ReAddContext(ctx, r)
			cancel()
			return reconcile.Result{}, nil
		})})
		c.q.Add(request("a"))
		synctest.Wait()
		const want = `[ctrlqueue: controller "forgot the reconciler": ReAddContext needs the Reconciler of the Binding around the reconciler]`
		if got := fmt.Sprint(panics); got != want {
			t.Errorf("the panic is %s, want %s", got, want)
		}
		c.end(t)
	})
}

// A reconcile that writes to its own object is cancelled by the event of the write, each time.
// Without a bound the row would never end.
func TestCancelOnReAddHasABound(t *testing.T) {
	for most, cancels := range map[int]int{0: 0, 1: 1, 3: 3, 5: 5} {
		synctest.Test(t, func(t *testing.T) {
			var cancelled, finished int
			var c *running
			c = start(t, "cancels", options{CancelOnReAdd: most}, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				if finished == 0 {
					c.q.Add(r)
				}
				err := works(ctx, time.Second)
				if err != nil {
					cancelled++
				} else {
					finished++
				}
				return reconcile.Result{}, err
			})
			c.q.AddRateLimited(request("a"))
			time.Sleep(time.Hour)
			synctest.Wait()
			// The add of the reconcile that has finished is another run.
			if cancelled != cancels || finished != 2 {
				t.Errorf("at most %d: %d were cancelled and %d finished, want %d and 2", most, cancelled, finished, cancels)
			}
			if n := c.q.NumRequeues(request("a")); n != 0 {
				t.Errorf("at most %d: the cancels count as %d failures", most, n)
			}
			c.end(t)
		})
	}
}

// Cancels before and after a removal are not in a row. Without the removals, the second reconcile
// would be the one without a cancel.
func TestCancelsBeforeARemovalDoNotCount(t *testing.T) {
	for name, remove := range map[string]func(q *requestQueue){
		"Remove":     func(q *requestQueue) { q.Remove(request("a")) },
		"RemoveFunc": func(q *requestQueue) { q.RemoveFunc(func(r reconcile.Request) bool { return r == request("a") }) },
	} {
		synctest.Test(t, func(t *testing.T) {
			cancelled := 0
			c := start(t, "removals", options{CancelOnReAdd: 1}, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				err := works(ctx, time.Second)
				if err != nil {
					cancelled++
				}
				return reconcile.Result{}, err
			})
			for range 3 {
				c.q.Add(request("a"))
				synctest.Wait()
				c.q.Add(request("other")) // The worker holds this object when a is removed.
				c.q.Add(request("a"))
				synctest.Wait()
				remove(c.q)
				time.Sleep(time.Minute)
			}
			synctest.Wait()
			if cancelled != 3 {
				t.Errorf("%s: %d reconciles were cancelled, want 3", name, cancelled)
			}
			c.end(t)
		})
	}
}

// A panic ends a row of cancels, as an error does.
func TestCancelsBeforeAPanicDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, cancelled := 0, 0
		c := start(t, "panics", options{CancelOnReAdd: 2}, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			if calls++; calls == 2 {
				panic("by the test")
			}
			err := works(ctx, time.Minute)
			if err != nil {
				cancelled++
			}
			return reconcile.Result{}, err
		})
		for range 4 {
			c.q.Add(request("a"))
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if cancelled != 3 {
			t.Errorf("%d reconciles were cancelled, want the first and two after the panic", cancelled)
		}
		c.end(t)
	})
}

// A controller stops with a backlog of ten: the number of reconciled objects, and how the context
// of the last reconcile has ended.
func TestBacklogAtTheEndOfAController(t *testing.T) {
	lost := errors.New("leader election lost")
	for _, row := range []struct {
		name       string
		options    options
		reconciled int
		end        string // the error and the cause of the last context
		lost       error
	}{
		{"without a drain nothing more is reconciled", options{}, 1, "context canceled, context canceled", nil},
		{"a reconcile that has the time comes to its end", options{Grace: time.Minute}, 1, "<nil>, <nil>", nil},
		{"a drain that has the time reconciles all", draining(time.Minute), 10, "<nil>, <nil>", nil},
		{"a drain that has not ends", draining(4700 * time.Millisecond), 6, "context canceled, ctrlqueue: Grace is over", nil},
		{"no drain if the leadership is lost", draining(time.Minute), 1, "context canceled, context canceled", lost},
		{"and no grace", options{Grace: time.Minute}, 1, "context canceled, context canceled", lost},
	} {
		bubble(t, row.name, func(t *testing.T) {
			var reconciled int
			var last string
			c := start(t, "ends", row.options, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				reconciled++
				if works(ctx, time.Second) != nil {
					time.Sleep(100 * time.Millisecond) // Time for the controller to shut the queue down.
				}
				last = fmt.Sprintf("%v, %v", ctx.Err(), context.Cause(ctx))
				return reconcile.Result{}, nil
			})
			for i := range 10 {
				c.q.Add(request(fmt.Sprint(i)))
			}
			time.Sleep(500 * time.Millisecond)
			before := time.Now()
			if row.lost != nil {
				c.mgr.lost <- row.lost
			} else {
				c.stop()
			}
			if err := <-c.over; err != row.lost {
				t.Error(err)
			}
			c.mgr.running.Wait()
			c.stop()
			if took := time.Since(before); took > row.options.Grace+100*time.Millisecond {
				t.Errorf("the end took %v", took)
			}
			if reconciled != row.reconciled || last != row.end {
				t.Errorf("%d reconciles, the last context ended with %s, want %d and %s", reconciled, last, row.reconciled, row.end)
			}
			c.q.ShutDown()
			time.Sleep(time.Hour)
		})
	}
}

// The timeout of a controller holds in a drain too. A reconcile that has used up its timeout sees a deadline and no
// cancel: the order of two timers decided that, so there are a hundred reconciles.
func TestTimeoutIfThereIsAGrace(t *testing.T) {
	const timeout, reconciles = 5 * time.Second, 100
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := start(t, "timeout", draining(time.Hour), func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			began := time.Now()
			<-ctx.Done()
			if n++; ctx.Err() != context.DeadlineExceeded || time.Since(began) != timeout {
				t.Errorf("after %v a context ended with %v", time.Since(began), ctx.Err())
			}
			return reconcile.Result{}, nil
		}, func(o *controller.Options) { o.ReconciliationTimeout = timeout })
		for i := range reconciles {
			c.q.Add(request(fmt.Sprint(i)))
		}
		time.Sleep(timeout * reconciles / 2)
		c.end(t)
		if n != reconciles {
			t.Errorf("%d reconciles, want %d", n, reconciles)
		}
	})
}

// The Pace and the pace of each object are those of the options.
func TestPaceOptions(t *testing.T) {
	for name, o := range map[string]options{
		"Pace":     {Pace: rate.NewLimiter(2, 1)},
		"ItemPace": {ItemPace: workqueue.Rate{Limit: 2}},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			c := start(t, "paced", o, func(context.Context, reconcile.Request) (reconcile.Result, error) {
				n++
				return reconcile.Result{}, nil
			})
			for range 100 {
				c.q.Add(request("hot"))
				time.Sleep(100 * time.Millisecond)
			}
			synctest.Wait()
			if n < 19 || n > 21 {
				t.Errorf("%s: %d reconciles in ten seconds, want 20", name, n)
			}
			c.end(t)
		})
	}
}
