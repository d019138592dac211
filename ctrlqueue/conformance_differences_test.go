package ctrlqueue_test

import (
	"os"
	"strings"
	"testing"
)

// A difference is a play whose outcome is not that of controller-runtime's queue. The
// README has the reason for each. Both outcomes are asserted: should
// controller-runtime's change, its row goes.
type difference struct {
	name         string
	before       []step
	theirs, ours []step
}

var differences = []difference{
	{"add while held",
		[]step{add("a"), gets("a", 0), add("a"), add("b"), done("a")},
		[]step{gets("a", 0), gets("b", 0)},
		[]step{gets("b", 0), gets("a", 0)}},
	{"add while waiting",
		[]step{after(5*sec, "a"), add("b"), add("a")},
		[]step{gets("a", 0), gets("b", 0)},
		[]step{gets("b", 0), gets("a", 0)}},
	{"due at the same time",
		[]step{after(5*sec, "a"), after(2*sec, "b"), after(2*sec, "a"), wait(2 * sec)},
		[]step{gets("a", 0), gets("b", 0)},
		[]step{gets("b", 0), gets("a", 0)}},
	{"Len while held",
		[]step{add("a"), gets("a", 0), add("a")},
		[]step{length(1), done("a"), length(1)},
		[]step{length(0), done("a"), length(1)}},
	{"negative After",
		[]step{with(limitedAfter(-sec), "a")},
		[]step{requeues("a", 1), gets("a", 0)},
		[]step{requeues("a", 1), parks(), wait(sec), arrives("a", 0)}},
	{"early failure",
		[]step{addRateLimited("a"), add("a"), gets("a", 0), addRateLimited("a"), done("a")},
		[]step{requeues("a", 2), wait(sec), parks(), wait(sec), arrives("a", 0)},
		[]step{requeues("a", 1), wait(sec), gets("a", 0)}},
	{"second ShutDown",
		[]step{shutDown()},
		[]step{panics("close of closed channel", shutDown())},
		[]step{shutDown(), shutDown(), refused()}},
	{"ShutDownWithDrain",
		[]step{add("a", "b"), gets("a", 0), add("a"), shutDownWithDrain()},
		[]step{drained(true), refused()},
		[]step{gets("b", 0), done("b"), drained(false), done("a"), gets("a", 0), done("a"), drained(true), refused()}},
}

func TestDifferences(t *testing.T) {
	for _, d := range differences {
		t.Run(theirs.name+"/"+d.name, func(t *testing.T) { theirs.run(t, append(d.before, d.theirs...)) })
		t.Run(ours.name+"/"+d.name, func(t *testing.T) { ours.run(t, append(d.before, d.ours...)) })
	}
}

// The README has all of the differences.
func TestDifferencesAreDocumented(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		if !strings.Contains(string(readme), "| `"+d.name+"` |") {
			t.Errorf("README.md has no row %q", d.name)
		}
	}
}

// There the failure is counted by a goroutine, some time after AddRateLimited. A worker
// that asks how often its item has failed is told a number that is too low.
func TestNumRequeuesRightAfterAddRateLimited(t *testing.T) {
	const calls = 200
	wrong := func(i impl) (n int) {
		for range calls {
			q := i.open(newLimiter())
			q.AddRateLimited("a")
			if q.NumRequeues("a") != 1 {
				n++
			}
			q.ShutDown()
		}
		return n
	}
	if n := wrong(ours); n > 0 {
		t.Errorf("%d of %d were wrong", n, calls)
	}
	if n := wrong(theirs); n == 0 {
		t.Errorf("of controller-runtime all were right, and the row of the README goes")
	}
}

func panics(with string, s step) step {
	return step{s.name + " panics", func(p *play) {
		p.t.Helper()
		defer func() {
			if got := recover(); got == nil || !strings.Contains(errorOf(got), with) {
				p.errorf("%v, want a panic with %q", got, with)
			}
		}()
		s.do(p)
	}}
}

func errorOf(recovered any) string {
	if err, ok := recovered.(error); ok {
		return err.Error()
	}
	s, _ := recovered.(string)
	return s
}

// shutDownWithDrain calls it on a goroutine of its own, as it may block.
func shutDownWithDrain() step {
	return step{"ShutDownWithDrain", func(p *play) {
		p.drained = make(chan struct{})
		p.shut = true
		go func() {
			p.q.ShutDownWithDrain()
			close(p.drained)
		}()
	}}
}

func drained(want bool) step {
	return step{"the drain", func(p *play) {
		p.t.Helper()
		over := false
		select {
		case <-p.drained:
			over = true
		default:
		}
		if over != want {
			p.errorf("over is %v", over)
		}
	}}
}
