package workqueue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
)

// This file is the keyhole through which the tests, which are in a package of
// their own, see what has no effect of its own: the invariants that stand
// above the types, and the sizes that have a budget. There is one line for
// each formula.

// A Table is the index of items. It is driven with hashes of the test's
// choice, to make items collide.
type Table[T comparable] = table[T]

// Put inserts an item that the table does not have.
func (t *table[T]) Put(hash uint32, item T) {
	at, _ := t.find(hash, item)
	_, r := t.insert(at, hash, item)
	r.state = queued
}

// PutUnindexed inserts an item that differs from itself.
func (t *table[T]) PutUnindexed(item T) (i uint32) {
	i, r := t.insertUnindexed(item)
	r.state = queued
	return i
}

// Release drops what PutUnindexed has inserted.
func (t *table[T]) Release(i uint32) { t.release(i, t.records.at(i)) }

// Has reports whether the table finds the item.
func (t *table[T]) Has(hash uint32, item T) bool {
	_, r := t.find(hash, item)
	return r != nil && r.item == item
}

// Delete removes an item that the table has.
func (t *table[T]) Delete(hash uint32, item T) {
	at, r := t.find(hash, item)
	t.remove(at, r)
}

// Shrink compacts the table and checks what the owner is told about it.
func (t *table[T]) Shrink() error {
	before := make(map[uint32]T)
	for i := range uint32(t.records.n) {
		if r := t.records.at(i); r.state != freeRecord {
			before[i] = r.item
		}
	}
	var errs check
	t.compact(func(from, to uint32, r *record[T]) {
		item, ok := before[from]
		errs.that(ok && (item == r.item || item != item), "compact: record %d was %v and became %v", from, item, r.item)
		errs.that(r == t.records.at(to), "compact: record %d is not in its new place %d", from, to)
		delete(before, from)
	})
	errs.that(len(before) == 0, "compact: records %v were forgotten", before)
	return errs.err()
}

func (t *table[T]) Sparse() bool { return t.sparse() }
func (t *table[T]) Live() int    { return t.live }
func (t *table[T]) Slots() int   { return len(t.slots) }
func (t *table[T]) Records() int { return t.records.n }

// Moving reports whether there is an old index to move over.
func (t *table[T]) Moving() bool { return t.old != nil }

// HashOf is the hash that a queue uses.
func HashOf[T comparable](item T) uint32 { return hashOf(item) }

// CheckInvariants returns what is wrong with the table, or nil.
func (t *table[T]) CheckInvariants() error {
	var errs check
	seen := make(map[uint32]bool)
	t.checkIndex(&errs, "slots", t.slots, seen)
	t.checkIndex(&errs, "old", t.old, seen)
	for i := range min(t.swept, len(t.old)) {
		errs.that(t.old[i].ref == 0, "old[:swept]: slot %d of %d is used", i, t.swept)
	}
	errs.that(t.old == nil || t.swept == 0 || t.old[t.swept].ref == 0, "old[%d] is used, where the sweep stopped", t.swept)
	errs.that(t.old == nil || t.swept < len(t.old), "old: swept %d of %d and not nil", t.swept, len(t.old))
	errs.that(t.limit == 3*len(t.slots)/4 && len(seen) <= t.limit, "limit %d, %d slots used of %d", t.limit, len(seen), len(t.slots))

	live := 0
	for i := range uint32(t.records.n) {
		r := t.records.at(i)
		if r.state == freeRecord {
			errs.that(r.item == *new(T), "free record %d holds %v", i, r.item)
			continue
		}
		live++
		errs.that(seen[i] || r.item != r.item, "record %d (%v) has no slot", i, r.item)
	}
	low := 0
	if high := max(t.limit, t.records.n); high > 768 {
		low = high / 16
	}
	errs.that(low == t.low, "low: %d, want %d for %d slots and %d records", t.low, low, len(t.slots), t.records.n)
	t.checkSpare(&errs)
	errs.that(live == t.live, "live: %d records, counted %d", live, t.live)
	onList := 0
	for i := t.free; i != 0 && onList <= t.records.n; onList++ {
		errs.that(t.records.at(i-1).state == freeRecord, "free list holds the used record %d", i-1)
		i = t.records.at(i - 1).pos
	}
	errs.that(onList == t.records.n-live, "free list: %d records of %d", onList, t.records.n-live)
	errs.add("records: ", t.records.CheckInvariants())
	return errs.err()
}

