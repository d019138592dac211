// Command debug serves a page about queues under load: deployments, whose items have priorities
// and namespaces, and webhooks, where much fails and one item is stuck. The program ends after
// two minutes, or by Ctrl-C:
//
//	go run ./debug -listen 127.0.0.1:8080
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/debugpage"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` that serves the page; port 0 is any free one")
	duration := flag.Duration("duration", 2*time.Minute, "how long to run; 0 is until interrupted")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *duration > 0 {
		ctx, stop = context.WithTimeout(ctx, *duration)
		defer stop()
	}
	listener, err := net.Listen("tcp", *listen)
	if err == nil {
		fmt.Printf("http://%s/debug/workqueue/ shows the queues. Ctrl-C ends the program.\n", listener.Addr())
		err = run(ctx, listener)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "debug:", err)
		os.Exit(1)
	}
}

// run works on the queues and serves the page until ctx ends.
func run(ctx context.Context, listener net.Listener) error {
	page := debugpage.New(debugpage.Options{
		Title:  "examples/debug",
		Stuck:  5 * time.Second,
		Redact: hideTokens,
	})
	wait := start(ctx, page)
	defer wait()

	mux := http.NewServeMux()
	mux.Handle("/debug/workqueue/", page)
	server := http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// hideTokens hides what follows token= in a key.
func hideTokens(key string) string {
	if before, _, found := strings.Cut(key, "token="); found {
		return before + "token=…"
	}
	return key
}

// start starts two queues with their load, and puts the queues on the page.
func start(ctx context.Context, page *debugpage.Page) (wait func()) {
	// A provider makes the queues count, so that the page shows rates.
	provider := workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{})

	deployments := workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[string]{
			Name: "deployments", MetricsProvider: provider,
			Order: workqueue.Order[string]{Group: namespace},
		})
	webhooks := workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](2*time.Second, 10*time.Minute),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "webhooks", MetricsProvider: provider})
	debugpage.Add(page, "deployments", deployments)
	debugpage.Add(page, "webhooks", webhooks)

	quiet := logr.Discard() // The log of a program with such keys needs a redaction of its own.
	var running sync.WaitGroup
	running.Go(func() {
		_ = workqueue.Run(ctx, deployments, mostly(0.95), workqueue.RunOptions[string]{Workers: 4, Logger: &quiet})
	})
	running.Go(func() {
		_ = workqueue.Run(ctx, webhooks, mostly(0.3), workqueue.RunOptions[string]{Workers: 3, Logger: &quiet})
	})
	running.Go(func() { produce(ctx, deployments, webhooks) })
	return running.Wait
}

func namespace(key string) string {
	name, _, _ := strings.Cut(key, "/")
	return name
}

// mostly returns a handler that succeeds with the probability. An item whose key has "stuck" in it
// takes until ctx ends.
func mostly(succeeds float64) func(ctx context.Context, key string) error {
	return func(ctx context.Context, key string) error {
		work := time.After(time.Duration(rand.ExpFloat64() * float64(40*time.Millisecond)))
		if strings.Contains(key, "stuck") {
			work = nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-work:
		}
		if rand.Float64() > succeeds {
			return errors.New("the other side has failed")
		}
		return nil
	}
}

// produce adds items until ctx ends. Every now and then a burst comes, of low priority.
func produce(ctx context.Context, deployments, webhooks *workqueue.TypedRateLimiting[string]) {
	webhooks.Add("customer-7/stuck?token=secret")
	low := -10
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		space := []string{"default", "kube-system", "shop", "shop-staging", "payments"}[min(4, int(rand.ExpFloat64()*2))]
		deployments.Add(fmt.Sprintf("%s/app-%d", space, rand.IntN(200)))
		if n%500 == 100 {
			for i := range 300 {
				deployments.AddWith(workqueue.AddOptions{Priority: &low}, fmt.Sprintf("shop-staging/resync-%d", i))
			}
		}
		if n%4 == 0 {
			webhooks.Add(fmt.Sprintf("customer-%d/order-%d?token=%08x", rand.IntN(9), n, rand.Uint32()))
		}
	}
}
