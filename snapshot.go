package workqueue

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/agenda"
	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// ItemInfo is the knowledge of a queue about an item. A field is zero where it does not
// apply or is not known, and JSON then leaves the field out. The names in JSON are in snake case, Age
// is age_seconds, and Due is in RFC 3339. ItemInfo has a MarshalJSON of its own: in a struct that embeds
// it, other fields are left out.
type ItemInfo[T comparable] struct {
	Item  T         `json:"item"`
	State ItemState `json:"state,omitzero"`

	// Firm is whether no add makes a waiting item come earlier, see [AddOptions].
	Firm bool `json:"firm,omitzero"`

	// named says that an add has named the Priority, so that the Order was not asked. A retry of
	// Run names the Priority again. The info carries it, as an embedding type may replace GetInfo.
	named bool

	// Age is the time since the add that queued a queued item, also one that came while a worker held
	// the item; since the Get of an item in flight; and since the first call that made a waiting item wait.
	// GetInfo and ItemInfoFromContext return the time from the add to the hand-out. A queue notes times only
	// if it has metrics, KeepTimes, Pace or ItemPace.
	Age time.Duration `json:"-"`

	// Due is when a waiting item will be added.
	Due time.Time `json:"due,omitzero"`

	// Why is why an item waits, or why the group of a queued item keeps it back.
	Why Why `json:"why,omitzero"`

	// Position is 1 for the item that a Snapshot expects to be handed out next, 2 for the item behind, and
	// so on, and the same for the waiting items. Position is 0 for an item in flight, outside of a Snapshot,
	// and for a queued item if the [Order] has a Group or OldestEvery, or a [Queue] decides the order.
	Position int `json:"position,omitzero"`

	// Failures is how often the item of a [TypedRateLimiting] has failed in a row: the greater of the number that
	// the limiter says and the count of [Run]. ItemInfoFromContext has the count of Run, as the limiter is not asked.
	Failures int `json:"failures,omitzero"`

	// Priority is the priority of a queued or waiting item. For an item in flight, Priority is
	// the priority of the hand-out. For an item that was added again, Priority is the priority
	// with which Done will queue the item. Priority is 0 if no add has named a priority and the
	// [Order] has no Priority.
	Priority int `json:"priority,omitzero"`
}

// Why says why an item waits, or why a queued item is not handed out although it is the first. Of
// several calls for a waiting item, the call that decided its due time counts.
type Why string

const (
	WhyDelay     Why = "delay"      // the caller of AddAfter, AddWith or Reschedule named the time, or a RequeueAfter
	WhyRetry     Why = "retry"      // the limiter named the time, or a RetryAfter, or a DeferFor beside a failure
	WhyDebounce  Why = "debounce"   // a series of calls of Debounce is not over
	WhyPace      Why = "pace"       // no token of ItemPace is there
	WhyDeferred  Why = "deferred"   // a DeferFor beside no failure, or an AddWith with After and Firm
	WhyGroupFull Why = "group_full" // the item is queued, and its group has reached MaxInFlight
	WhyHeldBack  Why = "held_back"  // the item is queued, and MaxInFlight of its group is negative, such as HoldBack
)

var whys = [...]Why{
	fifo.WhyDelay: WhyDelay, fifo.WhyRetry: WhyRetry, fifo.WhyDebounce: WhyDebounce, fifo.WhyPace: WhyPace,
	fifo.WhyDeferred: WhyDeferred, fifo.WhyGroupFull: WhyGroupFull, fifo.WhyHeldBack: WhyHeldBack,
}

// plainInfo is an ItemInfo without methods. Its JSON lacks the Age.
type plainInfo[T comparable] ItemInfo[T]

// infoJSON is the JSON of an ItemInfo.
type infoJSON[T comparable] struct {
	plainInfo[T]
	Age seconds `json:"age_seconds,omitzero"`
}

// MarshalJSON returns the info with names in snake case, and the Age in seconds.
func (i ItemInfo[T]) MarshalJSON() ([]byte, error) {
	return json.Marshal(infoJSON[T]{plainInfo[T](i), seconds(i.Age)})
}

