package otelqueue_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
	otelqueue "github.com/seed16c08ea7/workqueue/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// A collection is what a reader of OpenTelemetry has collected, by name.
type collection map[string]metricdata.Aggregation

func collect(t *testing.T, p *otelqueue.Producer) (collection, *metricdata.ResourceMetrics) {
	t.Helper()
	reader := metric.NewManualReader(metric.WithProducer(p))
	metric.NewMeterProvider(metric.WithReader(reader))
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	found := collection{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		found[m.Name] = m.Data
	}
	return found, &all
}

// text has the points of a metric: the values of the attributes, the value, and the seconds since the
// start.
func (c collection) text(name string) string {
	var texts []string
	point := func(attributes attribute.Set, value any, start, now time.Time) {
		for _, a := range attributes.ToSlice() {
			texts = append(texts, a.Value.String())
		}
		texts = append(texts, fmt.Sprintf("%v/%v", value, now.Sub(start).Seconds()))
	}
	switch m := c[name].(type) {
	case metricdata.Sum[int64]:
		for _, p := range m.DataPoints {
			point(p.Attributes, p.Value, p.StartTime, p.Time)
		}
	case metricdata.Sum[float64]:
		for _, p := range m.DataPoints {
			point(p.Attributes, p.Value, p.StartTime, p.Time)
		}
	case metricdata.Gauge[float64]:
		for _, p := range m.DataPoints {
			point(p.Attributes, p.Value, p.StartTime, p.Time)
		}
	case metricdata.Histogram[float64]:
		for _, p := range m.DataPoints {
			point(p.Attributes, fmt.Sprint(p.Count, p.Sum, p.Bounds, p.BucketCounts), p.StartTime, p.Time)
		}
	case metricdata.ExponentialHistogram[float64]:
		for _, p := range m.DataPoints {
			point(p.Attributes, fmt.Sprint(p.Count, p.Sum, p.ZeroCount, p.Scale, p.PositiveBucket), p.StartTime, p.Time)
		}
	}
	return strings.Join(texts, " ")
}

func newQueue(p *otelqueue.Producer, name string) *workqueue.TypedRateLimiting[string] {
	return workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[string]{Name: name, MetricsProvider: p})
}

func TestMetricsOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := otelqueue.NewProducer(otelqueue.ProducerOptions{Buckets: []float64{1, 10}})
		queue := newQueue(p, "q\xff")
		priority := 3
		queue.AddWith(workqueue.AddOptions{Priority: &priority}, "a", "b")
		queue.Add("a")
		queue.AddAfter("c", time.Hour)
		time.Sleep(2 * time.Second)
		queue.Get()
		time.Sleep(3 * time.Second)
		got, _ := collect(t, p)
		for name, want := range map[string]string{
			"workqueue.depth":                     "q\uFFFD 1/5",
			"workqueue.depth_by_priority":         "q\uFFFD 0 0/5 q\uFFFD 3 1/5",
			"workqueue.in_flight":                 "q\uFFFD 1/5",
			"workqueue.workers":                   "q\uFFFD 1/5",
			"workqueue.adds":                      "q\uFFFD 2/5",
			"workqueue.duplicates":                "q\uFFFD 1/5",
			"workqueue.waiting":                   "q\uFFFD 1/5",
			"workqueue.retries":                   "q\uFFFD 1/5",
			"workqueue.rate_limited":              "q\uFFFD 0/5",
			"workqueue.results":                   "",
			"workqueue.oldest_item.age":           "q\uFFFD 5/5",
			"workqueue.longest_running_processor": "q\uFFFD 3/5",
			"workqueue.unfinished_work":           "q\uFFFD 3/5",
			"workqueue.paced":                     "q\uFFFD 0/5",
			"workqueue.queue.duration":            "q\uFFFD 1 2 [1 10] [0 1 0]/5",
			"workqueue.work.duration":             "q\uFFFD 0 0 [1 10] [0 0 0]/5",
			"workqueue.lateness":                  "q\uFFFD 0 0 [1 10] [0 0 0]/5",
			"workqueue.retry_delay":               "q\uFFFD 0 0 [1 10] [0 0 0]/5",
			"workqueue.abandoned":                 "queued 0/5 in_flight 0/5 waiting 0/5",
		} {
			if got := got.text(name); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
		for name, monotonic := range map[string]bool{"workqueue.depth": false, "workqueue.adds": true, "workqueue.abandoned": true} {
			if m := got[name].(metricdata.Sum[int64]); m.IsMonotonic != monotonic || m.Temporality != metricdata.CumulativeTemporality {
				t.Errorf("%s: %v", name, m)
			}
		}
		queue.ShutDown()
		got, _ = collect(t, p)
		if text := got.text("workqueue.abandoned"); text != "queued 1/5 in_flight 1/5 waiting 1/5" || len(got) != 1 {
			t.Errorf("after the end: %s, %d metrics", text, len(got))
		}
	})
}

