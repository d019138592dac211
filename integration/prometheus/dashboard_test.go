package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

const root = "../.."

func load(t *testing.T) *dashboard {
	t.Helper()
	d, err := loadDashboard(root + "/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 39 || len(d.Panels) == 0 {
		t.Fatalf("title %q, uid %q, schema version %d, %d panels", d.Title, d.UID, d.SchemaVersion, len(d.Panels))
	}
	return d
}

// Grafana 10 and later have these panel types without a plugin, and none of them is deprecated.
var current = map[string]bool{"row": true, "stat": true, "timeseries": true, "heatmap": true, "state-timeline": true}

func TestPanelsAreComplete(t *testing.T) {
	ids := make(map[int]bool)
	for _, p := range load(t).Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" || !current[p.Type] {
			t.Errorf("panel %d, %q: type %q, id used before: %t", p.ID, p.Title, p.Type, ids[p.ID])
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit+p.Options.YAxis.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("%s: description %q, units %q and %q, %d targets", p.Title,
				p.Description, p.FieldConfig.Defaults.Unit, p.Options.YAxis.Unit, len(p.Targets))
		}
		sources := []datasource{p.Datasource}
		for _, target := range p.Targets {
			sources = append(sources, target.Datasource)
		}
		for _, source := range sources {
			if source != (datasource{Type: "prometheus", UID: "${datasource}"}) {
				t.Errorf("%s reads from %v and not from the one that is chosen", p.Title, source)
			}
		}
	}
}

func TestPanelsDoNotOverlap(t *testing.T) {
	type cell struct{ x, y int }
	taken := make(map[cell]string)
	for _, p := range load(t).Panels {
		g := p.GridPos
		if g.X < 0 || g.W <= 0 || g.H <= 0 || g.X+g.W > 24 {
			t.Errorf("%s is at %+v of a grid that is 24 wide", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[cell{x, y}]; other != "" {
					t.Fatalf("%s and %s overlap", other, p.Title)
				}
				taken[cell{x, y}] = p.Title
			}
		}
	}
}

func TestVariables(t *testing.T) {
	d := load(t)
	for _, want := range []string{"datasource", "namespace", "job", "name"} {
		found := false
		for _, v := range d.Templating.List {
			found = found || v.Name == want
		}
		if !found {
			t.Errorf("no variable %s", want)
		}
	}
	for _, e := range d.expressions("1m", nil) {
		if strings.Contains(e.expr, "$") {
			t.Errorf("%s has a variable that is not defined: %s", e.of, e.expr)
		}
	}
}

var (
	named     = regexp.MustCompile(`\b(?:queue:)?workqueue_[a-z_0-9:]+`)
	ofBuckets = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// Each series that the dashboard or the rules name, in annotations and comments too, is exposed
// by the provider or recorded by a rule. The dashboard shows each exposed series.
func TestSeriesExist(t *testing.T) {
	exposed := exposition(t)
	text, err := os.ReadFile(root + "/monitoring/" + rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	rules := string(text)
	known := make(map[string]bool)
	for name := range exposed {
		known[name] = true
	}
	for name := range exposedByFew(t) {
		known[name] = true
	}
	for _, match := range recorded.FindAllStringSubmatch(rules, -1) {
		known[match[1]] = true
	}
	check := func(where, text string) {
		for _, name := range named.FindAllString(text, -1) {
			base := ofBuckets.ReplaceAllString(name, "")
			if !known[name] && !(exposed[base] && known[base]) {
				t.Errorf("%s: there is no series %s", where, name)
			}
		}
	}
	check(rulesFile, rules)
	shown := ""
	for _, e := range load(t).expressions("1m", nil) {
		check(e.of, e.expr)
		shown += e.expr + "\n"
	}
	for name := range exposed {
		if !regexp.MustCompile(`\b` + name + `(_bucket)?\b`).MatchString(shown) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// exposition returns the names of all series of a queue.
func exposition(t *testing.T) map[string]bool {
	t.Helper()
	registry := prometheus.NewRegistry()
	queue := workqueue.NewTypedRateLimiting(
		workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{
			Name: "test", MetricsProvider: workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{}),
		})
	defer queue.ShutDown()
	ended, end := context.WithCancel(t.Context())
	end()
	err := workqueue.Run(ended, queue, func(context.Context, string) error { return nil }, workqueue.RunOptions[string]{AtEnd: workqueue.EndKeep})
	if err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, f := range families {
		names[f.GetName()] = true
	}
	if len(names) != 17 {
		t.Errorf("%d series are exposed, want Kubernetes' 7 and 10 more: %v", len(names), names)
	}
	return names
}

// exposedByFew returns the names of the series of a queue with priorities and with a Pace that keeps an item back.
func exposedByFew(t *testing.T) map[string]bool {
	t.Helper()
	registry := prometheus.NewRegistry()
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name: "test", MetricsProvider: workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{}),
		Order: workqueue.Order[string]{OldestEvery: 2}, Pace: rate.NewLimiter(1, 0),
	})
	defer queue.ShutDown()
	queue.Add("a")
	queue.TryGet()
	names := make(map[string]bool)
	families, err := registry.Gather()
	for _, f := range families {
		names[f.GetName()] = true
	}
	if err != nil || !names["workqueue_paced_seconds_total"] || !names["workqueue_depth_by_priority"] {
		t.Errorf("exposed are %v, %v", names, err)
	}
	return names
}
