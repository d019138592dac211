package main

import (
	"errors"
	"fmt"
	"slices"
)

// A figure is an expression with the bounds of its expected value.
type figure struct {
	expr      string
	low, high float64
}

func (f figure) String() string {
	if f.low == f.high {
		return fmt.Sprintf("%g", f.low)
	}
	return fmt.Sprintf("%g to %g", f.low, f.high)
}

func exactly(expr string, value float64) figure { return figure{expr, value, value} }

func between(low, high float64, expr string) figure { return figure{expr, low, high} }

// examples returns the expected figures of examples/metrics at an age in seconds. The queue
// uploads comes to rest at once, so its figures are exact. The other queues keep working.
// For these queues there are sums, with a margin for items in flight, and rates, with a
// margin for a busy machine.
func examples(native bool, age float64) []figure {
	return slices.Concat(atRest(age), sums(), atWork(), distributions(native), onceAndGone())
}

// atRest is about the queue uploads: 20 files are added, five of them twice. One file is
// never done. Three items wait for a day.
func atRest(age float64) []figure {
	return []figure{
		exactly(`workqueue_adds_total{name="uploads"}`, 20),
		exactly(`workqueue_duplicates_total{name="uploads"}`, 5),
		exactly(`workqueue_depth{name="uploads"}`, 0),
		exactly(`workqueue_oldest_item_age_seconds{name="uploads"}`, 0),
		exactly(`workqueue_in_flight{name="uploads"}`, 1),
		exactly(`workqueue_workers{name="uploads"}`, 2),
		exactly(`workqueue_waiting{name="uploads"}`, 3),
		exactly(`workqueue_retries_total{name="uploads"}`, 3),
		exactly(`workqueue_rate_limited_total{name="uploads"}`, 0),
		exactly(`workqueue_results_total{name="uploads", result="succeeded"}`, 19),
		exactly(`workqueue_results_total{name="uploads", result="failed"}`, 0),
		between(age-5, age+5, `workqueue_longest_running_processor_seconds{name="uploads"}`),
		exactly(`workqueue_unfinished_work_seconds{name="uploads"} - workqueue_longest_running_processor_seconds`, 0),
	}
}

// sums: every delayed item still waits or was added. The four workers of webhooks and the
// two workers of polls may be in the middle of a call, so the sums have a margin.
func sums() []figure {
	return []figure{
		between(-4, 4, `workqueue_retries_total{name="webhooks"} - workqueue_rate_limited_total`),
		between(16, 24, `workqueue_adds_total{name="webhooks"} + workqueue_waiting - workqueue_rate_limited_total`),
		between(20, 24, `workqueue_waiting{name="webhooks"} + workqueue_depth + workqueue_in_flight`),
		between(6, 10, `workqueue_adds_total{name="polls"} + workqueue_waiting - workqueue_retries_total`),
		exactly(`workqueue_rate_limited_total{name="polls"}`, 0),
		exactly(`workqueue_duplicates_total{name="thumbnails"}`, 0),
		between(6, 7, `workqueue_depth{name="reports"} + workqueue_in_flight`),
	}
}

func atWork() []figure {
	return []figure{
		between(30, 60, `rate(workqueue_adds_total{name="thumbnails"}[20s])`),
		between(2, 6, `rate(workqueue_rate_limited_total{name="thumbnails"}[20s])`),
		between(80, 210, `rate(workqueue_rate_limited_total{name="webhooks"}[20s])`),
		between(80, 210, `rate(workqueue_results_total{name="webhooks", result="failed"}[20s])`),
		exactly(`workqueue_results_total{name="webhooks", result="succeeded"}`, 0),
		between(16, 34, `rate(workqueue_retries_total{name="polls"}[20s])`),
		between(0.6, 1.1, `rate(workqueue_adds_total{name="reports"}[20s])`),
		between(3, 8, `max_over_time(workqueue_oldest_item_age_seconds{name="reports"}[20s])`),
		between(0.5, 3, `max_over_time(workqueue_longest_running_processor_seconds{name="reports"}[20s])`),
		between(0, 3, `workqueue_unfinished_work_seconds{name="reports"}`),
	}
}

// onceAndGone is about a queue with six items that was shut down before the first scrape.
func onceAndGone() []figure {
	return []figure{
		exactly(`workqueue_abandoned_total{job="examples", state="queued"}`, 3),
		exactly(`workqueue_abandoned_total{job="examples", state="in_flight"}`, 1),
		exactly(`workqueue_abandoned_total{job="examples", state="waiting"}`, 2),
		exactly(`count({__name__=~"workqueue_.+", name="retired"}) or vector(0)`, 0),
		exactly(`count(count by (name) ({__name__=~"workqueue_.+", job="examples", name!=""}))`, 5),
	}
}

