package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// An axis is what grows. The page has a table for each axis.
type axis struct {
	name     string // as between the marks in the page
	bench    string // with a verb for the size
	sizes    []int
	slow     bool // the largest size takes seconds
	measures []measure
}

// A measure is a unit of the benchmark. Below the size from, the unit says nothing: the heap
// itself varies by some kilobytes. A measure with a panel is in the picture.
type measure struct {
	title, unit string
	from        int
	panel       string
}

var axes = []axis{
	{"queued items", "Growth/state=queued/items=%d", powers(1_000, 10_000_000), true, []measure{
		{"an Add, a Get and a Done", "ns/op", 0, "A cycle, by queued items"},
		{"memory of an item, a number", "B/item", 10_000, ""},
	}},
	{"waiting items", "Growth/state=waiting/items=%d", powers(1_000, 10_000_000), true, []measure{
		{"an AddAfter, while they gather", "ns/item", 0, "An AddAfter, by waiting items"},
		{"memory of an item, a number", "B/item", 10_000, ""},
	}},
	{"workers", "Workers/workers=%d", powers(1, 10_000), false, []measure{
		{"an item from 4 producers", "ns/item", 0, "An item, by workers"},
		{"memory of a worker in Get", "B/worker", 100, ""},
	}},
	{"queues", "Queues/queues=%d", powers(1, 100_000), false, []measure{
		{"a cycle, by turns", "ns/op", 0, "A cycle, by queues"},
		{"memory of an idle queue", "B/queue", 1000, ""},
		{"the same, with an item that waits", "B/waiting-queue", 1000, ""},
		{"goroutines of an idle queue", "goroutines/queue", 0, ""},
		{"the same, with an item that waits", "goroutines/waiting-queue", 0, ""},
	}},
	{"names", "Names/names=%d", powers(1, 100_000), true, []measure{
		{"a cycle, by turns", "ns/op", 0, "A cycle, by names in the metrics"},
		{"memory of a queue and its series", "B/name", 1000, ""},
		{"goroutines of an idle queue", "goroutines/name", 0, ""},
		{"CPU time of a second without work", "idle-ns", 1000, ""},
		{"a scrape", "scrape-ns", 0, ""},
		{"longest wait of a constructor meanwhile", "wait-ns", 0, ""},
		{"a scrape, for each name", "scrape-ns/name", 100, "A scrape for each name, by names"},
	}},
}

func powers(from, to int) []int {
	var sizes []int
	for n := from; n <= to; n *= 10 {
		sizes = append(sizes, n)
	}
	return sizes
}

// scaleRows are the rows of all axes. Each row has one size.
func scaleRows() []scenario {
	var rows []scenario
	for _, a := range axes {
		for i, size := range a.sizes {
			for _, m := range a.measures {
				if size >= m.from {
					rows = append(rows, scenario{section: a.name, title: m.title, bench: fmt.Sprintf(a.bench, size), unit: m.unit,
						peers: noPrio, slow: a.slow && i == len(a.sizes)-1})
				}
			}
		}
	}
	return rows
}

// A curve is a measure of an implementation, by the sizes of the axis.
// Sizes that were not measured are NaN.
type curve []float64

func (a axis) curve(m measure, impl string, results []result) curve {
	values := make(curve, len(a.sizes))
	for i, size := range a.sizes {
		values[i] = math.NaN()
		for _, r := range results {
			if r.bench == fmt.Sprintf(a.bench, size) && r.unit == m.unit {
				values[i] = r.values[impl].median()
			}
		}
	}
	return values
}

// table has two lines for each measure: ours, and that of client-go.
func (a axis) table(results []result) string {
	var t strings.Builder
	t.WriteString("| " + a.name + " | |")
	for _, size := range a.sizes {
		fmt.Fprintf(&t, " %s |", short(size))
	}
	t.WriteString("\n|---|---|" + strings.Repeat("---:|", len(a.sizes)) + "\n")
	for _, m := range a.measures {
		for i, impl := range noPrio {
			fmt.Fprintf(&t, "| %s | %s |", []string{m.title, ""}[i], []string{"here", clientGo}[i])
			for _, value := range a.curve(m, impl, results) {
				fmt.Fprintf(&t, " %s |", known(value, m.unit))
			}
			t.WriteString("\n")
		}
	}
	return t.String()
}

func known(value float64, unit string) string {
	if math.IsNaN(value) {
		return ""
	}
	return quantity(value, unit)
}

func short(n int) string {
	switch {
	case n >= million:
		return fmt.Sprintf("%dM", n/million)
	case n >= 1000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

const million = 1_000_000

// fill writes the tables and the origin into the page, between marks such as
//
//	<!-- measured: workers -->
//	<!-- end -->
//
// An error names the mark that the page lacks. The rest of the page is written by hand.
func fill(page []byte, results []result, from origin) ([]byte, error) {
	tables := map[string]string{"origin": from.sentence()}
	for _, a := range axes {
		tables[a.name] = a.table(results)
	}
	for name, table := range tables {
		begin, end := []byte("<!-- measured: "+name+" -->\n"), []byte("<!-- end -->\n")
		before, rest, found := bytes.Cut(page, begin)
		_, after, closed := bytes.Cut(rest, end)
		if !found || !closed {
			return nil, fmt.Errorf("docs/scaling.md has no %q with an end", begin)
		}
		page = bytes.Join([][]byte{before, begin, []byte(table), end, after}, nil)
	}
	return page, nil
}

func (from origin) sentence() string {
	return fmt.Sprintf("Measured by `make scale` on %s at commit %s, against %s.\n%s, %s. Medians of %d runs by turns; of %d for the\nlargest number of queued items, waiting items and names.\n",
		from.date, from.commit, from.peers, from.golang, from.cpu, from.options.rounds, slowRounds(from.options.rounds))
}

// writeScale rewrites docs/scaling.md and docs/scaling-one.svg.
func writeScale(root string, results []result, from origin) error {
	file := filepath.Join(root, "docs", "scaling.md")
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if page, err = fill(page, results, from); err != nil {
		return err
	}
	if err := os.WriteFile(file, page, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs", "scaling-one.svg"), panels(results, from), 0o644)
}
