package linearizability

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/internal/spec"
)

// A state is a queue of internal/spec, with the tickets of the drains and barriers that have begun, by
// number. Items are numbers below maxItems.
type state struct {
	*spec.Queue[int8]
	drains, barriers [maxWaits]int // one more than the ticket; 0 before the call
}

const (
	maxItems = 6
	maxWaits = 2
)

// items is a set of items, one bit for each.
type items uint8

func (s items) with(item int8) items { return s | 1<<item }

// The methods of the queue, and the two halves of a drain: the queue is shut down when the drain
// begins, and other callers can see the shutdown long before the drain ends. A barrier has two halves
// as well: the items to wait for are chosen when the barrier begins.
type method int8

const (
	nothing method = iota
	add
	addAll
	get
	getContext
	tryGet
	done
	length
	remove
	shuttingDown
	shutDown
	snapshot
	drainBegins
	drainEnds
	waitIdle
	barrierBegins
	barrierEnds
	addFirmly
	wake
	find
)

func (m method) String() string {
	return [...]string{"", "Add", "AddAll", "Get", "GetContext", "TryGet", "Done", "Len", "Remove",
		"ShuttingDown", "ShutDown", "Snapshot", "drain begins", "drain ends",
		"WaitIdle", "barrier begins", "barrier ends", "AddWith Firm", "Wake", "Find"}[m]
}

// A call is a method with its arguments; number is that of a drain or a barrier.
type call struct {
	method method
	item   int8
	all    []int8
	number int8

	priority int8 // of an Add, if it is named
	named    bool
}

// A result has the answer of a call: an item or, as ok, whether there was an item, and other booleans;
// n for Len; the held and queued items for Snapshot and for a Drain that gave up. sure is true for a
// drain that returns only when no item is left, and not when a ShutDown releases the drain.
type result struct {
	item int8
	ok   bool
	n    int
	err  error
	left *contents
	sure bool

	priority int8 // of the item, if the call returns a priority
	named    bool
}

// contents are the items of a queue. The line is sorted if the queue does not know its order.
type contents struct {
	line        []int8
	of          [maxItems]int8 // the priorities of the line
	sorted      bool
	held, again items
}

// step reports whether a queue in state s may answer c with r, and returns the next state.
func (s state) step(c call, r result) (bool, state) {
	switch c.method {
	case length:
		return r.n == s.Len(), s
	case shuttingDown:
		return r.ok == s.Down, s
	case snapshot:
		return s.has(r.left), s
	case find:
		return s.finds(c.item, r), s
	case drainEnds:
		return s.drained(c, r), s
	case waitIdle:
		return !r.ok || s.Idle(), s
	case barrierEnds:
		ticket := s.barriers[c.number] - 1
		return ticket >= 0 && (!r.ok || s.Over(ticket)), s
	case get, getContext, tryGet:
		if !r.ok {
			return s.refuses(c, r), s
		}
	}
	s.Queue = s.Clone()
	switch c.method {
	case add:
		s.Add(c.item, spec.Place{Priority: int(c.priority), Named: c.named})
	case addAll:
		for _, item := range c.all {
			s.Add(item, spec.Place{})
		}
	case get, getContext, tryGet:
		i, ok := s.Get()
		return ok && i.Value == r.item && (!r.named || int(r.priority) == i.Place.Priority), s
	case done:
		s.Done(c.item)
	case remove:
		return r.ok == s.Remove(c.item), s
	case addFirmly:
		s.Later(spec.Firm, c.item, time.Hour, 0, spec.Place{})
	case wake:
		return r.ok == s.Wake(c.item), s
	case shutDown:
		s.ShutDown()
	case drainBegins:
		s.drains[c.number] = 1 + s.Drain()
	case barrierBegins:
		s.barriers[c.number] = 1 + s.Barrier()
	}
	return true, s
}

// refuses reports whether a Get may return r, without an item.
func (s state) refuses(c call, r result) bool {
	switch {
	case c.method == tryGet:
		return !s.Ready()
	case errors.Is(r.err, workqueue.ErrShutDown):
		return s.Down && !s.Ready()
	}
	return c.method == getContext // The context has ended.
}

func (s state) drained(c call, r result) bool {
	switch ticket := s.drains[c.number] - 1; {
	case ticket < 0:
		return false
	case r.left != nil:
		return s.has(r.left)
	case r.sure:
		return s.Idle()
	default:
		return s.Drained(ticket)
	}
}

// finds reports whether Find may return r.
func (s state) finds(item int8, r result) bool {
	h, held := s.Held[item]
	state := workqueue.ItemState(0)
	switch {
	case h.Marked:
		state = workqueue.ItemInFlightAgain
	case held:
		state = workqueue.ItemInFlight
	case s.Pending(item):
		state = workqueue.ItemQueued
	case s.WaitsFirmly(item):
		state = workqueue.ItemWaiting
	}
	return r.ok == (state > 0) && r.n == int(state) && r.sure == s.WaitsFirmly(item)
}

// has compares the order too if the Snapshot knows the order.
func (s state) has(c *contents) bool {
	var line []int8
	for _, i := range s.Line() {
		if line = append(line, i.Value); i.Place.Priority != int(c.of[i.Value]) {
			return false
		}
	}
	if c.sorted {
		slices.Sort(line)
	}
	var held, again items
	for item, h := range s.Held {
		if held = held.with(item); h.Marked {
			again = again.with(item)
		}
	}
	return slices.Equal(c.line, line) && c.held == held && c.again == again
}

// hash differs for most states that are not equal.
func (s state) hash() uint64 {
	h := uint64(len(s.Held))
	for _, i := range s.Queued {
		h = h*31 + uint64(i.Value) + 8*uint64(i.Place.Priority)
	}
	for item, held := range s.Held {
		if h += 1 << (8 + item); held.Marked {
			h += 1 << (24 + item)
		}
	}
	return h
}

func (s state) equal(o state) bool {
	return s.drains == o.drains && s.barriers == o.barriers && s.Equal(o.Queue)
}

// model returns the specification of a queue with an Order, for the checker.
func model(k shape) porcupine.Model {
	return porcupine.Model{
		Init:  func() any { return state{Queue: spec.New(k.rules())} },
		Step:  func(s, c, r any) (bool, any) { return s.(state).step(c.(call), r.(result)) },
		Equal: func(a, b any) bool { return a.(state).equal(b.(state)) },
		Hash:  func(s any) uint64 { return s.(state).hash() },

		DescribeOperation: func(c, r any) string { return fmt.Sprintf("%+v → %+v", c, r) },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", *s.(state).Queue) },
	}
}
