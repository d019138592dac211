package realworld_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed16c08ea7/workqueue/ctrlqueue"
)

// A managed is the churn for a controller of controller-runtime: on the module ctrlqueue, and on
// controller-runtime's own queue.
type managed struct{ churn }

// bind puts the queue of an implementation under the controllers of a manager. The manager's own queue
// stands in the column of client-go.
func bind(mgr manager.Manager, impl implementation) manager.Manager {
	if impl.name == theirs.name {
		return mgr
	}
	return ctrlqueue.WrapManager(mgr, ctrlqueue.Options[reconcile.Request]{})
}

func TestManaged(t *testing.T) {
	play(t, managed{size(churn{1000, 8, 10_000}, churn{100, 8, 1_000})}.run)
}

func TestManagedNoticesFaults(t *testing.T) {
	notices(t, managed{churn{40, 4, 400}}.run, control{implementation{name: losesKeys}, "1 objects are open: [" + fleetName(1)})
}

func (s managed) run(t *testing.T, impl implementation) error {
	w, f := newWorld(t), &faults{fate: some}
	r, stop, err := s.start(t, w, f, impl)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.change(t.Context(), w, new(atomic.Bool)); err != nil {
		t.Fatal(err)
	}
	ended := time.Now()
	err = w.done(t.Context())
	took := time.Since(ended)
	err = errors.Join(err, stop(), r.journal.err())
	const name = "churn under controller-runtime, its own queue on the right"
	results.add(name, fmt.Sprintf("from the last of %d changes to convergence", s.changes+s.objects), impl, took)
	results.add(name, "hand-outs", impl, r.journal.handOuts())
	results.add(name, "conflicts of the controller", impl, f.conflicts.Load())
	return err
}

// losesKeys is a control: it never reconciles one object.
const losesKeys = "loses a key"

// start starts a manager until the test ends, or until stop.
func (s managed) start(t *testing.T, w *world, f *faults, impl implementation) (r *reconciler, stop func() error, err error) {
	t.Helper()
	server := servers.config()
	server.Wrap(f.wrap)
	mgr, err := ctrl.NewManager(server, ctrl.Options{
		Scheme: scheme, Logger: logr.Discard(), Metrics: metrics.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, nil, err
	}
	clients, err := newClients(server, w.namespace)
	if err != nil {
		return nil, nil, err
	}
	r = &reconciler{cache: mgr.GetClient(), writer: &controller{clients: clients}, journal: newJournal()}
	if impl.name == losesKeys {
		r.lost = fleetName(1)
	}
	err = ctrl.NewControllerManagedBy(bind(mgr, impl)).For(&Fleet{}).Owns(&appsv1.Deployment{}).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: workers}).Complete(r)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- mgr.Start(ctx) }()
	return r, func() error {
		cancel()
		return <-over
	}, nil
}

// A reconciler is the controller of the other scenarios, with the manager's cache.
type reconciler struct {
	cache   client.Client
	writer  *controller
	journal *journal
	lost    string // the name of an object that is not reconciled
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	defer r.journal.begin(request.NamespacedName)()
	if request.Name == r.lost {
		return reconcile.Result{}, nil
	}
	fleet, err := found(ctx, r.cache, request.NamespacedName, new(Fleet))
	if err != nil {
		return reconcile.Result{}, err
	}
	deployment, err := found(ctx, r.cache, request.NamespacedName, new(appsv1.Deployment))
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.writer.settle(ctx, fleet, deployment)
}

// found returns the object, or nil if there is none.
func found[T client.Object](ctx context.Context, cache client.Reader, k key, object T) (T, error) {
	var none T
	err := cache.Get(ctx, k, object)
	if notFound(err) {
		return none, nil
	}
	return object, err
}
