package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed16c08ea7/workqueue/integration/internal/debian"
)

// server is a running Prometheus.
type server struct {
	address, version string
	native           bool // histograms
}

func (s *server) String() string {
	if s.native {
		return "with native histograms"
	}
	return "with classic histograms"
}

// sample is an element of the result of a query.
type sample struct {
	Metric map[string]string
	// Prometheus sends either [time, "value"] or [time, histogram].
	Value     []json.RawMessage
	Histogram []json.RawMessage
}

// value returns the number of a sample, and whether it has one.
func (s sample) value() (float64, bool) {
	if len(s.Value) != 2 {
		return 0, false
	}
	var text string
	if json.Unmarshal(s.Value[1], &text) != nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil
}

// isData reports whether Grafana could draw the sample.
func (s sample) isData() bool {
	v, ok := s.value()
	return len(s.Histogram) == 2 || ok && !math.IsNaN(v)
}

// query asks the server for an instant vector.
func (s *server) query(ctx context.Context, expr string) ([]sample, error) {
	var vector struct{ Result []sample }
	return vector.Result, s.get(ctx, "query", url.Values{"query": {expr}}, &vector)
}

// number queries an expression. Anything but a single number is an error.
func (s *server) number(ctx context.Context, expr string) (float64, error) {
	samples, err := s.query(ctx, expr)
	if err != nil {
		return 0, err
	}
	if len(samples) != 1 {
		return 0, fmt.Errorf("%d samples", len(samples))
	}
	v, ok := samples[0].value()
	if !ok {
		return 0, fmt.Errorf("%+v is not a number", samples[0])
	}
	return v, nil
}

