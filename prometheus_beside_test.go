package workqueue_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// The registries of controller-runtime and component-base themselves are in
// compat/adapted. Here are others, with the series of client-go's queues in them.

// foreignSeries are the vectors of somebody else's provider. Their texts are those of
// controller-runtime, with something before them.
type foreignSeries struct {
	prefix     string
	labels     []string
	collectors map[string]prometheus.Collector
}

func newForeign(prefix string, labels ...string) *foreignSeries {
	f := &foreignSeries{prefix: prefix, labels: labels, collectors: make(map[string]prometheus.Collector)}
	gauge := func(name, help string) {
		f.collectors[name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: "workqueue", Name: name, Help: prefix + help}, labels)
	}
	counter := func(name, help string) {
		f.collectors[name] = prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "workqueue", Name: name, Help: prefix + help}, labels)
	}
	histogram := func(name, help string) {
		f.collectors[name] = prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "workqueue", Name: name, Help: prefix + help}, labels)
	}
	gauge("depth", "Current depth of workqueue")
	counter("adds_total", "Total number of adds handled by workqueue")
	histogram("queue_duration_seconds", "How long in seconds an item stays in workqueue before being requested")
	histogram("work_duration_seconds", "How long in seconds processing an item from workqueue takes.")
	gauge("unfinished_work_seconds", "How many seconds of work has been done that "+
		"is in progress and hasn't been observed by work_duration. Large "+
		"values indicate stuck threads. One can deduce the number of stuck "+
		"threads by observing the rate at which this increases.")
	gauge("longest_running_processor_seconds", "How many seconds has the longest running processor for workqueue been running.")
	counter("retries_total", "Total number of retries handled by workqueue")
	return f
}

func (f *foreignSeries) register(r prometheus.Registerer) *foreignSeries {
	for _, c := range f.collectors {
		r.MustRegister(c)
	}
	return f
}

// queue makes the series of a queue, as client-go's queue does when it is made, with a
// depth of 7.
func (f *foreignSeries) queue(name string) {
	values := make([]string, len(f.labels))
	for i := range min(2, len(values)) {
		values[i] = name
	}
	for series, c := range f.collectors {
		switch v := c.(type) {
		case *prometheus.GaugeVec:
			v.WithLabelValues(values...).Add(map[bool]float64{true: 7}[series == "depth"])
		case *prometheus.CounterVec:
			v.WithLabelValues(values...)
		case *prometheus.HistogramVec:
			v.WithLabelValues(values...)
		}
	}
}

// countOfComponentBase is what tells its registry from others.
func countOfComponentBase() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "registered_metrics_total", Help: "[BETA] The count of registered metrics."})
}

// of returns the series of a queue.
func of(t *testing.T, g prometheus.Gatherer, queue string) []string {
	t.Helper()
	return slices.DeleteFunc(scrape(t, g), func(s string) bool { return !strings.Contains(s, fmt.Sprintf("name=%q", queue)) })
}

func beside(r prometheus.Registerer) *workqueue.PrometheusProvider {
	return workqueue.NewPrometheusProvider(r, workqueue.PrometheusOptions{})
}

