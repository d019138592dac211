package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "`address` of the server; port 0 is any free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // The first signal asks for a graceful end, the second one kills.

	listener, err := net.Listen("tcp", *listen)
	if err == nil {
		fmt.Printf("http://%s/events takes events, http://%s/metrics has the metrics\n", listener.Addr(), listener.Addr())
		err = serve(ctx, listener)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "webhook:", err)
		os.Exit(1)
	}
}

// serve serves until ctx ends. Then new events are refused first, the deliveries end
// second, and the metrics last, so that Prometheus can watch the drain.
func serve(ctx context.Context, listener net.Listener) error {
	events, registry := newOutbox(), prometheus.NewRegistry()
	queue := newQueue(registry)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}))
	mux.Handle("POST /events", intake(ctx, events, queue.Add))
	server := http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	err := run(ctx, queue, events)
	// Shutdown waits five seconds for a new connection without a request.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 8*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(closing))
	// Only after Shutdown: a request at the time of the signal may store its event late.
	for _, id := range events.left() {
		fmt.Println("left in the outbox:", id)
	}
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// intake stores an event before the answer, so an accepted event is never lost. After ctx
// has ended, intake refuses events.
func intake(ctx context.Context, events *outbox, add func(id string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		url := r.URL.Query().Get("url")
		switch {
		case err != nil || url == "":
			http.Error(w, "want a body of at most 1 MB and a url", http.StatusBadRequest)
		case ctx.Err() != nil:
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
		default:
			id := events.put(event{URL: url, Body: body})
			add(id)
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprintln(w, id)
		}
	}
}
