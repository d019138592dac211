package workqueue

import (
	"slices"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// This file reads a fifo for snapshots and metrics, and changes nothing.

// enterIn enters the first queued items in a census, in the order of the lanes, and some
// held items. A storage cannot list its items: enterIn looks at every record for stored
// items, and enters them in any order.
func (f *fifo[T]) enterIn(c *census[T]) {
	c.queuedTotal, c.heldTotal = f.len(), len(f.held)
	if f.lanes == nil {
		f.enterList(c, f.line)
	} else {
		f.lanes.visit(func(l *lane) bool {
			f.enterList(c, l.list)
			return len(c.queued) < c.limit
		})
	}
	if f.lanes == nil || !f.lanes.grouped && f.lanes.every == 0 {
		c.lined = len(c.queued)
	}
	if f.storage != nil {
		f.enterStored(c)
	}
	for _, i := range f.held[:min(c.limit, len(f.held))] {
		state := ItemInFlight
		if f.items.Records.At(i).State == reprocess {
			state = ItemInFlightAgain
		}
		c.held = append(c.held, f.entry(i, state))
	}
}

func (f *fifo[T]) enterList(c *census[T], l list) {
	for i := l.head; i != 0 && len(c.queued) < c.limit; i = f.items.Records.At(i - 1).X.next {
		c.queued = append(c.queued, f.entry(i-1, ItemQueued))
	}
}

func (f *fifo[T]) enterStored(c *census[T]) {
	for i := uint32(0); int(i) < f.items.Records.N && len(c.queued) < c.limit; i++ {
		if f.items.Records.At(i).State == inStorage {
			c.queued = append(c.queued, f.entry(i, ItemQueued))
		}
	}
}

func (f *fifo[T]) entry(i uint32, state ItemState) censusEntry[T] {
	r := f.items.Records.At(i)
	e := censusEntry[T]{item: r.Item, state: state}
	if f.lanes != nil {
		e.rank = f.nextRank(r)
	}
	switch {
	case !f.timed:
	case state == ItemQueued:
		e.since = f.stamps.At(i).added
	default:
		e.since = f.stamps.At(i).started
	}
	return e
}

// entryOf is entry for any record. It reports false for an item that was removed, and is only in a
// storage.
func (f *fifo[T]) entryOf(i uint32, r *slab.Record[T, links]) (censusEntry[T], bool) {
	state := ItemQueued
	switch r.State {
	case removed:
		return censusEntry[T]{}, false
	case processing, watched:
		state = ItemInFlight
	case reprocess:
		state = ItemInFlightAgain
	}
	return f.entry(i, state), true
}

// nextRank returns the rank of a record, and for a marked record the rank with which done
// will queue the record. The fifo must have lanes.
func (f *fifo[T]) nextRank(r *slab.Record[T, links]) rank {
	note := uint8(namedNote)
	if r.State == reprocess {
		note = markNamedNote
	}
	return rank{f.nextLane(r).level.priority, r.Note&note != 0}
}

// nextLane returns the lane of a record, and for a marked record the lane in which done
// will queue the record. The fifo must have lanes.
func (f *fifo[T]) nextLane(r *slab.Record[T, links]) *lane {
	if r.State == reprocess {
		return f.lanes.all[r.X.next]
	}
	return f.lanes.all[r.X.lane]
}

// isQueued reports whether the item is queued, or will be queued by its done.
func (f *fifo[T]) isQueued(hash uint32, item T) bool {
	_, r := f.items.Find(hash, item)
	return r != nil && (r.State == queued || r.State == inStorage || r.State == reprocess)
}

// markOf reports whether a held item was added again, and returns the rank of that add.
func (f *fifo[T]) markOf(hash uint32, item T) (k rank, marked bool) {
	_, r := f.items.Find(hash, item)
	if r == nil || r.State != reprocess {
		return rank{}, false
	}
	if f.lanes != nil {
		k = f.nextRank(r)
	}
	return k, true
}

// heldAgain returns how many held items have been added again.
func (f *fifo[T]) heldAgain() (n int) {
	for _, i := range f.held {
		if f.items.Records.At(i).State == reprocess {
			n++
		}
	}
	return n
}

// inFlight returns how long workers have held the held items: the sum of the times, and the
// longest time. It takes time in proportion to the number of held items.
func (f *fifo[T]) inFlight(now time.Duration) (total, longest time.Duration) {
	if !f.timed {
		return 0, 0
	}
	for _, i := range f.held {
		held := max(0, now-f.stamps.At(i).started)
		total += held
		longest = max(longest, held)
	}
	return total, longest
}

// oldest returns the age of the oldest queued item of a fifo without lanes. The first item
// in the line is the oldest. A storage has an order of its own, so oldest looks at each
// record.
func (f *fifo[T]) oldest(now time.Duration) (age time.Duration) {
	if !f.timed {
		return 0
	}
	if f.line.head != 0 {
		age = max(0, now-f.stamps.At(f.line.head-1).added)
	}
	if f.storage == nil {
		return age
	}
	for i := range uint32(f.items.Records.N) {
		if f.items.Records.At(i).State == inStorage {
			age = max(age, now-f.stamps.At(i).added)
		}
	}
	return age
}

// levels returns the part of each priority with a name in metrics, in the order in which the
// priorities came into use, and the part of all others. The ages are missing. The time is
// proportional to the number of held items. Without lanes, levels returns nil.
func (f *fifo[T]) levels() (parts []PartStats[int]) {
	if f.lanes == nil {
		return nil
	}
	others := f.n
	for _, v := range f.lanes.named {
		depth := v.depth(f.lanes.grouped)
		parts = append(parts, PartStats[int]{Key: v.priority, Depth: depth})
		others -= depth
	}
	if others > 0 {
		parts = append(parts, PartStats[int]{Others: true, Depth: others})
	}
	f.eachHeld(func(from, next *lane) {
		levelPart(&parts, from).InFlight++
		if next != nil {
			levelPart(&parts, next).Depth++
		}
	})
	return parts
}

// eachHeld calls visit for each held item, with the lane from which the item was taken, and the
// lane to which Done will add the item, nil for none.
func (f *fifo[T]) eachHeld(visit func(from, next *lane)) {
	for _, i := range f.held {
		r := f.items.Records.At(i)
		var next *lane
		if r.State == reprocess {
			next = f.nextLane(r)
		}
		visit(f.lanes.all[r.X.lane], next)
	}
}

// levelPart returns the part of the priority of a lane, and adds the part of the others when
// the first of them comes.
func levelPart(parts *[]PartStats[int], l *lane) *PartStats[int] {
	for i := range *parts {
		if p := &(*parts)[i]; p.Key == l.level.priority || p.Others {
			return p
		}
	}
	*parts = append(*parts, PartStats[int]{Others: true})
	return &(*parts)[len(*parts)-1]
}

// surveyed is how many lanes are looked at in one critical section. A look takes up to
// 100 ns, where nothing of the lane is in a cache.
const surveyed = 4096

// A survey is a look at all lanes, in several critical sections, as there may be any number of
// lanes. A change in between may be missed, or seen twice.
type survey struct {
	now    time.Duration
	next   int              // the lane to be looked at next
	levels []PartStats[int] // get the age of their oldest item
	groups groupSurvey
}

// survey looks at some lanes, and reports whether no more are left. The oldest item of a lane
// is its first one, unless that item was raised there or added while held.
func (f *fifo[T]) survey(s *survey) (over bool) {
	if f.lanes == nil {
		return true
	}
	if s.next == 0 && f.lanes.grouped {
		s.groups.held = make(map[*group]heldItems)
		f.eachHeld(s.groups.countHeld)
	}
	all := f.lanes.all
	end := min(s.next+surveyed, len(all))
	for ; s.next < end; s.next++ {
		l := all[s.next]
		if l == nil {
			continue
		}
		var age time.Duration
		if l.n > 0 && f.timed {
			age = max(0, s.now-f.stamps.At(l.head-1).added)
			p := levelPart(&s.levels, l)
			p.OldestItem = max(p.OldestItem, age)
		}
		if f.lanes.grouped {
			s.groups.lookAt(l.share.group, age)
		}
	}
	return s.next >= len(all)
}

// A groupSurvey finds the deepest groups, the deepest first. Groups that are as deep are in the
// order of their lanes.
type groupSurvey struct {
	held   map[*group]heldItems
	named  []*group
	found  []PartStats[string] // of named
	others PartStats[string]   // Others is set if there is a group without a part
}

// heldItems are the held items that came from a group, and those that will go to the group.
type heldItems struct{ inFlight, marked int }

func (s *groupSurvey) countHeld(from, next *lane) {
	h := s.held[from.share.group]
	h.inFlight++
	s.held[from.share.group] = h
	if next != nil {
		h = s.held[next.share.group]
		h.marked++
		s.held[next.share.group] = h
	}
}

// lookAt enters the group of a lane, whose first item has the age. The depth of a group counts
// all of its lanes. So a group behind maxNamed others cannot come back by another lane.
func (s *groupSurvey) lookAt(g *group, age time.Duration) {
	h := s.held[g]
	depth := g.n + h.marked
	if depth == 0 && h.inFlight == 0 {
		return
	}
	if i := slices.Index(s.named, g); i >= 0 {
		s.found[i].OldestItem = max(s.found[i].OldestItem, age)
		return
	}
	at := len(s.found)
	for at > 0 && s.found[at-1].Depth < depth {
		at--
	}
	s.named = slices.Insert(s.named, at, g)
	s.found = slices.Insert(s.found, at, PartStats[string]{Key: g.name, Depth: depth, InFlight: h.inFlight, OldestItem: age})
	if len(s.found) > maxNamed {
		s.others.Others = true
		s.others.OldestItem = max(s.others.OldestItem, s.found[maxNamed].OldestItem)
		s.named, s.found = s.named[:maxNamed], s.found[:maxNamed]
	}
}

// parts returns the groups, and the others as one more part, for a queue of the given
// numbers of items.
//
// A group that ended and began again, while the survey had given the lock back, has been entered
// twice. A name must come once only, or a provider would show two series with the same labels.
func (s *groupSurvey) parts(depth, inFlight int) []PartStats[string] {
	seen := make(map[string]bool, len(s.found))
	s.found = slices.DeleteFunc(s.found, func(p PartStats[string]) bool {
		again := seen[p.Key]
		seen[p.Key] = true
		return again
	})
	if !s.others.Others {
		return s.found
	}
	s.others.Depth, s.others.InFlight = depth, inFlight
	for _, p := range s.found {
		s.others.Depth -= p.Depth
		s.others.InFlight -= p.InFlight
	}
	s.others.Depth, s.others.InFlight = max(0, s.others.Depth), max(0, s.others.InFlight)
	return append(s.found, s.others)
}
