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
	"time"

	"k8s.io/client-go/kubernetes"
)

// Options are those of a run.
type Options struct {
	Seed    uint64 // of the event stream
	Verbose bool   // log every hand-out
}

// Serve is a controller. It works with the client and the queue, on which it is
// observed, until ctx is done.
type Serve func(ctx context.Context, client kubernetes.Interface, queue Queue, log *slog.Logger) error

// feedTimeout is several times what a feed takes, so that a controller which
// hears nothing ends as a failure and not never.
const feedTimeout = 20 * time.Second

// Run lets the controller keep up with a feed, stops it as a signal would, and
// returns an error unless everything converged.
func Run(ctx context.Context, out io.Writer, q Queue, opts Options, serve Serve) error {
	log := NewLogger(out, opts.Verbose)
	log.Info("starting", "seed", opts.Seed, "queue", reflect.Indirect(reflect.ValueOf(q)).Type().PkgPath())
	cluster := NewCluster(opts.Seed)
	observed := observe(q, log)
	feed := newFeed(cluster, observed, opts.Seed, log)

	// serving is over when the feed is, or when the controller fails.
	serving, stop := context.WithTimeout(ctx, feedTimeout)
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- serve(serving, cluster.Flaky(), observed, log)
		stop()
	}()
	feedErr := feed.play(serving)
	stop()
	serveErr := <-served

	// A run that was cut short is judged as well.
	v, err := verify(context.WithoutCancel(ctx), cluster)
	summarize(out, feed.counts, observed.snapshot(), cluster.faults.count(), v)
	err = errors.Join(feedErr, serveErr, err)
	switch {
	case len(v.problems) > 0:
		fmt.Fprintf(out, "NOT CONVERGED: %d names differ\n", len(v.problems))
		return errors.Join(fmt.Errorf("%d names did not converge", len(v.problems)), err)
	case err != nil:
		fmt.Fprintln(out, "CUT SHORT: what was fed until then converged")
		return err
	}
	fmt.Fprintf(out, "CONVERGED: %d of %d ConfigMaps equal their mirror, no mirror is left over\n", v.sources, v.sources)
	return nil
}

// summarize prints what happened, down to the names that did not converge.
func summarize(out io.Writer, e eventCounts, c counts, injected int, v verdict) {
	fmt.Fprintf(out, `
cluster   %d creates, %d updates, %d deletes, %d sabotaged mirrors, %d failed writes
queue     %d adds + %d retries led to %d hand-outs: %.0f%% were merged
          %d hand-outs were overtaken by a re-add of their item
backoff   at most %d failures of an item in a row, longest wait %v
result    %d ConfigMaps want a mirror, %d mirrors exist
`,
		e.creates, e.updates, e.deletes, e.sabotage, injected,
		c.adds, c.retries, c.handOuts, c.merged()*100,
		c.readds,
		c.attempts, c.backoff.Round(time.Millisecond),
		v.sources, v.mirrors)
	for _, problem := range v.problems {
		fmt.Fprintln(out, "          ", problem)
	}
}
