package workqueue_test

import (
	"math"
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// A queue that is not of this package tells each change, by the methods of a
// MetricsProvider, and shares its series with those of its name.
func TestSeriesOfForeignQueues(t *testing.T) {
	r, p := newExposed(workqueue.PrometheusOptions{})
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
	_, p := newExposed(workqueue.PrometheusOptions{})
	p.NewDepthMetric("q")
	workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p}).ShutDown()
	if !strings.Contains(logged.String(), "name=q") {
		t.Errorf("logged %q, want a warning", logged)
	}
}
