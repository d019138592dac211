// Package programs is the common part of the programs in its directories. Each program
// makes queues by client-go's names, with the metrics of a registry that controllers
// use. It prints the type of a queue and the series.
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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/seed16c08ea7/workqueue/compat/adapted"
	"k8s.io/client-go/util/workqueue"
)

// Print takes queues through every action that has a metric, at the virtual times of a
// bubble. It prints the series of the registry at each moment.
func Print(t *testing.T, g prometheus.Gatherer) {
	synctest.Test(t, func(t *testing.T) {
		untyped := workqueue.NewNamed("untyped")
		defer untyped.ShutDown()
		fmt.Printf("the type is of %s\n", reflect.TypeOf(untyped).Elem().PkgPath())
		untyped.Add(1)
		adapted.Workload(adapted.ClientGo("one", nil), adapted.ClientGo("another", nil), func(moment string) {
			write(t, moment, g)
			untyped.Get()
			untyped.Add(1)
			untyped.Done(1)
		})
	})
}

// write prints the series of queues, in the order of their names.
func write(t *testing.T, moment string, g prometheus.Gatherer) {
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
		fmt.Printf("%s: %s", moment, line)
	}
}
