// Command serve serves the metrics of three registries: a new registry, the registry of
// controller-runtime and the registry of component-base. Each registry has a queue of
// this project. The last two registries also have a queue of client-go, after the same
// calls. In each registry Run works on a further queue, and /counted serves the counts of
// its results. In the integration tests a real Prometheus scrapes the metrics.
//
//	go run ./adapted/serve -listen 127.0.0.1:0
//
// The command prints its address. A POST to /shutdown shuts our queues down.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	clientgo "k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // sets client-go's global provider first
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/seed16c08ea7/workqueue"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the `address` to serve on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", *listen)
	if err == nil {
		mux := http.NewServeMux()
		serve(mux)
		fmt.Printf("http://%s/\n", listener.Addr())
		server := http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
		context.AfterFunc(ctx, func() { server.Close() })
		err = server.Serve(listener)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

// serve makes the queues and serves their metrics.
func serve(mux *http.ServeMux) {
	own := prometheus.NewRegistry()
	var ours []func()
	for path, r := range map[string]struct {
		registerer prometheus.Registerer
		gatherer   prometheus.Gatherer
		theirs     func() queue
	}{
		"/own":               {own, own, nil},
		"/controllerruntime": {metrics.Registry, metrics.Registry, func() queue { return clientGo(ofControllerRuntime()) }},
		"/componentbase":     {legacyregistry.Registerer(), legacyregistry.DefaultGatherer, func() queue { return clientGo(nil) }},
	} {
		// The provider comes first, as in a program that starts client-go's queues later.
		provider := workqueue.NewPrometheusProvider(r.registerer, workqueue.PrometheusOptions{})
		q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, time.Hour),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "ours", MetricsProvider: provider})
		work(q)
		l := startLoad(provider)
		ours = append(ours, q.ShutDown, l.end)
		if r.theirs != nil {
			work(r.theirs())
		}
		mux.Handle("GET "+path, promhttp.HandlerFor(r.gatherer, promhttp.HandlerOpts{}))
		mux.Handle("GET /counted"+path, l)
	}
	mux.HandleFunc("POST /shutdown", func(http.ResponseWriter, *http.Request) {
		for _, shutDown := range ours {
			shutDown()
		}
	})
}

// A queue has the methods of either package that work needs.
type queue interface {
	Add(item string)
	AddRateLimited(item string)
	Get() (item string, shutdown bool)
	Done(item string)
}

// work leaves the items a and b queued, held in flight and added again, later waiting, and
// the item done finished.
func work(q queue) {
	for _, item := range []string{"held", "done", "a", "b", "b"} {
		q.Add(item)
	}
	q.Get()
	q.Get()
	q.Done("done")
	q.Add("held")
	q.AddRateLimited("later")
}

func clientGo(p clientgo.MetricsProvider) queue {
	return clientgo.NewTypedRateLimitingQueueWithConfig(
		clientgo.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, time.Hour),
		clientgo.TypedRateLimitingQueueConfig[string]{Name: "theirs", MetricsProvider: p})
}

// ofControllerRuntime returns the default provider of the queues of controller-runtime.
// The global provider of client-go comes from component-base here.
func ofControllerRuntime() clientgo.MetricsProvider {
	var opts *priorityqueue.Opts[string]
	priorityqueue.New("unused", func(o *priorityqueue.Opts[string]) { opts = o }).ShutDown()
	return opts.MetricProvider
}
