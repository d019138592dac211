package workqueue

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"time"
	"unsafe"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// This file is the keyhole through which the tests, which are in a package of
// their own, see what has no effect of its own: the invariants that stand
// above the types, and the sizes that have a budget. There is one line for
// each formula.

// HashOf is the hash that a queue uses.
func HashOf[T comparable](item T) uint32 { return slab.HashOf(item) }

// An Agenda is the set of waiting items.
type Agenda[T comparable] = agenda[T]

func (a *agenda[T]) Schedule(item T, due time.Duration) (first bool) {
	return a.schedule(slab.HashOf(item), item, 0, &timing{due: due}, nil)
}
func (a *agenda[T]) Reschedule(item T, due time.Duration) (first bool) {
	return a.reschedule(slab.HashOf(item), item, 0, &timing{due: due}, nil)
}
func (a *agenda[T]) Debounce(item T, due, latest time.Duration) (first bool) {
	return a.debounce(slab.HashOf(item), item, 0, &timing{due: due, latest: latest}, nil)
}
func (a *agenda[T]) Remove(item T) bool {
	_, ok := a.remove(slab.HashOf(item), item, nil)
	return ok
}

// Earliest returns the first items in the order of Pop.
func (a *agenda[T]) Earliest(limit int) (items []T) {
	for _, n := range a.earliest(limit) {
		items = append(items, a.items.Records.At(n.ref).Item)
	}
	return items
}

func (a *agenda[T]) Pop() T {
	_, item, _ := a.pop(nil)
	return item
}
func (a *agenda[T]) Len() int            { return a.len() }
func (a *agenda[T]) Next() time.Duration { return a.next() }
func (a *agenda[T]) Ticket() uint32      { return a.ticket }
func (a *agenda[T]) Room() int           { return a.items.Records.N }
func (a *agenda[T]) Plans() uint64       { return a.plans() }

func (a *agenda[T]) PlannedBefore(plans uint64) bool { return a.due(reading{math.MaxInt64, plans}) }

// SetTicket sets the ticket of the next node, which must not be lower than that of
// a node there is.
func (a *agenda[T]) SetTicket(ticket uint32) { a.ticket = ticket }

// CheckInvariants returns what is wrong with the agenda, or nil.
func (a *agenda[T]) CheckInvariants() error {
	var errs slab.Check
	errs.Add("agenda: ", a.items.CheckInvariants())
	errs.Add("nodes: ", a.nodes.CheckInvariants())
	errs.That(a.nodes.N == a.items.Live, "agenda: %d nodes for %d records", a.nodes.N, a.items.Live)
	errs.That(a.starts.N == a.items.Records.N || !a.timed && a.starts.N == 0, "agenda: %d starts for %d records", a.starts.N, a.items.Records.N)
	for _, n := range a.sizesOfNotes() {
		errs.That(slab.PageSize*n < a.items.Records.N+slab.PageSize, "agenda: %d pages of notes for %d records", n, a.items.Records.N)
	}
	for p := range uint32(a.nodes.N) {
		n := *a.nodes.At(p)
		if p > 0 {
			parent := *a.nodes.At((p - 1) / 4)
			errs.That(!n.before(parent), "agenda: node %d %+v comes before its parent %+v", p, n, parent)
		}
		r := a.items.Records.At(n.ref)
		errs.That(r.Pos == p && r.State >= waiting && r.State <= strict, "agenda: record %d of node %d has pos %d, state %d", n.ref, p, r.Pos, r.State)
		if r.State == debounced {
			latest := *a.extras.latest.At(n.ref)
			errs.That(n.due <= latest, "agenda: %v is due at %v, the latest is %v", r.Item, n.due, latest)
		}
		if a.extras != nil {
			floor := a.extras.floors.Get(n.ref)
			errs.That(floor == 0 || floor <= n.due, "agenda: %v is due at %v, before its floor %v", r.Item, n.due, floor)
		}
		errs.That(n.ticket < a.ticket, "agenda: node %d has ticket %d of %d", p, n.ticket, a.ticket)
	}
	return errs.Err()
}

// CheckInvariants returns what is wrong with the queue, or nil.
func (q *Typed[T]) CheckInvariants() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var errs slab.Check
	errs.Add("", q.fifo.CheckInvariants())
	q.checkWaits(&errs)
	return errs.Err()
}

