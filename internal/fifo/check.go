package fifo

import (
	"reflect"
	"time"
	"unsafe"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// Only tests call the functions of this file, here and in the root.

// CheckInvariants returns the violated invariants of the FIFO, or nil.
func (f *FIFO[T]) CheckInvariants() error {
	var errs slab.Check
	errs.Add("items: ", f.Items.CheckInvariants())
	inList, inStore, ghosts, keeps, keptStored, watches := 0, 0, 0, 0, 0, 0
	for i := range uint32(f.Items.Records.N) {
		switch r := f.Items.Records.At(i); r.State {
		case queued, nan:
			inList++
		case processing, watched, reprocess:
			if r.State == watched {
				watches++
			}
			f.checkHeld(&errs, i)
		case kept:
			keeps++
			if r.Note&storedNote != 0 {
				keptStored++
			}
			errs.That(r.Note&^(storedNote|markNamedNote) == 0 && r.X == links{}, "record %d (%v) is kept with the notes %b and %v", i, r.Item, r.Note, r.X)
		case inStorage:
			inStore++
		case ghost:
			ghosts++
		}
	}
	errs.That(len(f.watchers) == watches, "%d watchers for %d records", len(f.watchers), watches)
	errs.That(f.n == inList, "n: counted %d, are %d", f.n, inList)
	errs.That(f.n+len(f.held)+inStore+ghosts+keeps == f.Items.Live, "%d in lists + %d held + %d stored + %d removed + %d kept != %d records", f.n, len(f.held), inStore, ghosts, keeps, f.Items.Live)
	if g := f.storage; g != nil {
		errs.That(f.lanes == nil, "lanes beside a storage")
		errs.That(g.ghosts == ghosts+keptStored, "ghosts: counted %d, are %d, and %d kept", g.ghosts, ghosts, keptStored)
		errs.That(g.stored == inStore+g.nans, "stored: counted %d, are %d and %d without a record", g.stored, inStore, g.nans)
		errs.That(g.nans >= 0 && (g.nans == 0 || mayDiffer[T]()), "%d items without a record", g.nans)
	}
	errs.That(f.storage != nil || inStore+ghosts+keptStored == 0, "%d records in no storage", inStore+ghosts+keptStored)
	stamps := map[bool]int{true: f.Items.Records.N}[f.timed]
	errs.That(f.stamps.N == stamps, "%d stamps for %d records, want %d", f.stamps.N, f.Items.Records.N, stamps)
	f.checkBarriers(&errs)
	if f.lanes == nil {
		errs.That(f.checkList(&errs, f.line, 0) == f.n, "the line does not have %d records", f.n)
		return errs.Err()
	}
	f.checkLanes(&errs)
	errs.Add("", f.lanes.CheckInvariants())
	return errs.Err()
}

// checkHeld checks record i, of an item that a worker has.
func (f *FIFO[T]) checkHeld(errs *slab.Check, i uint32) {
	r := f.Items.Records.At(i)
	_, reported := f.watchers[r.Item]
	errs.That(reported == (r.State == watched), "record %d (%v) has state %d, a watcher: %v", i, r.Item, r.State, reported)
	errs.That(r.State == reprocess || r.Note&firstNote == 0, "record %d (%v) has state %d and notes %b", i, r.Item, r.State, r.Note)
	errs.That(int(r.Pos) < len(f.held) && f.held[r.Pos] == i, "record %d (%v) is processed, but not held at %d", i, r.Item, r.Pos)
	errs.That(f.Closed || r.State != reprocess || r.Note&firmNote == 0, "record %d (%v) is marked and waits firmly", i, r.Item)
}

// checkBarriers compares what the barriers count with the marks of the records.
func (f *FIFO[T]) checkBarriers(errs *slab.Check) {
	var marks []uint16
	for i := range uint32(f.Items.Records.N) {
		if r := f.Items.Records.At(i); r.State != 0 && r.State != ghost && r.State != kept {
			marks = append(marks, r.Mark)
		}
	}
	errs.Add("barriers: ", f.Barriers.CheckInvariants(marks))
}

// checkList returns the length of a list.
func (f *FIFO[T]) checkList(errs *slab.Check, l list, id uint32) (n int) {
	last := uint32(0)
	for i := l.head; i != 0 && n <= f.Items.Live; n++ {
		r := f.Items.Records.At(i - 1)
		errs.That(r.State == queued || r.State == nan, "record %d in a list has state %d", i-1, r.State)
		errs.That(r.X.lane == id, "record %d of lane %d says %d", i-1, id, r.X.lane)
		errs.That(last == 0 || r.Pos == last, "record %d comes after %d, says %d", i-1, last, r.Pos)
		last, i = i, r.X.next
	}
	errs.That(l.tail == last, "a list ends with %d, says %d", last, l.tail)
	return n
}

// countRefs returns how many records name each lane, and are held of each limited group.
func (f *FIFO[T]) countRefs() (refs map[*lane]int, held map[*group]int) {
	o := f.lanes
	refs, held = map[*lane]int{}, map[*group]int{}
	for i := range uint32(f.Items.Records.N) {
		r := f.Items.Records.At(i)
		switch r.State {
		case queued, nan:
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
	return refs, held
}

// checkLanes compares what the lanes count with the records.
func (f *FIFO[T]) checkLanes(errs *slab.Check) {
	o := f.lanes
	errs.That(f.line == list{}, "a line beside lanes")
	refs, held := f.countRefs()
	depths, sizes := map[*level]int{}, map[*group]int{}
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

// CheckInvariants returns the violated invariants of the lanes, or nil.
func (o *lanes) CheckInvariants() error {
	var errs slab.Check
	errs.Add("groups: ", o.groups.CheckInvariants())
	errs.Add("levels: ", o.levels.CheckInvariants())
	errs.Add("others: ", o.others.CheckInvariants())
	in := o.checkRotations(&errs)
	aged := 0
	for id, l := range o.all {
		if l != nil {
			o.checkLane(&errs, id, l, in)
			if o.every > 0 && l.n > 0 && (o.groupsFirst || !l.share.group.full) {
				aged++
				errs.That(o.agesOf(l.share).heap[l.byAge].Value == l, "lane %d is not at %d by age", id, l.byAge)
			}
		}
	}
	errs.Add("ages: ", o.ages.heap.CheckInvariants())
	errs.That(o.groupsFirst || o.every == 0 || len(o.ages.heap) == aged, "%d lanes by age, of %d", len(o.ages.heap), aged)
	return errs.Err()
}

// checkRotations returns the shares that are in a rotation.
func (o *lanes) checkRotations(errs *slab.Check) (in map[*share]bool) {
	in = map[*share]bool{}
	errs.Add("rotations: ", o.behind.CheckInvariants())
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
	return in
}

// checkLane checks a lane and its share, with the shares that are in a rotation.
func (o *lanes) checkLane(errs *slab.Check, id int, l *lane, in map[*share]bool) {
	s, g := l.share, l.share.group
	errs.That(g.full == (g.limit != 0 && g.inFlight >= g.limit), "group %q: full %v", g.name, g.full)
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
}

// mayDiffer reports whether a value of the type may differ from itself.
func mayDiffer[T any]() bool {
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Float32, reflect.Float64, reflect.Interface, reflect.Struct:
		return true
	}
	return false
}

// Lanes returns how many lanes, levels and groups there are, or for how many there is room.
func (f *FIFO[T]) Lanes() (lanes, levels, groups int) {
	o := f.lanes
	if room := cap(o.main.shares); room > 1024 {
		return room, 0, 0
	}
	return len(o.all) - len(o.free), o.levels.Live, o.groups.Live
}

// Times returns when a queued or held item was added and handed out, if the FIFO keeps times.
func (f *FIFO[T]) Times(hash uint32, item T) (added, started time.Duration, kept bool) {
	at, r := f.Items.Find(hash, item)
	if !f.timed || r == nil {
		return 0, 0, false
	}
	s := f.stamps.At(f.Items.Index(at))
	return s.added, s.started, true
}

// Kept returns how many items wait firmly.
func (f *FIFO[T]) Kept() (n int) {
	for i := range uint32(f.Items.Records.N) {
		if f.isFirm(f.Items.Records.At(i)) {
			n++
		}
	}
	return n
}

// Watchers returns how many watchers are kept for an item.
func (f *FIFO[T]) Watchers(item T) (n int) {
	for w, ok := f.watchers[item]; ok; w, ok = *w.more, true {
		if n++; w.more == nil {
			break
		}
	}
	return n
}

// Sizes returns the bytes of a record for strings, and of the times of an item.
func Sizes() (record, times uintptr) {
	return unsafe.Sizeof(slab.Record[string, links]{}), unsafe.Sizeof(stamp{})
}
