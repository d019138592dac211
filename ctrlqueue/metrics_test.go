package ctrlqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/ctrlqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queues with a name, which have metrics.
func openOurs(name string) queue {
	return ctrlqueue.For(ctrlqueue.Options[string]{}).NewQueue(name, newLimiter()).(queue)
}

func openTheirs(name string) queue {
	return priorityqueue.New(name, func(o *priorityqueue.Opts[string]) { o.RateLimiter = newLimiter() })
}

var runs atomic.Int64

// fresh returns a name that no queue has had, for queues of controller-runtime: their
// series stay for ever, and a test may run more than once.
func fresh(name string) string { return fmt.Sprint(name, "-", runs.Add(1)) }

// gather calls f for each series in the registry of controller-runtime.
func gather(t *testing.T, f func(family *dto.MetricFamily, labels map[string]string, m *dto.Metric)) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			f(family, labels, m)
		}
	}
}

// series returns what the registry of controller-runtime has of a queue: the series
// with all labels but those with its name, and the values.
func series(t *testing.T, queue string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	gather(t, func(family *dto.MetricFamily, labels map[string]string, m *dto.Metric) {
		if labels["name"] == queue && labels["controller"] == queue && strings.HasPrefix(family.GetName(), "workqueue_") {
			delete(labels, "name")
			delete(labels, "controller")
			key := family.GetName()
			if len(labels) > 0 {
				key += fmt.Sprint(labels)
			}
			found[key] = family.GetType().String() + " " + value(m)
		}
	})
	return found
}

// value has no times: the queues were not made at the same instant.
func value(m *dto.Metric) string {
	m = &dto.Metric{Gauge: m.Gauge, Counter: m.Counter, Histogram: m.Histogram}
	if m.Counter != nil {
		return fmt.Sprint(m.Counter.GetValue())
	}
	if m.Histogram != nil {
		m.Histogram.CreatedTimestamp = nil
	}
	return m.String()
}

// Both queues go through the same, and their series are compared at each stop: by name,
// type, labels, values, classic and native buckets. The time is virtual, and each stop
// comes when controller-runtime has set its gauges, which it does each half second.
func TestSeriesAreThoseOfControllerRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirName := fresh("other")
		mine, other := openOurs("mine"), openTheirs(theirName)
		both := func(f func(q queue)) { f(mine); f(other); synctest.Wait() }
		compare := func(moment string) {
			t.Helper()
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			got, want := series(t, "mine"), series(t, theirName)
			for name, value := range want {
				if value == "GAUGE gauge:{value:0}" && strings.HasPrefix(name, "workqueue_depth") {
					continue // There a level stays when it is empty.
				}
				if got[name] != value {
					t.Errorf("%s: %s is\n%s\nand of controller-runtime\n%s", moment, name, got[name], value)
				}
			}
		}
		compare("at first")
		both(func(q queue) { q.AddWithOpts(priorityqueue.AddOpts{Priority: new(-100)}, "a", "b", "c") })
		compare("three of the initial list")
		both(func(q queue) { q.Add("b") })
		compare("one raised")
		both(func(q queue) { q.AddAfter("d", time.Second); q.AddRateLimited("e") })
		compare("two wait")
		both(func(q queue) { q.GetWithPriority() })
		time.Sleep(500 * time.Millisecond)
		compare("one held, two due")
		both(func(q queue) { q.AddWithOpts(priorityqueue.AddOpts{Priority: new(7)}, "b") })
		compare("one held and added again")
		both(func(q queue) { q.Done("b") })
		both(func(q queue) { q.GetWithPriority(); q.GetWithPriority() })
		time.Sleep(1500 * time.Millisecond)
		compare("two held")
		both(func(q queue) { q.Done("b") })
		compare("one held")
		both(queue.ShutDown)
		time.Sleep(time.Minute)
	})
}

// A gauge there counts under another label once there are more than 25 priorities, and
// never gets to zero again.
func TestDepthOfManyPrioritiesComesBackToZero(t *testing.T) {
	depth := func(open func(string) queue, name string) (highest float64, levels int) {
		q := open(name)
		defer q.ShutDown()
		const items = 40
		for i := range items {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: &i}, fmt.Sprint(i))
		}
		q.Len()
		levels = len(depths(t, name))
		for range items {
			item, _ := q.Get()
			q.Done(item)
		}
		for _, n := range depths(t, name) {
			highest = max(highest, n, -n)
		}
		return highest, levels
	}
	if highest, levels := depth(openOurs, fresh("many")); highest != 0 || levels > 26 {
		t.Errorf("an empty queue has a depth of %v in one of %d levels", highest, levels)
	}
	if highest, _ := depth(openTheirs, fresh("many-theirs")); highest == 0 {
		t.Error("controller-runtime's are right, and the row of the README goes")
	}
}

func depths(t *testing.T, name string) map[string]float64 {
	t.Helper()
	found := make(map[string]float64)
	gather(t, func(family *dto.MetricFamily, labels map[string]string, m *dto.Metric) {
		if family.GetName() == "workqueue_depth" && labels["name"] == name {
			found[labels["priority"]] = m.GetGauge().GetValue()
		}
	})
	return found
}