// A registry that has the series of client-go's queues has refused the provider.
func TestProviderInARegistryThatHasTheSeriesOfClientGo(t *testing.T) {
	for name, row := range map[string]struct {
		prefix  string
		labels  []string
		want    string // the labels of depth
		counted bool   // as the registry of component-base does
	}{
		"controller-runtime":          {"", []string{"name", "controller"}, `controller="ours",name="ours"`, false},
		"with priorities":             {"", []string{"name", "controller", "priority"}, `controller="ours",name="ours",priority=""`, false},
		"component-base":              {"[BETA] ", []string{"name"}, `name="ours"`, true},
		"component-base, an old one":  {"[ALPHA] ", []string{"name"}, `name="ours"`, true},
		"texts of it in another one":  {"[ALPHA] ", []string{"name"}, `name="ours"`, false},
		"client-go's texts unchanged": {"", []string{"name"}, `name="ours"`, false},
	} {
		r := prometheus.NewRegistry()
		if row.counted {
			r.MustRegister(countOfComponentBase())
		}
		newForeign(row.prefix, row.labels...).register(r).queue("theirs")
		before := of(t, r, "theirs")
		clock := testingclock.NewFakeClock(epoch)
		q := workqueue.NewTypedRateLimiting(constant(time.Hour), workqueue.TypedRateLimitingQueueConfig[string]{
			Name: "ours", MetricsProvider: beside(r), Clock: clock,
		})
		q.AddAll("a", "b", "b")
		q.Get()
		q.AddRateLimited("c")
		clock.Step(5 * time.Second)
		for step, want := range []string{"depth{" + row.want + "} 1", "adds_total", "unfinished_work_seconds{" + row.want + "} 5",
			"longest_running_processor_seconds", "retries_total", "waiting", "in_flight", "oldest_item_age_seconds",
			"queue_duration_seconds", "work_duration_seconds", "lateness_seconds", "duplicates_total", "rate_limited_total"} {
			if !slices.ContainsFunc(of(t, r, "ours"), func(s string) bool { return strings.HasPrefix(s, want) }) {
				t.Errorf("%s: %d: %s is missing in\n%s", name, step, want, strings.Join(of(t, r, "ours"), "\n"))
			}
		}
		if got := len(of(t, r, "ours")); got != 14 {
			t.Errorf("%s: %d series, want 14", name, got)
		}
		q.ShutDown()
		if got := of(t, r, "ours"); len(got) > 0 {
			t.Errorf("%s: after the shutdown these are left: %q", name, got)
		}
		if got := of(t, r, "theirs"); !slices.Equal(got, before) || len(got) != 7 {
			t.Errorf("%s: the series of the other queue: got %q, want %q", name, got, before)
		}
		checkAbandoned(t, r, 1, 1, 1)
	}
}

// The texts of a version that nobody here knows are those that the registry shows.
func TestProviderBesideTextsThatNobodyKnows(t *testing.T) {
	r := prometheus.NewRegistry()
	newForeign("Since 2031: ", "name", "controller").register(r).queue("theirs")
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "ours", MetricsProvider: beside(r)})
	defer q.ShutDown()
	if got := of(t, r, "ours"); !slices.Contains(got, `depth{controller="ours",name="ours"} 0`) {
		t.Errorf("got %q", got)
	}
}

// What is in the way is said, with a way out, and the registry is as it was.
func TestProviderBesideWhatItCannotTakeUp(t *testing.T) {
	for name, row := range map[string]struct {
		prepare func(r *prometheus.Registry)
		want    []string
	}{
		"texts that nobody knows, without a series": {
			func(r *prometheus.Registry) { newForeign("Since 2031: ", "name").register(r) },
			[]string{"a series workqueue_", "unregister it", "a registry of its own", "AdaptMetricsProvider"},
		},
		"a series of the same name for something else": {
			func(r *prometheus.Registry) {
				r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "workqueue_depth", Help: "Metres.", ConstLabels: prometheus.Labels{"shaft": "2"}}, func() float64 { return 3 }))
			},
			[]string{`a series workqueue_depth (GAUGE, help "Metres.", labels ["shaft"])`},
		},
		"one without a label, which our queues would share": {
			func(r *prometheus.Registry) {
				r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "workqueue_depth", Help: "Metres."}))
			},
			[]string{`a series workqueue_depth (GAUGE, help "Metres.", labels [])`},
		},
		"one of another type with client-go's text": {
			func(r *prometheus.Registry) {
				s := prometheus.NewSummaryVec(prometheus.SummaryOpts{
					Name: "workqueue_queue_duration_seconds", Help: "How long in seconds an item stays in workqueue before being requested",
				}, []string{"name"})
				s.WithLabelValues("a")
				r.MustRegister(s)
			},
			[]string{`a series workqueue_queue_duration_seconds (SUMMARY, help "How long in seconds`},
		},
		"one with a label that no queue has": {
			func(r *prometheus.Registry) {
				g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_depth", Help: "Metres."}, []string{"name", "shaft"})
				g.WithLabelValues("a", "2")
				r.MustRegister(g)
			},
			[]string{`a series workqueue_depth (GAUGE, help "Metres.", labels ["name" "shaft"])`},
		},
		"one that is not shown, beside another one whose name ends like it": {
			func(r *prometheus.Registry) {
				r.MustRegister(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_depth", Help: "Fathoms."}, []string{"name"}),
					prometheus.NewGauge(prometheus.GaugeOpts{Name: "depth", Help: "Metres."}))
			},
			[]string{"a series workqueue_depth that is not known"},
		},
		"another provider": {
			func(r *prometheus.Registry) { newForeign("", "name").register(r); beside(r) },
			[]string{"has a provider of this package"},
		},
		"a new series of ours": {
			func(r *prometheus.Registry) {
				r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "workqueue_waiting", Help: "x"}))
			},
			[]string{"workqueue_waiting", "help"},
		},
	} {
		r := prometheus.NewRegistry()
		row.prepare(r)
		before := scrape(t, r)
		for range 2 {
			got := fmt.Sprint(goes(func() { beside(r) }))
			for _, want := range append(row.want, "workqueue: cannot register the metrics: ") {
				if !strings.Contains(got, want) {
					t.Errorf("%s: got %q, want %q in it", name, got, want)
				}
			}
		}
		if after := scrape(t, r); !slices.Equal(after, before) {
			t.Errorf("%s: the registry had %q, and has %q", name, before, after)
		}
	}
}