// CheckInvariants returns what is wrong with the fifo, or nil.
func (f *fifo[T]) CheckInvariants() error {
	var errs slab.Check
	errs.Add("items: ", f.items.CheckInvariants())
	inList, inStore, ghosts, watches := 0, 0, 0, 0
	for i := range uint32(f.items.Records.N) {
		switch r := f.items.Records.At(i); r.State {
		case queued, unfindable:
			inList++
		case processing, watched, reprocess:
			_, reported := f.watchers[r.Item]
			errs.That(reported == (r.State == watched), "record %d (%v) has state %d, a watcher: %v", i, r.Item, r.State, reported)
			if reported {
				watches++
			}
			errs.That(int(r.Pos) < len(f.held) && f.held[r.Pos] == i, "record %d (%v) is processed, but not held at %d", i, r.Item, r.Pos)
		case inStorage:
			inStore++
		case removed:
			ghosts++
		}
	}
	errs.That(len(f.watchers) == watches, "%d watchers for %d records", len(f.watchers), watches)
	errs.That(f.n == inList, "n: counted %d, are %d", f.n, inList)
	errs.That(f.n+len(f.held)+inStore+ghosts == f.items.Live, "%d in lists + %d held + %d stored + %d removed != %d records", f.n, len(f.held), inStore, ghosts, f.items.Live)
	if g := f.storage; g != nil {
		errs.That(f.lanes == nil, "lanes beside a storage")
		errs.That(g.ghosts == ghosts, "ghosts: counted %d, are %d", g.ghosts, ghosts)
		errs.That(g.stored == inStore+g.unmatched, "stored: counted %d, are %d and %d without a record", g.stored, inStore, g.unmatched)
		errs.That(g.unmatched >= 0 && (g.unmatched == 0 || mayDiffer[T]()), "%d items without a record", g.unmatched)
	}
	errs.That(f.storage != nil || inStore+ghosts == 0, "%d records in no storage", inStore+ghosts)
	stamps := map[bool]int{true: f.items.Records.N}[f.timed]
	errs.That(f.stamps.N == stamps, "%d stamps for %d records, want %d", f.stamps.N, f.items.Records.N, stamps)
	f.checkBarriers(&errs)
	if f.lanes == nil {
		errs.That(f.checkList(&errs, f.line, 0) == f.n, "the line does not have %d records", f.n)
		return errs.Err()
	}
	f.checkLanes(&errs)
	errs.Add("", f.lanes.CheckInvariants())
	return errs.Err()
}

// SkipMarks makes the queue, which must be empty, go on with a mark.
func (q *Typed[T]) SkipMarks(mark uint16) { q.fifo.barriers.Mark = mark }

// checkBarriers compares what the barriers count with the marks of the records.
func (f *fifo[T]) checkBarriers(errs *slab.Check) {
	var marks []uint16
	for i := range uint32(f.items.Records.N) {
		if r := f.items.Records.At(i); r.State != 0 && r.State != removed {
			marks = append(marks, r.Mark)
		}
	}
	errs.Add("barriers: ", f.barriers.CheckInvariants(marks))
}

// checkList returns the length of a list.
func (f *fifo[T]) checkList(errs *slab.Check, l list, id uint32) (n int) {
	last := uint32(0)
	for i := l.head; i != 0 && n <= f.items.Live; n++ {
		r := f.items.Records.At(i - 1)
		errs.That(r.State == queued || r.State == unfindable, "record %d in a list has state %d", i-1, r.State)
		errs.That(r.X.lane == id, "record %d of lane %d says %d", i-1, id, r.X.lane)
		errs.That(last == 0 || r.Pos == last, "record %d comes after %d, says %d", i-1, last, r.Pos)
		last, i = i, r.X.next
	}
	errs.That(l.tail == last, "a list ends with %d, says %d", last, l.tail)
	return n
}

