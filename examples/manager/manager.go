package main

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"github.com/seed16c08ea7/workqueue/debugpage"
)

const (
	pagePath = "/debug/workqueue/"

	// graceful is shorter than the 30 seconds that a pod gets by default between SIGTERM and
	// SIGKILL, and longer than drain: the drain ends when the manager stops to wait.
	graceful = 25 * time.Second
	drain    = 20 * time.Second

	// finish is the last part of drain, for reconciles that have begun. Nearly all take less.
	finish = 5 * time.Second
)

// newManager returns a manager with three controllers. Start of the manager serves metrics and
// the page of the queues at the address listen.
func newManager(config *rest.Config, listen string) (manager.Manager, error) {
	page := debugpage.New(debugpage.Options{Title: "examples/manager"})
	timeout := graceful
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		GracefulShutdownTimeout: &timeout,
		// A reconcile reads its own writes, also if the cache is late.
		Client: client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
		Metrics: metricsserver.Options{
			BindAddress: listen,
			// The page shows the names of objects. With a FilterProvider, which asks who may see the
			// metrics, the page is behind the filter too.
			ExtraHandlers: map[string]http.Handler{pagePath: page},
		},
	})
	if err != nil {
		return nil, err
	}
	mgr = ctrlqueue.WrapManager(mgr, ctrlqueue.Options[reconcile.Request]{
		// The namespaces take turns. Without GroupsFirst, one with many events would keep back the initial list and
		// the resyncs of the others, which have priority -100.
		Order:  workqueue.Order[reconcile.Request]{Group: ctrlqueue.Namespace, GroupsFirst: true},
		AtEnd:  workqueue.EndDrain,
		Grace:  drain,
		Finish: finish,
		Page:   page,
	})
	return mgr, errors.Join(
		addController(mgr, &corev1.ConfigMap{}),
		addController(mgr, &corev1.Secret{}),
		addController(mgr, &corev1.ServiceAccount{}))
}

// addController adds a controller of one kind, which is named after the kind.
func addController[O client.Object](mgr manager.Manager, kind O) error {
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).For(kind).Complete(reconcile.AsReconciler(c, labeler[O]{c}))
}

const label = "example.com/seen"

// A labeler gives each object a label. It stands for your reconciler.
type labeler[O client.Object] struct{ client client.Client }

func (l labeler[O]) Reconcile(ctx context.Context, object O) (reconcile.Result, error) {
	if object.GetLabels()[label] == "true" {
		return reconcile.Result{}, nil
	}
	labels := maps.Clone(object.GetLabels())
	if labels == nil {
		labels = make(map[string]string)
	}
	labels[label] = "true"
	object.SetLabels(labels) // Of a copy: the client has copied the object from the cache.
	return reconcile.Result{}, l.client.Update(ctx, object)
}
