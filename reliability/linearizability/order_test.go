package linearizability

import (
	"slices"

	"github.com/seed16c08ea7/workqueue"
)

// An order is what a state knows of priorities. Where nobody names one, all are 0 and the
// line is a FIFO. Those of items that are neither queued nor added again are 0.
type order struct {
	of    [maxItems]int8
	every int8           // each so many'th hand-out is that of the oldest item
	since int8           // hand-outs since the last that was
	ages  [maxItems]int8 // the queued items, the oldest first; used if every > 0
}

// push puts an item at the end of its level. The line has all levels, the highest first.
func (s *state) push(item int8) {
	if s.order.every > 0 {
		s.order.ages[s.queued] = item
	}
	s.insert(item)
	s.settle(item)
}

func (s *state) insert(item int8) {
	at := int(s.queued)
	for at > 0 && s.order.of[s.line[at-1]] < s.order.of[item] {
		at--
	}
	copy(s.line[at+1:], s.line[at:s.queued])
	s.line[at] = item
	s.queued++
}

// lift raises an item that is queued.
func (s *state) lift(item, priority int8) {
	if s.order.of[item] < priority {
		s.leave(s.at(item))
		s.order.of[item] = priority
		s.insert(item)
	}
}

// ready reports whether there is an item to hand out.
func (s *state) ready() bool {
	return s.queued > 0 && (s.rounds.kind == unfair || s.turn() >= 0)
}

// next returns the place of the item that is handed out next. There must be one.
func (s *state) next() int {
	if s.rounds.kind != unfair {
		return s.turn()
	}
	if s.order.every > 0 && s.order.since+1 >= s.order.every {
		return s.at(s.order.ages[0])
	}
	return 0
}

// take takes the next item out.
func (s *state) take() (item int8) {
	at := s.next()
	item = s.line[at]
	if s.order.every > 0 {
		if s.order.since++; item == s.order.ages[0] {
			s.order.since = 0
		}
	}
	s.leave(at)
	s.forget(item)
	if s.rounds.kind != unfair {
		s.fly(item)
	}
	return item
}

// forget forgets what the order knows of an item that has left the line.
func (s *state) forget(item int8) {
	s.order.of[item] = 0
	if s.order.every > 0 {
		at := slices.Index(s.order.ages[:], item)
		copy(s.order.ages[at:], s.order.ages[at+1:])
		s.order.ages[s.queued] = 0
	}
}

// upcoming returns the queued items in the order in which they will be handed out.
func (s state) upcoming() (line []int8) {
	for s.queued > 0 {
		line = append(line, s.take())
	}
	return line
}

// A prioritized queue has an order by priority. With a stored one the order is called as
// a Queue, and Remove is hidden, see the Typed with a Queue.
type (
	prioritized struct {
		*workqueue.TypedDelaying[int8]
		every int8
	}
	stored struct {
		*workqueue.Typed[int8]
		noRemove
		every int8
	}
)

func newOrder(every int8) workqueue.Queue[int8] {
	return workqueue.NewPriorityQueue(workqueue.PriorityOptions[int8]{OldestEvery: int(every)})
}

func newPrioritized(every int8) queue {
	config := workqueue.TypedDelayingQueueConfig[int8]{Order: newOrder(every)}
	return prioritized{workqueue.NewTypedDelaying(config), every}
}

func newStored(every int8) queue {
	order := struct {
		workqueue.PrioritizedQueue[int8]
	}{newOrder(every).(workqueue.PrioritizedQueue[int8])}
	return stored{workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int8]{Order: order}), noRemove{}, every}
}

// turns returns every how many hand-outs it is the oldest item's turn in a queue.
func turns(q queue) int8 {
	switch q := q.(type) {
	case prioritized:
		return q.every
	case stored:
		return q.every
	}
	return 0
}

type prioritizer interface {
	AddWith(options workqueue.AddOptions, items ...int8)
	GetWithPriority() (item int8, priority int, shutdown bool)
}

// prioritizerOf returns a queue as one that takes priorities, or nil.
func prioritizerOf(q queue) prioritizer {
	switch q := q.(type) {
	case prioritized:
		return q
	case stored:
		return q
	case fair:
		if q.kind == within {
			return q
		}
	}
	return nil
}
