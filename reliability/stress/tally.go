package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// The kinds of violations.
const (
	lost        = "lost"             // no worker has seen the last version of an item
	lostAtEnd   = "lost at shutdown" // nor the last version accepted before the shutdown
	twoWorkers  = "two workers"      // hold one item
	leftQueued  = "left queued"      // after all workers have left
	phantom     = "phantom"          // more hand-outs of an item than adds
	lengthWrong = "wrong length"     // or snapshot
	earlyDrain  = "early drain"      // returned with items queued or held
	wrongDrain  = "wrong drain"      // a wrong error of Drain or Run, or a wrong result in Run
	wrongSeries = "wrong series"     // of a scrape, or left by an ended queue
	hang        = "hang"             // the round does not end, or the queue keeps items
	goroutines  = "goroutines left"
	memory      = "memory left"
	panicked    = "panic"
)

// A tally counts the calls and the violations of a run. Its methods may be called
// concurrently. Read the fields only after all calls have returned.
type tally struct {
	mu sync.Mutex

	rounds, adds, gets int
	slowest            time.Duration // from the last add of a round until all items were done
	goroutines         int           // more than at the start
	heap               int64         // bytes more than at the start
	found              map[string]int
	examples           map[string]string // the first of each kind
}

func newTally() *tally {
	return &tally{found: map[string]int{}, examples: map[string]string{}}
}

// violation counts a violation, and keeps the text of the first of its kind.
func (t *tally) violation(kind, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.found[kind]++; t.found[kind] == 1 {
		text, _, _ := strings.Cut(fmt.Sprintf(format, args...), "\n")
		t.examples[kind] = text
	}
}

func (t *tally) violations() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, count := range t.found {
		n += count
	}
	return n
}

func (t *tally) count(adds, gets int, quiet time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rounds++
	t.adds += adds
	t.gets += gets
	t.slowest = max(t.slowest, quiet)
}

// print writes the counts, and the first example of each kind of violation.
func (t *tally) print(w io.Writer) {
	fmt.Fprintf(w, "%d rounds, %d adds, %d gets, at most %v to come to rest, %+d goroutines, %+d KiB: %d violations\n",
		t.rounds, t.adds, t.gets, t.slowest.Round(time.Millisecond/10), t.goroutines, t.heap>>10, t.violations())
	for _, kind := range slices.Sorted(maps.Keys(t.found)) {
		fmt.Fprintf(w, "%d %s, for example: %s\n", t.found[kind], kind, t.examples[kind])
	}
}
