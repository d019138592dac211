package workqueue_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
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

// newExposed returns a provider in a pedantic registry.
func newExposed(options workqueue.PrometheusOptions) (*prometheus.Registry, *workqueue.PrometheusProvider) {
	r := prometheus.NewPedanticRegistry()
	return r, workqueue.NewPrometheusProvider(r, options)
}

// checkSeries compares all series but abandoned_total.
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

// captureLog returns the output of the default logger during the test.
func captureLog(t *testing.T) *bytes.Buffer {
	var b bytes.Buffer
	old := slog.Default()
	t.Cleanup(func() { slog.SetDefault(old) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	return &b
}

func TestPrometheusProviderWithBadInput(t *testing.T) {
	for name, row := range map[string]struct {
		f    func()
		want string
	}{
		"nil":        {func() { workqueue.NewPrometheusProvider(nil, workqueue.PrometheusOptions{}) }, "registerer is nil"},
		"no adaptee": {func() { workqueue.AdaptMetricsProvider(workqueue.MetricsProvider(nil)) }, "provider is nil"},
		"equal buckets": {func() {
			workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{Buckets: []float64{1, 1}})
		}, "[1 1]"},
		"a label of ours": {func() {
			workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{ConstLabels: prometheus.Labels{"name": "x"}})
		}, "duplicate label"},
		"the label of buckets": {func() {
			workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{ConstLabels: prometheus.Labels{"le": "x"}})
		}, "label le"},
	} {
		if got := fmt.Sprint(goes(row.f)); !strings.HasPrefix(got, "workqueue: ") || !strings.Contains(got, row.want) {
			t.Errorf("%s: got the panic %s, want one with %q", name, got, row.want)
		}
	}
}

// A queue with a bucket of minus 1e10 seconds was made for ever.
func TestPrometheusProviderWithABucketBelowZero(t *testing.T) {
	r := prometheus.NewRegistry()
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q",
		MetricsProvider: workqueue.NewPrometheusProvider(r, workqueue.PrometheusOptions{Buckets: []float64{-1e10, -1, 3600}})})
	defer q.ShutDown()
	q.Add("a")
	q.Get()
	if got := classic(t, r, "workqueue_queue_duration_seconds"); got != "-1e+10:0 -1:0 3600:1 " {
		t.Errorf("the buckets are %s", got)
	}
}

// The options of a provider changed with the map and the slice of the caller: a second call with the same options was
// refused.
func TestPrometheusProviderCopiesItsOptions(t *testing.T) {
	r := prometheus.NewRegistry()
	labels, buckets := prometheus.Labels{"a": "1"}, []float64{1, 2}
	first := workqueue.NewPrometheusProvider(r, workqueue.PrometheusOptions{ConstLabels: labels, Buckets: buckets})
	labels["a"], buckets[0] = "2", 0
	second := workqueue.NewPrometheusProvider(r, workqueue.PrometheusOptions{ConstLabels: prometheus.Labels{"a": "1"}, Buckets: []float64{1, 2}})
	if first != second {
		t.Error("equal options make two providers")
	}
}

// classic returns the classic buckets of the one histogram of a name.
func classic(t *testing.T, g prometheus.Gatherer, name string) (buckets string) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		for _, b := range h.GetBucket() {
			buckets += fmt.Sprintf("%v:%d ", b.GetUpperBound(), b.GetCumulativeCount())
		}
		if h.GetSchema() != workqueue.DurationSchema || len(h.GetPositiveSpan()) == 0 {
			t.Errorf("%s has no native buckets", name)
		}
		return buckets
	}
	t.Fatalf("no histogram %s", name)
	return ""
}

// Classic buckets end at the same bound as the buckets of client-go's queues: others could not be
// added up.
func TestBuckets(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	plain := func() *prometheus.Registry { return prometheus.NewPedanticRegistry() }
	with := func(prefix string) func() *prometheus.Registry {
		return func() *prometheus.Registry {
			r := prometheus.NewRegistry()
			newForeign(prefix, "name").register(r)
			return r
		}
	}
	const upTo10, further = "1e-08:0 1e-07:0 1e-06:0 9.999999999999999e-06:0 9.999999999999999e-05:0 0.001:0 0.01:0 0.1:0 1:0 10:1 ", "100:1 1000:1 "
	for name, row := range map[string]struct {
		registry func() *prometheus.Registry
		options  workqueue.PrometheusOptions
		want     string
	}{
		"default":                   {plain, workqueue.PrometheusOptions{}, upTo10 + further},
		"own":                       {plain, workqueue.PrometheusOptions{Buckets: []float64{1, 4, 16}}, "1:0 4:0 16:1 "},
		"none":                      {plain, workqueue.PrometheusOptions{Buckets: []float64{}}, ""},
		"beside controller-runtime": {with(""), workqueue.PrometheusOptions{}, upTo10 + further},
		"beside component-base":     {with("[BETA] "), workqueue.PrometheusOptions{}, upTo10},
	} {
		r := row.registry()
		p := workqueue.NewPrometheusProvider(r, row.options)
		q := openFIFO(p, clock)
		q.Add("a")
		clock.Step(5 * time.Second)
		q.Get()
		if got := classic(t, r, "workqueue_queue_duration_seconds"); got != row.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, row.want)
		}
		q.ShutDown()
	}
}

