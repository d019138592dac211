package spec

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A Wait is an item that waits for its time.
type Wait[T comparable] struct {
	Value     T
	Place     Place
	Due       time.Duration
	Firm      bool          // no add ends the wait, or makes the item due earlier
	Debounced bool          // a Debounce began the wait, and another puts it off
	Latest    time.Duration // until then at most; of a debounced wait
	Why       Why           // of the call that decided Due
}

// A Why is why an item waits until Due.
type Why string

// A Plan is a call that has an item wait.
type Plan int8

const (
	After      Plan = iota // AddAfter: of several times the earliest counts
	Backoff                // AddRateLimited: the same, and firm with StrictBackoff
	Firm                   // AddWith with Firm: the wait is firm
	FirmRetry              // the same, after the time of the limiter
	Debounce               // puts off the time of another Debounce
	Reschedule             // replaces the time
)

var whys = [...]Why{"delay", "retry", "deferred", "retry", "debounce", "delay"}

// asksFirm reports whether the call itself says that the wait is firm.
func (p Plan) asksFirm() bool { return p == Firm || p == FirmRetry }

// isFirm reports whether the wait of a call is firm. A call without a delay has no wait to be firm.
func (q *Queue[T]) isFirm(plan Plan, delay time.Duration) bool {
	return delay > 0 && (plan.asksFirm() || plan == Backoff && q.StrictBackoff)
}

// Later makes a call that has an item wait. A delay of zero or less adds the item now, unless a token or
// a firm wait is in the way. maxWait bounds a Debounce; zero or less is no bound.
func (q *Queue[T]) Later(plan Plan, v T, delay, maxWait time.Duration, p Place) {
	q.later(plan, v, delay, maxWait, q.Place(v, p), false)
}

// later reports how long the item waits because of the call. A Run makes the call about an item that the Run
// holds.
func (q *Queue[T]) later(plan Plan, v T, delay, maxWait time.Duration, p Place, byRun bool) time.Duration {
	firm := q.isFirm(plan, delay)
	w, waits := q.waitOf(v, p)
	switch {
	case q.Down:
		return 0
	case q.Held[v].Woken && q.isOfTheHandOut(plan, delay, firm || byRun): // As if the Wake came after.
		w.Place = raised(w.Place, p)
		q.addNow(w, p, !plan.asksFirm() && delay <= 0 && !q.OneEntry)
		return 0
	case firm && q.Pending(v) && (plan.asksFirm() || q.Held[v].Marked): // The wait gets the priority of the add.
		w.Place = raised(raised(w.Place, p), q.pendingPlace(v))
		q.takeBack(v)
	case q.joins(plan, w, delay, firm):
		q.join(plan, w, delay, p)
		return 0
	}
	return q.delay(plan, w, waits, delay, maxWait, p, firm)
}

// isOfTheHandOut reports whether the wait of a held item is what its next hand-out waits for. Without
// OneEntry, the wait of AddAfter stands beside.
func (q *Queue[T]) isOfTheHandOut(plan Plan, delay time.Duration, always bool) bool {
	return always || q.OneEntry && plan < Debounce && delay > 0
}

// joins reports whether the call has no wait of its own: the entry in the line stands for the call, or the
// call is an add.
func (q *Queue[T]) joins(plan Plan, w Wait[T], delay time.Duration, firm bool) bool {
	if q.Pending(w.Value) && (q.OneEntry || firm) {
		return true
	}
	return delay <= 0 && (w.Firm && plan != Reschedule && !plan.asksFirm() || !q.OneEntry && plan <= Backoff)
}

// join adds the item of a call that has no wait of its own. A Debounce keeps the priority of a firm wait.
func (q *Queue[T]) join(plan Plan, w Wait[T], delay time.Duration, p Place) {
	switch {
	case plan == Debounce && w.Firm:
		q.hear(p)
	case plan != Reschedule || delay <= 0:
		q.add(w.Value, p)
	}
}

// delay adds the item of a wait, which may be new, or has it wait.
func (q *Queue[T]) delay(plan Plan, w Wait[T], waits bool, delay, maxWait time.Duration, p Place, firm bool) time.Duration {
	asked, why := q.in(delay), whys[plan]
	due := max(asked, q.floor(w.Value))
	if due > asked {
		why = "pace"
	}
	now := delay <= 0 && due <= max(0, q.Now)
	if plan == Debounce && delay <= 0 && !now { // A token keeps the item back as for AddAfter.
		plan = After
	}
	if plan < Debounce {
		w.Place = raised(w.Place, p)
	}
	if now {
		q.addNow(w, p, false)
		return 0
	}
	q.hear(p)
	if w.Firm && delay <= 0 { // A firm wait cut short goes on as a plain wait.
		w.Firm = false
	}
	q.appoint(plan, w, waits, due, maxWait, firm, why)
	return due - q.Now
}

// floor returns when the next token of an item is there.
func (q *Queue[T]) floor(v T) time.Duration {
	return q.fullAt(v) - time.Duration(max(1, q.ItemBurst)-1)*q.ItemPace
}

// fullAt returns when the tokens of an item are all there.
func (q *Queue[T]) fullAt(v T) time.Duration {
	if full, counts := q.Full[v]; counts && q.ItemPace > 0 {
		return full
	}
	return math.MinInt64 / 2
}

