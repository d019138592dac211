package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// The embedded cluster runs on virtual time: the seconds of its latencies,
// backoffs and pauses cost none.
func embedded(t *testing.T, ctx context.Context, q queue, seed uint64) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := runEmbedded(ctx, &out, q, options{workers: 4, seed: seed})
	return out.String(), err
}

func TestEmbeddedClusterConverges(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			out, err := embedded(t, t.Context(), newQueue(), seed)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, out)
			}
			for _, want := range []string{
				"\nCONVERGED: ",
				"readded=true",
				"failures=5 backoff=80ms",
				`msg="deletion found by a new list"`,
				"msg=drained queued=0",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("seed %d: no %q in\n%s", seed, want, out)
				}
			}
			// The signal finds the last wave in the queue; an empty queue would
			// make the drain a formality.
			if strings.Contains(out, "msg=draining queued=0") {
				t.Errorf("seed %d: nothing to drain in\n%s", seed, out)
			}
		})
	}
}

// lossyQueue is a queue under a controller that forgets to retry.
type lossyQueue struct{ queue }

func (lossyQueue) AddRateLimited(cache.ObjectName) {}

func TestForgottenRetryIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, err := embedded(t, t.Context(), lossyQueue{newQueue()}, 1)
		if err == nil || !strings.Contains(err.Error(), "did not converge") {
			t.Errorf("got error %v, want one about names that did not converge", err)
		}
		if strings.Contains(out, "\nCONVERGED") || !strings.Contains(out, "\nNOT CONVERGED: ") {
			t.Errorf("wrong verdict in\n%s", out)
		}
		if !strings.Contains(out, " default/app-") {
			t.Errorf("no offending name in\n%s", out)
		}
	})
}

// hastyQueue is a queue under a controller that drops its work on a signal.
type hastyQueue struct{ queue }

func (q hastyQueue) Get() (cache.ObjectName, bool) {
	item, shutdown := q.queue.Get()
	if !shutdown && q.ShuttingDown() {
		q.Done(item)
		return q.Get()
	}
	return item, shutdown
}

func TestSkippedDrainIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, err := embedded(t, t.Context(), hastyQueue{newQueue()}, 1)
		if err == nil || !strings.Contains(out, "\nNOT CONVERGED: ") {
			t.Errorf("got error %v after\n%s", err, out)
		}
	})
}

func TestInterruptedRunEndsAndFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		out, err := embedded(t, ctx, newQueue(), 1)
		if err == nil || strings.Contains(out, "\nCONVERGED: ") {
			t.Errorf("got error %v after\n%s", err, out)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %v to end after 300ms", took)
		}
	})
}

// A write that never comes back must not hold the process longer than
// drainTimeout.
func TestDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newCluster(1)
		cluster.faults.latency = time.Hour
		name := cache.NewObjectName(namespace, "stuck")
		if err := cluster.Tracker().Add(configMap(name.Name)); err != nil {
			t.Fatal(err)
		}
		q := observe(newQueue(), quiet())
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- serve(ctx, cluster.flaky(), q, options{workers: 2}, quiet()) }()
		synctest.Wait()
		start := time.Now()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if got := time.Since(start); got != drainTimeout {
			t.Errorf("drained for %v, want %v", got, drainTimeout)
		}
	})
}

// slowQueue takes a second to let an item in.
type slowQueue struct{ queue }

func (q slowQueue) Add(item cache.ObjectName) {
	time.Sleep(time.Second)
	q.queue.Add(item)
}

// Whoever waits for an item may shut the queue down next: the item must be in.
func TestAwaitAddReturnsAfterTheAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		item := cache.NewObjectName(namespace, "late")
		q := observe(slowQueue{newQueue()}, quiet())
		go q.Add(item)
		if err := q.awaitAdd(t.Context(), item); err != nil {
			t.Fatal(err)
		}
		if got := q.Len(); got != 1 {
			t.Errorf("got %d items, want 1", got)
		}
	})
}

func TestTombstoneIsQueuedByName(t *testing.T) {
	c, _ := unstarted(t)
	c.enqueue(cache.DeletedFinalStateUnknown{Key: "default/gone"})
	c.enqueue("not an object")
	if got := c.queue.Len(); got != 1 {
		t.Fatalf("got %d items, want 1", got)
	}
	if key, _ := c.queue.Get(); key != cache.NewObjectName(namespace, "gone") {
		t.Errorf("got %v", key)
	}
}

func TestSyncLeavesForeignSecretsAlone(t *testing.T) {
	foreign := secret("taken", "")
	foreign.Labels = nil
	for _, source := range []*corev1.ConfigMap{nil, configMap("taken")} {
		c, client := unstarted(t, foreign, source)
		err := c.sync(t.Context(), cache.NewObjectName(namespace, "taken"))
		if (err != nil) != (source != nil) {
			t.Errorf("source %v: got error %v", source != nil, err)
		}
		if got := len(client.Actions()); got != 0 {
			t.Errorf("source %v: got %d requests, want none", source != nil, got)
		}
	}
}

// unstarted returns a controller whose caches hold the objects that are not
// nil, and the clientset that sees its requests.
func unstarted(t *testing.T, objects ...metav1.Object) (*controller, *fake.Clientset) {
	t.Helper()
	client := fake.NewSimpleClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := newController(client, factory, newQueue(), quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.queue.ShutDown)
	for _, object := range objects {
		switch object := object.(type) {
		case *corev1.ConfigMap:
			if object != nil {
				err = factory.Core().V1().ConfigMaps().Informer().GetStore().Add(object)
			}
		case *corev1.Secret:
			err = factory.Core().V1().Secrets().Informer().GetStore().Add(object)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c, client
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{mirrorLabel: "true"}},
		Data:       map[string]string{"revision": "7"},
	}
}

func secret(name, revision string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{managedLabel: managedValue}},
		Data:       map[string][]byte{"revision": []byte(revision)},
	}
}
