package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// This file checks the series of Run in each registry: the outcomes of items, and the
// delays that the rate limiter returned. The exporter counts both in OnResult.

// counted is the exporter's own count for a load.
type counted struct {
	Results map[string]int // by outcome
	Delays  []float64      // in seconds
	Left    int            // items that are not settled yet
}

// outcomes are the outcomes of a load before its end. Two more have series: "interrupted"
// comes only with the end of Run, and "removed" only with a RemoveFunc.
var outcomes = []string{"succeeded", "failed", "requeued", "given_up", "readded"}

// checkLoad compares the series of a load with the counts of the exporter. The load must
// be at rest.
func (c *comparison) checkLoad(ctx context.Context, s *server, target, registry string) {
	told, err := toldBy(ctx, "http://"+target+"/counted/"+registry)
	if err != nil {
		c.fail(fmt.Errorf("%s: %w", registry, err))
		return
	}
	labels := fmt.Sprintf(`job=%q, name="run"`, registry)
	calls := 0
	for _, outcome := range outcomes {
		n := told.Results[outcome]
		calls += n
		if n == 0 { // Otherwise a series stuck at 0 would pass.
			c.fail(fmt.Errorf("%s: the load has come to no result %s", registry, outcome))
		}
		c.check(ctx, s, exactly(fmt.Sprintf("workqueue_results_total{%s, result=%q}", labels, outcome), float64(n)))
	}
	sum := 0.0
	for _, d := range told.Delays {
		sum += d
	}
	const delay = "workqueue_rate_limit_delay_seconds"
	asked := float64(len(told.Delays))
	c.check(ctx, s,
		exactly("count(workqueue_results_total{"+labels+"})", float64(len(outcomes)+2)),
		exactly("workqueue_work_duration_seconds_count{"+labels+"}", float64(calls)),
		exactly("workqueue_rate_limited_total{"+labels+"}", asked),
		exactly(delay+"_count{"+labels+"}", asked),
		// A sum of fractions depends on the order of the additions.
		between(sum*(1-1e-9), sum*(1+1e-9), delay+"_sum{"+labels+"}"))
	c.checkBuckets(ctx, s, delay+"_bucket{"+labels+"}", told.Delays)
}

// checkBuckets compares each bucket of a histogram with the number of values up to its
// bound.
func (c *comparison) checkBuckets(ctx context.Context, s *server, series string, values []float64) {
	buckets, err := s.query(ctx, series)
	if err != nil {
		c.fail(err)
		return
	}
	counts := make(map[int]bool)
	for _, bucket := range buckets {
		bound, err := strconv.ParseFloat(bucket.Metric["le"], 64)
		if err != nil {
			c.fail(fmt.Errorf("%s: %w", series, err))
			continue
		}
		want := upTo(bound, values)
		counts[want] = true
		c.checked++
		if got, ok := bucket.value(); !ok || got != float64(want) {
			c.errs = append(c.errs, fmt.Errorf("%s: got %v up to %g, want %d", series, got, bound, want))
		}
	}
	if len(counts) < 4 { // At least no delay, all delays, and two counts between.
		c.fail(fmt.Errorf("%s: %d buckets have %d different counts, which shows nothing", series, len(buckets), len(counts)))
	}
}

func upTo(bound float64, values []float64) (n int) {
	for _, v := range values {
		if v <= bound {
			n++
		}
	}
	return n
}

// fail counts a comparison without a result, with its error.
func (c *comparison) fail(err error) {
	c.checked++
	c.errs = append(c.errs, err)
}

// toldBy asks the exporter for its counts. A load with unsettled items is an error,
// because its series still change.
func toldBy(ctx context.Context, url string) (told counted, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return told, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return told, err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&told); err != nil {
		return told, fmt.Errorf("%s: %s: %w", url, response.Status, err)
	}
	if told.Left > 0 {
		return told, fmt.Errorf("%s: %d items are not settled yet", url, told.Left)
	}
	return told, nil
}