// checkLanes compares what the lanes count with the records.
func (f *fifo[T]) checkLanes(errs *slab.Check) {
	o := f.lanes
	errs.That(f.line == list{}, "a line beside lanes")
	refs, depths, held, sizes := map[*lane]int{}, map[*level]int{}, map[*group]int{}, map[*group]int{}
	for i := range uint32(f.items.Records.N) {
		r := f.items.Records.At(i)
		switch r.State {
		case queued, unfindable:
			refs[o.all[r.X.lane]]++
		case reprocess:
			refs[o.all[r.X.next]]++
			fallthrough
		case processing, watched:
			refs[o.all[r.X.lane]]++
			if o.limited {
				held[o.all[r.X.lane].share.group]++
			}
		}
	}
	n := 0
	for id, l := range o.all {
		if l == nil {
			continue
		}
		errs.That(int(l.id) == id, "lane %d has id %d", id, l.id)
		length := f.checkList(errs, l.list, l.id)
		errs.That(l.n == length, "lane %d: %d records, are %d", id, l.n, length)
		errs.That(o.every == 0 || l.n == 0 || l.seq == *f.seqs.At(l.head - 1), "lane %d: the first record has another number", id)
		permanent := map[bool]int{true: 1}[id == 0 || l.level.permanent && !o.grouped]
		errs.That(l.refs == refs[l]+permanent && l.refs > 0, "lane %d: %d refs, are %d and %d", id, l.refs, refs[l], permanent)
		n += length
		depths[l.level] += length
		sizes[l.share.group] += length
		g := l.share.group
		errs.That(g.inFlight == held[g], "group %q: %d in flight, are %d", g.name, g.inFlight, held[g])
	}
	for _, l := range o.all {
		if l != nil {
			errs.That(l.level.depth(o.grouped) == depths[l.level], "level %d: %d deep, is %d", l.level.priority, l.level.depth(o.grouped), depths[l.level])
			g := l.share.group
			errs.That(!o.grouped || g.n == sizes[g], "group %q: %d records, are %d", g.name, g.n, sizes[g])
		}
	}
	errs.That(n == f.n, "the lanes have %d records of %d", n, f.n)
}

// CheckInvariants returns what is wrong with the lanes, or nil.
func (o *lanes) CheckInvariants() error {
	var errs slab.Check
	errs.Add("groups: ", o.groups.CheckInvariants())
	errs.Add("levels: ", o.levels.CheckInvariants())
	errs.Add("others: ", o.others.CheckInvariants())
	errs.Add("rotations: ", o.behind.CheckInvariants())
	in := map[*share]bool{}
	var rotations []*rotation
	if o.first != nil {
		rotations = append(rotations, o.first)
	}
	for _, e := range o.behind {
		rotations = append(rotations, e.Value)
		errs.That(o.first == nil || e.Value.priority < o.first.priority, "rotation %d is not behind the first", e.Value.priority)
	}
	for _, r := range rotations {
		for s, more := r.turn, true; more; s = s.next {
			errs.That(s.next.prev == s && s.rotation == r, "rotation %d is broken", r.priority)
			in[s] = true
			more = s.next != r.turn && len(in) <= len(o.all)
		}
	}
	aged := 0
	for id, l := range o.all {
		if l == nil {
			continue
		}
		s, g := l.share, l.share.group
		errs.That(g.full == (g.limit > 0 && g.inFlight >= g.limit), "group %q: full %v", g.name, g.full)
		errs.That(in[s] == (!o.isEmpty(s) && !g.full), "lane %d: its share of %q is in its rotation: %v, full: %v", id, g.name, in[s], g.full)
		errs.That(s.credit >= 0 && (s.credit == 0 || !o.isEmpty(s)), "lane %d: credit %d", id, s.credit)
		errs.That(g.shares[s.place] == s, "group %q has another share at %d", g.name, s.place)
		if o.groupsFirst {
			errs.That(l.n == 0 || s.lanes[l.place].Value == l, "lane %d is not at %d of its share", id, l.place)
			errs.That(len(s.lanes) == 0 || s.top == s.lanes[0].Value, "group %q has another lane on top", g.name)
			errs.Add("lanes: ", s.lanes.CheckInvariants())
			errs.Add("ages: ", s.ages.heap.CheckInvariants())
			errs.That(o.every == 0 || len(s.ages.heap) == len(s.lanes), "group %q: %d lanes, %d by age", g.name, len(s.lanes), len(s.ages.heap))
		}
		if o.every > 0 && l.n > 0 && (o.groupsFirst || !g.full) {
			aged++
			errs.That(o.agesOf(s).heap[l.byAge].Value == l, "lane %d is not at %d by age", id, l.byAge)
		}
	}
	errs.Add("ages: ", o.ages.heap.CheckInvariants())
	errs.That(o.groupsFirst || o.every == 0 || len(o.ages.heap) == aged, "%d lanes by age, of %d", len(o.ages.heap), aged)
	return errs.Err()
}

