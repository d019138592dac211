package workqueue

import (
	"time"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// A fifo is the machine inside a [Typed]. It keeps the queued and the held items, and moves
// them from state to state. A fifo knows no lock, no parked worker and no metric. The Typed
// holds its lock during each call, and calls settle afterwards.
//
// An item without a record in items has no state. An item with a record is in one of these
// states:
//
//	queued      in a list, waiting for a take
//	inStorage   in storage, waiting for a take
//	removed     in storage, dropped when the storage hands the item out
//	unfindable  in a list, but not equal to itself: take forgets the record
//	processing  handed out, done is owed
//	watched     like processing, and the next add of the item is reported
//	reprocess   handed out and added again since: done queues the item
//
// The calls move an item as follows. Here queued also stands for inStorage, and processing
// for watched:
//
//	add      none, removed → queued;  none → unfindable;  processing → reprocess
//	take     queued → processing;     removed, unfindable → none
//	done     processing → none;       reprocess → queued
//	putBack  processing, reprocess → queued
//	remove   queued → none, removed;  reprocess → processing
//
// All queued records are in one list, the line, until an add names a priority. With an
// Order, or after such an add, the records are in the lists of lanes. A fifo with a storage
// has no lanes. Its line has only the records whose Push has failed.
//
// Invariants, for a record r with index i:
//
//	r.State is queued or unfindable: i is in the line, or in the list of the lane r.X.lane
//	r is in a list, and not its first: r.Pos == 1 + the index of the record before r
//	r is in a list: r.X.next == 1 + the index of the record behind r, 0 for the last one
//	isHeld(r.State): held[r.Pos] == i, and r was taken from the lane r.X.lane
//	r.State is reprocess: r.X.next is the lane in which done will queue r
//	n == number of records queued or unfindable
//	n + len(held) + number of records inStorage or removed == items.Live
//	watchers has the items of the records watched
//	stamps.N == items.Records.N, or 0 if not timed
//	the numbers in seqs grow within the list of a lane, except at records that were put back
//
// All invariants hold before each call of the storage, which is foreign code. If such a
// call does not return, the transition of the item is complete, or has not begun.
//
// A fifo is not safe for concurrent use. The zero fifo is empty and keeps no times.
type fifo[T comparable] struct {
	// Immutable after construction.

	storage   *storage[T] // nil for none
	reflexive bool        // no value of the type T differs from itself
	timed     bool        // stamps are kept

	closed bool // add changes nothing any more

	items slab.Table[T, links]
	line  list   // used while lanes is nil
	lanes *lanes // nil while the line suffices
	taken rank   // of the last take from a lane
	n     int
	held  []uint32

	stamps   slab.Pages[stamp]
	seqs     slab.Pages[uint64]
	seq      uint64 // the last number
	watchers map[T]watcher
	watches  int // the largest size of watchers since the map was made

	barriers slab.Barriers // of all records but those removed
}

// Notes of records.
const (
	namedNote     = 1 << iota // the record is queued or held for an add that named a priority
	markNamedNote             // the record is marked for an add that named a priority
	goneNote                  // letGoOfHeld has let go of the held item
)

// bit returns note for an add with a named priority, and 0 for any other add.
func (p *placement) bit(note uint8) uint8 {
	if p != nil && p.named {
		return note
	}
	return 0
}

// links are the fields that a fifo adds to a record.
type links struct {
	next uint32
	lane uint32 // the id, 0 without lanes
}

const (
	queued slab.State = 1 + iota
	inStorage
	removed
	unfindable
	processing
	watched
	reprocess
)

// isHeld reports whether a worker holds a record with the state s.
func isHeld(s slab.State) bool { return s >= processing }

// A stamp holds the times of an item.
type stamp struct {
	added   time.Duration // at the add that queued or marked the item
	started time.Duration // at the take
}

// ready reports whether a take may find an item.
func (f *fifo[T]) ready() bool {
	switch {
	case f.lanes != nil:
		return f.lanes.top() != nil
	case f.storage != nil:
		return f.n > 0 || f.storage.ready()
	}
	return f.n > 0
}

// idle reports whether no item is held and a take finds nothing. A storage may have lost
// items, for example in a Pop that has not returned: idle does not wait for lost items, see
// storage.ready.
func (f *fifo[T]) idle() bool { return len(f.held) == 0 && !f.ready() }

// len returns the number of queued items, as the fifo counts them.
func (f *fifo[T]) len() int {
	if f.storage == nil {
		return f.n
	}
	return f.n + f.storage.stored
}

// size is like len, but asks the Queue of a storage for its Len, and subtracts the items
// that were removed.
func (f *fifo[T]) size() int {
	if f.storage == nil {
		return f.n
	}
	return f.n + f.storage.size() - f.storage.ghosts
}

// add queues an item without a record, and reports whether the item was queued. The caller
// has searched for the item; at is where the search ended. The caller searches, because
// only a search that is inlined in Add and Done is fast enough, see BenchmarkCycle.
func (f *fifo[T]) add(at, hash uint32, item T, now time.Duration, p *placement) (added bool) {
	if f.closed {
		return false
	}
	if !f.reflexive && !slab.Equal(item, item) {
		f.addUnfindable(item, now, p)
		return true
	}
	i, r := f.items.Insert(at, hash, item)
	r.State, r.Mark = queued, f.barriers.Mark
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

// addUnfindable queues an item that differs from itself. No later add, done or remove can
// name the item, so the item needs no slot in the index.
func (f *fifo[T]) addUnfindable(item T, now time.Duration, p *placement) {
	i, r := f.items.InsertUnindexed(item)
	r.State, r.Mark = unfindable, f.barriers.Mark
	if f.timed {
		f.stampAdded(i, now)
	}
	f.enqueue(i, r, p)
}

// enqueue puts a new record into the lane of its add, or into the line. A record for the
// storage is in the line before Push is called, because Push may not return.
func (f *fifo[T]) enqueue(i uint32, r *slab.Record[T, links], p *placement) {
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
// placement gives the fifo lanes.
func (f *fifo[T]) laneFor(p *placement) *lane {
	if f.lanes != nil {
		return f.lanes.find(p)
	}
	if f.storage != nil || p == nil {
		return nil
	}
	f.order(newLanes(0, false, false, false))
	return f.lanes.find(p)
}

// order gives the fifo lanes. All records then belong to the lane with id 0, which is the
// value in their links already.
func (f *fifo[T]) order(o *lanes) {
	f.lanes = o
	l := o.all[0]
	l.list, l.n = f.line, f.n
	l.refs += f.n + len(f.held)
	f.line = list{}
	for _, i := range f.held {
		if f.items.Records.At(i).State == reprocess {
			l.refs++
		}
	}
	if l.n > 0 {
		o.up(l, 0)
	}
}

// append puts a record at the end of a list.
func (f *fifo[T]) append(l *list, i uint32, r *slab.Record[T, links]) {
	r.Pos, r.X.next = l.tail, 0
	if l.tail != 0 {
		f.items.Records.At(l.tail - 1).X.next = i + 1
	} else {
		l.head = i + 1
	}
	l.tail = i + 1
}

// prepend puts a record before all others of a list.
func (f *fifo[T]) prepend(l *list, i uint32, r *slab.Record[T, links]) {
	r.X.next = l.head
	if l.head != 0 {
		f.items.Records.At(l.head - 1).Pos = i + 1
	} else {
		l.tail = i + 1
	}
	l.head = i + 1
}

// pop takes the first record out of a list. The Pos of the next record keeps its old value:
// nobody reads the Pos of a first record, and a write would touch another cache line.
func (f *fifo[T]) pop(l *list) (i uint32, r *slab.Record[T, links]) {
	i = l.head - 1
	r = f.items.Records.At(i)
	l.head = r.X.next
	if l.head == 0 {
		l.tail = 0
	}
	return i, r
}

// unlink takes any record out of a list.
func (f *fifo[T]) unlink(l *list, i uint32, r *slab.Record[T, links]) {
	if l.head == i+1 {
		f.pop(l)
		return
	}
	f.items.Records.At(r.Pos - 1).X.next = r.X.next
	if r.X.next != 0 {
		f.items.Records.At(r.X.next - 1).Pos = r.Pos
	} else {
		l.tail = r.Pos
	}
}

// enter puts a record at the end of a lane. The caller has counted the record in l.refs.
func (f *fifo[T]) enter(l *lane, i uint32, r *slab.Record[T, links]) {
	f.append(&l.list, i, r)
	r.X.lane = l.id
	f.seq++
	if f.lanes.every > 0 {
		f.number(i, f.seq)
	}
	f.count(l, 1)
	if l.n == 1 {
		f.lanes.up(l, f.seq)
	}
}

// leave takes a queued record out of its lane. l.refs still counts the record.
func (f *fifo[T]) leave(l *lane, i uint32, r *slab.Record[T, links]) {
	first := l.head == i+1
	f.unlink(&l.list, i, r)
	f.left(l, first)
}

// left updates a lane after a record has left its list. first says whether the record was
// the first.
func (f *fifo[T]) left(l *lane, first bool) {
	f.count(l, -1)
	switch {
	case l.n == 0:
		f.lanes.down(l)
	case first && f.lanes.every > 0:
		f.lanes.headChanged(l, *f.seqs.At(l.head - 1))
	}
}

func (f *fifo[T]) count(l *lane, by int) {
	f.n += by
	l.n += by
	if f.lanes.grouped {
		l.level.n += by
		l.share.group.n += by
	}
}

// number notes the number of a record, if the lanes have ages.
func (f *fifo[T]) number(i uint32, seq uint64) {
	if f.lanes.every == 0 {
		return
	}
	for int(i) >= f.seqs.N {
		f.seqs.Push(0)
	}
	*f.seqs.At(i) = seq
}

// addAgain adds an item with a record. It reports false for a duplicate, and after a
// shutdown. A held item is only marked, and done queues the item: no two workers may hold
// an item at a time. The stamp of a marked item becomes the time of the add, when the next
// wait of the item begins.
func (f *fifo[T]) addAgain(at uint32, r *slab.Record[T, links], now time.Duration, p *placement) (added bool) {
	if f.closed {
		return false
	}
	i := f.items.Index(at)
	switch r.State {
	case queued:
		if f.lanes != nil || p != nil {
			f.raise(i, r, p)
		}
	case inStorage:
		f.storage.dry = false
		f.storage.touch(r.Item)
	case removed:
		f.restore(i, r, now)
		return true
	case processing, watched:
		f.mark(i, r, now, p)
		return true
	case reprocess:
		if f.lanes != nil || p != nil {
			f.markAgain(r, p)
		}
	}
	return false
}

// raise moves a queued record to the priority of the add, if that priority is higher. The
// record goes to the end of the lane of its group.
func (f *fifo[T]) raise(i uint32, r *slab.Record[T, links], p *placement) {
	priority := p.number()
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
func (f *fifo[T]) mark(i uint32, r *slab.Record[T, links], now time.Duration, p *placement) {
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
		f.tellWatchers(r.Item, ErrReAdded)
	}
}

// markAgain handles a further add of a marked item: the higher priority counts, and the
// group of the last add.
func (f *fifo[T]) markAgain(r *slab.Record[T, links], p *placement) {
	if f.lanes == nil && f.laneFor(p) == nil {
		return
	}
	from := f.lanes.all[r.X.next]
	priority := from.level.priority
	if p.number() > priority {
		priority = p.number()
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

// take hands out the first item, if there is one, and returns how long the item was queued.
// The line comes before a storage.
func (f *fifo[T]) take(now time.Duration) (item T, waited time.Duration, ok bool) {
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
	if r.State == unfindable {
		return f.takeUnfindable(i, r), waited, true
	}
	f.hold(i, r)
	return r.Item, waited, true
}

// takeOrdered is take for a fifo with lanes.
func (f *fifo[T]) takeOrdered(now time.Duration) (item T, waited time.Duration, ok bool) {
	if f.lanes.top() == nil {
		return item, 0, false
	}
	l := f.lanes.next()
	i, r := f.pop(&l.list)
	f.left(l, true)
	f.taken = rank{l.level.priority, r.Note&namedNote != 0}
	if f.timed {
		waited = f.stampStarted(i, now)
	}
	if r.State == unfindable {
		f.lanes.release(l) // No Done can name the item, so no limit counts the item.
		return f.takeUnfindable(i, r), waited, true
	}
	f.lanes.countHeld(l, 1)
	f.hold(i, r)
	return r.Item, waited, true
}

// hold makes a record held. The record has left its list or the storage.
func (f *fifo[T]) hold(i uint32, r *slab.Record[T, links]) {
	r.State = processing
	r.Pos = uint32(len(f.held))
	f.held = append(f.held, i)
}

// takeUnfindable hands out an item and forgets its record, because done cannot name the
// item. Written out in take, these calls would make take slower for all items, see
// BenchmarkCycle.
func (f *fifo[T]) takeUnfindable(i uint32, r *slab.Record[T, links]) T {
	item := r.Item
	f.forgetUnindexed(i, r)
	return item
}

// done ends the hand-out of an item, and queues the item if the item was added again. done
// returns how long the item was held; ok is false if nobody held the item. The caller has
// searched for the item; r is nil if there is no record.
func (f *fifo[T]) done(at uint32, r *slab.Record[T, links], now time.Duration) (worked time.Duration, ok bool) {
	if r == nil || !isHeld(r.State) {
		return 0, false
	}
	i := f.items.Index(at)
	if f.timed {
		worked = max(0, now-f.stamps.At(i).started)
	}
	again := r.State == reprocess
	if r.State == watched {
		f.forgetWatchers(r.Item)
	}
	f.letGo(i, r)
	if f.lanes != nil {
		f.land(r)
	}
	if f.barriers.Any() {
		f.barriers.Pass(r.Mark)
	}
	if again {
		f.enqueueAgain(i, r)
		return worked, true
	}
	f.items.Remove(at, r) // forget is not inlined.
	if f.items.Sparse() {
		f.shrink()
	}
	return worked, true
}

// land ends the hand-out of a record for its lane.
func (f *fifo[T]) land(r *slab.Record[T, links]) {
	l := f.lanes.all[r.X.lane]
	f.lanes.countHeld(l, -1)
	f.lanes.release(l)
}

// enqueueAgain queues a record that was held and added again.
func (f *fifo[T]) enqueueAgain(i uint32, r *slab.Record[T, links]) {
	r.State, r.Mark = queued, f.barriers.Mark
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

// letGo takes a record out of held, and moves the last record of held into the gap: the
// order of held means nothing. The caller then gives the record another place or forgets
// the record.
func (f *fifo[T]) letGo(i uint32, r *slab.Record[T, links]) {
	last := len(f.held) - 1
	if moved := f.held[last]; moved != i {
		f.held[r.Pos] = moved
		f.items.Records.At(moved).Pos = r.Pos
	}
	f.held = f.held[:last]
}

// putBack undoes a take: the item becomes the first of its lane again. If an add with a
// higher priority came meanwhile, the item becomes the first of the lane of this add.
// putBack does nothing for an item that is not held.
//
// The take has forgotten the record of an item that differs from itself, with its time and
// lane. Such an item gets the time from the caller, and the lane with id 0.
func (f *fifo[T]) putBack(item T, added time.Duration) {
	var i uint32
	var r *slab.Record[T, links]
	if slab.Equal(item, item) {
		var at uint32
		if at, r = f.items.Find(slab.HashOf(item), item); r == nil || !isHeld(r.State) {
			return
		}
		i = f.items.Index(at)
		marked := r.State == reprocess
		if r.State == watched {
			f.forgetWatchers(r.Item)
		}
		f.letGo(i, r)
		r.State, r.Note = queued, r.Note&^goneNote
		if f.lanes != nil {
			f.lanes.countHeld(f.lanes.all[r.X.lane], -1)
			if marked {
				f.unmark(r)
			}
		}
	} else {
		i, r = f.items.InsertUnindexed(item)
		r.State, r.Mark = unfindable, f.barriers.Mark
		if f.timed {
			f.stampAdded(i, added)
		}
		if f.lanes != nil {
			f.lanes.all[0].refs++
			f.number(i, 0)
		}
	}
	f.enterFirst(i, r)
}

// unmark leaves a marked record one of its two lanes: the lane with the higher priority.
func (f *fifo[T]) unmark(r *slab.Record[T, links]) {
	from, to := f.lanes.all[r.X.lane], f.lanes.all[r.X.next]
	if to.level.priority <= from.level.priority {
		f.lanes.release(to)
		return
	}
	r.X.lane, r.Note = to.id, r.Note&markNamedNote/markNamedNote*namedNote
	f.lanes.release(from)
}

// hear notes the weight and the limit that an add gives its group, even if the add changes
// nothing else.
func (f *fifo[T]) hear(p *placement) {
	if f.lanes != nil {
		f.lanes.hear(p)
	}
}

// enterFirst puts a record before all others of its lane.
func (f *fifo[T]) enterFirst(i uint32, r *slab.Record[T, links]) {
	if f.lanes == nil {
		f.prepend(&f.line, i, r)
		f.n++
		return
	}
	l := f.lanes.all[r.X.lane]
	f.prepend(&l.list, i, r)
	f.count(l, 1)
	seq := uint64(0)
	if f.lanes.every > 0 {
		seq = *f.seqs.At(i)
	}
	if l.n == 1 {
		f.lanes.up(l, seq)
	} else {
		f.lanes.headChanged(l, seq)
	}
}

// remove takes back an add, and reports whether there was an add. A stored item stays in
// the storage, and is dropped when the storage hands the item out: a [Queue] has no method
// to remove an item from its middle.
func (f *fifo[T]) remove(hash uint32, item T) bool {
	at, r := f.items.Find(hash, item)
	if r == nil {
		return false
	}
	switch r.State {
	case queued:
		f.removeQueued(f.items.Index(at), r)
		f.barriers.Pass(r.Mark)
		f.forget(at, r)
	case inStorage:
		r.State = removed
		f.barriers.Pass(r.Mark)
		f.storage.stored--
		f.storage.ghosts++
	case reprocess:
		r.State = processing
		if f.lanes != nil {
			f.lanes.release(f.lanes.all[r.X.next])
		}
	default:
		return false
	}
	return true
}

// letGoOfHeld lets go of a held item: the work on the item may end, and a Run does not retry the
// item.
func (f *fifo[T]) letGoOfHeld(hash uint32, item T) {
	_, r := f.items.Find(hash, item)
	if r == nil || !isHeld(r.State) {
		return
	}
	r.Note |= goneNote
	if r.State == watched {
		r.State = processing
		f.tellWatchers(item, ErrRemoved)
	}
}

// isGone reports whether letGoOfHeld has let go of an item since its hand-out.
func (f *fifo[T]) isGone(hash uint32, item T) bool {
	_, r := f.items.Find(hash, item)
	return r != nil && r.Note&goneNote != 0
}

func (f *fifo[T]) removeQueued(i uint32, r *slab.Record[T, links]) {
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
func (f *fifo[T]) forget(at uint32, r *slab.Record[T, links]) {
	f.items.Remove(at, r)
	if f.items.Sparse() {
		f.shrink()
	}
}

// forgetUnindexed removes a record without a slot. The record is in no list and not held. No
// Done can name the item, so no barrier waits for the item any more.
func (f *fifo[T]) forgetUnindexed(i uint32, r *slab.Record[T, links]) {
	f.barriers.Pass(r.Mark)
	f.items.Release(i, r)
	if f.items.Sparse() {
		f.shrink()
	}
}

// stampAdded notes when a record was added. A record at the new end of the slab has no
// stamp yet. A reused record has the stamp of the item before.
func (f *fifo[T]) stampAdded(i uint32, now time.Duration) {
	if int(i) == f.stamps.N {
		f.stamps.Push(stamp{})
	}
	f.stamps.At(i).added = now
}

// stampStarted notes when a record was handed out, and returns how long the item was
// queued.
func (f *fifo[T]) stampStarted(i uint32, now time.Duration) (waited time.Duration) {
	s := f.stamps.At(i)
	s.started = now
	return max(0, now-s.added)
}

// watch tells the watcher of the next add of a held item, until done. watch returns why the
// watcher is not kept: the item was added already since the take, or letGoOfHeld has let go of
// the item. Watchers of the item that have ended are forgotten here, so they do not pile up.
func (f *fifo[T]) watch(hash uint32, item T, w watcher) (over error) {
	_, r := f.items.Find(hash, item)
	switch {
	case r == nil || !isHeld(r.State):
		return nil // Not held, or different from itself: no add can be of the same item.
	case r.State == reprocess:
		return ErrReAdded
	case r.Note&goneNote != 0:
		return ErrRemoved
	}
	if f.watchers == nil {
		f.watchers = make(map[T]watcher)
	}
	r.State = watched
	w.more = f.watchers[item].live()
	f.watchers[item] = w
	f.watches = max(f.watches, len(f.watchers))
	return nil
}

// tellWatchers ends the contexts of all watchers of the item.
func (f *fifo[T]) tellWatchers(item T, cause error) {
	first := f.watchers[item]
	f.forgetWatchers(item)
	for w := &first; w != nil; w = w.more {
		w.cancel(cause)
	}
}

// forgetWatchers forgets all watchers of the item. An empty map that was large is dropped:
// a map never shrinks.
func (f *fifo[T]) forgetWatchers(item T) {
	delete(f.watchers, item)
	if f.watches > slab.MinRecords && len(f.watchers) == 0 {
		f.watchers, f.watches = nil, 0
	}
}

// shrink takes a step to give memory back, see slab.Table.Shrink. Removals call shrink, and
// settle does not: each call would pay for a check there.
func (f *fifo[T]) shrink() {
	over := f.items.Shrink(func(from, to uint32, r *slab.Record[T, links]) { f.follow(from, to, r) })
	f.stamps.Truncate(f.items.Records.N)
	f.seqs.Truncate(f.items.Records.N)
	if over {
		f.held = append(make([]uint32, 0, 2*len(f.held)), f.held...)
		f.renumberLanes()
	}
}

// follow updates all that refers to a record that has moved.
func (f *fifo[T]) follow(from, to uint32, r *slab.Record[T, links]) {
	switch {
	case isHeld(r.State):
		f.held[r.Pos] = to
	case r.State == queued || r.State == unfindable:
		l := &f.line
		if f.lanes != nil {
			l = &f.lanes.all[r.X.lane].list
		}
		if l.head == from+1 { // The Pos of the first record means nothing.
			l.head = to + 1
		} else {
			f.items.Records.At(r.Pos - 1).X.next = to + 1
		}
		if r.X.next != 0 {
			f.items.Records.At(r.X.next - 1).Pos = to + 1
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
}

// renumberMax bounds the records for which lanes get new ids in one critical section: each may
// name a lane that is in no cache.
const renumberMax = 8192

// renumberLanes gives the memory of ids back that are not in use any more. The ids of a fifo
// that stays large are renumbered when the fifo has fallen further.
func (f *fifo[T]) renumberLanes() {
	if f.lanes == nil || len(f.lanes.all) <= slab.MinRecords || f.items.Records.N > renumberMax {
		return
	}
	f.lanes.renumber(func(rename func(id *uint32)) {
		for i := range uint32(f.items.Records.N) {
			r := f.items.Records.At(i)
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
