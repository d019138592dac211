package ctrlqueue_test

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// A rule is what callers of controller-runtime's queue can see of it, and rely on.
type rule struct {
	name  string
	steps []step
}

// sec is the unit of the plays. All of it is virtual.
const sec = time.Second

var limited = priorityqueue.AddOpts{RateLimited: true}

func limitedAfter(d time.Duration) priorityqueue.AddOpts {
	return priorityqueue.AddOpts{RateLimited: true, After: d}
}

var ordering = []rule{
	{"an item comes back with priority 0", []step{add("a"), gets("a", 0), done("a"), parks()}},
	{"a level is a FIFO", []step{add("a", "b", "c"), gets("a", 0), gets("b", 0), gets("c", 0)}},
	{"items of one call keep their order", []step{at(3, "a", "b", "c"), gets("a", 3), gets("b", 3), gets("c", 3)}},
	{"a call without items does nothing", []step{at(3), length(0), parks()}},
	{"an item twice in one call is one", []step{at(1, "a", "a"), length(1), gets("a", 1), done("a"), parks()}},
	{"the highest comes first", []step{at(-100, "a"), add("b"), at(7, "c"), at(8, "d"),
		gets("d", 8), gets("c", 7), gets("b", 0), gets("a", -100)}},
	{"no priority is that of 0", []step{at(1, "a"), with(priorityqueue.AddOpts{}, "b"), at(-1, "c"),
		gets("a", 1), gets("b", 0), gets("c", -1)}},
	{"an item that is queued is one item", []step{add("a", "a", "b", "a"), length(2), gets("a", 0), gets("b", 0), parks()}},
	{"the highest priority holds", []step{at(1, "a"), at(3, "a"), at(2, "a"), gets("a", 3), done("a"), parks()}},
	{"a priority is never lowered", []step{at(5, "a"), add("a"), at(-5, "a"), gets("a", 5)}},
	{"a raised item goes before the levels below", []step{add("a", "b"), at(1, "b"), gets("b", 1), gets("a", 0)}},
	{"a raised item goes to the end of its new level", []step{add("a"), at(1, "b", "c"), at(1, "a"),
		gets("b", 1), gets("c", 1), gets("a", 1)}},
	{"an add at the same priority leaves the place", []step{at(1, "a", "b"), at(1, "a"), gets("a", 1), gets("b", 1)}},
	{"a lower add leaves the place", []step{at(1, "a", "b"), at(0, "a"), gets("a", 1), gets("b", 1)}},
	{"a raised item comes once", []step{add("a"), at(1, "a"), at(2, "a"), length(1), gets("a", 2), done("a"), parks()}},
	{"a plain add raises what is below 0", []step{at(-100, "a", "b"), add("b"), gets("b", 0), gets("a", -100)}},
	{"a late urgent item overtakes a backlog", []step{at(-100, "a", "b", "c"), gets("a", -100), add("d"),
		gets("d", 0), gets("b", -100), gets("c", -100)}},
	{"priorities and delays have no bounds", []step{
		add("zero"), at(math.MinInt, "least", "raised"), at(math.MaxInt, "most"), at(math.MaxInt, "raised"),
		atAfter(math.MinInt, math.MinInt64, "past"), atAfter(math.MaxInt, math.MaxInt64, "never"),
		gets("most", math.MaxInt), gets("raised", math.MaxInt), gets("zero", 0),
		gets("least", math.MinInt), gets("past", math.MinInt), parks(),
	}},
}

