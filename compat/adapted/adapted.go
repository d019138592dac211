// Package adapted compares the series of our queues with the series of
// client-go's queues, under a metrics provider written for client-go. Our queues
// use the provider through the adapter. Each provider has a test package of its
// own: both providers set client-go's global provider when they are imported, and
// the first import wins.
package adapted

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/seed16c08ea7/workqueue"
	clientgo "k8s.io/client-go/util/workqueue"
)

// A Queue has the methods of either package that Workload needs.
type Queue interface {
	Add(item string)
	AddAfter(item string, d time.Duration)
	AddRateLimited(item string)
	Get() (item string, shutdown bool)
	Done(item string)
	ShutDown()
}

// ClientGo returns a queue of client-go.
func ClientGo(name string, p clientgo.MetricsProvider) Queue {
	return clientgo.NewTypedRateLimitingQueueWithConfig(
		clientgo.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute),
		clientgo.TypedRateLimitingQueueConfig[string]{Name: name, MetricsProvider: p})
}

// Ours returns a queue of this project.
func Ours(name string, p workqueue.MetricsProvider) Queue {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: name, MetricsProvider: p})
}

// Workload makes the same calls to both queues at the same times. It calls compare
// when all gauges have been set: client-go sets its gauges every half second.
func Workload(theirs, ours Queue, compare func(moment string)) {
	both := func(f func(q Queue)) { f(theirs); f(ours) }
	sleep := func(d time.Duration) {
		time.Sleep(d)
		synctest.Wait()
	}
	compare("at first")
	both(func(q Queue) { q.Add("a"); q.Add("a"); q.Add("b") })
	sleep(500 * time.Millisecond)
	both(func(q Queue) { q.Get(); q.AddRateLimited("c"); q.AddAfter("d", time.Hour) })
	sleep(time.Second)
	compare("an item held")
	both(func(q Queue) { q.Add("a"); q.Get(); q.AddAfter("e", 0) })
	sleep(1500 * time.Millisecond)
	compare("two items held, one of them added again, one due")
	both(func(q Queue) { q.Done("a"); q.Done("b") })
	sleep(500 * time.Millisecond)
	both(func(q Queue) {
		for _, item := range []string{"c", "e", "a"} {
			q.Get()
			q.Done(item)
		}
	})
	sleep(time.Minute)
	compare("all done")
	both(Queue.ShutDown)
	sleep(time.Minute)
}

// Series returns the series of a queue by their names, without the labels called
// name and controller. Empty labels are left out too, as Prometheus does not
// distinguish an empty label from a missing label.
func Series(t testing.TB, g prometheus.Gatherer, queue string) map[string]string {
	t.Helper()
	return series(t, g, queue, func(*dto.Metric) {})
}

// Classic is Series without native buckets, which component-base does not have.
func Classic(t testing.TB, g prometheus.Gatherer, queue string) map[string]string {
	t.Helper()
	return series(t, g, queue, func(m *dto.Metric) {
		if h := m.Histogram; h != nil {
			m.Histogram = &dto.Histogram{SampleCount: h.SampleCount, SampleSum: h.SampleSum, Bucket: h.Bucket}
		}
	})
}

func series(t testing.TB, g prometheus.Gatherer, queue string, change func(*dto.Metric)) map[string]string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := make(map[string]string)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "workqueue_") {
			continue
		}
		for _, m := range f.GetMetric() {
			if strip(m, queue) {
				change(m)
				series[f.GetName()] = f.GetType().String() + " " + m.String()
			}
		}
	}
	return series
}

// strip removes from a series the parts that differ between two queues after the
// same calls, and reports whether the series belongs to the given queue.
func strip(m *dto.Metric, queue string) (mine bool) {
	var labels []*dto.LabelPair
	for _, l := range m.GetLabel() {
		switch {
		case l.GetName() == "name":
			mine = l.GetValue() == queue
		case l.GetValue() != "" && l.GetName() != "controller":
			labels = append(labels, l)
		}
	}
	m.Label = labels
	if m.Histogram != nil {
		m.Histogram.CreatedTimestamp = nil
	}
	if m.Counter != nil {
		m.Counter.CreatedTimestamp = nil
	}
	return mine
}

// Compare reports where two sets of series differ.
func Compare(t testing.TB, moment string, theirs, ours map[string]string) {
	t.Helper()
	if len(theirs) != 7 {
		t.Errorf("%s: client-go has %d series, want 7", moment, len(theirs))
	}
	for name, want := range theirs {
		if got := ours[name]; got != want {
			t.Errorf("%s: %s is\n%s\nand of client-go\n%s", moment, name, got, want)
		}
	}
}

// Test compares the series of both queues under the provider p. g gathers the series.
func Test(t *testing.T, g prometheus.Gatherer, p clientgo.MetricsProvider) {
	synctest.Test(t, func(t *testing.T) {
		theirs, ours := ClientGo("theirs", p), Ours("ours", workqueue.AdaptMetricsProvider(p))
		Workload(theirs, ours, func(moment string) {
			mine := Series(t, g, "ours")
			if len(mine) != 7 {
				t.Errorf("%s: %d series, want 7", moment, len(mine))
			}
			Compare(t, moment, Series(t, g, "theirs"), mine)
		})
	})
}
