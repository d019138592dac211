package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed16c08ea7/workqueue/integration/internal/debian"
)

// This file checks our provider in three registries: an own registry, and the registries
// of controller-runtime and component-base. compat/adapted/serve has two queues of ours
// in each registry: "ours", and "run" for the function Run. The registries of
// controller-runtime and component-base also have "theirs", a queue of client-go.

var registryNames = []string{"own", "controllerruntime", "componentbase"}

// startRegistries builds and starts the exporter, and a server that scrapes each registry
// as a job. It returns the server and the address of the exporter.
func (p *processes) startRegistries(ctx context.Context, root, work string) (*server, string, error) {
	binary := filepath.Join(work, "serve")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "compat"), "-o", binary, "./adapted/serve")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("go build: %w\n%s", err, output)
	}
	age := ageFrom(time.Now())
	target, err := p.start(ctx, exec.CommandContext(ctx, binary, "-listen", "127.0.0.1:0"), regexp.MustCompile(`^http://(\S+)/$`))
	if err != nil {
		return nil, "", err
	}
	var config strings.Builder
	config.WriteString("global: {scrape_interval: 500ms, scrape_timeout: 500ms}\nscrape_configs:\n")
	for _, name := range registryNames {
		fmt.Fprintf(&config, "  - {job_name: %s, metrics_path: /%[1]s, static_configs: [{targets: [%q]}]}\n", name, target)
	}
	address, err := p.startScraper(ctx, filepath.Join(work, "registries"), config.String())
	return &server{store: classic, address: address, age: age}, target, err
}

// startScraper starts a server with the config. Its config and data are in dir.
func (p *processes) startScraper(ctx context.Context, dir, config string, args ...string) (address string, err error) {
	if err := writeFiles(dir, map[string]string{"prometheus.yaml": config}); err != nil {
		return "", err
	}
	program, err := debian.Program(ctx, "prometheus", "prometheus")
	if err != nil {
		return "", err
	}
	args = append(args, "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	return p.start(ctx, exec.CommandContext(ctx, program, args...),
		regexp.MustCompile(`Listening on.* address=(\S+)`))
}

// registryFigures are the figures of a queue after the work of compat/adapted/serve. Six
// calls of Add make five adds and a duplicate: the Add of a held item counts as an add.
func registryFigures(registry, queue string, age float64) (all []figure) {
	labels := fmt.Sprintf(`{job=%q, name=%q}`, registry, queue)
	numbers := map[string]float64{
		"depth": 3, "adds_total": 5, "retries_total": 1,
		"queue_duration_seconds_count": 2, "work_duration_seconds_count": 1,
	}
	if queue == "ours" {
		for name, number := range map[string]float64{"in_flight": 1, "waiting": 1, "duplicates_total": 1, "rate_limited_total": 1} {
			numbers[name] = number
		}
		all = append(all, between(age-3, age+3, "workqueue_oldest_item_age_seconds"+labels))
	}
	for name, number := range numbers {
		all = append(all, exactly("workqueue_"+name+labels, number))
	}
	all = append(all,
		// The tolerance covers the interval of scrapes, and client-go's update of both
		// gauges every half second.
		between(age-3, age+3, "workqueue_longest_running_processor_seconds"+labels),
		between(age-3, age+3, "workqueue_unfinished_work_seconds"+labels))
	slices.SortFunc(all, func(a, b figure) int { return strings.Compare(a.expr, b.expr) })
	return all
}

// A comparison counts the compared figures, and collects the errors.
type comparison struct {
	checked int
	errs    []error
}

func (c *comparison) check(ctx context.Context, s *server, want ...figure) {
	for _, f := range want {
		c.checked++
		if got, err := s.number(ctx, f.expr); err != nil || got < f.low || got > f.high {
			c.errs = append(c.errs, fmt.Errorf("%s: got %v, %v, want %v", f.expr, got, err, f))
		}
	}
}

// checkRegistries compares the scraped figures with the work of the exporter. Then it
// shuts our queues down: the series of our queues must go, and client-go's must stay.
func (s *server) checkRegistries(ctx context.Context, out io.Writer, target string) error {
	var c comparison
	age := s.age().Round(time.Second).Seconds()
	for _, registry := range registryNames {
		c.check(ctx, s, exactly(fmt.Sprintf("min_over_time(up{job=%q}[1m])", registry), 1))
		c.check(ctx, s, registryFigures(registry, "ours", age)...)
		if registry != "own" {
			c.check(ctx, s, registryFigures(registry, "theirs", age)...)
		}
		c.checkLoad(ctx, s, target, registry)
	}
	if err := shutDownOurs(ctx, target); err != nil {
		return err
	}
	for _, registry := range registryNames {
		const series = `count({__name__=~"workqueue_.+", __name__!~".*_(bucket|sum)", job=%q, name=%q}) or vector(0)`
		c.check(ctx, s,
			exactly(fmt.Sprintf(series, registry, "ours"), 0),
			exactly(fmt.Sprintf(series, registry, "run"), 0),
			exactly(fmt.Sprintf(series, registry, "theirs"), map[bool]float64{false: 7}[registry == "own"]),
			exactly(fmt.Sprintf("sum(workqueue_abandoned_total{job=%q})", registry), 4))
	}
	fmt.Fprintf(out, "%d of %d figures of the registries %s are as expected\n", c.checked-len(c.errs), c.checked, strings.Join(registryNames, ", "))
	return errors.Join(c.errs...)
}

// shutDownOurs makes the exporter shut our queues down, and waits for the next scrapes.
func shutDownOurs(ctx context.Context, target string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+target+"/shutdown", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	return pause(ctx, 2*time.Second)
}
