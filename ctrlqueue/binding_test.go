package ctrlqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// This file has controllers that are bound in wrong ways, and the effect of CancelOnReAdd on the
// entry of an item.

func TestABindingForTwoControllers(t *testing.T) {
	b := ctrlqueue.For(stringOptions{})
	first := b.NewQueue("first", nil)
	mustPanic(t, `ctrlqueue: controller "second": the Binding is that of controller "first", whose queue has not ended: call For for each controller`,
		func() { b.NewQueue("second", nil) })
	first.ShutDown()
	b.NewQueue("second", nil).ShutDown() // As for a manager that is made anew.
}

func TestCancelOnReAddWithoutTheReconciler(t *testing.T) {
	b := ctrlqueue.For(stringOptions{CancelOnReAdd: 3})
	mustPanic(t, `ctrlqueue: controller "pod": CancelOnReAdd, MaxAttempts, GiveUpFor and OnGiveUp need the Reconciler of the Binding around the reconciler`,
		func() { b.NewQueue("pod", nil) })
	b.Reconciler(reconcile.TypedFunc[string](nil))
	b.NewQueue("pod", nil).ShutDown()
}

// The starter of the manager below does not hear why it ends.
func TestGraceWithoutAStartOfTheWrappedManager(t *testing.T) {
	c := &stranger[string]{}
	if err := ctrlqueue.WrapManager(newStandIn(), stringOptions{Grace: time.Second}).Add(c); err != nil {
		t.Fatal(err)
	}
	mustPanic(t, `ctrlqueue: controller "pod": Grace needs a Start of the manager that WrapManager has returned`,
		func() { c.NewQueue("pod", nil) })
}

// A reconciler whose controller has another queue does nothing, and returns an error. Middleware can hide from
// WrapManager that a reconciler has a Binding.
func TestAReconcilerWithTheQueueOfAnother(t *testing.T) {
	other := ctrlqueue.For(options{})
	for name, prepare := range map[string]func(*ctrlqueue.Binding[reconcile.Request], manager.Manager, *controller.Options) manager.Manager{
		"that of controller-runtime": func(_ *ctrlqueue.Binding[reconcile.Request], mgr manager.Manager, _ *controller.Options) manager.Manager {
			return mgr
		},
		"that of WrapManager": func(_ *ctrlqueue.Binding[reconcile.Request], mgr manager.Manager, _ *controller.Options) manager.Manager {
			return ctrlqueue.WrapManager(mgr, options{})
		},
		"that of another Binding": func(b *ctrlqueue.Binding[reconcile.Request], mgr manager.Manager, o *controller.Options) manager.Manager {
			o.NewQueue = other.NewQueue
			q := b.NewQueue("", nil)
			q.Add(request("other")) // Another item is in flight there.
			q.Get()
			return mgr
		},
	} {
		bubble(t, name, func(t *testing.T) {
			b := ctrlqueue.For(options{CancelOnReAdd: 3})
			var errs []error
			inner := b.Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				t.Error("the reconciler was called")
				return reconcile.Result{}, nil
			}))
			opts := controller.Options{Logger: logr.Discard(), Reconciler: reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				_, err := inner.Reconcile(ctx, r)
				errs = append(errs, err)
				return reconcile.Result{}, nil
			})}
			mgr := prepare(b, newStandIn(), &opts)
			c, err := controller.New("any", mgr, opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Watch(source.Func(func(_ context.Context, q clientgo.TypedRateLimitingInterface[reconcile.Request]) error {
				q.Add(request("a"))
				return nil
			})); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(context.Background(), time.Minute)
			defer stop()
			if err := mgr.Start(ctx); err != nil {
				t.Error(err)
			}
			if len(errs) != 1 || errs[0] == nil || !strings.Contains(errs[0].Error(), "ctrlqueue: this reconciler is of one Binding, and the queue of the controller is not") {
				t.Errorf("the errors are %v", errs)
			}
		})
	}
}

