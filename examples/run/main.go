// Command run is the controller of ../controller with its worker loop left to
// [workqueue.Run]: the same job, on the same embedded API server, with the same
// summary at the end. It works for a few seconds, and exits with 1 unless
// everything has converged:
//
//	go run ./run
//	go run ./run -v
//	go run ./run -forever -readyz localhost:8080
//
// controller.go is the part to copy.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue"
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
	readyz := flag.String("readyz", "", "serve the readiness probe at this `address`, such as localhost:8080")
	flag.Parse()
	c := &controller{}
	if *readyz != "" {
		go func() { fmt.Fprintln(os.Stderr, "run:", http.ListenAndServe(*readyz, c)) }()
	}
	if err := play(ctx, os.Stdout, c, newQueue(), opts); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

// play runs the controller on the embedded cluster until the feed is over.
func play(ctx context.Context, out io.Writer, c *controller, q *queue, opts embedded.Options) error {
	return embedded.Run(ctx, out, q, opts, func(ctx context.Context, config *rest.Config, seen embedded.Queue, log *slog.Logger) error {
		c.queue, c.log = q, log
		if o, ok := seen.(embedded.Observer); ok {
			c.queue = observed{q, o}
			c.onResult = func(ctx context.Context, item cache.ObjectName, result workqueue.HandlerResult) {
				if result.Outcome == workqueue.OutcomeFailed {
					o.RecordRetry(item)
				}
			}
		}
		return c.serve(ctx, config)
	})
}

// observed is the queue of Run, and reports to the observer for the summary at the end.
type observed struct {
	*queue
	observer embedded.Observer
}

func (q observed) Add(item cache.ObjectName) { q.observer.Add(item) }

func (q observed) GetInfo(ctx context.Context) (workqueue.ItemInfo[cache.ObjectName], error) {
	info, err := q.queue.GetInfo(ctx)
	if err == nil {
		q.observer.RecordHandOut(info.Item)
	}
	return info, err
}

func (q observed) Done(item cache.ObjectName) {
	q.observer.RecordDone(item)
	q.queue.Done(item)
}

func (c *controller) serve(ctx context.Context, config *rest.Config) error {
	return mirror.Serve(ctx, config, "", c.queue, c.log, func(ctx context.Context, m *mirror.Mirror) error {
		c.mirror = m
		return c.run(ctx, 4)
	})
}