// distributions are the figures of the histograms. The two kinds of servers store
// histograms under different names.
func distributions(native bool) []figure {
	count, mean := "%[1]s_count%[2]s", "rate(%[1]s_sum%[2]s[20s]) / rate(%[1]s_count%[2]s[20s])"
	if native {
		count = "histogram_count(%[1]s%[2]s)"
		mean = "histogram_sum(rate(%[1]s%[2]s[20s])) / histogram_count(rate(%[1]s%[2]s[20s]))"
	}
	const wait, work, late = "workqueue_queue_duration_seconds", "workqueue_work_duration_seconds", "workqueue_lateness_seconds"
	const limit = "workqueue_retry_delay_seconds"
	all := []figure{
		exactly(fmt.Sprintf(count, wait, `{name="uploads"}`), 20),
		exactly(fmt.Sprintf(count, work, `{name="uploads"}`), 19),
		exactly(fmt.Sprintf(count, late, `{name="uploads"}`), 0),
		between(3, 8, fmt.Sprintf(mean, wait, `{name="reports"}`)),
		between(1, 2, fmt.Sprintf(mean, work, `{name="reports"}`)),
		between(0, 0.5, fmt.Sprintf(mean, late, `{name="webhooks"}`)),
		exactly(fmt.Sprintf(count, limit, `{name="uploads"}`), 0),
		between(0.099, 0.101, fmt.Sprintf(mean, limit, `{name="webhooks"}`)),
	}
	buckets := 13.0 // 12 decades from 10 ns to 1000 s, and infinity.
	if native {
		buckets = 0
	}
	for _, series := range []string{wait, work, late, limit} {
		all = append(all, exactly(`count(`+series+`_bucket{name="uploads"}) or vector(0)`, buckets))
	}
	if native {
		return append(all,
			between(4, 7, `histogram_quantile(0.5, rate(workqueue_queue_duration_seconds{name="reports"}[20s]))`),
			between(0.9, 1.5, `histogram_quantile(0.5, rate(workqueue_work_duration_seconds{name="reports"}[20s]))`))
	}
	return append(all,
		exactly(`workqueue_work_duration_seconds_bucket{name="reports", le="0.1"}`, 0),
		exactly(`workqueue_work_duration_seconds_bucket{name="reports", le="10"} - on () workqueue_work_duration_seconds_count{name="reports"}`, 0))
}

// controllers returns the figures of the controllers that stand still, on either queue. Their
// worker holds an item and never finishes. Seven items are queued behind: five of the
// initial list, with priority -100, and two urgent items. Another item waits for its time.
func controllers(age float64) []figure {
	all := []figure{
		exactly(`min_over_time(up{job="controllers"}[1m])`, 1),
		// Both busy controllers are fed alike, but not at the same instants.
		between(0.9, 1.1, `sum(workqueue_adds_total{name="ours-busy"}) / sum(workqueue_adds_total{name="theirs-busy"})`),
	}
	for _, name := range []string{"ours-still", "theirs-still"} {
		labels := fmt.Sprintf(`{name=%q, controller=%[1]q}`, name)
		level := func(priority string) string {
			return fmt.Sprintf(`workqueue_depth{name=%q, controller=%[1]q, priority=%q}`, name, priority)
		}
		all = append(all,
			exactly(level("-100"), 5),
			exactly(level("0"), 2),
			exactly("sum(workqueue_depth"+labels+")", 7),
			exactly("workqueue_adds_total"+labels, 8),
			exactly("workqueue_retries_total"+labels, 1),
			exactly("workqueue_queue_duration_seconds_count"+labels, 1),
			exactly("workqueue_work_duration_seconds_count"+labels, 0),
			between(age-5, age+5, "workqueue_unfinished_work_seconds"+labels),
			between(age-5, age+5, "workqueue_longest_running_processor_seconds"+labels))
	}
	return all
}

// compat/adapted/serve has two queues of ours in each registry: "ours", and "run" for the
// function Run. The registries of controller-runtime and component-base also have "theirs",
// a queue of client-go.
var registryNames = []string{"own", "controllerruntime", "componentbase"}

