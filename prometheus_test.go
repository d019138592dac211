package workqueue_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// scrape returns the series of a registry, as in name{label="value"} 1, sorted.
// A histogram is its count and its sum.
func scrape(t testing.TB, g prometheus.Gatherer) (series []string) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			value := fmt.Sprint(m.GetGauge().GetValue() + m.GetCounter().GetValue())
			if h := m.GetHistogram(); h != nil {
				value = fmt.Sprintf("%d observations of %v s", h.GetSampleCount(), h.GetSampleSum())
			}
			name := strings.TrimPrefix(f.GetName(), "workqueue_")
			series = append(series, fmt.Sprintf("%s{%s} %s", name, strings.Join(labels, ","), value))
		}
	}
	slices.Sort(series)
	return series
}

// newExposed returns a provider in a registry that checks what it gets.
func newExposed(options ...workqueue.PrometheusOption) (*prometheus.Registry, *workqueue.PrometheusProvider) {
	r := prometheus.NewPedanticRegistry()
	return r, workqueue.NewPrometheusProvider(r, options...)
}

// checkSeries compares all series, of which want has those that are not about
// what was abandoned.
func checkSeries(t *testing.T, step string, g prometheus.Gatherer, want ...string) {
	t.Helper()
	got := slices.DeleteFunc(scrape(t, g), func(s string) bool { return strings.HasPrefix(s, "abandoned_total") })
	if !slices.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", step, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func checkAbandoned(t *testing.T, g prometheus.Gatherer, inFlight, queued, waiting int) {
	t.Helper()
	got := slices.DeleteFunc(scrape(t, g), func(s string) bool { return !strings.HasPrefix(s, "abandoned_total") })
	want := []string{
		fmt.Sprintf(`abandoned_total{state="in_flight"} %d`, inFlight),
		fmt.Sprintf(`abandoned_total{state="queued"} %d`, queued),
		fmt.Sprintf(`abandoned_total{state="waiting"} %d`, waiting),
	}
	if !slices.Equal(got, want) {
		t.Errorf("abandoned: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSeriesOfAQueue(t *testing.T) {
	r, p := newExposed()
	clock := testingclock.NewFakeClock(epoch)
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour)
	checkSeries(t, "before", r)
	q := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: p, Clock: clock})
	q.AddAll("a", "a", "b", "c")
	q.AddRateLimited("d")
	q.AddAfter("e", time.Minute)
	clock.Step(500 * time.Millisecond)
	q.Get()
	clock.Step(250 * time.Millisecond)
	q.Get()
	q.Add("a")
	q.Done("b")
	checkSeries(t, "in the midst of work", r,
		`adds_total{name="q"} 4`,
		`depth{name="q"} 2`,
		`duplicates_total{name="q"} 1`,
		`in_flight{name="q"} 1`,
		`lateness_seconds{name="q"} 0 observations of 0 s`,
		`longest_running_processor_seconds{name="q"} 0.25`,
		`oldest_item_age_seconds{name="q"} 0.75`,
		`queue_duration_seconds{name="q"} 2 observations of 1.25 s`,
		`rate_limited_total{name="q"} 1`,
		`retries_total{name="q"} 2`,
		`unfinished_work_seconds{name="q"} 0.25`,
		`waiting{name="q"} 2`,
		`work_duration_seconds{name="q"} 1 observations of 0 s`,
	)
	checkAbandoned(t, r, 0, 0, 0)
	q.ShutDown()
	checkSeries(t, "after the shutdown", r)
	checkAbandoned(t, r, 1, 1, 2)
	q.Get() // Work goes on, and brings nothing back.
	q.Done("a")
	q.ShutDown()
	checkSeries(t, "after more work", r)
	checkAbandoned(t, r, 1, 1, 2)
}

// The lateness of all queues of a name adds up, and counters say since when
// they count.
func TestSeriesOfDelays(t *testing.T) {
	captureLog(t)
	r, p := newExposed()
	clock := testingclock.NewFakeClock(epoch)
	for i := range 2 {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "late\xff", MetricsProvider: p, Clock: clock})
		defer q.ShutDown()
		q.AddAfter("a", time.Second)
		clock.Step(time.Duration(3+i) * time.Second)
		q.AddAfter("b", time.Hour) // Adds what is due.
	}
	if got, want := scrape(t, r), "lateness_seconds{name=\"late\uFFFD\"} 2 observations of 5 s"; !slices.Contains(got, want) {
		t.Errorf("got\n%s\nwant %s", strings.Join(got, "\n"), want)
	}
	families, _ := r.Gather()
	for _, f := range families {
		if c := f.GetMetric()[0].GetCounter(); c != nil && f.GetName() != "workqueue_abandoned_total" && c.GetCreatedTimestamp() == nil {
			t.Errorf("%s does not say since when it counts", f.GetName())
		}
	}
}

