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

// A Program delivers the added events. After ctx ends, it delivers the rest as far as a
// grace period allows.
type Program struct {
	// Add plans the delivery of an event.
	Add func(id string)
	// Run returns after ctx has ended and nothing is in flight any more.
	Run func(ctx context.Context) error
}

// Main is the main function of a program that delivers webhooks:
//
//	POST /events?url=...  takes the body as an event, and answers 202 with its name
//	GET /metrics          is for Prometheus
//
// SIGTERM or Ctrl-C ends the program. First the server refuses new events, then the
// program finishes its deliveries. The exit status is 1 after an error.
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

// serve serves until ctx ends. Then new events are refused first, the deliveries end
// second, and the metrics last, so that Prometheus can watch the drain.
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
	// Shutdown waits five seconds for a new connection without a request.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 8*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(closing))
	// Only after Shutdown: a request at the time of the signal may store its event late.
	for _, id := range outbox.Left() {
		fmt.Println("left in the outbox:", id)
	}
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// intake stores an event before the answer, so an accepted event is never lost. After ctx
// has ended, intake refuses events.
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
