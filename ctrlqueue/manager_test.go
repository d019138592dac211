package ctrlqueue_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A manager without a cluster. As in controller-runtime, the contexts of the controllers are
// not those of Start: a Start that returns an error does so before their contexts end.
type standIn struct {
	manager.Manager
	added   []manager.Runnable
	lost    chan error
	running sync.WaitGroup
}

func newStandIn() *standIn { return &standIn{lost: make(chan error, 1)} }

func (s *standIn) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true)}
}

func (s *standIn) Add(r manager.Runnable) error {
	s.added = append(s.added, r)
	return nil
}

func (s *standIn) Start(ctx context.Context) error {
	group, cancel := context.WithCancel(context.Background())
	failed := make(chan error, len(s.added))
	for _, r := range s.added {
		s.running.Go(func() { failed <- r.Start(group) })
	}
	select {
	case <-ctx.Done():
		cancel()
		s.running.Wait()
		close(failed)
		return <-failed
	case err := <-s.lost:
		time.AfterFunc(time.Millisecond, cancel)
		return err
	}
}

// A stranger looks like a controller of controller-runtime, as far as WrapManager can tell.
type stranger[R comparable] struct {
	controller.TypedController[R]
	Name     string
	NewQueue func(string, clientgo.TypedRateLimiter[R]) clientgo.TypedRateLimitingInterface[R]
	Do       reconcile.TypedReconciler[R]
}

// openStopped returns the queue of a manager whose context has ended. Start of the manager returns
// at the end of the test.
func openStopped(t *testing.T, name string, o stringOptions) *ctrlqueue.Queue[string] {
	t.Helper()
	s := newStandIn()
	stopping, over, returned := make(chan struct{}), make(chan struct{}), make(chan error)
	s.added = []manager.Runnable{manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		close(stopping)
		<-over
		return nil
	})}
	mgr := ctrlqueue.WrapManager(s, o)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	go func() { returned <- mgr.Start(ctx) }()
	<-stopping
	t.Cleanup(func() {
		close(over)
		if err := <-returned; err != nil {
			t.Error(err)
		}
	})
	c := &stranger[string]{}
	if err := mgr.Add(c); err != nil {
		t.Fatal(err)
	}
	return c.NewQueue(name, newLimiter()).(*ctrlqueue.Queue[string])
}

// A controller of another version, or of somebody else's making.
type unknown struct {
	controller.Controller
	Name string
}

func TestWrapManagerRefusesAControllerThatItCannotBind(t *testing.T) {
	s := newStandIn()
	mgr := ctrlqueue.WrapManager(s, options{})
	bound := &stranger[reconcile.Request]{Name: "bound", Do: ctrlqueue.For(options{}).Reconciler(reconcile.Func(nil))}
	for want, c := range map[string]controller.Controller{
		"a *ctrlqueue_test.unknown has not the fields":            &unknown{},
		"a ctrlqueue_test.unknown is no controller":               unknown{},
		`controller "bound" has a Binding: add it to the manager`: bound,
	} {
		if err := mgr.Add(c); err == nil || !strings.Contains(err.Error(), want) || len(s.added) > 0 {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}

// Each controller has the options of the manager that it was added to, and the manager that
// was wrapped last is started.
func TestWrapManagerInWrapManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStandIn()
		inner := ctrlqueue.WrapManager(s, options{})
		outer := ctrlqueue.WrapManager(inner, draining(time.Minute))
		last := ctrlqueue.WrapManager(outer, stringOptions{Order: order{OldestEvery: 1}})
		done := make(map[string]int)
		var mu sync.Mutex // guards done
		for name, mgr := range map[string]manager.Manager{"drops": inner, "drains": outer, "drains too": last} {
			addController(t, mgr, name, controller.Options{Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				done[name]++
				return reconcile.Result{}, nil
			})}, func(q *requestQueue) {
				for i := range 3 {
					q.Add(request(fmt.Sprint(i)))
				}
			})
		}
		typed := &stranger[string]{}
		for _, mgr := range []manager.Manager{inner, outer} {
			if err := mgr.Add(typed); err != nil || typed.NewQueue != nil {
				t.Fatal("a controller of other requests was bound")
			}
		}
		if err := last.Add(typed); err != nil || typed.NewQueue == nil {
			t.Fatal("a controller was not bound by the manager for its requests")
		}
		s.added = slices.DeleteFunc(s.added, func(r manager.Runnable) bool { return r == manager.Runnable(typed) })
		ctx, stop := context.WithCancel(context.Background())
		over := make(chan error)
		go func() { over <- last.Start(ctx) }()
		synctest.Wait()
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
		if got, want := fmt.Sprint(done), "map[drains:3 drains too:3 drops:1]"; got != want {
			t.Errorf("reconciled were %s, want %s", got, want)
		}
		time.Sleep(time.Hour)
	})
}

