// Command run is the controller of ../controller with its worker loop left to
// [workqueue.Run]: the same job, on the same embedded API server, with the same
// summary at the end. It works for a few seconds, and exits with 1 unless
// everything has converged:
//
//	go run ./run
//	go run ./run -v
//
// controller.go is the part to copy.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/seed16c08ea7/workqueue/examples/internal/embedded"
	"github.com/seed16c08ea7/workqueue/examples/internal/mirror"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var opts embedded.Options
	flag.Uint64Var(&opts.Seed, "seed", 1, "`number` that decides what happens on the embedded API server")
	flag.BoolVar(&opts.Verbose, "v", false, "log each hand-out of the queue and what the controller does with it")
	flag.BoolVar(&opts.Forever, "forever", false, "keep the controller busy until it is interrupted, and exit with 0 if it has ended well then")
	flag.Parse()
	if err := play(ctx, os.Stdout, newQueue(), opts); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

// play runs the controller on the embedded cluster until that is over.
func play(ctx context.Context, out io.Writer, q queue, opts embedded.Options) error {
	return embedded.Run(ctx, out, q, opts, serve)
}

func serve(ctx context.Context, config *rest.Config, q embedded.Queue, log *slog.Logger) error {
	return mirror.Serve(ctx, config, "", q, log, func(ctx context.Context, m *mirror.Mirror) error {
		c := &controller{mirror: m, queue: q, log: log}
		return c.run(ctx, 4)
	})
}
