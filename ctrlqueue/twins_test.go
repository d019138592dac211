package ctrlqueue_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// This file has programs with several controllers of one name.

// With SkipNameValidation two controllers may have one name, such as the controllers of a manager
// that is made anew. Each reconcile hears of its own queue.
func TestTwoControllersOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told [2][]bool // by the controllers: for each reconcile, whether it heard of an add
		var both []*running
		for i := range 2 {
			both = append(both, start(t, "twin", options{}, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				changed, cancel := ctrlqueue.ReAddContext(ctx, r)
				defer cancel()
				select {
				case <-changed.Done():
				case <-time.After(time.Hour):
				}
				told[i] = append(told[i], context.Cause(changed) == workqueue.ErrReAdded)
				return reconcile.Result{}, nil
			}))
			both[i].q.Add(request("a"))
		}
		synctest.Wait()
		both[0].q.Add(request("a"))
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if got, want := fmt.Sprint(told), "[[true false] [false]]"; got != want {
			t.Errorf("the reconciles were told %s, want %s", got, want)
		}
		both[0].end(t)
		both[1].end(t)
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
