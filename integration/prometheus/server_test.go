package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
)

// fake returns a Prometheus with these answers. Any other query has the answer 1.
func fake(t *testing.T, answers map[string][]sample) *server {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, data any) {
		json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data})
	}
	mux.HandleFunc("GET /api/v1/query", func(w http.ResponseWriter, r *http.Request) {
		samples, ok := answers[r.URL.Query().Get("query")]
		if !ok {
			samples = []sample{number(1)}
		}
		answer(w, map[string]any{"result": samples})
	})
	mux.HandleFunc("GET /api/v1/alerts", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, json.RawMessage(`{"alerts": [
			{"state": "firing", "labels": {"job": "j", "alertname": "A", "name": "q"}, "annotations": {"summary": "why", "action": "what"}},
			{"state": "pending", "labels": {"job": "j", "alertname": "B", "name": "q"}, "annotations": {"summary": "why"}}]}`))
	})
	mux.HandleFunc("GET /api/v1/label/__name__/values", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, []string{"workqueue_depth"})
	})
	listener := httptest.NewServer(mux)
	t.Cleanup(listener.Close)
	return &server{address: strings.TrimPrefix(listener.URL, "http://")}
}

func number(value float64) sample {
	return sample{Value: []json.RawMessage{json.RawMessage("1"), json.RawMessage(fmt.Sprintf(`"%g"`, value))}}
}

func labelled(labels ...string) sample {
	s := number(1)
	s.Metric = make(map[string]string)
	for i := 0; i < len(labels); i += 2 {
		s.Metric[labels[i]] = labels[i+1]
	}
	return s
}

// expect fails unless the error has the text, or is nil for the empty text.
func expect(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}

func TestWrongFigureIsNoticed(t *testing.T) {
	for name, test := range map[string]struct {
		answer []sample
		want   string
	}{
		"as expected":  {[]sample{number(3)}, ""},
		"too high":     {[]sample{number(4.1)}, "got 4.1"},
		"too low":      {[]sample{number(1.9)}, "got 1.9"},
		"not a number": {[]sample{number(math.NaN())}, "got NaN"},
		"no value":     {nil, "0 samples"},
		"two values":   {[]sample{number(3), number(3)}, "2 samples"},
	} {
		var out strings.Builder
		err := fake(t, map[string][]sample{"a": test.answer}).check(t.Context(), &out, "it", []figure{between(2, 4, "a"), exactly("b", 1)})
		expect(t, name, err, test.want)
		if want := map[bool]string{true: "2 of 2", false: "1 of 2"}[test.want == ""]; !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: printed %s", name, &out)
		}
	}
	expect(t, "no figures", fake(t, nil).check(t.Context(), io.Discard, "it", nil), "nothing is expected")
}

func TestQueryWithoutDataIsNoticed(t *testing.T) {
	exprs := []expression{{"panel A", "a"}}
	without, with := fake(t, map[string][]sample{"a": nil}), fake(t, nil)
	nan := fake(t, map[string][]sample{"a": {number(math.NaN())}})
	expect(t, "no sample", checkData(t.Context(), io.Discard, "queries", exprs, without), "panel A: no data: a")
	expect(t, "no number", checkData(t.Context(), io.Discard, "queries", exprs, nan), "panel A: no data: a")
	expect(t, "one of two servers", checkData(t.Context(), io.Discard, "queries", exprs, without, with), "")
	expect(t, "no queries", checkData(t.Context(), io.Discard, "queries", nil, with), "found no queries")
}

func TestWrongAlertsAreNoticed(t *testing.T) {
	a, b := labelled("alertname", "A", "name", "q"), labelled("alertname", "B", "name", "q")
	for name, test := range map[string]struct {
		fired []sample
		want  []alert
		err   string
	}{
		"as expected":    {[]sample{a}, []alert{{"A", "q", "why"}}, ""},
		"what to do":     {[]sample{a}, []alert{{"A", "q", "what"}}, ""},
		"another text":   {[]sample{a}, []alert{{"A", "q", "who"}}, `A of the queue q does not say "who": why`},
		"fired, and now": {[]sample{b}, []alert{{"B", "q", "why"}}, `B of the queue q does not say "why"`},
		"one is missing": {[]sample{a}, []alert{{"A", "q", ""}, {"B", "q", ""}}, `got ["A q"]`},
		"one too many":   {[]sample{b, a}, []alert{{"A", "q", ""}}, `got ["A q" "B q"]`},
		"another queue":  {[]sample{a}, []alert{{"A", "p", ""}}, `want ["A p"], got ["A q"]`},
	} {
		s := fake(t, map[string][]sample{fmt.Sprintf(firing, "j"): test.fired})
		expect(t, name, s.checkAlerts(t.Context(), io.Discard, "j", test.want, 0), test.err)
	}
}

