// Package programs has what the programs of its directories have in common: each makes
// a queue of client-go's names, under the metrics of one of the two registries that
// controllers use, and prints what the queue is and its series.
//
// Their tests run before and after a swap, and what they print is compared by
// TestMetricsAreThoseOfBefore of the directory above.
package programs

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"k8s.io/client-go/util/workqueue"
)

// Print takes a queue through all that has a metric, at the virtual times of a bubble,
// and prints the series of the registry at each step.
func Print(t *testing.T, g prometheus.Gatherer) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "queue"})
		untyped := workqueue.NewNamed("untyped")
		fmt.Printf("the type is of %s\n", reflect.TypeOf(untyped).Elem().PkgPath())
		step := func(name string, d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
			write(t, name, g)
		}
		step("at first", 0)
		q.Add("a")
		q.Add("a")
		q.Add("b")
		untyped.Add(1)
		step("queued", 500*time.Millisecond)
		q.Get()
		q.AddRateLimited("c")
		q.AddAfter("d", time.Hour)
		untyped.Get()
		step("held", time.Second)
		q.Add("a")
		q.Get()
		q.AddAfter("e", 0)
		step("two are held", 1500*time.Millisecond)
		q.Done("a")
		q.Done("b")
		untyped.Done(1)
		for range 3 {
			item, _ := q.Get()
			q.Done(item)
		}
		step("done", time.Minute)
		q.ShutDown()
		untyped.ShutDown()
		time.Sleep(time.Minute)
	})
}

// write prints the series of queues, in the order of their names.
func write(t *testing.T, step string, g prometheus.Gatherer) {
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "workqueue_") {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(b.String()) {
		fmt.Printf("%s: %s", step, line)
	}
}
