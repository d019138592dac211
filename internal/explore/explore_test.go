//go:build explore

package explore_test

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"golang.org/x/time/rate"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/internal/explore"
	"github.com/seed16c08ea7/workqueue/internal/spec"
)

var (
	bound = flag.Int("preemptions", -1, "of a schedule, at most; negative is as many as each test says")
	only  = flag.String("program", "", "the one of TestListed to play")
	long  = flag.Bool("long", false, "play the programs of make explore too")
)

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1) // See [explore.Explorer].
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

var typed = &kind{make: func(*testingclock.FakeClock) queue { return workqueue.NewTyped[string]() }}

// limits has groups by the first letter of an item. Of group a one item is held at a time.
var limits = &kind{
	make: func(*testingclock.FakeClock) queue {
		return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: workqueue.Order[string]{
			Group: groupOf, MaxInFlight: limitOf,
		}})
	},
	rules: spec.Rules[string]{Place: func(item string, p spec.Place) spec.Place {
		p.Group, p.Weight, p.Limit = groupOf(item), 1, limitOf(groupOf(item))
		return p
	}},
}

func groupOf(item string) string { return item[:1] }

func limitOf(group string) int {
	if group == "a" {
		return 1
	}
	return 0
}

// paced has a token in each tick.
var paced = &kind{
	make: func(c *testingclock.FakeClock) queue {
		return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Clock: c, Pace: rate.NewLimiter(rate.Every(tick), 1)})
	},
	rules: spec.Rules[string]{Rate: 1 / tick.Seconds(), Burst: 1},
}

var delaying = &kind{make: func(c *testingclock.FakeClock) queue {
	return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: c})
}}

var oneEntry = &kind{
	make: func(c *testingclock.FakeClock) queue {
		return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: c, OneEntry: true})
	},
	rules: spec.Rules[string]{OneEntry: true},
}

// limiting has each item that fails wait for a tick.
var limiting = &kind{make: func(c *testingclock.FakeClock) queue {
	limiter := workqueue.NewTypedItemFastSlowRateLimiter[string](tick, tick, 0)
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[string]{Clock: c}).(*workqueue.TypedRateLimiting[string])
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
		"remove of both":        {delaying, program{{"Add a", "AddAfter a", "Work"}, {"Remove a"}}},
		"hurry beside remove":   {delaying, program{{"AddAfter a", "Hurry a"}, {"Remove a"}}},
		"last wait ends":        {delaying, program{{"AddAfter a", "Remove a", "AddAfter a", "Step"}, {"Get"}}},
		"firm beside wake":      {delaying, program{{"Take", "Firm a", "Done a"}, {"Add a", "Wake a", "Add a"}}},
		"firm beside add":       {delaying, program{{"Add a", "Firm a", "Find a"}, {"Take"}, {"Add a", "Step"}}},
		"firm beside len":       {delaying, program{{"Firm a", "Remove a"}, {"Add a", "Len"}}},
		"firm beside remove":    {oneEntry, program{{"Firm a", "Add a", "Step"}, {"Remove a"}, {"Work"}}},
		"wake beside due":       {delaying, program{{"Firm a", "Step"}, {"Wake a", "Find a"}, {"Work"}}},
		"due beside reschedule": {delaying, program{{"AddAfter a", "Step", "Step"}, {"Reschedule a"}, {"Work"}}},
	} {
		if *only != "" && *only != name {
			continue
		}
		t.Run(name, func(t *testing.T) {
			e := &explore.Explorer{Bound: boundOr(2)}
			began := time.Now()
			play(t, e, tt.kind, tt.program)
			report(t, e, 1, time.Since(began))
		})
	}
}

func boundOr(test int) int {
	if *bound >= 0 {
		return *bound
	}
	return test
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
	all(t, typed, 2, "Add a", "Add b", "AddAll a,b", "Get", "Work", "Done a", "Len", "Remove a", "ShutDown", "Drain", "Idle", "GetContext", "Cancel")
}

// The tests below are for make explore: they take minutes.

// TestTypedMore plays the calls that TestTyped leaves out.
func TestTypedMore(t *testing.T) {
	all(t, typed, 2, "Add a", "Add b", "Urgent b", "Work", "Watched", "TryGet", "Remove a", "RemoveFunc a", "Barrier", "ShutDown", "Drain")
}

func TestOrder(t *testing.T) {
	all(t, limits, 2, "Add a1", "Add a2", "Add b", "Work", "Get", "GetContext", "Cancel", "Done a1", "Remove a1", "ShutDown", "Drain")
}

func TestPace(t *testing.T) {
	all(t, paced, 1, "Add a", "Add b", "Work", "Get", "GetContext", "Cancel", "Step", "Remove a", "Idle", "ShutDown", "Drain")
}

func TestDelaying(t *testing.T) {
	all(t, delaying, 1, "AddAfter a", "AddAfter b", "Add a", "Work", "Get", "Step", "Remove a", "Reschedule a", "Hurry a", "Debounce a", "ShutDown", "Drain")
}

func TestDelayingMore(t *testing.T) {
	all(t, delaying, 1, "AddAfter a", "Add a", "Work", "Watched", "Step", "RemoveFunc a", "Empty", "Barrier", "Drain")
}

func TestOneEntry(t *testing.T) {
	all(t, oneEntry, 1, "AddAfter a", "AddAfter b", "Add a", "Work", "Step", "Remove a", "Reschedule a", "Hurry a", "Debounce a", "Drain")
}

func TestFirm(t *testing.T) {
	all(t, delaying, 1, "Firm a", "AddAfter a", "Add a", "Work", "Step", "Remove a", "Hurry a", "Wake a", "Find a", "Empty", "Drain")
}

func TestFirmOneEntry(t *testing.T) {
	all(t, oneEntry, 1, "Firm a", "AddAfter a", "Add a", "Work", "Step", "Remove a", "Reschedule a", "Wake a", "Find a", "Drain")
}

// TestRun plays a Run with one worker beside two goroutines.
func TestRun(t *testing.T) {
	calls := []string{"Add a", "Add b", "AddAfter a", "Step", "Remove a", "RemoveFunc a", "Empty", "Barrier", "ShutDown", "Drain"}
	each(t, limiting, 1, func(try func(program)) {
		for _, a := range calls {
			for _, b := range calls {
				for _, c := range calls {
					try(program{{"Run"}, {a, b}, {c}})
				}
			}
		}
	})
}

// all plays the programs of two goroutines with two calls each, and of three with one, one and two
// calls. Of programs that differ only in the order of the goroutines it plays one.
func all(t *testing.T, k *kind, preemptions int, calls ...string) {
	each(t, k, preemptions, func(try func(program)) {
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
	})
}

// each plays programs until one goes wrong.
func each(t *testing.T, k *kind, preemptions int, programs func(try func(program))) {
	if !*long && t.Name() != "TestTyped" {
		t.Skip("takes minutes: make explore")
	}
	sum, n := explore.Explorer{}, 0
	began := time.Now()
	programs(func(p program) {
		if t.Failed() {
			return
		}
		n++
		e := explore.Explorer{Bound: boundOr(preemptions)}
		play(t, &e, k, p)
		sum.Schedules += e.Schedules
		sum.Steps += e.Steps
		sum.Diverged += e.Diverged
		sum.Deepest = max(sum.Deepest, e.Deepest)
	})
	report(t, &sum, n, time.Since(began))
}