// Lanes returns how many lanes, levels and groups there are, or for how many there is room.
func (q *Typed[T]) Lanes() (lanes, levels, groups int) {
	o := q.fifo.lanes
	if room := cap(o.main.shares); room > 1024 {
		return room, 0, 0
	}
	return len(o.all) - len(o.free), o.levels.Live, o.groups.Live
}

// checkWaits checks that nobody waits for what is there. That holds whenever
// mu is free, and so needs no quiescence.
func (q *Typed[T]) checkWaits(errs *slab.Check) {
	errs.That(q.parked >= 0, "%d workers wait", q.parked)
	errs.That(q.waking || len(q.wake) == 0, "a token for nobody")
	errs.That(q.parked == 0 || !q.mayWake() || q.waking, "%d workers wait beside %d items, closed: %v, and none is woken", q.parked, q.fifo.len(), q.fifo.closed)
	errs.That(q.pace == nil || !q.pace.Kept || q.parked > 0, "a keeper that is not parked")
	errs.That(q.idling == nil || !q.fifo.idle(), "a wait for an idle queue in an idle queue")
	errs.That(q.fifo.closed == q.shut.Load(), "closed: %v, ShuttingDown: %v", q.fifo.closed, q.shut.Load())
}

// CheckQuiet returns what is wrong when no goroutine is about to do anything:
// a worker that was woken has then arrived, or there was none to take the token.
func (q *Typed[T]) CheckQuiet() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waking != (len(q.wake) == 1) || q.waking && q.parked > 0 {
		return fmt.Errorf("waking %v, %d tokens, %d workers wait", q.waking, len(q.wake), q.parked)
	}
	return nil
}

// mayDiffer reports whether a value of the type may differ from itself.
func mayDiffer[T any]() bool {
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Float32, reflect.Float64, reflect.Interface, reflect.Struct:
		return true
	}
	return false
}

// Waiting returns how many workers are parked or about to.
func (q *Typed[T]) Parked() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int(q.parked)
}

// Approach makes a worker be on its way, woken, until it is told to arrive.
func (q *Typed[T]) Approach() (arrive func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.parked++
	q.waking = true
	return func() { q.passOn(visitWoken) }
}

// Watch has f called when the item, if it is held, is added again.
func (q *Typed[T]) Watch(item T, f func()) {
	if q.watch(slab.HashOf(item), item, watcher{ctx: context.Background(), cancel: func(error) { f() }}) != nil {
		f()
	}
}

// Times returns when a queued or held item was added and handed out, if that is
// kept.
func (q *Typed[T]) Times(item T) (added, started time.Duration, kept bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at, r := q.fifo.items.Find(slab.HashOf(item), item)
	if !q.fifo.timed || r == nil {
		return 0, 0, false
	}
	s := q.fifo.stamps.At(q.fifo.items.Index(at))
	return s.added, s.started, true
}

// FIFO returns the queue below, if it is a Typed.
func (q *TypedDelaying[T]) FIFO() *Typed[T] {
	t, _ := q.queue.(*Typed[T])
	return t
}

// Delaying returns the queue below, if it is a TypedDelaying.
func (q *TypedRateLimiting[T]) Delaying() *TypedDelaying[T] {
	d, _ := q.queue.(*TypedDelaying[T])
	return d
}

// Attempts returns how many items have failed in handlers of Run that count.
func (q *TypedRateLimiting[T]) Attempts() int {
	f := q.failureCounts()
	return max(f.len(), int(f.failing.Load()))
}

// Held returns how many items are handed out.
func (q *Typed[T]) Held() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.fifo.held)
}

// Waiting returns how many items wait for their time.
func (q *TypedDelaying[T]) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.agenda.len()
}

// Drains returns how many calls of Drain are under way, and how many items are
// kept for them.
func (q *TypedDelaying[T]) Drains() (drains, dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dropped != nil {
		dropped = q.dropped.agenda.len()
	}
	return int(q.keepers), dropped
}

// Locked reports whether somebody has the lock.
func (q *Typed[T]) Locked() bool {
	if q.mu.TryLock() {
		q.mu.Unlock()
		return false
	}
	return true
}

// Locked is that of Typed.
func (q *TypedDelaying[T]) Locked() bool {
	if q.mu.TryLock() {
		q.mu.Unlock()
		return false
	}
	return true
}

// Hold takes the lock, and returns what gives it back.
func (q *Typed[T]) Hold() (release func()) {
	q.mu.Lock()
	return q.mu.Unlock
}

