package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue/examples/internal/embedded"
	"github.com/seed16c08ea7/workqueue/examples/internal/fixture"
)

// The embedded cluster runs on virtual time: the seconds of its latencies,
// backoffs and pauses cost none.
func play(t *testing.T, ctx context.Context, q queue, seed uint64) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := runEmbedded(ctx, &out, q, options{workers: 4, seed: seed, verbose: true})
	return out.String(), err
}

func TestEmbeddedClusterConverges(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			out, err := play(t, t.Context(), newQueue(), seed)
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
		out, err := play(t, t.Context(), lossyQueue{newQueue()}, 1)
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
		out, err := play(t, t.Context(), hastyQueue{newQueue()}, 1)
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
		out, err := play(t, ctx, newQueue(), 1)
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
		cluster := embedded.NewCluster(1)
		defer cluster.Close()
		cluster.SetLatency(time.Hour)
		if err := cluster.Create(fixture.ConfigMap("stuck")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- serve(ctx, cluster.Config(), newQueue(), options{workers: 2}, fixture.Quiet()) }()
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