// A provider is a MetricsProvider for configs. Its metrics measure nothing, and make no series.
func TestMetricsOfThePrometheusProviderMeasureNothing(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{})
	p.NewDepthMetric("q").Inc()
	p.NewDepthMetric("q").Dec()
	p.NewAddsMetric("q").Inc()
	p.NewLatencyMetric("q").Observe(1)
	p.NewWorkDurationMetric("q").Observe(1)
	p.NewUnfinishedWorkSecondsMetric("q").Set(1)
	p.NewLongestRunningProcessorSecondsMetric("q").Set(1)
	p.NewRetriesMetric("q").Inc()
	checkSeries(t, "told", r)
}

// The registries of controller-runtime and component-base themselves are in
// compat/adapted. Here are others, with the series of client-go's queues in them.

// foreignSeries are the vectors of another provider. The texts are from controller-runtime, with
// a prefix.
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

// queue makes the series of a queue, as the constructor of client-go's queue does, with a depth
// of 7.
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

// countOfComponentBase marks the registry of component-base.
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
			"queue_duration_seconds", "work_duration_seconds", "lateness_seconds", "duplicates_total", "rate_limited_total", "workers"} {
			if !slices.ContainsFunc(of(t, r, "ours"), func(s string) bool { return strings.HasPrefix(s, want) }) {
				t.Errorf("%s: %d: %s is missing in\n%s", name, step, want, strings.Join(of(t, r, "ours"), "\n"))
			}
		}
		if got := len(of(t, r, "ours")); got != 15 {
			t.Errorf("%s: %d series, want 15", name, got)
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

// Two libraries of one program share a registry and do not know of each other.
func TestSecondProviderOfARegistry(t *testing.T) {
	labels := func(value string) prometheus.Labels { return prometheus.Labels{"a": value} }
	for name, registry := range map[string]func() prometheus.Registerer{
		"plain": func() prometheus.Registerer { return prometheus.NewRegistry() },
		"beside client-go": func() prometheus.Registerer {
			r := prometheus.NewRegistry()
			newForeign("", "name").register(r)
			return r
		},
		"before client-go": func() prometheus.Registerer {
			r := prometheus.NewRegistry()
			r.MustRegister(countOfComponentBase())
			return r
		},
		"with labels around": func() prometheus.Registerer {
			return prometheus.WrapRegistererWith(labels("0"), prometheus.NewRegistry())
		},
	} {
		for _, options := range []workqueue.PrometheusOptions{
			{}, {ControllerLabel: true}, {Buckets: []float64{1, 2}}, {Buckets: []float64{}}, {ConstLabels: prometheus.Labels{"b": "1"}},
		} {
			r := registry()
			var made [3]*workqueue.PrometheusProvider
			var all sync.WaitGroup
			for i := range made {
				all.Go(func() {
					made[i] = workqueue.NewPrometheusProvider(r, options)
					made[i].NewQueue(workqueue.QueueSource{Name: fmt.Sprint(i), Read: func() (workqueue.QueueStats, bool) { return workqueue.QueueStats{}, true }})
				})
			}
			all.Wait()
			if made[0] != made[1] || made[0] != made[2] {
				t.Errorf("%s: %+v: several providers for the same options", name, options)
			}
			other := options
			other.Buckets = []float64{3}
			refuses(t, name, r, other)
			other = options
			other.ControllerLabel = !other.ControllerLabel
			refuses(t, name, r, other)
		}
	}
	r := prometheus.NewRegistry()
	workqueue.NewPrometheusProvider(r, workqueue.PrometheusOptions{})
	refuses(t, "no classic buckets", r, workqueue.PrometheusOptions{Buckets: []float64{}})
	r = prometheus.NewRegistry()
	workqueue.NewPrometheusProvider(prometheus.WrapRegistererWith(labels("1"), r), workqueue.PrometheusOptions{})
	refuses(t, "the label comes from the registerer", r, workqueue.PrometheusOptions{ConstLabels: labels("1")})
	r = prometheus.NewRegistry()
	r.MustRegister(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "workqueue_abandoned_total", Help: "Items that queues still had when they were shut down, by their state.",
	}, []string{"state"}))
	refuses(t, "a counter like ours", r, workqueue.PrometheusOptions{})
	r = prometheus.NewRegistry()
	if workqueue.NewPrometheusProvider(r, workqueue.PrometheusOptions{ConstLabels: labels("1")}) ==
		workqueue.NewPrometheusProvider(r, workqueue.PrometheusOptions{ConstLabels: labels("2")}) {
		t.Error("one provider for two values of a label")
	}
}

