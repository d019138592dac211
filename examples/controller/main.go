// Command controller is a custom controller at work: it keeps a Secret in step
// with every ConfigMap that carries the label example.com/mirror=true.
//
// Without flags it runs against an embedded cluster (client-go's fake
// clientset) that a seeded stream of creates, updates, deletes, sabotage and
// failing writes keeps busy for a few seconds. It then compares every
// ConfigMap with its Secret, and exits with 1 if one of them differs:
//
//	go run ./controller
//
// On a real cluster it works until it is interrupted:
//
//	go run ./controller -kubeconfig ~/.kube/config -namespace default
//
// controller.go is the part to copy.
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
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// resync repeats every object of the caches through the handlers. It heals
// nothing that a correct controller misses; it bounds the time until a mistake
// outside it (somebody's write that no watch reported) is noticed.
const resync = 10 * time.Minute

type options struct {
	kubeconfig string
	namespace  string
	workers    int
	seed       uint64
	verbose    bool
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
	flags.StringVar(&opts.kubeconfig, "kubeconfig", "", "run on the cluster of this kubeconfig `file` instead of the embedded one")
	flags.StringVar(&opts.namespace, "namespace", "", "watch one `namespace` only")
	flags.IntVar(&opts.workers, "workers", 4, "items synced at the same time")
	flags.Uint64Var(&opts.seed, "seed", 1, "seed of the embedded event stream")
	flags.BoolVar(&opts.verbose, "v", false, "log every hand-out")
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
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return serve(ctx, client, q, opts, newLogger(out, opts.verbose))
}

// serve runs one controller and its informers until ctx is done.
func serve(ctx context.Context, client kubernetes.Interface, q queue, opts options, log *slog.Logger) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithNamespace(opts.namespace))
	c, err := newController(client, factory, q, log)
	if err != nil {
		return err
	}
	// The informers outlive ctx: what is synced during the drain still reads a
	// cache that follows the cluster. Shutdown waits for them, so it must be
	// deferred before the cancel that stops them.
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	defer factory.Shutdown()
	defer unwatch()
	factory.StartWithContext(watching)
	return c.run(ctx, opts.workers)
}

// newLogger writes lines for people who watch: the time since the start instead
// of the date, and the level only where it is not the usual one.
func newLogger(out io.Writer, verbose bool) *slog.Logger {
	start := time.Now()
	handler := &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
			switch attr.Key {
			case slog.TimeKey:
				return slog.String("t", fmt.Sprintf("%.3fs", attr.Value.Time().Sub(start).Seconds()))
			case slog.LevelKey:
				return slog.Attr{}
			}
			return attr
		},
	}
	if verbose {
		handler.Level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(out, handler))
}