func (t *table[T]) checkSpare(errs *check) {
	s := t.spare.Value()
	if s == nil {
		return
	}
	for i, slot := range s.slots {
		errs.that(slot.ref == 0 && slot.hash == 0, "spare: slot %d is used", i)
	}
	for _, p := range s.pages {
		errs.that(reflect.ValueOf(p).Elem().IsZero(), "spare: a page is not zero")
	}
}

func (t *table[T]) checkIndex(errs *check, name string, slots []slot, seen map[uint32]bool) {
	errs.that(len(slots)&(len(slots)-1) == 0, "%s: length %d", name, len(slots))
	mask := uint32(len(slots) - 1)
	for i, s := range slots {
		if s.ref == 0 {
			continue
		}
		ref := s.ref - 1
		if int(ref) >= t.records.n || t.records.at(ref).state == freeRecord {
			errs.that(false, "%s[%d] refers to record %d, which is not live", name, i, ref)
			continue
		}
		errs.that(!seen[ref], "%s[%d]: record %d has two slots", name, i, ref)
		seen[ref] = true
		for p := s.hash & mask; p != uint32(i); p = (p + 1) & mask {
			errs.that(slots[p].ref != 0, "%s: slot %d is empty, between home %d and entry %d", name, p, s.hash&mask, i)
		}
	}
}

// CheckInvariants returns what is wrong with the vector, or nil.
func (p *pages[E]) CheckInvariants() error {
	var errs check
	room := pageSize * len(p.directory)
	errs.that(p.n <= room && room < p.n+3*pageChunk*pageSize, "%d elements in room for %d", p.n, room)
	for i := uint32(p.n); i < uint32(room); i++ {
		errs.that(reflect.ValueOf(p.at(i)).Elem().IsZero(), "element %d beyond %d is not zero", i, p.n)
	}
	return errs.err()
}

// A Ring is the line of queued items.
type Ring[E any] = ring[E]

// NewRingAt returns a ring whose first element will have the given number.
func NewRingAt[E any](number uint32) *Ring[E] { return &ring[E]{head: number, tail: number} }

func (r *ring[E]) Push(e E) uint32      { return r.push(e) }
func (r *ring[E]) PushFront(e E) uint32 { return r.pushFront(e) }
func (r *ring[E]) Pop() E               { return r.pop() }
func (r *ring[E]) At(number uint32) E   { return *r.at(number) }
func (r *ring[E]) Len() int             { return r.len() }
func (r *ring[E]) Room() int            { return len(r.buf) }
func (r *ring[E]) Shrink()              { r.shrink() }

// CheckInvariants returns what is wrong with the ring, or nil.
func (r *ring[E]) CheckInvariants() error {
	var errs check
	errs.that(len(r.buf)&(len(r.buf)-1) == 0, "ring: length %d", len(r.buf))
	errs.that(r.len() <= len(r.buf), "ring: %d elements in %d", r.len(), len(r.buf))
	for i := r.tail; i != r.head+uint32(len(r.buf)); i++ {
		errs.that(reflect.ValueOf(r.at(i)).Elem().IsZero(), "ring: %d is not cleared", i)
	}
	return errs.err()
}

// An Agenda is the set of waiting items.
type Agenda[T comparable] = agenda[T]

func (a *agenda[T]) Schedule(item T, due time.Duration) (first bool) {
	return a.schedule(hashOf(item), item, 0, due, 0)
}
func (a *agenda[T]) Reschedule(item T, due time.Duration) (first bool) {
	return a.reschedule(hashOf(item), item, 0, due, 0)
}
func (a *agenda[T]) Debounce(item T, due, latest time.Duration) (first bool) {
	return a.debounce(hashOf(item), item, 0, due, latest, 0)
}
func (a *agenda[T]) Remove(item T) bool {
	_, ok := a.remove(hashOf(item), item)
	return ok
}

// Earliest returns the first items in the order of Pop.
func (a *agenda[T]) Earliest(limit int) (items []T) {
	for _, n := range a.earliest(limit) {
		items = append(items, a.items.records.at(n.ref).item)
	}
	return items
}

