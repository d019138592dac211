// Command manager is three controllers on controller-runtime, with the queue of this project in each
// of them: the namespaces take turns, one page shows all queues, and the manager finishes the queued
// work at its end. Copy manager.go. Without a cluster, the program brings an API server of its own,
// fills it with objects, and ends the manager in the middle of the work:
//
//	go run ./manager
//	go run ./manager -kubeconfig ~/.kube/config -listen 127.0.0.1:8080
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed16c08ea7/workqueue/ctrlqueue"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` that serves the metrics and the page of the queues; port 0 is any free one")
	flag.Parse() // controller-runtime has registered the flag kubeconfig.
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	ctx := ctrl.SetupSignalHandler()
	var err error
	if flag.Lookup(config.KubeconfigFlagName).Value.String() != "" {
		err = onCluster(ctx, *listen)
	} else {
		err = demonstrate(ctx, os.Stdout, *listen)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

// onCluster works until ctx is done and the queues are drained.
func onCluster(ctx context.Context, listen string) error {
	kubeconfig, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := newManager(kubeconfig, listen)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// demonstrate works on a cluster in the program. The namespace flood has 600 objects, and the
// namespace quiet 6. When the quiet objects have their labels, the manager is told to end.
func demonstrate(ctx context.Context, out io.Writer, listen string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cluster := newCluster()
	defer cluster.serve(listener)()
	cluster.fill("flood", 200)
	cluster.fill("quiet", 2)
	mgr, err := newManager(restConfig(listener), listen)
	if err != nil {
		return err
	}
	cluster.onQuiet(func(labelled int) {
		fmt.Fprintf(out, "6 of 6 objects of the namespace quiet have the label, and %d of all 606\n", labelled)
		for _, name := range ctrlqueue.Names() {
			if q, ok := ctrlqueue.Lookup[reconcile.Request](name); ok {
				fmt.Fprintf(out, "the queue %s has %d objects\n", name, q.Stats().Depth)
			}
		}
		fmt.Fprintln(out, "the manager is told to end")
		stop()
	})
	err = mgr.Start(ctx)
	fmt.Fprintf(out, "the manager has ended, and %d of 606 objects have the label\n", cluster.labelled())
	return err
}
