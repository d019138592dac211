// Command controller is a controller on controller-runtime whose keys are shared by its replicas. The
// program copies the field spec of each ConfigMap of a namespace to the field status. Start the
// program several times, with a kubeconfig, or as the Deployment of deploy/rbac.yaml:
//
//	go run ./examples/controller -kubeconfig ~/.kube/config -namespace default -identity a
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/seed16c08ea7/workqueue/sharding"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgo "k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

func main() {
	var o sharding.Options
	var namespace string
	var work time.Duration
	var trace bool
	flag.StringVar(&namespace, "namespace", "default", "where the ConfigMaps and the Leases are")
	flag.StringVar(&o.Identity, "identity", os.Getenv("POD_NAME"), "the name of the replica")
	// Shorter than the defaults of the package, as the first start of a set takes a LeaseDuration.
	flag.DurationVar(&o.LeaseDuration, "lease-duration", 9*time.Second, "see the Options of package sharding, as for the next ones")
	flag.DurationVar(&o.RenewDeadline, "renew-deadline", 6*time.Second, "")
	flag.DurationVar(&o.RetryPeriod, "retry-period", 2*time.Second, "")
	flag.DurationVar(&o.CancelBound, "cancel-bound", 2*time.Second, "")
	flag.DurationVar(&o.Settle, "settle", 2*time.Second, "")
	flag.DurationVar(&work, "work", 20*time.Millisecond, "how long the work on a ConfigMap takes")
	flag.BoolVar(&trace, "trace", false, "print a line when the work on a ConfigMap begins, and when it ends")
	flag.Parse()
	logger := funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, prefix, args) }, funcr.Options{})
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	o.Name, o.Namespace = "configmaps", namespace
	if uid := os.Getenv("POD_UID"); uid != "" {
		o.Owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: o.Identity, UID: types.UID(uid)}
	}
	if err := run(ctrl.SetupSignalHandler(), o, work, trace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o sharding.Options, work time.Duration, trace bool) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{o.Namespace: {}}},
	})
	if err != nil {
		return err
	}
	shards, err := sharding.New(config, o)
	if err != nil {
		return err
	}
	if err := setup(ctx, mgr, shards, &copier{mgr.GetClient(), work, trace}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// setup adds the shards and a controller of ConfigMaps to the manager.
func setup(ctx context.Context, mgr ctrl.Manager, shards *sharding.Shards, r reconcile.Reconciler) error {
	if err := mgr.Add(shards); err != nil {
		return err
	}
	// The cache indexes the objects by slot, and lists the objects of a gained slot.
	bySlot := func(o client.Object) []string { return []string{strconv.Itoa(shards.SlotOf(o))} }
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, sharding.SlotIndex, bySlot); err != nil {
		return err
	}
	list := func(ctx context.Context, slot int) (requests []reconcile.Request, err error) {
		var objects corev1.ConfigMapList
		err = mgr.GetClient().List(ctx, &objects, client.MatchingFields{sharding.SlotIndex: strconv.Itoa(slot)})
		for i := range objects.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&objects.Items[i])})
		}
		return requests, err
	}
	attach := source.Func(func(ctx context.Context, queue clientgo.TypedRateLimitingInterface[reconcile.Request]) error {
		return sharding.Attach(ctx, shards, queue, list)
	})
	owned := predicate.NewPredicateFuncs(func(o client.Object) bool { return shards.Owns(o) })
	return ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}, builder.WithPredicates(owned)).
		WatchesRawSource(attach).
		WithOptions(controller.Options{
			NeedLeaderElection:      new(false), // The manager may have one for other controllers.
			MaxConcurrentReconciles: 8,
		}).
		Complete(reconcile.Func(sharding.Reconcile(shards, r.Reconcile)))
}

// A copier copies the spec of a ConfigMap to its status. The update has the resourceVersion of the
// reading, so the API server refuses the update of a process that was stopped and continues.
type copier struct {
	client client.Client
	work   time.Duration
	trace  bool
}

func (c *copier) Reconcile(ctx context.Context, request reconcile.Request) (result reconcile.Result, err error) {
	var object corev1.ConfigMap
	if err := c.client.Get(ctx, request.NamespacedName, &object); err != nil {
		return result, client.IgnoreNotFound(err)
	}
	if object.Data["status"] == object.Data["spec"] {
		return result, nil
	}
	if c.trace {
		fmt.Println("begin", request, time.Now().UnixNano())
		defer func() { fmt.Println("end", request, time.Now().UnixNano()) }()
	}
	select {
	case <-ctx.Done():
		return result, ctx.Err()
	case <-time.After(c.work):
	}
	changed := object.DeepCopy()
	changed.Data["status"] = object.Data["spec"]
	return result, c.client.Update(ctx, changed)
}
