package workqueue_test

import (
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

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
