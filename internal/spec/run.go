package spec

import (
	"slices"
	"time"
)

// A Run is a call of Run with EndKeep on a queue with a rate limiter. A worker calls Get, the handler, Conclude
// with what the handler returned, and Done.
type Run[T comparable] struct {
	*Queue[T]
	When          func(item T, failures int) time.Duration // the limiter, after so many failures
	MaxAttempts   int                                      // failures in a row; 0 is any number
	CancelOnReAdd int                                      // calls in a row that an add cancels; 0 is none

	Failures map[T]int           // in a row, as Run counts
	Retries  map[T]time.Duration // when the retry of a failed item is due
	Limited  map[T]int           // as the limiter counts
	ended    bool                // its context has ended: failures give nothing up
	cut      bool                // the contexts of its handlers have ended too
	early    map[T]bool          // the hand-out came before the retry was due
	cancels  map[T]int           // calls in a row that were cancelled
	watched  map[T]bool
}

// NewRun returns a Run without options.
func NewRun[T comparable](q *Queue[T], when func(item T, failures int) time.Duration) *Run[T] {
	r := &Run[T]{Queue: q, When: when}
	r.Failures, r.Limited, r.cancels, r.watched = map[T]int{}, map[T]int{}, map[T]int{}, map[T]bool{}
	r.Retries, r.early = map[T]time.Duration{}, map[T]bool{}
	return r
}

// A Leaf is a part of the error of a handler. Errors that wrap or join leaves have no effect of their
// own. No leaf is success.
type Leaf struct {
	Kind Kind
	Wait time.Duration // of RequeueAfter, RetryAfter and DeferFor
}

// A Kind is what a leaf asks for.
type Kind string

const (
	Failure      Kind = "any other error, a panic, or Goexit"
	RetryAfter   Kind = "RetryAfter"
	RequeueAfter Kind = "RequeueAfter"
	DeferFor     Kind = "DeferFor"
	Requeue      Kind = "Requeue"
	Permanent    Kind = "Permanent"
	Cancelled    Kind = "the error of the context"
)

// A Result is what Run makes of a call of the handler.
type Result struct {
	Outcome  string
	Failures int  // in a row
	Early    bool // a failure that does not count, as it came before the retry was due
	Again    bool
	After    time.Duration
}

// Get hands out an item to a handler. After CancelOnReAdd cancels in a row the context of the handler is let alone.
func (r *Run[T]) Get() (i Item[T], ok bool) {
	i, ok = r.Queue.Get()
	r.early[i.Value] = r.Failures[i.Value] > 0 && r.Retries[i.Value] > r.Now
	r.watched[i.Value] = r.cancels[i.Value] < r.CancelOnReAdd
	return i, ok
}

// End ends the context of the Run. Those of its handlers end too, unless they outlast it by a Grace. No add or
// Remove ends them once more.
func (r *Run[T]) End(grace bool) {
	r.ended, r.cut = true, r.cut || !grace
	for v := range r.Held {
		r.watched[v] = r.watched[v] && (grace || r.IsCancelled(v))
	}
}

// Restart begins the next Run.
func (r *Run[T]) Restart() { r.ended, r.cut = false, false }

// HasEnded reports whether the context of the handler of an item has ended.
func (r *Run[T]) HasEnded(v T) bool { return r.cut || r.IsCancelled(v) }

// IsCancelled reports whether an add or a Remove has ended the context of the handler.
func (r *Run[T]) IsCancelled(v T) bool { return r.watched[v] && (r.Held[v].Again || r.Held[v].Gone) }

// Conclude acts on what the handler of a held item returned: first on what became of the item in the
// meantime, then on what the handler asks for. The order of the cases matters.
func (r *Run[T]) Conclude(v T, leaves ...Leaf) Result {
	gone := len(leaves) > 0 && r.Held[v].Gone
	readded := has(leaves, Cancelled) && r.IsCancelled(v) && !gone
	if r.cancels[v]++; !readded {
		delete(r.cancels, v)
	}
	switch {
	case gone:
		r.Forget(v)
		return Result{Outcome: "removed", Again: r.Held[v].Marked || r.WaitsFirmly(v)}
	case readded:
		return r.redo(v, "readded")
	case has(leaves, Cancelled) && r.cut:
		return r.redo(v, "interrupted")
	case len(leaves) == 0:
		r.Forget(v)
		return Result{Outcome: "succeeded"}
	}
	return r.answer(v, leaves)
}

