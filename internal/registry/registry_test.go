package registry_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/seed16c08ea7/workqueue/internal/registry"
)

// host is a package with boats and their crews, in two versions. A boat with a series of its
// sailors has a series of its miles too.
var host = registry.Host{
	Owner:  "boat",
	Labels: [][]string{{"boat"}, {"boat", "port"}},
	Marks:  func(f *dto.MetricFamily) bool { return f.GetName() == "late" },
	Families: map[string]registry.Known{
		"miles":   {Kind: dto.MetricType_COUNTER, Helps: []string{"Miles.", "Nautical miles."}, Index: "miles"},
		"sailors": {Kind: dto.MetricType_GAUGE, Helps: []string{"Sailors.", "People on board."}, Index: "miles"},
		"nets":    {Kind: dto.MetricType_GAUGE, Helps: []string{"Nets."}, Index: "nets"},
	},
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// found returns the families from Find, sorted.
func found(s *registry.Shared) string {
	var all []string
	for name, f := range s.Families {
		all = append(all, fmt.Sprintf("%s %q %v", name, f.Help, f.Labels))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func TestFind(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		prepare func(r prometheus.Registerer)
		want    string
	}{
		"nothing": {func(prometheus.Registerer) {}, ""},
		"the first version": {func(r prometheus.Registerer) {
			r.MustRegister(counter("miles", "Miles.", "boat"), gauge("sailors", "Sailors.", "boat"))
		}, `miles "Miles." [boat], sailors "Sailors." [boat]`},
		"the second version": {func(r prometheus.Registerer) {
			r.MustRegister(counter("miles", "Nautical miles.", "boat", "port"), gauge("sailors", "People on board.", "boat"))
		}, `miles "Nautical miles." [boat port], sailors "People on board." [boat]`},
		"a third version, which is shown": {func(r prometheus.Registerer) {
			v := counter("miles", "Leagues.", "boat", "port")
			v.WithLabelValues("Ann", "Hull")
			r.MustRegister(v)
		}, `miles "Leagues." [boat port]`},
		"a third version, which is not shown": {func(r prometheus.Registerer) { r.MustRegister(counter("miles", "Leagues.", "boat")) },
			"the registry has a series miles that is not known"},
		"not shown, and another family whose name ends like it": {func(r prometheus.Registerer) {
			r.MustRegister(counter("miles", "Leagues.", "boat"), prometheus.NewGauge(prometheus.GaugeOpts{Name: "smiles", Help: "Smiles."}))
		}, "the registry has a series miles that is not known"},
		"without the label of the owner": {func(r prometheus.Registerer) {
			r.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "miles", Help: "Of all."}))
		}, `the registry has a series miles (COUNTER, help "Of all.", labels []) that is not known`},
		"with a label that nobody knows": {func(r prometheus.Registerer) {
			v := counter("miles", "Miles.", "boat", "sea")
			v.WithLabelValues("Ann", "North")
			r.MustRegister(v)
		}, `the registry has a series miles (COUNTER, help "Miles.", labels ["boat" "sea"]) that is not known`},
		"of another type": {func(r prometheus.Registerer) {
			v := gauge("miles", "Miles.", "boat")
			v.WithLabelValues("Ann")
			r.MustRegister(v)
		}, `the registry has a series miles (GAUGE, help "Miles.", labels ["boat"]) that is not known`},
		"late": {func(r prometheus.Registerer) { r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "late"})) },
			`miles "Miles." [boat], nets "Nets." [boat], sailors "Sailors." [boat]`},
		"late, but there in part": {func(r prometheus.Registerer) {
			r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "late"}), counter("miles", "Nautical miles.", "boat"))
		}, `miles "Nautical miles." [boat]`},
	} {
		r := prometheus.NewRegistry()
		row.prepare(r)
		for range 2 { // A question changes nothing.
			s := host.Look(r)
			err := s.Find()
			got := found(s)
			if err != nil {
				got = err.Error()
			}
			if got != row.want || s.Late != strings.HasPrefix(name, "late") {
				t.Errorf("%s: got %s, late %v, want %s", name, got, s.Late, row.want)
			}
		}
	}
}

// A registerer that adds labels or a prefix is no Gatherer, and host and guest go through it.
func TestFindThroughAWrappedRegisterer(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]prometheus.Registerer{
		"labels": prometheus.WrapRegistererWith(prometheus.Labels{"sea": "North", "year": "1805"}, prometheus.NewRegistry()),
		"prefix": prometheus.WrapRegistererWithPrefix("fleet_", prometheus.NewRegistry()),
	} {
		r.MustRegister(counter("miles", "Nautical miles.", "boat"))
		s := host.Look(r)
		if err := s.Find(); err != nil || found(s) != `miles "Nautical miles." [boat]` {
			t.Errorf("%s: got %s, %v", name, found(s), err)
		}
	}
}

