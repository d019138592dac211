// Command controller is a complete controller: for every ConfigMap with the label
// example.com/mirror=true, it keeps a Secret with the same data.
//
// Without flags the controller runs on an API server within the program, and needs no
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
//	go run ./controller -kubeconfig ~/.kube/config -namespace default
//
// Both clusters get the same requests from the same code. controller.go and
// ../internal/mirror are the parts to copy.
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
	// The first signal asks for a graceful end. Then stop brings the default back, so a
	// second signal kills the program.
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

// runEmbedded runs the controller on the embedded API server until the feed is over, or
// with -forever until ctx is done.
func runEmbedded(ctx context.Context, out io.Writer, q queue, opts options) error {
	embeddedOpts := embedded.Options{Seed: opts.seed, Verbose: opts.verbose, Forever: opts.forever}
	return embedded.Run(ctx, out, q, embeddedOpts, func(ctx context.Context, config *rest.Config, q embedded.Queue, log *slog.Logger) error {
		return serve(ctx, config, q, opts, log)
	})
}
