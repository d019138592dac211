package fifo

import "github.com/seed16c08ea7/workqueue/internal/slab"

// lanes is the order of a FIFO that has priorities or groups. The lanes know no item: the
// FIFO links the records of a lane, and tells when a lane gets its first record and loses
// its last record.
//
//	lane      the queued records of one priority and group, a linked list
//	share     the lanes that take turns as one: a single lane, or with groupsFirst all
//	          lanes of a group
//	rotation  the shares that take turns: the shares of a level, or with groupsFirst all
//	level     the lanes of one priority
//	group     the lanes of one name, with a weight, a limit and a count of held items
//
// The next record is found from the top: the rotation of the highest priority, the share
// whose turn it is, the top lane of the share, the first record of the lane. With groupsFirst
// there is one rotation, and a share has a heap of lanes. Otherwise each level has a
// rotation, and a share has one lane. The two shapes differ in nothing else.
//
// Invariants:
//
//	a lane with records is the top of its share, or with groupsFirst in the heap of its share
//	a share is in its rotation: it has a lane with records, and its group is not full
//	a rotation is first, or in behind: it has a share
//	first != nil: first has a higher priority than all in behind
//	group.full == group.limit != 0 && group.inFlight >= group.limit
//	lane.refs == number of records that name the lane, and one more if it is permanent
//	all[lane.id] == lane
//	grouped: level.n and group.n == number of records in the lanes of the level or group
//	every > 0: the lanes that may go are in the heap by age that agesOf returns
//
// A lane, a level and a group live as long as a record refers to them. The group with the
// empty name is permanent. Without a Group function, the lanes of the first 25 priorities
// are permanent too: a queue that is mostly empty would make and drop a lane for each item.
// So the cost of an add does not depend on how many names and priorities were in use before.
//
// A call takes O(log n) time in the number of priorities in use. A hand-out that fills a
// group, and a Done that frees a full group, take time in proportion to the priorities that
// the group has in use.
type lanes struct {
	// Immutable after construction.

	groupsFirst bool
	grouped     bool // there is a Group function
	limited     bool // there is a MaxInFlight function
	every       int  // OldestEvery

	// The rotations are a heap with a place above its top. An urgent item before a backlog
	// comes and goes at that place, and so does each item of a queue that is mostly empty:
	// the heap stays as it is.
	first  *rotation // nil for none
	behind slab.Heap[*rotation]
	only   rotation // the only one with groupsFirst
	ages   ages     // of all lanes, without groupsFirst

	main   *group                     // the one with the empty name
	groups slab.Table[string, *group] // without main
	levels slab.Table[int, *level]    // all levels
	others slab.Table[laneKey, *lane] // without group.first and level.main
	recent [recentLevels]*level       // by the low bits of the priority, to spare a search

	named []*level // the levels that metrics show by name
	all   []*lane  // by id; nil for an id that is free
	free  []uint32 // ids

	spareLanes  []*lane
	spareGroups []*group
}

// MaxNamed is how many priorities, or groups, have a part of their own. They become values of
// labels, and a label with a value for each tenant of a cluster would bring a metrics store
// down.
const MaxNamed = 25

const (
	recentLevels = 32 // more than MaxNamed; not tuned
	maxSpares    = 64 // lanes and groups that are kept for others; not tuned
)

type lane struct {
	list
	id    uint32
	n     int // records in the list
	refs  int
	seq   uint64 // the number of the first record, if there are ages
	place int    // in share.lanes
	byAge int    // in the heap by age
	level *level
	share *share
	own   share // the share of the lane, or of its group with groupsFirst
}

type share struct {
	group      *group
	rotation   *rotation
	prev, next *share // in the rotation
	credit     int    // hand-outs left of the turn, 0 before the turn begins
	top        *lane
	place      int // in group.shares

	// With groupsFirst.
	lanes slab.Heap[*lane] // by priority
	ages  ages
}

type rotation struct {
	priority int
	place    int    // in lanes.behind
	going    bool   // some share is in the rotation
	turn     *share // means nothing if not going
}

