package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// grown are results for all sizes. Ours are 100, client-go's the number of the row.
func grown() []result {
	var results []result
	for i, s := range scaleRows() {
		results = append(results, result{s, map[string]series{ours: {100}, clientGo: {float64(i)}}})
	}
	return results
}

// Rows of a benchmark stand together, so that one run gives the values of all. A unit that says
// nothing for a size has no row, and only the largest sizes have fewer rounds.
func TestScaleRows(t *testing.T) {
	rows := scaleRows()
	has := func(bench, unit string, slow bool) bool {
		return slices.ContainsFunc(rows, func(s scenario) bool { return s.bench == bench && s.unit == unit && s.slow == slow })
	}
	for _, c := range []struct {
		bench, unit string
		slow, want  bool
	}{
		{"Queues/queues=100", "ns/op", false, true},
		{"Queues/queues=100", "B/queue", false, false},
		{"Queues/queues=1000", "B/queue", false, true},
		{"Names/names=10000", "scrape-ns", false, true},
		{"Names/names=100000", "scrape-ns", true, true},
		{"Growth/state=queued/items=10000000", "ns/op", true, true},
		{"Workers/workers=10000", "ns/item", false, true},
	} {
		if got := has(c.bench, c.unit, c.slow); got != c.want {
			t.Errorf("row of %s in %s, slow %v: got %v, want %v", c.bench, c.unit, c.slow, got, c.want)
		}
	}
	results := make([]result, len(rows))
	sizes := make(map[string]bool)
	for i, s := range rows {
		results[i].scenario, sizes[s.bench] = s, true
	}
	if got := len(byBenchmark(results)); got != len(sizes) {
		t.Errorf("%d runs for %d benchmarks", got, len(sizes))
	}
}

func TestPanelsAreWellFormed(t *testing.T) {
	for name, results := range map[string][]result{
		"all":         grown(),
		"none":        nil,
		"one of each": grown()[:1],
		"nothing":     {{scaleRows()[0], map[string]series{ours: {0}, clientGo: {0}}}},
		"negative":    {{scaleRows()[0], map[string]series{ours: {-5}, clientGo: {-7}}}},
	} {
		t.Run(name, func(t *testing.T) {
			wellFormed(t, panels(results, origin{cpu: "A & B"}))
		})
	}
}

// A line has a point for each size from the left edge to the right edge, and costs nothing at the bottom.
func TestPanelPoints(t *testing.T) {
	image := string(panels(grown(), origin{}))
	lines := regexp.MustCompile(`<path class="ours" d="M[^h"]*"/>`).FindAllString(image, -1)
	want := 0
	for _, a := range axes {
		for _, m := range a.measures {
			if m.panel != "" {
				want++
			}
		}
	}
	if len(lines) != want {
		t.Errorf("%d lines of ours, want %d", len(lines), want)
	}
	if got, want := strings.Count(lines[0], "L")+1, len(axes[0].sizes); got != want {
		t.Errorf("%d points, want %d: %s", got, want, lines[0])
	}
	p := panel{x: 10, y: 20, axis: axes[0], most: 4}
	if _, y := p.point(0, 0); y != 20+panelHigh {
		t.Errorf("0 is at %v, want the bottom %v", y, 20+panelHigh)
	}
	if x, y := p.point(len(axes[0].sizes)-1, 4); x != 10+panelWide-8 || y != 20 {
		t.Errorf("the last point is at %v, %v, want the upper right corner", x, y)
	}
}

// Labels of ends that are near each other do not overlap.
func TestPanelEndsMoveApart(t *testing.T) {
	for _, c := range [][2]float64{{100, 100}, {100, 101}, {101, 100}, {100, 50}} {
		var drawn canvas
		p := panel{&drawn, 0, 0, axes[0], axes[0].measures[0], 200}
		p.ends(c[0], c[1])
		var y [2]int
		labels := regexp.MustCompile(` y="(\d+)"`).FindAllStringSubmatch(drawn.rows.String(), -1)
		if len(labels) != len(y) {
			t.Fatalf("%v: %d labels, want 2", c, len(labels))
		}
		for i, label := range labels {
			fmt.Sscan(label[1], &y[i])
		}
		if math.Abs(float64(y[0]-y[1])) < panelText-1 {
			t.Errorf("%v: labels at %v overlap", c, y)
		}
		if c[0] != c[1] && (y[0] < y[1]) != (c[0] > c[1]) {
			t.Errorf("%v: labels at %v, want the larger above", c, y)
		}
	}
}