// A gatherer other than a registry may show families without a series. Look ignores them.
func TestRegistryThatShowsAFamilyWithoutSeries(t *testing.T) {
	t.Parallel()
	name, help := "miles", "Leagues."
	r := gathererBeside{prometheus.NewRegistry(), &dto.MetricFamily{Name: &name, Help: &help}}
	r.MustRegister(counter("miles", "Miles.", "boat"))
	s := host.Look(r)
	if err := s.Find(); err != nil || found(s) != `miles "Miles." [boat]` {
		t.Errorf("got %s, %v", found(s), err)
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

// A question leaves no text in the registry, nor with a registerer that takes all.
func TestQuestionsLeaveNothing(t *testing.T) {
	t.Parallel()
	r := &counted{Registry: prometheus.NewRegistry()}
	if err := host.Look(r).Find(); err != nil {
		t.Fatal(err)
	}
	if r.asked == 0 {
		t.Error("the registry was not asked")
	}
	for name := range host.Families {
		r.MustRegister(gauge(name, "A text that nobody knows.", "anything"))
	}
	takesAll := &takesAnything{}
	if err := host.Look(takesAll).Find(); err != nil || takesAll.collectors != 0 {
		t.Errorf("%d collectors are left, %v", takesAll.collectors, err)
	}
}

type takesAnything struct{ collectors int }

func (r *takesAnything) Register(prometheus.Collector) error  { r.collectors++; return nil }
func (r *takesAnything) MustRegister(...prometheus.Collector) {}
func (r *takesAnything) Unregister(prometheus.Collector) bool { r.collectors--; return true }

type counted struct {
	*prometheus.Registry
	asked int
}

func (r *counted) Register(c prometheus.Collector) error {
	r.asked++
	return r.Registry.Register(c)
}

// omitted returns which series of boats a scrape omits.
func omitted(c *registry.Scrape, boats ...string) string {
	var all []string
	for _, family := range slices.Sorted(maps.Keys(host.Families)) {
		for _, boat := range boats {
			if c.Omits(family, boat) {
				all = append(all, family+" of "+boat)
			}
		}
	}
	return strings.Join(all, ", ")
}

// A late host registers a family with the expected text and a family with another text, and
// boats come. A family is asked for until it is there, and not again: each question takes the
// lock of the registry, for which all scrapes of the program wait.
func TestScrapesBesideALateHost(t *testing.T) {
	t.Parallel()
	r := &counted{Registry: prometheus.NewRegistry()}
	r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "late"}))
	s := host.Look(r)
	if err := s.Find(); err != nil {
		t.Fatal(err)
	}
	miles, nets := counter("miles", "Miles.", "boat"), gauge("nets", "Nets.", "boat")
	for _, step := range []struct {
		do                     string
		f                      func()
		omitted, left, changed string
	}{
		{"nothing is there", func() {}, "", "[]", "[]"},
		{"the host registers", func() { r.MustRegister(miles, nets, gauge("sailors", "Hands.", "boat")) },
			"sailors of Ann, sailors of Bea", "[]", "[sailors]"},
		{"again", func() {}, "sailors of Ann, sailors of Bea", "[]", "[]"},
		{"a boat", func() { miles.WithLabelValues("Ann") }, "miles of Ann, sailors of Ann, sailors of Bea", "[Ann]", "[]"},
		{"again", func() {}, "miles of Ann, sailors of Ann, sailors of Bea", "[]", "[]"},
		{"nets of the other", func() { nets.WithLabelValues("Bea") }, "miles of Ann, nets of Bea, sailors of Ann, sailors of Bea", "[Bea]", "[]"},
		{"the boat goes", func() { miles.Reset() }, "nets of Bea, sailors of Ann, sailors of Bea", "[]", "[]"},
		{"and comes back", func() { miles.WithLabelValues("Ann") }, "miles of Ann, nets of Bea, sailors of Ann, sailors of Bea", "[]", "[]"},
	} {
		step.f()
		c := s.Scrape()
		got, left := omitted(c, "Ann", "Bea"), c.Left()
		if got != step.omitted || fmt.Sprint(left) != step.left || fmt.Sprint(c.Changed) != step.changed {
			t.Errorf("%s: omitted %s, left %v, changed %v, want %s, %s, %s", step.do, got, left, c.Changed, step.omitted, step.left, step.changed)
		}
	}
	asked := r.asked
	s.Scrape()
	if r.asked != asked {
		t.Errorf("a scrape has asked %d times for families that are known", r.asked-asked)
	}
	if omitted((*registry.Scrape)(nil), "Ann") != "" {
		t.Error("no scrape omits something")
	}
}

// A series whose Write fails has no owner.
func TestOwnersOfSeriesThatFail(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	desc := prometheus.NewDesc("miles", "Miles.", []string{"boat"}, nil)
	r.MustRegister(fixed{desc, []prometheus.Metric{
		prometheus.NewInvalidMetric(desc, fmt.Errorf("sunk")),
		halfWritten{prometheus.MustNewConstMetric(desc, prometheus.CounterValue, 1, "Ann")},
		prometheus.MustNewConstMetric(desc, prometheus.CounterValue, 1, "Bea"),
	}})
	s := host.Look(r)
	if err := s.Find(); err != nil {
		t.Fatal(err)
	}
	if got := omitted(s.Scrape(), "", "Ann", "Bea"); got != "miles of Bea, sailors of Bea" {
		t.Errorf("omitted %s", got)
	}
}

// A halfWritten fails when its labels are written.
type halfWritten struct{ prometheus.Metric }

func (m halfWritten) Write(out *dto.Metric) error {
	return cmp.Or(m.Metric.Write(out), fmt.Errorf("sunk"))
}

type fixed struct {
	desc    *prometheus.Desc
	metrics []prometheus.Metric
}

func (f fixed) Describe(ch chan<- *prometheus.Desc) { ch <- f.desc }

func (f fixed) Collect(ch chan<- prometheus.Metric) {
	for _, m := range f.metrics {
		ch <- m
	}
}

// A vector unregistered by the host is in nobody's way, and can come back.
func TestHostThatUnregisters(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	miles := counter("miles", "Miles.", "boat")
	r.MustRegister(miles)
	s := host.Look(r)
	if err := s.Find(); err != nil {
		t.Fatal(err)
	}
	miles.WithLabelValues("Ann")
	r.Unregister(miles)
	if got := omitted(s.Scrape(), "Ann"); got != "" {
		t.Errorf("omitted %s", got)
	}
	r.MustRegister(miles)
}