// Queues of one name are one, as long as any of them lives. The next one starts anew.
func TestQueuesOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := otelqueue.NewProducer(otelqueue.ProducerOptions{})
		adds := func() string {
			got, _ := collect(t, p)
			return got.text("workqueue.adds")
		}
		first, second := newQueue(p, "q"), newQueue(p, "q")
		first.AddAll("a", "b")
		second.Add("a")
		newQueue(p, "other").Add("x")
		time.Sleep(time.Second)
		if got, want := adds(), "other 1/1 q 3/1"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		first.Add("c")
		first.ShutDown()
		if got, want := adds(), "other 1/1 q 4/1"; got != want {
			t.Errorf("after the end of the first: got %q, want %q", got, want)
		}
		second.ShutDown()
		if got, want := adds(), "other 1/1"; got != want {
			t.Errorf("after the end of both: got %q, want %q", got, want)
		}
		time.Sleep(time.Second)
		newQueue(p, "q").Add("a")
		if got, want := adds(), "other 1/2 q 1/0"; got != want {
			t.Errorf("of a new queue: got %q, want %q", got, want)
		}
	})
}

// Each duration is in the bucket that OpenTelemetry's formula says, also when the scale is lower.
func TestExponentialBuckets(t *testing.T) {
	for name, times := range map[string][]time.Duration{
		"close": {time.Second, time.Second + time.Nanosecond, 1500 * time.Millisecond, 2 * time.Second},
		"far":   {time.Nanosecond, time.Millisecond, time.Second, 100 * time.Hour},
		"none":  {0},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := otelqueue.NewProducer(otelqueue.ProducerOptions{})
			queue := newQueue(p, "q")
			for _, d := range times {
				queue.Add("a")
				time.Sleep(d)
				queue.Get()
				queue.Done("a")
			}
			got, _ := collect(t, p)
			h := got["workqueue.queue.duration"].(metricdata.ExponentialHistogram[float64]).DataPoints[0]
			want := make([]uint64, len(h.PositiveBucket.Counts))
			zero := uint64(0)
			for _, d := range times {
				if d == 0 {
					zero++
					continue
				}
				i := int(math.Ceil(math.Log2(d.Seconds())*math.Pow(2, float64(h.Scale)))) - 1
				want[i-int(h.PositiveBucket.Offset)]++
			}
			if fmt.Sprint(h.PositiveBucket.Counts) != fmt.Sprint(want) || h.ZeroCount != zero || h.Count != uint64(len(times)) {
				t.Errorf("%s: got %v, zero %d, want %v", name, h.PositiveBucket, h.ZeroCount, want)
			}
			if len(want) > 160 || name == "close" && h.Scale != 3 || name == "far" && h.Scale >= 3 {
				t.Errorf("%s: scale %d, %d buckets", name, h.Scale, len(want))
			}
		})
	}
}

