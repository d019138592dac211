// Command serve runs controllers of controller-runtime without a cluster, and serves
// their metrics as a manager does. Each kind of controller runs twice, with the same
// feed: on a queue of controller-runtime, with a name that begins with theirs, and on our
// queue. The integration tests have a real Prometheus scrape the metrics.
//
//	go run ./internal/serve -listen 127.0.0.1:0
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

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/seed16c08ea7/workqueue/ctrlqueue"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the `address` to serve on")
	flag.Parse()
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen string) error {
	for _, kind := range []kind{{"still", feedOnce, stuck}, {"busy", feedAlways, work}} {
		for name, options := range map[string]controller.Options{
			"theirs": {},
			"ours":   {NewQueue: ctrlqueue.For(ctrlqueue.Options[reconcile.Request]{}).NewQueue},
		} {
			if err := kind.start(ctx, name+"-"+kind.name, options); err != nil {
				return err
			}
		}
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	fmt.Printf("http://%s/\n", listener.Addr())
	server := http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	return server.Serve(listener)
}

// A kind is a feed for the queue and the work of a reconciler.
type kind struct {
	name string
	feed func(context.Context, priorityqueue.PriorityQueue[reconcile.Request])
	do   reconcile.Func
}

func (k kind) start(ctx context.Context, name string, options controller.Options) error {
	options.Logger = logr.Discard()
	options.Reconciler = k.do
	c, err := controller.NewUnmanaged(name, options)
	if err != nil {
		return err
	}
	if err := c.Watch(source.Func(func(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go k.feed(ctx, q.(priorityqueue.PriorityQueue[reconcile.Request]))
		return nil
	})); err != nil {
		return err
	}
	go c.Start(ctx)
	return nil
}

func request(prefix string, i int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: fmt.Sprint(prefix, i)}}
}

// feedOnce leaves an item with the only worker. Behind, five items of the initial list
// and two urgent items are queued. Another item waits for its time.
func feedOnce(_ context.Context, q priorityqueue.PriorityQueue[reconcile.Request]) {
	q.Add(request("stuck", 0))
	for q.Len() > 0 { // Until the worker has the item.
		time.Sleep(time.Millisecond)
	}
	low := priorityqueue.AddOpts{Priority: new(-100)}
	for i := range 6 {
		q.AddWithOpts(low, request("listed", i))
	}
	q.Add(request("listed", 5))
	q.Add(request("urgent", 0))
	q.AddAfter(request("later", 0), time.Hour)
}

// stuck never ends by itself.
func stuck(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	<-ctx.Done()
	return reconcile.Result{}, nil
}

// feedAlways adds some items a second, for as long as the controller runs.
func feedAlways(ctx context.Context, q priorityqueue.PriorityQueue[reconcile.Request]) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-tick.C:
			q.Add(request("busy", i%100))
		case <-ctx.Done():
			return
		}
	}
}

// work takes 5 milliseconds. An attempt on an item whose name ends in 7 fails in about
// half the cases.
func work(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
	time.Sleep(5 * time.Millisecond)
	if r.Name[len(r.Name)-1] == '7' && time.Now().UnixMilli()%2 == 0 {
		return reconcile.Result{}, errors.New("fails now and then")
	}
	return reconcile.Result{}, nil
}
