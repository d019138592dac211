package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed16c08ea7/workqueue/integration/internal/dashboard"
)

// This file takes the dashboard that Cluster API publishes for controllers of
// controller-runtime, and asks Prometheus its queries about our controllers. Users look
// at dashboards made by others, so our series must fit them. The dashboard comes with the
// Go module of Cluster API.

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
func published(ctx context.Context, work string) (*dashboard.Dashboard, error) {
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
	return dashboard.Load(filepath.Join(module.Dir, filepath.FromSlash(publishedFile)))
}

// checkPublished demands data for each query, about the controllers on our queue and
// about the controllers on controller-runtime's queue. If a query had no data for
// controller-runtime's queue either, its result for our queue would prove nothing.
func checkPublished(ctx context.Context, out io.Writer, d *dashboard.Dashboard, servers []*server) error {
	var errs []error
	for _, kind := range queueKinds {
		about, err := queriesAbout(d, kind)
		errs = append(errs, err, checkData(ctx, out, "queries of a published dashboard about "+kind, about, servers...))
	}
	return errors.Join(errs...)
}

// queriesAbout returns the queries about the controllers of a kind. Other queries of the
// dashboard are left out: they are about pods, webhooks and the Go runtime.
func queriesAbout(d *dashboard.Dashboard, kind string) (about []dashboard.Expression, err error) {
	missing := make(map[string]bool)
	for _, topic := range publishedTopics {
		missing[topic] = true
	}
	for _, e := range d.Expressions("5s", map[string]string{"Controller": kind + "-(busy|still)"}) {
		mine := false
		for _, topic := range publishedTopics {
			if strings.Contains(e.Expr, topic) {
				mine = true
				delete(missing, topic)
			}
		}
		if mine {
			about = append(about, e)
		}
	}
	for topic := range missing {
		err = errors.Join(err, fmt.Errorf("%s of %s has no query of %s", publishedFile, publishedModule, topic))
	}
	return about, err
}
