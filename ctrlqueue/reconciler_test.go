package ctrlqueue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"k8s.io/apimachinery/pkg/types"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// This file runs controllers of controller-runtime without an API server: a source of
// theirs is a function that is given the queue.

type (
	options      = ctrlqueue.Options[reconcile.Request]
	requestQueue = ctrlqueue.Queue[reconcile.Request]
)

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}
}

// A running controller, and the end of it.
type running struct {
	q    *requestQueue
	stop context.CancelFunc
	over chan error
}

// start starts a controller with one worker whose queue is ours. A timeout is that of
// each reconcile.
func start(t *testing.T, name string, o options, do reconcile.Func, timeout ...time.Duration) *running {
	t.Helper()
	r := &running{over: make(chan error, 1)}
	opts := controller.Options{
		Reconciler:         ctrlqueue.Reconciler(name, do),
		NewQueue:           ctrlqueue.NewQueue(o),
		SkipNameValidation: new(true),
		Logger:             logr.Discard(),
	}
	for _, d := range timeout {
		opts.ReconciliationTimeout = d
	}
	c, err := controller.NewUnmanaged(name, opts)
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	if err := c.Watch(source.Func(func(_ context.Context, q clientgo.TypedRateLimitingInterface[reconcile.Request]) error {
		r.q = q.(*requestQueue)
		close(ready)
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.over <- c.Start(ctx) }()
	<-ready
	return r
}

// end stops the controller and waits for it.
func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.over; err != nil {
		t.Error(err)
	}
	time.Sleep(time.Minute) // What a context left running ends.
}

func TestReAddContextEndsWhenTheObjectChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []error
		c := start(t, "told", options{}, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			changed, cancel := ctrlqueue.ReAddContext(ctx, r)
			defer cancel()
			select {
			case <-changed.Done():
			case <-time.After(time.Hour):
			}
			ends = append(ends, changed.Err())
			if ctx.Err() != nil {
				t.Error("the context of the reconcile has ended too")
			}
			return reconcile.Result{}, nil
		})
		c.q.Add(request("a"))
		synctest.Wait()
		c.q.Add(request("b")) // Another object does not end it.
		synctest.Wait()
		if len(ends) != 0 {
			t.Error("another object has ended the context")
		}
		c.q.Add(request("a"))
		time.Sleep(3 * time.Hour) // b, and a again, which nobody adds.
		synctest.Wait()
		if want := fmt.Sprint([]error{context.Canceled, nil, nil}); fmt.Sprint(ends) != want {
			t.Errorf("the contexts have ended with %v, want %v", ends, want)
		}
		c.end(t)
	})
}

// A reconciler can be called without a controller, as tests of reconcilers do.
func TestReAddContextWithoutAQueue(t *testing.T) {
	r := ctrlqueue.Reconciler("nobody", reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
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

// A reconcile that writes to its own object is cancelled by the event of that, each
// time. Without a bound it would never end.
func TestCancelOnReAddHasABound(t *testing.T) {
	for most, cancels := range map[int]int{0: 3, 1: 1, 5: 5} {
		synctest.Test(t, func(t *testing.T) {
			var cancelled, finished int
			var c *running
			var started sync.WaitGroup
			started.Add(1)
			r := ctrlqueue.CancelOnReAdd(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				started.Wait()
				if finished == 0 {
					c.q.Add(r)
				}
				select {
				case <-ctx.Done():
					cancelled++
					return reconcile.Result{}, ctx.Err()
				case <-time.After(time.Second):
					finished++
					return reconcile.Result{}, nil
				}
			}), most)
			c = start(t, "cancels", options{}, r.Reconcile)
			started.Done()
			c.q.AddRateLimited(request("a"))
			time.Sleep(time.Hour)
			synctest.Wait()
			// The add of the one that has finished is a run of its own.
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

// A reconcile at 5 that an event at -100 cancelled, as those of a resync are, came back behind
// all objects of 0; and never, if Remove took that event back.
func TestWhatCancelOnReAddCutsShortComesBackAtTheHigherPriority(t *testing.T) {
	for _, removes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var order []string
			r := ctrlqueue.CancelOnReAdd(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				order = append(order, r.Name)
				select {
				case <-ctx.Done():
					time.Sleep(time.Second)
				case <-time.After(time.Hour):
				}
				return reconcile.Result{}, ctx.Err()
			}), 1)
			c := start(t, fmt.Sprint("cut short ", removes), options{}, r.Reconcile)
			c.q.AddWithOpts(priorityqueue.AddOpts{Priority: new(5)}, request("a"))
			synctest.Wait()
			c.q.Add(request("b"))
			c.q.AddWithOpts(priorityqueue.AddOpts{Priority: new(-100)}, request("a"))
			if removes {
				c.q.Remove(request("a"))
			}
			time.Sleep(10 * time.Hour)
			synctest.Wait()
			if want := "[a a b]"; fmt.Sprint(order) != want {
				t.Errorf("removed %v: reconciled %v, want %s", removes, order, want)
			}
			c.end(t)
		})
	}
}

