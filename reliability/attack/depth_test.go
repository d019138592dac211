package attack

import (
	"context"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// told is a provider that knows the depth, and calls a function with each latency.
type told struct {
	workqueue.NoMetrics
	depth   *gauge
	latency func()
}

type gauge struct{ n int }

func (g *gauge) Inc() { g.n++ }
func (g *gauge) Dec() { g.n-- }

type latencyFunc func()

func (o latencyFunc) Observe(float64) { o() }

func (p told) NewDepthMetric(string) workqueue.GaugeMetric       { return p.depth }
func (p told) NewLatencyMetric(string) workqueue.HistogramMetric { return latencyFunc(p.latency) }

// ended plays a Run with EndKeep whose context ends while an item is handed out, so that the
// item is given back.
func ended(t *testing.T, add func(q *workqueue.TypedRateLimiting[float64])) (q *workqueue.TypedRateLimiting[float64], depth *gauge) {
	ctx, stop := context.WithCancel(t.Context())
	depth = new(gauge)
	q = workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[float64](time.Hour, time.Hour),
		workqueue.TypedRateLimitingQueueConfig[float64]{Name: "q", MetricsProvider: told{depth: depth, latency: stop}})
	t.Cleanup(q.ShutDown)
	add(q)
	workqueue.Run(ctx, q, func(context.Context, float64) error { return nil }, workqueue.RunOptions[float64]{AtEnd: workqueue.EndKeep})
	return q, depth
}

// The depth counts an item that was given back like any other.
func TestDepthOfWhatARunGivesBack(t *testing.T) {
	q, depth := ended(t, func(q *workqueue.TypedRateLimiting[float64]) { q.Add(1) })
	if n := q.Len(); depth.n != n {
		t.Errorf("the depth is %d, and %d items are queued", depth.n, n)
	}
	q.Get()
	q.Done(1)
	if depth.n != 0 {
		t.Errorf("the depth is %d, and nothing is queued", depth.n)
	}
}