// A wrong queue is also found while many items are in flight.
func TestManyReconcilesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const items = 1000
		b := ctrlqueue.For(options{})
		s := newStandIn()
		done := make(chan bool, items)
		nothing := b.Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }))
		c := startIn(t, s, s, "many", controller.Options{
			NewQueue:                b.NewQueue,
			MaxConcurrentReconciles: items,
			Reconciler: reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				time.Sleep(time.Second) // Until all are in flight.
				_, err := nothing.Reconcile(ctx, r)
				done <- err == nil
				return reconcile.Result{}, nil
			}),
		})
		for i := range items {
			c.q.Add(request(fmt.Sprint(i)))
		}
		for range items {
			if !<-done {
				t.Error("a reconcile with the right queue has failed")
			}
		}
		c.end(t)
	})
}

// The object is removed between the end of a reconcile that was cut short and the add of the controller, which brought
// the object back.
func TestARemoveAfterAReconcileThatWasCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *running
		b := ctrlqueue.For(options{CancelOnReAdd: 3})
		reconciles := 0
		inner := b.Reconciler(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			if reconciles++; reconciles > 1 {
				return reconcile.Result{}, nil
			}
			c.q.Add(r)
			return reconcile.Result{}, ctx.Err()
		}))
		s := newStandIn()
		c = startIn(t, s, s, "removed", controller.Options{NewQueue: b.NewQueue, Reconciler: reconcile.Func(
			func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				result, err := inner.Reconcile(ctx, r)
				if !c.q.Remove(r) {
					t.Error("Remove does not find the object")
				}
				return result, err
			})})
		c.q.Add(request("a"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if reconciles != 1 {
			t.Errorf("%d reconciles, want 1", reconciles)
		}
		c.end(t)
	})
}

// A resync has a low priority, and cuts an urgent reconcile short. The retry comes before all less
// urgent objects. A more urgent add raises its priority.
func TestPriorityOfWhatWasCutShort(t *testing.T) {
	for _, row := range []struct {
		handedOut, added int
		want             string
	}{
		{5, -100, "[a cut short a b]"},
		{-100, 5, "[a cut short a b]"},
		{-5, -100, "[a cut short b a]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var reconciled []string
			c := start(t, "cut-short", options{CancelOnReAdd: 3}, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				if err := works(ctx, time.Second); err != nil {
					reconciled = append(reconciled, r.Name+" cut short")
					time.Sleep(time.Second) // It ends after the add.
					return reconcile.Result{}, fmt.Errorf("the reconcile has not come to its end: %w", err)
				}
				reconciled = append(reconciled, r.Name)
				return reconcile.Result{}, nil
			})
			c.q.AddWithOpts(prioritized(row.handedOut), request("a"))
			synctest.Wait()
			c.q.Add(request("b"))
			c.q.AddWithOpts(prioritized(row.added), request("a"))
			time.Sleep(time.Minute)
			if n := c.q.NumRequeues(request("a")); n > 0 || fmt.Sprint(reconciled) != row.want {
				t.Errorf("handed out at %d and added at %d: reconciled are %v with %d failures, want %s", row.handedOut, row.added, reconciled, n, row.want)
			}
			c.end(t)
		})
	}
}

// Only a reconcile that returns the cancel was cut short, as in workqueue.Run: any other result
// counts.
func TestAReconcileThatFailsAfterItsObjectHasChanged(t *testing.T) {
	for _, row := range []struct {
		err      error
		failures int
	}{
		{nil, 0}, {workqueue.ErrReAdded, 0}, {context.Canceled, 0}, {errors.New("of its own"), 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := 0
			c := start(t, "fails", options{CancelOnReAdd: 3}, func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				if began++; began == 1 {
					<-ctx.Done()
					return reconcile.Result{}, row.err
				}
				<-time.After(time.Second)
				return reconcile.Result{}, nil
			})
			c.q.Add(request("a"))
			synctest.Wait()
			c.q.Add(request("a"))
			synctest.Wait()
			if n := c.q.NumRequeues(request("a")); n != row.failures || began != 2 {
				t.Errorf("%v: %d failures and %d reconciles, want %d and 2", row.err, n, began, row.failures)
			}
			time.Sleep(time.Minute)
			c.end(t)
		})
	}
}
