package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// The kinds of violations.
const (
	lost        = "lost"             // no worker has seen the last version of an item
	lostAtEnd   = "lost at shutdown" // nor the last version accepted before the shutdown
	twoWorkers  = "two workers"      // hold one item
	leftQueued  = "left queued"      // after all workers have left
	phantom     = "phantom"          // more hand-outs of an item than adds
	disorder    = "out of order"
	lengthWrong = "wrong length" // or snapshot
	earlyDrain  = "early drain"  // returned with items queued or held
	wrongDrain  = "wrong drain"  // a wrong error of Drain or Run, or a wrong result in Run
	wrongSeries = "wrong series" // of a scrape, or left by an ended queue
	hang        = "hang"         // the round does not end, or the queue keeps items
	goroutines  = "goroutines left"
	memory      = "memory left"
	panicked    = "panic"
	died        = "process died"
)

// A tally counts the calls and the violations of a run. Its methods may be called
// concurrently. Read the fields only after all calls have returned.
type tally struct {
	mu sync.Mutex

	Rounds, Adds, Gets int
	Slowest            time.Duration // from the last add of a round until all items were done
	Goroutines         int           // more than at the start
	Heap               int64         // bytes more than at the start
	Violations         map[string]int
	Examples           map[string]string // the first of each kind
}

func newTally() *tally {
	return &tally{Violations: map[string]int{}, Examples: map[string]string{}}
}

// violation counts a violation, and keeps the text of the first of its kind.
func (t *tally) violation(kind, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Violations[kind]++; t.Violations[kind] == 1 {
		text, _, _ := strings.Cut(fmt.Sprintf(format, args...), "\n")
		t.Examples[kind] = text
	}
}

func (t *tally) violations() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, count := range t.Violations {
		n += count
	}
	return n
}

func (t *tally) count(adds, gets int, quiet time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Rounds++
	t.Adds += adds
	t.Gets += gets
	t.Slowest = max(t.Slowest, quiet)
}

// A row is a tally under a name.
type row struct {
	name string
	*tally
}

// print writes one table of the rows, and below it the first example of each
// kind of violation.
func print(w io.Writer, rows ...row) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "run\trounds\tadds\tgets\tslowest to quiet\tgoroutines\theap KiB\tviolations")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%v\t%+d\t%+d\t%s\n", r.name, r.Rounds, r.Adds, r.Gets,
			r.Slowest.Round(time.Millisecond/10), r.Goroutines, r.Heap>>10, r.summary())
	}
	table.Flush()
	for _, r := range rows {
		for _, kind := range r.kinds() {
			fmt.Fprintf(w, "%s: %s, for example: %s\n", r.name, kind, r.Examples[kind])
		}
	}
}

func (t *tally) kinds() []string {
	return slices.SortedFunc(maps.Keys(t.Violations), func(a, b string) int {
		return cmp.Or(-cmp.Compare(t.Violations[a], t.Violations[b]), cmp.Compare(a, b))
	})
}

func (t *tally) summary() string {
	if len(t.Violations) == 0 {
		return "none"
	}
	text := ""
	for _, kind := range t.kinds() {
		text += fmt.Sprintf("%d %s, ", t.Violations[kind], kind)
	}
	return text[:len(text)-2]
}