// refuses checks the panic of a provider that a registry cannot have beside another one.
func refuses(t *testing.T, name string, r prometheus.Registerer, options workqueue.PrometheusOptions) {
	t.Helper()
	if got := fmt.Sprint(goes(func() { workqueue.NewPrometheusProvider(r, options) })); !strings.Contains(got, "has a provider of this package with other options") {
		t.Errorf("%s: %+v: got the panic %s", name, options, got)
	}
}

// The panic names the series in the way, and a way out. The registry does not change.
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
		q := openDelaying(p, nil)
		q.Add("a")
		if got := of(t, r, "q"); !slices.Contains(got, "depth{"+labels+"} 1") || warnings() > 0 {
			t.Errorf("before theirs: got %q, logged %s", got, log)
		}
		theirs.queue("q")
		for range 2 {
			got := of(t, r, "q")
			if len(got) != 15 || !slices.Contains(got, "depth{"+labels+"} 7") || !slices.Contains(got, "waiting{"+labels+"} 0") {
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

// A layer is left out, with a warning, where the registry has the same layer of the same name.
// A queue with layers of two packages has each series once, and no warning.
func TestLayerWithTheNameOfOneOfClientGo(t *testing.T) {
	fifo := func(p *workqueue.PrometheusProvider) interface{ ShutDown() } {
		return openFIFO(p, nil)
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
		"a FIFO beside both layers":                 {fifo, nil, 1, 7 + 4},
		"delays beside both layers":                 {delays, nil, 1, 7 + 4},
		"delays of ours above a FIFO of theirs":     {delays, []string{"retries_total"}, 0, 6 + 5},
		"a FIFO of ours below delays that are told": {fifo, []string{"adds_total", "depth", "queue_duration_seconds", "work_duration_seconds", "unfinished_work_seconds", "longest_running_processor_seconds"}, 0, 1 + 10},
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
// panics if they are refused. compat/adapted has the tests with known texts. With other texts our
// series in the same families go, with a warning. Our further series stay.
func TestProviderBeforeComponentBaseRegistersOtherTexts(t *testing.T) {
	log := captureLog(t)
	r := prometheus.NewRegistry()
	r.MustRegister(countOfComponentBase())
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "ours", MetricsProvider: beside(r)})
	defer q.ShutDown()
	q.Add("a")
	if got := of(t, r, "ours"); !slices.Contains(got, `depth{name="ours"} 1`) {
		t.Errorf("before: got %q", got)
	}
	newForeign("[STABLE] ", "name").register(r).queue("theirs")
	for range 2 { // The second scrape has no news.
		if got := of(t, r, "ours"); len(got) != 4 || !slices.Contains(got, `in_flight{name="ours"} 0`) {
			t.Errorf("after: got %q", got)
		}
	}
	if got := of(t, r, "theirs"); len(got) != 7 {
		t.Errorf("theirs: got %q", got)
	}
	if n := strings.Count(log.String(), "another text"); n != 7 {
		t.Errorf("warned %d times:\n%s", n, log)
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

// A text in brackets, or a counter of the same name, does not make a registry component-base's:
// our series have our texts there.
func TestRegistryThatLooksLikeComponentBases(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]prometheus.CounterOpts{
		"a text":    {Name: "builds_total", Help: "[ALPHA] Builds."},
		"a counter": {Name: "registered_metrics_total", Help: "Metrics that were registered."},
	} {
		r := prometheus.NewRegistry()
		r.MustRegister(prometheus.NewCounter(opts))
		q := openFIFO(beside(r), nil)
		defer q.ShutDown()
		families, err := r.Gather()
		if err != nil || !slices.ContainsFunc(families, func(f *dto.MetricFamily) bool {
			return strings.HasPrefix(f.GetHelp(), "Items that are queued, or held")
		}) {
			t.Errorf("%s: the depth does not have our text: %v, %v", name, families, err)
		}
	}
}

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
		if got != 15*n+3 || err != nil {
			t.Errorf("%d series of %d queues, %v, want 15 each and 3", got, n, err)
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
			`workers{name="q"} %v`,
		}, "\n"), gauges...), "\n")
	}
	checkSeries(t, "both", r, both(2, 2, 3, 4, 4, 2)...)
	open().ShutDown() // A third changes nothing, and is no news,
	open().ShutDown() // nor is one after it.
	queues[0].ShutDown()
	checkSeries(t, "the first is shut down", r, both(1, 1, 1, 3, 1, 1)...)
	queues[0].Done("a")
	checkSeries(t, "work goes on there", r, both(1, 1, 1, 3, 1, 1)...)
	queues[1].ShutDown()
	checkSeries(t, "the second is", r)
	checkAbandoned(t, r, 2, 2, 0)
	if n := strings.Count(logged.String(), "queue=q"); n != 1 || strings.Count(logged.String(), "\n") != 1 {
		t.Errorf("logged %d lines about q, want 1: %s", n, logged)
	}
	logged.Reset()
	q := open() // A name may be used again.
	if got := scrape(t, r); !slices.Contains(got, `adds_total{name="q"} 0`) || logged.Len() > 0 {
		t.Errorf("a new queue has the series %q; logged %q", got, logged)
	}
	q.ShutDown()
}

