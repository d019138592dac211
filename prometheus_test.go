package workqueue_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
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
func newExposed(options workqueue.PrometheusOptions) (*prometheus.Registry, *workqueue.PrometheusProvider) {
	r := prometheus.NewPedanticRegistry()
	return r, workqueue.NewPrometheusProvider(r, options)
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

// captureLog returns what goes to the default logger during the test.
func captureLog(t *testing.T) *bytes.Buffer {
	var b bytes.Buffer
	old := slog.Default()
	t.Cleanup(func() { slog.SetDefault(old) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	return &b
}

func TestPrometheusProviderWithBadInput(t *testing.T) {
	registry := prometheus.NewRegistry()
	workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{ConstLabels: prometheus.Labels{"a": "1"}})
	workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{ConstLabels: prometheus.Labels{"a": "2"}})
	for name, row := range map[string]struct {
		f    func()
		want string
	}{
		"nil": {func() { workqueue.NewPrometheusProvider(nil, workqueue.PrometheusOptions{}) }, "registerer is nil"},
		"twice": {func() {
			workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{ConstLabels: prometheus.Labels{"a": "1"}})
		}, "has a provider"},
		"no adaptee": {func() { workqueue.AdaptMetricsProvider(workqueue.MetricsProvider(nil)) }, "provider is nil"},
		"equal":      {buckets(1, 1), "[1 1]"},
		"falling":    {buckets(1, 2, 1.5), "[1 2 1.5]"},
		"NaN":        {buckets(math.NaN()), "[NaN]"},
		"Inf":        {buckets(1, math.Inf(1)), "[1 +Inf]"},
		"-Inf":       {buckets(math.Inf(-1), 1), "[-Inf 1]"},
		"a label of ours": {func() {
			workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{ConstLabels: prometheus.Labels{"name": "x"}})
		}, "duplicate label"},
	} {
		if got := fmt.Sprint(goes(row.f)); !strings.HasPrefix(got, "workqueue: ") || !strings.Contains(got, row.want) {
			t.Errorf("%s: got the panic %s, want one with %q", name, got, row.want)
		}
	}
}

func buckets(bounds ...float64) func() {
	return func() {
		workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{Buckets: bounds})
	}
}

func TestBuckets(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	for name, row := range map[string]struct {
		options workqueue.PrometheusOptions
		want    string
	}{
		"default": {workqueue.PrometheusOptions{}, "1e-08:0 1e-07:0 1e-06:0 9.999999999999999e-06:0 9.999999999999999e-05:0 0.001:0 0.01:0 0.1:0 1:0 10:1 100:1 1000:1 "},
		"own":     {workqueue.PrometheusOptions{Buckets: []float64{1, 4, 16}}, "1:0 4:0 16:1 "},
		"none":    {workqueue.PrometheusOptions{Buckets: []float64{}}, ""},
	} {
		r, p := newExposed(row.options)
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
