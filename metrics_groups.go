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

// A grouped queue tells the depth of its groups: of the deepest ones by name, the
// deepest first, and of all others in one more element at the end.
type grouped interface{ depthByGroup() []GroupDepth }

// depthByGroup is nil if the order is not fair. What is in line, or held and added
// again, is in no group.
func (f *fifo[T]) depthByGroup() []GroupDepth {
	if f.storage == nil {
		return nil
	}
	if g, ok := f.storage.queue.(grouped); ok {
		return g.depthByGroup()
	}
	return nil
}

// depthByGroup takes some 30 ns for each group, with the lock held. Groups are compared
// by nothing but their depth, as that calls no foreign code.
func (f *fair[T, G]) depthByGroup() []GroupDepth {
	depths := make([]GroupDepth, 0, maxNamed+1)
	var others GroupDepth
	for g := range f.all() {
		d := GroupDepth{Group: g.key, Groups: 1, Queued: g.size, InFlight: g.flying}
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

// enterDepth inserts a group behind those that are as deep.
func enterDepth(depths []GroupDepth, d GroupDepth) []GroupDepth {
	at := len(depths)
	for at > 0 && depths[at-1].Queued < d.Queued {
		at--
	}
	return slices.Insert(depths, at, d)
}
