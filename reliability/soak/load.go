package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

const (
	producers = 4
	workers   = 8
	tenants   = 50
	burst     = 50_000 // items of a burst, one for each interval
	settling  = 30 * time.Second
)

// A load is a queue in use. An interval starts producers, ends them, and waits for rest; the
// workers go on over all intervals.
type load struct {
	keys     []string
	registry *prometheus.Registry
	provider *workqueue.PrometheusProvider
	queue    *workqueue.TypedRateLimiting[string]
	handled  atomic.Int64
	terms    atomic.Int64
	stop     context.CancelFunc
	ran      chan error
}

func newLoad(keys int) *load {
	l := &load{registry: prometheus.NewRegistry(), ran: make(chan error, 1)}
	for i := range keys {
		l.keys = append(l.keys, fmt.Sprintf("tenant-%02d/object-%d", i%tenants, i))
	}
	l.provider = workqueue.NewPrometheusProvider(l.registry, workqueue.PrometheusOptions{})
	l.queue = l.open("soak")
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	go func() {
		l.ran <- workqueue.Run(ctx, l.queue, l.handle, workqueue.RunOptions[string]{
			Workers: workers, Grace: settling, CancelOnReAdd: true, Logger: quiet(),
		})
	}()
	return l
}

// quiet drops what Run logs: the failures are on purpose.
func quiet() *logr.Logger {
	l := logr.FromSlogHandler(slog.DiscardHandler)
	return &l
}

func (l *load) open(name string) *workqueue.TypedRateLimiting[string] {
	return workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, 50*time.Millisecond),
		workqueue.TypedRateLimitingQueueConfig[string]{
			Name: name, MetricsProvider: l.provider, StrictBackoff: true,
			Pace:     rate.NewLimiter(1e6, 1000),
			ItemPace: workqueue.NewTypedItemBucketRateLimiter[string](1000, 3),
			Order: workqueue.Order[string]{
				OldestEvery: 10,
				Group:       tenantOf,
				MaxInFlight: func(string) int { return 3 },
			},
		})
}

func tenantOf(key string) string {
	tenant, _, _ := strings.Cut(key, "/")
	return tenant
}

var errFailed = errors.New("failed on purpose")

// handle fails once in ten times, and sometimes asks to be called again.
func (l *load) handle(ctx context.Context, _ string) error {
	l.handled.Add(1)
	switch n := rand.IntN(100); {
	case n < 10:
		return errFailed
	case n < 12:
		return workqueue.RequeueAfter(time.Millisecond)
	case n < 14:
		runtime.Gosched()
		return context.Cause(ctx)
	}
	return nil
}

// interval uses the queue for a time, and measures when the queue is at rest.
func (l *load) interval(ctx context.Context, d time.Duration) (sample, error) {
	before, beforeTerms, stats := l.handled.Load(), l.terms.Load(), l.queue.Stats()
	began := time.Now()
	use, end := context.WithTimeout(ctx, d)
	defer end()
	var busy sync.WaitGroup
	for range producers {
		busy.Go(func() { l.produce(use) })
	}
	busy.Go(func() { l.look(use) })
	busy.Go(func() { l.lead(use) })
	l.burst()
	busy.Wait()
	worked := time.Since(began)
	if err := ctx.Err(); err != nil {
		return sample{}, err
	}
	rest, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	if err := l.queue.WaitEmpty(rest); err != nil {
		return sample{}, err
	}
	s := sample{
		throughput: float64(l.handled.Load()-before) / worked.Seconds(),
		terms:      int(l.terms.Load() - beforeTerms),
	}
	s.late50, s.late99 = lateness(stats.Lateness, l.queue.Stats().Lateness)
	s.heap, s.goroutines = atRest()
	return s, nil
}

// burst adds many keys that nobody has seen before, and that nobody sees again.
func (l *load) burst() {
	all := make([]string, burst)
	start := rand.Uint64()
	for i := range all {
		all[i] = fmt.Sprintf("burst-%d/%x", i%tenants, start+uint64(i))
	}
	l.queue.AddAll(all...)
	l.queue.RemoveFunc(func(key string) bool { return strings.HasPrefix(key, "burst-7/") })
}

// produce makes the calls of event handlers, about 20,000 in a second.
func (l *load) produce(ctx context.Context) {
	for ctx.Err() == nil {
		for range 100 {
			l.produceOnce(l.keys[rand.IntN(len(l.keys))])
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (l *load) produceOnce(key string) {
	q := l.queue
	switch n := rand.IntN(100); {
	case n < 50:
		q.Add(key)
	case n < 60:
		priority := rand.IntN(40) - 5
		q.AddWith(workqueue.AddOptions{Priority: &priority, After: time.Duration(rand.IntN(3)) * time.Millisecond}, key)
	case n < 75:
		q.AddAfter(key, time.Duration(rand.IntN(20))*time.Millisecond)
	case n < 85:
		q.Debounce(key, 2*time.Millisecond, 10*time.Millisecond)
	case n < 90:
		q.Reschedule(key, 5*time.Millisecond)
	case n < 95:
		q.AddRateLimited(key)
	default:
		q.Remove(key)
		q.Forget(key)
	}
}

// look reads the queue as scrapes, pages and readiness probes do.
func (l *load) look(ctx context.Context) {
	for ctx.Err() == nil {
		if _, err := l.registry.Gather(); err != nil {
			panic(err)
		}
		l.queue.Snapshot(100)
		for info := range l.queue.Items() {
			if info.Failures > 1000 {
				panic(fmt.Sprint(info))
			}
		}
		within, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		l.queue.Barrier(within) //nolint:errcheck // Whatever comes of it: the barrier must leave nothing behind.
		cancel()
		time.Sleep(100 * time.Millisecond)
	}
}

// lead opens, uses and ends queues, as a controller does for each term of leadership.
func (l *load) lead(ctx context.Context) {
	for ctx.Err() == nil {
		term, end := context.WithTimeout(ctx, 50*time.Millisecond)
		q := l.open(fmt.Sprint("term-", l.terms.Add(1)%10))
		q.AddAll(l.keys[:100]...)
		err := workqueue.Run(term, q, func(context.Context, string) error { return nil },
			workqueue.RunOptions[string]{Workers: 2, Grace: time.Second, Logger: quiet()})
		end()
		if err != nil {
			panic(err)
		}
	}
}

// end ends the workers.
func (l *load) end() error {
	l.stop()
	return <-l.ran
}

// atRest returns the memory in use and the number of goroutines. Goroutines that have been told to
// end need a moment, and finalizers and cleanups run after a collection.
func atRest() (heap uint64, goroutines int) {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
		time.Sleep(20 * time.Millisecond)
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, runtime.NumGoroutine()
}

// lateness returns by how much half of the delayed items of an interval, and 99 of 100, were late
// at most.
func lateness(before, after workqueue.DurationStats) (late50, late99 time.Duration) {
	n := after.Count - before.Count
	return quantile(before, after, n/2), quantile(before, after, n*99/100)
}

func quantile(before, after workqueue.DurationStats, rank uint64) time.Duration {
	sum := after.Zero - before.Zero
	late := time.Duration(0)
	for _, k := range slices.Sorted(maps.Keys(after.Exponential)) {
		if sum >= rank {
			break
		}
		sum += after.Exponential[k] - before.Exponential[k]
		late = time.Duration(math.Exp2(float64(k)/(1<<workqueue.DurationSchema)) * float64(time.Second))
	}
	return late.Round(time.Microsecond)
}
