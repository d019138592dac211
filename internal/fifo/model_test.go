package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

var (
	errReAdded = errors.New("added again")
	errRemoved = errors.New("removed")
	endings    = fifo.Endings{ReAdded: errReAdded, Removed: errRemoved}
)

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

// An entry is an item of the model. A ghost was removed, and the storage keeps its place.
type entry struct {
	item           int
	rank           fifo.Rank
	group          string
	added, started time.Duration

	ghost, lined   bool // lined: outside of the storage
	marked, gone   bool
	mark           fifo.Rank
	markGroup      string
	watchers       int
	beforeBarriers []*barrier
}

type barrier struct {
	*slab.Barrier
	left int
}

// A naive machine is the model of a FIFO: slices that are searched. Within each lane, queued has
// the items in the order of their hand-out.
type naive struct {
	config       fifo.Config[int]
	queued, held []*entry
	limits       map[string]int
	closed       bool
	causes       map[int][]error // of watchers
	barriers     []*barrier
}

func find(entries []*entry, item int) *entry {
	if i := slices.IndexFunc(entries, func(e *entry) bool { return e.item == item }); i >= 0 {
		return entries[i]
	}
	return nil
}

func without(entries []*entry, e *entry) []*entry {
	return slices.DeleteFunc(entries, func(other *entry) bool { return other == e })
}

func (n *naive) add(item int, now time.Duration, p *fifo.Placement) (added bool) {
	var rank fifo.Rank
	group := ""
	if p != nil {
		rank, group = p.Rank, p.Group
	}
	if n.closed {
		return false
	}
	if p != nil && p.Weight > 0 && !p.Waited {
		n.limits[group] = p.Limit
	}
	if e := find(n.held, item); e != nil {
		again := e.marked
		if !again || rank.Priority > e.mark.Priority {
			e.mark = rank
		}
		if !again || p != nil {
			e.markGroup = group
		}
		if !again {
			e.marked, e.added = true, now
			n.tell(e, errReAdded)
		}
		return !again
	}
	e := find(n.queued, item)
	switch {
	case e == nil:
		n.queued = append(n.queued, &entry{item: item, rank: rank, group: group, added: now})
		return true
	case e.ghost:
		e.ghost, e.added, e.beforeBarriers = false, now, nil
		return true
	case rank.Priority > e.rank.Priority:
		e.rank = rank
		n.queued = append(without(n.queued, e), e)
	}
	return false
}

func (n *naive) tell(e *entry, cause error) {
	for ; e.watchers > 0; e.watchers-- {
		n.causes[e.item] = append(n.causes[e.item], cause)
	}
}

func (n *naive) mayGo(e *entry) bool {
	limit, inFlight := n.limits[e.group], 0
	for _, h := range n.held {
		if h.group == e.group {
			inFlight++
		}
	}
	return !e.ghost && (limit == 0 || inFlight < limit)
}

// next returns the items that may be handed out next: the first of their lanes. Without groups
// and OldestEvery there is one. Groups take turns, and ages count, in the models of the root.
func (n *naive) next() (first []*entry) {
	for _, e := range n.queued {
		sameLane := func(f *entry) bool { return f.rank.Priority == e.rank.Priority && f.group == e.group }
		if n.mayGo(e) && !slices.ContainsFunc(first, sameLane) {
			first = append(first, e)
		}
	}
	if len(first) == 0 || n.config.OldestEvery > 0 {
		return first
	}
	most := slices.MaxFunc(first, func(e, f *entry) int { return byPriority(f, e) })
	return slices.DeleteFunc(first, func(e *entry) bool {
		return e.rank.Priority < most.rank.Priority && (!n.config.GroupsFirst || n.hasHigher(first, e))
	})
}

func byPriority(e, f *entry) int { return f.rank.Priority - e.rank.Priority }

func (n *naive) hasHigher(first []*entry, e *entry) bool {
	return slices.ContainsFunc(first, func(f *entry) bool { return f.group == e.group && f.rank.Priority > e.rank.Priority })
}

