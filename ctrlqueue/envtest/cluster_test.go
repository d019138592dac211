// Package envtest_test runs a manager of controller-runtime with our queue against a real
// kube-apiserver and etcd. `make apiserver-test` builds the programs and runs it. Without
// them, which is when KUBEBUILDER_ASSETS is not set, the test is skipped.
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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
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
