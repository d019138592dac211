package ctrlqueue_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// A manager without a cluster, which keeps what is added to it.
type standIn struct {
	manager.Manager
	added []manager.Runnable
}

func (s *standIn) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true)}
}

func (s *standIn) Add(r manager.Runnable) error {
	s.added = append(s.added, r)
	return nil
}

// All controllers of a manager get the queue, and their reconcilers a context that
// outlives the end of the manager for the drain.
func TestManagerSwitchesItsControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped, stop := context.WithCancel(context.Background())
		s := &standIn{}
		mgr := ctrlqueue.Manager(s, options{Drain: time.Minute, Stopped: stopped})
		var mu sync.Mutex // guards what follows: there are two controllers
		var live []error
		var queues []*requestQueue
		for _, name := range []string{"first", "second"} {
			c, err := controller.New(name, mgr, controller.Options{Logger: logr.Discard(), Reconciler: reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				live = append(live, ctx.Err())
				return reconcile.Result{}, nil
			})})
			if err != nil {
				t.Fatal(err)
			}
			err = c.Watch(source.Func(func(_ context.Context, q clientgo.TypedRateLimitingInterface[reconcile.Request]) error {
				ours, ok := q.(*requestQueue)
				if !ok {
					t.Fatalf("the queue of %s is a %T", name, q)
				}
				mu.Lock()
				queues = append(queues, ours)
				mu.Unlock()
				ours.Add(request("a"))
				ours.Add(request("b"))
				return nil
			}))
			if err != nil {
				t.Fatal(err)
			}
		}
		over := make(chan error)
		for _, r := range s.added {
			go func() { over <- r.Start(stopped) }()
		}
		synctest.Wait()
		if names := ctrlqueue.Names(); !slices.Contains(names, "first") || !slices.Contains(names, "second") {
			t.Errorf("known are %v", names)
		}
		stop()
		for range s.added {
			if err := <-over; err != nil {
				t.Error(err)
			}
		}
		if want := []error{nil, nil, nil, nil}; len(queues) != 2 || !slices.Equal(live, want) {
			t.Errorf("the contexts of the reconciles had %v, want %v", live, want)
		}
		time.Sleep(time.Hour)
	})
}

// What else is added to the manager goes there as it is.
func TestManagerAddsWhatIsNoController(t *testing.T) {
	s := &standIn{}
	mgr := ctrlqueue.Manager(s, options{})
	runnable := manager.RunnableFunc(func(context.Context) error { return nil })
	if err := mgr.Add(runnable); err != nil || len(s.added) != 1 {
		t.Errorf("added are %v, %v", s.added, err)
	}
	other, err := controller.NewTyped("other", mgr, controller.TypedOptions[string]{
		Reconciler: reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) { return reconcile.Result{}, nil }),
	})
	if err != nil || len(s.added) != 2 || s.added[1] != manager.Runnable(other) {
		t.Errorf("a controller of other requests: added are %v, %v", s.added, err)
	}
}

// A controller of another version, or of somebody else's making.
type stranger struct {
	controller.Controller
	Name string
}

func TestManagerRefusesAControllerThatItCannotSwitch(t *testing.T) {
	s := &standIn{}
	mgr := ctrlqueue.Manager(s, options{})
	for _, c := range []controller.Controller{&stranger{}, stranger{}} {
		if err := mgr.Add(c); err == nil || !strings.Contains(err.Error(), "use NewQueue") || len(s.added) > 0 {
			t.Errorf("the error is %v", err)
		}
	}
}