func (n *naive) take(item int, now time.Duration) (e *entry) {
	for n.config.Queue != nil && len(n.queued) > 0 && n.queued[0].ghost {
		n.queued = n.queued[1:]
	}
	if e = find(n.next(), item); e != nil {
		n.queued = without(n.queued, e)
		n.held = append(n.held, e)
		e.started, e.lined = now, false
	}
	return e
}

func (n *naive) done(item int) (e *entry) {
	if e = find(n.held, item); e == nil {
		return nil
	}
	n.held = without(n.held, e)
	n.pass(e)
	if e.marked {
		n.queued = append(n.queued, &entry{item: item, rank: e.mark, group: e.markGroup, added: e.added})
	}
	return e
}

func (n *naive) putBack(item int) {
	e := find(n.held, item)
	if e == nil {
		return
	}
	n.held = without(n.held, e)
	if e.marked && e.mark.Priority > e.rank.Priority {
		e.rank, e.group = e.mark, e.markGroup
	}
	e.marked, e.watchers, e.gone, e.lined = false, 0, false, true
	n.queued = slices.Insert(n.queued, 0, e)
}

func (n *naive) remove(item int) bool {
	if e := find(n.held, item); e != nil {
		was := e.marked
		e.marked = false
		return was
	}
	e := find(n.queued, item)
	if e == nil || e.ghost {
		return false
	}
	n.pass(e)
	if e.ghost = n.config.Queue != nil && !e.lined; !e.ghost {
		n.queued = without(n.queued, e)
	}
	return true
}

func (n *naive) letGo(item int) {
	if e := find(n.held, item); e != nil {
		e.gone = true
		n.tell(e, errRemoved)
	}
}

func (n *naive) watch(item int) error {
	e := find(n.held, item)
	switch {
	case e == nil:
		return nil
	case e.marked:
		return errReAdded
	case e.gone:
		return errRemoved
	}
	e.watchers++
	return nil
}

// raise raises a barrier behind all items, and pass takes an item from its barriers.
func (n *naive) raise(b *slab.Barrier) {
	raised := &barrier{Barrier: b}
	for _, e := range slices.Concat(n.queued, n.held) {
		if !e.ghost {
			e.beforeBarriers = append(e.beforeBarriers, raised)
			raised.left++
		}
	}
	n.barriers = append(n.barriers, raised)
}

func (n *naive) pass(e *entry) {
	for _, b := range e.beforeBarriers {
		b.left--
	}
	e.beforeBarriers = nil
}

// waiting returns the queued items without ghosts.
func (n *naive) waiting() []*entry {
	return slices.DeleteFunc(slices.Clone(n.queued), func(e *entry) bool { return e.ghost })
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

// TestModel plays random calls on a FIFO of each kind and on the model, and compares all there is
// to see.
func TestModel(t *testing.T) {
	t.Parallel()
	for kind, config := range map[string]fifo.Config[int]{
		"line":         {},
		"priorities":   {Timed: true},
		"storage":      {Timed: true, Queue: &line{}},
		"groups":       {Timed: true, Grouped: true, Limited: true},
		"groups first": {Grouped: true, Limited: true, GroupsFirst: true},
		"oldest":       {Timed: true, OldestEvery: 3},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			rnd := rand.New(rand.NewPCG(seed, 0))
			for range 10 {
				if config.Queue != nil {
					config.Queue = &line{}
				}
				p := &play{Rand: rnd, machine: newMachine(config), naive: &naive{config: config, limits: map[string]int{}, causes: map[int][]error{}}}
				p.priorities = kind != "line" && kind != "storage"
				p.span = 1 + rnd.IntN(30)
				if err := p.run(400); err != nil {
					t.Fatalf("seed %#x: %v", seed, err)
				}
			}
		})
	}
}

// A play makes the same calls of a machine and of the model.
type play struct {
	*rand.Rand
	machine    *machine
	naive      *naive
	priorities bool
	span       int
	now        time.Duration
	causes     map[int][]error
}

func (p *play) run(steps int) error {
	p.causes = make(map[int][]error)
	for step := range steps {
		p.now++
		call := p.step(p.IntN(p.span))
		if step%50 == 49 {
			call = p.burst()
		}
		if err := p.compare(); err != nil {
			return fmt.Errorf("after step %d, %s: %w", step, call, err)
		}
	}
	p.machine.Closed, p.naive.closed = true, true
	p.add(p.span)
	return p.compare()
}

