// Package envtest_test runs managers of controller-runtime against a real
// kube-apiserver and etcd, with its own queues and with ours, and prints what it has
// measured side by side. `make apiserver-test` builds the programs and runs it. Without
// them, which is when KUBEBUILDER_ASSETS is not set, the tests are skipped.
package envtest_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	namespace = "load"
	objects   = 5000
)

// cluster is the API server, or nil.
var cluster *rest.Config

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		os.Exit(m.Run())
	}
	os.Exit(withCluster(m))
}

// withCluster starts etcd and kube-apiserver, on free ports of the loopback interface,
// and ends them when the tests are over.
func withCluster(m *testing.M) (code int) {
	e := &envtest.Environment{}
	config, err := e.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := e.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	config.QPS = -1 // The limit of the client is not what is measured.
	cluster = config
	return m.Run()
}

func object(i int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("object-%04d", i)}}
}

// populate makes the objects, if they are not there.
func populate(t *testing.T) client.Client {
	t.Helper()
	if cluster == nil {
		t.Skip("KUBEBUILDER_ASSETS is not set: use make apiserver-test")
	}
	c, err := client.New(cluster, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range objects {
		group.Go(func() error { return c.Create(ctx, object(i)) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return c
}

// touch changes an object, and returns its new version.
func touch(ctx context.Context, c client.Client, i int, spec string) (string, error) {
	o := object(i)
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data":{"spec":%q}}`, spec))
	if err := c.Patch(ctx, o, patch); err != nil {
		return "", err
	}
	return o.ResourceVersion, nil
}