// Another replica has the lead when Start returns. The controllers learn that later, and
// the context of Start has mostly ended by then, since the program ends.
func TestADrainAfterTheLeadershipWasLost(t *testing.T) {
	for name, do := range map[string]func(start func(context.Context) error) error{
		"the context goes on": func(start func(context.Context) error) error { return start(context.Background()) },
		"errgroup.WithContext": func(start func(context.Context) error) error {
			group, ctx := errgroup.WithContext(context.Background())
			group.Go(func() error { return start(ctx) })
			return group.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { lose(t, do) })
		})
	}
}

// newElected returns a manager of controller-runtime that is elected by l. graceful is its
// GracefulShutdownTimeout.
func newElected(t *testing.T, l resourcelock.Interface, graceful time.Duration) manager.Manager {
	t.Helper()
	mgr, err := manager.New(&rest.Config{}, manager.Options{
		LeaderElection:                      true,
		LeaderElectionResourceLockInterface: l,
		LeaderElectionReleaseOnCancel:       true,
		GracefulShutdownTimeout:             &graceful,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return meta.NewDefaultRESTMapper(nil), nil
		},
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		Logger:     logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

func lose(t *testing.T, do func(func(context.Context) error) error) {
	l := new(lock)
	mgr := ctrlqueue.WrapManager(newElected(t, l, 30*time.Second), draining(time.Minute))
	var over atomic.Bool // Start has returned
	var began atomic.Int64
	addController(t, mgr, "loses", controller.Options{Reconciler: reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		if began.Add(1); over.Load() {
			t.Error("a reconcile has begun after the leadership was lost")
		}
		works(ctx, time.Second)
		time.Sleep(2 * time.Millisecond) // In which the controller shuts the queue down.
		if over.Load() && ctx.Err() == nil {
			t.Error("a reconcile had a live context after the leadership was lost")
		}
		return reconcile.Result{}, nil
	})}, func(q *requestQueue) {
		for i := range 1000 {
			q.Add(request(fmt.Sprint(i)))
		}
	})
	go func() {
		time.Sleep(time.Minute)
		l.stolen.Store(true)
	}()
	err := do(func(ctx context.Context) error {
		defer over.Store(true)
		return mgr.Start(ctx)
	})
	if err == nil || !strings.Contains(err.Error(), "leader election lost") {
		t.Errorf("the manager ended with %v", err)
	}
	time.Sleep(time.Hour)
	if began.Load() == 0 {
		t.Error("nothing was reconciled")
	}
}

// A lock is the lease of a leader, without a cluster. It can be stolen: no renewal succeeds then.
type lock struct {
	resourcelock.Interface
	mu     sync.Mutex
	record *resourcelock.LeaderElectionRecord // guarded by mu
	sent   time.Time                          // of the last renewal that succeeded; guarded by mu
	stolen atomic.Bool
}

func (*lock) Identity() string   { return "this replica" }
func (*lock) Describe() string   { return "a lease" }
func (*lock) RecordEvent(string) {}

func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{}, "lease")
	}
	r := *l.record
	return &r, fmt.Append(nil, r), nil
}

func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

func (l *lock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.stolen.Load() {
		return errors.New("another replica has the lease")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record, l.sent = &r, time.Now()
	return nil
}

// renewed returns when the last renewal was sent that has succeeded.
func (l *lock) renewed() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

// name writes another holder into the record, or deletes the record if holder is empty.
func (l *lock) name(holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if holder == "" {
		l.record = nil
		return
	}
	r := *l.record
	r.HolderIdentity = holder
	l.record = &r
}
