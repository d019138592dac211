package webhook

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

// A Program delivers what is added, until ctx ends, and then what it can within a grace
// period.
type Program struct {
	// Add has an event delivered.
	Add func(id string)
	// Run returns when nothing is in flight any more.
	Run func(ctx context.Context) error
}

// Main is the main function of a program that delivers webhooks:
//
//	POST /events?url=...  takes the body as an event, and answers 202 with its name
//	GET /metrics          is for Prometheus
//
// It ends by SIGTERM or Ctrl-C: the server takes no more events, and the program ends as
// it can. The exit status is 1 if that fails.
func Main(name string, newProgram func(outbox *Outbox, registry *prometheus.Registry) Program) {
	listen := flag.String("listen", "127.0.0.1:8080", "`address` of the server; port 0 is any free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // The first signal asks for a graceful end, the second one kills.

	listener, err := net.Listen("tcp", *listen)
	if err == nil {
		fmt.Printf("http://%s/events takes events, http://%s/metrics has the metrics\n", listener.Addr(), listener.Addr())
		err = serve(ctx, listener, newProgram)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// serve serves until ctx ends, and then ends in this order: no more events, no more
// deliveries, and only then no more metrics.
func serve(ctx context.Context, listener net.Listener, newProgram func(*Outbox, *prometheus.Registry) Program) error {
	outbox, registry := NewOutbox(), prometheus.NewRegistry()
	program := newProgram(outbox, registry)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}))
	mux.Handle("POST /events", intake(ctx, outbox, program.Add))
	server := http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	err := program.Run(ctx)
	// A connection that has brought nothing yet counts as busy for five seconds.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 8*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(closing))
	// Only now: an event that came with the signal may have been put there since.
	for _, id := range outbox.Left() {
		fmt.Println("left in the outbox:", id)
	}
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// intake stores an event before it is answered, and refuses it when the program ends.
func intake(ctx context.Context, outbox *Outbox, add func(id string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		url := r.URL.Query().Get("url")
		switch {
		case err != nil || url == "":
			http.Error(w, "want a body of at most 1 MB and a url", http.StatusBadRequest)
		case ctx.Err() != nil:
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
		default:
			id := outbox.Put(Event{URL: url, Body: body})
			add(id)
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprintln(w, id)
		}
	}
}
