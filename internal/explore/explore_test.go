//go:build explore

package explore_test

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/internal/explore"
)

var (
	bound = flag.Int("preemptions", 2, "of a schedule, at most; negative is any number")
	only  = flag.String("program", "", "the one of TestListed to play")
	long  = flag.Bool("long", false, "play the programs of make explore too")
)

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1) // See [explore.Explorer].
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

var typed = &kind{make: func(*testingclock.FakeClock) queue { return workqueue.NewTyped[string]() }}

var delaying = &kind{make: func(c *testingclock.FakeClock) queue {
	return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: c})
}}

// TestListed plays programs that are too long for those of TestTyped.
func TestListed(t *testing.T) {
	for name, tt := range map[string]struct {
		kind    *kind
		program program
	}{
		"two workers":         {typed, program{{"Work", "Work"}, {"Work", "Work"}, {"Add a", "Add b", "Add a", "ShutDown"}}},
		"re-add":              {typed, program{{"Work", "Work"}, {"Work"}, {"Add a", "Add a", "Len"}}},
		"drain":               {typed, program{{"Work", "Work"}, {"Add a", "Add b"}, {"Drain"}}},
		"drain of two":        {typed, program{{"Work", "Work"}, {"Add a", "Drain"}, {"Drain", "Len"}}},
		"drain and shutdown":  {typed, program{{"Work"}, {"Add a", "Add b", "ShutDown"}, {"Drain"}}},
		"idle":                {typed, program{{"Work", "Work"}, {"Add a", "Add b"}, {"Idle"}}},
		"barrier":             {typed, program{{"Work", "Work"}, {"Add a", "Add b"}, {"Barrier"}}},
		"remove":              {typed, program{{"Work"}, {"Add a", "Remove a", "Add b"}, {"Work"}}},
		"cancel, two items":   {typed, program{{"GetContext"}, {"Get"}, {"Add a", "Cancel", "Add b"}}},
		"cancel and add":      {typed, program{{"GetContext"}, {"Work"}, {"Add a"}, {"Cancel"}}},
		"four calls of three": {typed, program{{"Work", "Work"}, {"Add a", "Add b", "Add c", "Add a"}, {"Work", "Work"}}},

		"drain beside remove":   {delaying, program{{"AddAfter a", "Drain"}, {"Remove a", "Add a"}}},
		"due beside remove":     {delaying, program{{"AddAfter a", "Step"}, {"Remove a"}, {"Work"}}},
		"due beside reschedule": {delaying, program{{"AddAfter a", "Step", "Step"}, {"Reschedule a"}, {"Work"}}},
	} {
		if *only != "" && *only != name {
			continue
		}
		t.Run(name, func(t *testing.T) {
			e := &explore.Explorer{Bound: *bound}
			began := time.Now()
			play(t, e, tt.kind, tt.program)
			report(t, e, 1, time.Since(began))
		})
	}
}

func report(t *testing.T, e *explore.Explorer, programs int, took time.Duration) {
	t.Helper()
	t.Logf("%d programs, %d schedules, %d steps, deepest %d, diverged %d, %v",
		programs, e.Schedules, e.Steps, e.Deepest, e.Diverged, took.Round(time.Millisecond))
	if e.Diverged > 0 {
		t.Errorf("%d decisions had other ways when they were played again", e.Diverged)
	}
}

// TestTyped plays all small programs of the calls of a Typed.
func TestTyped(t *testing.T) {
	all(t, typed, "Add a", "Add b", "AddAll a,b", "Get", "Work", "Done a", "Len", "Remove a", "ShutDown", "Drain", "Idle", "GetContext", "Cancel")
}

// TestDelaying plays all small programs of the calls of a TypedDelaying.
func TestDelaying(t *testing.T) {
	if !*long {
		t.Skip("takes minutes: make explore")
	}
	all(t, delaying, "AddAfter a", "AddAfter b", "Add a", "Work", "Get", "Step", "Remove a", "Reschedule a", "Hurry a", "Debounce a", "ShutDown", "Drain")
}

// all plays the programs of two goroutines with two calls each, and of three with one, one and two
// calls. Of programs that differ only in the order of the goroutines it plays one.
func all(t *testing.T, k *kind, calls ...string) {
	sum, n := explore.Explorer{}, 0
	began := time.Now()
	try := func(p program) {
		n++
		e := explore.Explorer{Bound: *bound}
		play(t, &e, k, p)
		sum.Schedules += e.Schedules
		sum.Steps += e.Steps
		sum.Diverged += e.Diverged
		sum.Deepest = max(sum.Deepest, e.Deepest)
	}
	for i, a := range calls {
		for j, b := range calls {
			for k, c := range calls {
				for l, d := range calls {
					if i < k || i == k && j <= l {
						try(program{{a, b}, {c, d}})
					}
					if i <= j {
						try(program{{a}, {b}, {c, d}})
					}
				}
			}
		}
	}
	report(t, &sum, n, time.Since(began))
}