// UnmarshalJSON is like that of [QueueStats].
func (i *ItemInfo[T]) UnmarshalJSON(text []byte) error {
	var j infoJSON[T]
	if err := json.Unmarshal(text, &j); err != nil || isNull(text) {
		return err
	}
	*i = ItemInfo[T](j.plainInfo)
	i.Age = time.Duration(j.Age)
	return nil
}

// isNull reports whether a text is the null of JSON, for which an UnmarshalJSON must change nothing.
func isNull(text []byte) bool { return string(text) == "null" }

// seconds is a duration that JSON has in seconds.
type seconds time.Duration

func (s seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

func (s *seconds) UnmarshalJSON(text []byte) error {
	var n float64
	err := json.Unmarshal(text, &n)
	switch n = math.Round(n * float64(time.Second)); {
	case n >= math.MaxInt64: // The float of MaxInt64 is greater by 1.
		*s = math.MaxInt64
	case n <= math.MinInt64:
		*s = math.MinInt64
	default:
		*s = seconds(n)
	}
	return err
}

// Snapshot has the items of a queue at one instant, for people, tests and reports. The queue
// goes on meanwhile.
//
// The slices hold no more items than the limit that was asked for, and the
// totals count all items. Queued has the items in the order of their hand-out, unless the
// [Order] has Group or OldestEvery. With Group, the items of one group and priority stand
// together, and the items of groups that have reached MaxInFlight come last. OldestEvery does not
// change the list. Waiting has the items in the order of their due times, and InFlight the items
// held longest first, if the queue keeps times. A [Queue] in the config lists its items in any
// order. If more items are in flight, or in a Queue, than the limit, any of these items are shown.
//
// A Snapshot is a copy: callers may change the copy, and the queue does not.
type Snapshot[T comparable] struct {
	Queued   []ItemInfo[T] `json:"queued,omitempty"`
	InFlight []ItemInfo[T] `json:"in_flight,omitempty"`
	Waiting  []ItemInfo[T] `json:"waiting,omitempty"`
	// Failed has the items that failed when no retry could come any more. Only OnStop
	// and the error of a [Run] have such items, see [RunOptions].
	Failed []ItemInfo[T] `json:"failed,omitempty"`

	Totals
}

// Totals are how many items a queue has in each state.
type Totals struct {
	QueuedTotal   int `json:"queued_total"`
	InFlightTotal int `json:"in_flight_total"`
	WaitingTotal  int `json:"waiting_total"`
	FailedTotal   int `json:"failed_total,omitzero"` // of a Snapshot from a Run
	// RefusedTotal is how many adds of callers the drain of a [Run] has refused.
	RefusedTotal int `json:"refused_total,omitzero"`
}

// String returns the totals and a line for each item, to be printed.
func (s Snapshot[T]) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d queued, %d in flight, %d waiting", s.QueuedTotal, s.InFlightTotal, s.WaitingTotal)
	if s.FailedTotal > 0 {
		fmt.Fprintf(&b, ", %d failed", s.FailedTotal)
	}
	if s.RefusedTotal > 0 {
		fmt.Fprintf(&b, ", %d adds refused", s.RefusedTotal)
	}
	for _, info := range slices.Concat(s.InFlight, s.Queued, s.Failed, s.Waiting) {
		fmt.Fprintf(&b, "\n%v: %v", info.Item, info.State)
		if info.Age > 0 {
			fmt.Fprintf(&b, " for %v", info.Age)
		}
		if info.State == ItemWaiting && !info.Due.IsZero() {
			fmt.Fprintf(&b, ", due %v", info.Due.Format(time.RFC3339Nano))
		}
		if info.Why != "" {
			fmt.Fprintf(&b, ", %s", info.Why)
		}
		if info.Firm {
			b.WriteString(", firm")
		}
		if info.Priority != 0 {
			fmt.Fprintf(&b, ", priority %d", info.Priority)
		}
		if info.Failures > 0 {
			fmt.Fprintf(&b, ", %d failures", info.Failures)
		}
	}
	return b.String()
}

func (q *Typed[T]) snapshot(limit int, now time.Duration) (s Snapshot[T]) {
	c := q.census(limit)
	c.describe(&s, now, q.metrics != nil)
	return s
}

