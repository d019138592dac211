package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/examples/internal/embedded"
	"github.com/seed16c08ea7/workqueue/examples/internal/fixture"
	"github.com/seed16c08ea7/workqueue/examples/internal/lines"
)

// played is the output of a run in virtual time.
func played(ctx context.Context, q *queue, seed uint64) (string, error) {
	var out bytes.Buffer
	err := play(ctx, &out, &controller{}, q, embedded.Options{Seed: seed, Verbose: true})
	return out.String(), err
}

func TestEmbeddedClusterConverges(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			out, err := played(t.Context(), newQueue(), seed)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, out)
			}
			for _, want := range []string{
				"\nCONVERGED: ",
				"readded=true",
				"failures=5 backoff=80ms",
				`msg="deletion found by a new list"`,
				`msg="Handler failed, the item will be retried" queue=mirror item=default/app-`,
			} {
				if !strings.Contains(out, want) {
					t.Errorf("seed %d: no %q in\n%s", seed, want, out)
				}
			}
		})
	}
}

// never is a limiter whose retries do not come.
type never struct {
	workqueue.TypedRateLimiter[cache.ObjectName]
}

func (never) When(cache.ObjectName) time.Duration { return math.MaxInt64 }

func TestForgottenRetryIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := never{workqueue.DefaultTypedItemBasedRateLimiter[cache.ObjectName]()}
		q := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{})
		out, err := played(t.Context(), q, 1)
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
		out, err := played(ctx, newQueue(), 1)
		if err == nil || strings.Contains(out, "\nCONVERGED: ") {
			t.Errorf("got error %v after\n%s", err, out)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %v to end after 300ms", took)
		}
	})
}

// A write that never comes back must not hold the process longer than
// drainTimeout, and its item is named.
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
		go func() { served <- (&controller{queue: newQueue(), log: fixture.Quiet()}).serve(ctx, cluster.Config()) }()
		synctest.Wait()
		start := time.Now()
		cancel()
		left, ok := errors.AsType[*workqueue.DrainError[cache.ObjectName]](<-served)
		if !ok || left.Left.QueuedTotal != 1 || left.Left.Queued[0].Item.Name != "stuck" {
			t.Errorf("got %v, want that one item is left", left)
		}
		if got := time.Since(start); got != drainTimeout {
			t.Errorf("drained for %v, want %v", got, drainTimeout)
		}
	})
}

// The loop takes fewer than a third of the lines that it takes by hand. A line
// is one with code on it, in the methods that are not about the job.
func TestLoopIsShort(t *testing.T) {
	hand := lines.Of(t, "../controller/controller.go", "run", "runWorker", "processNextWorkItem")
	here := lines.Of(t, "controller.go", "run")
	t.Logf("%d lines by hand, %d here", hand, here)
	if 3*here >= hand {
		t.Errorf("%d lines of %d are not fewer than a third", here, hand)
	}
}

// The probe fails until each object of the initial list was synced once, also one that failed.
func TestReadyAfterTheInitialList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		defer q.ShutDown()
		c := &controller{queue: q, log: slog.New(slog.DiscardHandler)}
		probe := func() int {
			synctest.Wait()
			w := httptest.NewRecorder()
			c.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
			return w.Code
		}
		for _, name := range []string{"a", "b"} {
			q.Add(cache.ObjectName{Name: name})
		}
		go c.reportReady(t.Context())
		for _, want := range []int{503, 503, 200} {
			if got := probe(); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
			item, _ := q.TryGet()
			q.AddRateLimited(item)
			q.Add(cache.ObjectName{Name: "later"})
			q.Done(item)
		}
	})
}