func TestCancelOnReAddPanicsForANegativeNumber(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); got != "ctrlqueue: CancelOnReAdd with a negative number of cancels: -1" {
			t.Errorf("the panic is %s", got)
		}
	}()
	ctrlqueue.CancelOnReAdd(reconcile.Func(nil), -1)
}

// A controller stops with a backlog of ten: how many of them are reconciled, and how the
// context of the last one has ended.
func TestBacklogAtTheEndOfAController(t *testing.T) {
	stopped, stop := context.WithCancel(context.Background())
	stop()
	for _, row := range []struct {
		name       string
		options    options
		reconciled int
		cause      error // of the end of the last context
	}{
		{"without a drain nothing more is reconciled", options{}, 1, context.Canceled},
		{"a drain that has the time reconciles all", options{Drain: time.Minute, Stopped: stopped}, 10, nil},
		{"a drain that has not ends", options{Drain: 4700 * time.Millisecond, Stopped: stopped}, 6, context.Canceled},
		{"no drain if the leadership is lost", options{Drain: time.Minute, Stopped: context.Background()}, 1, context.Canceled},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reconciled int
				var last error
				c := start(t, "ends", row.options, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
					reconciled++
					select {
					case <-ctx.Done():
						time.Sleep(100 * time.Millisecond) // In which the controller shuts the queue down.
					case <-time.After(time.Second):
					}
					last = ctx.Err()
					return reconcile.Result{}, nil
				})
				for i := range 10 {
					c.q.Add(request(fmt.Sprint(i)))
				}
				time.Sleep(500 * time.Millisecond)
				before := time.Now()
				c.stop()
				if err := <-c.over; err != nil {
					t.Error(err)
				}
				if took := time.Since(before); took > row.options.Drain+100*time.Millisecond {
					t.Errorf("the end took %v", took)
				}
				if reconciled != row.reconciled || last != row.cause {
					t.Errorf("%d reconciles, the last context ended with %v, want %d and %v", reconciled, last, row.reconciled, row.cause)
				}
				c.q.ShutDown()
				time.Sleep(time.Hour)
			})
		})
	}
}

// The timeout of a controller holds in a drain too.
func TestTimeoutDuringADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped, stop := context.WithCancel(context.Background())
		stop()
		var took []time.Duration
		c := start(t, "timeout", options{Drain: time.Minute, Stopped: stopped}, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			began := time.Now()
			<-ctx.Done()
			took = append(took, time.Since(began))
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("the context ended with %v", ctx.Err())
			}
			return reconcile.Result{}, nil
		}, 5*time.Second)
		c.q.Add(request("a"))
		c.q.Add(request("b"))
		time.Sleep(time.Second)
		c.end(t)
		if want := fmt.Sprint([]time.Duration{5 * time.Second, 5 * time.Second}); fmt.Sprint(took) != want {
			t.Errorf("the reconciles took %v, want %v", took, want)
		}
	})
}

// A retry of the controller keeps the priority of the item, and what the reconciler
// says goes before that.
func TestPriorityOfRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		c := start(t, "retries", options{}, func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
			seen = append(seen, r.Name)
			switch len(seen) {
			case 1:
				return reconcile.Result{}, errors.New("fails once")
			case 2:
				return reconcile.Result{RequeueAfter: time.Second, Priority: new(9)}, nil
			}
			return reconcile.Result{}, nil
		})
		low := priorityqueue.AddOpts{Priority: new(-100)}
		c.q.AddWithOpts(low, request("a"))
		synctest.Wait()
		if s := c.q.Snapshot(1); s.WaitingTotal != 1 || s.Waiting[0].Priority != -100 || s.Waiting[0].Failures != 1 {
			t.Errorf("after a failure: %+v", s)
		}
		time.Sleep(500 * time.Millisecond)
		if s := c.q.Snapshot(1); s.WaitingTotal != 1 || s.Waiting[0].Priority != 9 || s.Waiting[0].Failures != 0 {
			t.Errorf("after a RequeueAfter: %+v", s)
		}
		c.end(t)
	})
}
