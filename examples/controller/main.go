// Command controller is a custom controller at work: it keeps a Secret in step
// with every ConfigMap that carries the label example.com/mirror=true.
//
// Without flags it runs on an API server that is part of the program, without a
// network. There, a seeded stream of creates, updates, deletes, spoilt Secrets
// and failing writes keeps it busy for a few seconds. At the end it prints what
// happened, and exits with 1 if a ConfigMap differs from its Secret or a key was
// with two workers at once:
//
//	go run ./controller
//	go run ./controller -v
//
// On a real cluster it works until it is interrupted:
//
//	go run ./controller -kubeconfig ~/.kube/config -namespace default
//
// The controller is the same in both cases, down to the requests that it makes.
// controller.go and ../internal/mirror are the parts to copy.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seed16c08ea7/workqueue/examples/internal/embedded"
	"github.com/seed16c08ea7/workqueue/examples/internal/mirror"
)

type options struct {
	kubeconfig string
	namespace  string
	workers    int
	seed       uint64
	verbose    bool
	forever    bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for a graceful end, the second one kills.
	context.AfterFunc(ctx, stop)

	opts, err := parseOptions(os.Args[1:], os.Stderr)
	if err == nil && opts.kubeconfig != "" {
		err = runCluster(ctx, os.Stdout, newQueue(), opts)
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
	flags.StringVar(&opts.kubeconfig, "kubeconfig", "", "run on the cluster of this kubeconfig `file` instead of the embedded API server")
	flags.StringVar(&opts.namespace, "namespace", "", "watch this `namespace` only; needs -kubeconfig")
	flags.IntVar(&opts.workers, "workers", 4, "`number` of workers, which are the keys that are synced at the same time")
	flags.Uint64Var(&opts.seed, "seed", 1, "`number` that decides what happens on the embedded API server")
	flags.BoolVar(&opts.verbose, "v", false, "log each hand-out of the embedded run, and each sync, even one that found nothing to do")
	flags.BoolVar(&opts.forever, "forever", false, "keep the embedded run busy until it is interrupted, and exit with 0 if it has ended well then")
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

// runCluster mirrors on a real cluster until ctx is done.
func runCluster(ctx context.Context, out io.Writer, q queue, opts options) error {
	config, err := clientcmd.BuildConfigFromFlags("", opts.kubeconfig)
	if err != nil {
		return err
	}
	return serve(ctx, config, q, opts, embedded.NewLogger(out, opts.verbose))
}

// serve runs one controller and its informers until ctx is done.
func serve(ctx context.Context, config *rest.Config, q queue, opts options, log *slog.Logger) error {
	return mirror.Serve(ctx, config, opts.namespace, q, log, func(ctx context.Context, m *mirror.Mirror) error {
		c := &controller{mirror: m, queue: q, log: log}
		return c.run(ctx, opts.workers)
	})
}

// runEmbedded runs it on the embedded API server until that is over.
func runEmbedded(ctx context.Context, out io.Writer, q queue, opts options) error {
	embeddedOpts := embedded.Options{Seed: opts.seed, Verbose: opts.verbose, Forever: opts.forever}
	return embedded.Run(ctx, out, q, embeddedOpts, func(ctx context.Context, config *rest.Config, q embedded.Queue, log *slog.Logger) error {
		return serve(ctx, config, q, opts, log)
	})
}
