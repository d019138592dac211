package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed16c08ea7/workqueue/ctrlqueue"
)

// The quiet namespace takes turns with the flood, so both of its objects of a kind are among the first
// five. The manager ends only when each queued object was reconciled, and the page is served beside the
// metrics until then.
func TestManager(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	api := listen(t)
	c := newCluster()
	defer c.serve(api)()
	c.fill("flood", 100)
	c.fill("quiet", 2)
	address := freeAddress(t)
	mgr, err := newManager(restConfig(api), address)
	if err != nil {
		t.Fatal(err)
	}
	var queued int
	var page, metrics string
	c.onQuiet(func(int) {
		for _, kind := range []string{"configmap", "secret", "serviceaccount"} {
			q, ok := ctrlqueue.Lookup[reconcile.Request](kind)
			if !ok {
				t.Errorf("Lookup does not find the queue of %s", kind)
				continue
			}
			queued += q.Stats().Depth
		}
		page, metrics = get(ctx, "http://"+address+pagePath), get(ctx, "http://"+address+"/metrics")
		stop()
	})
	if err := mgr.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if n := c.labelled(); n != 306 || queued == 0 {
		t.Errorf("%d of 306 objects have the label, and %d were queued when the manager was told to end", n, queued)
	}
	for _, want := range []string{"examples/manager", "configmap", "secret", "serviceaccount"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %s: %s", want, page)
		}
	}
	if !strings.Contains(metrics, `workqueue_in_flight{controller="secret",name="secret"}`) {
		t.Errorf("the metrics do not have the queues: %s", metrics)
	}
	for resource := range c.kinds {
		if place := lastOfQuiet(c.writes, resource); place > 5 {
			t.Errorf("%s: the last object of the quiet namespace was number %d", resource, place)
		}
	}
}

// lastOfQuiet returns the place of the last write to the quiet namespace, among the writes of the
// resource.
func lastOfQuiet(writes []string, resource string) (last int) {
	place := 0
	for _, write := range writes {
		if strings.HasPrefix(write, resource+"/") {
			place++
			if write == resource+"/quiet" {
				last = place
			}
		}
	}
	return last
}

func get(ctx context.Context, url string) string {
	request, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err.Error()
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(answer.Status, "\n", string(body))
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// freeAddress returns an address at which nobody listens: the metrics server of a manager does not say
// which port it has got.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener := listen(t)
	defer listener.Close()
	return listener.Addr().String()
}