// answer does what the error of a handler asks for. An early failure counts for nothing.
func (r *Run[T]) answer(v T, leaves []Leaf) Result {
	failed := has(leaves, Failure, RetryAfter, Cancelled)
	early := r.early[v] && r.Failures[v] > 0
	failures := r.Failures[v] + 1
	if early && !has(leaves, Permanent) {
		failures--
	}
	switch {
	case has(leaves, Permanent), failed && !early && failures >= r.MaxAttempts && r.MaxAttempts > 0 && !r.ended:
		r.Forget(v)
		return Result{Outcome: "given_up", Failures: failures}
	case failed:
		r.Failures[v] = failures
		return r.retry(v, "failed", leaves, early)
	case has(leaves, DeferFor):
		return r.retry(v, "deferred", leaves, false)
	}
	return r.retry(v, "requeued", leaves, early && !has(leaves, RequeueAfter))
}

// has reports whether one of the leaves is of one of the kinds.
func has(leaves []Leaf, kinds ...Kind) bool {
	return slices.ContainsFunc(leaves, func(l Leaf) bool { return slices.Contains(kinds, l.Kind) })
}

// redo has Done queue an item whose handler was cut short. No token of ItemPace puts it off.
func (r *Run[T]) redo(v T, outcome string) Result {
	p := r.Place(v, rank(r.Held[v].Place))
	if at := r.waitAt(v); at >= 0 && r.OneEntry && !r.Waiting[at].Firm {
		w := r.Waiting[at]
		w.Place = raised(w.Place, p)
		r.addNow(w, p, false)
	} else {
		r.add(v, p)
	}
	r.cutShort(v, Redo)
	return Result{Outcome: outcome, Failures: r.Failures[v], Again: r.Held[v].Marked || r.WaitsFirmly(v)}
}

// retry adds an item when its plan says. RequeueAfter forgets the failures, and Requeue and DeferFor do
// not. An early failure leaves the retry as it was. After a shutdown the item is left behind.
func (r *Run[T]) retry(v T, outcome string, leaves []Leaf, early bool) Result {
	if outcome == "requeued" && has(leaves, RequeueAfter) {
		r.Forget(v)
	}
	result := Result{Outcome: outcome, Failures: r.Failures[v], Early: early, Again: !r.Down}
	if !result.Again {
		return result
	}
	plan, wait := r.plan(v, outcome, leaves, early)
	if outcome == "failed" && !(early && has(leaves, DeferFor)) {
		r.Retries[v] = r.in(wait)
	}
	result.After = r.later(plan, v, wait, 0, r.Place(v, rank(r.Held[v].Place)), true)
	return result
}

// plan returns the shortest time of the leaves, or else the time of the limiter, or the rest of the retry
// of an early failure. A DeferFor alone names the time, and beside a failure the least time.
func (r *Run[T]) plan(v T, outcome string, leaves []Leaf, early bool) (plan Plan, wait time.Duration) {
	timed, firm := times(leaves, RetryAfter, RequeueAfter), times(leaves, DeferFor)
	plan = Backoff
	switch {
	case outcome == "deferred":
		return Firm, slices.Max(firm)
	case early:
		wait = slices.Min(append(timed, max(0, r.Retries[v]-r.Now)))
	case len(timed) == 0:
		r.Limited[v]++
		wait = max(0, r.When(v, r.Limited[v]))
	default:
		if wait = slices.Min(timed); outcome == "requeued" {
			plan = After
		}
	}
	if len(firm) == 0 {
		return plan, wait
	}
	return FirmRetry, max(wait, slices.Max(firm))
}

// times returns the times of the leaves of some kinds.
func times(leaves []Leaf, kinds ...Kind) (all []time.Duration) {
	for _, l := range leaves {
		if slices.Contains(kinds, l.Kind) {
			all = append(all, l.Wait)
		}
	}
	return all
}

// rank is what a retry says of its item: the priority of the hand-out.
func rank(p Place) Place { return Place{Priority: p.Priority, Named: p.Named} }

// AddRateLimited adds an item after the time that the limiter says, and returns the time.
func (r *Run[T]) AddRateLimited(v T, p Place) (wait time.Duration) {
	r.Limited[v]++
	wait = max(0, r.When(v, r.Limited[v]))
	r.Later(Backoff, v, wait, 0, p)
	return wait
}

// Forget begins the counts of the limiter and of Run anew.
func (r *Run[T]) Forget(v T) {
	delete(r.Limited, v)
	delete(r.Failures, v)
}

// Remove is that of the queue, and begins the counts of Run anew.
func (r *Run[T]) Remove(v T) bool {
	delete(r.Failures, v)
	delete(r.cancels, v)
	return r.Queue.Remove(v)
}