// visitItems visits the items of the queue for Items, and reports whether the visit goes on. The
// clock is read by now, once for each piece of the walk.
func (q *Typed[T]) visitItems(now func() time.Duration, visit func(ItemInfo[T]) bool) (more bool) {
	for piece := range slab.Walk(&q.mu, &q.fifo.Items, q.fifo.EntryOf) {
		at := now()
		for _, e := range piece {
			if !visit(infoOf(e, at, q.metrics != nil)) {
				return false
			}
		}
	}
	return true
}

// visitWaiting visits the waiting items for Items.
func (q *TypedDelaying[T]) visitWaiting(visit func(ItemInfo[T]) bool) {
	timed := false // Read with the lock held.
	entryOf := func(ref uint32, r *slab.Record[T, slab.None]) (agenda.Entry[T], bool) {
		timed = q.agenda.Timed
		e, ok := q.agenda.EntryOf(ref, r)
		if e.Firm {
			e.SetRank(q.firmRank(e.Item))
		}
		return e, ok
	}
	for piece := range slab.Walk(&q.mu, &q.agenda.Items, entryOf) {
		now := q.now()
		for _, e := range piece {
			if !visit(infoOfWait(e, now, q.epoch, timed)) {
				return
			}
		}
	}
}

// infoOfWait returns the info of a waiting item, for every reader of the queue.
func infoOfWait[T comparable](e agenda.Entry[T], now time.Duration, epoch time.Time, timed bool) ItemInfo[T] {
	info := infoOf(e.Entry, now, timed)
	info.State, info.Due, info.Firm = ItemWaiting, epoch.Add(e.Due), e.Firm
	return info
}

// sortInFlight puts first what has been held longest. The fifo keeps no order of what
// is held.
func (s *Snapshot[T]) sortInFlight() {
	slices.SortStableFunc(s.InFlight, func(a, b ItemInfo[T]) int { return cmp.Compare(b.Age, a.Age) })
}

// waits returns how many items wait at the moment, to make room for them.
func (q *TypedDelaying[T]) waits() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.agenda.Len()
}