// Two queues of the same labels would fail each scrape of the registry.
func TestQueueWithTheNameOfOneOfClientGo(t *testing.T) {
	for labels, names := range map[string][]string{
		`name="q"`:                {"name"},
		`controller="q",name="q"`: {"name", "controller"},
	} {
		log := captureLog(t)
		warnings := func() int { return strings.Count(log.String(), "another queue of this name") }
		r := prometheus.NewRegistry()
		theirs := newForeign("", names...).register(r)
		p := beside(r)
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: p})
		q.Add("a")
		if got := of(t, r, "q"); !slices.Contains(got, "depth{"+labels+"} 1") || warnings() > 0 {
			t.Errorf("before theirs: got %q, logged %s", got, log)
		}
		theirs.queue("q")
		for range 2 {
			got := of(t, r, "q")
			if len(got) != 14 || !slices.Contains(got, "depth{"+labels+"} 7") || !slices.Contains(got, "waiting{"+labels+"} 0") {
				t.Errorf("beside theirs: got %q", got)
			}
		}
		if n := warnings(); n != 1 {
			t.Errorf("warned %d times:\n%s", n, log)
		}
		q.ShutDown()
		if got := of(t, r, "q"); len(got) != 7 {
			t.Errorf("after our end: got %q", got)
		}
	}
}

// A layer is left out, with a warning, where the registry has the same layer of that name.
// Layers of two packages that are one queue have one set of series, and no warning.
func TestLayerWithTheNameOfOneOfClientGo(t *testing.T) {
	fifo := func(p *workqueue.PrometheusProvider) interface{ ShutDown() } {
		return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p})
	}
	delays := func(p *workqueue.PrometheusProvider) interface{ ShutDown() } {
		return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
			Name: "q", MetricsProvider: p, Queue: workqueue.NewTyped[string](),
		})
	}
	for name, row := range map[string]struct {
		open     func(p *workqueue.PrometheusProvider) interface{ ShutDown() }
		missing  []string // of theirs
		warnings int
		series   int
	}{
		"a FIFO beside both layers":                 {fifo, nil, 1, 7 + 3},
		"delays beside both layers":                 {delays, nil, 1, 7 + 4},
		"delays of ours above a FIFO of theirs":     {delays, []string{"retries_total"}, 0, 6 + 5},
		"a FIFO of ours below delays that are told": {fifo, []string{"adds_total", "depth", "queue_duration_seconds", "work_duration_seconds", "unfinished_work_seconds", "longest_running_processor_seconds"}, 0, 1 + 9},
	} {
		log := captureLog(t)
		r := prometheus.NewRegistry()
		theirs := newForeign("", "name").register(r)
		for _, series := range row.missing {
			delete(theirs.collectors, series)
		}
		theirs.queue("q")
		q := row.open(beside(r))
		if got := of(t, r, "q"); len(got) != row.series {
			t.Errorf("%s: got %d series, want %d: %q", name, len(got), row.series, got)
		}
		if n := strings.Count(log.String(), "another queue of this name"); n != row.warnings {
			t.Errorf("%s: warned %d times, want %d: %s", name, n, row.warnings, log)
		}
		q.ShutDown()
	}
}

