package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A picture shows what its page says.
func TestPicturesAreOfTheirPages(t *testing.T) {
	root := filepath.Join("..", "..")
	waits, err := fairnessWaits(root)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for picture, draw := range map[string]func() ([]byte, error){
		"docs/benchmarks.svg":            func() ([]byte, error) { return drawBenchmarks(read("BENCHMARKS.md")) },
		"docs/scaling-one.svg":           func() ([]byte, error) { return drawScaling(read("docs/scaling.md")) },
		"examples/fairness/fairness.svg": func() ([]byte, error) { return drawFairness(waits) },
	} {
		want, err := draw()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(read(picture), want) {
			t.Errorf("%s is not of its page: make pictures", picture)
		}
		wellFormed(t, picture, want)
	}
	wellFormed(t, "docs/scaling.svg", read("docs/scaling.svg"))
}

// wellFormed fails if a picture is no XML, has a length that is no number, or has a colour for which
// the dark style sheet has none.
func wellFormed(t *testing.T, name string, svg []byte) {
	t.Helper()
	for decoder := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if i := bytes.Index(svg, []byte("NaN")); i >= 0 {
		t.Errorf("%s: NaN in %s", name, svg[max(0, i-80):i+3])
	}
	for _, colour := range regexp.MustCompile(`(?:fill|stroke):#[0-9A-F]{6}\b`).FindAllString(string(svg), -1) {
		if !strings.Contains(string(svg), `[style*="`+colour+`"]`) {
			t.Errorf("%s: a dark background has no %s", name, colour)
		}
	}
}

func TestReplicas(t *testing.T) {
	svg, err := drawReplicas([]byte("phase,slots without an owner,writes a second\n1,0,200\n1,3,220\n2,0,210\n"))
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, "replicas", svg)
	if got := bytes.Count(svg, []byte("> 2</text>")); got != 2 {
		t.Errorf("%d marks of the second phase, want one in each panel:\n%s", got, svg)
	}
}

func TestValue(t *testing.T) {
	for cell, want := range map[string]float64{
		"43.4 ns (40.9 to 49.9)": 43.4e-9, "1.82 µs": 1.82e-6, "4.29 ms (2.95 to 6.42)": 4.29e-3, "15.2 s": 15.2,
		"17.4 KiB (17.4 to 17.4)": 17.4 * 1024, "1496 B": 1496, "0 (0 to 0)": 0, "-0.40 B": -0.4,
	} {
		if got, err := value(cell); err != nil || math.Abs(got-want) > math.Abs(want)*1e-9 {
			t.Errorf("%q: got %v, %v, want %v", cell, got, err, want)
		}
	}
	if got, err := value(""); err != nil || !math.IsNaN(got) {
		t.Errorf("an empty cell: got %v, %v, want NaN", got, err)
	}
	for _, cell := range []string{"fast", "3 parsecs", "1.2.3 ns"} {
		if got, err := value(cell); err == nil {
			t.Errorf("%q: got %v, want an error", cell, got)
		}
	}
}

// The head of a section is a row. A scenario that client-go lacks, and sections that are not drawn, are none.
func TestBars(t *testing.T) {
	const page = `<!-- measured: scenarios -->
| scenario | workqueue | client-go | × client-go | priority queue | channel or timer | goal |
|---|---:|---:|---:|---:|---:|---|
| **One goroutine**: Time. | | | | | | |
| a ` + "`cycle`" + ` | 50 ns (1 to 2) | 100 ns | **2.00×** | 200 ns |  |  |
| ▼ lost | 50 ns | 25 ns | **0.50× ~** |  |  |  |
| of Run | 50 ns |  | **-** |  |  |  |
| **Memory**: Bytes. | | | | | | |
| an item | 0 B | 100 B | **> 100×** |  |  |  |
<!-- end -->
`
	got, err := bars([]byte(page))
	if err != nil {
		t.Fatal(err)
	}
	want := []bar{{title: "One goroutine", head: true}, {title: "a cycle", ours: 2, theirs: 0.5}, {title: "lost", ours: 0.5, theirs: math.NaN()}}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i, w := range want[1:] {
		g := got[i+1]
		if g.title != w.title || g.ours != w.ours || g.theirs != w.theirs && !math.IsNaN(w.theirs) || math.IsNaN(w.theirs) != math.IsNaN(g.theirs) {
			t.Errorf("got %v, want %v", g, w)
		}
	}
	if got[0].title != want[0].title || !got[0].head {
		t.Errorf("got %v, want the head", got[0])
	}
}

func TestPagesWithoutATable(t *testing.T) {
	for name, draw := range map[string]func([]byte) ([]byte, error){
		"benchmarks": drawBenchmarks, "scaling": drawScaling, "fairness": drawFairness, "replicas": drawReplicas,
	} {
		for _, text := range []string{"", "# A page\n", "<!-- measured: scenarios -->\n<!-- end -->\n", "order,tenant\n1,2\n"} {
			if _, err := draw([]byte(text)); err == nil {
				t.Errorf("%s of %q: no error", name, text)
			}
		}
	}
}
