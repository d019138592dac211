package workqueue

import (
	"cmp"
	"iter"
	"slices"
)

// An ordered queue can tell the order of what it holds, for a Snapshot. It calls no
// foreign code for that.
type ordered[T comparable] interface {
	// inOrder returns the items in the order in which Pop would return them if nothing
	// else were called, or nil if it does not know that.
	inOrder() iter.Seq[T]
}

// inOrder returns that of a queue, or nil.
func inOrder[T comparable](q Queue[T]) iter.Seq[T] {
	if o, ok := q.(ordered[T]); ok {
		return o.inOrder()
	}
	return nil
}

func (s *sequence[T]) inOrder() iter.Seq[T] {
	return func(yield func(T) bool) {
		for n := s.items.head; n != s.items.tail && yield(*s.items.at(n)); n++ {
		}
	}
}

func (q *priorityQueue[T]) inOrder() iter.Seq[T] {
	if q.ranks.age.every > 0 {
		return nil
	}
	return func(yield func(T) bool) {
		q.ranks.each(func(i uint32, _ int) bool { return yield(q.items.records.at(i).item) })
	}
}

// inOrder has the levels that hold everything back behind all others.
func (q *nestedQueue[T]) inOrder() iter.Seq[T] {
	if q.age.every > 0 {
		return nil
	}
	var levels []*level[nest[T]]
	for _, v := range q.ladder.all {
		if v.content.n > 0 {
			levels = append(levels, v)
		}
	}
	if slices.ContainsFunc(levels, func(v *level[nest[T]]) bool { return inOrder(v.content.queue) == nil }) {
		return nil
	}
	slices.SortFunc(levels, compareNests[T])
	return func(yield func(T) bool) {
		for _, v := range levels {
			if !v.content.each(yield) {
				return
			}
		}
	}
}

// compareNests orders levels by their turn: those that are up before all others.
func compareNests[T comparable](a, b *level[nest[T]]) int {
	if (a.at >= 0) != (b.at >= 0) {
		return cmp.Compare(b.at, a.at)
	}
	return cmp.Compare(b.priority, a.priority)
}

// each yields the items of a level, and reports whether it was asked for all of them.
func (c *nest[T]) each(yield func(T) bool) bool {
	if c.has && !yield(c.first) {
		return false
	}
	for item := range inOrder(c.queue) {
		if _, ghost := c.ghosts[item]; !ghost && !yield(item) {
			return false
		}
	}
	return true
}

// enterOrdered enters the items of a storage that tells its order, and reports whether
// it does. What was removed is in the storage still, and is left out.
func (f *fifo[T]) enterOrdered(c *census[T]) bool {
	items := inOrder(f.storage.queue)
	if items == nil {
		return false
	}
	for item := range items {
		if len(c.queued) >= c.limit {
			break
		}
		if at, r := f.items.find(hashOf(item), item); r != nil && r.state == inStorage {
			c.queued = append(c.queued, f.entry(f.items.index(at), ItemQueued))
		}
	}
	c.lined = len(c.queued)
	return true
}
