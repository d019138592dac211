// Command metrics serves the metrics of healthy queues, of a queue with a stuck worker,
// and of a queue where nothing succeeds. It also serves the profiles that the alerts in
// ../../monitoring ask for. Ctrl-C ends the program:
//
//	go run ./metrics -listen 127.0.0.1:8080
//	curl http://127.0.0.1:8080/metrics
//
// The load is made up in loads.go. This file is the part to copy.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed16c08ea7/workqueue"
)

const hello = `http://%s/metrics
has the queues thumbnails, reports and polls, which are well, uploads, where a
worker is stuck, and webhooks, where nothing succeeds. Ctrl-C ends it.
`

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "`address` that serves /metrics and /debug/pprof; port 0 is any free one")
	duration := flag.Duration("duration", 0, "how long to run; 0 is until interrupted")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *duration > 0 {
		ctx, stop = context.WithTimeout(ctx, *duration)
		defer stop()
	}
	listener, err := net.Listen("tcp", *listen)
	if err == nil {
		fmt.Printf(hello, listener.Addr())
		err = run(ctx, listener)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

// run works on the queues and serves their metrics until ctx ends.
func run(ctx context.Context, listener net.Listener) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	// workqueue.SetProvider would hand the provider to all named queues of a program.
	// Here each queue gets the provider in its config.
	wait := start(ctx, workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{}))
	defer wait()

	server := http.Server{Handler: handler(registry), ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func handler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	// A server that asks for native histograms gets them. Other servers get the classic
	// buckets.
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	return mux
}
