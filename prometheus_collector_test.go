package workqueue_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A provider does not keep a queue that was shut down or just dropped in the midst of work. In the
// end the provider has no series of the queue.
func TestProviderDoesNotKeepQueues(t *testing.T) {
	for name, end := range map[string]func(q *workqueue.TypedDelaying[[64]string]){
		"shut down": (*workqueue.TypedDelaying[[64]string]).ShutDown,
		"dropped":   func(*workqueue.TypedDelaying[[64]string]) {},
	} {
		r, p := newExposed(workqueue.PrometheusOptions{})
		done := make(chan struct{}, 2)
		func() {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[[64]string]{Name: "q", MetricsProvider: p})
			runtime.AddCleanup(q, func(int) { done <- struct{}{} }, 0)
			runtime.AddCleanup(q.FIFO(), func(int) { done <- struct{}{} }, 0)
			q.Add([64]string{"a"})
			q.Add([64]string{"b"})
			q.Get()
			if len(scrape(t, r)) < 10 {
				t.Errorf("%s: not exposed", name)
			}
			end(q)
		}()
		collected(t, 2, done)
		for tries := 0; len(scrape(t, r)) > 3; tries++ { // The provider's own cleanup may come after ours.
			if tries == 1000 {
				t.Fatalf("%s: series are left: %q", name, scrape(t, r))
			}
			collect()
		}
	}
}

// collected waits until the garbage collector has found n objects, whose
// cleanups count to done.
func collected(t *testing.T, n int, done chan struct{}) {
	t.Helper()
	for range n {
		runtime.GC()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("what nobody refers to is not collected")
		}
	}
}

func TestTenThousandQueuesLeaveNothing(t *testing.T) {
	n := 10_000
	small := raceEnabled || testing.Short()
	if small {
		n = 500
	}
	r, p := newExposed(workqueue.PrometheusOptions{})
	limiter := workqueue.NewTypedItemFastSlowRateLimiter[string](0, 0, 1)
	round := func(n int) {
		queues := make([]*workqueue.TypedRateLimiting[string], n)
		for i := range queues {
			q := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{
				Name: fmt.Sprint("queue ", i), MetricsProvider: p,
			})
			q.AddRateLimited("a")
			q.Get()
			q.Done("a")
			queues[i] = q
		}
		families, err := r.Gather()
		got := 0
		for _, f := range families {
			got += len(f.GetMetric())
		}
		if got != 14*n+3 || err != nil {
			t.Errorf("%d series of %d queues, %v, want 14 each and 3", got, n, err)
		}
		for i, q := range queues {
			if i%2 == 0 {
				q.ShutDown()
			} else {
				q.ShutDownWithDrain()
			}
		}
	}
	round(500) // The packages below keep some memory.
	bytes := retained(func() any { round(n); return []any{r, p} })
	checkSeries(t, "in the end", r)
	if limit := int64(10 * n); bytes > limit && !small {
		t.Errorf("%d bytes are left of %d queues, want at most %d", bytes, n, limit)
	}
}

// All series of a queue are of the same instant.
func TestSeriesAgree(t *testing.T) {
	t.Parallel()
	r, p := newExposed(workqueue.PrometheusOptions{})
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Name: "q", MetricsProvider: p})
	var workers, producers sync.WaitGroup
	var scrapes atomic.Int32
	items := rounds(30_000)
	for i := range items { // The line gets shorter during the scrapes.
		q.Add(i)
	}
	for n := range 2 {
		producers.Go(func() {
			for i := range items / 4 {
				q.AddAfter(-2*i-n-1, time.Nanosecond)
			}
		})
	}
	for range 3 {
		workers.Go(func() {
			for i, shutdown := q.Get(); !shutdown; i, shutdown = q.Get() {
				if i%3 == 0 && i < items {
					q.Add(i + items)
				}
				q.Done(i)
				if scrapes.Load() < 200 { // Many of them, with few items to each.
					runtime.Gosched()
				}
			}
		})
	}
	for ; scrapes.Load() < 20 || q.Len() > 0; scrapes.Add(1) {
		v := make(map[string]int)
		for _, line := range scrape(t, r) {
			name, value, _ := strings.Cut(line, "{")
			_, value, _ = strings.Cut(value, "} ")
			n := 0
			fmt.Sscan(value, &n) // The first number: of a histogram, the count.
			v[name] = n
		}
		if v["adds_total"]-v["queue_duration_seconds"] != v["depth"] || v["queue_duration_seconds"]-v["work_duration_seconds"] != v["in_flight"] {
			t.Errorf("the series disagree: %v", v)
		}
		if late := v["lateness_seconds"]; v["waiting"]+late > v["retries_total"] {
			t.Errorf("%d wait, and %d have, of %d that were to", v["waiting"], late, v["retries_total"])
		}
	}
	producers.Wait()
	q.ShutDownWithDrain()
	workers.Wait()
}

// Two queues of a name: sums and maxima, a single warning, and counts that do not fall while one
// of the queues is there.
func TestSeriesOfQueuesOfTheSameName(t *testing.T) {
	logged := captureLog(t)
	r, p := newExposed(workqueue.PrometheusOptions{})
	clock := testingclock.NewFakeClock(epoch)
	open := func() *workqueue.Typed[string] {
		return openFIFO(p, clock)
	}
	queues := []*workqueue.Typed[string]{open(), open()}
	for i, q := range queues {
		q.AddAll("a", "b", "b")
		clock.Step(time.Duration(1+i) * time.Second)
		q.Get()
	}
	clock.Step(time.Second)
	both := func(gauges ...any) []string {
		return strings.Split(fmt.Sprintf(strings.Join([]string{
			`adds_total{name="q"} 4`,
			`depth{name="q"} %v`,
			`duplicates_total{name="q"} 2`,
			`in_flight{name="q"} %v`,
			`longest_running_processor_seconds{name="q"} %v`,
			`oldest_item_age_seconds{name="q"} %v`,
			`queue_duration_seconds{name="q"} 2 observations of 3 s`,
			`unfinished_work_seconds{name="q"} %v`,
			`work_duration_seconds{name="q"} 0 observations of 0 s`,
		}, "\n"), gauges...), "\n")
	}
	checkSeries(t, "both", r, both(2, 2, 3, 4, 4)...)
	open().ShutDown() // A third changes nothing, and is no news,
	open().ShutDown() // nor is one after it.
	queues[0].ShutDown()
	checkSeries(t, "the first is shut down", r, both(1, 1, 1, 3, 1)...)
	queues[0].Done("a")
	checkSeries(t, "work goes on there", r, both(1, 1, 1, 3, 1)...)
	queues[1].ShutDown()
	checkSeries(t, "the second is", r)
	checkAbandoned(t, r, 2, 2, 0)
	if n := strings.Count(logged.String(), "name=q"); n != 1 || strings.Count(logged.String(), "\n") != 1 {
		t.Errorf("logged %d lines about q, want 1: %s", n, logged)
	}
	logged.Reset()
	q := open() // A name may be used again.
	if got := scrape(t, r); !slices.Contains(got, `adds_total{name="q"} 0`) || logged.Len() > 0 {
		t.Errorf("a new queue has the series %q; logged %q", got, logged)
	}
	q.ShutDown()
}
