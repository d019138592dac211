package bench

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

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

// pass returns how long a worker takes for an item, over 64k of them.
func (l loop) pass(keys []string) time.Duration {
	q := l.open()
	defer q.ShutDown()
	fill(q, keys)
	runtime.GC()
	start := time.Now()
	l.work(q, len(keys))
	return time.Since(start) / time.Duration(len(keys))
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

// A worker of Run without options costs no more than a loop by hand, and less than half
// of one on client-go. The three take turns, and the median of the ratios counts, as
// other programs slow down some of them; a tenth is allowed for what is left of that.
func TestRunCostsNoMoreThanALoopByHand(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("measures")
	}
	// The heap of a small controller. Without it the collector, which runs when the
	// heap has doubled, would run all the time.
	ballast := make([]byte, 64<<20)
	defer runtime.KeepAlive(ballast)
	keys := stringKeys(population)
	var byHand, clientGo []float64
	within := func() bool { return median(byHand) <= 1.1 && median(clientGo) >= 2 }
	for len(byHand) < 15 || len(byHand) < 100 && !within() {
		var took [3]float64
		for i, l := range loops() {
			took[i] = float64(l.pass(keys))
		}
		byHand, clientGo = append(byHand, took[0]/took[1]), append(clientGo, took[2]/took[0])
	}
	t.Logf("Run takes %.2f times as long as a loop by hand, and one on client-go %.2f times as long as Run, in %d turns",
		median(byHand), median(clientGo), len(byHand))
	if !within() {
		t.Error("want at most 1.1 times, and at least 2 times")
	}
}

func median(numbers []float64) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[len(sorted)/2]
}
