// Command controller is a complete controller: for every ConfigMap with the label
// example.com/mirror=true, it keeps a Secret with the same data.
//
// Without flags the controller works on a small cluster within the program, and needs no
// network. A seeded stream of creates, updates, deletes, spoilt Secrets and failing
// writes keeps the controller busy for a few seconds. At the end the program prints a
// summary. It exits with 1 if a ConfigMap differs from its Secret, or if two workers held
// a key at once:
//
//	go run ./controller
//	go run ./controller -v
//
// On a real cluster the controller works until Ctrl-C:
//
//	go run ./controller -kubeconfig ~/.kube/config -namespace default -readyz localhost:8080
//
// controller.go and client.go are the parts to copy.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/seed16c08ea7/workqueue/examples/internal/embedded"
)

type options struct {
	kubeconfig string
	namespace  string
	readyz     string
	workers    int
	seed       uint64
	verbose    bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for a graceful end. Then stop brings the default back, so a
	// second signal kills the program.
	context.AfterFunc(ctx, stop)

	opts, err := parseOptions(os.Args[1:], os.Stderr)
	if err == nil && opts.kubeconfig != "" {
		err = runCluster(ctx, os.Stdout, opts)
	} else if err == nil {
		err = runEmbedded(ctx, os.Stdout, newQueue(), opts)
	}
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "controller:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string, out io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("controller", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&opts.kubeconfig, "kubeconfig", "", "work on the cluster of this kubeconfig `file` instead of the cluster within the program")
	flags.StringVar(&opts.namespace, "namespace", "", "watch this `namespace` only; needs -kubeconfig")
	flags.StringVar(&opts.readyz, "readyz", "", "serve the readiness probe at this `address`, such as localhost:8080")
	flags.IntVar(&opts.workers, "workers", 4, "`number` of workers, which are the keys that are synced at the same time")
	flags.Uint64Var(&opts.seed, "seed", 1, "`number` that decides what happens on the cluster within the program")
	flags.BoolVar(&opts.verbose, "v", false, "log each hand-out of the queue and each sync, even one that found nothing to do")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if opts.workers < 1 {
		return opts, fmt.Errorf("-workers must be at least 1, got %d", opts.workers)
	}
	if opts.namespace != "" && opts.kubeconfig == "" {
		return opts, errors.New("-namespace needs -kubeconfig")
	}
	if flags.NArg() > 0 {
		return opts, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return opts, nil
}

// runCluster works on a real cluster until ctx is done.
func runCluster(ctx context.Context, out io.Writer, opts options) error {
	config, err := clientcmd.BuildConfigFromFlags("", opts.kubeconfig)
	if err != nil {
		return err
	}
	client, err := newClient(config, opts.namespace)
	if err != nil {
		return err
	}
	return runOn(ctx, client, newQueue(), embedded.NewLogger(out, opts.verbose), opts)
}

// runEmbedded works on a cluster within the program until the stream of changes is over.
func runEmbedded(ctx context.Context, out io.Writer, q *embedded.RateLimiting, opts options) error {
	return embedded.Run(ctx, out, q, opts.seed, opts.verbose, func(ctx context.Context, cluster *embedded.Cluster, q *embedded.Queue, log *slog.Logger) error {
		return runOn(ctx, cluster, q, log, opts)
	})
}

func runOn(ctx context.Context, cluster cluster, q queue, log *slog.Logger, opts options) error {
	c, err := newController(cluster, q, log)
	if err != nil {
		return err
	}
	if opts.readyz != "" {
		listener, err := net.Listen("tcp", opts.readyz)
		if err != nil {
			return err
		}
		defer listener.Close()
		go http.Serve(listener, c)
	}
	return c.run(ctx, opts.workers)
}
