// Command controller shows a controller at work: for every ConfigMap with the label
// example.com/mirror=true, it keeps a Secret with the same data.
//
// The controller works on a small cluster within the program, and needs no network. A seeded
// stream of creates, updates, deletes, spoilt Secrets and failing writes keeps the controller
// busy for a few seconds. At the end the program prints a summary. It exits with 1 if a
// ConfigMap differs from its Secret, or if two workers held a key at once:
//
//	go run ./controller
//	go run ./controller -v
//
// The command clientgo is a controller to copy, for a real cluster.
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
	"reflect"
	"sync"
	"syscall"
	"time"
)

const workers = 4

// feedTimeout is much longer than a feed takes, even on a busy machine. Without the
// timeout, a controller that hears nothing would never end instead of failing.
const feedTimeout = 2 * time.Minute

func main() {
	seed := flag.Uint64("seed", 1, "`number` that decides what happens on the cluster")
	verbose := flag.Bool("v", false, "log each hand-out of the queue and each sync, even one that found nothing to do")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for a graceful end. Then stop brings the default back, so a
	// second signal kills the program.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Stdout, newQueue(), *seed, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "controller:", err)
		os.Exit(1)
	}
}

const introduction = `
A controller at work. It keeps a Secret equal to each ConfigMap that asks for one.
The name of an object that changes is the key that it adds to its queue; workers
take it from there. The cluster is part of this program, and makes trouble. At the
end everything is compared. -v logs each step.

queue=%s
seed=%d

`

// run feeds the controller, stops the controller as a signal would, and judges the
// result. It returns an error unless everything converged and no key was with two
// workers at once. If ctx ends before the feed, only an end that was not graceful is an
// error: a write was cut off, or a key was left in the queue.
func run(ctx context.Context, out io.Writer, q *queue, seed uint64, verbose bool) error {
	out = &lockedWriter{out: out}
	fmt.Fprintf(out, introduction, reflect.TypeOf(q).Elem().PkgPath(), seed)
	// Without -v nothing is logged, not even failures. Most failures are injected, and a
	// failure with consequences shows in the verdict.
	log := slog.New(slog.DiscardHandler)
	if verbose {
		log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	cluster, counted := newCluster(seed), newCountedQueue(q, log)
	defer cluster.close()
	controller, err := newController(cluster, counted, log)
	if err != nil {
		return err
	}
	start := time.Now()
	feed := newFeed(cluster, counted, seed, func(phase string) {
		fmt.Fprintf(out, "%5.2fs  %s\n", time.Since(start).Seconds(), phase)
	})

	// working ends with the feed, or when the controller fails.
	working, stop := context.WithTimeout(ctx, feedTimeout)
	defer stop()
	worked := make(chan error, 1)
	go func() {
		worked <- controller.run(working, workers)
		stop()
	}()
	err = feed.play(working)
	r := report{events: feed.counts, atStop: counted.Len()}
	stop()
	ended := <-worked
	r.counts, r.left = counted.snapshot(), counted.Len()
	cluster.set(func(t *trouble) { r.writes = *t })
	if err != nil && ctx.Err() != nil {
		return r.judgeStopped(out, ended)
	}
	r.wanted, r.problems = cluster.differences()
	r.print(out)
	return r.judge(out, errors.Join(err, ended))
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

// report is the result of a run.
type report struct {
	events   eventCounts
	counts   counts
	writes   trouble
	atStop   int      // keys queued when the controller was told to stop
	left     int      // keys queued when the controller ended
	wanted   int      // ConfigMaps whose label asks for a Secret
	problems []string // a line for each name without the right Secret
}

// print writes the numbers, and the names without the right Secret.
func (r *report) print(out io.Writer) {
	e, c := r.events, r.counts
	fmt.Fprintf(out, `
cluster  %d ConfigMaps created, %d changes to them, %d deleted
         %d Secrets changed or deleted behind the controller's back
writes   %d of the controller failed on purpose, %d because the object had just changed
queue    %d adds of a key, one for each event that the controller saw
         %d hand-outs of a key to a worker were enough, retries after failures included
         %d times two workers held the same key
         a key failed up to %d times in a row
drain    %d keys were queued when the controller was told to stop, %d when it ended
`,
		e.creates, e.updates, e.deletes, e.spoilt,
		r.writes.injected, r.writes.refused,
		c.adds, c.handOuts, c.overlaps, c.failures,
		r.atStop, r.left)
	for _, problem := range r.problems {
		fmt.Fprintln(out, "        ", problem)
	}
}

// judge prints the verdict. It returns an error if a name did not converge or two workers
// held the same key. err is what the controller or the feed has returned.
func (r *report) judge(out io.Writer, err error) error {
	if n := r.counts.overlaps; n > 0 {
		err = errors.Join(err, fmt.Errorf("%d times two workers held the same key", n))
	}
	if n := len(r.problems); n > 0 {
		fmt.Fprintf(out, "NOT CONVERGED: %d names differ; -v logs what led to it\n", n)
		return errors.Join(fmt.Errorf("%d names did not converge", n), err)
	}
	if err != nil {
		fmt.Fprintln(out, "FAILED: what was done until the error converged")
		return err
	}
	fmt.Fprintf(out, "CONVERGED: each of the %d ConfigMaps equals its Secret, and no Secret is left over\n", r.wanted)
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
