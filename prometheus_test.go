package workqueue_test

import (
	"fmt"
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

func TestSeriesOfAQueue(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	p := workqueue.NewPrometheusProvider(r)
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour), workqueue.TypedRateLimitingQueueConfig[string]{
		Name: "q", MetricsProvider: p, Clock: clock,
	})
	q.Add("a")
	q.Add("a")
	q.Add("b")
	q.AddRateLimited("c")
	q.AddAfter("d", time.Second)
	clock.Step(time.Second / 2)
	q.Get()
	want := []string{
		`abandoned_total{state="in_flight"} 0`,
		`abandoned_total{state="queued"} 0`,
		`abandoned_total{state="waiting"} 0`,
		`adds_total{name="q"} 2`,
		`depth{name="q"} 1`,
		`duplicates_total{name="q"} 1`,
		`in_flight{name="q"} 1`,
		`lateness_seconds{name="q"} 0 observations of 0 s`,
		`longest_running_processor_seconds{name="q"} 0`,
		`oldest_item_age_seconds{name="q"} 0.5`,
		`queue_duration_seconds{name="q"} 1 observations of 0.5 s`,
		`rate_limited_total{name="q"} 1`,
		`retries_total{name="q"} 2`,
		`unfinished_work_seconds{name="q"} 0`,
		`waiting{name="q"} 2`,
		`work_duration_seconds{name="q"} 0 observations of 0 s`,
	}
	if got := scrape(t, r); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	q.ShutDown()
	want = []string{
		`abandoned_total{state="in_flight"} 1`,
		`abandoned_total{state="queued"} 1`,
		`abandoned_total{state="waiting"} 2`,
	}
	if got := scrape(t, r); !slices.Equal(got, want) {
		t.Errorf("after the shutdown, got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

var _ = workqueue.AdaptMetricsProvider(&recorder{})
