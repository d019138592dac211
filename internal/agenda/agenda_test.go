package agenda_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/agenda"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// A planner is an Agenda without ranks and clocks.
type planner struct{ agenda.Agenda[float64] }

func (a *planner) schedule(item float64, due time.Duration) (first bool) {
	return a.Schedule(slab.HashOf(item), item, 0, &agenda.Timing{Due: due}, nil)
}

func (a *planner) reschedule(item float64, due time.Duration) (first bool) {
	return a.Reschedule(slab.HashOf(item), item, 0, &agenda.Timing{Due: due}, nil)
}

func (a *planner) debounce(item float64, due, latest time.Duration) (first bool) {
	return a.Debounce(slab.HashOf(item), item, 0, &agenda.Timing{Due: due, Latest: latest}, nil)
}

func (a *planner) remove(item float64) bool {
	_, ok := a.Remove(slab.HashOf(item), item, nil)
	return ok
}

func (a *planner) pop() float64 {
	_, item, _ := a.Pop(nil)
	return item
}

// plannedBefore reports whether the first item was planned before so many plans.
func (a *planner) plannedBefore(plans uint64) bool { return a.Due(math.MaxInt64, plans) }

// A plan is the model of an agenda: it looks for the earliest item each time.
type plan struct {
	entries []entry
	ticket  int
}

type entry struct {
	item   float64
	due    time.Duration
	ticket int
	// latest is beyond what debounce cannot put it off; due if not put.
	latest time.Duration
	put    bool
}

func (p *plan) schedule(item float64, due time.Duration) {
	p.ticket++
	for i, e := range p.entries {
		if e.item == item {
			p.entries[i].latest = min(e.latest, due)
			if due < e.due {
				p.entries[i].due, p.entries[i].ticket = due, p.ticket
			}
			return
		}
	}
	p.entries = append(p.entries, entry{item: item, due: due, ticket: p.ticket})
}

func (p *plan) debounce(item float64, due, latest time.Duration) (same bool) {
	p.ticket++
	for i, e := range p.entries {
		if e.item != item {
			continue
		}
		bound := e.due
		if e.put {
			bound = e.latest
		}
		if due < bound || e.due != bound {
			p.entries[i].due, p.entries[i].ticket = min(due, bound), p.ticket
		}
		return e.due == min(due, bound)
	}
	p.entries = append(p.entries, entry{item, min(due, latest), p.ticket, latest, true})
	return false
}

func (p *plan) first() (at int) {
	for i, e := range p.entries {
		if cmp.Or(cmp.Compare(e.due, p.entries[at].due), cmp.Compare(e.ticket, p.entries[at].ticket)) < 0 {
			at = i
		}
	}
	return at
}

func (p *plan) pop() (e entry) {
	at := p.first()
	e = p.entries[at]
	p.entries = append(p.entries[:at:at], p.entries[at+1:]...)
	return e
}

func checkInvariants(t *testing.T, step int, a interface{ CheckInvariants() error }) {
	t.Helper()
	if err := a.CheckInvariants(); err != nil {
		t.Fatalf("after step %d: %v", step, err)
	}
}