func (a *agenda[T]) Pop() T {
	_, item, _ := a.pop()
	return item
}
func (a *agenda[T]) Len() int            { return a.len() }
func (a *agenda[T]) Next() time.Duration { return a.next() }
func (a *agenda[T]) Ticket() uint32      { return a.ticket }
func (a *agenda[T]) Room() int           { return a.items.records.n }
func (a *agenda[T]) Plans() uint64       { return a.plans() }

func (a *agenda[T]) PlannedBefore(plans uint64) bool { return a.due(reading{math.MaxInt64, plans}) }

// SetTicket sets the ticket of the next node, which must not be lower than that of
// a node there is.
func (a *agenda[T]) SetTicket(ticket uint32) { a.ticket = ticket }

// CheckInvariants returns what is wrong with the agenda, or nil.
func (a *agenda[T]) CheckInvariants() error {
	var errs check
	errs.add("agenda: ", a.items.CheckInvariants())
	errs.add("nodes: ", a.nodes.CheckInvariants())
	errs.that(a.nodes.n == a.items.live, "agenda: %d nodes for %d records", a.nodes.n, a.items.live)
	errs.that(a.starts.n == a.items.records.n || !a.timed && a.starts.n == 0, "agenda: %d starts for %d records", a.starts.n, a.items.records.n)
	for _, n := range a.sizesOfNotes() {
		errs.that(32*n < a.items.records.n+32, "agenda: %d pages of notes for %d records", n, a.items.records.n)
	}
	for p := range uint32(a.nodes.n) {
		n := *a.nodes.at(p)
		if p > 0 {
			parent := *a.nodes.at((p - 1) / 4)
			errs.that(!n.before(parent), "agenda: node %d %+v comes before its parent %+v", p, n, parent)
		}
		r := a.items.records.at(n.ref)
		errs.that(r.pos == p && (r.state == waiting || r.state == debounced), "agenda: record %d of node %d has pos %d, state %d", n.ref, p, r.pos, r.state)
		if r.state == debounced {
			latest := *a.extras.latest.at(n.ref)
			errs.that(n.due <= latest, "agenda: %v is due at %v, the latest is %v", r.item, n.due, latest)
		}
		errs.that(n.ticket < a.ticket, "agenda: node %d has ticket %d of %d", p, n.ticket, a.ticket)
	}
	return errs.err()
}

// CheckInvariants returns what is wrong with the queue, or nil.
func (q *Typed[T]) CheckInvariants() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var errs check
	errs.add("", q.fifo.CheckInvariants())
	q.checkWaits(&errs)
	return errs.err()
}

// CheckInvariants returns what is wrong with the fifo, or nil.
func (f *fifo[T]) CheckInvariants() error {
	var errs check
	errs.add("items: ", f.items.CheckInvariants())
	errs.add("", f.line.CheckInvariants())
	inStore, inRanks, ghosts, watches := 0, 0, 0, 0
	for i := range uint32(f.items.records.n) {
		switch r := f.items.records.at(i); r.state {
		case queued, unfindable:
			errs.that(!f.line.empty() && *f.line.at(r.pos) == i, "record %d (%v) is queued, but not in line at %d", i, r.item, r.pos)
		case processing, watched, reprocess:
			_, reported := f.watchers[r.item]
			errs.that(reported == (r.state == watched), "record %d (%v) has state %d, a watcher: %v", i, r.item, r.state, reported)
			if reported {
				watches++
			}
			errs.that(int(r.pos) < len(f.held) && f.held[r.pos] == i, "record %d (%v) is processed, but not held at %d", i, r.item, r.pos)
		case inStorage:
			inStore++
		case ranked:
			inRanks++
		case removed:
			ghosts++
		}
	}
	errs.that(len(f.watchers) == watches, "%d watchers for %d records", len(f.watchers), watches)
	errs.that(f.ghosts == ghosts, "ghosts: counted %d, are %d", f.ghosts, ghosts)
	errs.that(f.line.len()+len(f.held)+inStore+inRanks+ghosts == f.items.live, "%d in line + %d held + %d stored + %d removed != %d records", f.line.len(), len(f.held), inStore, ghosts, f.items.live)
	errs.that(f.storage != nil || inStore == 0, "%d records in no storage", inStore)
	errs.that(f.stored == inStore+inRanks+f.unmatched, "stored: counted %d, are %d, %d ranked and %d without a record", f.stored, inStore, inRanks, f.unmatched)
	f.checkRanks(&errs, inRanks)
	errs.that(f.unmatched >= 0 && (f.unmatched == 0 || mayDiffer[T]()), "%d items without a record", f.unmatched)
	stamps := map[bool]int{true: f.items.records.n}[f.timed]
	errs.that(f.stamps.n == stamps, "%d stamps for %d records, want %d", f.stamps.n, f.items.records.n, stamps)
	return errs.err()
}

