package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed16c08ea7/workqueue"
)

// What the loads have done at 30.65 s, when no delay of theirs ends.
const at30650ms = `
workqueue_abandoned_total{state="in_flight"} 1
workqueue_abandoned_total{state="queued"} 3
workqueue_abandoned_total{state="waiting"} 2
workqueue_adds_total{name="thumbnails"} 1685
workqueue_adds_total{name="uploads"} 20
workqueue_depth{name="reports"} 5
workqueue_depth{name="uploads"} 0
workqueue_depth{name="webhooks"} 0
workqueue_duplicates_total{name="uploads"} 5
workqueue_in_flight{name="reports"} 1
workqueue_in_flight{name="uploads"} 1
workqueue_lateness_seconds_count{name="polls"} 976
workqueue_lateness_seconds_count{name="uploads"} 0
workqueue_longest_running_processor_seconds{name="uploads"} 30.65
workqueue_oldest_item_age_seconds{name="reports"} 4.65
workqueue_oldest_item_age_seconds{name="uploads"} 0
workqueue_queue_duration_seconds_count{name="uploads"} 20
workqueue_rate_limited_total{name="polls"} 0
workqueue_rate_limited_total{name="thumbnails"} 154
workqueue_rate_limited_total{name="uploads"} 0
workqueue_rate_limited_total{name="webhooks"} 6140
workqueue_retries_total{name="uploads"} 3
workqueue_unfinished_work_seconds{name="uploads"} 30.65
workqueue_waiting{name="polls"} 8
workqueue_waiting{name="uploads"} 3
workqueue_waiting{name="webhooks"} 20
workqueue_work_duration_seconds_count{name="uploads"} 19
workqueue_workers{name="polls"} 2
workqueue_workers{name="reports"} 1
workqueue_workers{name="thumbnails"} 2
workqueue_workers{name="uploads"} 2
workqueue_workers{name="webhooks"} 4
`

func TestLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		registry := prometheus.NewRegistry()
		wait := start(ctx, workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{}))
		time.Sleep(30650 * time.Millisecond)
		synctest.Wait()

		got := scrape(t, handler(registry))
		for want := range strings.Lines(strings.TrimSpace(at30650ms)) {
			if want = strings.TrimSpace(want); !slices.Contains(got, want) {
				series, _, _ := strings.Cut(want, " ")
				at := slices.IndexFunc(got, func(line string) bool { return strings.HasPrefix(line, series+" ") })
				t.Errorf("want %s, got %s", want, got[max(0, at)])
			}
		}
		cancel()
		wait()
		for _, line := range scrape(t, handler(registry)) {
			if strings.Contains(line, "{name=") {
				t.Error("left behind:", line)
			}
		}
	})
}

func scrape(t *testing.T, h http.Handler) []string {
	t.Helper()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatal(answer.Code, answer.Body)
	}
	return strings.Split(answer.Body.String(), "\n")
}

func TestServesUntilTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- run(ctx, listener) }()
	for path, want := range map[string]string{
		"/metrics":                       `workqueue_adds_total{name="uploads"} 20`,
		"/debug/pprof/goroutine?debug=2": "metrics.work(",
	} {
		// The server may answer before the workers have begun.
		for tries := 1; ; tries++ {
			body := get(t, "http://"+listener.Addr().String()+path)
			if bytes.Contains(body, []byte(want)) {
				break
			}
			if tries == 10_000 {
				t.Fatalf("%s: no %q in\n%s", path, want, body)
			}
			time.Sleep(time.Millisecond)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func get(t *testing.T, url string) []byte {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