// Hold takes the lock, and returns what gives it back.
func (q *TypedDelaying[T]) Hold() (release func()) {
	q.mu.Lock()
	return q.mu.Unlock
}

// CheckInvariants returns what is wrong with the queue, or nil.
func (q *TypedDelaying[T]) CheckInvariants() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var errs slab.Check
	errs.Add("", q.agenda.CheckInvariants())
	errs.That(q.agenda.len() == 0 || q.running, "%d items wait and no goroutine does", q.agenda.len())
	errs.That(!q.closed || q.agenda.len() == 0, "%d items wait in a closed queue", q.agenda.len())
	errs.That(q.keepers > 0 || q.dropped == nil, "dropped items are kept without a drain")
	errs.That(len(q.moves) == 0, "what becomes due is noted for %d calls of RemoveFunc that have ended", len(q.moves))
	if q.typed != nil {
		errs.Add("", q.typed.CheckInvariants())
	}
	for p := uint32(0); q.oneEntry && int(p) < q.agenda.nodes.N; p++ {
		item := q.agenda.items.Records.At(q.agenda.nodes.At(p).ref).Item
		q.typed.mu.Lock()
		errs.That(!q.typed.fifo.isQueued(slab.HashOf(item), item), "%v is queued and waits", item)
		q.typed.mu.Unlock()
	}
	return errs.Err()
}

// Sizes returns the bytes of a record for strings, an index slot, a waiting
// node and the times of an item.
func Sizes() (record_, slot_, node_, stamp_ uintptr) {
	return unsafe.Sizeof(slab.Record[string, links]{}), unsafe.Sizeof(slab.Slot{}), unsafe.Sizeof(node{}), unsafe.Sizeof(stamp{})
}

// ResetProvider undoes SetProvider.
func ResetProvider() { defaultProvider.Store(nil) }

// Room returns for how many items the queue has records.
func (q *Typed[T]) Room() int { return q.fifo.items.Records.N }

// Watchers returns how many contexts are kept for an item.
func (q *Typed[T]) Watchers(item T) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for w, ok := q.fifo.watchers[item]; ok; w, ok = *w.more, true {
		if n++; w.more == nil {
			break
		}
	}
	return n
}

// CheckInvariants returns what is wrong with the limiter, or nil.
func (r *TypedItemBackoffRateLimiter[T]) CheckInvariants() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.items.CheckInvariants()
}

// CheckInvariants returns what is wrong with the limiter, or nil.
func (r *TypedExpiringRateLimiter[T]) CheckInvariants() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.expiries.CheckInvariants()
}

// CheckInvariants returns what is wrong with the limiter, or nil.
func (r *TypedKeyBucketRateLimiter[T]) CheckInvariants() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs slab.Check
	errs.Add("promised: ", r.promised.CheckInvariants())
	errs.Add("returned: ", r.returned.CheckInvariants())
	b := &r.bucket
	errs.That(b.tokens <= float64(b.burst), "key bucket: %v tokens, burst %d", b.tokens, b.burst)
	errs.That(b.extra >= 0 && b.extra <= b.burst, "key bucket: %d extra tokens, burst %d", b.extra, b.burst)
	errs.That(b.extra == 0 || b.tokens < 0, "key bucket: %d extra tokens beside %v", b.extra, b.tokens)
	return errs.Err()
}

// CheckInvariants returns what is wrong with the limiter, or nil.
func (r *TypedItemBucketRateLimiter[T]) CheckInvariants() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.full.CheckInvariants()
}

// Room returns how many items there are records for.
func (r *TypedItemExponentialFailureRateLimiter[T]) Room() int { return r.failures.items.Records.N }

// Counted returns the count of failures after n.
func Counted(n uint32) uint32 { return oneMore(n) }

// Returned returns how many places have been given back.
func (r *TypedKeyBucketRateLimiter[T]) Returned() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.returned.len()
}

// LimiterSizes returns the bytes that the limiters keep of an item, beside its
// slot and record.
func LimiterSizes() (streak_, due uintptr) {
	return unsafe.Sizeof(streak{}) + 4, unsafe.Sizeof(int64(0)) + 4
}

// sizesOfNotes returns how many pages of notes an agenda may have.
func (a *agenda[T]) sizesOfNotes() []int {
	if a.extras == nil {
		return nil
	}
	return []int{len(a.extras.latest), len(a.extras.priorities), len(a.extras.groups), len(a.extras.floors)}
}