func (p *play) placement() *fifo.Placement {
	var place fifo.Placement
	if !p.priorities || !p.naive.config.Grouped && p.IntN(3) == 0 {
		return nil
	}
	place.Rank = fifo.Rank{Priority: p.IntN(4) - 1, Named: p.IntN(2) == 0}
	if p.naive.config.Grouped {
		place.Group, place.Weight, place.Limit = []string{"", "a", "b"}[p.IntN(3)], 1+p.IntN(2), p.IntN(4)
	}
	return &place
}

func (p *play) add(item int) string {
	place := p.placement()
	got, want := p.machine.add(item, p.now, place), p.naive.add(item, p.now, place)
	return differ(fmt.Sprintf("Add %d %+v", item, place), got, want)
}

// differ returns the name of a call, and panics if its results differ.
func differ(call string, got, want any) string {
	if got != want {
		panic(fmt.Sprintf("%s: got %v, want %v", call, got, want))
	}
	return call
}

func (p *play) step(item int) string {
	switch op := p.IntN(16); op {
	default:
		return p.add(item)
	case 5, 6, 7, 8:
		return p.take()
	case 9, 10:
		return p.done(item)
	case 11:
		p.machine.PutBack(item, p.now)
		p.naive.putBack(item)
		return fmt.Sprint("PutBack ", item)
	case 12:
		return differ(fmt.Sprint("Remove ", item), p.machine.Remove(slab.HashOf(item), item), p.naive.remove(item))
	case 13:
		p.machine.LetGoOfHeld(slab.HashOf(item), item)
		p.naive.letGo(item)
		return fmt.Sprint("LetGoOfHeld ", item)
	case 14:
		return p.watch(item)
	case 15:
		if b := p.machine.RaiseBarrier(); b != nil {
			p.naive.raise(b)
		}
		return "RaiseBarrier"
	}
}

func (p *play) take() string {
	item, waited, ok := p.machine.Take(p.now)
	if !ok {
		p.naive.take(-1, p.now) // Drops ghosts.
		return differ("Take", ok, len(p.naive.next()) > 0)
	}
	e := p.naive.take(item, p.now)
	if e == nil {
		panic(fmt.Sprintf("Take: got %d, want one of %d others", item, len(p.naive.next())))
	}
	if p.naive.config.Timed {
		differ(fmt.Sprint("Take ", item, " after"), waited, p.now-e.added)
	}
	if p.machine.Queue() == nil && !p.machine.IsPlain() {
		differ(fmt.Sprint("Take ", item, " with"), p.machine.Taken, e.rank)
	}
	return fmt.Sprint("Take ", item)
}

func (p *play) done(item int) string {
	worked, ok := p.machine.done(item, p.now)
	e := p.naive.done(item)
	if ok && p.naive.config.Timed {
		differ(fmt.Sprint("Done ", item, " after"), worked, p.now-e.started)
	}
	return differ(fmt.Sprint("Done ", item), ok, e != nil)
}

func (p *play) watch(item int) string {
	w := fifo.Watcher{Ctx: context.Background(), Cancel: func(cause error) { p.causes[item] = append(p.causes[item], cause) }}
	got := p.machine.Watch(slab.HashOf(item), item, w, &endings)
	return differ(fmt.Sprint("Watch ", item), got, p.naive.watch(item))
}

// burst adds many items, and takes them back or works them off, so that the table shrinks and the
// records of all other items move. The model has no queued items at first, and does not see the
// burst. In a limited group the items of the burst would count.
func (p *play) burst() string {
	const from, n = 100, 1200
	for _, e := range p.naive.waiting() {
		differ(fmt.Sprint("Remove ", e.item), p.machine.Remove(slab.HashOf(e.item), e.item), p.naive.remove(e.item))
	}
	p.naive.take(-1, p.now)
	for item := from; item < from+n; item++ {
		p.machine.add(item, p.now, nil)
	}
	kept := 100
	if p.naive.config.Limited {
		kept = 0
	}
	for item := from; item < from+n-kept; item++ {
		p.machine.Remove(slab.HashOf(item), item)
	}
	for range kept {
		p.machine.Take(p.now)
	}
	for range 8 {
		p.step(p.IntN(p.span))
	}
	for item := from; item < from+n; item++ {
		p.machine.done(item, p.now)
	}
	return "a burst"
}