func (q *TypedDelaying[T]) collectWaiting(c *census[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.agenda.EnterIn(&c.waiting)
	c.waiting.RankFirm(q.firmRank)
}

// collect enters both layers at one instant, so that an item that becomes due is in
// either layer.
func (q *TypedDelaying[T]) collect(c *census[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.typed.mu.Lock()
	defer q.typed.mu.Unlock()
	q.typed.fifo.EnterIn(&c.Census)
	q.agenda.EnterIn(&c.waiting)
	c.waiting.RankFirm(func(item T) (fifo.Rank, bool) { return q.typed.fifo.FirmRank(slab.HashOf(item), item) })
}

// firmRank returns the rank of a firm wait, which the queue below knows.
func (q *TypedDelaying[T]) firmRank(item T) (k fifo.Rank, ok bool) {
	if q.typed == nil {
		return k, false
	}
	hash := slab.HashOf(item)
	q.typed.mu.Lock()
	defer q.typed.mu.Unlock()
	return q.typed.fifo.FirmRank(hash, item)
}

// ItemState says where in a queue an item is. The zero value is no state. The text of a state,
// as in JSON, is that of String.
type ItemState uint8

// An item can be waiting beside being any of the others.
const (
	ItemQueued        ItemState = 1 + iota // in line for a worker
	ItemInFlight                           // held by a worker
	ItemInFlightAgain                      // the same, and added again since
	ItemWaiting                            // waiting for its due time
	ItemFailed                             // has failed when no retry could come, see [RunOptions].OnStop
)

var itemStates = [...]string{
	ItemQueued:        "queued",
	ItemInFlight:      "in_flight",
	ItemInFlightAgain: "in_flight_again",
	ItemWaiting:       "waiting",
	ItemFailed:        "failed",
}

// String returns the state in snake case.
func (s ItemState) String() string {
	if s.known() {
		return itemStates[s]
	}
	return fmt.Sprintf("ItemState(%d)", uint8(s))
}

func (s ItemState) known() bool { return s > 0 && int(s) < len(itemStates) }

// MarshalText returns the text of String. The error is nil for the states above.
func (s ItemState) MarshalText() ([]byte, error) {
	if !s.known() {
		return nil, fmt.Errorf("workqueue: there is no %v", s)
	}
	return []byte(itemStates[s]), nil
}

// UnmarshalText reads what MarshalText has written, and nothing else.
func (s *ItemState) UnmarshalText(text []byte) error {
	if state := slices.Index(itemStates[:], string(text)); state > 0 {
		*s = ItemState(state)
		return nil
	}
	return fmt.Errorf("workqueue: %q is no state of an item", text)
}

// A Snapshot is made from a census. Every call waits while the locks are
// held, so only copying happens then. The memory is allocated before, and sorting
// and describing come after.
type census[T comparable] struct {
	fifo.Census[T]
	waiting agenda.Census[T]
}

// censusOf returns an empty census for so many items of each state.
func censusOf[T comparable](limit int) census[T] {
	return census[T]{fifo.Census[T]{Limit: limit}, agenda.Census[T]{Limit: limit}}
}

// census makes the census of the queue. Items may come between the two critical
// sections. Then the memory does not suffice and is allocated with the lock held,
// which is rare and only slower.
func (q *Typed[T]) census(limit int) census[T] {
	c := censusOf[T](limitOf(limit))
	q.makeRoom(&c)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fifo.EnterIn(&c.Census)
	return c
}

// limitOf returns the limit for the argument of a Snapshot, where a negative one is none.
func limitOf(limit int) int {
	if limit < 0 {
		return math.MaxInt
	}
	return limit
}

// makeRoom makes room for what there is at the moment, by a look of its own: to allocate
// with the lock held would keep every call waiting for the memory.
func (q *Typed[T]) makeRoom(c *census[T]) {
	queued, flying := q.sizes()
	c.MakeRoom(queued, flying)
}

// sizes returns the numbers of queued and held items. Both come from one section: an
// item that goes from the one to the other in between would be missed by a drain.
func (q *Typed[T]) sizes() (queued, flying int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.Len(), q.fifo.Held()
}

// describe adds what a FIFO has entered to the Snapshot, when the lock is free. The
// places are those of the hand-out, so only items that are in that order have one.
// timed says whether that FIFO keeps times: otherwise Age is not known.
func (c *census[T]) describe(s *Snapshot[T], now time.Duration, timed bool) {
	s.QueuedTotal, s.InFlightTotal = c.QueuedTotal, c.HeldTotal
	s.Queued, s.InFlight = infosOf(c.Queued, now, timed), infosOf(c.Held, now, timed)
	for place := range s.Queued[:c.Lined] {
		s.Queued[place].Position = 1 + place
	}
	s.sortInFlight()
}

// describeWaiting adds the waiting items to the Snapshot.
func (c *census[T]) describeWaiting(s *Snapshot[T], now time.Duration, epoch time.Time) {
	s.WaitingTotal += c.waiting.Total
	s.Waiting = slices.Grow(s.Waiting, c.waiting.Len())
	c.waiting.Each(func(place int, e agenda.Entry[T]) {
		info := infoOfWait(e, now, epoch, c.waiting.Timed)
		info.Position = 1 + place
		s.Waiting = append(s.Waiting, info)
	})
}

// infosOf makes the infos when the locks are free: an info is larger than what was copied
// of the item, and to make room for it costs more than the copy.
func infosOf[T comparable](entries []fifo.Entry[T], now time.Duration, timed bool) (infos []ItemInfo[T]) {
	infos = slices.Grow(infos, len(entries))
	for _, e := range entries {
		infos = append(infos, infoOf(e, now, timed))
	}
	return infos
}

// infoOf returns the info of a queued or held item, for every reader of the queue. The Age counts
// from Since, and is 0 at least: an injected clock may have been set back.
func infoOf[T comparable](e fifo.Entry[T], now time.Duration, timed bool) ItemInfo[T] {
	info := ItemInfo[T]{Item: e.Item, State: ItemQueued, Priority: e.Rank.Priority, named: e.Rank.Named, Why: whys[e.Why]}
	switch {
	case e.Again:
		info.State = ItemInFlightAgain
	case e.Held:
		info.State = ItemInFlight
	}
	if timed {
		info.Age = max(0, now-e.Since)
	}
	return info
}

// ofHandOut makes the info that of an item for its worker: the Age is how long the item was queued. It
// sets field by field: a literal is made elsewhere and copied.
func (info *ItemInfo[T]) ofHandOut(item T, rank fifo.Rank, queued time.Duration) {
	info.Item, info.State, info.Age = item, ItemInFlight, queued
	info.Priority, info.named = rank.Priority, rank.Named
}
