package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestChecks runs the checks with stand-ins for promtool, of which only the
// one that fails on changed rules is a good test of them.
func TestChecks(t *testing.T) {
	directory, err := filepath.Abs("../../monitoring")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, script, wantError, wantOutput string }{
		{
			"tests notice every change",
			`case $1 in test) cmp -s rules.yaml "$ORIGINAL" ;; esac`,
			"", "30 of 30 moved thresholds fail a test",
		},
		{
			"tests notice nothing", `exit 0`,
			"do not notice", "no test fails for WorkqueueStuckWorker with for: 5m: 200000ms",
		},
		{
			"tests miss the duration of one alert",
			`case $1 in test) grep -q "for: 200000ms" rules.yaml || cmp -s rules.yaml "$ORIGINAL" ;; esac`,
			"do not notice", "29 of 30",
		},
		{"tests fail", `case $1 in test) echo sad; exit 1 ;; esac`, "exit status 1", "sad"},
		{"rules are not valid", `case $1 in check) echo bad; exit 3 ;; esac`, "exit status 3", "bad"},
		{"changed rules are not valid", `cmp -s rules.yaml "$ORIGINAL"`, "exit status 1", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			bin := t.TempDir()
			script := "#!/bin/sh\n" + test.script + "\n"
			if err := os.WriteFile(filepath.Join(bin, "promtool"), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			t.Setenv("ORIGINAL", filepath.Join(directory, rulesFile))
			var out strings.Builder
			err := check(t.Context(), &out, directory)
			if err == nil && test.wantError != "" || err != nil && (test.wantError == "" || !strings.Contains(err.Error(), test.wantError)) {
				t.Errorf("got error %v, want %q", err, test.wantError)
			}
			if !strings.Contains(out.String(), test.wantOutput) {
				t.Errorf("got output\n%s\nwant %q in it", &out, test.wantOutput)
			}
		})
	}
}
