package envtest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	owners   = 50
	children = 4 // of each owner
	owned    = "owner"
)

// A parent creates the children that its owner lacks, one in each reconcile. The server chooses their names. Other
// events would bring the owner again too.
type parent struct {
	client.Client
	mu       sync.Mutex
	finished map[string]bool
}

func (p *parent) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	labels := client.MatchingLabels{owned: req.Name}
	var all corev1.SecretList
	if err := p.List(ctx, &all, client.InNamespace(req.Namespace), labels); err != nil {
		return reconcile.Result{}, err
	}
	if len(all.Items) >= children {
		p.mu.Lock()
		p.finished[req.Name] = true
		p.mu.Unlock()
		return reconcile.Result{}, nil
	}
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, GenerateName: "child-", Labels: labels}}
	return reconcile.Result{RequeueAfter: 10 * time.Millisecond}, p.Create(ctx, child)
}

// The watches are late. With the consistent client of controller-runtime a reconcile reads its own writes all the
// same, and no owner gets a child too many.
func TestOwnWrites(t *testing.T) {
	if cluster == nil {
		t.Skip("KUBEBUILDER_ASSETS is not set: use make apiserver-test")
	}
	direct, err := client.New(cluster, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, consistent := range []bool{false, true} {
		namespace := fmt.Sprintf("consistent-%t", consistent)
		create(t, direct, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		for i := range owners {
			create(t, direct, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("owner-%d", i)}})
		}
		from := time.Now()
		haveChildren(t, namespace, consistent)
		var all corev1.SecretList
		if err := direct.List(t.Context(), &all, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		surplus := len(all.Items) - owners*children
		t.Logf("consistent reads: %t. %d children of %d, in %v", consistent, len(all.Items), owners*children, time.Since(from).Round(time.Millisecond))
		if consistent && surplus != 0 || !consistent && surplus <= 0 {
			t.Errorf("%d children too many", surplus)
		}
	}
}

func create(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// haveChildren runs a manager until each owner has its children.
func haveChildren(t *testing.T, namespace string, consistent bool) {
	config := rest.CopyConfig(cluster)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return lateWatches{next} })
	mgr, err := manager.New(config, manager.Options{
		Metrics:    server.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Client:     client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: &consistent}},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	mgr = ctrlqueue.WrapManager(mgr, ctrlqueue.Options[reconcile.Request]{})
	p := &parent{Client: mgr.GetClient(), finished: make(map[string]bool)}
	if err := ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).Complete(p); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- mgr.Start(ctx) }()
	until(t, "the children of all owners", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.finished) == owners
	})
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
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

// lateWatches has each piece of a watch come 5 ms late, and the pieces behind it later.
type lateWatches struct{ http.RoundTripper }

type lateBody struct{ io.ReadCloser }

func (l lateWatches) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") != "" {
		response.Body = lateBody{response.Body}
	}
	return response, err
}

func (b lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	time.Sleep(5 * time.Millisecond)
	return n, err
}