// A FIFO has the series of Kubernetes but retries, and what else is known of it.
func TestSeriesOfAFIFO(t *testing.T) {
	r, p := newExposed(workqueue.WithControllerLabel(), workqueue.WithConstLabels(prometheus.Labels{"cluster": "east"}))
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p})
	var want []string
	for _, name := range []string{"adds_total", "depth", "duplicates_total", "in_flight", "longest_running_processor_seconds", "oldest_item_age_seconds",
		"queue_duration_seconds", "unfinished_work_seconds", "work_duration_seconds"} {
		value := "0"
		if strings.Contains(name, "_duration_") {
			value = "0 observations of 0 s"
		}
		want = append(want, fmt.Sprintf(`%s{cluster="east",controller="q",name="q"} %s`, name, value))
	}
	checkSeries(t, "a FIFO", r, want...)
	q.ShutDown()
	checkSeries(t, "after the shutdown", r)
}

// The layers of a queue that was put together by hand have one set of series,
// and no warning.
func TestSeriesOfLayersConstructedApart(t *testing.T) {
	logged := captureLog(t)
	r, p := newExposed()
	fifo := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p, Queue: &shelf[string]{}})
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: p, Queue: fifo})
	q.Add("a")
	q.AddAfter("b", time.Hour)
	got := strings.Join(scrape(t, r), " ")
	for _, want := range []string{`depth{name="q"} 1`, `waiting{name="q"} 1`, `retries_total{name="q"} 1`} {
		if strings.Count(got, want) != 1 {
			t.Errorf("got %s, want %s once", got, want)
		}
	}
	q.ShutDown()
	checkSeries(t, "after the shutdown", r)
	checkAbandoned(t, r, 0, 1, 1)
	if logged.Len() > 0 {
		t.Errorf("logged %s", logged)
	}
}

// captureLog returns what goes to the default logger during the test.
func captureLog(t *testing.T) *bytes.Buffer {
	var b bytes.Buffer
	old := slog.Default()
	t.Cleanup(func() { slog.SetDefault(old) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	return &b
}

// Two queues of a name: sums and maxima, one warning, and counts that never
// fall while one of them is there.
func TestSeriesOfQueuesOfTheSameName(t *testing.T) {
	logged := captureLog(t)
	r, p := newExposed()
	clock := testingclock.NewFakeClock(epoch)
	open := func() *workqueue.Typed[string] {
		return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p, Clock: clock})
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
	q := open() // One after the other is as it should be.
	if got := scrape(t, r); !slices.Contains(got, `adds_total{name="q"} 0`) || logged.Len() > 0 {
		t.Errorf("a new queue has the series %q; logged %q", got, logged)
	}
	q.ShutDown()
}

// collected waits until the garbage collector has found n objects, whose
// cleanups count to done.
func collected(t *testing.T, n int, done chan struct{}) {
	t.Helper()
	for range n {
		runtime.GC()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatal("what nobody refers to is not collected")
		}
	}
}

// A provider does not keep a queue, be it shut down or dropped without, in the
// midst of work; and in the end it has no series of either.
func TestProviderDoesNotKeepQueues(t *testing.T) {
	for name, end := range map[string]func(q *workqueue.TypedDelaying[[64]string]){
		"shut down": (*workqueue.TypedDelaying[[64]string]).ShutDown,
		"dropped":   func(*workqueue.TypedDelaying[[64]string]) {},
	} {
		r, p := newExposed()
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
			if tries == 100 {
				t.Fatalf("%s: series are left: %q", name, scrape(t, r))
			}
			runtime.GC()
		}
	}
}

func TestTenThousandQueuesLeaveNothing(t *testing.T) {
	n := 10_000
	small := raceEnabled || testing.Short()
	if small {
		n = 500
	}
	r, p := newExposed()
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
		if got != 13*n+3 || err != nil {
			t.Errorf("%d series of %d queues, %v, want 13 each and 3", got, n, err)
		}
		for i, q := range queues {
			if i%2 == 0 {
				q.ShutDown()
			} else {
				q.ShutDownWithDrain()
			}
		}
	}
	round(500) // What the packages below keep is not ours.
	bytes := retained(func() any { round(n); return []any{r, p} })
	checkSeries(t, "in the end", r)
	if limit := int64(10 * n); bytes > limit && !small {
		t.Errorf("%d bytes are left of %d queues, want at most %d", bytes, n, limit)
	}
}

