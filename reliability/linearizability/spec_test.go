package linearizability

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/seed16c08ea7/workqueue"
)

// A state is a queue as its sequential specification has it: the line, who is
// held, and who was added again since. Items are numbers below maxItems. It is
// comparable, since the checker asks for little else.
type state struct {
	line        [maxItems]int8
	queued      int8
	held, again items
	down        bool
	order       order
	// Drains by number. One that has begun is over at the first instant at
	// which it does not pend, or nothing is queued and held.
	began, pending uint8
	// Barriers by number: what each one waits for. It is over at the first instant at
	// which that is nothing.
	raised uint8
	ahead  [maxWaits]items
}

const (
	maxItems = 6
	maxWaits = 2
)

// items is a set of items, one bit for each.
type items uint8

func (s items) has(item int8) bool   { return s>>item&1 != 0 }
func (s items) with(item int8) items { return s | 1<<item }

func (s items) without(item int8) items { return s &^ (1 << item) }

// The methods of the queue, and the two halves of a drain: it shuts the queue
// down when it begins, which others can see long before it ends. A barrier has
// two halves as well: what it waits for is decided when it begins.
type method int8

const (
	add method = iota
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
)

var methodNames = [...]string{"Add", "AddAll", "Get", "GetContext", "TryGet", "Done", "Len", "Remove",
	"ShuttingDown", "ShutDown", "Snapshot", "drain begins", "drain ends",
	"WaitIdle", "barrier begins", "barrier ends"}

// A call is a method with its arguments; number is that of a drain or a barrier.
type call struct {
	method method
	item   int8
	all    []int8
	number int8

	priority int8 // of an Add, if it is named
	named    bool
}

// A result is what a call has returned: an item or, as ok, whether there was
// one, and the other truths; n for Len; what is held and queued for Snapshot
// and for a Drain that gave up. sure is true for a drain that returns only when
// nothing is left, and not when it is released.
type result struct {
	item int8
	ok   bool
	n    int
	err  error
	left *contents
	sure bool

	priority int8 // that of the item, if the call has said it
	named    bool
}

// contents is what a queue has, as far as it tells. The line is sorted if the
// queue does not know its order.
type contents struct {
	line        []int8
	of          [maxItems]int8 // the priorities of the line
	sorted      bool
	held, again items
}

// step reports whether a queue in this state may answer the call so, and what
// its state is then.
func (s state) step(c call, r result) (bool, state) {
	switch c.method {
	case add:
		if !c.named {
			c.priority = s.order.shape.priority(c.item)
		}
		s.add(c.item, c.priority)
	case addAll:
		for _, item := range c.all {
			s.add(item, s.order.shape.priority(item))
		}
	case get, getContext, tryGet:
		return s.get(c, r)
	case done:
		s.done(c.item)
	case length:
		return r.n == int(s.queued), s
	case remove:
		return s.remove(c.item, r)
	case shuttingDown:
		return r.ok == s.down, s
	case shutDown:
		s.down, s.pending = true, 0
	case snapshot:
		return s.has(r.left), s
	case drainBegins:
		s.down = true
		s.began |= 1 << c.number
		s.pending |= 1 << c.number
	case drainEnds:
		return s.drained(c, r), s
	case waitIdle:
		return !r.ok || s.queued == 0 && s.held == 0, s
	case barrierBegins:
		s.raised |= 1 << c.number
		s.ahead[c.number] = s.held
		for _, item := range s.line[:s.queued] {
			s.ahead[c.number] = s.ahead[c.number].with(item)
		}
	case barrierEnds:
		return s.raised>>c.number&1 != 0 && (!r.ok || s.ahead[c.number] == 0), s
	}
	return true, s
}

func (s *state) add(item, priority int8) {
	switch {
	case s.down:
	case s.at(item) >= 0:
		s.lift(item, priority)
	case s.again.has(item):
		s.order.of[item] = max(s.order.of[item], priority)
	case s.held.has(item):
		s.order.of[item] = priority
		s.again = s.again.with(item)
	default:
		s.order.of[item] = priority
		s.push(item)
	}
}

// at returns the place of an item in line, or -1.
func (s *state) at(item int8) int { return slices.Index(s.line[:s.queued], item) }

