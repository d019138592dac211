package rulefile_test

import (
	"strings"
	"testing"

	"github.com/seed16c08ea7/workqueue/integration/internal/rulefile"
)

const rules = `groups:
  - name: recording
    rules:
      - record: a:rate5m
        expr: sum(rate(a[5m] offset 1h)) > 7
  - name: alerts
    rules:
      - alert: First
        expr: |
          b > 600 # seconds
          unless
          b <= on (job)
          4 * max_over_time(a:rate5m[1d])
        for: 10m
        labels: {severity: warning}
        annotations:
          summary: Held for more than 10 minutes, > 600
      - alert: Second
        expr: delta(c[10m]) > 0.02 * c
        for: 30s
        labels: {severity: warning}
`

func TestFaster(t *testing.T) {
	want := strings.NewReplacer(
		"[5m]", "[3000ms]", "offset 1h", "offset 36000ms", "600 # seconds", "6 # seconds", "[1d]", "[864000ms]",
		"for: 10m", "for: 6000ms", "[10m]", "[6000ms]", "for: 30s", "for: 300ms").Replace(rules)
	if got := rulefile.Faster(rules, 100); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMutants(t *testing.T) {
	want := []struct{ alert, old, new string }{
		{"First", "> 600 # seconds", "> 400 # seconds"},
		{"First", "> 600 # seconds", "> 800 # seconds"},
		{"First", "4 * max", "2.66667 * max"},
		{"First", "4 * max", "5.33333 * max"},
		{"First", "for: 10m", "for: 400000ms"},
		{"First", "for: 10m", "for: 800000ms"},
		{"Second", "> 0.02 *", "> 0.0133333 *"},
		{"Second", "> 0.02 *", "> 0.0266667 *"},
		{"Second", "for: 30s", "for: 20000ms"},
		{"Second", "for: 30s", "for: 40000ms"},
	}
	got := rulefile.Mutants(rules)
	if len(got) != len(want) {
		t.Fatalf("got %d mutants, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		if m := got[i]; m.Alert != w.alert || m.Rules != strings.Replace(rules, w.old, w.new, 1) {
			t.Errorf("mutant %d is %s, %s; want %s of %s", i, m.Alert, m.Change, w.new, w.alert)
		}
	}
	if got := rulefile.Mutants("groups: []"); len(got) != 0 {
		t.Errorf("without alerts: %+v", got)
	}
}