// A Crew counts goroutines.
type Crew struct {
	mu   sync.Mutex
	crew crew
}

func (c *Crew) Enter()                { c.crew.enter() }
func (c *Crew) Leave()                { c.crew.leave(&c.mu) }
func (c *Crew) Left() <-chan struct{} { return c.crew.allLeft(&c.mu) }

// A Line is the line of queued records.
type Line = line

// NewLineAt returns a line whose first record will have the given place.
func NewLineAt(place uint32) *Line { return &line{ring: ring[uint32]{head: place, tail: place}} }

func (l *line) Push(i uint32) (place uint32)      { return l.push(i) }
func (l *line) PushFront(i uint32) (place uint32) { return l.pushFront(i) }
func (l *line) Len() int                          { return l.len() }
func (l *line) Empty() bool                       { return l.empty() }
func (l *line) First() uint32                     { return l.first() }
func (l *line) All() iter.Seq[uint32]             { return l.all() }
func (l *line) Holes() int                        { return int(l.holes) }
func (l *line) Record(place uint32) uint32        { return *l.at(place) }
func (l *line) Shrink()                           { l.shrink() }

func (l *line) Remove(place uint32, moved func(i, place uint32)) { l.remove(place, moved) }

func (l *line) Pop(moved func(i, place uint32)) uint32 {
	i := l.pop()
	if l.holes > 0 {
		l.tidy(moved)
	}
	return i
}

// CheckInvariants returns what is wrong with the line, or nil.
func (l *line) CheckInvariants() error {
	var errs check
	holes, touch, within := uint32(0), false, l.sweep == l.tail
	for n := l.head; n != l.tail; n++ {
		run := l.gap(n)
		within = within || n == l.sweep
		if run == 0 {
			errs.that(*l.at(n)&holeMark == 0, "line: a run of 0 at %d", n)
			touch = false
			continue
		}
		errs.that(!touch, "line: two runs touch at %d", n)
		errs.that(n != l.head && run < l.tail-n && l.gap(n+run-1) == run, "line: a gap of %d at %d, from %d to %d", run, n, l.head, l.tail)
		if run >= l.tail-n {
			break
		}
		touch, holes, n = true, holes+run, n+run-1
	}
	errs.that(holes == l.holes, "line: counted %d holes, are %d", l.holes, holes)
	errs.that(3*int(l.holes) <= 5*l.len()+8, "line: %d holes and %d records", l.holes, l.len())
	errs.that(l.holes == 0 || within, "line: the sweep is at %d, not between %d and %d, or in a run", l.sweep, l.head, l.tail)
	errs.that(l.holes == 0 || l.sweep == l.head || *l.at(l.sweep - 1)&holeMark == 0, "line: the sweep is at %d, behind a run", l.sweep)
	errs.that(len(l.buf)&(len(l.buf)-1) == 0 && l.ring.len() <= len(l.buf), "line: %d places in a buffer of %d", l.ring.len(), len(l.buf))
	return errs.err()
}

// checkWaits checks that nobody waits for what is there. That holds whenever
// mu is free, and so needs no quiescence.
func (q *Typed[T]) checkWaits(errs *check) {
	errs.that(q.parked >= 0, "%d workers wait", q.parked)
	errs.that(q.waking || len(q.wake) == 0, "a token for nobody")
	errs.that(q.parked == 0 || !q.fifo.ready() || q.waking, "%d workers wait beside %d items and none is woken", q.parked, q.fifo.len())
	errs.that(q.parked == 0 || !q.fifo.closed || q.waking, "%d workers wait in spite of the shutdown", q.parked)
	errs.that(q.drained == nil || q.fifo.closed, "a drain without a shutdown")
	errs.that(q.drained == nil || !q.fifo.idle(), "a drain of nothing")
	errs.that(q.fifo.closed == q.shut.Load(), "closed: %v, ShuttingDown: %v", q.fifo.closed, q.shut.Load())
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
	return q.parked
}