func TestRoundUp(t *testing.T) {
	for _, c := range [][2]float64{{0, 1}, {-3, 1}, {1, 1}, {101, 150}, {151, 200}, {250, 300}, {599, 600}, {601, 800}, {801, 1000}, {0.3, 0.3}} {
		if got := roundUp(c[0]); math.Abs(got-c[1]) > 1e-9 {
			t.Errorf("roundUp(%v) = %v, want %v", c[0], got, c[1])
		}
	}
}

func TestTableOfAnAxis(t *testing.T) {
	a := axis{name: "things", bench: "Things/n=%d", sizes: []int{10, 1000, 10_000_000}, measures: []measure{
		{"a cycle", "ns/op", 0, ""},
		{"memory", "B/item", 1000, ""},
	}}
	row := func(bench, unit string, our, their float64) result {
		return result{scenario{bench: bench, unit: unit}, map[string]series{ours: {our}, clientGo: {their}}}
	}
	got := a.table([]result{
		row("Things/n=10", "ns/op", 50, 200), row("Things/n=1000", "ns/op", 60, 300), row("Things/n=10000000", "ns/op", 70, 4e6),
		row("Things/n=1000", "B/item", 8, 80), row("Things/n=10000000", "B/item", 9, 20<<10),
	})
	const want = `| things | | 10 | 1k | 10M |
|---|---|---:|---:|---:|
| a cycle | here | 50 ns | 60 ns | 70 ns |
|  | client-go | 200 ns | 300 ns | 4 ms |
| memory | here |  | 8 B | 9 B |
|  | client-go |  | 80 B | 20 KiB |
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The page in the repository has all marks, and fill keeps the text between the tables.
func TestFillThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "scaling.md"))
	if err != nil {
		t.Fatal(err)
	}
	once, err := fill(page, grown(), origin{commit: "first"})
	if err != nil {
		t.Fatal(err)
	}
	twice, err := fill(once, grown(), origin{commit: "second"})
	if err != nil {
		t.Fatal(err)
	}
	if want := bytes.Replace(once, []byte("commit first"), []byte("commit second"), 1); !bytes.Equal(twice, want) {
		t.Errorf("the second time changed more than the commit:\n%s", twice)
	}
	written := regexp.MustCompile(`(?s)<!-- measured: .*?<!-- end -->`)
	if before, after := written.ReplaceAll(page, nil), written.ReplaceAll(twice, nil); !bytes.Equal(before, after) {
		t.Errorf("text outside the marks has changed:\n%s", after)
	}
	if _, err := fill([]byte("# A page without marks\n"), grown(), origin{}); err == nil {
		t.Error("no error for a page without marks")
	}
}

func TestWriteScale(t *testing.T) {
	root := t.TempDir()
	if err := writeScale(root, grown(), origin{}); err == nil {
		t.Error("no error without a page")
	}
	var page bytes.Buffer
	for _, name := range []string{"origin", "queued items", "waiting items", "workers", "queues", "names"} {
		fmt.Fprintf(&page, "<!-- measured: %s -->\n<!-- end -->\n", name)
	}
	if err := os.Mkdir(filepath.Join(root, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "docs", "scaling.md")
	if err := os.WriteFile(file, page.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeScale(root, grown(), origin{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"scaling.md": "| here | 100 ns |", "scaling-one.svg": "</svg>"} {
		if got, err := os.ReadFile(filepath.Join(root, "docs", name)); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: error %v, or no %q in\n%s", name, err, want, got)
		}
	}
}
