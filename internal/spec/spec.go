// Package spec is the contract of the queue as a program: what each call does and returns, one call after
// the other, with slices and maps to search. Tests compare the queue with the program under random calls, on
// many goroutines, and in each interleaving of small programs. Nothing shipped imports the package.
//
// An item is idle, queued, held by a worker, or marked: held, and added again since its hand-out.
//
//	         idle     queued   held     marked
//	Add      queued   queued   marked   marked
//	Get               held
//	Done     idle     queued   idle     queued
//	Remove   idle     idle     held     held
//
// What a worker wants for its item before Done is an End: the work is over, or it was cut short.
//
//	         held     marked   a later Done, and a Barrier before
//	Worked   held     marked   as above; the Barrier has waited for the item
//	Retry    marked   marked   as above
//	Redo     marked   marked   the Barrier goes on to wait for the item
//	Back     marked   marked   the same, and the item is queued where it was, first of all
//	Leave    held     marked   held: the Barrier fails; marked: it goes on to wait
//
// An item that was removed since the hand-out stays as it is, whatever the worker wants, and the Barrier
// has waited for it. A Remove takes a Retry, Redo and Back back like any other add. After a shutdown Retry
// does nothing, and Redo is Leave.
//
// In each state the item can also wait for its time. A wait ends with an Add. With OneEntry a queued or
// marked item does not wait, and an Add ends the wait.
//
// The highest priority is handed out first, and items of one priority in the order of their adds. An add of
// a queued item can raise the item: it goes to the end of the higher priority. Groups take turns among the
// items of the highest priority, or among all items with GroupsFirst. A turn is as many hand-outs as the
// weight of the group. A group is full while workers hold as many of its items as its limit: its items stay
// queued. A limit of 0 is none, and a group with a negative limit is full. The last add that names a group
// says its weight and limit, until the group has no queued and no held item. LimitsChanged says the limits of
// all groups anew. At least each OldestEvery-th hand-out is the oldest item: the oldest of the items that are the
// first of their priority and group.
//
// An item waits once: the earliest time and the highest priority count. Reschedule replaces the time.
// Debounce puts off a wait that a Debounce began, and no other. No item is due before its next token of
// ItemPace: each hand-out takes a token of its item. With Pace, Get hands out an item only while there is a
// token for all.
//
// A firm wait takes its item out of the queue, takes the mark of a held item back, and no add ends it: an add
// only raises its priority. Of two firm waits the later time counts. With StrictBackoff AddRateLimited begins
// firm waits too, but then the earlier wait counts, and a queued item stays queued. Reschedule replaces a firm
// wait, and Remove and Wake end it. Wake ends any wait, whatever ItemPace says, and adds only items that
// waited. A Wake of a held item stands until Done: a firm wait, a wait that the result of a handler asks for
// and, with OneEntry, any wait of a delay ends where it would begin.
//
// WaitIdle waits until Idle, WaitEmpty until Empty, and Get until Ready or until the queue is Down. Barrier
// and Drain take effect at once and return later. Here they return a ticket at once: Over says whether each
// item that was queued or held at the Barrier was done once or removed, and Drained whether nothing is queued
// or held, or a ShutDown came. After a shutdown nothing is added and nothing waits, and workers get what is
// queued and marked.
//
// Remove takes an add back: the item leaves the queue or loses its mark, and its wait ends. A worker keeps
// an item that it holds, but Run does not retry it. A Run says what becomes of an item after its handler.
package spec

import (
	"maps"
	"slices"
	"time"
)

// Rules are the options of a queue.
type Rules[T comparable] struct {
	OldestEvery   int                         // at least each n-th hand-out is the oldest item; 0 is never
	GroupsFirst   bool                        // groups take turns whatever the priorities of their items
	Stored        bool                        // a Queue of the caller has the line: removed items keep a place
	OneEntry      bool                        // an item is queued or waits, never both
	ItemPace      time.Duration               // until the next token of an item, which implies OneEntry; 0 is none
	ItemBurst     int                         // tokens of an item at most; 0 is 1
	StrictBackoff bool                        // AddRateLimited begins firm waits, which implies OneEntry
	Rate, Burst   float64                     // of Pace: tokens in a second, and at most; a Burst of 0 is no pace
	Place         func(item T, p Place) Place // what the Order adds to the words of an add; nil adds nothing
}

// A Place is what an add says of its item. Queued and held items have no weight and no limit.
type Place struct {
	Priority      int
	Named         bool // the caller has named the priority
	Group         string
	Weight, Limit int
}

// An Item is queued.
type Item[T comparable] struct {
	Value  T
	Place  Place
	Since  time.Duration // when the item was added
	Age    int           // the younger, the larger; a raise begins a new age
	Behind int           // the barriers up to this one do not wait for the item
	Ghost  bool          // removed, and still in the Queue of the caller
}

