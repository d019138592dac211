// Package embedded is the cluster that the example controllers carry with them,
// with a stream of events that keeps it busy, and the judge of how they did.
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

// Options are those of a run.
type Options struct {
	Seed    uint64 // of the event stream
	Verbose bool   // log every hand-out, and what the controller does
	Forever bool   // keep the controller busy until it is interrupted
}

// Serve is a controller. It works on the cluster of the config and with the
// queue, on which it is observed, until ctx is done.
type Serve func(ctx context.Context, config *rest.Config, queue Queue, log *slog.Logger) error

// feedTimeout is many times what a feed takes, on a busy machine too, so that a
// controller which hears nothing ends as a failure and not never.
const feedTimeout = 2 * time.Minute

// Run lets the controller keep up with a feed, stops it as a signal would, and
// returns an error unless everything converged and no item was handed to two
// workers at once.
func Run(ctx context.Context, out io.Writer, q Queue, opts Options, serve Serve) error {
	out = &lockedWriter{out: out}
	if opts.Forever {
		return runForever(ctx, out, q, opts, serve)
	}
	introduce(out, q, opts)
	// Without -v nothing is logged, not even failures: most of them are made on
	// purpose, and one that matters shows in the verdict.
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

	// serving is over when the feed is, or when the controller fails.
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
	r.verdict = verify(cluster) // A run that was cut short is judged as well.
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
