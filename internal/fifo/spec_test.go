package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/slab"
	"github.com/seed16c08ea7/workqueue/internal/spec"
)

var endings = fifo.Endings{ReAdded: errors.New("added again"), Removed: errors.New("removed")}

// A machine is a FIFO whose owner looks for the records, as a queue does. The lock that a storage
// would give back is never taken.
type machine struct{ fifo.FIFO[int] }

func newMachine(c fifo.Config[int]) *machine {
	m := &machine{}
	c.Unlock = func() {}
	m.Init(c)
	return m
}

func (m *machine) add(item int, now time.Duration, p *fifo.Placement) (added bool) {
	hash := slab.HashOf(item)
	at, r := m.Items.Find(hash, item)
	switch {
	case r == nil:
		return m.Add(at, hash, item, now, p)
	case p == nil && m.Ignores(r):
		return false
	}
	return m.AddAgain(at, r, now, p)
}

func (m *machine) done(item int, now time.Duration) (worked time.Duration, ok bool) {
	at, r := m.Items.Find(slab.HashOf(item), item)
	return m.Done(at, r, now)
}

// line is a Queue that is a FIFO.
type line struct{ items []int }

func (l *line) Touch(int)     {}
func (l *line) Push(item int) { l.items = append(l.items, item) }
func (l *line) Len() int      { return len(l.items) }
func (l *line) Pop() (item int) {
	item, l.items = l.items[0], l.items[1:]
	return item
}

// TestSpec plays random calls on a FIFO of each kind and on the specification, and compares all that
// both can tell. Each add of a group has another weight and limit.
func TestSpec(t *testing.T) {
	t.Parallel()
	for kind, config := range map[string]fifo.Config[int]{
		"line":                 {},
		"line with times":      {Timed: true},
		"storage":              {Timed: true, Queue: &line{}},
		"priorities":           {Timed: true},
		"oldest":               {Timed: true, OldestEvery: 3},
		"groups":               {Timed: true, Grouped: true, Limited: true},
		"groups and oldest":    {Grouped: true, Limited: true, OldestEvery: 2},
		"groups first":         {Timed: true, Grouped: true, Limited: true, GroupsFirst: true},
		"groups first, oldest": {Grouped: true, Limited: true, GroupsFirst: true, OldestEvery: 3},
		"weights":              {Grouped: true},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			rnd := rand.New(rand.NewPCG(seed, 0))
			for n := range 32 {
				if config.Queue != nil {
					config.Queue = &line{}
				}
				p := newPlay(rnd, config)
				p.bursts = n%16 == 0
				p.waits = config.Grouped && n%2 == 0
				p.ranked = config.Grouped || config.OldestEvery > 0 || kind == "priorities"
				for step := range 250 {
					if call, err := p.step(step); err != nil {
						t.Fatalf("seed %#x: step %d, %s: %v", seed, step, call, err)
					}
				}
			}
		})
	}
}

// A play makes the same calls of a machine and of the specification.
type play struct {
	*rand.Rand
	config   fifo.Config[int]
	machine  *machine
	spec     *spec.Queue[int]
	ranked   bool // adds have a priority
	waits    bool // most adds wait
	bursts   bool
	span     int
	lined    map[int]bool // items that were put back in front of a storage
	told     []spec.Ending[int]
	barriers []barrier
}

type barrier struct {
	*slab.Barrier
	ticket int
}

func newPlay(rnd *rand.Rand, c fifo.Config[int]) *play {
	return &play{
		Rand: rnd, config: c, machine: newMachine(c), span: 1 + rnd.IntN(16), lined: map[int]bool{},
		spec: spec.New(spec.Rules[int]{OldestEvery: c.OldestEvery, GroupsFirst: c.GroupsFirst, Stored: c.Queue != nil}),
	}
}

// step makes a call of both, and compares them.
func (p *play) step(step int) (call string, err error) {
	p.spec.Advance(1)
	for len(p.spec.Waiting) > 0 && p.spec.Waiting[0].Due <= p.spec.Now {
		w := p.spec.Waiting[0]
		if rank, ok := p.machine.Unkeep(slab.HashOf(w.Value), w.Value); ok != w.Firm || ok && rank != rankOf(w.Place) {
			return "the end of a wait", fmt.Errorf("%d waited firmly: %v with %v, want %+v", w.Value, ok, rank, w)
		}
		p.machine.add(w.Value, p.spec.Now, p.waited(w))
		p.spec.MoveDue()
	}
	switch got, want := "", ""; {
	case step == 240:
		p.machine.Closed = true
		p.spec.ShutDown()
		call = "ShutDown"
	case p.bursts && step == 150:
		call = p.burst()
	default:
		call, got, want = p.call(p.IntN(p.span))
		if got != want {
			return call, fmt.Errorf("got %s, want %s", got, want)
		}
	}
	return call, p.compare()
}

