package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed16c08ea7/workqueue/integration/internal/dashboard"
)

// This file checks the metrics of controllers of controller-runtime.
// ctrlqueue/internal/serve runs each kind of controller twice, with the same feed: on
// controller-runtime's queue and on ours. Both queues must have the same figures under
// the same names and labels.

var queueKinds = []string{"ours", "theirs"}

// startControllers builds and starts the exporter, and two servers that scrape the
// exporter. The first server stores the classic buckets of histograms, the second stores
// native histograms: Debian's Prometheus cannot store both, and dashboards have panels
// for either form.
func (p *processes) startControllers(ctx context.Context, root, work string) (all []*server, err error) {
	binary := filepath.Join(work, "controllers")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "ctrlqueue"), "-o", binary, "./internal/serve")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, output)
	}
	age := ageFrom(time.Now())
	target, err := p.start(ctx, exec.CommandContext(ctx, binary, "-listen", "127.0.0.1:0"), regexp.MustCompile(`^http://(\S+)/$`))
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf("global: {scrape_interval: 500ms, scrape_timeout: 500ms}\nscrape_configs:\n"+
		"  - {job_name: controllers, static_configs: [{targets: [%q], labels: {pod: controllers}}]}\n", target)
	for store, args := range map[histograms][]string{classic: nil, native: {storeNative}} {
		address, err := p.startScraper(ctx, filepath.Join(work, "scraper-"+string(store)), config, args...)
		if err != nil {
			return nil, err
		}
		all = append(all, &server{store: store, address: address, age: age})
	}
	// Classic first: checkControllers asks the first server only.
	slices.SortFunc(all, func(a, b *server) int { return strings.Compare(string(a.store), string(b.store)) })
	return all, nil
}

// controllerFigures are the figures of the controller that stands still. Its worker holds
// an item and never finishes. Seven items are queued behind: five of the initial list,
// with priority -100, and two urgent items. Another item waits for its time.
func controllerFigures(kind string, age float64) []figure {
	labels := fmt.Sprintf(`{name=%q, controller=%[1]q}`, kind+"-still")
	level := func(priority string) string {
		return fmt.Sprintf(`workqueue_depth{name=%q, controller=%[1]q, priority=%q}`, kind+"-still", priority)
	}
	return []figure{
		exactly(level("-100"), 5),
		exactly(level("0"), 2),
		exactly("sum(workqueue_depth"+labels+")", 7),
		exactly("workqueue_adds_total"+labels, 8),
		exactly("workqueue_retries_total"+labels, 1),
		exactly("workqueue_queue_duration_seconds_count"+labels, 1),
		exactly("workqueue_work_duration_seconds_count"+labels, 0),
		between(age-5, age+5, "workqueue_unfinished_work_seconds"+labels),
		between(age-5, age+5, "workqueue_longest_running_processor_seconds"+labels),
	}
}

// panels returns the queries of usual dashboards for controller-runtime, about the queues
// of a kind.
func panels(kind string) (all []dashboard.Expression) {
	for panel, expr := range map[string]string{
		"rate of adds":               `sum(rate(workqueue_adds_total{NAME}[10s])) by (instance, name)`,
		"depth":                      `workqueue_depth{NAME}`,
		"depth by controller":        `sum by (instance, controller) (workqueue_depth{NAME})`,
		"depth of the initial list":  `workqueue_depth{STILL, priority="-100"}`,
		"queue duration, median":     `histogram_quantile(0.5, sum(rate(workqueue_queue_duration_seconds_bucket{NAME}[10s])) by (instance, name, le))`,
		"queue duration, 99 %":       `histogram_quantile(0.99, sum(rate(workqueue_queue_duration_seconds_bucket{NAME}[10s])) by (instance, name, le))`,
		"work duration, median":      `histogram_quantile(0.5, sum(rate(workqueue_work_duration_seconds_bucket{NAME}[10s])) by (instance, name, le))`,
		"work duration, 99 %":        `histogram_quantile(0.99, sum(rate(workqueue_work_duration_seconds_bucket{NAME}[10s])) by (instance, name, le))`,
		"rate of retries":            `sum(rate(workqueue_retries_total{NAME}[10s])) by (instance, name)`,
		"unfinished work":            `workqueue_unfinished_work_seconds{STILL}`,
		"longest running":            `max by (instance, controller) (workqueue_longest_running_processor_seconds{STILL})`,
		"rate of reconciles":         `sum(rate(controller_runtime_reconcile_total{CONTROLLER}[10s])) by (instance, controller)`,
		"utilization of the workers": `controller_runtime_active_workers{CONTROLLER} / controller_runtime_max_concurrent_reconciles{CONTROLLER}`,
	} {
		expr = strings.NewReplacer(
			"NAME", fmt.Sprintf("name=%q", kind+"-busy"),
			"STILL", fmt.Sprintf("name=%q", kind+"-still"),
			"CONTROLLER", fmt.Sprintf("controller=%q", kind+"-busy"),
		).Replace(expr)
		all = append(all, dashboard.Expression{For: kind + ", " + panel, Expr: expr})
	}
	slices.SortFunc(all, func(a, b dashboard.Expression) int { return strings.Compare(a.For, b.For) })
	return all
}

// checkControllers compares the figures of both queues with the expected figures, and the
// series of both queues with each other. It demands data for each panel.
func (s *server) checkControllers(ctx context.Context, out io.Writer) error {
	var c comparison
	age := s.age().Round(time.Second).Seconds()
	c.check(ctx, s, exactly(`min_over_time(up{job="controllers"}[1m])`, 1))
	for _, kind := range queueKinds {
		c.check(ctx, s, controllerFigures(kind, age)...)
	}
	// Both controllers are fed alike, but not at the same instants.
	c.check(ctx, s, between(0.9, 1.1, `sum(workqueue_adds_total{name="ours-busy"}) / sum(workqueue_adds_total{name="theirs-busy"})`))
	fmt.Fprintf(out, "%d of %d figures of controllers on either queue are as expected\n", c.checked-len(c.errs), c.checked)
	return errors.Join(append(c.errs,
		s.checkSameSeries(ctx, out),
		checkData(ctx, out, "usual panels for controller-runtime", slices.Concat(panels("ours"), panels("theirs")), s),
	)...)
}

// checkSameSeries demands that our queue has every series of controller-runtime's queue,
// with the same labels priority and le.
func (s *server) checkSameSeries(ctx context.Context, out io.Writer) error {
	missing := `count by (__name__, priority, le) ({__name__=~"workqueue_.+", name="theirs-still"}) ` +
		`unless count by (__name__, priority, le) ({__name__=~"workqueue_.+", name="ours-still"})`
	samples, err := s.query(ctx, missing)
	if err != nil {
		return err
	}
	all, err := s.number(ctx, `count({__name__=~"workqueue_.+", name="theirs-still"})`)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d of %v series of controller-runtime's queue are those of ours too\n", int(all)-len(samples), all)
	var errs []error
	for _, missing := range samples {
		errs = append(errs, fmt.Errorf("ours has no series %v", missing.Metric))
	}
	return errors.Join(errs...)
}
