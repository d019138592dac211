package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

// fake is a server that answers each query with one sample: the value that is
// expected, or else 1. What it has answers for goes first; nil is an empty
// vector.
func fake(t *testing.T, store histograms, answers map[string][]sample) *server {
	t.Helper()
	expected := make(map[string]float64)
	names := make(map[string]bool)
	for _, f := range figures(store, 0) {
		expected[f.expr] = (f.low + f.high) / 2
		for _, name := range regexp.MustCompile(`workqueue_[a-z_]+`).FindAllString(f.expr, -1) {
			names[name] = true
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/query", func(w http.ResponseWriter, r *http.Request) {
		expr := r.URL.Query().Get("query")
		samples, ok := answers[expr]
		if value, isFigure := expected[expr]; !ok && isFigure {
			samples = []sample{number(value)}
		} else if !ok {
			samples = []sample{number(1)}
		}
		answer(w, map[string]any{"result": samples})
	})
	mux.HandleFunc("GET /api/v1/label/__name__/values", func(w http.ResponseWriter, _ *http.Request) {
		var all []string
		for name := range names {
			all = append(all, name)
		}
		for _, extra := range answers["names"] {
			all = append(all, extra.Metric["__name__"])
		}
		answer(w, all)
	})
	listener := httptest.NewServer(mux)
	t.Cleanup(listener.Close)
	return &server{store: store, address: strings.TrimPrefix(listener.URL, "http://"), age: func() time.Duration { return 0 }}
}

func answer(w io.Writer, data any) {
	text, err := json.Marshal(map[string]any{"status": "success", "data": data})
	if err != nil {
		panic(err)
	}
	w.Write(text)
}

func number(value float64) sample {
	return sample{Value: []json.RawMessage{json.RawMessage("1"), json.RawMessage(fmt.Sprintf(`"%g"`, value))}}
}

func firing(alert, name string) sample {
	s := number(1)
	s.Metric = map[string]string{"alertname": alert, "name": name}
	return s
}

const (
	alertsQuery = `max by (alertname, name) (max_over_time(ALERTS{alertstate="firing"}[10m]))`
	root        = "../.."
)

func sick() []sample {
	return []sample{firing("WorkqueueStuckWorker", "uploads"), firing("WorkqueueRetryStorm", "webhooks")}
}

// TestEachDeviationIsNoticed has one thing wrong at a time.
func TestEachDeviationIsNoticed(t *testing.T) {
	const uploads, busy = `workqueue_adds_total{name="uploads"}`, `queue:workqueue_adds:rate5m`
	for _, test := range []struct {
		name, expr string
		answer     []sample
		want       string // in the error; none if empty
	}{
		{"nothing", alertsQuery, sick(), ""},
		{"an alert that does not come", alertsQuery, sick()[:1], `got ["WorkqueueStuckWorker uploads"]`},
		{"a third alert", alertsQuery, append(sick(), firing("WorkqueueBacklogGrowing", "reports")), "WorkqueueBacklogGrowing reports"},
		{"the alert of another queue", alertsQuery, []sample{sick()[0], firing("WorkqueueRetryStorm", "polls")}, "WorkqueueRetryStorm polls"},
		{"a value too high", uploads, []sample{number(21)}, "1 of"},
		{"a value too low", uploads, []sample{number(19)}, "1 of"},
		{"not a number", uploads, []sample{number(math.NaN())}, "1 of"},
		{"no value", uploads, nil, "1 of"},
		{"two values", uploads, []sample{number(20), number(20)}, "1 of"},
		{"a series that nobody expects", "names", []sample{{Metric: map[string]string{"__name__": "workqueue_new"}}}, "workqueue_new"},
		{"a rule that records nothing", busy, nil, "no data: " + busy},
		{"a rule that records no numbers", busy, []sample{number(math.NaN())}, "no data: " + busy},
		{"a panel without data", `sum(workqueue_depth{namespace=~".*", job=~".*", name=~".*"})`, nil, "Queued A: no data"},
	} {
		t.Run(test.name, func(t *testing.T) {
			answers := map[string][]sample{alertsQuery: sick(), test.expr: test.answer}
			for _, store := range []histograms{classic, native} {
				var out strings.Builder
				err := fake(t, store, answers).check(t.Context(), &out, root)
				if err == nil && test.want != "" || err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("with %s histograms: got %v, want %q\n%s", store, err, test.want, &out)
				}
			}
		})
	}
}
