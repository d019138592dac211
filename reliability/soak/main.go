// Command soak uses a queue with all its features for a long time, as a controller would: a fixed
// churn of keys, failures, bursts, scrapes and terms of leadership. At intervals it lets the queue
// come to rest and prints the memory in use, the goroutines, the lateness and the throughput.
//
// The exit code is 1 if memory or goroutines grow, or if the queue does not come to rest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// samples is how many samples a run takes. The first ones belong to the warm-up.
const samples = 20

func main() {
	duration := flag.Duration("duration", 10*time.Minute, "how long to run")
	keys := flag.Int("keys", 20_000, "how many keys there are")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := soak(ctx, *duration, *keys); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func soak(ctx context.Context, duration time.Duration, keys int) error {
	l := newLoad(keys)
	fmt.Printf("%8s %10s %10s %11s %12s %12s %8s\n", "after", "heap", "goroutines", "items/s", "late, 50 %", "late, 99 %", "terms")
	var all []sample
	for began := time.Now(); time.Since(began) < duration; {
		s, err := l.interval(ctx, duration/samples)
		if err != nil {
			return errors.Join(err, l.end())
		}
		fmt.Printf("%8s %7d KB %10d %11.0f %12v %12v %8d\n", time.Since(began).Round(time.Second),
			s.heap>>10, s.goroutines, s.throughput, s.late50, s.late99, s.terms)
		all = append(all, s)
	}
	if err := l.end(); err != nil {
		return err
	}
	if err := growth(all); err != nil {
		return err
	}
	fmt.Println("neither memory nor goroutines grow")
	return nil
}
