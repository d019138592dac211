package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	if got := faster(rules, 100); got != want {
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
	got := mutants(rules)
	if len(got) != len(want) {
		t.Fatalf("got %d mutants, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		if m := got[i]; m.alert != w.alert || m.rules != strings.Replace(rules, w.old, w.new, 1) {
			t.Errorf("mutant %d is %s, %s; want %s of %s", i, m.alert, m.change, w.new, w.alert)
		}
	}
	if got := mutants("groups: []"); len(got) != 0 {
		t.Errorf("without alerts: %+v", got)
	}
}

// A shell script stands in for promtool. checkRules fails unless every change of the rules
// makes the tests of the rules fail.
func TestRulesWhoseTestsMissAChangeAreNoticed(t *testing.T) {
	for _, test := range []struct{ name, script, wantError, wantOutput string }{
		{
			"tests notice every change",
			`case $1 in test) cmp -s rules.yaml "$ORIGINAL" ;; esac`,
			"", "68 of 68 moved thresholds fail a test",
		},
		{
			"tests miss a duration of 5m",
			`case $1 in test) grep -q "for: 200000ms" rules.yaml || cmp -s rules.yaml "$ORIGINAL" ;; esac`,
			"do not notice", "no test fails for WorkqueueShutDown with for: 5m: 200000ms\n64 of 68",
		},
		{"tests fail", `case $1 in test) echo sad; exit 1 ;; esac`, "exit status 1", "sad"},
		{"rules are not valid", `case $1 in check) echo bad; exit 3 ;; esac`, "exit status 3", "bad"},
		{"changed rules are not valid", `cmp -s rules.yaml "$ORIGINAL"`, "exit status 1", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			bin := t.TempDir()
			if err := os.WriteFile(filepath.Join(bin, "promtool"), []byte("#!/bin/sh\n"+test.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			original, err := filepath.Abs(filepath.Join(root, "monitoring", rulesFile))
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			t.Setenv("ORIGINAL", original)
			var out strings.Builder
			err = checkRules(t.Context(), &out, root)
			if err == nil && test.wantError != "" || err != nil && (test.wantError == "" || !strings.Contains(err.Error(), test.wantError)) {
				t.Errorf("got error %v, want %q", err, test.wantError)
			}
			if !strings.Contains(out.String(), test.wantOutput) {
				t.Errorf("got output\n%s\nwant %q in it", &out, test.wantOutput)
			}
		})
	}
}

// A mutant is tried on the groups of tests that name its alert.
func TestGroupsOfAnAlert(t *testing.T) {
	const tests = "rule_files: [rules.yaml]\ntests:\n  # First.\n  - name: a\n    - {alertname: X}\n  - name: b\n    - {alertname: Y}\n  - name: c\n    - alertname: Y\n    - alertname: X\n"
	want := "rule_files: [rules.yaml]\ntests:\n  # First.\n  - name: a\n    - {alertname: X}\n  - name: c\n    - alertname: Y\n    - alertname: X\n"
	if got := groupsOf(tests, "X"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
