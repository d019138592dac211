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
	Floor     time.Duration // no call makes it due earlier
	Firm      bool          // only Reschedule makes it due earlier
	Debounced bool          // a Debounce began it, and another puts it off
	Latest    time.Duration // until then at most; of a debounced wait
}

// A Plan is a call that has an item wait.
type Plan int8

const (
	After      Plan = iota // AddAfter: of several times the earliest counts
	Backoff                // AddRateLimited: the same, and firm with StrictBackoff
	Reschedule             // replaces the time
	Debounce               // puts off the time of another Debounce
)

// Later makes a call that has an item wait. A delay of zero or less adds the item now, unless a floor
// or a firm wait is in the way. most bounds a Debounce; zero or less is no bound.
func (q *Queue[T]) Later(plan Plan, v T, delay, most time.Duration, p Place) {
	p = q.Place(v, p)
	if q.Down {
		return
	}
	firm := plan == Backoff && q.StrictBackoff && delay > 0
	marked := firm && q.Held[v].Marked
	if marked { // The wait gets the priority of the mark.
		p = raised(p, q.Held[v].Next)
		q.RemoveQueued(v)
	}
	switch {
	case q.OneEntry && q.Pending(v):
		if plan != Reschedule || delay <= 0 {
			q.add(v, p)
		}
	case !q.OneEntry && plan <= Backoff && delay <= 0:
		q.add(v, p)
	default:
		w, waits := q.waitOf(v, p, marked)
		q.delay(plan, w, waits, delay, most, p, firm)
	}
}

// delay adds the item of a wait, which may be new, or has it wait.
func (q *Queue[T]) delay(plan Plan, w Wait[T], waits bool, delay, most time.Duration, p Place, firm bool) {
	due := max(q.in(delay), w.Floor)
	if w.Firm && plan != Reschedule {
		due = max(due, w.Due)
	}
	now := delay <= 0 && due <= q.Now
	if plan == Debounce && delay <= 0 && !now { // What keeps the item back does so as for AddAfter.
		plan = After
	}
	if plan <= Backoff {
		w.Place = raised(w.Place, p)
	}
	if now {
		q.addNow(w, p)
		return
	}
	q.hear(p)
	q.appoint(plan, w, waits, due, most, firm)
}

// addNow ends a wait before its time. The wait says the group. The add says its terms, if it is of the
// same group.
func (q *Queue[T]) addNow(w Wait[T], p Place) {
	if q.hear(p); p.Group == w.Place.Group {
		w.Place.Weight, w.Place.Limit = p.Weight, p.Limit
	}
	q.addWaited(w)
}

// waitOf returns the wait of an item, or a new one. The first add after a hand-out asks the pace.
func (q *Queue[T]) waitOf(v T, p Place, asked bool) (w Wait[T], waits bool) {
	if at := q.waitAt(v); at >= 0 {
		return q.Waiting[at], true
	}
	w = Wait[T]{Value: v, Place: p, Due: math.MaxInt64, Floor: math.MinInt64}
	if q.ItemPace != nil && !asked {
		if d := q.ItemPace(v); d > 0 {
			w.Floor = q.in(d)
		}
	}
	return w, false
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
func (q *Queue[T]) appoint(plan Plan, w Wait[T], waits bool, due, most time.Duration, firm bool) {
	bound, keeps := w.Due, waits
	if w.Debounced {
		bound = w.Latest
	}
	switch {
	case plan == Reschedule:
		w.Firm, w.Debounced, w.Latest, keeps = false, false, 0, false
	case plan == Debounce && waits:
		due = min(due, bound)
		keeps = due == bound
	case plan == Debounce:
		w.Debounced, w.Latest = true, math.MaxInt64
		if most > 0 {
			w.Latest = max(q.in(most), w.Floor)
		}
		due = min(due, w.Latest)
	case firm && !w.Firm:
		w.Firm, w.Debounced, w.Latest = true, false, 0
	case waits: // It comes no later than this call says, whatever Debounce says.
		w.Latest = min(w.Latest, due)
		due = min(due, w.Due)
	}
	if keeps && due == w.Due {
		q.Waiting[q.waitAt(w.Value)] = w
		return
	}
	q.endWait(w.Value)
	w.Due = due
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
