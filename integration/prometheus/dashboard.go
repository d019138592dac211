package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A dashboard is a part of Grafana's JSON model.
type dashboard struct {
	Title         string
	UID           string
	SchemaVersion int
	Panels        []panel
	Templating    struct{ List []variable }
}

// A panel is a picture, or the heading of a row of panels.
type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	Datasource  datasource
	GridPos     struct{ H, W, X, Y int }
	Targets     []target
	Panels      []panel // of a collapsed row
	FieldConfig struct{ Defaults struct{ Unit string } }
	Options     struct{ YAxis struct{ Unit string } }
}

// A datasource says where the data come from.
type datasource struct{ Type, UID string }

// A target is a query of a panel.
type target struct {
	RefID      string
	Expr       string
	Datasource datasource
}

// A variable is a choice at the top of the dashboard.
type variable struct{ Name, Type, Definition string }

// loadDashboard reads a dashboard from a file.
func loadDashboard(file string) (*dashboard, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := new(dashboard)
	return d, json.Unmarshal(text, d)
}

// An expression is a query to Prometheus.
type expression struct{ of, expr string }

var labelValues = regexp.MustCompile(`^label_values\((.+), \w+\)$`)

// expressions returns all expressions as Grafana sends them: rates are over the interval,
// and a variable has its chosen value, or else All. A variable's own expression selects
// the series that offer its values.
func (d *dashboard) expressions(interval string, chosen map[string]string) []expression {
	var all []expression
	values := []string{"$__rate_interval", interval}
	for _, v := range d.Templating.List {
		values = append(values, "$"+v.Name, cmp.Or(chosen[v.Name], ".*"))
		if match := labelValues.FindStringSubmatch(v.Definition); match != nil {
			all = append(all, expression{"variable " + v.Name, match[1]})
		}
	}
	all = appendExpressions(all, d.Panels)
	set := strings.NewReplacer(values...)
	for i := range all {
		all[i].expr = set.Replace(all[i].expr)
	}
	return all
}

func appendExpressions(all []expression, panels []panel) []expression {
	for _, p := range panels {
		for _, t := range p.Targets {
			all = append(all, expression{p.Title + " " + t.RefID, t.Expr})
		}
		all = appendExpressions(all, p.Panels)
	}
	return all
}

// The dashboard that Cluster API publishes for controllers of controller-runtime comes with
// its Go module. Users look at dashboards made by others, so our series must fit them.
const (
	publishedModule = "sigs.k8s.io/cluster-api@v1.14.2"
	publishedFile   = "hack/observability/grafana/dashboards/controller-runtime.json"
)

// publishedTopics are the series of queues, and the series of controllers that depend on
// a queue. queriesAbout returns an error if no query names a topic: then the file is not
// the expected dashboard.
var publishedTopics = []string{
	"workqueue_depth", "workqueue_adds_total", "workqueue_retries_total",
	"workqueue_queue_duration_seconds", "workqueue_work_duration_seconds",
	"workqueue_unfinished_work_seconds", "workqueue_longest_running_processor_seconds",
	"controller_runtime_reconcile_total", "controller_runtime_reconcile_errors_total",
	"controller_runtime_reconcile_time_seconds", "controller_runtime_active_workers",
}

// published downloads the module through the module proxy, once for each user, and reads
// the dashboard.
func published(ctx context.Context, work string) (*dashboard, error) {
	const patience = 2 * time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the module proxy has not delivered it in %v", patience))
	defer cancel()
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", publishedModule)
	command.Dir = work // Outside of any module.
	command.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	output, err := command.Output()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var module struct{ Dir, Error string }
	if err = errors.Join(err, json.Unmarshal(output, &module)); err != nil {
		return nil, fmt.Errorf("go mod download %s: %w\n%s", publishedModule, err, module.Error)
	}
	return loadDashboard(filepath.Join(module.Dir, filepath.FromSlash(publishedFile)))
}

// checkPublished demands data for each query, about the controllers on our queue and
// about the controllers on controller-runtime's queue. If a query had no data for
// controller-runtime's queue either, its result for our queue would prove nothing.
func checkPublished(ctx context.Context, out io.Writer, d *dashboard, servers ...*server) error {
	var errs []error
	for _, kind := range []string{"ours", "theirs"} {
		about, err := queriesAbout(d, kind)
		errs = append(errs, err, checkData(ctx, out, "queries of a published dashboard about "+kind, about, servers...))
	}
	return errors.Join(errs...)
}

// queriesAbout returns the queries about the controllers of a kind. Other queries of the
// dashboard are about pods, webhooks and the Go runtime.
func queriesAbout(d *dashboard, kind string) (about []expression, err error) {
	all := d.expressions("5s", map[string]string{"Controller": kind + "-(busy|still)"})
	for _, topic := range publishedTopics {
		if !slices.ContainsFunc(all, func(e expression) bool { return strings.Contains(e.expr, topic) }) {
			err = errors.Join(err, fmt.Errorf("%s of %s has no query of %s", publishedFile, publishedModule, topic))
		}
	}
	for _, e := range all {
		if slices.ContainsFunc(publishedTopics, func(topic string) bool { return strings.Contains(e.expr, topic) }) {
			about = append(about, e)
		}
	}
	return about, err
}
