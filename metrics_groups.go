package workqueue

import "slices"

// maxNamed is how many groups, or priorities, a reader of metrics is told of by name: a label
// with a value for each tenant of a cluster would bring a metrics store down.
const maxNamed = 25

// GroupDepth is what a group of a [NewFairQueue] has, or several of them together.
type GroupDepth struct {
	Group    any // what the Group function has returned; nil for several
	Groups   int // how many groups these are, 1 for one that is named
	Queued   int // items, including those that were removed, until they would come out
	InFlight int // items that are held by workers; 0 if there are no limits
}

// A grouped queue tells the depth of its groups, in any order, and reports whether it has
// any. It calls no foreign code.
type grouped interface {
	eachGroup(visit func(GroupDepth)) (fair bool)
}

// depthByGroup returns the deepest groups by name, the deepest first, and all others in one
// more element at the end. It is nil if the order is not fair. What is in line, or held
// and added again, is in no group.
func (f *fifo[T]) depthByGroup() []GroupDepth {
	if f.storage == nil {
		return nil
	}
	depths := make([]GroupDepth, 0, maxNamed+1)
	var others GroupDepth
	fair := eachGroup(f.storage.queue, func(d GroupDepth) {
		depths = enterDepth(depths, d)
		if len(depths) > maxNamed {
			d, depths = depths[maxNamed], depths[:maxNamed]
			others.Groups++
			others.Queued += d.Queued
			others.InFlight += d.InFlight
		}
	})
	switch {
	case !fair:
		return nil
	case others.Groups > 0:
		return append(depths, others)
	}
	return depths
}

// eachGroup is that of a queue which may have no groups.
func eachGroup[T comparable](queue Queue[T], visit func(GroupDepth)) (fair bool) {
	g, ok := queue.(grouped)
	return ok && g.eachGroup(visit)
}

// eachGroup takes some 30 ns for each group, with the lock held. Groups are compared
// by nothing but their depth, as that calls no foreign code.
func (f *fair[T, G]) eachGroup(visit func(GroupDepth)) (fair bool) {
	for g := range f.all() {
		visit(GroupDepth{Group: g.key, Groups: 1, Queued: g.size, InFlight: g.flying})
	}
	return true
}

// eachGroup adds up what a group has in the levels, as each level has groups of its own.
// An item that was raised out of one counts there until it comes out. The one that a level
// has taken out ahead of time, to drop such items, does not count. The order is that in
// which the groups are found: a map would give those of one depth other places at each
// scrape. It takes some 160 ns for each group of each level, see BenchmarkDepthByGroup.
func (q *nestedQueue[T]) eachGroup(visit func(GroupDepth)) (fair bool) {
	var sums []GroupDepth
	index := make(map[any]int)
	for _, v := range q.ladder.all {
		fair = eachGroup(v.content.queue, func(d GroupDepth) {
			at, ok := index[d.Group]
			if !ok {
				at = len(sums)
				index[d.Group] = at
				sums = append(sums, GroupDepth{Group: d.Group, Groups: 1})
			}
			sums[at].Queued += d.Queued
			sums[at].InFlight += d.InFlight
		}) || fair
	}
	for _, d := range sums {
		visit(d)
	}
	return fair
}

// enterDepth inserts a group behind those that are as deep.
func enterDepth(depths []GroupDepth, d GroupDepth) []GroupDepth {
	at := len(depths)
	for at > 0 && depths[at-1].Queued < d.Queued {
		at--
	}
	return slices.Insert(depths, at, d)
}