var holding = []rule{
	{"an item that is held is not handed out", []step{add("a"), gets("a", 0), add("a"), parks(), stays(), done("a"), arrives("a", 0)}},
	{"others pass an item that is held", []step{add("a"), gets("a", 0), at(9, "a"), add("b"), gets("b", 0), parks()}},
	{"an item that is held and added again comes once", []step{add("a"), gets("a", 0), add("a", "a"), done("a"),
		gets("a", 0), done("a"), parks()}},
	{"Done alone does not queue", []step{add("a"), gets("a", 0), done("a"), length(0), parks()}},
	{"the add of a held item has its own priority", []step{at(9, "a"), gets("a", 9), at(2, "a"), done("a"), gets("a", 2)}},
	{"the highest of the adds of a held item holds", []step{add("a"), gets("a", 0), at(2, "a"), at(4, "a"), at(3, "a"),
		done("a"), gets("a", 4)}},
	{"a retry of the controller keeps the priority", []step{at(-100, "a"), gets("a", -100),
		with(priorityqueue.AddOpts{RateLimited: true, Priority: new(-100)}, "a"), done("a"), wait(sec), gets("a", -100)}},
	{"Done of what nobody holds does nothing", []step{done("a"), add("a"), done("a"), length(1), gets("a", 0), done("b"), parks()}},
	{"Done twice is Done once", []step{add("a"), gets("a", 0), done("a", "a"), add("a"), gets("a", 0), parks()}},
	{"a parked worker is handed what comes", []step{parks(), add("a"), arrives("a", 0), add("b"), stays(), gets("b", 0)}},
	{"parked workers are handed one item each", []step{parks(), parks(), at(1, "a", "b"),
		arrives("a", 1), arrives("b", 1)}},
}

var delays = []rule{
	{"not before its time", []step{after(10*sec, "a"), wait(9 * sec), length(0), parks(), wait(sec), arrives("a", 0)}},
	{"AddAfter is the same", []step{addAfter("a", 10*sec), wait(9 * sec), parks(), wait(sec), arrives("a", 0)}},
	{"what waits does not count in Len", []step{after(sec, "a"), add("b"), length(1), wait(sec), length(2)}},
	{"a delay of 0 is none", []step{after(0, "a"), addAfter("b", 0), gets("a", 0), gets("b", 0)}},
	{"a negative delay is none", []step{after(-sec, "a"), addAfter("b", -sec), gets("a", 0), gets("b", 0)}},
	{"the earlier time holds, told first", []step{after(2*sec, "a"), after(5*sec, "a"), wait(2 * sec), gets("a", 0), done("a"),
		wait(5 * sec), parks()}},
	{"the earlier time holds, told last", []step{after(5*sec, "a"), after(2*sec, "a"), wait(2 * sec), gets("a", 0), done("a"),
		wait(5 * sec), parks()}},
	{"an Add ends the wait, and the item comes once", []step{after(5*sec, "a"), add("a"), gets("a", 0), done("a"), wait(9 * sec), parks()}},
	{"a delay does not put off what is queued", []step{add("a"), after(5*sec, "a"), length(1), gets("a", 0), done("a"), wait(9 * sec), parks()}},
	{"a delayed add raises what is queued", []step{add("a", "b"), atAfter(3, 5*sec, "b"), gets("b", 3), done("b"), gets("a", 0), wait(9 * sec), parks()}},
	{"what waits keeps the highest priority", []step{atAfter(2, sec, "a"), atAfter(6, 3*sec, "a"), wait(sec), gets("a", 6), done("a"), wait(9 * sec), parks()}},
	{"an Add of what waits keeps its priority", []step{atAfter(6, 5*sec, "a"), add("a"), gets("a", 6)}},
	{"an Add of what waits raises it", []step{after(5*sec, "a"), at(6, "a"), gets("a", 6)}},
	{"due items come in the order of their times", []step{after(2*sec, "a"), after(sec, "b"), wait(3 * sec), gets("b", 0), gets("a", 0)}},
	{"due items stand behind what is queued in their level", []step{after(sec, "a"), add("b"), wait(sec), add("c"), gets("b", 0), gets("a", 0), gets("c", 0)}},
	{"a due item goes before lower levels", []step{at(-1, "a"), after(sec, "b"), wait(sec), gets("b", 0), gets("a", -1)}},
	{"a higher item that is due later goes first once it is", []step{after(sec, "a"), atAfter(1, 2*sec, "b"), wait(2 * sec), gets("b", 1), gets("a", 0)}},
	{"due at one instant, the higher comes first", []step{after(sec, "a"), atAfter(1, sec, "b"), wait(sec), gets("b", 1), gets("a", 0)}},
	{"due at one instant, in the order of the adds", []step{after(sec, "a", "b"), after(sec, "c"), wait(sec), gets("a", 0), gets("b", 0), gets("c", 0)}},
	{"a parked worker is handed what is due", []step{parks(), after(sec, "a"), wait(sec), arrives("a", 0)}},
	{"an earlier item than the first wakes in time", []step{parks(), after(9*sec, "a"), wait(sec), after(sec, "b"), wait(sec), arrives("b", 0), wait(7 * sec), gets("a", 0)}},
	{"an item waits while it is held", []step{add("a"), gets("a", 0), after(sec, "a"), done("a"), parks(), wait(sec), arrives("a", 0)}},
	{"an item that is due while it is held comes after Done", []step{add("a"), gets("a", 0), atAfter(3, sec, "a"), wait(2 * sec), parks(), stays(), done("a"), arrives("a", 3)}},
	{"an Add while it is held ends its wait", []step{add("a"), gets("a", 0), after(5*sec, "a"), add("a"), done("a"), gets("a", 0), done("a"), wait(9 * sec), parks()}},
	{"a delay does not put off the add of a held item", []step{add("a"), gets("a", 0), add("a"), after(5*sec, "a"), done("a"), gets("a", 0), done("a"), wait(9 * sec), parks()}},
}