// With KeepCounts the counts of a drain can be scraped after it. Nothing says that the queue is still
// there, and a later queue of the name goes on from the counts.
func TestKeepCounts(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{KeepCounts: true})
	clock := testingclock.NewFakeClock(epoch)
	q := openDelaying(p, clock)
	q.Add("a")
	q.AddAfter("b", time.Hour)
	clock.Step(time.Second)
	q.Get()
	q.Done("a")
	q.ShutDown()
	want := []string{
		`adds_total{name="q"} 1`,
		`duplicates_total{name="q"} 0`,
		`lateness_seconds{name="q"} 0 observations of 0 s`,
		`queue_duration_seconds{name="q"} 1 observations of 1 s`,
		`rate_limited_total{name="q"} 0`,
		`retries_total{name="q"} 1`,
		`retry_delay_seconds{name="q"} 0 observations of 0 s`,
		`work_duration_seconds{name="q"} 1 observations of 0 s`,
	}
	checkSeries(t, "after the shutdown", r, want...)
	checkAbandoned(t, r, 0, 0, 1)
	next := openDelaying(p, clock)
	next.Add("a")
	if got := linesOf(t, r, "adds_total"); len(got) != 1 || got[0] != `adds_total{name="q"} 2` {
		t.Errorf("a later queue: got %q, want 2 adds", got)
	}
	if got := linesOf(t, r, "depth"); len(got) != 1 || got[0] != `depth{name="q"} 1` {
		t.Errorf("a later queue: got %q, want a depth of 1", got)
	}
	next.ShutDown()
	refuses(t, "with KeepCounts", r, workqueue.PrometheusOptions{})
}

// The counts of a queue that is gone without a shutdown stay as they were. The last counts of a
// queue stay too, while another queue of the name lives.
func TestSeriesKeepTheCountsOfQueuesThatAreGone(t *testing.T) {
	captureLog(t)
	r, p := newExposed(workqueue.PrometheusOptions{})
	adds, there := uint64(3), true
	q := p.NewQueue(workqueue.QueueSource{Name: "q", Layers: workqueue.LayerQueue, Read: func() (workqueue.QueueStats, bool) {
		return workqueue.QueueStats{Adds: adds}, there
	}})
	p.NewQueue(workqueue.QueueSource{Name: "q", Layers: workqueue.LayerQueue, Read: func() (workqueue.QueueStats, bool) {
		return workqueue.QueueStats{Adds: 100, Paced: 2 * time.Second}, true
	}})
	expect := func(when, want string) {
		t.Helper()
		if got := linesOf(t, r, "adds_total"); len(got) != 1 || got[0] != `adds_total{name="q"} `+want {
			t.Errorf("%s: got %q, want %s adds", when, got, want)
		}
	}
	expect("both live", "103")
	if got := linesOf(t, r, "paced"); len(got) != 1 || got[0] != `paced_seconds_total{name="q"} 2` {
		t.Errorf("got %q, want a pace that has kept items back for 2 s", got)
	}
	adds, there = 0, false
	expect("one is gone", "103")
	adds, there = 7, true
	q.End(workqueue.Totals{})
	expect("one has ended", "107")
}