// Approach makes a worker be on its way, woken, until it is told to arrive.
func (q *Typed[T]) Approach() (arrive func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.parked++
	q.waking = true
	return q.passOn
}

// Watch has f called when the item, if it is held, is added again.
func (q *Typed[T]) Watch(item T, f func()) {
	if q.watch(hashOf(item), item, watcher{ctx: context.Background(), cancel: func(error) { f() }}) {
		f()
	}
}

// Room returns for how many items the line has room.
func (q *Typed[T]) Room() int { return len(q.fifo.line.buf) }

// Times returns when a queued or held item was added and handed out, if that is
// kept.
func (q *Typed[T]) Times(item T) (added, started time.Duration, kept bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at, r := q.fifo.items.find(hashOf(item), item)
	if !q.fifo.timed || r == nil {
		return 0, 0, false
	}
	s := q.fifo.stamps.at(q.fifo.items.index(at))
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

// A DurationHistogram is what a queue counts durations with.
type DurationHistogram = histogram

func NewDurationHistogram(bounds ...float64) DurationHistogram { return newHistogram(bounds) }

func (h *histogram) Observe(d time.Duration) { h.observe(d) }
func (h *histogram) Read() Histogram         { return h.read() }
func (h *Histogram) Add(other Histogram)     { h.add(other) }

// A HistogramCollector writes a DurationHistogram as the provider does.
type HistogramCollector struct {
	DurationHistogram
	row    histogramRow
	bounds []float64
}

func NewHistogramMetric(name string, bounds []float64) *HistogramCollector {
	c := &HistogramCollector{DurationHistogram: newHistogram(bounds), bounds: bounds}
	c.row.desc = prometheus.NewDesc(name, "help", nil, nil)
	c.row.value = func(s QueueStats) Histogram { return s.Latency }
	return c
}

// WithClassicBuckets returns a native histogram with classic buckets.
func WithClassicBuckets(native prometheus.Metric) prometheus.Metric {
	return twoHistograms{Metric: native}
}

func (c *HistogramCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.row.desc }

func (c *HistogramCollector) Collect(ch chan<- prometheus.Metric) {
	ch <- c.row.metric(c.bounds, QueueStats{Latency: c.Read()}, time.Now(), "")
}

// Holes returns how many removed items still have a place in the line.
func (q *Typed[T]) Holes() int { return q.fifo.line.Holes() }

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
	return int(q.draining), dropped
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
	var errs check
	errs.add("", q.agenda.CheckInvariants())
	errs.that(q.agenda.len() == 0 || q.running, "%d items wait and no goroutine does", q.agenda.len())
	errs.that(!q.closed || q.agenda.len() == 0, "%d items wait in a closed queue", q.agenda.len())
	errs.that(q.draining > 0 || q.dropped == nil, "dropped items are kept without a drain")
	if q.typed != nil {
		errs.add("", q.typed.CheckInvariants())
	}
	for p := uint32(0); q.oneEntry && int(p) < q.agenda.nodes.n; p++ {
		item := q.agenda.items.records.at(q.agenda.nodes.at(p).ref).item
		errs.that(!q.typed.queues(hashOf(item), item), "%v is queued and waits", item)
	}
	return errs.err()
}

// Sizes returns the bytes of a record for strings, an index slot, a waiting
// node and the times of an item.
func Sizes() (record_, slot_, node_, stamp_ uintptr) {
	return unsafe.Sizeof(record[string]{}), unsafe.Sizeof(slot{}), unsafe.Sizeof(node{}), unsafe.Sizeof(stamp{})
}

// ResetProvider undoes SetProvider.
func ResetProvider() { defaultProvider.Store(nil) }

// check collects what does not hold.
type check []error

func (c *check) that(ok bool, format string, args ...any) {
	if !ok {
		*c = append(*c, fmt.Errorf(format, args...))
	}
}

func (c *check) add(prefix string, err error) {
	if err != nil {
		*c = append(*c, fmt.Errorf("%s%w", prefix, err))
	}
}

func (c *check) err() error { return errors.Join(*c...) }
