// Command prometheus holds the alert rules, the dashboard and the series of the library to a
// real Prometheus:
//
//   - promtool finds the rules valid, and their unit tests pass. If any threshold of any
//     alert is moved by a third, some test fails.
//   - Every series of examples/metrics has the value that follows from the work of the
//     program. Each of its two sick queues fires its alerts, and no other alert fires. Every
//     recording rule and every query of the dashboard has data.
//   - Each of nine queues that are stuck for different reasons (stuck.go) fires the alert
//     that names the reason, with the right text, the alerts about failures that belong to it,
//     and no other alert.
//   - In a registry of its own and in those of controller-runtime and component-base, our
//     series are right beside the series of client-go's queue, and the series of Run agree
//     with the calls of OnResult (compat/adapted/serve).
//   - Controllers of controller-runtime have the same series on our queue and on
//     controller-runtime's queue, and every query about queues in a dashboard published by
//     Cluster API has data for both (ctrlqueue/internal/serve).
//
// One configuration of Prometheus scrapes all programs. Two servers run it, one with classic
// and one with native histograms: Debian's Prometheus stores one of the two forms.
//
// The first run downloads the Debian package prometheus, unless the machine has the
// program, and the module of the published dashboard. Later runs need the loopback
// interface only.
//
//	go run ./prometheus ..
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

const (
	// The rules run sixty times as fast as in production: a minute becomes a second, and
	// a day 24 minutes.
	times = 60
	// The load runs for so long before the checks. The longest "for" of an alert and its
	// window take 40 s at the faster speed, so a healthy queue has had the time to raise
	// a false alarm. Rules about the usual load need an hour of history, which is 60 s.
	settle = 75 * time.Second
	// Alerts may take so much longer on a busy machine.
	patience = 30 * time.Second
	// A machine that stops for some seconds stops for minutes in the time of the rules.
	// Then healthy queues fire alerts, and scrapes fail. So a failed run is repeated. A
	// bug in the library fails every run.
	tries = 3
	// The longest time for a try, builds included. A try that hangs ends here.
	most = 10 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: prometheus ROOT-OF-THE-REPOSITORY")
		os.Exit(2)
	}
	err := checkRules(ctx, os.Stdout, os.Args[1])
	if err == nil {
		err = try(ctx, os.Stdout, os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prometheus:", err)
		os.Exit(1)
	}
}

// try repeats run until a run succeeds, tries times at most.
func try(ctx context.Context, out io.Writer, root string) (err error) {
	for n := range tries {
		if err != nil {
			fmt.Fprintf(out, "\ntry %d of %d, as %v\n", n+1, tries, err)
		}
		bounded, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("it has not ended within %v", most))
		err = run(bounded, out, root)
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

func run(ctx context.Context, out io.Writer, root string) (err error) {
	work, err := os.MkdirTemp("", "workqueue-prometheus-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// The programs write to the directory, so they end before its removal.
	ctx, cancel := context.WithCancel(ctx)
	var all processes
	defer func() {
		cancel()
		err = errors.Join(err, all.wait())
	}()
	theirs, err := published(ctx, work)
	if err != nil {
		return err
	}
	e, err := all.startExporters(ctx, root, work)
	if err != nil {
		return err
	}
	started := time.Now()
	age := func() float64 { return time.Since(started).Round(time.Second).Seconds() }
	classic, err := all.startServer(ctx, root, work, e, false)
	if err != nil {
		return err
	}
	native, err := all.startServer(ctx, root, work, e, true)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s scrapes the examples, registries and controllers\n", classic.version)
	if err := lint(ctx, out, e.examples); err != nil {
		return err
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	for _, s := range []*server{classic, native} {
		var expected []alert
		for _, q := range stuckQueues {
			if q.name != "" {
				expected = append(expected, q.alert)
			}
			for _, name := range q.beside {
				expected = append(expected, alert{name: name, queue: q.queue})
			}
		}
		err = errors.Join(err, s.checkAlerts(ctx, out, "stuck", expected, patience))
	}
	for _, s := range []*server{classic, native} {
		err = errors.Join(err, s.checkExamples(ctx, out, root, age()))
	}
	return errors.Join(err,
		classic.checkControllers(ctx, out, age()),
		checkPublished(ctx, out, theirs, classic, native),
		classic.checkRegistries(ctx, out, e.registries, age()))
}

// pause waits for d. If ctx ends first, pause returns the cause.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
