// Command serve serves the metrics of three registries, each with a queue of this
// project in it: a registry of its own, that of controller-runtime and that of
// component-base. The latter two have a queue of client-go beside it, which has done the
// same. In each of them Run works on another queue, and /counted tells what it has come
// to. The integration tests have a real Prometheus scrape it.
//
//	go run ./adapted/serve -listen 127.0.0.1:0
//
// It prints the address. A POST to /shutdown shuts our queues down.
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
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // client-go's provider, which is set first
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

// A queue is what work needs of either package.
type queue interface {
	Add(item string)
	AddRateLimited(item string)
	Get() (item string, shutdown bool)
	Done(item string)
}

// work leaves three items queued, one of them held as well, one waiting, one done.
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

// ofControllerRuntime returns the provider that its queues have by default. The global
// one is that of component-base here.
func ofControllerRuntime() clientgo.MetricsProvider {
	var opts *priorityqueue.Opts[string]
	priorityqueue.New("unused", func(o *priorityqueue.Opts[string]) { opts = o }).ShutDown()
	return opts.MetricProvider
}
