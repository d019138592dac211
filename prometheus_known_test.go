package workqueue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/seed16c08ea7/workqueue"
)

// The series that controller-runtime registers when a program starts, by the first of its
// versions that has them so. There is no queue yet, so the registry shows nothing of them:
// help texts and labels must be known. They were read from the modules v0.12.3, v0.16.1,
// v0.19.4, v0.20.4, v0.21.0, v0.22.4, v0.23.3, v0.24.1 and v0.25.2.
func TestTextsOfEachVersionOfControllerRuntimeAreKnown(t *testing.T) {
	const depth, byPriority = "Current depth of workqueue", "Current depth of workqueue by workqueue and priority"
	const retries, delayed = "Total number of retries handled by workqueue",
		"Total number of items added to the workqueue with a non-zero delay (rate-limited requeues, explicit RequeueAfter or AddAfter calls)"
	two, three := []string{"name", "controller"}, []string{"name", "controller", "priority"}
	for _, version := range []struct {
		since          string
		labels         []string
		depth          string
		depthLabels    []string
		retries        string
		wantDepth      string
		wantElsewhere  string
		wantPriorities bool
	}{
		{"v0.12", []string{"name"}, depth, []string{"name"}, retries, `depth{name="q"} 2`, `adds_total{name="q"} 2`, false},
		{"v0.19", two, depth, two, retries, `depth{controller="q",name="q"} 2`, `adds_total{controller="q",name="q"} 2`, false},
		{"v0.21", two, byPriority, three, retries, `depth{controller="q",name="q",priority="7"} 1`, `adds_total{controller="q",name="q"} 2`, true},
		{"v0.24", two, byPriority, three, delayed, `depth{controller="q",name="q",priority="7"} 1`, `adds_total{controller="q",name="q"} 2`, true},
	} {
		t.Run(version.since, func(t *testing.T) {
			r := prometheus.NewRegistry()
			theirs := newForeign("", version.labels...)
			theirs.collectors["depth"] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_depth", Help: version.depth}, version.depthLabels)
			theirs.collectors["retries_total"] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_retries_total", Help: version.retries}, version.labels)
			theirs.register(r)
			q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
				Name: "q", MetricsProvider: beside(r), Order: workqueue.NewPriorityQueue(workqueue.PriorityOptions[string]{}),
			})
			defer q.ShutDown()
			q.Add("a")
			q.AddWith(workqueue.AddOptions{Priority: 7}, "b")
			got := of(t, r, "q")
			for _, want := range []string{version.wantDepth, version.wantElsewhere} {
				if !slices.Contains(got, want) {
					t.Errorf("%s is missing in\n%s", want, strings.Join(got, "\n"))
				}
			}
			for name := range theirs.collectors {
				if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, name+"{") }) {
					t.Errorf("%s is missing in\n%s", name, strings.Join(got, "\n"))
				}
			}
			if n := len(levelsIn(t, r)); (n == 2) != version.wantPriorities {
				t.Errorf("the depth has %d priorities", n)
			}
			if families, err := r.Gather(); err != nil || !slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetHelp() == version.retries }) {
				t.Errorf("the text of the retries is not %q: %v", version.retries, err)
			}
		})
	}
}

// Who else has a text in brackets, or a counter of that name, is not component-base: our
// series have our texts there.
func TestRegistryThatLooksLikeComponentBases(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]prometheus.CounterOpts{
		"a text":    {Name: "builds_total", Help: "[ALPHA] Builds."},
		"a counter": {Name: "registered_metrics_total", Help: "Metrics that were registered."},
	} {
		r := prometheus.NewRegistry()
		r.MustRegister(prometheus.NewCounter(opts))
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: beside(r)})
		defer q.ShutDown()
		families, err := r.Gather()
		if err != nil || !slices.ContainsFunc(families, func(f *dto.MetricFamily) bool {
			return strings.HasPrefix(f.GetHelp(), "Items that are queued, or held")
		}) {
			t.Errorf("%s: the depth does not have our text: %v, %v", name, families, err)
		}
	}
}

// Classic buckets of one family that end elsewhere could not be added up.
func TestBucketsBesideClientGoEndWhereItsDo(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]float64{"[BETA] ": 10, "": 1000} {
		r := prometheus.NewRegistry()
		newForeign(prefix, "name").register(r)
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: beside(r)})
		defer q.ShutDown()
		got := written(t, r, "workqueue_work_duration_seconds")
		_, last, _ := strings.Cut(got, fmt.Sprintf("%v:0 \n", want))
		if last == "" {
			t.Errorf("texts with %q: the last bucket does not end at %v: %s", prefix, want, got)
		}
	}
}

// A gatherer that is not a registry may show families without a series. They say nothing.
func TestRegistryThatShowsAFamilyWithoutSeries(t *testing.T) {
	t.Parallel()
	name, help := "workqueue_depth", "Metres."
	r := gathererBeside{prometheus.NewRegistry(), &dto.MetricFamily{Name: &name, Help: &help}}
	newForeign("", "name").register(r)
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: beside(r)})
	defer q.ShutDown()
	if got := of(t, r, "q"); !slices.Contains(got, `depth{name="q"} 0`) {
		t.Errorf("got %q", got)
	}
}

type gathererBeside struct {
	*prometheus.Registry
	family *dto.MetricFamily
}

func (g gathererBeside) Gather() ([]*dto.MetricFamily, error) {
	families, err := g.Registry.Gather()
	return append(families, g.family), err
}

// A registerer may take whatever it gets, as one for tests does. To be asked what it has
// leaves nothing in it.
func TestRegistererThatTakesAnythingKeepsNoQuestion(t *testing.T) {
	t.Parallel()
	r := &takesAnything{Registry: prometheus.NewRegistry()}
	r.Registry.MustRegister(countOfComponentBase())
	beside(r)
	if r.collectors != 2 {
		t.Errorf("it has %d collectors, want 2: one of the queues, and one of what they have left", r.collectors)
	}
}

type takesAnything struct {
	*prometheus.Registry
	collectors int
}

func (r *takesAnything) Register(prometheus.Collector) error  { r.collectors++; return nil }
func (r *takesAnything) Unregister(prometheus.Collector) bool { r.collectors--; return true }