// The exporter takes all metrics.
func TestExporter(t *testing.T) {
	p := otelqueue.NewProducer(otelqueue.ProducerOptions{})
	newQueue(p, "q").Add("a")
	got, all := collect(t, p)
	if empty := got["workqueue.work.duration"].(metricdata.ExponentialHistogram[float64]).DataPoints[0]; empty.Scale != 3 || len(empty.PositiveBucket.Counts) != 0 {
		t.Errorf("without a duration there are %+v", empty)
	}
	var text bytes.Buffer
	stdout, err := stdoutmetric.New(stdoutmetric.WithWriter(&text))
	if err != nil {
		t.Fatal(err)
	}
	if err := stdout.Export(t.Context(), all); err != nil || !strings.Contains(text.String(), "workqueue.queue.duration") {
		t.Errorf("%v: %s", err, text.String())
	}
}

// A queue that was dropped without a shutdown is gone before its end is told. Its counts stay.
func TestQueueIsGoneBeforeItsEnd(t *testing.T) {
	p := otelqueue.NewProducer(otelqueue.ProducerOptions{})
	gone := false
	m := p.NewQueue(workqueue.QueueSource{Name: "q", Layers: workqueue.LayerQueue, Read: func() (workqueue.QueueStats, bool) {
		if gone {
			return workqueue.QueueStats{}, false
		}
		return workqueue.QueueStats{Adds: 3, Depth: 2}, true
	}})
	for range 2 {
		got, _ := collect(t, p)
		adds, depth := got["workqueue.adds"].(metricdata.Sum[int64]).DataPoints[0].Value, got["workqueue.depth"].(metricdata.Sum[int64]).DataPoints[0].Value
		if adds != 3 || (depth != 0) == gone {
			t.Errorf("gone %t: %d adds, depth %d", gone, adds, depth)
		}
		if got["workqueue.lateness"] != nil || got["workqueue.waiting"] != nil {
			t.Error("a queue without delays has metrics of delays")
		}
		gone = true
	}
	m.End(workqueue.Totals{})
	if got, _ := collect(t, p); len(got) != 1 {
		t.Errorf("after the end there are %v", got)
	}
}

func TestBucketsAreChecked(t *testing.T) {
	for _, buckets := range [][]float64{{1, 1}, {2, 1}, {math.NaN()}, {1, math.Inf(1)}, {math.Inf(-1), 1}} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, "not finite and increasing") {
					t.Errorf("%v: recovered %q", buckets, text)
				}
			}()
			otelqueue.NewProducer(otelqueue.ProducerOptions{Buckets: buckets})
		}()
	}
}

// Of many priorities, 25 have an attribute of their own.
func TestPrioritiesAreBounded(t *testing.T) {
	p := otelqueue.NewProducer(otelqueue.ProducerOptions{})
	queue := newQueue(p, "q")
	for i := range 100 {
		queue.AddWith(workqueue.AddOptions{Priority: &i}, fmt.Sprint(i))
	}
	got, _ := collect(t, p)
	points := got["workqueue.depth_by_priority"].(metricdata.Sum[int64]).DataPoints
	total := int64(0)
	for _, p := range points {
		total += p.Value
	}
	if len(points) != 26 || total != 100 {
		t.Errorf("%d points, %d items", len(points), total)
	}
	if text := got.text("workqueue.depth_by_priority"); !strings.Contains(text, "q other 75/") {
		t.Errorf("got %s", text)
	}
}

// All outcomes are there from the first Run on.
func TestResultsOfARun(t *testing.T) {
	p := otelqueue.NewProducer(otelqueue.ProducerOptions{})
	queue := newQueue(p, "q")
	queue.Add("a")
	ctx, cancel := context.WithCancel(t.Context())
	workqueue.Run(ctx, queue, func(context.Context, string) error { cancel(); return nil },
		workqueue.RunOptions[string]{AtEnd: workqueue.EndKeep})
	got, _ := collect(t, p)
	points := got["workqueue.results"].(metricdata.Sum[int64]).DataPoints
	if len(points) != len(workqueue.Outcomes()) || points[0].Value != 1 {
		t.Errorf("got %v", points)
	}
}
