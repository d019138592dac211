package ctrlqueue_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clientgo "k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"github.com/seed16c08ea7/workqueue/debugpage"
)

// The code of README.md and of docs/migrating.md. Without an output an Example is compiled
// and not run: a manager needs a cluster.

func ExampleFor() {
	_ = func(mgr manager.Manager, r reconcile.Reconciler) error {
		binding := ctrlqueue.For(ctrlqueue.Options[reconcile.Request]{})
		return ctrl.NewControllerManagedBy(mgr).
			For(&corev1.Pod{}).
			WithOptions(controller.Options{NewQueue: binding.NewQueue}).
			Complete(binding.Reconciler(r))
	}
}

func ExampleWrapManager() {
	_ = func(ctx context.Context, config *rest.Config) error {
		timeout := 25 * time.Second // A pod has 30 s to end.
		mgr, err := ctrl.NewManager(config, ctrl.Options{GracefulShutdownTimeout: &timeout})
		if err != nil {
			return err
		}
		mgr = ctrlqueue.WrapManager(mgr, ctrlqueue.Options[reconcile.Request]{
			AtEnd:  workqueue.EndDrain,
			Grace:  20 * time.Second,
			Finish: 5 * time.Second,
		})
		// Add the controllers to mgr.
		return mgr.Start(ctx)
	}
}

var unfinished atomic.Bool

var naming = ctrlqueue.Options[reconcile.Request]{
	OnStop: func(controller string, left workqueue.Snapshot[reconcile.Request]) {
		undone := left.QueuedTotal // They may be very many: a number is enough.
		for _, info := range slices.Concat(left.InFlight, left.Failed, left.Waiting) {
			if info.State == workqueue.ItemWaiting && info.Why != workqueue.WhyRetry {
				continue // Planned, such as a RequeueAfter: the next start reconciles it anyway.
			}
			undone++
			ctrl.Log.Info("object is left", "controller", controller, "object", info.Item, "state", info.State.String())
		}
		if undone > 0 {
			ctrl.Log.Info("objects are left", "controller", controller, "how many", undone)
			unfinished.Store(true) // main ends with a status of its own.
		}
	},
}

func Example_onStop() { _ = naming }

func TestOnStopNotesWhatIsUndone(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func() (reconcile.Result, error)
		want bool
	}{
		"nothing is left":           {do: func() (reconcile.Result, error) { return reconcile.Result{}, nil }},
		"a time is planned":         {do: func() (reconcile.Result, error) { return reconcile.Result{RequeueAfter: time.Hour}, nil }},
		"an object is in a backoff": {do: func() (reconcile.Result, error) { return reconcile.Result{}, errors.New("failed") }, want: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			unfinished.Store(false)
			c := start(t, "ends", naming, func(context.Context, reconcile.Request) (reconcile.Result, error) { return tt.do() })
			c.q.Add(request("a"))
			synctest.Wait()
			c.end(t)
			if unfinished.Load() != tt.want {
				t.Errorf("%s: unfinished is %v, want %v", name, unfinished.Load(), tt.want)
			}
		})
	}
}

func ExampleWrapManager_twoOptions() {
	_ = func(mgr manager.Manager, strict, fair ctrlqueue.Options[reconcile.Request], add func(manager.Manager, string) error) error {
		a := ctrlqueue.WrapManager(mgr, strict)
		b := ctrlqueue.WrapManager(a, fair)
		if err := errors.Join(add(a, "strict"), add(b, "fair")); err != nil {
			return err
		}
		return b.Start(context.Background())
	}
}

func Example_page() {
	_ = func(config *rest.Config) (manager.Manager, error) {
		page := debugpage.New(debugpage.Options{})
		mgr, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{
			ExtraHandlers: map[string]http.Handler{"/debug/workqueue/": page},
		}})
		if err != nil {
			return nil, err
		}
		return ctrlqueue.WrapManager(mgr, ctrlqueue.Options[reconcile.Request]{Page: page}), nil
	}
}

func ExampleNewLock() {
	_ = func(config *rest.Config, namespace, hostname string, renewDeadline time.Duration) error {
		identity := hostname + "_" + string(uuid.NewUUID()) // Two processes with one identity would both lead.
		leases, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, "my-controller",
			resourcelock.ResourceLockConfig{Identity: identity}, config, renewDeadline)
		if err != nil {
			return err
		}
		lock := ctrlqueue.NewLock(leases)
		mgr, err := ctrl.NewManager(config, ctrl.Options{LeaderElection: true, LeaderElectionResourceLockInterface: lock})
		if err != nil {
			return err
		}
		mgr = ctrlqueue.WrapManager(mgr, ctrlqueue.Options[reconcile.Request]{
			AtEnd: workqueue.EndDrain,
			Grace: 20 * time.Second,
			Lock:  lock,
		})
		return mgr.Start(context.Background())
	}
}

func ExampleLookup() {
	q, ok := ctrlqueue.Lookup[reconcile.Request]("pod")
	if ok {
		fmt.Println(q.Snapshot(10)) // what is queued, in flight and waiting, with priorities and failures
	}
}

type uploader struct{}

func (uploader) upload(context.Context, reconcile.Request) error { return nil }

func (u uploader) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	changed, cancel := ctrlqueue.ReAddContext(ctx, req)
	defer cancel()
	err := u.upload(changed, req)
	if context.Cause(changed) == workqueue.ErrReAdded {
		return reconcile.Result{RequeueAfter: time.Nanosecond}, nil
	}
	return reconcile.Result{}, err
}

func ExampleReAddContext() {
	var _ reconcile.Reconciler = uploader{}
}

// A queue of the root package, for a version of controller-runtime that ctrlqueue does not know.
var _ = controller.Options{
	NewQueue: func(name string, limiter clientgo.TypedRateLimiter[reconcile.Request]) clientgo.TypedRateLimitingInterface[reconcile.Request] {
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
			workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name})
	},
}
