// Package envtest_test runs managers of controller-runtime against a real
// kube-apiserver and etcd, with its own queues and with ours, and prints what it has
// measured side by side. `make apiserver-test` builds the programs and runs it. Without
// them, which is when KUBEBUILDER_ASSETS is not set, the tests are skipped.
package envtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
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

// kubeconfig is the variable that tells the tests of their cluster, in a file.
const kubeconfig = "WORKQUEUE_ENVTEST_KUBECONFIG"

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	var err error
	switch file := os.Getenv(kubeconfig); {
	case file != "":
		if cluster, err = clientcmd.BuildConfigFromFlags("", file); err == nil {
			cluster.QPS = -1 // The limit of the client is not what is measured.
			os.Exit(m.Run())
		}
	case os.Getenv("KUBEBUILDER_ASSETS") == "":
		os.Exit(m.Run())
	default:
		err = withCluster()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// withCluster starts etcd and kube-apiserver, on free ports of the loopback interface,
// runs the tests, and ends both by their ids.
//
// The tests run in a process of their own: one that panics, or is over its time, ends
// without calling anything that was deferred, and the two servers would go on for ever.
func withCluster() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "workqueue-envtest-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	e := &envtest.Environment{ControlPlaneStartTimeout: 5 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	defer func() { err = errors.Join(err, e.Stop()) }()
	if _, err := e.Start(); err != nil {
		return err
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, e.KubeConfig, 0o600); err != nil {
		return err
	}
	tests := exec.CommandContext(ctx, os.Args[0], os.Args[1:]...)
	tests.Env = append(os.Environ(), kubeconfig+"="+file)
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	if err := tests.Run(); err != nil {
		return fmt.Errorf("the tests: %w", err)
	}
	return nil
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
