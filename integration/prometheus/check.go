package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed16c08ea7/workqueue/integration/internal/dashboard"
)

// alerts are the alerts that must fire, each with its sick queue.
var alerts = []string{"WorkqueueRetryStorm webhooks", "WorkqueueStuckWorker uploads"}

// checkAlerts waits for the expected alerts, and returns an error if any other alert has
// fired since the start.
func (s *server) checkAlerts(ctx context.Context, out io.Writer) error {
	fired, err := s.fired(ctx)
	// A missing alert may still fire. An unexpected alert stays in the result, so waiting
	// is useless.
	for deadline := time.Now().Add(s.patience); err == nil && len(fired) < len(alerts) && time.Now().Before(deadline); {
		err = pause(ctx, time.Second)
		if err == nil {
			fired, err = s.fired(ctx)
		}
	}
	if err != nil {
		return err
	}
	if !slices.Equal(fired, alerts) {
		return fmt.Errorf("alerts: want %q, got %q", alerts, fired)
	}
	_, err = fmt.Fprintf(out, "alerts, and no others: %s\n", strings.Join(fired, ", "))
	return err
}

// fired returns the alerts that have fired, each with its queue.
func (s *server) fired(ctx context.Context) ([]string, error) {
	samples, err := s.query(ctx, `max by (alertname, name) (max_over_time(ALERTS{alertstate="firing"}[10m]))`)
	var fired []string
	for _, sample := range samples {
		fired = append(fired, sample.Metric["alertname"]+" "+sample.Metric["name"])
	}
	slices.Sort(fired)
	return fired, err
}

// checkFigures prints a table of all figures, and returns an error if a figure is wrong.
func (s *server) checkFigures(ctx context.Context, out io.Writer) error {
	want := figures(s.store, s.age())
	if err := s.checkNothingMissing(ctx, want); err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "series\texpected\tscraped\n")
	wrong := 0
	for _, f := range want {
		got, err := s.number(ctx, f.expr)
		remark := ""
		// Sums of times are rounded.
		if err != nil || !(got >= f.low-1e-9 && got <= f.high+1e-9) {
			wrong++
			remark = "\tWRONG"
		}
		scraped := fmt.Sprintf("%.6g", got)
		if err != nil {
			scraped = err.Error()
		}
		fmt.Fprintf(table, "%s\t%s\t%s%s\n", f.expr, f, scraped, remark)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d series of the server with %s histograms are not as expected", wrong, len(want), s.store)
	}
	return nil
}

// checkNothingMissing demands a figure for every queue series of the server, so a new
// series cannot go untested. Series of recording rules begin with "queue:" and do not
// count.
func (s *server) checkNothingMissing(ctx context.Context, want []figure) error {
	var names []string
	values := url.Values{"match[]": {`{__name__=~"workqueue_.+"}`}}
	if err := s.get(ctx, "label/__name__/values", values, &names); err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if !slices.ContainsFunc(want, func(f figure) bool { return strings.Contains(f.expr, name) }) {
			errs = append(errs, fmt.Errorf("nothing is expected of the series %s", name))
		}
	}
	if len(names) == 0 {
		errs = append(errs, errors.New("the server has no series of queues"))
	}
	return errors.Join(errs...)
}

var recorded = regexp.MustCompile(`(?m)^ *- record: (\S+)$`)

// checkRecorded demands data for each recording rule.
func (s *server) checkRecorded(ctx context.Context, out io.Writer, root string) error {
	rules, err := os.ReadFile(filepath.Join(root, "monitoring", "rules.yaml"))
	if err != nil {
		return err
	}
	var exprs []dashboard.Expression
	for _, match := range recorded.FindAllStringSubmatch(string(rules), -1) {
		exprs = append(exprs, dashboard.Expression{For: "recording rule", Expr: match[1]})
	}
	return checkData(ctx, out, "recording rules", exprs, s)
}

// checkDashboard demands data for each expression of our dashboard.
func (s *server) checkDashboard(ctx context.Context, out io.Writer, root string) error {
	d, err := dashboard.Load(filepath.Join(root, "monitoring", "dashboard.json"))
	if err != nil {
		return err
	}
	return checkData(ctx, out, "expressions of the dashboard", d.Expressions("5s", nil), s)
}

// checkData demands data for each expression on any of the servers.
func checkData(ctx context.Context, out io.Writer, what string, exprs []dashboard.Expression, servers ...*server) error {
	var errs []error
	for _, e := range exprs {
		if err := hasData(ctx, e.Expr, servers); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w: %s", e.For, err, e.Expr))
		}
	}
	fmt.Fprintf(out, "%d of %d %s have data\n", len(exprs)-len(errs), len(exprs), what)
	if len(exprs) == 0 {
		errs = append(errs, fmt.Errorf("found no %s", what))
	}
	return errors.Join(errs...)
}

func hasData(ctx context.Context, expr string, servers []*server) error {
	for _, s := range servers {
		samples, err := s.query(ctx, expr)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(samples, sample.isData) {
			return nil
		}
	}
	return errors.New("no data")
}

// isData reports whether Grafana could draw the sample.
func (s sample) isData() bool {
	v, ok := s.value()
	return len(s.Histogram) == 2 || ok && !math.IsNaN(v)
}