// newRand returns a generator, and logs how to repeat its numbers.
func newRand(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %#x", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// An agendaDuel makes the same calls of an agenda and of its model.
type agendaDuel struct {
	t      *testing.T
	agenda planner
	plan   plan
	step   int
}

func (d *agendaDuel) schedule(item float64, due time.Duration) {
	d.t.Helper()
	before := -1
	if len(d.plan.entries) > 0 {
		before = d.plan.entries[d.plan.first()].ticket
	}
	defer d.checkPlans(d.agenda.Plans())
	d.plan.schedule(item, due)
	head := d.plan.entries[d.plan.first()]
	if first := d.agenda.schedule(item, due); first != (head.ticket != before) {
		d.t.Fatalf("step %d: schedule %v at %v says that the head changed: %v", d.step, item, due, first)
	}
	d.check()
}

func (p *plan) remove(item float64) bool {
	for i, e := range p.entries {
		if e.item == item {
			p.entries = append(p.entries[:i:i], p.entries[i+1:]...)
			return true
		}
	}
	return false
}

func (d *agendaDuel) remove(item float64) {
	d.t.Helper()
	if got, want := d.agenda.remove(item), d.plan.remove(item); got != want {
		d.t.Fatalf("step %d: remove %v says %v, want %v", d.step, item, got, want)
	}
	d.check()
}

// reschedule is the same as remove and schedule. It says that the head changed
// if there may be another due time there.
func (d *agendaDuel) reschedule(item float64, due time.Duration) {
	d.t.Helper()
	same := false
	for _, e := range d.plan.entries {
		same = same || e.item == item && e.due == due
	}
	before := d.plan.head()
	defer d.checkPlans(d.agenda.Plans())
	first := d.agenda.reschedule(item, due)
	d.plan.remove(item)
	d.plan.schedule(item, due)
	if want := d.plan.head() != before && !same; first != want {
		d.t.Fatalf("step %d: reschedule %v to %v says that the head changed: %v", d.step, item, due, first)
	}
	d.check()
}

func (d *agendaDuel) debounce(item float64, due, latest time.Duration) {
	d.t.Helper()
	before := d.plan.head()
	defer d.checkPlans(d.agenda.Plans())
	same := d.plan.debounce(item, due, latest)
	if first, want := d.agenda.debounce(item, due, latest), d.plan.head() != before && !same; first != want {
		d.t.Fatalf("step %d: debounce %v to %v, %v says that the head changed: %v", d.step, item, due, latest, first)
	}
	d.check()
}

// checkPlans looks whether the agenda knows that the first item was planned
// before a call, or by it. When tickets were renumbered it may not know.
func (d *agendaDuel) checkPlans(before uint64) {
	d.t.Helper()
	by := d.plan.head() == d.plan.ticket
	known, plans := d.agenda.plannedBefore(before), d.agenda.Plans()
	if plans < before || by && known || !by && !known && plans-before <= 1 || !d.agenda.plannedBefore(plans) {
		d.t.Fatalf("step %d: %d plans, then %d; the first was planned since: %v, which the agenda denies: %v", d.step, before, plans, by, known)
	}
}

// head returns the ticket of the first entry, or -1.
func (p *plan) head() (ticket int) {
	if len(p.entries) == 0 {
		return -1
	}
	return p.entries[p.first()].ticket
}

func (d *agendaDuel) pop() {
	d.t.Helper()
	if len(d.plan.entries) == 0 {
		return
	}
	want, due := d.plan.pop(), d.agenda.Next()
	if got := d.agenda.pop(); due != want.due || got != want.item && want.item == want.item {
		d.t.Fatalf("step %d: popped %v due at %v, want %v at %v", d.step, got, due, want.item, want.due)
	}
	d.check()
}

func (d *agendaDuel) check() {
	d.t.Helper()
	d.step++
	if d.agenda.Len() != len(d.plan.entries) {
		d.t.Fatalf("step %d: %d items, want %d", d.step, d.agenda.Len(), len(d.plan.entries))
	}
	if d.agenda.Len() < 50 || d.step%67 == 0 {
		checkInvariants(d.t, d.step, &d.agenda)
		d.checkOrder(d.step % (d.agenda.Len() + 3))
	}
}

// checkOrder compares what comes first.
func (d *agendaDuel) checkOrder(limit int) {
	d.t.Helper()
	entries := slices.Clone(d.plan.entries)
	slices.SortFunc(entries, func(e, f entry) int {
		return cmp.Or(cmp.Compare(e.due, f.due), cmp.Compare(e.ticket, f.ticket))
	})
	got := d.agenda.Earliest(limit)
	want := entries[:min(limit, len(entries))]
	if !slices.EqualFunc(got, want, func(item float64, e entry) bool {
		return item == e.item || item != item && e.item != e.item
	}) {
		d.t.Fatalf("step %d: the first %d are %v, want %v", d.step, limit, got, want)
	}
}

func TestAgendaAgainstModel(t *testing.T) {
	t.Parallel()
	for name, scenario := range map[string]struct {
		items, steps int
		due          func(r *rand.Rand) time.Duration
		ticket       uint32
	}{
		"many due times": {400, 8000, func(r *rand.Rand) time.Duration { return time.Duration(r.IntN(1e9)) }, 0},
		"few due times":  {400, 8000, func(r *rand.Rand) time.Duration { return time.Duration(r.IntN(4)) }, 0},
		"one due time":   {100, 3000, func(*rand.Rand) time.Duration { return 7 }, 0},
		"the ends of time": {50, 3000, func(r *rand.Rand) time.Duration {
			return []time.Duration{math.MinInt64, -1, 0, math.MaxInt64}[r.IntN(4)]
		}, 0},
		"tickets that run out": {300, 4000, func(r *rand.Rand) time.Duration { return time.Duration(r.IntN(5)) }, math.MaxUint32 - 100},
	} {
		t.Run(name, func(t *testing.T) {
			rnd := newRand(t)
			d := &agendaDuel{t: t}
			for i := range scenario.steps {
				if scenario.ticket > 0 && i%1000 == 300 {
					d.agenda.SetTicket(max(scenario.ticket, d.agenda.Ticket()))
				}
				item := float64(rnd.IntN(scenario.items))
				if rnd.IntN(20) == 0 {
					item = math.NaN()
				}
				fills := rnd.IntN(10) < 7
				if i/(2*scenario.items)%2 == 1 {
					fills = !fills
				}
				switch {
				case rnd.IntN(8) == 0:
					d.reschedule(item, scenario.due(rnd))
				case fills && rnd.IntN(3) == 0:
					d.debounce(item, scenario.due(rnd), scenario.due(rnd))
				case fills:
					d.schedule(item, scenario.due(rnd))
				case rnd.IntN(3) == 0:
					d.remove(item)
				default:
					d.pop()
				}
			}
			for len(d.plan.entries) > 0 {
				d.pop()
			}
			if scenario.ticket > 0 && d.agenda.Ticket() >= scenario.ticket {
				t.Errorf("ticket %d: they did not run out", d.agenda.Ticket())
			}
		})
	}
}

func FuzzAgenda(f *testing.F) {
	f.Fuzz(func(t *testing.T, script []byte) {
		t.Parallel()
		d := &agendaDuel{t: t}
		for i := 0; i+1 < len(script); i += 2 {
			switch op, arg := script[i], script[i+1]; op % 8 {
			case 0, 1, 3:
				d.schedule(float64(op>>3), time.Duration(arg)-100)
			case 2:
				d.debounce(float64(op>>3), time.Duration(arg)-100, time.Duration(arg^op)-100)
			case 4:
				d.schedule(math.NaN(), time.Duration(arg))
			case 6:
				d.remove(float64(op >> 3))
			case 7:
				d.reschedule(float64(op>>3), time.Duration(arg)-100)
			case 5:
				d.agenda.SetTicket(max(d.agenda.Ticket(), math.MaxUint32-uint32(arg)))
			default:
				for range arg % 8 {
					d.pop()
				}
			}
		}
	})
}

// The order among equals must survive the renumbering of tickets.
func TestAgendaRenumbers(t *testing.T) {
	t.Parallel()
	for n := range 30 {
		d := &agendaDuel{t: t}
		d.agenda.SetTicket(math.MaxUint32 - 10)
		for i := range n {
			d.schedule(float64(i), time.Duration(i%3))
		}
		for range n {
			d.pop()
		}
	}
}

// A large agenda that drains gives its room back and still finds its items.
func TestAgendaShrinks(t *testing.T) {
	t.Parallel()
	var a planner
	n := 20_000
	for i := range n {
		a.schedule(float64(i), time.Duration(i*7919%n))
	}
	checkInvariants(t, 0, &a)
	last := time.Duration(-1)
	for i := range n - 10 {
		if a.Next() <= last {
			t.Fatalf("step %d: due at %d after %d", i, a.Next(), last)
		}
		last = a.Next()
		a.pop()
		if i%5000 == 0 || i > n-200 {
			checkInvariants(t, i, &a)
		}
	}
	if a.Room() > 2500 {
		t.Errorf("%d records are left for %d items", a.Room(), a.Len())
	}
}

// What schedule has promised binds debounce, at all times.
func TestAgendaDebounceIsBound(t *testing.T) {
	for _, row := range []struct {
		name  string
		calls func(a *planner)
		want  time.Duration
	}{
		{"by what was promised earlier", func(a *planner) {
			a.schedule(1, 5)
			a.debounce(1, 30, 40)
		}, 5},
		{"by its own latest time", func(a *planner) {
			a.debounce(1, 5, 10)
			a.debounce(1, 30, 40)
		}, 10},
		{"by an earlier promise since", func(a *planner) {
			a.debounce(1, 5, 10)
			a.schedule(1, 7)
			a.debounce(1, 30, 40)
		}, 7},
		{"not by a later one", func(a *planner) {
			a.debounce(1, 5, 10)
			a.schedule(1, 20)
			a.debounce(1, 30, 40)
		}, 10},
		{"before the epoch, beside another", func(a *planner) {
			a.debounce(2, 100, 100)
			a.schedule(1, -10)
			a.schedule(1, -5)
			a.debounce(1, -1, -1)
		}, -10},
	} {
		var a planner
		row.calls(&a)
		if a.Next() != row.want {
			t.Errorf("%s: due at %d, want %d", row.name, a.Next(), row.want)
		}
		checkInvariants(t, 0, &a)
	}
}

// What is left when an agenda gives its room back can be put off as far as
// before, and what could not be put off cannot be then.
func TestAgendaShrinksWithItsLatestTimes(t *testing.T) {
	t.Parallel()
	var a planner
	const n = 5000
	for i := range n {
		if item := float64(i); i%3 == 0 {
			a.schedule(item, time.Duration(i))
		} else {
			a.debounce(item, time.Duration(i), time.Duration(2*n+i))
		}
	}
	checkInvariants(t, 0, &a)
	for range n - 10 {
		a.pop()
	}
	checkInvariants(t, 1, &a)
	if a.Room() > n/2 {
		t.Errorf("%d records are left for %d items", a.Room(), a.Len())
	}
	for i := n - 10; i < n; i++ {
		a.debounce(float64(i), 4*n, 5*n)
	}
	checkInvariants(t, 2, &a)
	for a.Len() > 0 {
		due := a.Next()
		item := int(a.pop())
		want := time.Duration(item)
		if item%3 != 0 {
			want += 2 * n
		}
		if due != want {
			t.Errorf("item %d is due at %d, want %d", item, due, want)
		}
	}
}

// Items that were never seen before allocate nothing, as long as the agenda has room. A larger
// burst costs the pages of 32 nodes that the burst fills and gives back.
func TestAllocationsOfAnAgenda(t *testing.T) {
	for n, most := range map[int]float64{60: 0, 600: 600 / 25} {
		var a planner
		round := 0
		f := func() {
			round++
			for i := range n {
				a.schedule(float64(round*n+i), time.Duration(i))
			}
			for range n {
				a.pop()
			}
		}
		f()
		if allocs := testing.AllocsPerRun(50, f); allocs > most {
			t.Errorf("%v allocations for %d items, want at most %v", allocs, n, most)
		}
	}
}

// The record of an item that was removed is not counted.
func TestCountNaNUpToABound(t *testing.T) {
	a := &planner{}
	a.schedule(1, 3)
	for range 3 {
		a.schedule(math.NaN(), 2)
	}
	a.schedule(math.NaN(), 0)
	a.pop()
	for most, want := range []int{0, 1, 2, 3, 3} {
		if got := a.CountNaN(most); got != want {
			t.Errorf("at most %d: %d items, want %d", most, got, want)
		}
	}
}
