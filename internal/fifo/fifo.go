// Package fifo has the states of the items of a queue and their order, without a lock.
package fifo

import (
	"reflect"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/gate"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// A FIFO is the machine inside a queue. It keeps the queued and the held items, and moves
// them from state to state. A FIFO knows no lock, no parked worker and no metric. The owner
// holds its lock during each call, and wakes a worker afterwards if the FIFO is ready.
//
// An item without a record in Items has no state. An item with a record is in one of these
// states:
//
//	queued      in a list, waiting for a Take
//	inStorage   in storage, waiting for a Take
//	ghost       in storage and removed: dropped when the storage hands the item out
//	nan         in a list, but a NaN: an item that differs from itself. Take forgets the record
//	kept        waiting firmly in the layer above: an add only raises the rank
//	processing  handed out, Done is owed
//	watched     like processing, and the next add of the item is reported
//	reprocess   handed out and added again since: Done queues the item
//
// The calls move an item as follows. Here queued also stands for inStorage, and processing
// for watched:
//
//	Add       none → queued, nan
//	AddAgain  ghost → queued;          processing → reprocess
//	Take      queued → processing;     ghost, nan → none
//	Done      processing → none;       reprocess → queued
//	Remove    queued → none, ghost;    reprocess → processing, with the note removed
//	Keep      none, queued → kept;     reprocess → processing, with the note firm
//	Unkeep    kept → none, ghost;      the note firm goes
//
// A held record with the note firm waits firmly too. An add raises its rank and does not mark it, and
// Done makes it kept. The owner calls Unkeep when the wait ends, and adds the item then. After a
// shutdown nothing waits: kept records stay where they are, and no call finds them.
//
// The note woken stands until Done: a wait that the layer above would begin for the held record ends
// where it would begin.
//
// A worker says before Done how its hand-out ends, by Conclude. The table has what Done then makes of
// the item, and what becomes of a barrier before the item: it passes the item, stays before it, or is
// dropped.
//
//	           processing             reprocess            removed           removed, reprocess
//	EndWorked  none, passes           queued, passes       none, passes      queued, passes
//	EndRetry   queued, passes         queued, passes       none, passes      queued, passes
//	EndRedo    queued, stays          queued, stays        none, passes      queued, passes
//	EndBack    queued first, stays    queued first, stays  none, passes      queued, passes
//	EndLeave   none, dropped          queued, stays        none, passes      queued, passes
//
// removed is a note of a held record, by Remove. EndRetry, EndRedo and EndBack make a record
// reprocess at once, so an add before Done finds it marked, and Remove takes the decision back. After
// a shutdown, EndRetry is EndWorked, and EndRedo is EndLeave. A Done without a Conclude is EndWorked.
//
// All queued records are in one list, the line, until an add has a placement. After such an
// add, or with an order in the Config, the records are in the lists of lanes. A FIFO with a
// storage has no lanes. Its line has only the records whose Push has failed.
//
// Invariants, for a record r with index i:
//
//	r.State is queued or nan: i is in the line, or in the list of the lane r.X.lane
//	r is in a list, and not its first: r.Pos == 1 + the index of the record before r
//	r is in a list: r.X.next == 1 + the index of the record behind r, 0 for the last one
//	isHeld(r.State): held[r.Pos] == i, and r was taken from the lane r.X.lane
//	r.State is reprocess: r.X.next is the lane in which Done will queue r
//	r has the note first: r.State is reprocess
//	r has the note stays: isHeld(r.State), and the note removed is not set
//	r has the note firm: r.State is processing or watched
//	ranks[i] is the priority of the wait, if r is kept or has the note firm
//	n == number of records queued or nan
//	n + len(held) + number of records inStorage, ghost or kept == Items.Live
//	watchers has the items of the records watched
//	stamps.N == Items.Records.N, or 0 if not timed
//	the numbers in seqs grow within the list of a lane, except at records that were put back
//
// All invariants hold before each call of the storage, which is foreign code. If such a
// call does not return, the transition of the item is complete, or has not begun.
//
// A FIFO is not safe for concurrent use. The zero FIFO is empty and keeps no times.
type FIFO[T comparable] struct {
	// Immutable after Init.

	storage   *storage[T] // nil for none
	Reflexive bool        // no value of the type T differs from itself
	timed     bool        // stamps are kept

	Closed bool // adds change nothing any more; set by the owner

	Items slab.Table[T, links] // the owner searches and walks, and the methods change
	line  list                 // used while lanes is nil
	lanes *lanes               // nil while the line suffices
	Taken Rank                 // of the last Take from a lane
	n     int
	held  []uint32

	stamps   slab.Pages[stamp]
	seqs     slab.Pages[uint64]
	seq      uint64 // the last number
	watchers map[T]Watcher
	watches  int // the largest size of watchers since the map was made

	ranks slab.SparsePages[int] // of firm waits; 0 where there is no page

	Barriers slab.Barriers // of all records but those removed; the owner calls Leave and Drop

	endings *Endings // of the last call of Watch
}

// Notes of records.
const (
	namedNote     = 1 << iota // the record is queued or held for an add that named a priority
	markNamedNote             // the record is marked for an add that named a priority
	removedNote               // Remove was called for the held item
	staysNote                 // the work was cut short: barriers wait for the next hand-out, or fail if none comes
	firstNote                 // Done queues the record as the first of its lane
	firmNote                  // the held record waits firmly
	wokenNote                 // Wake was called for the held record
	storedNote                // the kept record is in the storage, and is dropped there like a ghost
)

// bit returns note for an add with a named priority, and 0 for any other add.
func (p *Placement) bit(note uint8) uint8 {
	if p != nil && p.Named {
		return note
	}
	return 0
}

// links are the fields that a FIFO adds to a record.
type links struct {
	next uint32
	lane uint32 // the id, 0 without lanes
}

const (
	queued slab.State = 1 + iota
	inStorage
	ghost
	nan
	kept
	processing
	watched
	reprocess
)

// isHeld reports whether a worker holds a record with the state s.
func isHeld(s slab.State) bool { return s >= processing }

// A stamp holds the times of an item.
type stamp struct {
	added   time.Duration // at the add that queued or marked the item
	started time.Duration // at the Take
}

// A Config says how a FIFO orders its items, and what the FIFO keeps. The zero Config has one
// priority as long as no add names another, and no times.
type Config[T comparable] struct {
	Timed bool // the times of the items are kept

	// Queue stores the items; nil is none. Beside a Queue, the fields of the order below are zero.
	// Unlock gives back the lock of the owner, when a method of the Queue does not return.
	Queue  Queue[T]
	Unlock func()

	OldestEvery int  // the oldest item is handed out every so many times, 0 for never
	GroupsFirst bool // groups take turns whatever the priorities of their items
	Grouped     bool // there are groups
	Limited     bool // groups may have limits
}

// Init prepares a FIFO, which must be zero.
func (f *FIFO[T]) Init(c Config[T]) {
	f.Reflexive = slab.Reflexive(reflect.TypeFor[T]())
	f.timed = c.Timed
	if c.Queue != nil {
		f.storage = &storage[T]{queue: c.Queue, unlock: c.Unlock}
	}
	if c.Grouped || c.OldestEvery > 0 {
		f.order(newLanes(c.OldestEvery, c.GroupsFirst, c.Grouped, c.Limited))
	}
}

// Queue returns the Queue that stores the items, nil for none.
func (f *FIFO[T]) Queue() Queue[T] {
	if f.storage == nil {
		return nil
	}
	return f.storage.queue
}

// IsPlain reports whether all adds so far were plain, and no Queue stores the items.
func (f *FIFO[T]) IsPlain() bool { return f.lanes == nil && f.storage == nil }

// Ready reports whether a Take may find an item.
func (f *FIFO[T]) Ready() bool {
	switch {
	case f.lanes != nil:
		return f.lanes.top() != nil
	case f.storage != nil:
		return f.n > 0 || f.storage.ready()
	}
	return f.n > 0
}

// Idle reports whether no item is held and none is queued, nor held back with its group. A storage may
// have lost items, for example in a Pop that has not returned: Idle does not wait for lost items, see
// storage.ready.
func (f *FIFO[T]) Idle() bool { return len(f.held) == 0 && f.n == 0 && !f.Ready() }

// Held returns the number of held items.
func (f *FIFO[T]) Held() int { return len(f.held) }

// Len returns the number of queued items, as the FIFO counts them.
func (f *FIFO[T]) Len() int {
	if f.storage == nil {
		return f.n
	}
	return f.n + f.storage.stored
}

// Size is like Len, but asks the Queue of a storage for its Len, and subtracts the items
// that were removed.
func (f *FIFO[T]) Size() int {
	if f.storage == nil {
		return f.n
	}
	return f.n + f.storage.size() - f.storage.ghosts
}

// Add queues an item without a record, and reports whether the item was queued. The caller
// has searched for the item; at is where the search ended. The caller searches, because
// only a search that is inlined in Add and Done of the queue is fast enough, see BenchmarkCycle.
// A p of nil is a plain add.
func (f *FIFO[T]) Add(at, hash uint32, item T, now time.Duration, p *Placement) (added bool) {
	if f.Closed {
		return false
	}
	if !f.Reflexive && !slab.Equal(item, item) {
		f.addNaN(item, now, p)
		return true
	}
	i, r := f.Items.Insert(at, hash, item)
	r.State, r.Mark = queued, f.Barriers.Mark
	if f.timed {
		f.stampAdded(i, now)
	}
	if f.lanes != nil || f.storage != nil || p != nil {
		f.enqueue(i, r, p)
		return true
	}
	f.append(&f.line, i, r) // enqueue is not inlined.
	f.n++
	return true
}

// addNaN queues an item that differs from itself. No later add, Done or Remove can
// name the item, so the item needs no slot in the index.
func (f *FIFO[T]) addNaN(item T, now time.Duration, p *Placement) {
	i, r := f.Items.InsertNaN(item)
	r.State, r.Mark = nan, f.Barriers.Mark
	if f.timed {
		f.stampAdded(i, now)
	}
	f.enqueue(i, r, p)
}

// enqueue puts a new record into the lane of its add, or into the line. A record for the
// storage is in the line before Push is called, because Push may not return.
func (f *FIFO[T]) enqueue(i uint32, r *slab.Record[T, links], p *Placement) {
	r.Note = p.bit(namedNote)
	if l := f.laneFor(p); l != nil {
		l.refs++
		f.enter(l, i, r)
		return
	}
	f.append(&f.line, i, r)
	f.n++
	if f.storage != nil {
		f.store(i, r)
	}
}

// laneFor returns the lane of an add, or nil while the line suffices. The first add with a
// placement gives the FIFO lanes.
func (f *FIFO[T]) laneFor(p *Placement) *lane {
	if f.lanes != nil {
		return f.lanes.find(p)
	}
	if f.storage != nil || p == nil {
		return nil
	}
	f.order(newLanes(0, false, false, false))
	return f.lanes.find(p)
}

// order gives the FIFO lanes. All records then belong to the lane with id 0, which is the
// value in their links already.
func (f *FIFO[T]) order(o *lanes) {
	f.lanes = o
	l := o.all[0]
	l.list, l.n = f.line, f.n
	l.refs += f.n + len(f.held)
	f.line = list{}
	for _, i := range f.held {
		if f.Items.Records.At(i).State == reprocess {
			l.refs++
		}
	}
	if l.n > 0 {
		o.up(l, 0)
	}
}

// Ignores reports whether a plain add of an item with a record changes nothing: the item is queued
// with the priority 0, and no Queue stores the item.
func (f *FIFO[T]) Ignores(r *slab.Record[T, links]) bool { return r.State == queued && r.X.lane == 0 }

// AddAgain adds an item with a record. It reports false for a duplicate, and after a
// shutdown. A held item is only marked, and Done queues the item: no two workers may hold
// an item at a time. The stamp of a marked item becomes the time of the add, when the next
// wait of the item begins.
func (f *FIFO[T]) AddAgain(at uint32, r *slab.Record[T, links], now time.Duration, p *Placement) (added bool) {
	if f.Closed {
		return false
	}
	i := f.Items.Index(at)
	switch r.State {
	case queued:
		if f.lanes != nil || p != nil {
			f.raise(i, r, p)
		}
	case inStorage:
		f.storage.dry = false
		f.storage.touch(r.Item)
	case ghost:
		f.restore(i, r, now)
		return true
	case processing, watched:
		if r.Note&firmNote == 0 {
			f.mark(i, r, now, p)
			return true
		}
		f.raiseKept(i, r, p)
	case kept:
		f.raiseKept(i, r, p)
	case reprocess:
		if f.lanes != nil || p != nil {
			f.markAgain(r, p)
		}
	}
	return false
}

// raise moves a queued record to the priority of the add, if that priority is higher. The
// record goes to the end of the lane of its group.
func (f *FIFO[T]) raise(i uint32, r *slab.Record[T, links], p *Placement) {
	priority := p.Number()
	if f.lanes == nil {
		if f.laneFor(p) == nil {
			return
		}
	}
	f.lanes.hear(p)
	from := f.lanes.all[r.X.lane]
	if priority <= from.level.priority {
		return
	}
	to := f.lanes.laneOf(priority, from.share.group)
	r.Note = p.bit(namedNote)
	// The new lane counts the record before the old lane loses the record: a group without
	// records in between would lose its turn.
	to.refs++
	f.count(to, 1)
	f.seq++
	if to.n == 1 {
		f.lanes.up(to, f.seq)
	}
	f.leave(from, i, r)
	f.append(&to.list, i, r)
	r.X.lane = to.id
	f.number(i, f.seq)
	f.lanes.release(from)
}

// mark notes that a held item was added again.
func (f *FIFO[T]) mark(i uint32, r *slab.Record[T, links], now time.Duration, p *Placement) {
	l := f.laneFor(p) // First: new lanes count the records marked so far.
	was := r.State
	r.State = reprocess
	if f.timed {
		f.stamps.At(i).added = now
	}
	r.X.next = 0
	if l != nil {
		l.refs++
		r.X.next = l.id
	}
	r.Note = r.Note&^markNamedNote | p.bit(markNamedNote)
	if was == watched {
		f.tellWatchers(r.Item, f.endings.ReAdded)
	}
}

// markAgain handles a further add of a marked item: the higher priority counts, and the
// group of the last add.
func (f *FIFO[T]) markAgain(r *slab.Record[T, links], p *Placement) {
	if f.lanes == nil && f.laneFor(p) == nil {
		return
	}
	from := f.lanes.all[r.X.next]
	priority := from.level.priority
	if p.Number() > priority {
		priority = p.Number()
		r.Note = r.Note&^markNamedNote | p.bit(markNamedNote)
	}
	g := from.share.group
	if p != nil {
		g = f.lanes.groupOf(p)
	}
	to := f.lanes.laneOf(priority, g)
	to.refs++
	r.X.next = to.id
	f.lanes.release(from)
}

// Take hands out the first item, if there is one, and returns how long the item was queued.
// The line comes before a storage.
func (f *FIFO[T]) Take(now time.Duration) (item T, waited time.Duration, ok bool) {
	if f.lanes != nil {
		return f.takeOrdered(now)
	}
	if f.line.head == 0 {
		if f.storage == nil {
			return item, 0, false
		}
		return f.takeStored(now)
	}
	i, r := f.pop(&f.line)
	f.n--
	if f.timed {
		waited = f.stampStarted(i, now)
	}
	if r.State == nan {
		return f.takeNaN(i, r), waited, true
	}
	f.hold(i, r)
	return r.Item, waited, true
}

// takeOrdered is Take for a FIFO with lanes.
func (f *FIFO[T]) takeOrdered(now time.Duration) (item T, waited time.Duration, ok bool) {
	if f.lanes.top() == nil {
		return item, 0, false
	}
	l := f.lanes.next()
	i, r := f.pop(&l.list)
	f.left(l, true)
	f.Taken = Rank{l.level.priority, r.Note&namedNote != 0}
	if f.timed {
		waited = f.stampStarted(i, now)
	}
	if r.State == nan {
		f.lanes.release(l) // No Done can name the item, so no limit counts the item.
		return f.takeNaN(i, r), waited, true
	}
	f.lanes.countHeld(l, 1)
	f.hold(i, r)
	return r.Item, waited, true
}

// hold makes a record held. The record has left its list or the storage.
func (f *FIFO[T]) hold(i uint32, r *slab.Record[T, links]) {
	r.State = processing
	r.Pos = uint32(len(f.held))
	f.held = append(f.held, i)
}

// takeNaN hands out an item and forgets its record, because Done cannot name the
// item. Written out in Take, these calls would make Take slower for all items, see
// BenchmarkCycle.
func (f *FIFO[T]) takeNaN(i uint32, r *slab.Record[T, links]) T {
	item := r.Item
	f.forgetNaN(i, r)
	return item
}

// Done ends the hand-out of an item, and queues the item if the item was added again. Done
// returns how long the item was held; ok is false if nobody held the item. The caller has
// searched for the item; r is nil if there is no record.
func (f *FIFO[T]) Done(at uint32, r *slab.Record[T, links], now time.Duration) (worked time.Duration, ok bool) {
	if r == nil || !isHeld(r.State) {
		return 0, false
	}
	i := f.Items.Index(at)
	if f.timed {
		worked = max(0, now-f.stamps.At(i).started)
	}
	again := r.State == reprocess
	if r.State == watched {
		f.forgetWatchers(r.Item)
	}
	f.unhold(i, r)
	if f.lanes != nil {
		f.land(r)
	}
	if f.Barriers.Any() {
		f.leaveBarriers(r, again)
	}
	if again {
		f.enqueueAgain(i, r)
		return worked, true
	}
	if r.Note&firmNote != 0 {
		f.makeKept(r)
		return worked, true
	}
	f.Items.Remove(at, r) // forget is not inlined.
	if f.Items.Sparse() {
		f.Shrink()
	}
	return worked, true
}

// leaveBarriers says what the end of a hand-out means to the barriers before the item.
func (f *FIFO[T]) leaveBarriers(r *slab.Record[T, links], again bool) {
	switch stays := r.Note&staysNote != 0; {
	case !stays:
		f.Barriers.Pass(r.Mark)
	case !again:
		f.Barriers.Drop(r.Mark)
	}
}

// land ends the hand-out of a record for its lane.
func (f *FIFO[T]) land(r *slab.Record[T, links]) {
	l := f.lanes.all[r.X.lane]
	f.lanes.countHeld(l, -1)
	if r.Note&firstNote != 0 {
		f.unmark(r)
		return
	}
	f.lanes.release(l)
}

// enqueueAgain queues a record that was held and added again.
func (f *FIFO[T]) enqueueAgain(i uint32, r *slab.Record[T, links]) {
	r.State = queued
	if r.Note&staysNote == 0 {
		r.Mark = f.Barriers.Mark
	}
	if r.Note&firstNote != 0 {
		r.Note &= namedNote
		f.enterFirst(i, r)
		return
	}
	r.Note = r.Note & markNamedNote / markNamedNote * namedNote
	if f.lanes != nil {
		f.enter(f.lanes.all[r.X.next], i, r)
		return
	}
	f.append(&f.line, i, r)
	f.n++
	if f.storage != nil {
		f.store(i, r)
	}
}

// unhold takes a record out of held, and moves the last record of held into the gap: the
// order of held means nothing. The caller then gives the record another place or forgets
// the record.
func (f *FIFO[T]) unhold(i uint32, r *slab.Record[T, links]) {
	last := len(f.held) - 1
	if moved := f.held[last]; moved != i {
		f.held[r.Pos] = moved
		f.Items.Records.At(moved).Pos = r.Pos
	}
	f.held = f.held[:last]
}

// An End is what a worker wants for its item, before Done.
type End uint8

const (
	EndWorked End = iota // the work is over
	EndRetry             // the work is over, and is to be done again
	EndRedo              // the work was cut short, and begins again
	EndBack              // the work has not begun
	EndLeave             // the work was cut short, and nobody begins it again
)

// A Conclusion is what Conclude has decided.
type Conclusion struct {
	Removed bool // Remove was called for the item: what the worker wants does not count
	Again   bool // Done will queue the item, or the item is queued or waits firmly already
	Added   bool // what the worker wants is why the item will be queued, and not an add before
}

// Conclude decides what Done will make of a held item. Until Done only an add and a removal change the
// decision. The placement is for EndRetry and EndRedo, and now is the time of their add.
//
// An item that the worker does not hold any more, as somebody else has called Done, and an item that
// no Done can name, is added or put back at once. now is then the time of the add of such an item.
func (f *FIFO[T]) Conclude(hash uint32, item T, end End, now time.Duration, p *Placement) (c Conclusion) {
	at, r := f.Items.Find(hash, item)
	if r == nil || !isHeld(r.State) {
		return f.concludeUnheld(at, hash, item, r, end, now, p)
	}
	firm := f.isFirm(r)
	if r.Note&removedNote != 0 {
		return Conclusion{Removed: true, Again: r.State == reprocess || firm}
	}
	switch {
	case end == EndRetry || end == EndRedo:
		c.Added = f.AddAgain(at, r, now, p)
	case end == EndBack && !firm: // A firm wait comes before the place in the line.
		c.Added = r.State != reprocess
		f.markFirst(r)
	}
	c.Again = r.State == reprocess || firm
	if end == EndLeave || end >= EndRedo && !firm {
		r.Note |= staysNote
	}
	return c
}

func (f *FIFO[T]) concludeUnheld(at, hash uint32, item T, r *slab.Record[T, links], end End, now time.Duration, p *Placement) (c Conclusion) {
	switch {
	case end == EndBack:
		if c.Again = !slab.Equal(item, item); c.Again {
			f.putBackNaN(item, now)
			c.Added = true
		}
	case end != EndRetry && end != EndRedo:
	case r == nil:
		c.Added = f.Add(at, hash, item, now, p)
		c.Again = c.Added
	default:
		c.Added = f.AddAgain(at, r, now, p)
		c.Again = r.State != ghost
	}
	return c
}

// markFirst has Done queue a held item where the item was, as the first of its lane. If an add with a
// higher priority comes before Done, the item becomes the first of the lane of this add.
func (f *FIFO[T]) markFirst(r *slab.Record[T, links]) {
	switch r.State {
	case watched:
		f.forgetWatchers(r.Item)
		fallthrough
	case processing:
		r.State = reprocess
		r.Note = r.Note&^markNamedNote | r.Note&namedNote*markNamedNote
		r.X.next = 0
		if f.lanes != nil {
			r.X.next = r.X.lane
			f.lanes.all[r.X.lane].refs++
		}
	}
	r.Note |= firstNote
}

// putBackNaN queues an item of which the Take has forgotten the record, with the lane: the item is
// the first of the lane with id 0.
func (f *FIFO[T]) putBackNaN(item T, added time.Duration) {
	i, r := f.Items.InsertNaN(item)
	r.State, r.Mark = nan, f.Barriers.Mark
	if f.timed {
		f.stampAdded(i, added)
	}
	if f.lanes != nil {
		f.lanes.all[0].refs++
		f.number(i, 0)
	}
	f.enterFirst(i, r)
}

// Drop removes a queued item that nobody will work on, and reports whether the item was queued. The
// barriers that wait for the item fail. Of items that differ from themselves it removes one of a full group.
func (f *FIFO[T]) Drop(hash uint32, item T) bool {
	if !slab.Equal(item, item) {
		return f.dropNaN()
	}
	_, r := f.Items.Find(hash, item)
	if r == nil || r.State != queued && r.State != inStorage {
		return false
	}
	f.Barriers.Drop(r.Mark)
	f.Remove(hash, item)
	return true
}

// dropNaN searches all records, as no table finds the item.
func (f *FIFO[T]) dropNaN() bool {
	for i := range uint32(f.Items.Records.N) {
		r := f.Items.Records.At(i)
		if r.State == nan && f.lanes != nil && f.lanes.all[r.X.lane].share.group.full {
			f.Barriers.Drop(r.Mark)
			f.removeQueued(i, r)
			f.forgetNaN(i, r)
			return true
		}
	}
	return false
}

// unmark leaves a marked record one of its two lanes: the lane with the higher priority.
func (f *FIFO[T]) unmark(r *slab.Record[T, links]) {
	from, to := f.lanes.all[r.X.lane], f.lanes.all[r.X.next]
	if to.level.priority <= from.level.priority {
		f.lanes.release(to)
		return
	}
	r.X.lane, r.Note = to.id, r.Note&^namedNote|r.Note&markNamedNote/markNamedNote*namedNote
	f.lanes.release(from)
}

// Hear notes the weight and the limit that an add gives its group, even if the add changes
// nothing else. After a shutdown it notes nothing.
func (f *FIFO[T]) Hear(p *Placement) {
	if f.lanes != nil && !f.Closed {
		f.lanes.hear(p)
	}
}

// GroupNames returns the names of the groups that have records. The lock of the owner is not held, see slab.Walk.
func (f *FIFO[T]) GroupNames(mu *gate.Mutex) (names []string) {
	mu.Lock()
	if !f.lanes.isOver(f.lanes.main) { // An add of its first item asks by itself.
		names = append(names, "")
	}
	mu.Unlock()
	t := &f.lanes.groups
	for piece := range slab.Walk(mu, t, func(_ uint32, r *slab.Record[string, *group]) (string, bool) { return r.Item, true }) {
		names = append(names, piece...)
	}
	slab.Settle(mu, t, func() { giveBack(t) })
	return names
}

// SetLimit replaces the limit of a group. It does nothing if no record is of the group.
func (f *FIFO[T]) SetLimit(group string, limit int) { f.lanes.setLimit(group, limit) }

// Remove removes an item. A queued item leaves the queue. A worker keeps its item, but the add
// since the hand-out is taken back, the work on the item may end, and a Run does not retry the item.
// had says whether the FIFO had the item, and back whether an add was taken back.
//
// A stored item stays in the storage, and is dropped when the storage hands the item out: a
// [Queue] has no method to remove an item from its middle.
func (f *FIFO[T]) Remove(hash uint32, item T) (had, back bool) {
	at, r := f.Items.Find(hash, item)
	if r == nil {
		return false, false
	}
	r.Note &^= wokenNote // A Wake ends no wait that begins after the removal.
	switch r.State {
	case queued:
		f.removeQueued(f.Items.Index(at), r)
		f.Barriers.Pass(r.Mark)
		f.forget(at, r)
	case inStorage:
		r.State = ghost
		f.Barriers.Pass(r.Mark)
		f.storage.stored--
		f.storage.ghosts++
	case reprocess:
		f.takeMarkBack(r)
		r.Note |= removedNote
	case watched:
		r.State = processing
		r.Note = r.Note&^staysNote | removedNote
		f.tellWatchers(item, f.endings.Removed)
		return true, false
	case processing:
		r.Note = r.Note&^staysNote | removedNote
		return true, false
	default:
		return false, false
	}
	return true, true
}

// Keep has an item wait firmly, until Unkeep, and reports whether an add was taken back: a queued item
// leaves the queue, and a marked one loses its mark. Barriers do not wait for a kept item. The rank of
// the wait is the highest of k, of the add that was taken back, and of all adds until Unkeep.
//
// The item must be equal to itself, and the FIFO open.
func (f *FIFO[T]) Keep(hash uint32, item T, k Rank) (back bool) {
	at, r := f.Items.Find(hash, item)
	if r == nil {
		i, r := f.Items.Insert(at, hash, item)
		if f.timed {
			f.stampAdded(i, 0)
		}
		f.makeKept(r)
		f.setKeptRank(i, r, k)
		return false
	}
	i := f.Items.Index(at)
	rank, firm := f.rankOf(i, r)
	switch {
	case isHeld(r.State):
		if back = r.State == reprocess; back {
			f.takeMarkBack(r)
		}
		r.Note |= firmNote
	case r.State == queued:
		back = true
		f.removeQueued(i, r)
		f.Barriers.Pass(r.Mark)
		f.makeKept(r)
	case r.State == inStorage:
		back = true
		f.storage.stored--
		f.storage.ghosts++
		f.Barriers.Pass(r.Mark)
		fallthrough
	case r.State == ghost:
		f.makeKept(r)
		r.Note |= storedNote
	}
	if k.Priority > rank.Priority || !firm && (!back || k.Priority == rank.Priority) {
		rank = k
	}
	f.setKeptRank(i, r, rank)
	return back
}

// Unkeep ends a firm wait, and returns its rank. ok is false if the item does not wait firmly.
func (f *FIFO[T]) Unkeep(hash uint32, item T) (k Rank, ok bool) {
	at, r := f.Items.Find(hash, item)
	if r == nil || !f.isFirm(r) {
		return Rank{}, false
	}
	k, _ = f.rankOf(f.Items.Index(at), r)
	switch {
	case isHeld(r.State):
		r.Note &^= firmNote | markNamedNote
	case r.Note&storedNote != 0:
		r.State, r.Note = ghost, 0
	default:
		f.forget(at, r)
	}
	return k, true
}

// isFirm reports whether a record waits firmly. After a shutdown nothing waits.
func (f *FIFO[T]) isFirm(r *slab.Record[T, links]) bool {
	return !f.Closed && (r.State == kept || isHeld(r.State) && r.Note&firmNote != 0)
}

// makeKept makes a record kept that is in no list and not held. The rank stays.
func (f *FIFO[T]) makeKept(r *slab.Record[T, links]) {
	r.State, r.Note, r.Pos, r.X = kept, r.Note&markNamedNote, 0, links{}
}

// raiseKept handles an add of an item that waits firmly: the higher priority counts.
func (f *FIFO[T]) raiseKept(i uint32, r *slab.Record[T, links], p *Placement) {
	if f.lanes != nil {
		f.lanes.hear(p)
	}
	if p.Number() > f.ranks.Get(i) {
		f.setKeptRank(i, r, p.RankOf())
	}
}

// setKeptRank notes the rank of a firm wait. An item before, with the same index, may have left another
// priority.
func (f *FIFO[T]) setKeptRank(i uint32, r *slab.Record[T, links], k Rank) {
	r.Note &^= markNamedNote
	if k.Named {
		r.Note |= markNamedNote
	}
	if k.Priority != 0 || f.ranks.Has(i) {
		f.ranks.Put(i, k.Priority)
	}
}

// Wake notes for a held item that no wait begins for it until Done.
func (f *FIFO[T]) Wake(hash uint32, item T) {
	if _, r := f.Items.Find(hash, item); r != nil && isHeld(r.State) {
		r.Note |= wokenNote
	}
}

// takeMarkBack undoes the adds of a marked record.
func (f *FIFO[T]) takeMarkBack(r *slab.Record[T, links]) {
	r.State, r.Note = processing, r.Note&^(staysNote|firstNote)
	if f.lanes != nil {
		f.lanes.release(f.lanes.all[r.X.next])
	}
}

func (f *FIFO[T]) removeQueued(i uint32, r *slab.Record[T, links]) {
	if f.lanes == nil {
		f.unlink(&f.line, i, r)
		f.n--
		return
	}
	l := f.lanes.all[r.X.lane]
	f.leave(l, i, r)
	f.lanes.release(l)
}

// forget removes a record and the slot of the record. The record is in no list and not
// held.
func (f *FIFO[T]) forget(at uint32, r *slab.Record[T, links]) {
	f.Items.Remove(at, r)
	if f.Items.Sparse() {
		f.Shrink()
	}
}

// forgetNaN removes a record without a slot. The record is in no list and not held. No
// Done can name the item, so no barrier waits for the item any more.
func (f *FIFO[T]) forgetNaN(i uint32, r *slab.Record[T, links]) {
	f.Barriers.Pass(r.Mark)
	f.Items.Release(i, r)
	if f.Items.Sparse() {
		f.Shrink()
	}
}

// stampAdded notes when a record was added. A record at the new end of the slab has no
// stamp yet. A reused record has the stamp of the item before.
func (f *FIFO[T]) stampAdded(i uint32, now time.Duration) {
	if int(i) == f.stamps.N {
		f.stamps.Push(stamp{})
	}
	f.stamps.At(i).added = now
}

// stampStarted notes when a record was handed out, and returns how long the item was
// queued.
func (f *FIFO[T]) stampStarted(i uint32, now time.Duration) (waited time.Duration) {
	s := f.stamps.At(i)
	s.started = now
	return max(0, now-s.added)
}

// RaiseBarrier raises a barrier behind the present records, or returns nil if there are none. A
// record for an item that no Done can name counts until its hand-out.
func (f *FIFO[T]) RaiseBarrier() *slab.Barrier {
	live := f.n + len(f.held)
	if f.storage != nil {
		live += f.storage.stored - f.storage.nans
	}
	b := f.Barriers.Raise(live)
	if f.Barriers.Full() {
		f.Barriers.Renumber(func(renumber func(mark *uint16)) {
			for i := range uint32(f.Items.Records.N) {
				renumber(&f.Items.Records.At(i).Mark)
			}
		})
	}
	return b
}

// Shrink takes a step to give memory back, see slab.Table.Shrink. Removals call Shrink, and
// other calls do not: each call would pay for a check.
func (f *FIFO[T]) Shrink() {
	over := f.Items.Shrink(func(from, to uint32, r *slab.Record[T, links]) { f.follow(from, to, r) })
	f.stamps.Truncate(f.Items.Records.N)
	f.seqs.Truncate(f.Items.Records.N)
	f.ranks.Truncate(f.Items.Records.N)
	if over {
		f.held = append(make([]uint32, 0, 2*len(f.held)), f.held...)
		f.renumberLanes()
	}
}

// follow updates all that refers to a record that has moved.
func (f *FIFO[T]) follow(from, to uint32, r *slab.Record[T, links]) {
	switch {
	case isHeld(r.State):
		f.held[r.Pos] = to
	case r.State == queued || r.State == nan:
		l := &f.line
		if f.lanes != nil {
			l = &f.lanes.all[r.X.lane].list
		}
		if l.head == from+1 { // The Pos of the first record means nothing.
			l.head = to + 1
		} else {
			f.Items.Records.At(r.Pos - 1).X.next = to + 1
		}
		if r.X.next != 0 {
			f.Items.Records.At(r.X.next - 1).Pos = to + 1
		} else {
			l.tail = to + 1
		}
	}
	if f.timed {
		*f.stamps.At(to) = *f.stamps.At(from)
	}
	if f.seqs.N > 0 {
		*f.seqs.At(to) = *f.seqs.At(from)
	}
	if r.State == kept || isHeld(r.State) {
		f.ranks.Move(from, to)
	}
}

// renumberMax bounds the records for which lanes get new ids in one critical section: each may
// name a lane that is in no cache.
const renumberMax = 8192

// renumberLanes gives the memory of ids back that are not in use any more. The ids of a FIFO
// that stays large are renumbered when the FIFO has fallen further.
func (f *FIFO[T]) renumberLanes() {
	if f.lanes == nil || len(f.lanes.all) <= slab.MinRecords || f.Items.Records.N > renumberMax {
		return
	}
	f.lanes.renumber(func(rename func(id *uint32)) {
		for i := range uint32(f.Items.Records.N) {
			r := f.Items.Records.At(i)
			if r.State == 0 {
				continue
			}
			rename(&r.X.lane)
			if r.State == reprocess {
				rename(&r.X.next)
			}
		}
	})
}
