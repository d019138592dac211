// Command clientgo is a controller on client-go to copy: it has informers, the log of klog, leader
// election, a drain that ends in time, and a wait for its own writes. For each ConfigMap with the
// label example.com/pods=N, it keeps N pods.
//
// Without flags it works on the fake clientset of client-go, gets a SIGTERM in the middle of the
// work, and finishes what it has begun. With -lose it loses the lease instead, and ends without a drain:
//
//	go run ./clientgo
//	go run ./clientgo -lose
//
// On a real cluster it works until Ctrl-C:
//
//	go run ./clientgo -kubeconfig ~/.kube/config -namespace default
//
// With -again it then waits for the lease after a loss, in place of an end.
//
// Copy main.go without the demo, and controller.go. lead.go and writes.go stay as they are, and so does fake.go, for
// tests.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

const (
	// grace is how long the drain may take, and a handler its context. A pod gets 30 s from
	// SIGTERM to SIGKILL by default.
	grace = 20 * time.Second
	// patience is how long after the grace a handler that ignores its context may hold the end up. With the
	// flush of the log, the end takes 25 s at most.
	patience = 4 * time.Second
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "work on the cluster of this kubeconfig `file` instead of the fake clientset")
	namespace := flag.String("namespace", metav1.NamespaceDefault, "watch this `namespace`, and keep the lease there")
	lose := flag.Bool("lose", false, "lose the lease of the fake clientset")
	again := flag.Bool("again", false, "after a loss of the lease, wait for it in place of an end")
	workers := flag.Int("workers", 2, "`number` of workers")
	flag.Parse()

	ctx := klog.NewContext(context.Background(), klog.Background())
	sig, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(sig, stop) // A second signal kills the program.

	times := leaderelection.LeaderElectionConfig{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
	var client, leases kubernetes.Interface
	if *kubeconfig == "" {
		times = leaderelection.LeaderElectionConfig{LeaseDuration: 1500 * time.Millisecond, RenewDeadline: time.Second, RetryPeriod: 200 * time.Millisecond}
		d := newDemo(os.Stdout, *lose, stop)
		defer d.report()
		client, leases = d.client, d.client
	} else {
		config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
		exitOn(err)
		client, err = kubernetes.NewForConfig(config)
		exitOn(err)
		config.Timeout = times.LeaseDuration - times.RenewDeadline - times.RetryPeriod - time.Second // See lead.
		leases, err = kubernetes.NewForConfig(config)
		exitOn(err)
	}

	hostname, err := os.Hostname()
	exitOn(err)
	times.Lock = &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: *namespace, Name: "pools"},
		Client:     leases.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())}, // Of one identity, two would lead.
	}
	var current atomic.Pointer[controller] // of the term
	context.AfterFunc(sig, func() {
		time.Sleep(grace + patience)
		left := "the term has not begun"
		if c := current.Load(); c != nil {
			left = c.queue.Snapshot(20).String()
		}
		// The lease is not given back, as a handler may be at work. The next replica waits for LeaseDuration.
		exitOn(errors.New("the end takes too long: " + left))
	})
	elect := lead
	if *again {
		elect = leadAgain
	}
	exitOn(elect(sig, times, func(ctx context.Context, t *term) error {
		c, err := newController(client, *namespace)
		if err != nil {
			return err
		}
		current.Store(c)
		return c.run(ctx, t, *workers)
	}, func() {
		klog.ErrorS(nil, "Another process is about to lead, and handlers are at work")
		os.Exit(1) // Without a flush, see lead.
	}))
}

// exitOn ends the program if there is an error.
func exitOn(err error) {
	if err != nil {
		klog.ErrorS(err, "The controller ends")
		klog.FlushAndExit(time.Second, 1)
	}
}
