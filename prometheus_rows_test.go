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
		`rate_limit_delay_seconds{name="q"} 1 observations of 1 s`,
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

// A FIFO has the series of Kubernetes but retries, and what else is known of it.
func TestSeriesOfAFIFO(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{ControllerLabel: true, ConstLabels: prometheus.Labels{"cluster": "east"}})
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
