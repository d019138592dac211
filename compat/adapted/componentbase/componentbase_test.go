package componentbase_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/compat/adapted"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // sets client-go's provider
)

// A queue from before any SetProvider, as in a program that changes the import line alone.
var changedLineAlone = adapted.Ours("changed line alone", nil)

// The registry keeps the series of client-go's queues, so each run has names of its own, for -count.
var run = 0

func named(name string) string { return fmt.Sprint(name, " ", run) }

// component-base gives its provider to client-go's queues alone, so a changed import line takes the
// metrics away. One line more gives them back, and with them the series that are ours alone.
func TestChangedImportLineTakesMetricsAway(t *testing.T) {
	run++
	workqueue.SetProvider(workqueue.NewPrometheusProvider(legacyregistry.Registerer(), workqueue.PrometheusOptions{}))
	before, after := adapted.ClientGo(named("before the change"), nil), adapted.Ours(named("with SetProvider"), nil)
	defer before.ShutDown()
	defer after.ShutDown()
	changedLineAlone.Add("a")
	for name, want := range map[string]int{named("before the change"): 7, "changed line alone": 0, named("with SetProvider"): 15} {
		if got := adapted.Series(t, legacyregistry.DefaultGatherer, name); len(got) != want {
			t.Errorf("%s: %d series, want %d: %v", name, len(got), want, got)
		}
	}
}

// The registry of component-base gets the series of client-go with the first queue.
// Whichever is first, the provider or that queue, both are shown by the same names,
// texts and labels.
func TestProviderInTheRegistryOfComponentBase(t *testing.T) {
	run++
	names := []string{named("early"), named("ours"), named("theirs")}
	provider := workqueue.NewPrometheusProvider(legacyregistry.Registerer(), workqueue.PrometheusOptions{})
	synctest.Test(t, func(t *testing.T) {
		early := adapted.Ours(names[0], provider)
		if got := len(adapted.Series(t, legacyregistry.DefaultGatherer, names[0])); got != 15 {
			t.Errorf("before there is a queue of client-go: %d series, want 15", got)
		}
		// Its panic would be that of a MustRegister.
		theirs, ours := adapted.ClientGo(names[2], nil), adapted.Ours(names[1], provider)
		adapted.Workload(theirs, ours, func(moment string) {
			mine := adapted.Classic(t, legacyregistry.DefaultGatherer, names[1])
			if len(mine) != 15 {
				t.Errorf("%s: %d series, want 15", moment, len(mine))
			}
			adapted.Compare(t, moment, adapted.Classic(t, legacyregistry.DefaultGatherer, names[2]), mine)
		})
		early.ShutDown()
	})
	for _, name := range names[:2] {
		if left := adapted.Series(t, legacyregistry.DefaultGatherer, name); len(left) > 0 {
			t.Errorf("after the shutdown these are left of %s: %v", name, left)
		}
	}
}
