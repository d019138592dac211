package ctrlqueue_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// This file has programs with several controllers of one name.

// A twin is one of several controllers of one name.
type twin struct {
	q    *requestQueue
	told []bool // for each reconcile, whether it heard of an add
}

// newTwin adds a controller to the manager. A reconcile takes an hour, or until somebody adds the
// object.
func newTwin(t *testing.T, mgr manager.Manager) *twin {
	t.Helper()
	tw := new(twin)
	addController(t, mgr, "twin", controller.Options{Reconciler: reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		changed, cancel := ctrlqueue.ReAddContext(ctx, r)
		defer cancel()
		select {
		case <-changed.Done():
		case <-time.After(time.Hour):
		}
		tw.told = append(tw.told, context.Cause(changed) == workqueue.ErrReAdded)
		return reconcile.Result{}, nil
	})}, func(q *requestQueue) { tw.q = q })
	return tw
}

// With SkipNameValidation two controllers may have one name, such as the controllers of a manager
// that is made anew. Each reconcile hears of its own queue.
func TestTwoControllersOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mgr := ctrlqueue.WrapManager(newStandIn(), options{})
		first, second := newTwin(t, mgr), newTwin(t, mgr)
		ctx, stop := context.WithCancel(context.Background())
		over := make(chan error)
		go func() { over <- mgr.Start(ctx) }()
		synctest.Wait()
		first.q.Add(request("a"))
		second.q.Add(request("a"))
		synctest.Wait()
		first.q.Add(request("a"))
		time.Sleep(3 * time.Hour)
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
		if want := []bool{true, false}; !slices.Equal(first.told, want) {
			t.Errorf("the first was told %v, want %v", first.told, want)
		}
		if want := []bool{false}; !slices.Equal(second.told, want) {
			t.Errorf("the second was told %v, want %v: nobody has added its object again", second.told, want)
		}
		time.Sleep(time.Hour)
	})
}

// An old manager drains while a new manager, with controllers of the same names, has begun. The
// reconciles of the drain belong to the old manager, and wait for its end.
func TestADrainBesideTheNextManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live []error
		do := func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			time.Sleep(time.Second)
			live = append(live, ctx.Err())
			return reconcile.Result{}, nil
		}
		first, second := start(t, "anew", draining(time.Minute), do), start(t, "anew", draining(time.Minute), do)
		for _, name := range []string{"a", "b", "c"} {
			first.q.Add(request(name))
		}
		synctest.Wait()
		first.end(t)
		if want := []error{nil, nil, nil}; !slices.Equal(live, want) {
			t.Errorf("the contexts of the drain had %v, want %v", live, want)
		}
		second.end(t)
	})
}

// Middleware may wrap a reconciler twice.
func TestAReconcilerThatIsWrappedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		b := ctrlqueue.For(options{CancelOnReAdd: 3})
		s := newStandIn()
		c := startIn(t, s, s, "wrapped-twice", controller.Options{
			NewQueue: b.NewQueue,
			Reconciler: b.Reconciler(b.Reconciler(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				select {
				case <-ctx.Done():
					told++
				case <-time.After(time.Hour):
				}
				return reconcile.Result{}, ctx.Err()
			}))),
		})
		c.q.Add(request("a"))
		synctest.Wait()
		c.q.Add(request("a"))
		time.Sleep(3 * time.Hour)
		c.end(t)
		if told != 1 {
			t.Errorf("told %d times, want once", told)
		}
	})
}
