// Command prometheus lets real Prometheus servers scrape examples/metrics and
// compares what they have got with what the example has done:
//
//   - every series, by query, and that promtool finds nothing to improve in the
//     exposition;
//   - that every expression of the dashboard has data;
//   - that the two queues that are sick have their alert, and nothing else has
//     any;
//   - the same for controllers of controller-runtime, on its queue and on ours, and a
//     dashboard that others have published for them;
//   - the series of the provider in the registries of controller-runtime and of
//     component-base, which compat/adapted/serve fills, beside those of client-go's
//     queue there, and that those of Run agree with what OnResult was told.
//
// There are two servers, as they differ in what they store: one reads the text
// format and with it the classic buckets of the histograms, the other one
// protobuf and with it the native ones. Rules and dashboard must do for both.
//
// Needs no network but that of the loopback interface, once the program of the
// Debian package prometheus is there, and the module that has the dashboard. Ends by
// itself, mostly within a minute.
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
	// The rules are a hundred times as fast as in production, with ten minutes
	// in six seconds and a day in fourteen minutes.
	times = 100
	// How long the load runs before it is judged: longer than the longest "for"
	// of an alert and its window together (24 s at this speed), so that the
	// healthy queues have had the time to raise an alarm; and longer than the
	// hour before which nothing is usual (36 s).
	settle = 45 * time.Second
	// How much longer the alerts may take on a machine that is busy.
	patience = 30 * time.Second
	// Where a machine stops for some seconds, these are minutes to the rules, so
	// that alerts fire which should not, and scrapes fail. So what has failed is
	// tried anew. What is wrong with the library fails each time.
	tries = 3
	// For one of them, with the builds: it ends what hangs.
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

// try runs all until nothing is wrong with it, some times at most.
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
	// Before the directory goes, those who write to it end.
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

// ageFrom returns what tells how long something has been there.
func ageFrom(start time.Time) func() time.Duration {
	return func() time.Duration { return time.Since(start) }
}

// check asks one server all there is to ask.
func (s *server) check(ctx context.Context, out io.Writer, root string) error {
	fmt.Fprintf(out, "\n== %s histograms\n", s.store)
	return errors.Join(
		s.checkAlerts(ctx, out),
		s.checkFigures(ctx, out),
		s.checkRecorded(ctx, out, root),
		s.checkDashboard(ctx, out, root),
	)
}

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
