package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestEachWrongCountOfALoadIsNoticed has one thing wrong at a time.
func TestEachWrongCountOfALoadIsNoticed(t *testing.T) {
	results := func(outcome string) string {
		return fmt.Sprintf(`workqueue_results_total{job="own", name="run", result=%q}`, outcome)
	}
	const (
		delay   = "workqueue_rate_limit_delay_seconds"
		labels  = `{job="own", name="run"}`
		buckets = delay + "_bucket" + labels
	)
	histogram := func(le ...string) (all []sample) {
		for i := 0; i < len(le); i += 2 {
			var n float64
			fmt.Sscan(le[i+1], &n)
			s := number(n)
			s.Metric = map[string]string{"le": le[i]}
			all = append(all, s)
		}
		return all
	}
	for _, test := range []struct {
		name, expr string
		answer     []sample
		told       string // in place of the true one
		want       string // in the error; none if empty
	}{
		{name: "nothing"},
		{"a success too many", results("succeeded"), []sample{number(6)}, "", `"succeeded"}: got 6`},
		{"a failure too few", results("failed"), []sample{number(3)}, "", `"failed"}: got 3`},
		{"no series of what was given up", results("given_up"), nil, "", `"given_up"}: got 0, 0 samples`},
		{"an eighth outcome", "count(workqueue_results_total" + labels + ")", []sample{number(8)}, "", "got 8"},
		{"a call that is not in the work", "workqueue_work_duration_seconds_count" + labels, []sample{number(14)}, "", "got 14"},
		{"a delay too many", delay + "_count" + labels, []sample{number(5)}, "", "got 5"},
		{"a longer delay", delay + "_sum" + labels, []sample{number(5.57)}, "", "got 5.57"},
		{"a call of the limiter too few", "workqueue_rate_limited_total" + labels, []sample{number(3)}, "", "got 3"},
		{"a delay in the wrong bucket", buckets, histogram("0.001", "0", "0.01", "1", "0.1", "3", "1", "3", "+Inf", "4"), "", "got 3 up to 0.1, want 2"},
		{"no buckets", buckets, nil, "", "0 buckets"},
		{"all delays in one bucket", buckets, histogram("0.001", "0", "+Inf", "4"), "", "2 buckets"},
		{"a bucket without bound", buckets, histogram("", "4"), "", "ParseFloat"},
		{"an outcome that did not occur", "", nil, `{"Results": {"succeeded": 5}}`, "no result requeued"},
		{"a load at work", "", nil, `{"Left": 1}`, "1 items are not settled"},
		{"no exporter", "", nil, "not found", "invalid character"},
	} {
		t.Run(test.name, func(t *testing.T) {
			told := counted{
				Results: map[string]int{"succeeded": 5, "failed": 4, "requeued": 3, "given_up": 2, "readded": 1},
				Delays:  []float64{0.005, 0.05, 0.5, 5},
			}
			exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if test.told != "" {
					fmt.Fprint(w, test.told)
					return
				}
				json.NewEncoder(w).Encode(told)
			}))
			defer exporter.Close()
			answers := map[string][]sample{
				"count(workqueue_results_total" + labels + ")":   {number(7)},
				"workqueue_work_duration_seconds_count" + labels: {number(15)},
				"workqueue_rate_limited_total" + labels:          {number(4)},
				delay + "_count" + labels:                        {number(4)},
				delay + "_sum" + labels:                          {number(5.555)},
				buckets:                                          histogram("0.001", "0", "0.01", "1", "0.1", "2", "1", "3", "+Inf", "4"),
			}
			for outcome, n := range told.Results {
				answers[results(outcome)] = []sample{number(float64(n))}
			}
			if test.expr != "" {
				answers[test.expr] = test.answer
			}
			var c comparison
			c.checkLoad(t.Context(), fake(t, classic, answers), strings.TrimPrefix(exporter.URL, "http://"), "own")
			got := fmt.Sprint(c.errs)
			if test.want == "" && len(c.errs) > 0 || !strings.Contains(got, test.want) {
				t.Errorf("got %s, want %q", got, test.want)
			}
			if c.checked < len(c.errs) || c.checked < 1 {
				t.Errorf("%d of %d comparisons have failed", len(c.errs), c.checked)
			}
		})
	}
}