type level struct {
	rotation
	permanent bool
	n         int   // records in its lanes, counted only if there is a Group function
	lanes     int   // how many lanes, and one more if the level is permanent
	main      *lane // the lane of the group with the empty name, nil for none
}

type group struct {
	name          string
	hash          uint32
	weight, limit int
	n             int // records in its lanes, counted only if there is a Group function
	inFlight      int // held records, counted only if the lanes are limited
	full          bool
	lanes         int // how many lanes, and one more for lanes.main
	shares        []*share
	first         lane // a lane of the group, if first.refs > 0
}

// ages are lanes by the age of their first record.
type ages struct {
	heap  slab.Heap[*lane]
	since int // hand-outs since the last one of the oldest record
}

type laneKey struct {
	priority int
	group    *group
}

// keyOf returns the key of a priority in a heap, where the highest priority comes first.
func keyOf(priority int) uint64 { return ^(uint64(priority) ^ 1<<63) }

// newLanes returns the lanes for the fields of a Config. The lane with id 0 has priority 0
// and no group.
func newLanes(every int, groupsFirst, grouped, limited bool) *lanes {
	o := &lanes{every: every, groupsFirst: groupsFirst, grouped: grouped, limited: limited}
	o.main = &group{weight: 1, lanes: 1}
	o.laneOf(0, o.main).refs = 1
	return o
}

// find returns the lane of an add, and makes it if there is none. The caller refers to it.
func (o *lanes) find(p *Placement) *lane {
	if p == nil {
		return o.all[0]
	}
	if p.Weight == 0 {
		if v := o.recent[uint(p.Priority)%recentLevels]; v != nil && v.priority == p.Priority && v.main != nil {
			return v.main
		}
	}
	return o.laneOf(p.Priority, o.groupOf(p))
}

// groupOf returns the group of an add, and makes it if there is none. An add at the end of a wait
// says what a group begins with.
func (o *lanes) groupOf(p *Placement) *group {
	if p.Weight == 0 {
		return o.main
	}
	g := o.main
	if p.Group != "" {
		hash := slab.HashOf(p.Group)
		at, r := o.groups.Find(hash, p.Group)
		if r == nil {
			_, r = o.groups.Insert(at, hash, p.Group)
			r.State, r.X = inUse, o.newGroup(p.Group, hash)
		}
		g = r.X
	}
	if !p.Waited || o.isOver(g) {
		o.set(g, p)
	}
	return g
}

// isOver reports whether no record refers to a group. The group with the empty name has no end in
// memory, and keeps its lane with id 0.
func (o *lanes) isOver(g *group) bool {
	if g == o.main {
		return g.lanes == 2 && o.all[0].refs == 1
	}
	return g.lanes == 0
}

// hear notes what an add says of its group, if there is such a group.
func (o *lanes) hear(p *Placement) {
	switch {
	case p == nil || p.Weight == 0 || p.Waited:
	case p.Group == "":
		o.set(o.main, p)
	default:
		if _, r := o.groups.Find(slab.HashOf(p.Group), p.Group); r != nil {
			o.set(r.X, p)
		}
	}
}

func (o *lanes) set(g *group, p *Placement) {
	g.weight, g.limit = p.Weight, p.Limit
	if o.limited {
		o.checkFull(g)
	}
}

// setLimit replaces the limit of a group, if there is such a group.
func (o *lanes) setLimit(name string, limit int) {
	g := o.main
	if name != "" {
		_, r := o.groups.Find(slab.HashOf(name), name)
		if r == nil {
			return
		}
		g = r.X
	}
	g.limit = limit
	o.checkFull(g)
}

func (o *lanes) newGroup(name string, hash uint32) *group {
	var g *group
	if last := len(o.spareGroups) - 1; last >= 0 {
		g, o.spareGroups = o.spareGroups[last], o.spareGroups[:last]
	} else {
		g = new(group)
	}
	g.name, g.hash = name, hash
	return g
}