func (p *play) place() (place spec.Place) {
	if p.ranked {
		place.Priority, place.Named = p.IntN(4)-1, p.IntN(2) == 0
	}
	if p.config.Grouped {
		place.Group, place.Weight = []string{"", "a", "b"}[p.IntN(3)], 1+p.IntN(3)
	}
	if p.config.Limited {
		place.Limit = p.IntN(5) - 1
	}
	return place
}

// placement returns nil for an add that says nothing.
func (p *play) placement(place spec.Place) *fifo.Placement {
	if place == (spec.Place{}) && !p.ranked {
		return nil
	}
	return &fifo.Placement{
		Rank: fifo.Rank{Priority: place.Priority, Named: place.Named}, Group: place.Group, Weight: place.Weight, Limit: place.Limit,
	}
}

// waited is the placement of an add at the end of a wait.
func (p *play) waited(w spec.Wait[int]) *fifo.Placement {
	place := p.placement(w.Place)
	if place != nil {
		place.Waited = true
	}
	return place
}

// call makes a random call, and returns its results.
func (p *play) call(item int) (call, got, want string) {
	switch op := p.IntN(22); op {
	case 0, 1, 2, 3:
		return p.take()
	case 4, 5, 6:
		return p.done(item)
	case 7:
		return p.conclude(item)
	case 8:
		if p.config.Queue != nil && p.lined[item] { // It leaves no ghost.
			return "nothing", "", ""
		}
		return p.remove(item)
	case 9:
		if _, held := p.spec.Held[item]; !held {
			return "nothing", "", ""
		}
		return p.remove(item)
	case 10:
		return p.watch(item), "", ""
	case 18, 19:
		return p.keep(item)
	case 20:
		return p.wake(item)
	case 11:
		ticket := p.spec.Barrier()
		if b := p.machine.RaiseBarrier(); b != nil {
			p.barriers = append(p.barriers, barrier{b, ticket})
			return "Barrier", "", ""
		}
		return "Barrier", "true", fmt.Sprint(p.spec.Over(ticket))
	case 12, 13, 14:
		if p.ranked {
			return p.addAfter(item)
		}
	case 21:
		if p.config.Limited {
			return p.limitsChanged(), "", ""
		}
	}
	return p.add(item)
}

// limitsChanged gives all groups other limits, in the order of their names.
func (p *play) limitsChanged() string {
	limits := map[string]int{"": p.IntN(5) - 1, "a": p.IntN(5) - 1, "b": p.IntN(5) - 1, "never added": 1}
	for _, group := range slices.Sorted(maps.Keys(limits)) {
		p.machine.SetLimit(group, limits[group])
	}
	p.spec.LimitsChanged(func(group string) int { return limits[group] })
	return fmt.Sprint("LimitsChanged ", limits)
}

func (p *play) remove(item int) (call, got, want string) {
	_, back := p.machine.Remove(slab.HashOf(item), item)
	pending := p.spec.Pending(item)
	p.spec.RemoveBelow(item)
	return fmt.Sprint("Remove ", item), fmt.Sprint(back), fmt.Sprint(pending)
}

// conclude makes one of the ends of a hand-out. Done comes at some later time. No Done queues a stored
// item where it was: the play of a storage does not know the line before the storage.
func (p *play) conclude(item int) (call, got, want string) {
	ends := map[spec.End]fifo.End{
		spec.Worked: fifo.EndWorked, spec.Retry: fifo.EndRetry, spec.Redo: fifo.EndRedo, spec.Back: fifo.EndBack, spec.Leave: fifo.EndLeave,
	}
	end := []spec.End{spec.Worked, spec.Retry, spec.Redo, spec.Back, spec.Leave}[p.IntN(5)]
	if _, held := p.spec.Held[item]; !held {
		return "nothing", "", ""
	}
	if end == spec.Back && p.config.Queue != nil {
		return "nothing", "", ""
	}
	place := p.place()
	c := p.machine.Conclude(slab.HashOf(item), item, ends[end], p.spec.Now, p.placement(place))
	removed, again := p.spec.Conclude(item, end, place)
	return fmt.Sprintf("Conclude %d %s %+v", item, end, place), fmt.Sprint(c.Removed, c.Again), fmt.Sprint(removed, again)
}

