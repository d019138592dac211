package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func ten(ns float64) []float64 {
	var values []float64
	for i := range 10 {
		values = append(values, (ns+float64(i)-4.5)*1e-9)
	}
	return values
}

// A row that a queue of others wins is marked, and the channel is no queue. A ~ says that the runs
// differ by chance.
func TestRowsOfTheTable(t *testing.T) {
	row := func(title string, goals []goal, values map[string][]float64) string {
		return result{scenario{section: "One goroutine", title: title, unit: "ns/op", goals: goals}, values}.String()
	}
	for want, got := range map[string]string{
		"| won | 50.00 ns (45.50 to 54.50) | 100.0 ns (95.5 to 104.5) | **2.00×** |  |  | ≥ 2×: reached, barely; ≥ 1.9×: reached |": row(
			"won", []goal{{2, clientGo}, {1.9, clientGo}}, map[string][]float64{ours: ten(50), clientGo: ten(100)}),
		"| ▼ lost to client-go | 100.0 ns (95.5 to 104.5) | 50.00 ns (45.50 to 54.50) | **0.50×** |  |  | ≥ 2×: **missed** |": row(
			"lost to client-go", []goal{{2, clientGo}}, map[string][]float64{ours: ten(100), clientGo: ten(50)}),
		"| ▼ lost to the priority queue | 50.00 ns (45.50 to 54.50) |  | **-** | 40.00 ns (35.50 to 44.50) |  |  |": row(
			"lost to the priority queue", nil, map[string][]float64{ours: ten(50), priority: ten(40)}),
		"| near | 50.00 ns (45.50 to 54.50) | 51.00 ns (46.50 to 55.50) | **1.02× ~** |  | 20.00 ns (15.50 to 24.50) | ≤ 2× the channel: **missed**; ≤ 60.00 ns: reached |": row(
			"near", []goal{{2, channel}, {60e-9, ""}}, map[string][]float64{ours: ten(50), clientGo: ten(51), channel: ten(20)}),
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	none := result{scenario{unit: "goroutines/queue", slow: true, goals: []goal{{0, ""}}}, map[string][]float64{ours: {0, 0, 0}, clientGo: {2, 2, 2}}}
	if got, want := none.String(), "|  | 0 (0 to 0) | 2 (2 to 2) | **> 100×** |  |  | ≤ 0: reached |"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTableOfAnAxis(t *testing.T) {
	a := axis{name: "things", bench: "Things/n=%d", sizes: []int{10, 1000, 10_000_000}, measures: []measure{
		{"a cycle", "ns/op", 0}, {"memory", "B/item", 1000},
	}}
	row := func(bench, unit string, our, their float64) result {
		return result{scenario{bench: bench, unit: unit}, map[string][]float64{ours: {our}, clientGo: {their}}}
	}
	got := a.table([]result{
		row("Things/n=10", "ns/op", 50e-9, 200e-9), row("Things/n=1000", "ns/op", 60e-9, 300e-9), row("Things/n=10000000", "ns/op", 70e-9, 4e-3),
		row("Things/n=1000", "B/item", 8, 80), row("Things/n=10000000", "B/item", 9, 20<<10),
	})
	const want = `| things | | 10 | 1k | 10M |
|---|---|---:|---:|---:|
| a cycle | here | 50.00 ns | 60.00 ns | 70.00 ns |
|  | client-go | 200.0 ns | 300.0 ns | 4.000 ms |
| memory | here |  | 8 B | 9 B |
|  | client-go |  | 80 B | 20.00 KiB |
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The pages in the repository have all marks, and fill keeps the text between the tables.
func TestFillThePages(t *testing.T) {
	for name, tables := range map[string]map[string]string{
		"BENCHMARKS.md": {"scenarios": table(nil), "workers": runTable(nil), "origin of workers": ""}, "docs/scaling.md": scaleTables(nil),
	} {
		file := filepath.Join(t.TempDir(), "page.md")
		page, err := os.ReadFile(filepath.Join("..", "..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, page, 0o644); err != nil {
			t.Fatal(err)
		}
		tables["origin"] = origin{commit: "abc"}.String()
		if err := fillFile(file, tables); err != nil {
			t.Fatal(err)
		}
		once, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for mark, text := range tables {
			if !bytes.Contains(once, []byte("<!-- measured: "+mark+" -->\n"+text+"<!-- end -->\n")) {
				t.Errorf("%s has no %q", name, text)
			}
		}
		written := regexp.MustCompile(`(?s)<!-- measured: .*?<!-- end -->`)
		if before, after := written.ReplaceAll(page, nil), written.ReplaceAll(once, nil); !bytes.Equal(before, after) {
			t.Errorf("%s: text outside the marks has changed:\n%s", name, after)
		}
		if err := fillFile(filepath.Join("..", "doc.go"), tables); err == nil {
			t.Error("no error for a page without marks")
		}
	}
}

// A cell has the time, and how it compares with the loop by hand of the same queue and the same number of
// workers. A loop that was not measured has empty cells.
func TestTableOfWorkers(t *testing.T) {
	row := func(bench, unit string, values map[string][]float64) result {
		return result{scenario{bench: "Run/" + bench, unit: unit}, values}
	}
	got := runTable([]result{
		row("loop=by-hand/queue=plain/workers=2", "ns/op", map[string][]float64{ours: {100e-9}, clientGo: {300e-9}}),
		row("loop=Run/queue=plain/workers=2", "ns/op", map[string][]float64{ours: {120e-9}}),
		row("loop=Run/queue=plain/workers=1", "B/op", map[string][]float64{ours: {24}}),
	})
	for _, want := range []string{
		"| plain queue, by hand | | 100.0 ns | | |\n",
		"| plain queue, Run | | 120.0 ns, 1.20 of by hand | | 24 B |\n",
		"| plain queue, client-go, by hand | | 300.0 ns, 3.00 of by hand | | |\n",
		"| Prometheus queue, Run, Timeout | | | | |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwithout %s", got, want)
		}
	}
	if strings.Contains(got, "KeepTimes queue, client-go") {
		t.Error("a queue of client-go keeps no times without metrics")
	}
}

// A row counts from 5 % on. Below that the machine's mood changes it, and where the layouts of the base
// commit differ by more, a layout can.
func TestRowsThatAreSlower(t *testing.T) {
	three := func(a, b, c float64) [layouts]float64 { return [layouts]float64{a, b, c} }
	for _, test := range []struct {
		name          string
		before, after [layouts]float64
		slower        bool
	}{
		{"4 %", three(50, 50, 51), three(52, 53, 52), false},
		{"20 %", three(50, 50, 51), three(61, 60, 60), true},
		{"within the layouts", three(50, 62, 51), three(61, 60, 60), false},
		{"faster", three(60, 60, 60), three(50, 61, 50), false},
		{"no bytes in both", three(0, 0, 0), three(0, 0, 0), false},
		{"bytes where there were none", three(0, 0, 0), three(8, 8, 8), true},
	} {
		if got := (pair{before: test.before, after: test.after}).slower(); got != test.slower {
			t.Errorf("%s: slower = %t", test.name, got)
		}
	}
	var out bytes.Buffer
	if err := writePairs(&out, "abc", []pair{{"a row", "ns/op", three(50e-9, 51e-9, 50e-9), three(60e-9, 60e-9, 61e-9)}}); err != nil {
		t.Fatal(err)
	}
	const want = "row at the base here ratio layouts of the base a row 50.00 ns 60.00 ns 1.20 1.02 ▼ 1 of 1 rows are slower than at abc."
	if got := strings.Join(strings.Fields(out.String()), " "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