// All series of a queue are of one instant, at whatever moment it is scraped.
func TestSeriesAgree(t *testing.T) {
	r, p := newExposed()
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Name: "q", MetricsProvider: p})
	var workers, producers sync.WaitGroup
	var scrapes atomic.Int32
	const items = 30_000
	for i := range items { // A line that gets shorter while it is looked at.
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

// A queue that is not of this package tells each change, by the methods of a
// MetricsProvider, and shares its series with those of its name.
func TestSeriesOfForeignQueues(t *testing.T) {
	r, p := newExposed()
	for range 2 {
		scrape(t, r) // In between, which must not be in the way.
		p.NewDepthMetric("q").Inc()
		p.NewAddsMetric("q").Inc()
		p.NewLatencyMetric("q").Observe(0.5)
		p.NewUnfinishedWorkSecondsMetric("q").Set(3)
		p.NewLongestRunningProcessorSecondsMetric("q").Set(2)
	}
	p.NewDepthMetric("q").Dec()
	p.NewWorkDurationMetric("q").Observe(math.NaN())
	p.NewWorkDurationMetric("q").Observe(-1)
	p.NewWorkDurationMetric("q").Observe(math.Inf(1))
	retries := p.NewRetriesMetric("other\xff")
	retries.Inc()
	p.NewUnfinishedWorkSecondsMetric("q").Set(-1)
	checkSeries(t, "told", r,
		`adds_total{name="q"} 2`,
		`depth{name="q"} 1`,
		`longest_running_processor_seconds{name="q"} 2`,
		`queue_duration_seconds{name="q"} 2 observations of 1 s`,
		"retries_total{name=\"other\uFFFD\"} 1",
		`unfinished_work_seconds{name="q"} 0`,
		`work_duration_seconds{name="q"} 3 observations of 4.611686018427388e+09 s`,
	)
}

// One of each kind under one name is a mistake too.
func TestForeignQueueOfTheSameName(t *testing.T) {
	logged := captureLog(t)
	_, p := newExposed()
	p.NewDepthMetric("q")
	workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p}).ShutDown()
	if !strings.Contains(logged.String(), "name=q") {
		t.Errorf("logged %q, want a warning", logged)
	}
}

func TestPrometheusProviderWithBadInput(t *testing.T) {
	registry := prometheus.NewRegistry()
	workqueue.NewPrometheusProvider(registry, workqueue.WithConstLabels(prometheus.Labels{"a": "1"}))
	workqueue.NewPrometheusProvider(registry, workqueue.WithConstLabels(prometheus.Labels{"a": "2"}))
	for name, row := range map[string]struct {
		f    func()
		want string
	}{
		"nil": {func() { workqueue.NewPrometheusProvider(nil) }, "registerer is nil"},
		"twice": {func() {
			workqueue.NewPrometheusProvider(registry, workqueue.WithConstLabels(prometheus.Labels{"a": "1"}))
		}, "duplicate"},
		"no adaptee": {func() { workqueue.AdaptMetricsProvider(workqueue.MetricsProvider(nil)) }, "provider is nil"},
		"equal":      {buckets(1, 1), "[1 1]"},
		"falling":    {buckets(1, 2, 1.5), "[1 2 1.5]"},
		"NaN":        {buckets(math.NaN()), "[NaN]"},
		"Inf":        {buckets(1, math.Inf(1)), "[1 +Inf]"},
		"-Inf":       {buckets(math.Inf(-1), 1), "[-Inf 1]"},
		"a label of ours": {func() {
			workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.WithConstLabels(prometheus.Labels{"name": "x"}))
		}, "duplicate label"},
	} {
		if got := fmt.Sprint(goes(row.f)); !strings.HasPrefix(got, "workqueue: ") || !strings.Contains(got, row.want) {
			t.Errorf("%s: got the panic %s, want one with %q", name, got, row.want)
		}
	}
}

func buckets(bounds ...float64) func() {
	return func() { workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.WithBuckets(bounds...)) }
}

func TestBuckets(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	for name, row := range map[string]struct {
		options []workqueue.PrometheusOption
		want    string
	}{
		"default": {nil, "1e-08:0 1e-07:0 1e-06:0 9.999999999999999e-06:0 9.999999999999999e-05:0 0.001:0 0.01:0 0.1:0 1:0 10:1 100:1 1000:1 "},
		"own":     {[]workqueue.PrometheusOption{workqueue.WithBuckets(1, 4, 16)}, "1:0 4:0 16:1 "},
		"none":    {[]workqueue.PrometheusOption{workqueue.WithBuckets()}, ""},
	} {
		r, p := newExposed(row.options...)
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p, Clock: clock})
		q.Add("a")
		clock.Step(5 * time.Second)
		q.Get()
		want := "1 observations of 5 s\nup to " + row.want + "\nschema 3, zero 0 up to 2.938735877055719e-39\nnative map[19:1]"
		if got := written(t, r, "workqueue_queue_duration_seconds"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		q.ShutDown()
	}
}

// The adapter passes everything on.
func TestAdaptMetricsProvider(t *testing.T) {
	r := &recorder{}
	p := workqueue.AdaptMetricsProvider(r)
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: p, Clock: clock})
	q.AddAfter("a", 0)
	clock.Step(time.Second)
	q.Get()
	p.NewUnfinishedWorkSecondsMetric("q").Set(1)
	p.NewLongestRunningProcessorSecondsMetric("q").Set(2)
	q.Done("a")
	q.ShutDown()
	if got, want := strings.Join(r.take(), " "), "retries+1 adds+1 depth+1 depth-1 latency(1) unfinished=1 longest=2 work(0)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