// keep begins a firm wait. An item that was woken is added instead.
func (p *play) keep(item int) (call, got, want string) {
	at := slices.IndexFunc(p.spec.Waiting, func(w spec.Wait[int]) bool { return w.Value == item })
	if p.spec.Down || p.lined[item] || at >= 0 && !p.spec.Waiting[at].Firm {
		return "nothing", "", ""
	}
	place, delay := p.place(), time.Duration(1+p.IntN(20))
	call = fmt.Sprintf("Keep %d %d %+v", item, delay, place)
	hash, pending := slab.HashOf(item), p.spec.Pending(item)
	if p.spec.Held[item].Woken {
		p.machine.add(item, p.spec.Now, p.placement(place))
	} else {
		back := p.machine.Keep(hash, item, rankOf(place))
		p.machine.Hear(p.placement(place))
		got, want = fmt.Sprint(back), fmt.Sprint(pending)
	}
	p.spec.Later(spec.Firm, item, delay, 0, place)
	return call, got, want
}

func (p *play) wake(item int) (call, got, want string) {
	p.machine.Wake(slab.HashOf(item), item)
	at := slices.IndexFunc(p.spec.Waiting, func(w spec.Wait[int]) bool { return w.Value == item })
	if at >= 0 {
		w := p.spec.Waiting[at]
		p.machine.Unkeep(slab.HashOf(item), item)
		p.machine.add(item, p.spec.Now, p.waited(w))
	}
	p.spec.Wake(item)
	return fmt.Sprint("Wake ", item), "", ""
}

func (p *play) addAfter(item int) (call, got, want string) {
	if slices.ContainsFunc(p.spec.Waiting, func(w spec.Wait[int]) bool { return w.Value == item }) {
		return "nothing", "", ""
	}
	place, delay := p.place(), time.Duration(1+p.IntN(20))
	if !p.spec.Down {
		p.machine.Hear(p.placement(place))
	}
	p.spec.Later(spec.After, item, delay, 0, place)
	return fmt.Sprintf("AddAfter %d %d %+v", item, delay, place), "", ""
}

func (p *play) add(item int) (call, got, want string) {
	if p.waits && p.IntN(4) > 0 {
		return p.addAfter(item)
	}
	place := p.place()
	size := p.spec.Len()
	again := p.spec.Held[item].Marked
	added := p.machine.add(item, p.spec.Now, p.placement(place))
	p.spec.Add(item, place)
	news := p.spec.Len() > size || !again && p.spec.Held[item].Marked
	return fmt.Sprintf("Add %d %+v", item, place), fmt.Sprint(added), fmt.Sprint(news)
}

func (p *play) take() (call, got, want string) {
	item, waited, ok := p.machine.Take(p.spec.Now)
	next, nextOK := p.spec.Get()
	delete(p.lined, next.Value)
	if !ok {
		return "Take", fmt.Sprint(ok), fmt.Sprint(nextOK)
	}
	got, want = fmt.Sprint(item), fmt.Sprint(next.Value)
	if p.config.Timed {
		got, want = fmt.Sprint(got, waited), fmt.Sprint(want, p.spec.Now-next.Since)
	}
	if p.ranked {
		got, want = fmt.Sprint(got, p.machine.Taken), fmt.Sprint(want, rankOf(next.Place))
	}
	return "Take", got, want
}

func rankOf(p spec.Place) fifo.Rank { return fifo.Rank{Priority: p.Priority, Named: p.Named} }

func (p *play) done(item int) (call, got, want string) {
	h := p.spec.Held[item]
	worked, ok := p.machine.done(item, p.spec.Now)
	if got, want = fmt.Sprint(ok), fmt.Sprint(p.spec.Done(item)); ok && p.config.Timed {
		got, want = fmt.Sprint(got, worked), fmt.Sprint(want, p.spec.Now-h.Since)
	}
	return fmt.Sprint("Done ", item), got, want
}

func (p *play) watch(item int) string {
	tell := func(cause error) {
		p.told = append(p.told, spec.Ending[int]{Item: item, Removed: cause == endings.Removed})
	}
	w := fifo.Watcher{Ctx: context.Background(), Cancel: tell}
	if over := p.machine.Watch(slab.HashOf(item), item, w, &endings); over != nil {
		tell(over)
	}
	p.spec.Watch(item)
	return fmt.Sprint("Watch ", item)
}

// burst adds many items, and takes them back or works them off, so that the table shrinks and the
// records of all other items move. The specification has no queued items at first, and does not see
// the burst. Hand-outs would count for groups and ages.
func (p *play) burst() string {
	const from, n = 100, 1200
	if p.config.Queue != nil || p.machine.Closed {
		return "no burst"
	}
	for _, i := range p.spec.Line() {
		p.machine.Remove(slab.HashOf(i.Value), i.Value)
		p.spec.RemoveBelow(i.Value)
	}
	for item := from; item < from+n; item++ {
		p.machine.add(item, p.spec.Now, nil)
	}
	kept := 100
	if p.config.Grouped || p.config.OldestEvery > 0 {
		kept = 0
	}
	for item := from; item < from+n-kept; item++ {
		p.machine.Remove(slab.HashOf(item), item)
	}
	for range kept {
		p.machine.Take(p.spec.Now)
	}
	for item := from; item < from+n; item++ {
		p.machine.done(item, p.spec.Now)
	}
	return "a burst"
}

