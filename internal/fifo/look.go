package fifo

import (
	"slices"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// This file reads a FIFO for snapshots and metrics, and changes nothing.

// A Census is a copy of some items of a FIFO. Every call waits while the lock is held, so only
// copying happens then. MakeRoom allocates Queued and Held before.
type Census[T comparable] struct {
	Limit                  int        // of Queued, and of Held
	Queued, Held           []Entry[T] // in the order of the lanes; in any order
	Lined                  int        // how many of Queued are in the order of their hand-out
	QueuedTotal, HeldTotal int
}

// An Entry is a copied item, and small: less is copied with the lock held.
type Entry[T comparable] struct {
	Item  T
	Held  bool          // handed out
	Again bool          // handed out, and added again since
	Firm  bool          // of a wait: no add ends it
	Why   Why           // why the item is not handed out
	Since time.Duration // the add, or the hand-out if Held; only if times are kept
	Rank  Rank
}

// SetRank sets the rank, if it is known.
func (e *Entry[T]) SetRank(k Rank, known bool) {
	if known {
		e.Rank = k
	}
}

// A Why says why an item waits, or why a queued item is not handed out.
type Why uint8

const (
	WhyNone      Why = iota
	WhyDelay         // a caller has named the time
	WhyRetry         // the limiter has, or a failure in a Run
	WhyDebounce      // a series of calls is not over
	WhyPace          // no token of ItemPace
	WhyDeferred      // a caller has asked for a firm wait
	WhyGroupFull     // as many items of the group are held as its limit says
	WhyHeldBack      // the limit of the group is negative
)

// MakeRoom makes room for so many items, up to the limit for each state. The lock is not held:
// the memory of items that come between MakeRoom and EnterIn is allocated with the lock held.
func (c *Census[T]) MakeRoom(queued, held int) {
	c.Queued = slab.RoomFor[Entry[T]](min(queued, c.Limit))
	c.Held = slab.RoomFor[Entry[T]](min(held, c.Limit))
}

// EnterIn enters the first queued items in a census, in the order of the lanes, and some
// held items. A storage cannot list its items: EnterIn looks at every record for stored
// items, and enters them in any order.
func (f *FIFO[T]) EnterIn(c *Census[T]) {
	c.QueuedTotal, c.HeldTotal = f.Len(), len(f.held)
	if f.lanes == nil {
		f.enterList(c, f.line)
	} else {
		f.lanes.visit(func(l *lane) bool {
			f.enterList(c, l.list)
			return len(c.Queued) < c.Limit
		})
	}
	if f.lanes == nil || !f.lanes.grouped && f.lanes.every == 0 {
		c.Lined = len(c.Queued)
	}
	if f.storage != nil {
		f.enterStored(c)
	}
	for _, i := range f.held[:min(c.Limit, len(f.held))] {
		c.Held = append(c.Held, f.entry(i))
	}
}

func (f *FIFO[T]) enterList(c *Census[T], l list) {
	for i := l.head; i != 0 && len(c.Queued) < c.Limit; i = f.Items.Records.At(i - 1).X.next {
		c.Queued = append(c.Queued, f.entry(i-1))
	}
}

func (f *FIFO[T]) enterStored(c *Census[T]) {
	for i := uint32(0); int(i) < f.Items.Records.N && len(c.Queued) < c.Limit; i++ {
		if f.Items.Records.At(i).State == inStorage {
			c.Queued = append(c.Queued, f.entry(i))
		}
	}
}

func (f *FIFO[T]) entry(i uint32) Entry[T] {
	r := f.Items.Records.At(i)
	e := Entry[T]{Item: r.Item, Held: isHeld(r.State), Again: r.State == reprocess}
	if f.lanes != nil {
		e.Rank = f.nextRank(r)
		switch g := f.lanes.all[r.X.lane].share.group; {
		case e.Held || !g.full:
		case g.limit < 0:
			e.Why = WhyHeldBack
		default:
			e.Why = WhyGroupFull
		}
	}
	switch {
	case !f.timed:
	case e.Held:
		e.Since = f.stamps.At(i).started
	default:
		e.Since = f.stamps.At(i).added
	}
	return e
}

// EntryOf is entry for any record. It reports false for an item that is neither queued nor held: the
// item was removed and is only in a storage, or waits firmly above.
func (f *FIFO[T]) EntryOf(i uint32, r *slab.Record[T, links]) (Entry[T], bool) {
	if r.State == ghost || r.State == kept {
		return Entry[T]{}, false
	}
	return f.entry(i), true
}

// Find copies a queued or held item.
func (f *FIFO[T]) Find(hash uint32, item T) (Entry[T], bool) {
	at, r := f.Items.Find(hash, item)
	if r == nil {
		return Entry[T]{}, false
	}
	return f.EntryOf(f.Items.Index(at), r)
}

// HeldItem returns the item of a held record.
func (f *FIFO[T]) HeldItem(_ uint32, r *slab.Record[T, links]) (T, bool) {
	return r.Item, isHeld(r.State)
}

// nextRank returns the rank of a record, and for a marked record the rank with which Done
// will queue the record. The FIFO must have lanes.
func (f *FIFO[T]) nextRank(r *slab.Record[T, links]) Rank {
	note := uint8(namedNote)
	if r.State == reprocess {
		note = markNamedNote
	}
	return Rank{f.nextLane(r).level.priority, r.Note&note != 0}
}

// nextLane returns the lane of a record, and for a marked record the lane in which done
// will queue the record. The FIFO must have lanes.
func (f *FIFO[T]) nextLane(r *slab.Record[T, links]) *lane {
	if r.State == reprocess {
		return f.lanes.all[r.X.next]
	}
	return f.lanes.all[r.X.lane]
}

// A Stand is a set that says where an item is, as far as a call for the item depends on it. The empty
// Stand is that of an item that is neither queued nor held, and does not wait firmly. It is one byte,
// because a struct of five bools would be returned in memory.
type Stand uint8

const (
	StandQueued  Stand = 1 << iota // in the line
	StandAgain                     // held, and Done will queue the item
	StandFirm                      // the item waits firmly
	StandRemoved                   // held, and removed since the hand-out
	StandWoken                     // held, and Wake was called since the hand-out
)

// Has reports whether the sets have a member in common.
func (s Stand) Has(o Stand) bool { return s&o != 0 }

// StandOf returns where an item is.
func (f *FIFO[T]) StandOf(hash uint32, item T) (s Stand) {
	_, r := f.Items.Find(hash, item)
	if r == nil {
		return s
	}
	switch {
	case r.State == queued || r.State == inStorage:
		s = StandQueued
	case isHeld(r.State):
		s = standOfHeld(r.State, r.Note)
	}
	if f.isFirm(r) {
		s |= StandFirm
	}
	return s
}

func standOfHeld(state slab.State, note uint8) (s Stand) {
	if state == reprocess {
		s |= StandAgain
	}
	if note&removedNote != 0 {
		s |= StandRemoved
	}
	if note&wokenNote != 0 {
		s |= StandWoken
	}
	return s
}

// FirmRank returns the rank of a firm wait, and reports whether there is one. It knows those that a
// shutdown has ended too.
func (f *FIFO[T]) FirmRank(hash uint32, item T) (k Rank, ok bool) {
	at, r := f.Items.Find(hash, item)
	if r == nil {
		return Rank{}, false
	}
	k, ok = f.rankOf(f.Items.Index(at), r)
	return k, ok
}

// rankOf returns the rank of a firm wait, or else of the add for which the item is queued or will be, and
// reports which of the two.
func (f *FIFO[T]) rankOf(i uint32, r *slab.Record[T, links]) (k Rank, firm bool) {
	switch {
	case r.State == kept || isHeld(r.State) && r.Note&firmNote != 0:
		return Rank{f.ranks.Get(i), r.Note&markNamedNote != 0}, true
	case f.lanes != nil && r.State != ghost:
		k = f.nextRank(r)
	}
	return k, false
}

// HeldAgain returns how many held items have been added again.
func (f *FIFO[T]) HeldAgain() (n int) {
	for _, i := range f.held {
		if f.Items.Records.At(i).State == reprocess {
			n++
		}
	}
	return n
}

// InFlight returns how long workers have held the held items: the sum of the times, and the
// longest time. It takes time in proportion to the number of held items.
func (f *FIFO[T]) InFlight(now time.Duration) (total, longest time.Duration) {
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

// Oldest returns the age of the oldest queued item of a FIFO without lanes. The first item
// in the line is the oldest. A storage has an order of its own, so Oldest looks at each
// record.
func (f *FIFO[T]) Oldest(now time.Duration) (age time.Duration) {
	if !f.timed {
		return 0
	}
	if f.line.head != 0 {
		age = max(0, now-f.stamps.At(f.line.head-1).added)
	}
	if f.storage == nil {
		return age
	}
	for i := range uint32(f.Items.Records.N) {
		if f.Items.Records.At(i).State == inStorage {
			age = max(age, now-f.stamps.At(i).added)
		}
	}
	return age
}

// A Part is the state of the items of one priority, or of one group.
type Part[K comparable] struct {
	Key      K    // the priority, or the name of the group
	Others   bool // the part is all priorities, or groups, without a part of their own
	Depth    int  // queued items, and held items that were added again
	InFlight int  // held items
	HeldBack bool // the group has a negative limit; of Others, one of the groups has

	// OldestItem is the longest time since the add of an item that is the first of a lane.
	OldestItem time.Duration
}

// Levels returns the part of each priority with a name in metrics, in the order in which the
// priorities came into use, and the part of all others. The ages are missing. The time is
// proportional to the number of held items. Without lanes, Levels returns nil.
func (f *FIFO[T]) Levels() (parts []Part[int]) {
	if f.lanes == nil {
		return nil
	}
	others := f.n
	for _, v := range f.lanes.named {
		depth := v.depth(f.lanes.grouped)
		parts = append(parts, Part[int]{Key: v.priority, Depth: depth})
		others -= depth
	}
	if others > 0 {
		parts = append(parts, Part[int]{Others: true, Depth: others})
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
func (f *FIFO[T]) eachHeld(visit func(from, next *lane)) {
	for _, i := range f.held {
		r := f.Items.Records.At(i)
		var next *lane
		if r.State == reprocess {
			next = f.nextLane(r)
		}
		visit(f.lanes.all[r.X.lane], next)
	}
}

// levelPart returns the part of the priority of a lane, and adds the part of the others when
// the first of them comes.
func levelPart(parts *[]Part[int], l *lane) *Part[int] {
	for i := range *parts {
		if p := &(*parts)[i]; p.Key == l.level.priority || p.Others {
			return p
		}
	}
	*parts = append(*parts, Part[int]{Others: true})
	return &(*parts)[len(*parts)-1]
}

// surveyed is how many lanes are looked at in one critical section. A look takes up to
// 100 ns, where nothing of the lane is in a cache.
const surveyed = 4096

// A Survey is a look at all lanes, in several critical sections, as there may be any number of
// lanes. A change in between may be missed, or seen twice.
type Survey struct {
	Now    time.Duration
	next   int         // the lane to be looked at next
	Levels []Part[int] // get the age of their oldest item
	groups groupSurvey
}

// Survey looks at some lanes, and reports whether no more are left. The oldest item of a lane
// is its first one, unless that item was raised there or added while held.
func (f *FIFO[T]) Survey(s *Survey) (over bool) {
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
			age = max(0, s.Now-f.stamps.At(l.head-1).added)
			p := levelPart(&s.Levels, l)
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
	found  []Part[string] // of named
	others Part[string]   // Others is set if there is a group without a part
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
// all of its lanes. So a group behind MaxNamed others cannot come back by another lane.
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
	s.found = slices.Insert(s.found, at, Part[string]{Key: g.name, Depth: depth, InFlight: h.inFlight, HeldBack: g.limit < 0, OldestItem: age})
	if len(s.found) > MaxNamed {
		s.others.Others = true
		s.others.OldestItem = max(s.others.OldestItem, s.found[MaxNamed].OldestItem)
		s.others.HeldBack = s.others.HeldBack || s.found[MaxNamed].HeldBack
		s.named, s.found = s.named[:MaxNamed], s.found[:MaxNamed]
	}
}

// Groups returns the groups, and the others as one more part, for a FIFO of the given
// numbers of items.
//
// A group that ended and began again, while the caller had given the lock back, has been entered
// twice. A name must come once only, or a provider would show two series with the same labels.
func (s *Survey) Groups(depth, inFlight int) []Part[string] {
	return s.groups.parts(depth, inFlight)
}

func (s *groupSurvey) parts(depth, inFlight int) []Part[string] {
	seen := make(map[string]bool, len(s.found))
	s.found = slices.DeleteFunc(s.found, func(p Part[string]) bool {
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
