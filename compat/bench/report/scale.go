package main

import (
	"fmt"
	"math"
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
// itself varies by some kilobytes.
type measure struct {
	title, unit string
	from        int
}

var axes = []axis{
	{"queued items", "Growth/state=queued/items=%d", powers(1_000, 10_000_000), true, []measure{
		{"an Add, a Get and a Done", "ns/op", 0},
		{"memory of an item, a number", "B/item", 10_000},
	}},
	{"waiting items", "Growth/state=waiting/items=%d", powers(1_000, 10_000_000), true, []measure{
		{"an AddAfter, while they gather", "ns/item", 0},
		{"memory of an item, a number", "B/item", 10_000},
	}},
	{"workers", "Workers/workers=%d", powers(1, 10_000), false, []measure{
		{"an item from 4 producers", "ns/item", 0},
		{"memory of a worker in Get", "B/worker", 100},
	}},
	{"queues", "Queues/queues=%d", powers(1, 100_000), false, []measure{
		{"a cycle, by turns", "ns/op", 0},
		{"memory of an idle queue", "B/queue", 1000},
		{"the same, with an item that waits", "B/waiting-queue", 1000},
		{"goroutines of an idle queue", "goroutines/queue", 0},
		{"the same, with an item that waits", "goroutines/waiting-queue", 0},
	}},
	{"names", "Names/names=%d", powers(1, 100_000), true, []measure{
		{"a cycle, by turns", "ns/op", 0},
		{"memory of a queue and its series", "B/name", 1000},
		{"goroutines of an idle queue", "goroutines/name", 0},
		{"CPU time of a second without work", "idle-ns", 1000},
		{"a scrape", "scrape-ns", 0},
		{"longest wait of a constructor meanwhile", "wait-ns", 0},
		{"a scrape, for each name", "scrape-ns/name", 100},
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

// scaleTables returns the table of each axis. A measure has two lines: ours, and that of client-go.
func scaleTables(results []result) map[string]string {
	tables := make(map[string]string)
	for _, a := range axes {
		tables[a.name] = a.table(results)
	}
	return tables
}

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
			for _, size := range a.sizes {
				fmt.Fprintf(&t, " %s |", m.at(fmt.Sprintf(a.bench, size), impl, results))
			}
			t.WriteString("\n")
		}
	}
	return t.String()
}

// at returns the median of a benchmark, and nothing for a benchmark that was not measured.
func (m measure) at(bench, impl string, results []result) string {
	for _, r := range results {
		if r.bench == bench && r.unit == m.unit && !math.IsNaN(r.median(impl)) {
			return quantity(r.median(impl), m.unit)
		}
	}
	return ""
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