// laneOf returns the lane of a priority and a group.
func (o *lanes) laneOf(priority int, g *group) *lane {
	v := o.levelOf(priority)
	switch {
	case g.first.refs > 0 && g.first.level == v:
		return &g.first
	case g == o.main:
		if v.main == nil {
			v.main = o.newLane(v, g)
		}
		return v.main
	case g.lanes == 0:
		return o.use(&g.first, v, g)
	}
	key := laneKey{priority, g}
	hash := slab.HashOf(key)
	at, r := o.others.Find(hash, key)
	if r == nil {
		_, r = o.others.Insert(at, hash, key)
		r.State, r.X = inUse, o.newLane(v, g)
	}
	return r.X
}

func (o *lanes) newLane(v *level, g *group) *lane {
	if last := len(o.spareLanes) - 1; last >= 0 {
		l := o.spareLanes[last]
		o.spareLanes = o.spareLanes[:last]
		return o.use(l, v, g)
	}
	return o.use(new(lane), v, g)
}

// use gives a lane an id, a level and a share. Without groups, a lane of a permanent level is
// permanent.
func (o *lanes) use(l *lane, v *level, g *group) *lane {
	if last := len(o.free) - 1; last >= 0 {
		l.id, o.free = o.free[last], o.free[:last]
		o.all[l.id] = l
	} else {
		l.id = uint32(len(o.all))
		o.all = append(o.all, l)
	}
	l.level = v
	v.lanes++
	g.lanes++
	l.share = &l.own
	if o.groupsFirst {
		l.share = &g.first.own
	}
	if s := l.share; s.group == nil { // The share is new, or was another's.
		s.group, s.rotation, s.place = g, &v.rotation, len(g.shares)
		if o.groupsFirst {
			s.rotation = &o.only
		}
		g.shares = append(g.shares, s)
	}
	if !o.groupsFirst {
		l.share.top = l
	}
	if v.permanent && !o.grouped {
		l.refs = 1
	}
	return l
}

// levelOf returns the level of a priority, and makes the level if there is none. The first
// MaxNamed levels are permanent: metrics name them.
func (o *lanes) levelOf(priority int) *level {
	recent := &o.recent[uint(priority)%recentLevels]
	if v := *recent; v != nil && v.priority == priority {
		return v
	}
	hash := slab.HashOf(priority)
	at, r := o.levels.Find(hash, priority)
	if r == nil {
		v := &level{rotation: rotation{priority: priority}}
		if len(o.named) < MaxNamed {
			o.named = append(o.named, v)
			v.permanent, v.lanes = true, 1
		}
		_, r = o.levels.Insert(at, hash, priority)
		r.State, r.X = inUse, v
	}
	*recent = r.X
	return r.X
}

// release takes back a reference to a lane.
func (o *lanes) release(l *lane) {
	if l.refs--; l.refs == 0 {
		o.forget(l)
	}
}

// forget forgets a lane that nothing refers to, and with its last lane a level and a group.
func (o *lanes) forget(l *lane) {
	v, g := l.level, l.share.group
	o.all[l.id] = nil
	o.free = append(o.free, l.id)
	switch {
	case g == o.main:
		v.main = nil
	case l != &g.first:
		key := laneKey{v.priority, g}
		at, r := o.others.Find(slab.HashOf(key), key)
		o.others.Remove(at, r)
		giveBack(&o.others)
	}
	if v.lanes--; v.lanes == 0 {
		o.forgetLevel(v)
	}
	o.retire(l, g)
	if g.lanes--; g.lanes == 0 {
		o.forgetGroup(g)
	}
}

// retire takes a forgotten lane out of the shares of its group, and keeps the lane for
// others. The lane has no records, so no heap and no rotation has it.
func (o *lanes) retire(l *lane, g *group) {
	if !o.groupsFirst {
		last := len(g.shares) - 1
		moved := g.shares[last]
		g.shares[l.own.place], moved.place = moved, l.own.place
		g.shares[last] = nil
		g.shares = g.shares[:last]
		if cap(g.shares) > 1024 && 8*last < cap(g.shares) { // As slab.Heap does.
			g.shares = append(make([]*share, 0, 2*last), g.shares...)
		}
		l.own.group = nil
	}
	l.level, l.share = nil, nil
	if l != &g.first && len(o.spareLanes) < maxSpares {
		o.spareLanes = append(o.spareLanes, l)
	}
}

