package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"
)

// feedTimeout is several times what a feed takes, so that a controller which
// hears nothing ends as a failure and not never.
const feedTimeout = 20 * time.Second

// runEmbedded lets the controller keep up with a feed, stops it as a signal
// would, and returns an error unless everything converged.
func runEmbedded(ctx context.Context, out io.Writer, q queue, opts options) error {
	log := newLogger(out, opts.verbose)
	log.Info("starting", "seed", opts.seed, "queue", reflect.Indirect(reflect.ValueOf(q)).Type().PkgPath())
	cluster := newCluster(opts.seed)
	observed := observe(q, log)
	feed := newFeed(cluster, observed, opts.seed, log)

	// serving is over when the feed is, or when the controller fails.
	serving, stop := context.WithTimeout(ctx, feedTimeout)
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- serve(serving, cluster.flaky(), observed, opts, log)
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
