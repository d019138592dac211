package attack

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed16c08ea7/workqueue"
)

// TestScrapes has queues of few names begin, work and end beside scrapes and beside further
// calls of NewPrometheusProvider. No scrape fails, and all callers get one provider.
func TestScrapes(t *testing.T) {
	play(t, 12, func(t *testing.T, rnd *rand.Rand) int {
		registry := prometheus.NewRegistry()
		var options workqueue.PrometheusOptions
		if rnd.IntN(2) == 0 {
			options.Buckets = []float64{}
		}
		options.ControllerLabel = rnd.IntN(2) == 0
		const goroutines, turns = 4, 60
		providers := make([]*workqueue.PrometheusProvider, goroutines)
		var running sync.WaitGroup
		for g := range goroutines {
			own := rand.New(rand.NewPCG(rnd.Uint64(), 0))
			running.Go(func() {
				providers[g] = workqueue.NewPrometheusProvider(registry, options)
				for range turns {
					if own.IntN(4) == 0 {
						if _, err := registry.Gather(); err != nil {
							t.Errorf("a scrape has failed: %v", err)
						}
						continue
					}
					useMeasured(workqueue.NewPrometheusProvider(registry, options), own)
				}
			})
		}
		call(t, "all", running.Wait)
		for _, p := range providers[1:] {
			if p != providers[0] {
				t.Error("one registry has two providers")
			}
		}
		runtime.GC() // Some queues were dropped without a shutdown.
		if _, err := registry.Gather(); err != nil {
			t.Error(err)
		}
		return goroutines * turns
	})
}

// useMeasured makes a queue of one of few names, some of which become the same label.
func useMeasured(p *workqueue.PrometheusProvider, rnd *rand.Rand) {
	order := workqueue.Order[int]{}
	if rnd.IntN(2) == 0 {
		order.Group = func(item int) string { return fmt.Sprint(item % 30) }
	}
	q := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[int]{
		Name: []string{"a", "b", "\xff", "\xfe"}[rnd.IntN(4)], MetricsProvider: p, Order: order,
	})
	for item := range rnd.IntN(40) {
		switch rnd.IntN(4) {
		case 0:
			q.AddWith(workqueue.AddOptions{Priority: new(rnd.IntN(40))}, item)
		case 1:
			q.AddRateLimited(item)
		case 2:
			q.Add(item)
		case 3:
			if got, ok := q.TryGet(); ok && rnd.IntN(2) == 0 {
				q.Done(got)
			}
		}
	}
	if rnd.IntN(8) > 0 {
		q.ShutDown()
	}
}