// A registry that combines several registries is a struct with a slice, which is no map key.
type combined struct {
	prometheus.Registerer
	prometheus.Gatherers
}

// A program may put a registry of its own in place of controller-runtime's.
func TestReplacedRegistry(t *testing.T) {
	before := metrics.Registry
	defer func() { metrics.Registry = before }()
	r := prometheus.NewRegistry()
	metrics.Registry = combined{r, prometheus.Gatherers{r}}
	for _, name := range []string{"replaced", "replaced-again"} { // The provider is registered once.
		q := openOurs(name)
		defer q.ShutDown()
		q.Add("a")
		if got := depths(t, name); got[""] != 1 { // Without controller-runtime's depth there are no priorities.
			t.Errorf("depths of %s are %v", name, got)
		}
	}
	// And back: what was registered there must not be registered twice.
	metrics.Registry = before
	again := openOurs("replaced-back")
	defer again.ShutDown()
	if got := depths(t, "replaced-back"); got["0"] != 0 || len(got) != 1 {
		t.Errorf("depths are %v", got)
	}
}

// A version of controller-runtime with another help text: the seven series are there
// all the same, set by controller-runtime's provider.
func TestSeriesThatCannotBeTakenUp(t *testing.T) {
	defer func(r metrics.RegistererGatherer) { metrics.Registry = r }(metrics.Registry)
	before := metrics.Registry
	other := prometheus.NewRegistry()
	other.MustRegister(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_depth", Help: "of another version"},
		[]string{"name", "controller", "priority"}))
	metrics.Registry = other
	name := fresh("not-taken-up")
	q := openOurs(name)
	defer q.ShutDown()
	q.Add("a")
	metrics.Registry = before
	if got := depths(t, name); got[""] != 1 {
		t.Errorf("depths are %v, want 1 without a priority", got)
	}
}

// The results of reconciles are counted as Run counts those of handlers, so the alerts about failures work.
func TestResults(t *testing.T) {
	failed := errors.New("failed")
	calls := map[string]struct {
		do   func(ctx context.Context, q *requestQueue) (reconcile.Result, error)
		most int // MaxAttempts
		want string
	}{
		"success":      {want: "succeeded"},
		"last failure": {do: func(context.Context, *requestQueue) (reconcile.Result, error) { return reconcile.Result{}, failed }, most: 1, want: "given_up"},
		"failure":      {do: func(context.Context, *requestQueue) (reconcile.Result, error) { return reconcile.Result{}, failed }, want: "failed"},
		"panic":        {do: func(context.Context, *requestQueue) (reconcile.Result, error) { panic("at the disco") }, want: "failed"},
		"terminal": {do: func(context.Context, *requestQueue) (reconcile.Result, error) {
			return reconcile.Result{}, reconcile.TerminalError(failed)
		}, want: "given_up"},
		"requeue": {do: func(context.Context, *requestQueue) (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: time.Hour}, nil
		}, want: "requeued"},
		"firm": {do: func(ctx context.Context, _ *requestQueue) (reconcile.Result, error) {
			return ctrlqueue.DeferFor(ctx, time.Hour), nil
		}, want: "deferred"},
		"firm and failure": {do: func(ctx context.Context, _ *requestQueue) (reconcile.Result, error) {
			return ctrlqueue.DeferFor(ctx, time.Hour), failed
		}, want: "failed"},
		"change": {do: func(ctx context.Context, q *requestQueue) (reconcile.Result, error) {
			q.Add(request("a"))
			return reconcile.Result{}, ctx.Err()
		}, want: "readded"},
		"removal": {do: func(ctx context.Context, q *requestQueue) (reconcile.Result, error) {
			q.Remove(request("a"))
			return reconcile.Result{}, ctx.Err()
		}, want: "removed"},
		"end": {do: func(ctx context.Context, _ *requestQueue) (reconcile.Result, error) {
			<-ctx.Done()
			return reconcile.Result{}, ctx.Err()
		}, most: 1, want: "interrupted"}, // The end of the manager is no failure of the object.
	}
	for name, tt := range calls {
		synctest.Test(t, func(t *testing.T) {
			var c *running
			n, told := 0, 0
			o := options{CancelOnReAdd: 1, MaxAttempts: tt.most, OnGiveUp: func(context.Context, string, reconcile.Request, error) error {
				told++
				return nil
			}}
			c = start(t, fresh("results"), o, func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				if n++; n > 1 || tt.do == nil {
					return reconcile.Result{}, nil
				}
				return tt.do(ctx, c.q)
			})
			c.q.Add(request("a"))
			synctest.Wait()
			c.end(t)
			var got []string
			for outcome, n := range c.q.Stats().Results {
				if n > 0 && (outcome != workqueue.OutcomeSucceeded || tt.want == "succeeded") {
					got = append(got, outcome.String())
				}
			}
			if fmt.Sprint(got) != "["+tt.want+"]" || told == 1 != (tt.want == "given_up") {
				t.Errorf("%s: counted %v, want %s, and OnGiveUp was told %d times", name, got, tt.want, told)
			}
		})
	}
}