// A Hold is what the queue knows of a held item.
type Hold struct {
	Place       Place
	Since       time.Duration // when the item was handed out
	Added       time.Duration // when the item was last added
	Age, Behind int           // as before the hand-out
	Watchers    int           // contexts of ReAddContext
	Again       bool          // added since the hand-out, even if the add was taken back
	Marked      bool
	Next        Place // of the next hand-out, if it is marked
	First       bool  // Done queues the item where it was
	Stays       bool  // the work was cut short: barriers wait for the next hand-out, or fail if none comes
	Gone        bool  // Remove was called since the hand-out
	Woken       bool  // Wake was called since the hand-out
}

// An Ending is that of a context of ReAddContext. The end of a hand-out ends none.
type Ending[T comparable] struct {
	Item    T
	Removed bool // by a Remove, and else by an add
}

// A Queue is the state of a queue.
type Queue[T comparable] struct {
	Rules[T]
	Queued  []Item[T]
	Held    map[T]Hold
	Waiting []Wait[T] // by due time; of one due time in the order of the calls
	Down    bool
	Now     time.Duration
	Tokens  float64
	Told    []Ending[T]         // all so far
	Full    map[T]time.Duration // when each item has all its tokens of ItemPace again

	turns    []share          // those with items that may go: the first of a level has the turn
	left     map[share]int    // hand-outs left of a turn that has begun
	groups   map[string]terms // of each group with queued or held items
	since    map[string]int   // hand-outs since that of the oldest item: of each group if groups come first
	age      int
	barriers int
	dropped  [][2]int // barriers that failed: behind the first number, up to the second
	releases int      // ShutDowns so far: each ends the earlier drains
}

// New returns an empty queue.
func New[T comparable](r Rules[T]) *Queue[T] {
	r.OneEntry = r.OneEntry || r.ItemPace > 0 || r.StrictBackoff
	if r.Place == nil {
		r.Place = func(_ T, p Place) Place { return p }
	}
	q := &Queue[T]{Rules: r, Tokens: r.Burst}
	q.Held, q.left, q.groups, q.since = map[T]Hold{}, map[share]int{}, map[string]terms{}, map[string]int{}
	q.Full = map[T]time.Duration{}
	return q
}

// Add adds an item. With OneEntry it ends the wait of the item.
func (q *Queue[T]) Add(v T, p Place) { q.Later(After, v, 0, 0, p) }

// add adds an item with all that the add says. Of a queued item the higher priority counts, and its
// group. Of several adds of a held item the highest priority counts, and the group of the last one.
func (q *Queue[T]) add(v T, p Place) {
	if q.Down {
		return
	}
	if at := q.waitAt(v); at >= 0 && q.Waiting[at].Firm {
		q.hear(p)
		q.Waiting[at].Place = raised(q.Waiting[at].Place, p)
		return
	}
	q.groups[p.Group] = terms{p.Weight, p.Limit}
	p.Weight, p.Limit = 0, 0
	h, held := q.Held[v]
	switch at := q.at(v); {
	case at >= 0 && q.Queued[at].Ghost:
		q.Queued[at].Ghost, q.Queued[at].Since, q.Queued[at].Behind = false, q.Now, q.barriers
	case at >= 0 && p.Priority > q.Queued[at].Place.Priority:
		i := q.Queued[at]
		q.age++
		i.Place, i.Age = raised(i.Place, p), q.age
		q.Queued = append(slices.Delete(q.Queued, at, at+1), i)
	case at >= 0:
	case !held:
		q.push(v, p, q.Now)
	case h.Marked:
		h.Next = raised(h.Next, p)
		h.Next.Group = p.Group
		q.Held[v] = h
	default:
		h.Again, h.Marked, h.Next, h.Added = true, true, p, q.Now
		q.tell(v, h, false)
	}
	q.arrange()
}

// raised returns p with the priority of another add, if that is higher.
func raised(p, by Place) Place {
	if by.Priority > p.Priority {
		p.Priority, p.Named = by.Priority, by.Named
	}
	return p
}

func (q *Queue[T]) at(v T) int {
	return slices.IndexFunc(q.Queued, func(i Item[T]) bool { return i.Value == v })
}

func (q *Queue[T]) push(v T, p Place, added time.Duration) {
	q.age++
	q.Queued = append(q.Queued, Item[T]{Value: v, Place: p, Since: added, Age: q.age, Behind: q.barriers})
}

// Ready reports whether a worker gets an item, tokens apart.
func (q *Queue[T]) Ready() bool { return len(q.turns) > 0 }

// Len returns how many items are queued.
func (q *Queue[T]) Len() int { return len(q.Line()) }

