package main

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed16c08ea7/workqueue"
)

// What the scripts come to, counted by hand: for each of the rounds.
func TestLoadComesToEachOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startLoad(workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{}))
		defer l.end()
		synctest.Wait()
		for l.told(t).Left > 0 {
			time.Sleep(time.Second)
		}
		got := l.told(t)
		want := map[string]int{"succeeded": 7, "failed": 2 + 10 + 2 + 1 + 3 + 1 + 1, "requeued": 3 + 2, "given_up": 3, "readded": 2, "deferred": 2}
		for outcome, n := range want {
			if got.Results[outcome] != n*rounds {
				t.Errorf("%s: got %d, want %d", outcome, got.Results[outcome], n*rounds)
			}
		}
		// Two of the failures say the time of their retry, as do two of the requeues, which are no retries.
		if n := (20 + 5 - 2) * rounds; len(got.Delays) != n || got.Limited != n-2*rounds {
			t.Errorf("%d retries, of which the limiter was asked for %d, want %d and %d", len(got.Delays), got.Limited, n, n-2*rounds)
		}
		if low, high := slices.Min(got.Delays), slices.Max(got.Delays); low >= 0.001 || high <= 0.1 {
			t.Errorf("delays are %g to %g s, want more than two decades", low, high)
		}
	})
}

func (l *load) told(t *testing.T) (c counted) {
	t.Helper()
	w := httptest.NewRecorder()
	l.ServeHTTP(w, nil)
	if err := json.Unmarshal(w.Body.Bytes(), &c); err != nil {
		t.Fatal(err)
	}
	return c
}