func (o *lanes) forgetLevel(v *level) {
	if recent := &o.recent[uint(v.priority)%recentLevels]; *recent == v {
		*recent = nil
	}
	at, r := o.levels.Find(slab.HashOf(v.priority), v.priority)
	o.levels.Remove(at, r)
	giveBack(&o.levels)
}

// forgetGroup keeps the group with its memory for others, if that is little.
func (o *lanes) forgetGroup(g *group) {
	at, r := o.groups.Find(g.hash, g.name)
	o.groups.Remove(at, r)
	giveBack(&o.groups)
	if len(o.spareGroups) == maxSpares || cap(g.shares) > maxSpares || cap(g.first.own.lanes) > maxSpares {
		return
	}
	g.shares = g.shares[:0] // With groupsFirst that is g.first.own.
	g.first.own.group = nil
	g.name, g.weight, g.limit = "", 0, 0
	o.spareGroups = append(o.spareGroups, g)
}

// giveBack shrinks a table whose records nobody refers to by their index.
func giveBack[T comparable, X any](t *slab.Table[T, X]) {
	if t.Sparse() {
		t.Shrink(func(_, _ uint32, _ *slab.Record[T, X]) {})
	}
}

// inUse is the state of the records of tables that have one state.
const inUse slab.State = 1

// up follows the first record of a lane. seq is the number of that record.
func (o *lanes) up(l *lane, seq uint64) {
	s := l.share
	l.seq = seq
	if !o.groupsFirst {
		if !s.group.full {
			o.join(s)
		}
		return
	}
	s.lanes.Push(keyOf(l.level.priority), &l.place, l)
	s.top = s.lanes[0].Value
	if o.every > 0 {
		s.ages.heap.Push(seq, &l.byAge, l)
	}
	if len(s.lanes) == 1 && !s.group.full {
		o.join(s)
	}
}

// down follows the last record of a lane.
func (o *lanes) down(l *lane) {
	s := l.share
	if o.groupsFirst {
		s.lanes.Remove(l.place)
		if o.every > 0 {
			s.ages.heap.Remove(l.byAge)
		}
		if len(s.lanes) > 0 {
			s.top = s.lanes[0].Value
			return
		}
	}
	if o.grouped {
		s.credit, s.ages.since = 0, 0
	}
	if !s.group.full {
		o.part(s)
	}
}

// headChanged follows another first record of a lane that had one.
func (o *lanes) headChanged(l *lane, seq uint64) {
	l.seq = seq
	if o.every > 0 && (o.groupsFirst || !l.share.group.full) {
		o.agesOf(l.share).heap.Fix(l.byAge, seq)
	}
}

func (o *lanes) agesOf(s *share) *ages {
	if o.groupsFirst {
		return &s.ages
	}
	return &o.ages
}

// join puts a share at the end of its rotation. A share whose turn was interrupted because its
// group was full has the turn again.
func (o *lanes) join(s *share) {
	r := s.rotation
	if !r.going {
		if r.going = true; r.turn != s || s.next != s {
			s.prev, s.next, r.turn = s, s, s
		}
		o.start(r)
	} else {
		s.prev, s.next = r.turn.prev, r.turn
		s.prev.next, s.next.prev = s, s
		if s.credit > 0 {
			r.turn = s
		}
	}
	if o.every > 0 && !o.groupsFirst {
		o.ages.heap.Push(s.top.seq, &s.top.byAge, s.top)
	}
}

// part takes a share out of its rotation.
func (o *lanes) part(s *share) {
	r := s.rotation
	if s.next == s { // All links stay, for the same share to come back.
		r.going = false
		o.stop(r)
	} else {
		s.prev.next, s.next.prev = s.next, s.prev
		if r.turn == s {
			r.turn = s.next
		}
		s.prev, s.next = nil, nil
	}
	if o.every > 0 && !o.groupsFirst {
		o.ages.heap.Remove(s.top.byAge)
	}
}

// start follows the first share of a rotation.
func (o *lanes) start(r *rotation) {
	if top := o.top(); top == nil || r.priority > top.priority {
		o.first, r = r, o.first
	}
	if r != nil {
		o.behind.Push(keyOf(r.priority), &r.place, r)
	}
}