func (p *play) compare() error {
	m, s := p.machine, p.spec
	var errs slab.Check
	errs.Add("", m.CheckInvariants())
	errs.That(m.Len() == s.Len() && m.Size() == s.Len(), "Len: got %d, Size: got %d, want %d", m.Len(), m.Size(), s.Len())
	errs.That(m.Held() == len(s.Held), "Held: got %d, want %d", m.Held(), len(s.Held))
	errs.That(m.Ready() == s.Ready(), "Ready: got %v", m.Ready())
	errs.That(m.Idle() == s.Idle(), "Idle: got %v", m.Idle())
	errs.That(slices.Equal(p.told, s.Told), "watchers: got %v, want %v", p.told, s.Told)
	again := 0
	for item := range p.span {
		hash, h := slab.HashOf(item), s.Held[item]
		var stand fifo.Stand
		for member, is := range map[fifo.Stand]bool{
			fifo.StandQueued: s.Pending(item) && !h.Marked, fifo.StandAgain: h.Marked, fifo.StandFirm: s.WaitsFirmly(item),
			fifo.StandRemoved: h.Gone, fifo.StandWoken: h.Woken,
		} {
			if is {
				stand |= member
			}
		}
		errs.That(m.StandOf(hash, item) == stand, "StandOf %d: got %b, want %b", item, m.StandOf(hash, item), stand)
		if h.Marked {
			again++
		}
	}
	errs.That(m.HeldAgain() == again, "HeldAgain: got %d, want %d", m.HeldAgain(), again)
	for _, b := range p.barriers {
		over, dropped := isOver(b.Barrier), isOver(b.Barrier) && b.Dropped
		errs.That(over == (s.Over(b.ticket) || s.Dropped(b.ticket)), "barrier %d: over is %v", b.ticket, over)
		errs.That(dropped == s.Dropped(b.ticket), "barrier %d: dropped is %v", b.ticket, dropped)
	}
	p.compareCensus(&errs)
	return errs.Err()
}

func isOver(b *slab.Barrier) bool {
	select {
	case <-b.Over:
		return true
	default:
		return false
	}
}

// compareCensus compares the lists of items with the times, and the sums of the times.
func (p *play) compareCensus(errs *slab.Check) {
	m, s := p.machine, p.spec
	c := fifo.Census[int]{Limit: 1 << 20}
	m.EnterIn(&c)
	since := func(at time.Duration) time.Duration {
		if p.config.Timed {
			return at
		}
		return 0
	}
	errs.That(c.QueuedTotal == s.Len() && c.HeldTotal == len(s.Held), "census: %d queued and %d held", c.QueuedTotal, c.HeldTotal)
	var longest, sum, oldest time.Duration
	for _, e := range c.Held {
		h := s.Held[e.Item]
		rank := rankOf(h.Place)
		if h.Marked {
			rank = rankOf(h.Next)
		}
		want := fifo.Entry[int]{Item: e.Item, Held: true, Again: h.Marked, Since: since(h.Since), Rank: rank}
		errs.That(e == want, "census: held %+v, want %+v", e, want)
		longest = max(longest, since(s.Now-h.Since))
		sum += since(s.Now - h.Since)
	}
	lined := 0
	for at, i := range s.Line() {
		why := map[string]fifo.Why{"": fifo.WhyNone, "group_full": fifo.WhyGroupFull, "held_back": fifo.WhyHeldBack}[s.WhyQueued(i)]
		want := fifo.Entry[int]{Item: i.Value, Since: since(i.Since), Rank: rankOf(i.Place), Why: why}
		place := slices.IndexFunc(c.Queued, func(e fifo.Entry[int]) bool { return e.Item == i.Value })
		errs.That(place >= 0 && c.Queued[place] == want, "census: %+v, want %+v", c.Queued, want)
		errs.That(place == at || at >= c.Lined, "census: %d is at %d, want %d", i.Value, place, at)
		oldest = max(oldest, since(s.Now-i.Since))
		if p.lined[i.Value] {
			lined++
		}
	}
	total, most := m.InFlight(s.Now)
	errs.That(total == sum && most == longest, "InFlight: got %v, %v, want %v, %v", total, most, sum, longest)
	if p.config.Queue != nil && lined < 2 { // Otherwise the first of the line need not be the oldest.
		errs.That(m.Oldest(s.Now) == oldest, "Oldest: got %v, want %v", m.Oldest(s.Now), oldest)
	}
}
