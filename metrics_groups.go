package workqueue

import (
	"iter"
	"slices"
)

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

// A grouped queue tells the depth of its groups, in any order, or nil if it has none. It
// calls no foreign code.
type grouped interface{ groupDepths() iter.Seq[GroupDepth] }

// depthByGroup returns the deepest groups by name, the deepest first, and all others in one
// more element at the end. It is nil if the order is not fair. What is in line, or held
// and added again, is in no group.
func (f *fifo[T]) depthByGroup() []GroupDepth {
	if f.storage == nil {
		return nil
	}
	groups := groupsOf(f.storage.queue)
	if groups == nil {
		return nil
	}
	depths := make([]GroupDepth, 0, maxNamed+1)
	var others GroupDepth
	for d := range groups {
		depths = enterDepth(depths, d)
		if len(depths) > maxNamed {
			d, depths = depths[maxNamed], depths[:maxNamed]
			others.Groups++
			others.Queued += d.Queued
			others.InFlight += d.InFlight
		}
	}
	if others.Groups > 0 {
		depths = append(depths, others)
	}
	return depths
}

// groupDepths takes some 30 ns for each group, with the lock held. Groups are compared
// by nothing but their depth, as that calls no foreign code.
func (f *fair[T, G]) groupDepths() iter.Seq[GroupDepth] {
	return func(yield func(GroupDepth) bool) {
		for g := range f.all() {
			if !yield(GroupDepth{Group: g.key, Groups: 1, Queued: g.size, InFlight: g.flying}) {
				return
			}
		}
	}
}

// groupDepths adds up what a group has in the levels, as each level has groups of its own.
// An item that was raised out of one counts there until it comes out. The one that a level
// has taken out ahead of time, to drop such items, does not count. The order is that in
// which the groups are found: a map would give those of one depth other places at each
// scrape.
func (q *nestedQueue[T]) groupDepths() iter.Seq[GroupDepth] {
	var sums []GroupDepth
	index := make(map[any]int)
	fair := false
	for _, v := range q.ladder.all {
		groups := groupsOf(v.content.queue)
		if groups == nil {
			continue
		}
		fair = true
		for d := range groups {
			at, ok := index[d.Group]
			if !ok {
				at = len(sums)
				index[d.Group] = at
				sums = append(sums, GroupDepth{Group: d.Group, Groups: 1})
			}
			sums[at].Queued += d.Queued
			sums[at].InFlight += d.InFlight
		}
	}
	if !fair {
		return nil
	}
	return slices.Values(sums)
}

// groupsOf returns the groups of a queue, or nil.
func groupsOf[T comparable](queue Queue[T]) iter.Seq[GroupDepth] {
	if g, ok := queue.(grouped); ok {
		return g.groupDepths()
	}
	return nil
}

// enterDepth inserts a group behind those that are as deep.
func enterDepth(depths []GroupDepth, d GroupDepth) []GroupDepth {
	at := len(depths)
	for at > 0 && depths[at-1].Queued < d.Queued {
		at--
	}
	return slices.Insert(depths, at, d)
}
