package bench

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	clientgo "k8s.io/client-go/util/workqueue"

	"github.com/seed16c08ea7/workqueue"
)

// A loop is a worker that works off what is queued: n items, of which none fails. It
// returns when the last one is done.
type loop struct {
	name string
	open func() rateLimiting[string]
	work func(q rateLimiting[string], n int)
}

// loops are Run without options and the loop that people write by hand, with all that
// it takes to be right: Done also after a panic, Forget, and the next item. The context
// of Run ends within the handler of the last item.
func loops() []loop {
	ours := func() rateLimiting[string] {
		return workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](), workqueue.TypedRateLimitingQueueConfig[string]{})
	}
	theirs := func() rateLimiting[string] {
		return clientgo.NewTypedRateLimitingQueue(clientgo.DefaultTypedControllerRateLimiter[string]())
	}
	return []loop{
		{"workqueue/loop=Run", ours, runAll},
		{"workqueue/loop=by-hand", ours, workAll},
		{"client-go/loop=by-hand", theirs, workAll},
	}
}

func runAll(q rateLimiting[string], n int) {
	ctx, stop := context.WithCancel(context.Background())
	logger := logr.Discard()
	workqueue.Run(ctx, q.(*workqueue.TypedRateLimiting[string]), func(context.Context, string) error {
		if n--; n == 0 {
			stop()
		}
		return nil
	}, workqueue.RunOptions[string]{Logger: &logger})
}

func workAll(q rateLimiting[string], n int) {
	handle := func(string) error { return nil }
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
	for range n {
		process()
	}
}

// BenchmarkRun is one item for a worker, of 64k that are queued.
func BenchmarkRun(b *testing.B) {
	keys := stringKeys(population)
	for _, l := range loops() {
		b.Run("impl="+l.name, func(b *testing.B) {
			b.ReportAllocs()
			for done := 0; done < b.N; {
				n := min(population, b.N-done)
				b.StopTimer()
				q := l.open()
				fill(q, keys[:n])
				b.StartTimer()
				l.work(q, n)
				b.StopTimer()
				q.ShutDown()
				done += n
			}
		})
	}
}