var limits = []rule{
	{"AddRateLimited waits for the limiter, longer each time", []step{addRateLimited("a"), wait(sec), gets("a", 0), addRateLimited("a"), done("a"),
		wait(sec), parks(), stays(), wait(sec), arrives("a", 0)}},
	{"NumRequeues counts until Forget", []step{addRateLimited("a"), requeues("a", 1), with(limited, "a"), requeues("a", 2),
		requeues("b", 0), forget("a"), requeues("a", 0)}},
	{"Forget does not end a wait", []step{addRateLimited("a"), forget("a"), parks(), wait(sec), arrives("a", 0)}},
	{"after Forget the delay starts anew", []step{addRateLimited("a"), wait(sec), gets("a", 0), forget("a"), addRateLimited("a"), done("a"), wait(sec), gets("a", 0)}},
	{"RateLimited in AddWithOpts is AddRateLimited", []step{with(limited, "a", "b"), requeues("a", 1), requeues("b", 1), parks(), parks(), wait(sec), arrives("a", 0), arrives("b", 0)}},
	{"of the limiter's time and After the earlier holds", []step{with(limitedAfter(5*sec), "a"), parks(), wait(sec), arrives("a", 0), done("a"),
		with(limitedAfter(sec), "a"), parks(), wait(sec), arrives("a", 0), requeues("a", 2)}},
	{"a time is no retry", []step{after(5*sec, "a"), add("a"), gets("a", 0), addRateLimited("a"), requeues("a", 1)}},
	{"a failure after an early hand-out and its Done counts", []step{addRateLimited("a"), add("a"), gets("a", 0), done("a"), addRateLimited("a"), requeues("a", 2)}},
	{"the limiter is asked for what is queued too", []step{add("a"), addRateLimited("a"), requeues("a", 1), gets("a", 0), done("a"), wait(5 * sec), parks()}},
}

var endings = []rule{
	{"ShuttingDown says so", []step{shuttingDown(false), shutDown(), shuttingDown(true)}},
	{"after a shutdown what is queued stays there", []step{add("a"), shutDown(), refused(), refused()}},
	{"a shutdown releases parked workers", []step{parks(), parks(), shutDown(), leaves(), leaves()}},
	{"a shutdown releases workers parked beside what is held", []step{add("a"), gets("a", 0), add("a"), parks(), shutDown(), leaves(), done("a"), refused()}},
	{"after a shutdown adds do nothing", []step{shutDown(), add("a"), at(3, "b"), addAfter("c", sec), addRateLimited("d"), wait(5 * sec), length(0), refused()}},
	{"what waits is dropped by a shutdown", []step{after(sec, "a"), shutDown(), wait(5 * sec), length(0), refused()}},
	{"Done after a shutdown is accepted", []step{add("a"), gets("a", 0), shutDown(), done("a"), refused()}},
}

func TestConformance(t *testing.T) {
	for _, i := range []impl{theirs, ours} {
		for group, rules := range map[string][]rule{"order": ordering, "held": holding, "delays": delays, "limits": limits, "end": endings} {
			for _, r := range rules {
				t.Run(i.name+"/"+group+"/"+r.name, func(t *testing.T) { i.run(t, r.steps) })
			}
		}
	}
}

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
