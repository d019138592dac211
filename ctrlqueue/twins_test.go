package ctrlqueue_test

import (
	"context"
	"slices"
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

// This file has several controllers of one name in a program.

// A twin is one of several controllers of one name.
type twin struct {
	q    *requestQueue
	told []bool // of each of its reconciles, whether it heard of an add
}

// newTwin adds a controller to the manager whose reconciles take an hour, or until
// somebody adds the object.
func newTwin(t *testing.T, mgr manager.Manager) *twin {
	t.Helper()
	tw := new(twin)
	c, err := controller.New("twin", mgr, controller.Options{Logger: logr.Discard(), Reconciler: reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		changed, cancel := ctrlqueue.ReAddContext(ctx, r)
		defer cancel()
		select {
		case <-changed.Done():
		case <-time.After(time.Hour):
		}
		tw.told = append(tw.told, context.Cause(changed) == workqueue.ErrReAdded)
		return reconcile.Result{}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Watch(source.Func(func(_ context.Context, q clientgo.TypedRateLimitingInterface[reconcile.Request]) error {
		tw.q = q.(*requestQueue)
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	return tw
}

// With SkipNameValidation two controllers may have one name, as those of a manager that is
// made anew beside the old one. Each reconcile hears of its own queue.
func TestTwoControllersOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{}
		mgr := ctrlqueue.Manager(s, options{})
		first, second := newTwin(t, mgr), newTwin(t, mgr)
		ctx, stop := context.WithCancel(context.Background())
		over := make(chan error)
		for _, r := range s.added {
			go func() { over <- r.Start(ctx) }()
			synctest.Wait()
		}
		first.q.Add(request("a"))
		second.q.Add(request("a"))
		synctest.Wait()
		first.q.Add(request("a"))
		time.Sleep(3 * time.Hour)
		stop()
		for range s.added {
			if err := <-over; err != nil {
				t.Error(err)
			}
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

// An old manager drains while a new one, with controllers of the same names, has begun.
// The reconciles of the drain belong to the old one, whose end is what they wait for.
func TestADrainBesideTheNextManager(t *testing.T) {
	t.Run("Manager", func(t *testing.T) {
		drainBeside(t, ctrlqueue.Manager, func(r reconcile.Reconciler) reconcile.Reconciler { return r })
	})
	// Which finds the queue by its name.
	t.Run("Reconciler", func(t *testing.T) {
		drainBeside(t, func(mgr manager.Manager, _ options) manager.Manager { return mgr }, func(r reconcile.Reconciler) reconcile.Reconciler {
			return ctrlqueue.Reconciler("anew", r)
		})
	})
}

func drainBeside(t *testing.T, wrapManager func(manager.Manager, options) manager.Manager, wrapReconciler func(reconcile.Reconciler) reconcile.Reconciler) {
	synctest.Test(t, func(t *testing.T) {
		stopped, stop := context.WithCancel(context.Background())
		next, stopNext := context.WithCancel(context.Background())
		var live []error
		do := reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			time.Sleep(time.Second)
			live = append(live, ctx.Err())
			return reconcile.Result{}, nil
		})
		over := make(chan error)
		begin := func(ctx context.Context, requests ...string) {
			s := &standIn{}
			o := options{Drain: time.Minute, Stopped: ctx}
			c, err := controller.New("anew", wrapManager(s, o), controller.Options{
				Logger: logr.Discard(), Reconciler: wrapReconciler(do), NewQueue: ctrlqueue.NewQueue(o),
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Watch(source.Func(func(_ context.Context, q clientgo.TypedRateLimitingInterface[reconcile.Request]) error {
				for _, r := range requests {
					q.Add(request(r))
				}
				return nil
			})); err != nil {
				t.Fatal(err)
			}
			go func() { over <- c.Start(ctx) }()
			synctest.Wait()
		}
		begin(stopped, "a", "b", "c")
		begin(next)
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
		if want := []error{nil, nil, nil}; !slices.Equal(live, want) {
			t.Errorf("the contexts of the drain had %v, want %v", live, want)
		}
		stopNext()
		if err := <-over; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
	})
}

// A reconciler may be wrapped by Reconciler where Manager does so too.
func TestAReconcilerThatIsWrappedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		inner := ctrlqueue.Reconciler("wrapped-twice", reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			changed, cancel := ctrlqueue.ReAddContext(ctx, r)
			defer cancel()
			select {
			case <-changed.Done():
				told++
			case <-time.After(time.Hour):
			}
			return reconcile.Result{}, nil
		}))
		c := start(t, "wrapped-twice", options{}, inner.Reconcile)
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

// asking is a context whose Err looks at the queues that there are.
type asking struct {
	context.Context
	asked func()
}

func (c asking) Err() error {
	c.asked()
	return c.Context.Err()
}

// Whether a manager has stopped is for its context to say, which may be of any type.
func TestAContextThatLooksForQueues(t *testing.T) {
	asked := false
	stopped := asking{t.Context(), func() {
		asked = true
		ctrlqueue.Names()
	}}
	q := ctrlqueue.NewQueue(stringOptions{Drain: time.Second, Stopped: stopped})("asking", nil)
	defer q.ShutDown()
	r := ctrlqueue.Reconciler("asking", reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	}))
	if _, err := r.Reconcile(t.Context(), "a"); err != nil || !asked {
		t.Errorf("got %v, asked: %v", err, asked)
	}
}
