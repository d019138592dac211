// Command stress calls all methods of a queue from many goroutines at random,
// with foreign code that fails, clocks that are set forwards and back, and
// shutdowns at any time. Accounts of the items show whether the queue keeps its
// promises. Each item is handed out after its last add, to a single worker at a
// time, and never more often than it was added. A drain ends when no item is left,
// and not before. Neither goroutines nor memory stay behind.
//
// The command prints its calls and violations, and exits with 1 after a violation. With -soak the
// command plays a single round that lasts, on a queue with all features, and prints the memory and the
// goroutines each time the queue has come to rest: neither may grow.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"time"
)

// options are the options of a run.
type options struct {
	duration   time.Duration
	seed       uint64
	goroutines int
	visitors   int           // items of an interval of a round that lasts, which never come again
	patience   time.Duration // longer than any call takes, unless the call is stuck
}

func main() {
	o := &options{visitors: 50_000}
	flag.DurationVar(&o.duration, "duration", 10*time.Second, "how long to run")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of what is chosen at random; schedules differ all the same")
	flag.IntVar(&o.goroutines, "goroutines", 32, "how many goroutines call a queue")
	flag.DurationVar(&o.patience, "patience", time.Minute, "how long nothing takes that is not stuck")
	lasting := flag.Bool("soak", false, "play one round that lasts")
	flag.Parse()
	fmt.Printf("seed %d\n", o.seed)
	var t *tally
	if *lasting {
		t = soak(o, os.Stdout, 20)
	} else {
		t = stress(o)
	}
	t.print(os.Stdout)
	if t.violations() > 0 {
		pprof.Lookup("goroutine").WriteTo(os.Stderr, 1) // Shows the goroutines that hang.
		os.Exit(1)
	}
}

// stress plays rounds until the time is over, or until a round hangs: the
// goroutines of a hanging round would disturb all later rounds.
func stress(o *options) *tally {
	t := newTally()
	if !playSome(o, t, func(seed uint64) bool { return seed < warmUp }) {
		return t
	}
	before, heap := runtime.NumGoroutine(), liveHeap()
	until := time.Now().Add(o.duration)
	if !playSome(o, t, func(uint64) bool { return time.Now().Before(until) }) {
		return t
	}
	checkGoroutines(o, t, before, "all rounds")
	t.goroutines = runtime.NumGoroutine() - before
	if t.heap = liveHeap() - heap; t.heap > memoryLimit {
		t.violation(memory, "%d KiB", t.heap>>10)
	}
	return t
}

// playSome reports false after a hang.
func playSome(o *options, t *tally, more func(round uint64) bool) bool {
	for seed := uint64(0); more(seed); seed++ {
		if !play(o, t, seed) {
			return false
		}
	}
	return true
}

const (
	warmUp = 10 // rounds before the first look at the memory

	// memoryLimit is how many bytes the heap may grow after the warm-up, for the
	// buffers of the harness.
	memoryLimit = 4 << 20
)

// liveHeap returns the size of the reachable heap, in bytes.
func liveHeap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