// Idle reports whether nothing is queued or held.
func (q *Queue[T]) Idle() bool { return q.Len()+len(q.Held) == 0 }

// Empty reports whether nothing is queued, held or waiting.
func (q *Queue[T]) Empty() bool { return q.Idle() && len(q.Waiting) == 0 }

// Get hands out the next item, if an item and a token are there. An item that differs from itself
// is forgotten: no Done can name it.
func (q *Queue[T]) Get() (i Item[T], ok bool) {
	if q.Ready() && q.Burst > 0 {
		if q.Tokens < 1 {
			return i, false
		}
		q.Tokens--
	}
	for len(q.Queued) > 0 && q.Queued[0].Ghost {
		q.Queued = slices.Delete(q.Queued, 0, 1)
	}
	if !q.Ready() {
		return i, false
	}
	at := q.next()
	i = q.Queued[at]
	q.Queued = slices.Delete(q.Queued, at, at+1)
	if i.Value == i.Value {
		q.Held[i.Value] = Hold{Place: i.Place, Since: q.Now, Added: i.Since, Age: i.Age, Behind: i.Behind}
		q.Full[i.Value] = max(q.fullAt(i.Value), q.Now) + q.ItemPace
	}
	q.arrange()
	return i, true
}

// Done ends the hand-out of an item, and queues a marked item. It does nothing for an item that
// nobody holds.
func (q *Queue[T]) Done(v T) bool {
	h, held := q.Held[v]
	delete(q.Held, v)
	switch {
	case h.First:
		q.putBack(v, h)
		return held
	case h.Marked:
		q.push(v, h.Next, h.Added)
		if last := &q.Queued[len(q.Queued)-1]; h.Stays {
			last.Behind = h.Behind
		}
	case h.Stays:
		q.dropped = append(q.dropped, [2]int{h.Behind, q.barriers})
	}
	q.arrange()
	return held
}

// An End is what a worker wants for its item.
type End string

const (
	Worked End = "the work is over"
	Retry  End = "the work is over, and is to be done again"
	Redo   End = "the work was cut short, and begins again"
	Back   End = "the work has not begun"
	Leave  End = "the work was cut short, and nobody begins it again"
)

// Conclude decides what Done makes of a held item, and reports whether the item was removed since
// the hand-out, and whether Done will queue it.
func (q *Queue[T]) Conclude(v T, end End, p Place) (removed, again bool) {
	h := q.Held[v]
	if h.Gone {
		return true, h.Marked || q.WaitsFirmly(v)
	}
	if end == Retry || end == Redo {
		q.add(v, p)
		h = q.Held[v]
	}
	if end == Back {
		q.Full[v] -= q.ItemPace
		if !q.WaitsFirmly(v) {
			if !h.Marked {
				h.Next = h.Place
			}
			h.Marked, h.First, h.Watchers = true, true, 0
		}
	}
	q.Held[v] = h
	q.cutShort(v, end)
	return false, h.Marked || q.WaitsFirmly(v)
}

// cutShort has the barriers before a held item go on to wait if the work was cut short. They fail if Done
// does not queue the item.
func (q *Queue[T]) cutShort(v T, end End) {
	h := q.Held[v]
	h.Stays = h.Stays || end == Leave || (end == Redo || end == Back) && !q.WaitsFirmly(v)
	q.Held[v] = h
}

// putBack undoes a hand-out: the item is the first of its priority and group again, or of those of its
// mark if that has a higher priority.
func (q *Queue[T]) putBack(v T, h Hold) {
	if h.Next.Priority > h.Place.Priority {
		h.Place = h.Next
	}
	i := Item[T]{Value: v, Place: h.Place, Since: h.Added, Age: h.Age, Behind: h.Behind}
	q.Queued = append(q.Queued, i)
	q.arrange() // Its group comes behind the groups that can go on without it.
	q.Queued = slices.Insert(q.Queued[:len(q.Queued)-1], 0, i)
}

// Pending reports whether the item is queued or marked.
func (q *Queue[T]) Pending(v T) bool {
	at := q.at(v)
	return q.Held[v].Marked || at >= 0 && !q.Queued[at].Ghost
}

// Remove takes back the add of an item, ends its wait and tells the worker that holds it. It reports
// whether there was the item.
func (q *Queue[T]) Remove(v T) bool {
	waited := q.endWait(v)
	return q.RemoveBelow(v) || waited
}

// RemoveBelow is Remove without the wait.
func (q *Queue[T]) RemoveBelow(v T) bool {
	pending := q.takeBack(v)
	h, held := q.Held[v]
	if held {
		h.Gone, h.Stays, h.Woken = true, false, false
		q.tell(v, h, true)
	}
	return pending || held
}

