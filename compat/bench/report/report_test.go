package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values series
		want   float64
	}{
		{series{7}, 7},
		{series{9, 1, 5}, 5},
		{series{9, 1, 5, 3}, 4},
	} {
		if got := c.values.median(); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.values, got, c.want)
		}
	}
	if got := (series{}).median(); !math.IsNaN(got) {
		t.Errorf("median of nothing: got %v, want NaN", got)
	}
}

func TestQuantity(t *testing.T) {
	for _, c := range []struct {
		value float64
		unit  string
		want  string
	}{
		{37.04, "ns/op", "37.0 ns"},
		{1234.5, "cpu-ns/item", "1234 ns"},
		{89.26e6, "p99-ns", "89.3 ms"},
		{0.0137, "B/item", "0.01 B"},
		{-0.4, "B/item", "-0.40 B"},
		{17675, "B/queue", "17.3 KiB"},
		{2, "goroutines/queue", "2"},
	} {
		if got := quantity(c.value, c.unit); got != c.want {
			t.Errorf("%v %s: got %q, want %q", c.value, c.unit, got, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	const line = "BenchmarkDelayed/impl=timer/items=64k-2 \t 1\t 52449438 ns/op\t 804.8 cpu-ns/item\t 12 B/op\n"
	values, err := parse([]byte("goos: linux\n" + line + "PASS\n"))
	if err != nil {
		t.Fatal(err)
	}
	for unit, want := range map[string]float64{"ns/op": 52449438, "cpu-ns/item": 804.8, "B/op": 12} {
		if values[unit] != want {
			t.Errorf("%s: got %v, want %v", unit, values[unit], want)
		}
	}
	if _, err := parse([]byte("PASS\n")); err == nil {
		t.Error("output without a result: got no error")
	}
	if _, err := parse([]byte(line + line)); err == nil {
		t.Error("output with two results: got no error")
	}
}

func TestSlowRounds(t *testing.T) {
	for rounds, want := range map[int]int{1: 1, 3: 1, 4: 2, 10: 3, 20: 6} {
		if got := slowRounds(rounds); got != want {
			t.Errorf("of %d rounds: got %d slow ones, want %d", rounds, got, want)
		}
	}
}

func TestLosingRowsAreMarked(t *testing.T) {
	page := string(markdown([]result{
		{scenario{section: "One goroutine", title: "won", unit: "ns/op", goals: []goal{faster(2), faster(1.9)}},
			map[string]series{ours: {50}, clientGo: {100}}},
		{scenario{section: "One goroutine", title: "lost to client-go", unit: "ns/op", goals: []goal{faster(2)}},
			map[string]series{ours: {100, 100, 101}, clientGo: {50, 40, 60}}},
		{scenario{section: "One goroutine", title: "lost to the priority queue", unit: "ns/op"},
			map[string]series{ours: {50}, clientGo: {100}, priority: {40}}},
	}, origin{}))
	for _, want := range []string{
		"| won | 50 ns (50 to 50) | 100 ns (100 to 100) | **2.00×** |",
		"| ▼ lost to client-go | 100 ns (100 to 101) | 50 ns (40 to 60) | **0.50×** |",
		"| ▼ lost to the priority queue |",
		"| won | at least 2 times client-go | 2.00 times | reached, barely |",
		"| won | at least 1.9 times client-go | 2.00 times | reached |",
		"| lost to client-go | at least 2 times client-go | 0.50 times | **missed** |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("page lacks %q:\n%s", want, page)
		}
	}
}

func TestChartIsWellFormed(t *testing.T) {
	results := make([]result, 0, len(scenarios))
	for i, s := range scenarios {
		results = append(results, result{s, map[string]series{
			ours: {100}, clientGo: {float64(80 + 60*(i%9))}, priority: {1000},
		}})
	}
	// A scenario that client-go lacks has no bar, and takes no other bar away.
	results[0].values = map[string]series{ours: {100}}
	wellFormed(t, chart(results, origin{golang: "go", cpu: "A & B"}))
}

// wellFormed fails if a length in the picture is no number, or if the picture is no XML.
func wellFormed(t *testing.T, image []byte) {
	t.Helper()
	for _, wrong := range []string{"NaN", "Inf", "-92233"} {
		if bytes.Contains(image, []byte(wrong)) {
			t.Errorf("%s in\n%s", wrong, image)
		}
	}
	for decoder := xml.NewDecoder(bytes.NewReader(image)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, image)
		}
	}
}

func TestWriteFiles(t *testing.T) {
	root := t.TempDir()
	if err := writeFiles(root, []byte("page"), []byte("image")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"BENCHMARKS.md": "page", "docs/benchmarks.svg": "image"} {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
			t.Errorf("%s: got %q and error %v, want %q", name, got, err, want)
		}
	}
}
