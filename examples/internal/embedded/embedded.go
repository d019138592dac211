// Package embedded is the cluster of the example controllers: an API server within the
// process, a stream of events that keeps a controller busy, and a judge of the result.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Options are the settings of a run.
type Options struct {
	Seed    uint64 // of the event stream
	Verbose bool   // log every hand-out, and what the controller does
	Forever bool   // keep the controller busy until it is interrupted
}

// Serve is a controller. It works on the cluster of the config until ctx is done, and
// must use the given queue: there Run observes the controller.
type Serve func(ctx context.Context, config *rest.Config, queue Queue, log *slog.Logger) error

// feedTimeout is much longer than a feed takes, even on a busy machine. Without the
// timeout, a controller that hears nothing would run for ever instead of failing.
const feedTimeout = 2 * time.Minute

// Run feeds the controller, stops the controller as a signal would, and judges the
// result. It returns an error unless everything converged and no item was with two
// workers at once.
func Run(ctx context.Context, out io.Writer, q Queue, opts Options, serve Serve) error {
	out = &lockedWriter{out: out}
	if opts.Forever {
		return runForever(ctx, out, q, opts, serve)
	}
	introduce(out, q, opts)
	// Without -v nothing is logged, not even failures. Most failures are injected, and a
	// failure with consequences shows in the verdict.
	log := slog.New(slog.DiscardHandler)
	if opts.Verbose {
		log = NewLogger(out, true)
	}
	cluster := NewCluster(opts.Seed)
	observed := observe(q, log)
	start := time.Now()
	feed := newFeed(cluster, observed, opts.Seed, func(phase string) {
		fmt.Fprintf(out, "%5.2fs  %s\n", time.Since(start).Seconds(), phase)
	})

	// serving ends with the feed, or when the controller fails.
	serving, stop := context.WithTimeout(ctx, feedTimeout)
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- serve(serving, cluster.Config(), observed, log)
		stop()
	}()
	err := feed.play(serving)
	r := report{events: feed.counts, atStop: observed.Len()}
	stop()
	err = errors.Join(err, <-served, cluster.Close())

	r.counts, r.left = observed.snapshot(), observed.Len()
	r.injected, r.refused = cluster.faults.count()
	r.verdict = verify(cluster) // Also after a run that was cut short.
	r.print(out)
	return r.judge(out, err)
}

func introduce(out io.Writer, q Queue, opts Options) {
	fmt.Fprintf(out, `
A controller at work. It keeps a Secret equal to each ConfigMap that asks for one.
The name of an object that changes is the key that it adds to its queue; workers
take it from there. The API server is part of this program, and makes trouble.
At the end everything is compared. -v logs each step.

queue=%s
seed=%d

`, reflect.Indirect(reflect.ValueOf(q)).Type().PkgPath(), opts.Seed)
}

// lockedWriter keeps the lines of the log and of the feed apart.
type lockedWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *lockedWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(text)
}