// pendingPlace returns where the add of a pending item puts it.
func (q *Queue[T]) pendingPlace(v T) Place {
	if h := q.Held[v]; h.Marked {
		return h.Next
	}
	return q.Queued[q.at(v)].Place
}

// takeBack takes back the add of an item, and reports whether there was one.
func (q *Queue[T]) takeBack(v T) (pending bool) {
	h, at := q.Held[v], q.at(v)
	switch pending = q.Pending(v); {
	case h.Marked:
		h.Marked, h.First, h.Stays, h.Next = false, false, false, Place{}
		q.Held[v] = h
	case pending && q.Stored:
		q.Queued[at].Ghost = true
	case pending:
		q.Queued = slices.Delete(q.Queued, at, at+1)
	}
	q.arrange()
	return pending
}

// Watch begins a context of ReAddContext. It ends at once if the item is marked or gone.
func (q *Queue[T]) Watch(v T) {
	if h, held := q.Held[v]; held {
		h.Watchers++
		q.Held[v] = h
		if h.Marked || h.Gone {
			q.tell(v, h, !h.Marked)
		}
	}
}

func (q *Queue[T]) tell(v T, h Hold, removed bool) {
	for ; h.Watchers > 0; h.Watchers-- {
		q.Told = append(q.Told, Ending[T]{v, removed})
	}
	q.Held[v] = h
}

// Barrier begins a wait for the items that are queued or held now.
func (q *Queue[T]) Barrier() (ticket int) {
	q.barriers++
	return q.barriers
}

// Dropped reports whether nobody does an item before the barrier.
func (q *Queue[T]) Dropped(ticket int) bool {
	return slices.ContainsFunc(q.dropped, func(d [2]int) bool { return d[0] < ticket && ticket <= d[1] })
}

// Over reports whether each item before the barrier was done once, or removed.
func (q *Queue[T]) Over(ticket int) bool {
	before := func(h Hold) bool { return h.Behind < ticket }
	return !slices.ContainsFunc(slices.Collect(maps.Values(q.Held)), before) &&
		!slices.ContainsFunc(q.Line(), func(i Item[T]) bool { return i.Behind < ticket })
}

// ShutDown ends all adds and waits, and the drains that have begun.
func (q *Queue[T]) ShutDown() {
	q.Drain()
	q.releases++
}

// Drain shuts the queue down and begins a drain.
func (q *Queue[T]) Drain() (ticket int) {
	q.Down, q.Waiting = true, nil
	return q.releases
}

// Drained reports whether the drain is over: nothing is queued or held, or a ShutDown came.
func (q *Queue[T]) Drained(ticket int) bool { return q.Idle() || q.releases > ticket }

// Line returns the queued items, the highest priority first. Without groups and OldestEvery that is
// the order of the hand-outs.
func (q *Queue[T]) Line() []Item[T] {
	line := slices.DeleteFunc(slices.Clone(q.Queued), func(i Item[T]) bool { return i.Ghost })
	slices.SortStableFunc(line, func(a, b Item[T]) int { return b.Place.Priority - a.Place.Priority })
	return line
}

// Equal reports whether no call can tell two queues of the same rules apart. It does not compare ages:
// without an item that is put back they follow the order of Queued.
func (q *Queue[T]) Equal(o *Queue[T]) bool {
	item := func(a, b Item[T]) bool { a.Age = b.Age; return a == b }
	hold := func(a, b Hold) bool { a.Age = b.Age; return a == b }
	return slices.EqualFunc(q.Queued, o.Queued, item) && maps.EqualFunc(q.Held, o.Held, hold) &&
		slices.Equal(q.Waiting, o.Waiting) && slices.Equal(q.Told, o.Told) && maps.Equal(q.Full, o.Full) &&
		slices.Equal(q.turns, o.turns) && maps.Equal(q.left, o.left) &&
		maps.Equal(q.groups, o.groups) && maps.Equal(q.since, o.since) && slices.Equal(q.dropped, o.dropped) &&
		q.Down == o.Down && q.Now == o.Now && q.Tokens == o.Tokens &&
		q.barriers == o.barriers && q.releases == o.releases
}

// Clone returns a copy that shares nothing.
func (q *Queue[T]) Clone() *Queue[T] {
	c := *q
	c.Queued, c.Waiting, c.Told = slices.Clone(q.Queued), slices.Clone(q.Waiting), slices.Clone(q.Told)
	c.Held, c.turns, c.left = maps.Clone(q.Held), slices.Clone(q.turns), maps.Clone(q.left)
	c.Full = maps.Clone(q.Full)
	c.groups, c.since, c.dropped = maps.Clone(q.groups), maps.Clone(q.since), slices.Clone(q.dropped)
	return &c
}
