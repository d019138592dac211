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

// heldFor returns the rank with which a held item was handed out, and how long the item was
// queued before. The time is 0 if the item was added again: the later add has overwritten
// the time of the earlier add.
func (f *fifo[T]) heldFor(hash uint32, item T) (waited time.Duration, k rank) {
	at, r := f.items.Find(hash, item)
	if r == nil || !isHeld(r.State) {
		return 0, rank{}
	}
	if f.timed && r.State != reprocess {
		s := f.stamps.At(f.items.Index(at))
		waited = max(0, s.started-s.added)
	}
	if f.lanes != nil {
		k = rank{f.lanes.all[r.X.lane].level.priority, r.Note&namedNote != 0}
	}
	return waited, k
}

// isQueued reports whether the item is queued, or will be queued by its done.
func (f *fifo[T]) isQueued(hash uint32, item T) bool {
	_, r := f.items.Find(hash, item)
	return r != nil && (r.State == queued || r.State == inStorage || r.State == reprocess)
}

// heldAgain returns how many of the held items have been added again.
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

// levels returns the depth of each priority that metrics name, in the order in which the
// priorities came into use, and the depth of all other priorities together. An item that
// done will queue counts too. levels is nil without lanes, and takes time in proportion to
// the number of held items.
func (f *fifo[T]) levels() (stats []LevelStats) {
	if f.lanes == nil {
		return nil
	}
	others := f.n
	for _, v := range f.lanes.named {
		depth := v.depth(f.lanes.grouped)
		stats = append(stats, LevelStats{Priority: v.priority, Depth: depth})
		others -= depth
	}
	if others > 0 {
		stats = append(stats, LevelStats{Others: true, Depth: others})
	}
	for _, i := range f.held {
		if r := f.items.Records.At(i); r.State == reprocess {
			levelOf(&stats, f.nextLane(r).level.priority).Depth++
		}
	}
	return stats
}

// levelOf returns the entry of a priority. Priorities without a name share the entry
// Others, which levelOf adds for the first of them.
func levelOf(stats *[]LevelStats, priority int) *LevelStats {
	for i := range *stats {
		if s := &(*stats)[i]; s.Priority == priority || s.Others {
			return s
		}
	}
	*stats = append(*stats, LevelStats{Others: true})
	return &(*stats)[len(*stats)-1]
}

// surveyed is the number of lanes and groups that one critical section looks at. A look
// takes up to 100 ns if nothing of the lane is in a cache.
const surveyed = 4096

// A survey looks at all lanes and groups, in several critical sections, because the number
// of lanes has no bound. A change between two sections may be missed or seen twice.
type survey struct {
	now    time.Duration
	next   int          // the id of the next lane and group
	levels []LevelStats // with OldestItem and no Depth
	groups groupDepths
}

// survey looks at the next lanes and groups, and reports whether none is left. The first
// item of a lane counts as its oldest. An item that was raised to the lane, or was added
// while held, may be older.
func (f *fifo[T]) survey(s *survey) (over bool) {
	if f.lanes == nil {
		return true
	}
	lanes, groups := f.lanes.all, &f.lanes.groups.Records
	if s.next == 0 && f.lanes.grouped {
		s.groups.enter(f.lanes.main)
	}
	for end := s.next + surveyed; s.next < end; s.next++ {
		if s.next >= max(len(lanes), groups.N) {
			return true
		}
		if s.next < len(lanes) && f.timed {
			s.lookAt(lanes[s.next], func(i uint32) time.Duration { return f.stamps.At(i).added })
		}
		if s.next < groups.N {
			if r := groups.At(uint32(s.next)); r.State == inUse {
				s.groups.enter(r.X)
			}
		}
	}
	return false
}

func (s *survey) lookAt(l *lane, added func(i uint32) time.Duration) {
	if l != nil && l.n > 0 {
		v := levelOf(&s.levels, l.level.priority)
		v.OldestItem = max(v.OldestItem, s.now-added(l.head-1))
	}
}

// groupDepths are the deepest groups, the deepest first, and the sum of all others.
type groupDepths struct {
	named  []GroupDepth
	others GroupDepth
}

// enter adds a group behind all groups with as many queued items or more.
func (d *groupDepths) enter(g *group) {
	if g.n == 0 && g.inFlight == 0 {
		return
	}
	at := len(d.named)
	for at > 0 && d.named[at-1].Queued < g.n {
		at--
	}
	d.named = slices.Insert(d.named, at, GroupDepth{Group: g.name, Groups: 1, Queued: g.n, InFlight: g.inFlight})
	if last := len(d.named) - 1; last == maxNamed {
		d.others.Others = true
		d.others.Groups++
		d.others.Queued += d.named[last].Queued
		d.others.InFlight += d.named[last].InFlight
		d.named = d.named[:last]
	}
}

// all returns the groups, and the others as the last entry.
func (d *groupDepths) all() []GroupDepth {
	if d.others.Others {
		return append(d.named, d.others)
	}
	return d.named
}
