// Package embedded is the cluster of the example controller: ConfigMaps and Secrets within
// the process, a stream of changes that keeps a controller busy, and a judge of the result.
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
)

// Serve is a controller. It works on the cluster until ctx is done. It must use the given
// queue, where Run observes the controller.
type Serve func(ctx context.Context, cluster *Cluster, q *Queue, log *slog.Logger) error

// feedTimeout is much longer than a feed takes, even on a busy machine. Without the
// timeout, a controller that hears nothing would never end instead of failing.
const feedTimeout = 2 * time.Minute

// Run feeds the controller, stops the controller as a signal would, and judges the
// result. It returns an error unless everything converged and no item was with two
// workers at once.
//
// If ctx ends before the feed, Run returns an error only if the end was not graceful: a
// write was cut off, or a key was left in the queue.
func Run(ctx context.Context, out io.Writer, q *RateLimiting, seed uint64, verbose bool, serve Serve) error {
	out = &lockedWriter{out: out}
	fmt.Fprintf(out, introduction, reflect.TypeOf(q).Elem().PkgPath(), seed)
	// Without -v nothing is logged, not even failures. Most failures are injected, and a
	// failure with consequences shows in the verdict.
	log := slog.New(slog.DiscardHandler)
	if verbose {
		log = NewLogger(out, true)
	}
	cluster, observed := NewCluster(seed), observe(q, log)
	defer cluster.Close()
	start := time.Now()
	feed := newFeed(cluster, observed, seed, func(phase string) {
		fmt.Fprintf(out, "%5.2fs  %s\n", time.Since(start).Seconds(), phase)
	})

	// serving ends with the feed, or when the controller fails.
	serving, stop := context.WithTimeout(ctx, feedTimeout)
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- serve(serving, cluster, observed, log)
		stop()
	}()
	err := feed.play(serving)
	r := report{events: feed.counts, atStop: observed.Len()}
	stop()
	ended := <-served
	r.counts, r.writes, r.left = observed.snapshot(), cluster.counts(), observed.Len()
	if err != nil && ctx.Err() != nil {
		return r.judgeStopped(out, ended)
	}
	r.verdict = verify(cluster)
	r.print(out)
	return r.judge(out, errors.Join(err, ended))
}

const introduction = `
A controller at work. It keeps a Secret equal to each ConfigMap that asks for one.
The name of an object that changes is the key that it adds to its queue; workers
take it from there. The cluster is part of this program, and makes trouble. At the
end everything is compared. -v logs each step.

queue=%s
seed=%d

`

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

// NewLogger writes lines for people who watch: the time since the start instead
// of the date, and no level. Syncs that found nothing to do are in a verbose log
// only.
func NewLogger(out io.Writer, verbose bool) *slog.Logger {
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

// report is the result of a run.
type report struct {
	events  eventCounts
	counts  counts
	writes  writeCounts
	atStop  int // items queued when the controller was told to stop
	left    int // items queued when the controller ended
	verdict verdict
}

// print writes the numbers, and the names without the right Secret.
func (r *report) print(out io.Writer) {
	e, c := r.events, r.counts
	fmt.Fprintf(out, `
cluster  %d ConfigMaps created, %d changes to them, %d deleted
         %d Secrets changed or deleted behind the controller's back
writes   %d of the controller failed on purpose, %d because the object had just changed
queue    %d adds of a key, one for each event that the controller saw
         %d more after a failure, to retry
         %d hand-outs of a key to a worker were enough for all of them:
         the other %d (%d%%) found their key in the queue, which holds it once
         %d times a key was added while a worker held it; it was handed out again after that
         %d times two workers held the same key
backoff  a key failed up to %d times in a row; the longest wait for a retry was %v
drain    %d keys were queued when the controller was told to stop, %d when it ended
result   %d ConfigMaps ask for a Secret, %d Secrets of the controller exist
`,
		e.creates, e.updates, e.deletes, e.spoilt,
		r.writes.injected, r.writes.refused,
		c.adds, c.retries, c.handOuts,
		c.merged(), c.merged()*100/max(1, c.adds+c.retries),
		c.readds, c.overlaps,
		c.attempts, c.backoff.Round(time.Millisecond),
		r.atStop, r.left,
		r.verdict.sources, r.verdict.mirrors)
	for _, problem := range r.verdict.problems {
		fmt.Fprintln(out, "        ", problem)
	}
}

// judge prints the verdict. It returns an error if a name did not converge or two workers
// held the same key. err is what the controller or the feed has returned.
func (r *report) judge(out io.Writer, err error) error {
	if n := r.counts.overlaps; n > 0 {
		err = errors.Join(err, fmt.Errorf("%d times two workers held the same key", n))
	}
	if n := len(r.verdict.problems); n > 0 {
		fmt.Fprintf(out, "NOT CONVERGED: %d names differ; -v logs what led to it\n", n)
		return errors.Join(fmt.Errorf("%d names did not converge", n), err)
	}
	if err != nil {
		fmt.Fprintln(out, "FAILED: what was done until the error converged")
		return err
	}
	fmt.Fprintf(out, "CONVERGED: each of the %d ConfigMaps equals its Secret, and no Secret is left over\n", r.verdict.sources)
	return nil
}

// judgeStopped is judge for a run that somebody has interrupted. What the controller has
// not heard of yet differs, and is no fault; nor are keys that are queued before the first hand-out.
func (r *report) judgeStopped(out io.Writer, err error) error {
	fmt.Fprintf(out, "STOPPED early: %d writes ended, %d were cut off, and %d keys are queued\n", r.writes.ended, r.writes.cut, r.left)
	if err == nil && (r.writes.cut > 0 || r.left > 0 && r.counts.handOuts > 0) {
		err = errors.New("the end was not graceful")
	}
	return err
}
