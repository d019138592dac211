package main

import (
	"bytes"
	"fmt"
	"slices"
)

const intro = `# Benchmarks

workqueue beside client-go's queue, controller-runtime's priority queue and, as
the limit of what a queue can reach, a bare buffered channel or one runtime
timer for each item. A cell is the median of all runs and, in brackets, the
least and the most of them. A row marked ▼ is one in which a peer does better.
What each scenario does is said in compat/bench, at the benchmark of its name.

| | |
|---|---|
`

// markdown returns the whole page. Writes to a bytes.Buffer cannot fail.
func markdown(results []result, from origin) []byte {
	var page bytes.Buffer
	page.WriteString(intro)
	for _, row := range [][2]string{
		{"commit", from.commit},
		{"against", from.peers},
		{"Go", from.golang},
		{"CPU", from.cpu},
		{"date", from.date},
		{"command", "`" + from.command + "` in compat"},
		{"runs", fmt.Sprintf("%d, of %s each; %d of Memory, Lateness and Growth; by turns, each in its own process",
			from.options.rounds, from.options.benchtime, slowRounds(from.options.rounds))},
	} {
		fmt.Fprintf(&page, "| %s | %s |\n", row[0], row[1])
	}
	page.WriteString("\n| scenario | workqueue | client-go | × client-go | priority queue | channel or timer |\n")
	page.WriteString("|---|---:|---:|---:|---:|---:|\n")
	for _, s := range sections {
		rows := ofSection(results, s.name)
		if len(rows) > 0 {
			fmt.Fprintf(&page, "| **%s**: %s | | | | | |\n", s.name, s.note)
		}
		for _, row := range rows {
			writeRow(&page, row)
		}
	}
	writeGoals(&page, results)
	return page.Bytes()
}

func ofSection(results []result, name string) []result {
	return slices.DeleteFunc(slices.Clone(results), func(r result) bool { return r.section != name })
}

func writeRow(page *bytes.Buffer, row result) {
	mark := ""
	if row.lost() {
		mark = "▼ "
	}
	cell := func(impls ...string) string {
		for _, impl := range impls {
			if values := row.values[impl]; len(values) > 0 {
				return values.spread(row.unit)
			}
		}
		return ""
	}
	fmt.Fprintf(page, "| %s%s | %s | %s | **%s** | %s | %s |\n", mark, row.title,
		cell(ours), cell(clientGo), times(row.ratio(clientGo)), cell(priority), cell(channel, timer))
}

func writeGoals(page *bytes.Buffer, results []result) {
	page.WriteString("\n## Goals\n\nWhat the project set itself, judged by the medians above.\n\n")
	page.WriteString("| scenario | goal | measured | |\n|---|---|---:|---|\n")
	for _, row := range results {
		for _, g := range row.goals {
			measured, ok := g.reached(row.medians())
			verdict := map[bool]string{true: "reached", false: "**missed**"}[ok]
			fmt.Fprintf(page, "| %s | %s | %s | %s |\n", row.title, g.text, measured, verdict)
		}
	}
}