func TestSeriesWithoutFigureIsNoticed(t *testing.T) {
	s := fake(t, nil)
	expect(t, "a figure", s.checkNothingMissing(t.Context(), []figure{exactly(`sum(workqueue_depth{name="a"})`, 1)}), "")
	expect(t, "none", s.checkNothingMissing(t.Context(), []figure{exactly("workqueue_adds_total", 1)}), "workqueue_depth")
}

// With the answer 1 to everything, series are missing and most figures are wrong.
func TestControllersThatDifferAreNoticed(t *testing.T) {
	err := fake(t, nil).checkControllers(t.Context(), io.Discard, 60)
	expect(t, "a series", err, "have no series")
	expect(t, "a figure of ours", err, `workqueue_depth{name="ours-still", controller="ours-still", priority="-100"}: got 1`)
	expect(t, "a figure of theirs", err, `workqueue_adds_total{name="theirs-still", controller="theirs-still"}: got 1`)
}

func TestCountsOfALoadBecomeFigures(t *testing.T) {
	results := map[string]int{"succeeded": 5, "failed": 4, "requeued": 3, "given_up": 2, "readded": 1, "deferred": 1}
	all, err := ofRun("own", counted{Results: results, Delays: []float64{0.0005, 0.005, 0.05, 5}, Limited: 3})
	expect(t, "a load at rest", err, "")
	for _, want := range []figure{
		exactly(`workqueue_results_total{job="own", name="run", result="failed"}`, 4),
		exactly(`workqueue_work_duration_seconds_count{job="own", name="run"}`, 16),
		exactly(`workqueue_retry_delay_seconds_bucket{job="own", name="run", le="0.01"}`, 2),
		exactly(`workqueue_rate_limited_total{job="own", name="run"}`, 3),
		exactly(`workqueue_retry_delay_seconds_count{job="own", name="run"}`, 4),
	} {
		found := false
		for _, f := range all {
			found = found || f == want
		}
		if !found {
			t.Errorf("no %v in %v", want, all)
		}
	}
	_, err = ofRun("own", counted{Results: map[string]int{"succeeded": 5}, Delays: []float64{5}, Left: 1})
	expect(t, "a load at work", err, "1 items are not settled")
	expect(t, "a missing outcome", err, "no result requeued")
	expect(t, "delays in one bucket", err, "0 of 1 delays are up to 0.1")
}

// Queries are found in the rows of a dashboard too.
func TestPublishedDashboardIsNoticedIfItIsAnother(t *testing.T) {
	named := func(exprs ...string) (p panel) {
		for _, e := range exprs {
			p.Targets = append(p.Targets, target{Expr: e})
		}
		return p
	}
	row := panel{Type: "row", Panels: []panel{named(`workqueue_depth{name=~"$Controller"}`)}}
	d := &dashboard{Panels: []panel{named(publishedTopics[1:]...), named("go_goroutines"), row}}
	d.Templating.List = []variable{{Name: "Controller"}}
	about, err := queriesAbout(d, "ours")
	expect(t, "all topics", err, "")
	if want := `workqueue_depth{name=~"ours-(busy|still)"}`; len(about) != len(publishedTopics) || about[len(about)-1].expr != want {
		t.Errorf("got %v, want %s as the last one", about, want)
	}
	_, err = queriesAbout(&dashboard{Panels: []panel{named("go_goroutines")}}, "ours")
	expect(t, "no topic", err, "has no query of workqueue_retries_total")
}

func TestProcessTellsAndEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var all processes
	got, err := all.start(ctx, exec.CommandContext(ctx, "sh", "-c", "echo hello; echo port 7; exec sleep 60"), `port (\d+)`)
	if got != "7" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	cancel()
	expect(t, "ended by the context", all.wait(), "")
}

func TestProcessThatEndsOnItsOwnIsAnError(t *testing.T) {
	for script, want := range map[string]string{
		"echo no space left; exit 3":      "exit status 3",
		"echo no space left":              "no space left",
		"echo port 7; exit 3":             "exit status 3",
		"echo port 7 >&2; kill -9 \"$$\"": "signal: killed",
	} {
		var all processes
		got, err := all.start(t.Context(), exec.CommandContext(t.Context(), "sh", "-c", script), `port (\d+)`)
		if ended := all.wait(); err == nil && got == "7" {
			err = ended
		}
		expect(t, script, err, want)
	}
}
