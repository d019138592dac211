// Package programs is the common part of the programs in its directories. Each program
// makes a queue by client-go's names, with the metrics of a registry that controllers
// use. It prints the type of the queue and its series.
//
// TestMetricsAreThoseOfBefore of the directory above runs the tests of the programs
// before and after a swap, and compares the output.
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

// Print takes a queue through every action that has a metric, at the virtual times of a
// bubble. It prints the series of the registry at each step.
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
