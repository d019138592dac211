// Command prometheus lets real Prometheus servers scrape our programs, and compares the
// scraped series with the work that the programs have done.
//
// Of examples/metrics:
//
//   - Every series has the expected value. promtool finds nothing to improve in the
//     exposition.
//   - Every recording rule and every expression of the dashboard has data.
//   - Each of the two sick queues fires its alert. No other alert fires.
//
// Of controllers of controller-runtime, on its queue and on ours
// (ctrlqueue/internal/serve):
//
//   - Both queues have the expected figures under the same names and labels.
//   - Every query about queues in a dashboard published by Cluster API has data.
//
// Of the registries of controller-runtime and component-base (compat/adapted/serve):
//
//   - The series of our provider are right beside the series of client-go's queue.
//   - The series of Run agree with the results that OnResult received.
//
// Two servers scrape examples/metrics. The first reads the text format, and stores the
// classic buckets of histograms. The second reads protobuf, and stores native histograms.
// Rules and dashboard must work on both.
//
// The first run downloads the Debian package prometheus, unless the machine has the
// program, and the module of the published dashboard. Later runs need the loopback
// interface only. A run usually ends within a minute.
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
	// The rules run a hundred times as fast as in production: ten minutes become six
	// seconds, and a day fourteen minutes.
	times = 100
	// The load runs for so long before the checks. The longest "for" of an alert and its
	// window take 24 s at the faster speed, so a healthy queue has had the time to raise
	// a false alarm. Rules about the usual load need an hour of history, which is 36 s.
	settle = 45 * time.Second
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
	if err := try(ctx, os.Stdout, os.Args[1]); err != nil {
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
	example, err := all.startExample(ctx, root, work)
	if err != nil {
		return err
	}
	servers, err := all.startServers(ctx, out, root, work, example)
	if err != nil {
		return err
	}
	registries, target, err := all.startRegistries(ctx, root, work)
	if err != nil {
		return err
	}
	controllers, err := all.startControllers(ctx, root, work)
	if err != nil {
		return err
	}
	if err := lint(ctx, out, example); err != nil {
		return err
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	for _, s := range servers {
		err = errors.Join(err, s.check(ctx, out, root))
	}
	fmt.Fprintln(out, "\n== registries")
	err = errors.Join(err, registries.checkRegistries(ctx, out, target))
	fmt.Fprintln(out, "\n== controllers")
	return errors.Join(err, controllers[0].checkControllers(ctx, out), checkPublished(ctx, out, theirs, controllers))
}

// startServers starts a server for each way to store histograms.
func (p *processes) startServers(ctx context.Context, out io.Writer, root, work, example string) (servers []*server, err error) {
	age := ageFrom(time.Now())
	for _, store := range []histograms{classic, native} {
		s, err := p.startServer(ctx, root, work, example, store)
		if err != nil {
			return nil, err
		}
		s.age, s.patience = age, patience
		fmt.Fprintf(out, "%s with %s histograms scrapes %s\n", s.version, store, example)
		servers = append(servers, s)
	}
	return servers, nil
}

// ageFrom returns a function for the time since start.
func ageFrom(start time.Time) func() time.Duration {
	return func() time.Duration { return time.Since(start) }
}

// check runs all checks of examples/metrics on a server.
func (s *server) check(ctx context.Context, out io.Writer, root string) error {
	fmt.Fprintf(out, "\n== %s histograms\n", s.store)
	return errors.Join(
		s.checkAlerts(ctx, out),
		s.checkFigures(ctx, out),
		s.checkRecorded(ctx, out, root),
		s.checkDashboard(ctx, out, root),
	)
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
