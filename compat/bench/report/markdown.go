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
How cost grows with items, workers, queues and names: [docs/scaling.md](docs/scaling.md).

| | |
|---|---|
`

const goalsIntro = `
## Goals

What the project set itself, judged by the medians above. A goal that is reached
by less than 5 % is reached barely: another run can miss it, see the end of the
page.

`

// limits says what stands between the rows above and their goals. Its figures
// come from profiles and from skeletons of the operations, not from the run.
const limits = `
## Limits

What the operations of one goroutine are made of, on two cores of an Intel Xeon on
2026-11-21:

| | cycle, string key | Add of the queued item |
|---|---:|---:|
| Lock and Unlock without contention | 31 ns, three pairs | 10 ns, one pair |
| maphash.Comparable | 6 ns, twice | 3 ns |
| all else: index, record, line, held items | 15 ns | 4 ns |
| in all | 52 ns | 17 ns |

So 71 % of a cycle and 76 % of an add are a mutex and a hash, which client-go
has as well. The add cannot do without the lock: an Add that finds its item
queued must come before the Get that takes it, which a look without the lock does
not establish.

Behind 32k queued items a cycle takes some 29 ns more by its profile, as its key,
slots and record are in no near cache and its branches cannot be foreseen: 9 ns
where a removal closes the gap in the index, 6 in the probes, 5 in the hashes, and
the rest in a little of everything. Whether that is 2.7 times as fast as
client-go is a matter of the run: in the four below our median was 82 to 87 ns,
and that of client-go 214 to 270.

With many goroutines the lock is the limit. An item passes three sections of
some 15 ns on it, by three calls; a CPU profile of 1 producer and 8 workers on
two processors has 27 % in the pauses of those who found it locked, 21 % in
TryLock and Unlock, where processors wait for the cache line, and 28 % in the
sections. One goroutine that does everything alone takes 52 to 80 ns an item,
which is less than any crew. What is left to gain lies in fewer sections, which
three calls do not allow, or in more than one lock, which the order of the line
does not.

In a flood of AddAfter that leaves no processor free, the remaining delay comes
from the kernel's scheduler. Goroutines that sleep for the lock let threads
sleep, 10,000 times in two seconds, and a thread that is woken waits for 3 ms
behind the one that has woken it: 1 of 100 items was 4 ms late beside 8 producers,
before AddAfter kept its goroutines awake. The maximum comes from the growth of
the flood, to four million items in two seconds. Some 15 of its calls hold the
lock for 0.3 to 3 ms: those that touch a new index for the first time, and those
that a garbage collection has assist it.

Runs of the whole differ, as machines are shared. In four on those two cores the
cycle was 2.27, 2.38, 2.29 and 2.36 times as fast as client-go's, and the backlog
2.81, 3.09, 2.54 and 2.60: two of the four missed the goal of 2.3, and two that of
2.7.
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
		{"runs", fmt.Sprintf("%d, of %s each; %d of Memory and Lateness; by turns, each in its own process",
			from.options.rounds, from.options.benchtime, slowRounds(from.options.rounds))},
	} {
		fmt.Fprintf(&page, "| %s | %s |\n", row[0], row[1])
	}
	page.WriteString("\n| scenario | workqueue | client-go | × client-go | priority queue | channel or timer |\n")
	page.WriteString("|---|---:|---:|---:|---:|---:|\n")
	for _, s := range sections {
		rows := ofSection(results, s.name)
		if len(rows) > 0 {
			note := s.note
			if rows[0].slow {
				note += fmt.Sprintf(" Medians of %d runs.", slowRounds(from.options.rounds))
			}
			fmt.Fprintf(&page, "| **%s**: %s | | | | | |\n", s.name, note)
		}
		for _, row := range rows {
			writeRow(&page, row)
		}
	}
	writeGoals(&page, results)
	page.WriteString(limits)
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
	page.WriteString(goalsIntro)
	page.WriteString("| scenario | goal | measured | |\n|---|---|---:|---|\n")
	for _, row := range results {
		for _, g := range row.goals {
			measured, margin := g.judge(row.medians())
			fmt.Fprintf(page, "| %s | %s | %s | %s |\n", row.title, g.text, measured, verdict(margin))
		}
	}
}