func (p *play) compare() error {
	m, n := p.machine, p.naive
	var errs slab.Check
	errs.Add("", m.CheckInvariants())
	waiting := n.waiting()
	errs.That(m.Len() == len(waiting), "Len: got %d, want %d", m.Len(), len(waiting))
	errs.That(m.Size() == len(waiting), "Size: got %d, want %d", m.Size(), len(waiting))
	errs.That(m.Held() == len(n.held), "Held: got %d, want %d", m.Held(), len(n.held))
	ready := len(n.next()) > 0
	errs.That(m.Ready() == ready, "Ready: got %v", m.Ready())
	errs.That(m.Idle() == (!ready && len(n.held) == 0), "Idle: got %v", m.Idle())
	again := 0
	for item := range p.span {
		hash := slab.HashOf(item)
		held := find(n.held, item)
		queued := slices.Contains(waiting, find(n.queued, item))
		marked := held != nil && held.marked
		errs.That(m.IsQueued(hash, item) == (queued || marked), "IsQueued %d: got %v", item, m.IsQueued(hash, item))
		errs.That(m.IsGone(hash, item) == (held != nil && held.gone), "IsGone %d: got %v", item, m.IsGone(hash, item))
		rank, got := m.MarkOf(hash, item)
		errs.That(got == marked && (!marked || rank == held.mark), "MarkOf %d: got %v, %v", item, rank, got)
		errs.That(slices.Equal(p.causes[item], n.causes[item]), "watchers of %d: got %v, want %v", item, p.causes[item], n.causes[item])
		if marked {
			again++
		}
	}
	errs.That(m.HeldAgain() == again || len(n.held) > p.span, "HeldAgain: got %d, want %d", m.HeldAgain(), again)
	for _, b := range n.barriers {
		errs.That(isOver(b.Barrier) == (b.left == 0), "a barrier with %d items left: over is %v", b.left, isOver(b.Barrier))
	}
	p.compareCensus(&errs, waiting)
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

func (p *play) compareCensus(errs *slab.Check, waiting []*entry) {
	c := fifo.Census[int]{Limit: 1 << 20}
	p.machine.EnterIn(&c)
	errs.That(c.QueuedTotal == len(waiting) && c.HeldTotal == len(p.naive.held), "census: %d queued and %d held", c.QueuedTotal, c.HeldTotal)
	var longest, sum, oldest time.Duration
	for _, e := range c.Held {
		want := find(p.naive.held, e.Item)
		errs.That(want != nil && e.Held && e.Again == want.marked, "census: held %+v, want %+v", e, want)
		if want != nil && p.naive.config.Timed {
			errs.That(e.Since == want.started, "census: %d is held since %v, want %v", e.Item, e.Since, want.started)
			longest = max(longest, p.now-want.started)
			sum += p.now - want.started
		}
	}
	slices.SortStableFunc(waiting, byPriority)
	for i, e := range c.Queued {
		want := find(waiting, e.Item)
		errs.That(want != nil && !e.Held && !e.Again && e.Rank == want.rank, "census: queued %+v, want %+v", e, want)
		errs.That(i >= c.Lined || want == waiting[i], "census: %d is at %d, want %d", e.Item, i, waiting[i].item)
		if want != nil && p.naive.config.Timed {
			errs.That(e.Since == want.added, "census: %d is queued since %v, want %v", e.Item, e.Since, want.added)
			oldest = max(oldest, p.now-want.added)
		}
	}
	total, most := p.machine.InFlight(p.now)
	errs.That(total == sum && most == longest, "InFlight: got %v, %v, want %v, %v", total, most, sum, longest)
	lined := 0
	for _, e := range waiting {
		if e.lined {
			lined++
		}
	}
	if p.machine.Queue() != nil && lined < 2 { // Otherwise the first of the line need not be the oldest.
		errs.That(p.machine.Oldest(p.now) == oldest, "Oldest: got %v, want %v", p.machine.Oldest(p.now), oldest)
	}
}