// stop follows the last share of a rotation.
func (o *lanes) stop(r *rotation) {
	if r == o.first {
		o.first = nil
		return
	}
	o.behind.Remove(r.place)
}

// top returns the rotation of the highest priority, or nil if no rotation has a share.
func (o *lanes) top() *rotation {
	if o.first != nil || len(o.behind) == 0 {
		return o.first
	}
	return o.behind[0].Value
}

// next returns the lane whose first record is handed out next, and counts the hand-out. Some
// rotation must have a share.
//
// The oldest record uses up no turn but that of its own share.
func (o *lanes) next() *lane {
	s := o.top().turn
	l := s.top
	if o.every > 0 {
		a := o.agesOf(s)
		oldest := a.heap[0].Value
		if a.since++; a.since >= o.every {
			l = oldest
		}
		if l == oldest {
			a.since = 0
		}
	}
	if o.grouped && l.share == s {
		s.charge()
	}
	return l
}

// charge takes a hand-out from the turn of a share. A weight that was lowered meanwhile
// shortens the turn.
func (s *share) charge() {
	if s.credit == 0 {
		s.credit = s.group.weight
	}
	s.credit = min(s.credit, s.group.weight) - 1
	if s.credit == 0 {
		s.rotation.turn = s.next
	}
}

// countHeld adds to the number of held records of a group.
func (o *lanes) countHeld(l *lane, by int) {
	if o.limited {
		g := l.share.group
		g.inFlight += by
		o.checkFull(g)
	}
}

// checkFull takes the shares of a group that is full out of their rotations, and puts them back
// when it is full no more.
func (o *lanes) checkFull(g *group) {
	full := g.limit != 0 && g.inFlight >= g.limit // A negative limit holds the group back.
	if full == g.full {
		return
	}
	g.full = full
	for _, s := range g.shares {
		switch {
		case o.isEmpty(s):
		case full:
			o.part(s)
		default:
			o.join(s)
		}
	}
}

// depth returns the number of records in the lanes of the level. Without groups, a level has
// one lane.
func (v *level) depth(grouped bool) int {
	if grouped || v.main == nil {
		return v.n
	}
	return v.main.n
}

// isEmpty reports whether no lane of a share has records.
func (o *lanes) isEmpty(s *share) bool {
	if o.groupsFirst {
		return len(s.lanes) == 0
	}
	return s.top.n == 0
}

// renumber gives the lanes ids without gaps, in a shorter slice. each must call its argument for
// every reference to a lane, but for those of the permanent lanes. renumber does not look at the
// ids in between, as there may be far more ids than lanes.
func (o *lanes) renumber(each func(rename func(id *uint32))) {
	old := o.all
	o.all, o.free = nil, nil
	rename := func(id *uint32) {
		l := old[*id]
		if int(l.id) >= len(o.all) || o.all[l.id] != l {
			l.id = uint32(len(o.all))
			o.all = append(o.all, l)
		}
		*id = l.id
	}
	first := uint32(0)
	rename(&first)
	for _, v := range o.named {
		if v.main != nil {
			id := v.main.id
			rename(&id)
		}
	}
	each(rename)
}

// visit calls f for each lane with records until f returns false: by level, the highest
// first, and within a level in the order of the turns. With groupsFirst visit goes from group
// to group. Lanes of full groups come last.
func (o *lanes) visit(f func(*lane) bool) {
	if o.first != nil && !o.first.visit(f) {
		return
	}
	going := slab.VisitInOrder(o.behind, func(r *rotation) bool { return r.visit(f) })
	if !going || !o.limited {
		return
	}
	for _, l := range o.all {
		if l != nil && l.n > 0 && l.share.group.full && !f(l) {
			return
		}
	}
}

func (r *rotation) visit(f func(*lane) bool) bool {
	for s, more := r.turn, true; more; s = s.next {
		if !s.visit(f) {
			return false
		}
		more = s.next != r.turn
	}
	return true
}

func (s *share) visit(f func(*lane) bool) bool {
	if len(s.lanes) == 0 {
		return f(s.top)
	}
	return slab.VisitInOrder(s.lanes, f)
}
