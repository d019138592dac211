package main

import (
	"fmt"
	"slices"
	"time"
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

// figures returns the expected figures of an example that has run for a while. The queue
// uploads comes to rest at once, so its figures are exact. The other queues keep working.
// For these queues there are sums, with a margin for items in flight, and rates, with a
// margin for a busy machine.
func figures(store histograms, age time.Duration) []figure {
	return slices.Concat(atRest(age.Round(time.Second).Seconds()), sums(), atWork(), distributions(store), onceAndGone())
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
		exactly(`workqueue_waiting{name="uploads"}`, 3),
		exactly(`workqueue_retries_total{name="uploads"}`, 3),
		exactly(`workqueue_rate_limited_total{name="uploads"}`, 0),
		exactly(`workqueue_results_total{name="uploads", result="succeeded"}`, 19),
		exactly(`workqueue_results_total{name="uploads", result="failed"}`, 0),
		between(age-3, age+3, `workqueue_longest_running_processor_seconds{name="uploads"}`),
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
		exactly(`workqueue_abandoned_total{state="queued"}`, 3),
		exactly(`workqueue_abandoned_total{state="in_flight"}`, 1),
		exactly(`workqueue_abandoned_total{state="waiting"}`, 2),
		exactly(`count({__name__=~"workqueue_.+", name="retired"}) or vector(0)`, 0),
		exactly(`count(count by (name) ({__name__=~"workqueue_.+", name!=""}))`, 5),
	}
}

// distributions are the figures of the histograms. The two kinds of servers store
// histograms under different names.
func distributions(store histograms) []figure {
	count, mean := "histogram_count(%[1]s%[2]s)",
		"histogram_sum(rate(%[1]s%[2]s[20s])) / histogram_count(rate(%[1]s%[2]s[20s]))"
	if store == classic {
		count, mean = "%[1]s_count%[2]s", "rate(%[1]s_sum%[2]s[20s]) / rate(%[1]s_count%[2]s[20s])"
	}
	const wait, work, late = "workqueue_queue_duration_seconds", "workqueue_work_duration_seconds", "workqueue_lateness_seconds"
	const limit = "workqueue_rate_limit_delay_seconds"
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
	for _, series := range []string{wait, work, late, limit} {
		if store == classic {
			// 12 decades from 10 ns to 1000 s, and infinity.
			all = append(all, exactly(`count(`+series+`_bucket{name="uploads"})`, 13))
		} else {
			all = append(all, exactly(`count(`+series+`_bucket{name="uploads"}) or vector(0)`, 0))
		}
	}
	if store == classic {
		return append(all,
			exactly(`workqueue_work_duration_seconds_bucket{name="reports", le="0.1"}`, 0),
			exactly(`workqueue_work_duration_seconds_bucket{name="reports", le="10"} - on () workqueue_work_duration_seconds_count{name="reports"}`, 0),
		)
	}
	return append(all,
		between(4, 7, `histogram_quantile(0.5, rate(workqueue_queue_duration_seconds{name="reports"}[20s]))`),
		between(0.9, 1.5, `histogram_quantile(0.5, rate(workqueue_work_duration_seconds{name="reports"}[20s]))`),
	)
}
