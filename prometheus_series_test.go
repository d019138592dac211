package workqueue_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/time/rate"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

func TestSeriesOfAQueue(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{})
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
		`retry_delay_seconds{name="q"} 1 observations of 1 s`,
		`unfinished_work_seconds{name="q"} 0.25`,
		`waiting{name="q"} 2`,
		`work_duration_seconds{name="q"} 1 observations of 0 s`,
		`workers{name="q"} 1`,
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
	r, p := newExposed(workqueue.PrometheusOptions{})
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

// A FIFO has the series of Kubernetes but retries, and the further series of a FIFO.
func TestSeriesOfAFIFO(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{ControllerLabel: true, ConstLabels: prometheus.Labels{"cluster": "east"}})
	q := openFIFO(p, nil)
	var want []string
	for _, name := range []string{"adds_total", "depth", "duplicates_total", "in_flight", "longest_running_processor_seconds", "oldest_item_age_seconds",
		"queue_duration_seconds", "unfinished_work_seconds", "work_duration_seconds", "workers"} {
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

// The layers of a queue put together by hand share their series,
// and no warning.
func TestSeriesOfLayersConstructedApart(t *testing.T) {
	logged := captureLog(t)
	r, p := newExposed(workqueue.PrometheusOptions{})
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

// linesOf returns the series whose name has the part.
func linesOf(t *testing.T, g prometheus.Gatherer, part string) (lines []string) {
	t.Helper()
	for _, line := range scrape(t, g) {
		if strings.Contains(line, part) {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestSeriesOfThePriorities(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{})
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Name: "q", MetricsProvider: p, Clock: clock})
	addAt(q, 5, 1, 2, 3)
	clock.Step(time.Second)
	q.AddAll(4, 5)
	q.Get()
	addAt(q, 0, 1)
	addAt(q, -7, 1) // Held, and marked to be queued with 0.
	clock.Step(time.Second)
	want := []string{
		`depth_by_priority{name="q",priority="0"} 3`,
		`depth_by_priority{name="q",priority="5"} 2`,
	}
	if got := linesOf(t, r, "by_priority"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for q.Len() > 0 {
		item, _ := q.Get()
		q.Done(item)
	}
	want = []string{
		`depth_by_priority{name="q",priority="0"} 1`, // Still held.
		`depth_by_priority{name="q",priority="5"} 0`,
	}
	if got := linesOf(t, r, "by_priority"); !slices.Equal(got, want) {
		t.Errorf("when they are taken: got %q, want %q", got, want)
	}
	q.ShutDown()
	if got := linesOf(t, r, "by_priority"); len(got) > 0 {
		t.Errorf("after the shutdown: got %q", got)
	}
}

// besideControllerRuntime returns a registry that has controller-runtime's depth, and a
// provider in it.
func besideControllerRuntime() (*prometheus.Registry, *workqueue.PrometheusProvider) {
	r := prometheus.NewRegistry()
	r.MustRegister(prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "workqueue_depth", Help: "Current depth of workqueue by workqueue and priority",
	}, []string{"name", "controller", "priority"}))
	return r, workqueue.NewPrometheusProvider(r, workqueue.PrometheusOptions{})
}

const depthFamily = "workqueue_depth"

// levelsIn returns the values of a family by the label for the priority.
func levelsIn(t *testing.T, r *prometheus.Registry, family string) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	depths := make(map[string]float64)
	for _, f := range families {
		if f.GetName() != family {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "priority" {
					depths[label.GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
	}
	return depths
}

// Beside controller-runtime the depth has the label priority, and there is no depth_by_priority.
func TestDepthByPriorityBesideControllerRuntime(t *testing.T) {
	r, p := besideControllerRuntime()
	levels := func() *workqueue.Typed[string] { return openFIFO(p, nil) }
	expect := func(what string, want map[string]float64) {
		t.Helper()
		if got := levelsIn(t, r, depthFamily); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	q := levels()
	expect("empty, no priority named yet", map[string]float64{"": 0})
	if got := linesOf(t, r, "depth_by_priority"); len(got) > 0 {
		t.Errorf("got %q beside the depth", got)
	}
	q.AddWith(workqueue.AddOptions{Priority: prio(-100)}, "a", "b")
	q.Add("c")
	expect("two levels", map[string]float64{"0": 1, "-100": 2})
	second := levels()
	second.AddWith(workqueue.AddOptions{Priority: prio(-100)}, "a")
	expect("two queues of the name", map[string]float64{"0": 1, "-100": 3})
	plain := openFIFO(p, nil)
	plain.Add("a")
	expect("and one without priorities", map[string]float64{"0": 1, "-100": 3, "": 1})
	plain.ShutDown()
	second.ShutDown()
	held, _ := q.Get()
	q.AddWith(workqueue.AddOptions{Priority: prio(7)}, held)
	expect("one held, and added again at a new level", map[string]float64{"0": 0, "-100": 2, "7": 1})
	q.Done(held)
	for range 3 {
		item, _ := q.Get()
		q.Done(item)
	}
	expect("levels that are empty", map[string]float64{"0": 0, "-100": 0, "7": 0})
	q.ShutDown()
	expect("after the shutdown", map[string]float64{})
}

// 25 priorities have a series each: 0, and the first 24 that are named. All others share a
// series. The series add up, and get back to zero.
func TestDepthOfMorePrioritiesThanSeries(t *testing.T) {
	for _, row := range []struct {
		open           func() (*prometheus.Registry, *workqueue.PrometheusProvider)
		family, others string
	}{
		{func() (*prometheus.Registry, *workqueue.PrometheusProvider) {
			return newExposed(workqueue.PrometheusOptions{})
		}, "workqueue_depth_by_priority", "other"},
		{besideControllerRuntime, depthFamily, "exceeded_cardinality_limit"},
	} {
		r, p := row.open()
		q := openFIFO(p, nil)
		defer q.ShutDown()
		const items = 40
		for i := 1; i <= items; i++ {
			q.AddWith(workqueue.AddOptions{Priority: prio(i)}, fmt.Sprint(i))
		}
		sum := func(levels map[string]float64) (sum float64) {
			for _, depth := range levels {
				sum += depth
			}
			return sum
		}
		got := levelsIn(t, r, row.family)
		if len(got) != 26 || got[row.others] != items-24 || got["24"] != 1 || sum(got) != items {
			t.Errorf("%s: %d series, %v", row.family, len(got), got)
		}
		for range items {
			item, _ := q.Get()
			q.Done(item)
		}
		if got = levelsIn(t, r, row.family); sum(got) != 0 || len(got) != 25 {
			t.Errorf("%s: an empty queue has %v", row.family, got)
		}
	}
}

// The series that controller-runtime registers when a program starts, by its first version with
// each text. There is no queue yet, so the registry shows none of the series, and the provider
// must know the help texts and labels. The texts here were read from the modules v0.12.3, v0.16.1,
// v0.19.4, v0.20.4, v0.21.0, v0.22.4, v0.23.3, v0.24.1 and v0.25.2.
func TestTextsOfEachVersionOfControllerRuntimeAreKnown(t *testing.T) {
	const depth, byPriority = "Current depth of workqueue", "Current depth of workqueue by workqueue and priority"
	const retries, delayed = "Total number of retries handled by workqueue",
		"Total number of items added to the workqueue with a non-zero delay (rate-limited requeues, explicit RequeueAfter or AddAfter calls)"
	two, three := []string{"name", "controller"}, []string{"name", "controller", "priority"}
	for _, version := range []struct {
		since          string
		labels         []string
		depth          string
		depthLabels    []string
		retries        string
		wantDepth      string
		wantElsewhere  string
		wantPriorities bool
	}{
		{"v0.12", []string{"name"}, depth, []string{"name"}, retries, `depth{name="q"} 2`, `adds_total{name="q"} 2`, false},
		{"v0.19", two, depth, two, retries, `depth{controller="q",name="q"} 2`, `adds_total{controller="q",name="q"} 2`, false},
		{"v0.21", two, byPriority, three, retries, `depth{controller="q",name="q",priority="7"} 1`, `adds_total{controller="q",name="q"} 2`, true},
		{"v0.24", two, byPriority, three, delayed, `depth{controller="q",name="q",priority="7"} 1`, `adds_total{controller="q",name="q"} 2`, true},
	} {
		t.Run(version.since, func(t *testing.T) {
			r := prometheus.NewRegistry()
			theirs := newForeign("", version.labels...)
			theirs.collectors["depth"] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_depth", Help: version.depth}, version.depthLabels)
			theirs.collectors["retries_total"] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_retries_total", Help: version.retries}, version.labels)
			theirs.register(r)
			q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
				Name: "q", MetricsProvider: beside(r),
			})
			defer q.ShutDown()
			q.Add("a")
			q.AddWith(workqueue.AddOptions{Priority: prio(7)}, "b")
			got := of(t, r, "q")
			for _, want := range []string{version.wantDepth, version.wantElsewhere} {
				if !slices.Contains(got, want) {
					t.Errorf("%s is missing in\n%s", want, strings.Join(got, "\n"))
				}
			}
			for name := range theirs.collectors {
				if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, name+"{") }) {
					t.Errorf("%s is missing in\n%s", name, strings.Join(got, "\n"))
				}
			}
			if n := len(levelsIn(t, r, depthFamily)); (n == 2) != version.wantPriorities {
				t.Errorf("the depth has %d priorities", n)
			}
			if families, err := r.Gather(); err != nil || !slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetHelp() == version.retries }) {
				t.Errorf("the text of the retries is not %q: %v", version.retries, err)
			}
		})
	}
}

// The log and the page knew the limit of a Pace, and no series had its course.
func TestSeriesOfTheLimitOfAPace(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{})
	limiter := rate.NewLimiter(10, 1)
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p, Pace: limiter})
	defer q.ShutDown()
	defer workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "plain", MetricsProvider: p}).ShutDown()
	expect := func(want string) {
		t.Helper()
		if got := linesOf(t, r, "pace_limit"); len(got) != 1 || got[0] != `pace_limit{name="q"} `+want {
			t.Errorf("got %q, want a limit of %s", got, want)
		}
	}
	expect("10")
	limiter.SetLimit(0.5)
	expect("0.5")
	limiter.SetBurst(0)
	expect("0")
	limiter.SetLimit(rate.Inf)
	expect("+Inf")
}