// leave takes the item at a place out of line.
func (s *state) leave(at int) {
	copy(s.line[at:], s.line[at+1:])
	s.queued--
	s.line[s.queued] = 0
}

func (s state) get(c call, r result) (bool, state) {
	switch {
	case r.ok && !s.ready():
		return false, s
	case r.ok:
		priority := s.order.of[r.item]
		return s.take() == r.item && (!r.named || r.priority == priority), s
	case c.method == tryGet:
		return !s.ready(), s
	case errors.Is(r.err, workqueue.ErrShutDown):
		return s.down && !s.ready(), s
	}
	return c.method == getContext, s // The context has ended.
}

func (s *state) done(item int8) {
	if !s.held.has(item) {
		return
	}
	s.held = s.held.without(item)
	s.pass(item)
	s.arrange()
	if s.again.has(item) {
		s.again = s.again.without(item)
		s.push(item)
	}
}

func (s state) remove(item int8, r result) (bool, state) {
	at := s.at(item)
	switch {
	case at >= 0:
		s.leave(at)
		s.pass(item)
		s.order.of[item] = 0
		s.arrange()
	case s.again.has(item):
		s.again = s.again.without(item)
		s.order.of[item] = 0
	default:
		return !r.ok, s
	}
	return r.ok, s
}

// pass tells the barriers of an item that is done or removed.
func (s *state) pass(item int8) {
	for i := range s.ahead {
		s.ahead[i] = s.ahead[i].without(item)
	}
}

func (s state) drained(c call, r result) bool {
	if s.began>>c.number&1 == 0 {
		return false
	}
	if r.left != nil {
		return s.has(r.left)
	}
	return s.queued == 0 && s.held == 0 || !r.sure && s.pending>>c.number&1 == 0
}

// has compares the order too where a Snapshot knows it.
func (s state) has(c *contents) bool {
	line := s.inOrder()
	for _, item := range line {
		if s.order.of[item] != c.of[item] {
			return false
		}
	}
	if c.sorted {
		slices.Sort(line)
	}
	return slices.Equal(c.line, line) && c.held == s.held && c.again == s.again
}

var seed = maphash.MakeSeed()

// spec is the specification as the checker takes it, of a queue with an Order.
func spec(k shape) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{order: order{shape: k}} },
		Step: func(s, c, r any) (bool, any) { return s.(state).step(c.(call), r.(result)) },
		Hash: func(s any) uint64 { return maphash.Comparable(seed, s.(state)) },

		DescribeOperation: func(c, r any) string { return describe(c.(call), r.(result)) },
		DescribeState:     func(s any) string { return s.(state).String() },
	}
}

func (s state) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "line %v", s.line[:s.queued])
	for item := range int8(maxItems) {
		if s.held.has(item) {
			fmt.Fprintf(&b, ", held %d", item)
		}
		if s.again.has(item) {
			b.WriteString(" and added again")
		}
	}
	b.WriteString(s.order.String())
	if s.down {
		b.WriteString(", shut down")
	}
	if s.raised != 0 {
		fmt.Fprintf(&b, ", before the barriers %06b", s.ahead)
	}
	return b.String()
}

func describe(c call, r result) string {
	name := methodNames[c.method]
	switch c.method {
	case add, done:
		if c.named {
			return fmt.Sprintf("%s(%d, priority %d)", name, c.item, c.priority)
		}
		return fmt.Sprintf("%s(%d)", name, c.item)
	case addAll:
		return fmt.Sprintf("%s(%v)", name, c.all)
	case remove:
		return fmt.Sprintf("%s(%d) → %v", name, c.item, r.ok)
	case length:
		return fmt.Sprintf("%s() → %d", name, r.n)
	case shuttingDown, waitIdle:
		return fmt.Sprintf("%s() → %v", name, r.ok)
	case barrierEnds:
		return fmt.Sprintf("%s %d → %v", name, c.number, r.ok)
	case get, getContext, tryGet:
		if r.ok {
			return fmt.Sprintf("%s() → %d", name, r.item)
		}
		return fmt.Sprintf("%s() → %v", name, r.err)
	case snapshot, drainEnds:
		if r.left != nil {
			return fmt.Sprintf("%s %d: %+v", name, c.number, *r.left)
		}
	}
	return fmt.Sprintf("%s %d", name, c.number)
}
