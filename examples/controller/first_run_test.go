package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// A first `make run` fetches and compiles this program with empty caches. At 386
// packages and 24 MB of source that took 67 s of processor time (Go 1.26.8, AMD
// EPYC); by the times of its build graph, two idle cores need 35 s. With the
// clientset, at 803 packages and 48 MB, it took 244 s on two cores. The bounds
// leave a tenth of room for the next client-go. 248 of the packages are those of
// the quickstart: the library with Prometheus, and what Go has for it.
const (
	maxPackages    = 425
	maxSourceBytes = 27_000_000
)

func TestFirstBuildStaysSmall(t *testing.T) {
	packages := goCommand(t, []string{"list", "-deps", "."})
	count, size := strings.Count(packages, "\n"), sourceBytes(t)
	t.Logf("%d packages, %d bytes of source", count, size)
	if count > maxPackages {
		t.Errorf("%d packages, want at most %d", count, maxPackages)
	}
	// Packages differ in size by a factor of a thousand, so the source is
	// bounded as well.
	if size > maxSourceBytes {
		t.Errorf("%d bytes of source, want at most %d", size, maxSourceBytes)
	}
	if strings.Contains(packages, "k8s.io/client-go/kubernetes") {
		t.Error("it needs a part of k8s.io/client-go/kubernetes, the clientset, which doubles the time")
	}
}

// sourceBytes is the size of all files that are compiled for the program.
func sourceBytes(t *testing.T) (size int64) {
	t.Helper()
	files := goCommand(t, []string{"list", "-deps", "-f", `{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}{{"\t"}}{{.}}{{"\n"}}{{end}}`, "."})
	for line := range strings.Lines(files) {
		dir, name, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return size
}

// What a newcomer sees fits a screen, is no log, and ends with the verdict.
func TestOutputFitsAScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		if err := runEmbedded(t.Context(), &out, newQueue(), options{workers: 4, seed: 1}); err != nil {
			t.Error(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if got := len(lines); got > 35 {
			t.Errorf("%d lines, want at most 35", got)
		}
		for _, line := range lines {
			if strings.Contains(line, "msg=") || len(line) > 100 {
				t.Errorf("a log or more than 100 characters in: %s", line)
			}
		}
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "CONVERGED: ") {
			t.Errorf("the last line is %s", last)
		}
	})
}
