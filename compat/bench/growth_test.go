package bench

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/seed16c08ea7/workqueue"
)

// BenchmarkGrowth shows how the cost of an item changes with the number of others: of a cycle
// behind queued items, and of an AddAfter while the items gather. It also reports the bytes of
// an item. Items are integers, or the text of ten million strings would be most of the bytes.
func BenchmarkGrowth(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000, million, 10 * million} {
		params, items := fmt.Sprintf("items=%d", n), integers(scaled(n))
		each(b, "state=queued/"+params, fifos[int](0)[:2], standing(items))
		each(b, "state=waiting/"+params, delayings[int]()[:2], addAfter(items))
	}
}

func standing(items []int) func(*testing.B, func() queue[int]) {
	return func(b *testing.B, open func() queue[int]) {
		before := memory()
		q := open()
		defer q.ShutDown()
		fill(q, items)
		bytes := memory() - before
		for next := len(items); b.Loop(); next++ {
			q.Add(next)
			item, _ := q.Get()
			q.Done(item)
		}
		reportBytes(b, bytes, len(items))
		runtime.KeepAlive(items)
	}
}

func integers(n int) []int {
	items := make([]int, n)
	for i := range items {
		items[i] = i
	}
	return items
}

// BenchmarkWorkers is 64k distinct items through 1 to 10,000 workers. Four producers are
// enough to keep the workers busy. It also reports the bytes of a worker in Get.
func BenchmarkWorkers(b *testing.B) {
	keys := stringKeys(scaled(population))
	for _, workers := range []int{1, 10, 100, 1000, 10_000} {
		each(b, fmt.Sprintf("workers=%d", workers), fifos[string](0)[:2], func(b *testing.B, open func() queue[string]) {
			bytes := idleWorkers(open(), workers)
			contend(keys, 4, workers)(b, open)
			b.ReportMetric(float64(int64(bytes))/float64(workers), "B/worker")
		})
	}
}

// idleWorkers returns the bytes of workers that wait for an item, with their stacks.
func idleWorkers(q queue[string], workers int) uint64 {
	before := memory()
	var crew sync.WaitGroup
	for range workers {
		crew.Go(func() { work(q) })
	}
	time.Sleep(10 * time.Millisecond) // Nearly all workers are in Get by then.
	bytes := memory() - before
	q.ShutDown()
	crew.Wait()
	return bytes
}

// BenchmarkQueues is a cycle by turns through 1 to 100,000 queues without metrics, in random
// order, so that a queue is in no cache when its turn comes. It also reports the bytes and
// goroutines of a queue, idle and with an item that waits. Each queue has had an item before.
func BenchmarkQueues(b *testing.B) {
	makers := []impl[maker]{
		{"workqueue", func() maker { return ourMaker(nil) }},
		{"client-go", func() maker { return theirMaker(nil) }},
	}
	for _, n := range []int{1, 10, 100, 1000, 10_000, 100_000} {
		names := make([]string, scaled(n))
		each(b, fmt.Sprintf("queues=%d", n), makers, func(b *testing.B, open func() maker) {
			before := takeCensus()
			queues := makeQueues(open(), names)
			idle := takeCensus()
			turns(b, queues)
			for _, q := range queues {
				q.AddAfter("later", time.Hour)
			}
			before.report(b, idle, len(queues), "B/queue", "goroutines/queue")
			before.report(b, takeCensus(), len(queues), "B/waiting-queue", "goroutines/waiting-queue")
			shutDown(queues)
		})
	}
}