// ofRegistry returns the figures of the queues ours and theirs. Six calls of Add make five
// adds and a duplicate: the Add of a held item counts as an add.
func ofRegistry(registry string, age float64) []figure {
	all := []figure{exactly(fmt.Sprintf("min_over_time(up{job=%q}[1m])", registry), 1)}
	for _, queue := range []string{"ours", "theirs"} {
		labels := fmt.Sprintf(`{job=%q, name=%q}`, registry, queue)
		if queue == "ours" {
			all = append(all,
				exactly("workqueue_in_flight"+labels, 1),
				exactly("workqueue_workers"+labels, 1),
				exactly("workqueue_waiting"+labels, 1),
				exactly("workqueue_duplicates_total"+labels, 1),
				exactly("workqueue_rate_limited_total"+labels, 1),
				between(age-5, age+5, "workqueue_oldest_item_age_seconds"+labels))
		} else if registry == "own" {
			break
		}
		all = append(all,
			exactly("workqueue_depth"+labels, 3),
			exactly("workqueue_adds_total"+labels, 5),
			exactly("workqueue_retries_total"+labels, 1),
			exactly("workqueue_queue_duration_seconds_count"+labels, 2),
			exactly("workqueue_work_duration_seconds_count"+labels, 1),
			between(age-5, age+5, "workqueue_longest_running_processor_seconds"+labels),
			between(age-5, age+5, "workqueue_unfinished_work_seconds"+labels))
	}
	return all
}

// counted is the exporter's own count of the calls of OnResult.
type counted struct {
	Results map[string]int // by outcome
	Delays  []float64      // of retries, in seconds
	Limited int            // delays that the rate limiter returned
	Left    int            // items that are not settled yet
}

// outcomes are the outcomes of a load before its end. Two more have series: "interrupted"
// comes only with the end of Run, and "removed" only with a RemoveFunc.
var outcomes = []string{"succeeded", "failed", "requeued", "given_up", "readded", "deferred"}

// ofRun returns the figures of the queue run. The error says why the counts show nothing.
func ofRun(registry string, told counted) (all []figure, err error) {
	if told.Left > 0 {
		err = fmt.Errorf("%s: %d items are not settled yet", registry, told.Left)
	}
	labels := fmt.Sprintf(`job=%q, name="run"`, registry)
	calls, sum := 0, 0.0
	for _, outcome := range outcomes {
		n := told.Results[outcome]
		calls += n
		if n == 0 { // Otherwise a series stuck at 0 would pass.
			err = errors.Join(err, fmt.Errorf("%s: the load has come to no result %s", registry, outcome))
		}
		all = append(all, exactly(fmt.Sprintf("workqueue_results_total{%s, result=%q}", labels, outcome), float64(n)))
	}
	for _, d := range told.Delays {
		sum += d
	}
	const delay = "workqueue_retry_delay_seconds"
	retries := float64(len(told.Delays))
	for _, bound := range []float64{0.001, 0.01, 0.1} {
		within := 0.0
		for _, d := range told.Delays {
			if d <= bound {
				within++
			}
		}
		if within == 0 || within == retries {
			err = errors.Join(err, fmt.Errorf("%s: %g of %g delays are up to %g", registry, within, retries, bound))
		}
		all = append(all, exactly(fmt.Sprintf(`%s_bucket{%s, le="%g"}`, delay, labels, bound), within))
	}
	return append(all,
		exactly("count(workqueue_results_total{"+labels+"})", float64(len(outcomes)+2)),
		exactly("workqueue_work_duration_seconds_count{"+labels+"}", float64(calls)),
		exactly("workqueue_rate_limited_total{"+labels+"}", float64(told.Limited)),
		exactly(delay+"_count{"+labels+"}", retries),
		// A sum of fractions depends on the order of the additions.
		between(sum*(1-1e-9), sum*(1+1e-9), delay+"_sum{"+labels+"}")), err
}

// afterShutdown returns the figures after the shutdown of our queues. client-go's queues have
// seven series each.
func afterShutdown() (all []figure) {
	for _, registry := range registryNames {
		const series = `count({__name__=~"workqueue_.+", __name__!~".*_(bucket|sum)", job=%q, name=%q}) or vector(0)`
		theirs := 7.0
		if registry == "own" {
			theirs = 0
		}
		all = append(all,
			exactly(fmt.Sprintf(series, registry, "ours"), 0),
			exactly(fmt.Sprintf(series, registry, "run"), 0),
			exactly(fmt.Sprintf(series, registry, "theirs"), theirs),
			exactly(fmt.Sprintf("sum(workqueue_abandoned_total{job=%q})", registry), 4))
	}
	return all
}
