package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clientgo "k8s.io/client-go/util/workqueue"

	"github.com/seed16c08ea7/workqueue"
)

// A crew is a way to handle n queued items with several workers. It returns when the last item is
// done.
type crew struct {
	name string
	open func() rateLimiting[string]
	work func(q rateLimiting[string], workers, n int)
}

// crews are the loop by hand on each kind of queue, Run without an option and with each option that has
// a cost for each item, and the loop by hand on client-go's queue. That queue keeps no times without
// metrics.
func crews() (cs []crew) {
	for _, mode := range []struct {
		name   string
		config func() workqueue.TypedRateLimitingQueueConfig[string]
	}{
		{"plain", func() (c workqueue.TypedRateLimitingQueueConfig[string]) { return c }},
		{"KeepTimes", func() (c workqueue.TypedRateLimitingQueueConfig[string]) {
			c.KeepTimes = true
			return c
		}},
		{"Prometheus", func() (c workqueue.TypedRateLimitingQueueConfig[string]) {
			c.Name, c.MetricsProvider = "bench", shipped()
			return c
		}},
	} {
		open := func() rateLimiting[string] {
			return workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](), mode.config())
		}
		name := "/queue=" + mode.name
		cs = append(cs,
			crew{"impl=workqueue/loop=by-hand" + name, open, workCrew},
			crew{"impl=workqueue/loop=Run" + name, open, runCrew(workqueue.RunOptions[string]{})},
			crew{"impl=workqueue/loop=Run" + name + "/option=OnResult", open, runCrew(workqueue.RunOptions[string]{
				OnResult: func(context.Context, string, workqueue.HandlerResult) {},
			})},
			crew{"impl=workqueue/loop=Run" + name + "/option=CancelOnReAdd", open, runCrew(workqueue.RunOptions[string]{CancelOnReAdd: 3})},
			crew{"impl=workqueue/loop=Run" + name + "/option=Timeout", open, runCrew(workqueue.RunOptions[string]{Timeout: time.Hour})})
	}
	for name, provider := range map[string]clientgo.MetricsProvider{"plain": nil, "Prometheus": theirProvider{newVectors()}} {
		cs = append(cs, crew{"impl=client-go/loop=by-hand/queue=" + name, func() rateLimiting[string] {
			return clientgo.NewTypedRateLimitingQueueWithConfig(clientgo.DefaultTypedControllerRateLimiter[string](),
				clientgo.TypedRateLimitingQueueConfig[string]{Name: "bench", MetricsProvider: provider})
		}, workCrew})
	}
	return cs
}

func runCrew(options workqueue.RunOptions[string]) func(q rateLimiting[string], workers, n int) {
	logger := logr.Discard()
	options.Logger = &logger
	return func(q rateLimiting[string], workers, n int) {
		ctx, stop := context.WithCancel(context.Background())
		var left atomic.Int64
		left.Store(int64(n))
		options := options
		options.Workers = workers
		workqueue.Run(ctx, q.(*workqueue.TypedRateLimiting[string]), func(context.Context, string) error {
			if left.Add(-1) == 0 {
				stop()
			}
			return nil
		}, options)
	}
}

func workCrew(q rateLimiting[string], workers, n int) {
	var left atomic.Int64
	left.Store(int64(n))
	handle := func(string) error {
		if left.Add(-1) == 0 {
			go q.ShutDown()
		}
		return nil
	}
	process := func() bool {
		item, shutdown := q.Get()
		if shutdown {
			return false
		}
		defer q.Done(item)
		if err := handle(item); err != nil {
			q.AddRateLimited(item)
			return true
		}
		q.Forget(item)
		return true
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for process() {
			}
		})
	}
	all.Wait()
}

// BenchmarkRun measures one item for several workers, of 64k queued items, with a handler
// that counts: the cost of Run and of each option, compared with a loop by hand.
func BenchmarkRun(b *testing.B) {
	keys := stringKeys(population)
	for _, c := range crews() {
		for _, workers := range []int{1, 2, 8} {
			b.Run(fmt.Sprintf("%s/workers=%d", c.name, workers), func(b *testing.B) {
				b.ReportAllocs()
				for done := 0; done < b.N; {
					n := min(population, b.N-done)
					b.StopTimer()
					q := c.open()
					fill(q, keys[:n])
					b.StartTimer()
					c.work(q, workers, n)
					b.StopTimer()
					q.ShutDown()
					done += n
				}
			})
		}
	}
}