// component-base registers its vectors when the first queue of client-go is made, and
// panics if they are refused.
func TestProviderBeforeComponentBaseRegistersItsSeries(t *testing.T) {
	for name, row := range map[string]struct{ prefix, want string }{
		"the texts that are known": {"[BETA] ", `depth{name="ours"} 1`},
		"others":                   {"[STABLE] ", ""},
	} {
		log := captureLog(t)
		r := prometheus.NewRegistry()
		r.MustRegister(countOfComponentBase())
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "ours", MetricsProvider: beside(r)})
		q.Add("a")
		if got := of(t, r, "ours"); !slices.Contains(got, `depth{name="ours"} 1`) {
			t.Errorf("%s: before: got %q", name, got)
		}
		theirs := newForeign(row.prefix, "name")
		theirs.collectors["queue_duration_seconds"] = prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "workqueue_queue_duration_seconds", Help: row.prefix + "How long in seconds an item stays in workqueue before being requested.",
		}, []string{"name"})
		theirs.collectors["unfinished_work_seconds"] = prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "workqueue_unfinished_work_seconds", Help: row.prefix + "How many seconds of work has done that " +
				"is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. " +
				"One can deduce the number of stuck threads by observing the rate at which this increases.",
		}, []string{"name"})
		theirs.register(r).queue("theirs")
		got := of(t, r, "ours")
		if slices.Contains(got, `depth{name="ours"} 1`) != (row.want != "") || !slices.Contains(got, `in_flight{name="ours"} 0`) {
			t.Errorf("%s: after: got %q", name, got)
		}
		if got := of(t, r, "theirs"); len(got) != 7 { // A second scrape, which has no news.
			t.Errorf("%s: theirs: got %q", name, got)
		}
		if n := strings.Count(log.String(), "another text"); n != map[bool]int{false: 7}[row.want != ""] {
			t.Errorf("%s: warned %d times:\n%s", name, n, log)
		}
		q.ShutDown()
	}
}

// Scrapes at once, while queues of either package come and go: none of them fails.
func TestScrapesBesideClientGoAtOnce(t *testing.T) {
	captureLog(t)
	r := prometheus.NewRegistry()
	theirs := newForeign("", "name", "controller").register(r)
	p := beside(r)
	var all sync.WaitGroup
	for n := range 3 {
		all.Go(func() {
			for i := range 20 {
				q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: fmt.Sprint("q", i), MetricsProvider: p})
				q.Add("a")
				if _, err := r.Gather(); err != nil {
					t.Error(err)
				}
				q.ShutDown()
				if n == 0 {
					theirs.queue(fmt.Sprint("theirs", i))
				}
			}
		})
	}
	all.Wait()
	if got := len(of(t, r, "theirs7")); got != 7 {
		t.Errorf("%d series of a queue of theirs, want 7", got)
	}
}

// A registerer that adds labels is not a Gatherer, and both go through it.
func TestProviderBesideClientGoThroughAWrappedRegisterer(t *testing.T) {
	r := prometheus.NewRegistry()
	wrapped := prometheus.WrapRegistererWith(prometheus.Labels{"cluster": "east"}, r)
	newForeign("", "name", "controller").register(wrapped).queue("theirs")
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "ours", MetricsProvider: beside(wrapped)})
	defer q.ShutDown()
	if got := of(t, r, "ours"); !slices.Contains(got, `depth{cluster="east",controller="ours",name="ours"} 0`) {
		t.Errorf("got %q", got)
	}
}

// A series that was found is not asked for again: each question takes the lock of the
// registry, and all scrapes of the program wait for it.
func TestScrapeDoesNotAskForSeriesThatAreKnown(t *testing.T) {
	t.Parallel()
	r := &countedRegistry{Registry: prometheus.NewRegistry()}
	newForeign("", "name").register(r)
	beside(r)
	scrape(t, r)
	known := r.asked
	scrape(t, r)
	if r.asked != known {
		t.Errorf("the second scrape has asked %d times, want 0", r.asked-known)
	}
}

type countedRegistry struct {
	*prometheus.Registry
	asked int
}

func (r *countedRegistry) Register(c prometheus.Collector) error {
	r.asked++
	return r.Registry.Register(c)
}