// get calls the server's API.
func (s *server) get(ctx context.Context, call string, values url.Values, data any) error {
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	body, err := fetch(ctx, http.MethodGet, "http://"+s.address+"/api/v1/"+call+"?"+values.Encode())
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil {
		return err
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

func fetch(ctx context.Context, method, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// check compares figures with their expected values.
func (s *server) check(ctx context.Context, out io.Writer, what string, want []figure) error {
	var errs []error
	for _, f := range want {
		got, err := s.number(ctx, f.expr)
		// Sums of times are rounded.
		if err != nil || !(got >= f.low-1e-9 && got <= f.high+1e-9) {
			errs = append(errs, fmt.Errorf("%s: got %v, %v, want %v", f.expr, got, err, f))
		}
	}
	fmt.Fprintf(out, "%d of %d figures of %s %s are as expected\n", len(want)-len(errs), len(want), what, s)
	if len(want) == 0 {
		errs = append(errs, fmt.Errorf("nothing is expected of %s", what))
	}
	return errors.Join(errs...)
}

// checkData demands data for each expression on any of the servers.
func checkData(ctx context.Context, out io.Writer, what string, exprs []expression, servers ...*server) error {
	var errs []error
	for _, e := range exprs {
		if err := hasData(ctx, e.expr, servers); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w: %s", e.of, err, e.expr))
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

// checkExamples runs all checks of examples/metrics.
func (s *server) checkExamples(ctx context.Context, out io.Writer, root string, age float64) error {
	rules, err := os.ReadFile(filepath.Join(root, "monitoring", rulesFile))
	if err != nil {
		return err
	}
	var records []expression
	for _, match := range recorded.FindAllStringSubmatch(string(rules), -1) {
		records = append(records, expression{"recording rule", match[1] + `{job="examples"}`})
	}
	d, err := loadDashboard(filepath.Join(root, "monitoring", "dashboard.json"))
	if err != nil {
		return err
	}
	want := examples(s.native, age)
	return errors.Join(
		s.checkAlerts(ctx, out, "examples", alerts, patience),
		s.checkNothingMissing(ctx, want),
		s.check(ctx, out, "the examples", want),
		checkData(ctx, out, fmt.Sprint("recording rules ", s), records, s),
		checkData(ctx, out, fmt.Sprint("queries of the dashboard ", s), d.expressions("5s", map[string]string{"job": "examples"}), s))
}

var recorded = regexp.MustCompile(`(?m)^ *- record: (\S+)$`)

// An alert has a name and a queue. text is a part of its summary, or of what it tells to do.
type alert struct{ name, queue, text string }

// alerts are those of the examples.
var alerts = []alert{
	{"WorkqueueStuckWorker", "uploads", "An item of the queue uploads has had no Done for"},
	{"WorkqueueRetryStorm", "webhooks", "The queue webhooks retries"},
	{"WorkqueueNothingSucceeds", "webhooks", "Nothing succeeds in the queue webhooks"},
}

// firing is a query for the alerts that a job has fired since the start.
const firing = `max by (alertname, name) (max_over_time(ALERTS{alertstate="firing", job=%q}[10m]))`

// checkAlerts waits until the queues of a job have fired the expected alerts, and compares the texts.
// Any other alert since the start is an error.
func (s *server) checkAlerts(ctx context.Context, out io.Writer, job string, want []alert, patience time.Duration) error {
	var expected []string
	for _, a := range want {
		expected = append(expected, a.name+" "+a.queue)
	}
	slices.Sort(expected)
	for deadline := time.Now().Add(patience); ; {
		samples, err := s.query(ctx, fmt.Sprintf(firing, job))
		if err != nil {
			return err
		}
		var fired []string
		for _, sample := range samples {
			fired = append(fired, sample.Metric["alertname"]+" "+sample.Metric["name"])
		}
		slices.Sort(fired)
		if slices.Equal(fired, expected) {
			fmt.Fprintf(out, "\nalerts of %s %s, and no others: %s\n", job, s, strings.Join(fired, ", "))
			return s.checkTexts(ctx, job, want)
		}
		// A missing alert may still fire. An unexpected alert stays in the result.
		if len(fired) >= len(expected) || time.Now().After(deadline) {
			return fmt.Errorf("alerts of %s: want %q, got %q", job, expected, fired)
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// checkTexts compares the texts of the alerts that fire now.
func (s *server) checkTexts(ctx context.Context, job string, want []alert) (err error) {
	var now struct {
		Alerts []struct {
			State               string
			Labels, Annotations map[string]string
		}
	}
	if err := s.get(ctx, "alerts", nil, &now); err != nil {
		return err
	}
	texts := make(map[string]string)
	for _, a := range now.Alerts {
		if a.State == "firing" && a.Labels["job"] == job {
			texts[a.Labels["alertname"]+" "+a.Labels["name"]] += a.Annotations["summary"] + "\n" + a.Annotations["action"]
		}
	}
	for _, a := range want {
		if text := texts[a.name+" "+a.queue]; !strings.Contains(text, a.text) {
			err = errors.Join(err, fmt.Errorf("%s of the queue %s does not say %q: %s", a.name, a.queue, a.text, text))
		}
	}
	return err
}

// checkNothingMissing demands a figure for every series of the examples, so a new series
// cannot go untested.
func (s *server) checkNothingMissing(ctx context.Context, want []figure) error {
	var names []string
	values := url.Values{"match[]": {`{job="examples", __name__=~"workqueue_.+"}`}}
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

// checkControllers compares controllers of controller-runtime on its queue and on ours. Our
// queue must have every series of the other, with the same labels priority and le.
func (s *server) checkControllers(ctx context.Context, out io.Writer, age float64) error {
	missing, err := s.query(ctx, `count by (__name__, priority, le) ({__name__=~"workqueue_.+", name="theirs-still"}) `+
		`unless count by (__name__, priority, le) ({__name__=~"workqueue_.+", name="ours-still"})`)
	for _, sample := range missing {
		err = errors.Join(err, fmt.Errorf("controllers on our queue have no series %v", sample.Metric))
	}
	return errors.Join(err, s.check(ctx, out, "the controllers", controllers(age)))
}

// checkRegistries compares the queues of each registry with the work of the exporter. Then
// it shuts our queues down: their series must go, and client-go's must stay.
func (s *server) checkRegistries(ctx context.Context, out io.Writer, address string, age float64) error {
	var errs []error
	for _, registry := range registryNames {
		var told counted
		body, err := fetch(ctx, http.MethodGet, "http://"+address+"/counted/"+registry)
		if err == nil {
			err = json.Unmarshal(body, &told)
		}
		run, unfit := ofRun(registry, told)
		errs = append(errs, err, unfit, s.check(ctx, out, "the registry "+registry, append(run, ofRegistry(registry, age)...)))
	}
	_, err := fetch(ctx, http.MethodPost, "http://"+address+"/shutdown")
	if err == nil {
		err = pause(ctx, 2*time.Second) // Until the next scrapes.
	}
	return errors.Join(append(errs, err, s.check(ctx, out, "the registries after the shutdown of our queues", afterShutdown()))...)
}

// lint asks promtool about the text exposition.
func lint(ctx context.Context, out io.Writer, address string) error {
	tool, err := debian.Program(ctx, "prometheus", "promtool")
	if err != nil {
		return err
	}
	exposition, err := fetch(ctx, http.MethodGet, "http://"+address+"/metrics")
	if err != nil {
		return err
	}
	series := bytes.Count(exposition, []byte("\nworkqueue_"))
	check := exec.CommandContext(ctx, tool, "check", "metrics")
	check.Stdin = bytes.NewReader(exposition)
	output, err := check.CombinedOutput()
	if err != nil || len(output) > 0 || series == 0 {
		return fmt.Errorf("promtool check metrics: %d series, error %v\n%s", series, err, output)
	}
	_, err = fmt.Fprintf(out, "promtool check metrics: nothing to say about %d bytes with %d series of queues\n", len(exposition), series)
	return err
}