// BenchmarkNames is the same with 1 to 100,000 names under one provider of metrics: the provider of
// this project, and for client-go a provider as Kubernetes has. It also reports the bytes of a queue
// with its series, the CPU time of a second without work, and the time of a scrape, with
// the longest time that a constructor waits meanwhile.
func BenchmarkNames(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000, 10_000, 100_000} {
		names := queueNames(n)
		each(b, fmt.Sprintf("names=%d", n), exporters(), func(b *testing.B, open func() exporter) {
			before := takeCensus()
			e := open()
			queues := makeQueues(e.queue, names)
			after := takeCensus()
			rest := idleCPU(b)
			turns(b, queues)
			before.report(b, after, len(names), "B/name", "goroutines/name")
			b.ReportMetric(rest, "idle-ns")
			scraped, waited := e.scrape(b)
			b.ReportMetric(float64(scraped.Nanoseconds()), "scrape-ns")
			b.ReportMetric(float64(scraped.Nanoseconds())/float64(len(names)), "scrape-ns/name")
			b.ReportMetric(float64(waited.Nanoseconds()), "wait-ns")
			shutDown(queues)
		})
	}
}

// makeQueues makes a queue for each name, and has an item go through it.
func makeQueues(open maker, names []string) []rateLimiting[string] {
	queues := make([]rateLimiting[string], len(names))
	for i, name := range names {
		queues[i] = open(name)
		cycleOnce(queues[i])
	}
	return queues
}

func cycleOnce(q rateLimiting[string]) {
	q.Add("item")
	item, _ := q.Get()
	q.Done(item)
}

func turns(b *testing.B, queues []rateLimiting[string]) {
	random := rand.New(rand.NewPCG(1, 2))
	order := random.Perm(len(queues))
	for i := 0; b.Loop(); i++ {
		cycleOnce(queues[order[i%len(order)]])
	}
}

// A census counts bytes and goroutines.
type census struct {
	bytes      uint64
	goroutines int
}

func takeCensus() census { return census{memory(), runtime.NumGoroutine()} }

// report must come after b.Loop, which drops earlier metrics.
func (c census) report(b *testing.B, now census, n int, bytes, goroutines string) {
	b.ReportMetric(float64(int64(now.bytes-c.bytes))/float64(n), bytes)
	b.ReportMetric(float64(now.goroutines-c.goroutines)/float64(n), goroutines)
}

// idleCPU is the CPU time of a second without work. Each named queue of client-go updates its
// gauges twice a second, so half a second has each of them once.
func idleCPU(b *testing.B) float64 {
	half := time.Second / 2
	if testing.Short() {
		half = time.Millisecond
	}
	before := cpuTime(b)
	time.Sleep(half)
	return float64(2 * (cpuTime(b) - before).Nanoseconds())
}

// An exporter makes queues whose metrics are in a registry.
type exporter struct {
	registry *prometheus.Registry
	queue    maker
}

func exporters() []impl[exporter] {
	return []impl[exporter]{
		{"workqueue", func() exporter {
			r := prometheus.NewRegistry()
			return exporter{r, ourMaker(workqueue.NewPrometheusProvider(r, workqueue.PrometheusOptions{}))}
		}},
		{"client-go", func() exporter {
			r, v := prometheus.NewRegistry(), newVectors()
			r.MustRegister(v.gauges, v.counters, v.histograms)
			return exporter{r, theirMaker(theirProvider{v})}
		}},
	}
}

// scrape returns the time of a scrape in the text format, and the longest time that the making
// of a queue has waited meanwhile.
func (e exporter) scrape(b *testing.B) (scraped, waited time.Duration) {
	done := make(chan time.Duration)
	go func() {
		start := time.Now()
		if err := e.write(io.Discard); err != nil {
			b.Error(err)
		}
		done <- time.Since(start)
	}()
	for i := 0; ; i++ {
		start := time.Now()
		q := e.queue(fmt.Sprintf("late-%d", i))
		waited = max(waited, time.Since(start))
		q.ShutDown()
		select {
		case scraped = <-done:
			return scraped, waited
		case <-time.After(time.Millisecond):
		}
	}
}

func (e exporter) write(w io.Writer) error {
	families, err := e.registry.Gather()
	if err != nil {
		return err
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return err
		}
	}
	return nil
}
