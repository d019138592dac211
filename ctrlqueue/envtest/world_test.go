package envtest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// A column is one implementation of the queue.
type column struct {
	name string
	// manager returns the manager that gets the controllers and is started.
	manager func(manager.Manager) manager.Manager
}

// A world is a manager with two controllers of the same objects: the first looks at them, and the
// second writes to changed objects.
type world struct {
	t         *testing.T
	column    column
	mgr       manager.Manager
	stop      context.CancelFunc
	over      chan error
	looks     *record
	writes    *record
	slow      atomic.Int64 // the time of a look, in nanoseconds
	lookQueue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

const (
	// A busy machine may not renew a lease for seconds, and the test of a lost lease lasts three
	// quarters of its duration.
	leaseDuration = 12 * time.Second
	graceful      = 30 * time.Second
	drain         = 20 * time.Second
)

// newWorld starts a manager, which waits to be elected.
func newWorld(t *testing.T, col column) *world {
	t.Helper()
	w := &world{t: t, column: col, over: make(chan error, 1), looks: newRecord(), writes: newRecord()}
	w.slow.Store(int64(time.Millisecond))
	renew, retry, grace := leaseDuration*3/4, leaseDuration/24, graceful
	mgr, err := manager.New(cluster, manager.Options{
		LeaderElection:                true,
		LeaderElectionID:              lease(col),
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(leaseDuration),
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
		GracefulShutdownTimeout:       &grace,
		Metrics:                       server.Options{BindAddress: "0"},
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Controller:                    config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.mgr = col.manager(mgr)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.mustBuild("look", 2, w.look)
	w.mustBuild("write", 1, w.write)
	go func() { w.over <- w.mgr.Start(ctx) }()
	t.Cleanup(stop)
	return w
}

func lease(col column) string { return "leader-" + col.name }

func (w *world) mustBuild(name string, workers int, do reconcile.Func) {
	w.t.Helper()
	b := ctrl.NewControllerManagedBy(w.mgr).Named(w.column.name + "-" + name).For(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	if name == "look" {
		b = b.WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			w.lookQueue = q
			return nil
		}))
	}
	if err := b.Complete(do); err != nil {
		w.t.Fatal(err)
	}
}

// look notes the version of the object.
func (w *world) look(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	return w.looks.during(ctx, r, func() (string, error) {
		var o corev1.ConfigMap
		if err := w.mgr.GetClient().Get(ctx, r.NamespacedName, &o); err != nil {
			return "", client.IgnoreNotFound(err)
		}
		time.Sleep(time.Duration(w.slow.Load()))
		return o.ResourceVersion, nil
	})
}

// write copies the spec of the object to its status. The update is an event.
func (w *world) write(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	return w.writes.during(ctx, r, func() (string, error) {
		var o corev1.ConfigMap
		if err := w.mgr.GetClient().Get(ctx, r.NamespacedName, &o); err != nil {
			return "", client.IgnoreNotFound(err)
		}
		if spec := o.Data["spec"]; spec != o.Data["status"] {
			changed := o.DeepCopy()
			changed.Data["status"] = spec
			return o.ResourceVersion, w.mgr.GetClient().Update(ctx, changed)
		}
		return o.ResourceVersion, nil
	})
}

// A record has the work of one controller.
type record struct {
	mu       sync.Mutex
	running  map[reconcile.Request]bool
	versions map[reconcile.Request]string
	total    int
	ended    int // reconciles that began with a context that had ended
	twice    int // reconciles of an object that was being reconciled
	last     time.Time
	failures map[string]int
}

func newRecord() *record {
	return &record{
		running:  make(map[reconcile.Request]bool),
		versions: make(map[reconcile.Request]string),
		failures: make(map[string]int),
	}
}

func (r *record) during(ctx context.Context, req reconcile.Request, do func() (string, error)) (reconcile.Result, error) {
	r.begin(ctx, req)
	version, err := do()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, req)
	switch {
	case err == nil:
		r.versions[req] = version
	case apierrors.IsConflict(err): // The cache was behind; an event follows.
	case errors.Is(err, context.Canceled):
	case apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err): // A busy machine.
	default:
		r.failures[err.Error()]++
	}
	return reconcile.Result{}, err
}

func (r *record) begin(ctx context.Context, req reconcile.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total++
	r.last = time.Now()
	if ctx.Err() != nil {
		r.ended++
	}
	if r.running[req] {
		r.twice++
	}
	r.running[req] = true
}

// count returns the number of reconciles, and of their objects.
func (r *record) count() (total, seen int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total, len(r.versions)
}

func (r *record) version(i int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.versions[request(i)]
}

func request(i int) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object(i))}
}

// until waits for a condition, which a real server may fulfil late.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	const patience = 3 * time.Minute
	for end := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v: not yet %s", patience, what)
		}
	}
}

// check checks that no object was reconciled by two workers at a time, and that nothing failed.
func (w *world) check() {
	w.t.Helper()
	for name, r := range map[string]*record{"look": w.looks, "write": w.writes} {
		r.mu.Lock()
		if r.twice > 0 {
			w.t.Errorf("%s-%s: %d objects were reconciled by two workers at a time", w.column.name, name, r.twice)
		}
		if len(r.failures) > 0 {
			w.t.Error(fmt.Sprint(w.column.name, "-", name, ": ", r.failures))
		}
		r.mu.Unlock()
	}
}