// addNow ends a wait before its time. The wait says the group. The add says its terms, if it is of the
// same group. besides lets the wait go on.
func (q *Queue[T]) addNow(w Wait[T], p Place, besides bool) {
	if besides {
		q.add(w.Value, p)
		return
	}
	if q.hear(p); p.Group == w.Place.Group {
		w.Place.Weight, w.Place.Limit = p.Weight, p.Limit
	}
	q.addWaited(w)
}

// waitOf returns the wait of an item, or a new one.
func (q *Queue[T]) waitOf(v T, p Place) (w Wait[T], waits bool) {
	if at := q.waitAt(v); at >= 0 {
		return q.Waiting[at], true
	}
	return Wait[T]{Value: v, Place: p, Due: math.MaxInt64}, false
}

// WaitsFirmly reports whether an item waits firmly.
func (q *Queue[T]) WaitsFirmly(v T) bool {
	at := q.waitAt(v)
	return at >= 0 && q.Waiting[at].Firm
}

// Wake ends the wait of an item, and reports whether the item waited. The hand-out of a held item notes the Wake.
func (q *Queue[T]) Wake(v T) bool {
	if h, held := q.Held[v]; held {
		h.Woken = true
		q.Held[v] = h
	}
	at := q.waitAt(v)
	if at < 0 {
		return false
	}
	q.addWaited(q.Waiting[at])
	return true
}

// addWaited adds the item of a wait. The terms of the wait count only if they begin the group.
func (q *Queue[T]) addWaited(w Wait[T]) {
	if t, lives := q.groups[w.Place.Group]; lives {
		w.Place.Weight, w.Place.Limit = t.weight, t.limit
	}
	q.endWait(w.Value)
	q.add(w.Value, w.Place)
}

// appoint has an item wait until due, or until another time as the plan says. The item comes behind
// all others of that time, unless the call changes nothing.
func (q *Queue[T]) appoint(plan Plan, w Wait[T], waits bool, due, maxWait time.Duration, firm bool, why Why) {
	keeps := waits
	switch {
	case plan == Reschedule:
		w.Firm, w.Debounced, w.Latest, w.Why, keeps = false, false, 0, why, false
	case firm && !w.Firm:
		w.Firm, w.Debounced, w.Latest, w.Why = true, false, 0, why
	case firm && plan != Backoff:
		due = max(due, w.Due)
	case w.Firm:
		due = w.Due
	case plan == Debounce && waits:
		due = min(due, w.bound())
		keeps = due == w.bound()
	case plan == Debounce:
		w.Debounced, w.Latest = true, q.latest(w.Value, maxWait)
		due = min(due, w.Latest)
	case waits: // A Debounce moves the item no later than an AddAfter says.
		w.Latest = min(w.Latest, due)
		due = min(due, w.Due)
	}
	if due != w.Due {
		w.Why = why
	}
	if keeps && due == w.Due {
		q.Waiting[q.waitAt(w.Value)] = w
		return
	}
	w.Due = due
	q.queueBehind(w)
}

// bound returns the time that no Debounce moves the wait beyond.
func (w Wait[T]) bound() time.Duration {
	if w.Debounced {
		return w.Latest
	}
	return w.Due
}

// latest returns the bound of a Debounce of v that begins now, with maxWait as its longest wait.
func (q *Queue[T]) latest(v T, maxWait time.Duration) time.Duration {
	if maxWait <= 0 {
		return math.MaxInt64
	}
	return max(q.in(maxWait), q.floor(v))
}

// queueBehind has a wait come behind all others of its time.
func (q *Queue[T]) queueBehind(w Wait[T]) {
	q.endWait(w.Value)
	q.Waiting = append(q.Waiting, w)
	slices.SortStableFunc(q.Waiting, func(a, b Wait[T]) int { return cmp.Compare(a.Due, b.Due) })
}

// in returns the time after d, as late as a Duration can be.
func (q *Queue[T]) in(d time.Duration) time.Duration {
	if d = max(0, d); q.Now > math.MaxInt64-d {
		return math.MaxInt64
	}
	return q.Now + d
}

func (q *Queue[T]) waitAt(v T) int {
	return slices.IndexFunc(q.Waiting, func(w Wait[T]) bool { return w.Value == v })
}

func (q *Queue[T]) endWait(v T) (waited bool) {
	before := len(q.Waiting)
	q.Waiting = slices.DeleteFunc(q.Waiting, func(w Wait[T]) bool { return w.Value == v })
	return len(q.Waiting) < before
}

// Step lets time pass, and adds the items that are due then.
func (q *Queue[T]) Step(d time.Duration) {
	q.Advance(d)
	for q.MoveDue() {
	}
}

// Advance lets time pass, or sets the clock back. Pace gets its tokens.
func (q *Queue[T]) Advance(d time.Duration) {
	q.Now += d
	q.Tokens = min(q.Tokens+max(0, d).Seconds()*q.Rate, q.Burst)
}

// MoveDue adds the first item that is due, and reports whether there was one.
func (q *Queue[T]) MoveDue() bool {
	if len(q.Waiting) == 0 || q.Waiting[0].Due > q.Now {
		return false
	}
	w := q.Waiting[0]
	q.Waiting = slices.Delete(q.Waiting, 0, 1)
	q.addWaited(w)
	return true
}
