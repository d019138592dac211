package workqueue

import (
	"math"
	"runtime"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/agenda"
	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/gate"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// This file has the two moves of a delayed item: an AddAfter puts the item into the agenda
// of a TypedDelaying, and at its due time the item moves to the queue below. If the queue
// below is a Typed, the second move holds both locks, and takes the lock of the delaying
// queue first. So the item is at any time in exactly one of the two queues, where Remove
// and Snapshot find the item.

const (
	// dueBatch is how many due items are added in one critical section of both queues. It
	// bounds how long an AddAfter waits for the lock. Not tuned.
	dueBatch = 32

	// instantDelay is the longest delay for which AddAfter reads the clock twice, to see
	// whether the delay is over already: two readings lie some 20 ns apart. If the delay is
	// over, the item needs no goroutine.
	instantDelay = 100 * time.Nanosecond
)

// A request is what a call wants for an item. The placement of the add goes with the request, as it
// would be allocated in the request.
type request[T comparable] struct {
	want           want
	mode           mode
	end            fifo.End // with modeConclude
	why            fifo.Why
	hash           uint32
	item           T
	after, maxWait time.Duration // maxWait is for wantDebounce, and 0 for no latest time
}

type want uint8

const (
	wantAdd        want = iota // now; a plain wait goes on, without OneEntry
	wantDelay                  // by AddAfter, AddRateLimited and the like
	wantDebounce               //
	wantReschedule             // replaces the time
	wantWake                   // ends the wait, and begins none
)

// A mode says more of a request.
type mode uint8

const (
	modeFirm     mode = 1 << iota // the wait is firm
	modeOnce                      // with modeFirm: a queued item stays queued, and a firm wait as it is
	modeConclude                  // a Run concludes about an item that it holds
)

// has reports whether a mode has another.
func (m mode) has(o mode) bool { return m&o != 0 }

// ends reports whether the call wants that the item waits no more.
func (r *request[T]) ends() bool { return r.after <= 0 }

// keeps reports whether the item keeps the rank of its wait.
func (r *request[T]) keeps() bool { return r.want >= wantDebounce }

// replaces reports whether the request ends a firm wait, in contrast to an add, which merges into the
// wait. With StrictBackoff a retry without a wait is such an add.
func (r *request[T]) replaces() bool {
	return r.want >= wantReschedule || r.mode&(modeFirm|modeOnce) == modeFirm && r.ends()
}

// addAfter is AddAfter with a rank, and reports whether the item was taken.
func (q *TypedDelaying[T]) addAfter(item T, duration time.Duration, k fifo.Rank, m mode, why fifo.Why) (taken bool) {
	hash := slab.HashOf(item)
	if q.ShuttingDown() {
		return false
	}
	if duration <= 0 {
		return q.retryNow(hash, item, k, m)
	}
	var place fifo.Placement
	return q.delay(hash, item, duration, q.place(&place, item, k), m, why)
}

// retryNow counts a retry and adds the item, even if the metric does not return.
func (q *TypedDelaying[T]) retryNow(hash uint32, item T, k fifo.Rank, m mode) (taken bool) {
	defer func() { taken = q.addNow(hash, item, k, m) }()
	q.countRetry()
	return taken
}

// addAllAfter is addAfter for several items and a positive duration. eachPlaced hashes all
// items and asks the order about all items before the first item waits: both can panic.
func (q *TypedDelaying[T]) addAllAfter(items []T, duration time.Duration, k fifo.Rank, m mode) (taken int) {
	why := fifo.WhyDelay
	if m.has(modeFirm) {
		why = fifo.WhyDeferred
	}
	return q.eachPlaced(items, k, func(hash uint32, item T, p *fifo.Placement) bool {
		return !q.queue.ShuttingDown() && q.delay(hash, item, duration, p, m, why)
	})
}

// eachPlaced calls add for each item with its hash and its placement, and returns how many
// of the items were taken.
func (q *TypedDelaying[T]) eachPlaced(items []T, k fifo.Rank, add func(hash uint32, item T, p *fifo.Placement) bool) (taken int) {
	var few [64]uint32
	hashes := few[:0]
	for _, item := range items {
		hashes = append(hashes, slab.HashOf(item))
	}
	var each []fifo.Placement
	if q.typed != nil && q.typed.order != nil {
		each = q.typed.order.placeAll(items, k)
	}
	var same fifo.Placement
	p := rankOnly(&same, k)
	for i, item := range items {
		if each != nil {
			p = &each[i]
		}
		if add(hashes[i], item, p) {
			taken++
		}
	}
	return taken
}

func (q *TypedDelaying[T]) countRetry() {
	if q.retries != nil {
		q.retries.Inc()
	}
}

// delay counts a retry and makes the item wait, even if the metric does not return.
func (q *TypedDelaying[T]) delay(hash uint32, item T, duration time.Duration, p *fifo.Placement, m mode, why fifo.Why) (taken bool) {
	var r request[T] // Set field by field: a literal is made elsewhere and copied.
	r.want, r.mode, r.why, r.hash, r.item, r.after = wantDelay, m, why, hash, item, duration
	if q.retries == nil { // As for most queues. A defer in this function would cost them some ns.
		return q.carryOut(&r, p)
	}
	return q.countAndCarryOut(&r, p)
}

func (q *TypedDelaying[T]) countAndCarryOut(r *request[T], p *fifo.Placement) (taken bool) {
	defer func() { taken = q.carryOut(r, p) }()
	q.retries.Inc()
	return taken
}

// place asks the order of typed about an item, see [Order.place]. It asks before the wait,
// because both locks are held when the wait ends.
func (q *TypedDelaying[T]) place(p *fifo.Placement, item T, k fifo.Rank) *fifo.Placement {
	if q.typed != nil && q.typed.order != nil {
		return q.typed.order.place(p, item, k)
	}
	return rankOnly(p, k)
}

// dueAfter returns now + duration, or the largest time if the sum overflows. now can be
// negative: an injected clock may be set back to before the epoch. duration is not
// negative.
func dueAfter(now, duration time.Duration) time.Duration {
	if now > math.MaxInt64-duration {
		return math.MaxInt64
	}
	return now + duration
}

// carryOut carries out a request, and reports whether the item was taken.
func (q *TypedDelaying[T]) carryOut(r *request[T], p *fifo.Placement) (taken bool) {
	if q.typed == nil && r.ends() {
		return q.endWaitAboveForeign(r, p)
	}
	return q.promote(r, p).taken
}

// endWaitAboveForeign is carryOut for the end of a wait above a queue that is not a Typed. The two steps
// of the move then hold no common lock. The wait ends first: in the other order the loop could add the
// item once more, after a worker has got the item.
func (q *TypedDelaying[T]) endWaitAboveForeign(r *request[T], p *fifo.Placement) (taken bool) {
	var place fifo.Placement
	wait, waited := q.unplan(r, &place)
	switch {
	case waited:
		p = placeAfter(p, wait, r.keeps())
	case r.want == wantWake:
		return false
	}
	return addBelow(q.queue, r.item, p.RankOf())
}

// promote is carryOut above a Typed, or for an item that waits. It may move other items too, which have
// become due.
//
// A delay up to instantDelay may be over at a second reading of the clock: then the item is due
// already.
func (q *TypedDelaying[T]) promote(r *request[T], p *fifo.Placement) promotion {
	now := q.readClock()
	var w agenda.Timing // As in delay.
	w.Due, w.Why = dueAfter(now.now, max(0, r.after)), r.why
	switch r.want {
	case wantDelay:
		w.Once = r.mode.has(modeOnce)
		w.Firm = r.mode.has(modeFirm) && !r.ends() && slab.Equal(r.item, r.item) // Nobody could find a NaN again.
		if r.after <= instantDelay && q.real {
			now.now = q.now()
		}
	case wantDebounce:
		w.Latest = math.MaxInt64
		if r.maxWait > 0 {
			w.Latest = dueAfter(now.now, r.maxWait)
		}
	}
	a := q.act(r, p, &w, now, q.typedNow(now.now))
	if a.back {
		q.typed.metrics.removed()
	}
	if a.fresh > 0 {
		q.typed.metrics.added(a.fresh)
	}
	if a.yield {
		runtime.Gosched()
	}
	if p != nil && p.Weight > 0 && q.typed.order.isStale(p) {
		q.hearLimits()
	}
	return a
}

// A todo is what a request comes to.
type todo uint8

const (
	doNothing  todo = iota // the item is not taken, or was removed
	doMerge                // the item is queued or waits already: the priority of the add still counts
	doAdd                  // the item is added now, and its wait ends
	doWait                 // the item waits
	doWaitOn               // the item waits firmly, and the agenda takes a later time if the call is firm too
	doWaitAnew             // the item waits, and a firm wait becomes plain
	doKeep                 // the item waits, and the wait becomes firm
)

// act decides and acts in one critical section: of the agenda alone if the item simply waits, and else
// of both layers. Between a look at the queue below and the add a worker could get the item, and the
// add would count as one after the hand-out.
func (q *TypedDelaying[T]) act(r *request[T], p *fifo.Placement, w *agenda.Timing, now reading, at time.Duration) (a promotion) {
	if !q.mu.TryLock() {
		gate.LockAwake(&q.mu)
	}
	defer q.mu.Unlock()
	if r.want == wantDelay && r.mode == 0 && p == nil && !q.oneEntry && q.agenda.Firms == 0 && w.Due > now.now && !q.closed {
		// Nearly all calls. The rest of act says the same with more steps, see BenchmarkAddAfter.
		return q.arrangeLocked(q.agenda.Schedule(r.hash, r.item, now.now, w, nil), now, at)
	}
	what := doWait
	switch {
	case q.typed != nil && q.involvesLocked(r, p, w, now):
		a, what = q.actBelowLocked(r, p, w, now, at)
	case q.closed:
		what = doNothing
	}
	if what < doWait {
		return a
	}
	first := q.waitLocked(r, p, w, now)
	back := a.back
	a = q.arrangeLocked(first, now, at)
	a.after, a.back = max(0, w.Begin()-now.now), back
	return a
}

// involvesLocked reports whether a request has to do with the queue below. A plain wait that only begins or
// moves has not, and so needs one lock.
func (q *TypedDelaying[T]) involvesLocked(r *request[T], p *fifo.Placement, w *agenda.Timing, now reading) bool {
	return q.oneEntry || r.mode != 0 || p != nil && p.Weight > 0 || r.want == wantWake || q.agenda.Firms > 0 || w.Due <= now.now
}

// actBelowLocked acts on the queue below. Its lock has no deferred Unlock: a Queue that does not return
// gives the lock back.
func (q *TypedDelaying[T]) actBelowLocked(r *request[T], p *fifo.Placement, w *agenda.Timing, now reading, at time.Duration) (a promotion, what todo) {
	t := q.typed
	gate.LockSoon(&t.mu)
	switch what = q.decideBothLocked(r, w, now); what {
	case doNothing:
		if r.mode.has(modeConclude) {
			a.concluded = t.fifo.Conclude(r.hash, r.item, fifo.EndWorked, 0, nil)
		}
	case doMerge:
		a = q.mergeBothLocked(r, p, at)
	case doAdd:
		a = q.promoteBothLocked(r, p, w, now, at)
	case doWaitAnew:
		q.softenBothLocked(r.hash, r.item)
	case doKeep:
		a.back = q.keepBothLocked(r, p)
	case doWaitOn:
		if !r.keeps() {
			t.addLocked(r.hash, r.item, at, p) // Raises the rank.
		}
	}
	if what >= doWait && p != nil && p.Weight > 0 {
		t.fifo.Hear(p) // The last add of a group decides its weight and limit, whenever its item is due.
	}
	t.settle()
	t.mu.Unlock()
	return a, what
}

// mergeBothLocked has the entry that the item has in the queue below stand for the request too.
func (q *TypedDelaying[T]) mergeBothLocked(r *request[T], p *fifo.Placement, at time.Duration) (a promotion) {
	a.taken = true
	switch {
	case r.mode.has(modeConclude):
		a.concluded = q.typed.concludeLocked(r.hash, r.item, max(r.end, fifo.EndRetry), at, p)
	case r.ends() || r.want != wantReschedule && (p != nil || !q.typed.fifo.IsPlain()):
		q.typed.addLocked(r.hash, r.item, at, p) // Adds no item. A Queue is told of it.
	}
	return a
}

// decideBothLocked says what a request comes to, and notes the floor of ItemPace in w. Both locks are held.
// The order of the cases matters: a Wake passes the floor, and a firm wait comes before the line.
func (q *TypedDelaying[T]) decideBothLocked(r *request[T], w *agenda.Timing, now reading) todo {
	s := q.standBothLocked(r)
	w.Floor = q.typed.paces.floor(r.hash, r.item)
	pending := s.Has(fifo.StandQueued | fifo.StandAgain)
	switch {
	case s.Has(fifo.StandRemoved) && r.mode.has(modeConclude), q.closed && !r.ends():
		return doNothing
	case r.want == wantWake:
		return q.wakeBothLocked(r)
	case q.closed: // Nothing waits any more, but the queue below may still be open.
		return doAdd
	case s.Has(fifo.StandWoken) && q.isOfTheHandOut(r, w): // As if the Wake came after the wait had begun.
		return doAdd
	case s.Has(fifo.StandFirm) && !r.replaces():
		return waitOn(r)
	case pending && (q.oneEntry || w.Firm):
		return joinPending(s, w)
	}
	return q.decideByTimeLocked(r, s, w, now)
}

// standBothLocked returns where an item is below, or nothing if the time alone decides: most adds need no
// look.
func (q *TypedDelaying[T]) standBothLocked(r *request[T]) fifo.Stand {
	if r.mode == 0 && q.agenda.Firms == 0 && (!q.oneEntry || r.ends() && q.typed.paces == nil) {
		return 0
	}
	return q.typed.fifo.StandOf(r.hash, r.item)
}

// isOfTheHandOut reports whether the wait of a held item is what its next hand-out waits for. Without
// OneEntry, the wait of an AddAfter stands beside.
func (q *TypedDelaying[T]) isOfTheHandOut(r *request[T], w *agenda.Timing) bool {
	return w.Firm || r.mode.has(modeConclude) || q.oneEntry && r.want == wantDelay
}

// joinPending says what becomes of a wait of an item that is queued or marked: a firm wait takes the item out
// of the line, if the wait is not the kind that an item in the line is spared.
func joinPending(s fifo.Stand, w *agenda.Timing) todo {
	if w.Firm && !(w.Once && s.Has(fifo.StandQueued)) {
		return doKeep
	}
	return doMerge
}

// decideByTimeLocked says whether an item with nothing in its way is added now or waits.
func (q *TypedDelaying[T]) decideByTimeLocked(r *request[T], s fifo.Stand, w *agenda.Timing, now reading) todo {
	redo := r.mode.has(modeConclude) && r.end == fifo.EndRedo // It goes on with the hand-out that it had.
	// If another item waits, an item that is due goes through the agenda, behind those that were due before.
	due := r.ends() || w.Due <= now.now && q.agenda.Len() == 0
	switch {
	case redo, due && w.Floor <= max(0, now.now):
		return doAdd
	case w.Firm:
		return doKeep
	case s.Has(fifo.StandFirm):
		return doWaitAnew
	}
	return doWait
}

// waitOn says what becomes of an add of an item that waits firmly.
func waitOn[T comparable](r *request[T]) todo {
	if r.ends() && !r.keeps() {
		return doMerge
	}
	return doWaitOn
}

// keepBothLocked has the FIFO of the queue below keep an item, with the higher rank of the call and of the
// wait that becomes firm. It reports whether an add was taken back.
func (q *TypedDelaying[T]) keepBothLocked(r *request[T], p *fifo.Placement) (back bool) {
	k := p.RankOf()
	if e, waits := q.agenda.Find(r.hash, r.item); waits && k.Priority <= e.Rank.Priority {
		k = e.Rank
	}
	return q.typed.fifo.Keep(r.hash, r.item, k)
}

// wakeBothLocked notes a Wake for the worker that holds the item, and says whether a wait ends.
func (q *TypedDelaying[T]) wakeBothLocked(r *request[T]) todo {
	q.typed.fifo.Wake(r.hash, r.item)
	if !q.agenda.Waits(r.hash, r.item) {
		return doNothing
	}
	return doAdd
}

// waitLocked has the item of a request wait, and reports whether the earliest due time has
// changed.
func (q *TypedDelaying[T]) waitLocked(r *request[T], p *fifo.Placement, w *agenda.Timing, now reading) (first bool) {
	switch {
	case r.want == wantReschedule:
		return q.agenda.Reschedule(r.hash, r.item, now.now, w, p)
	case r.want == wantDebounce && !r.ends():
		return q.agenda.Debounce(r.hash, r.item, now.now, w, p)
	}
	return q.agenda.Schedule(r.hash, r.item, now.now, w, p)
}

// A promotion is the work that is left when items have moved from the agenda to the queue
// below and the locks are free. Metrics are foreign code, and must not run with a lock
// held.
type promotion struct {
	after time.Duration // how long the item of the call waits, unless it waited before
	fresh int           // how many items were no duplicates
	effects
	concluded fifo.Conclusion // about the item of a Run
}

// effects are a struct of their own, because the compiler keeps a struct in registers only if it has at
// most four fields: see BenchmarkAddAfter.
type effects struct {
	taken bool // the item of the call was taken: the item waits, or is in the queue below
	yield bool // a woken worker needs the processor of the caller
	back  bool // an add of the item of the call was taken back
}

// arrangeLocked follows each change of the agenda. It ensures that a goroutine runs while
// items wait, and that the goroutine wakes up in time. The item of the call waits, and so
// counts as taken. first says whether the earliest due time has changed: only then may the
// timer be set too late.
func (q *TypedDelaying[T]) arrangeLocked(first bool, r reading, at time.Duration) promotion {
	if !q.real {
		q.planned.Store(q.agenda.Plans())
	}
	a := q.hurryLocked(r, at)
	a.taken = true
	switch {
	case q.agenda.Len() == 0:
		if q.running {
			q.poke()
		}
	case !q.running:
		q.running = true
		q.starts++
		q.loops.Enter()
		go q.loop()
	case first || q.agenda.Next() <= r.now:
		q.poke()
	}
	return a
}

// hurryLocked adds due items in place of waitingLoop. The loop may be late: processors look
// at timers only when they look for work. If all processors are busy with goroutines that
// call AddAfter in a loop, a look comes only every 10 ms or more. So each AddAfter adds the
// due items.
//
// A worker that is woken for a due item is late for the same reason. So every AddAfter
// yields until the worker has arrived. One yield is not enough, because a goroutine that is
// handed a lock runs before the worker. See TestFloodOfAddAfterDoesNotHoldUpWhatIsDue and
// docs/decisions.md.
//
// If the queue below is foreign code, AddAfter yields to the loop instead. Foreign code
// must not run with the lock held, and a panic would keep arrangeLocked from coming to its
// end.
func (q *TypedDelaying[T]) hurryLocked(r reading, at time.Duration) (a promotion) {
	behind := q.agenda.Due(r.now, r.plans)
	switch {
	case q.typed == nil || q.typed.fifo.Queue() != nil:
		a.yield = behind
	case behind:
		a = q.moveDueLocked(r, at)
		q.urgent = a.yield
	case q.urgent:
		q.urgent = q.typed.isWaking()
		a.yield = q.urgent
	}
	return a
}

// moveDueLocked moves up to dueBatch due items to typed, in one critical section of typed
// with one wake-up at its end. It reads waking after settle, which may have set waking.
func (q *TypedDelaying[T]) moveDueLocked(r reading, at time.Duration) (a promotion) {
	q.typed.mu.Lock()
	for n := 0; n < dueBatch && q.agenda.Len() > 0 && q.agenda.Due(r.now, r.plans); n++ {
		q.metrics.observeLateness(r.now - q.agenda.Next())
		if item, firm := q.agenda.FirstFirm(); firm {
			q.softenBothLocked(slab.HashOf(item), item)
		}
		var place fifo.Placement
		hash, item, p := q.agenda.Pop(&place)
		q.noteMoveLocked(item)
		if q.typed.addLocked(hash, item, at, p) {
			a.fresh++
		}
	}
	q.typed.settle()
	a.yield = q.typed.waking
	q.typed.mu.Unlock()
	return a
}

// noteMoveLocked notes an item that has become due, for each RemoveFunc.
func (q *TypedDelaying[T]) noteMoveLocked(item T) {
	for log := q.moves; log != nil; log = log.next {
		log.items = append(log.items, item)
	}
}

// isWaking reports whether a woken worker has not arrived yet.
func (q *Typed[T]) isWaking() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waking
}

// promoteBothLocked ends the wait of the item, if the item waits, and adds the item to the queue below.
// Both locks are held: otherwise a Snapshot could show the item twice or not at all.
func (q *TypedDelaying[T]) promoteBothLocked(r *request[T], p *fifo.Placement, w *agenda.Timing, now reading, at time.Duration) (a promotion) {
	if !r.ends() && w.Due <= now.now {
		q.metrics.observeLateness(now.now - w.Due)
	}
	t, said := q.typed, p
	var place fifo.Placement
	if r.want != wantAdd || q.oneEntry || r.mode.has(modeFirm) {
		q.softenBothLocked(r.hash, r.item)
		if wait, waited := q.unplanLocked(r.hash, r.item, &place); waited {
			p = placeAfter(p, wait, r.keeps())
			if r.want == wantWake { // In contrast to an add, it is not a new item that a RemoveFunc may miss.
				q.noteMoveLocked(r.item)
			}
		}
	}
	t.fifo.Hear(said)
	added := false
	if r.mode.has(modeConclude) {
		a.concluded = t.concludeLocked(r.hash, r.item, max(r.end, fifo.EndRetry), at, p)
		added, a.taken = a.concluded.Added, a.concluded.Again && !a.concluded.Removed
	} else {
		a.taken = !t.fifo.Closed
		added = t.addLocked(r.hash, r.item, at, p)
	}
	if added {
		a.fresh = 1
	}
	return a
}

// softenBothLocked makes a firm wait plain. Both locks are held.
func (q *TypedDelaying[T]) softenBothLocked(hash uint32, item T) {
	if q.agenda.Firms == 0 {
		return
	}
	if k, ok := q.typed.fifo.Unkeep(hash, item); ok {
		q.agenda.Soften(hash, item, k)
	}
}

// placeAfter returns the placement of an add that ends a wait. The wait keeps its group, and
// with keep its rank. Otherwise the higher priority counts. If the add names the group of
// the wait, the weight and the limit from the add count.
func placeAfter(p, wait *fifo.Placement, keep bool) *fifo.Placement {
	higher := !keep && p.Number() > wait.Number()
	switch {
	case wait == nil && higher:
		return p
	case wait == nil:
		return nil
	case higher:
		wait.Rank = p.RankOf()
	}
	if p != nil && p.Group == wait.Group { // For a group that is new to the order. Hear tells any other.
		wait.Weight, wait.Limit = p.Weight, p.Limit
	}
	return wait
}

// unplanLocked ends the wait of the item, and reports whether the item waited. It returns
// the placement of the wait in the memory of the caller, if there is memory. After the end
// of the last wait, the goroutine has to look again, and ends.
func (q *TypedDelaying[T]) unplanLocked(hash uint32, item T, memory *fifo.Placement) (p *fifo.Placement, waited bool) {
	if q.agenda.Len() == 0 {
		return nil, false
	}
	if p, waited = q.agenda.Remove(hash, item, memory); waited && q.agenda.Len() == 0 {
		q.poke()
	}
	return p, waited
}

// typedNow returns the time that typed notes for an item added now. If typed has a clock of
// its own, typedNow reads the clock of typed. That clock may be foreign code, so a caller
// must not hold a lock.
func (q *TypedDelaying[T]) typedNow(now time.Duration) time.Duration {
	if q.aligned {
		return now
	}
	return q.typed.metrics.now()
}

// addNow adds the item at once. With OneEntry, or a mode, the add ends the wait of the item.
func (q *TypedDelaying[T]) addNow(hash uint32, item T, k fifo.Rank, m mode) (taken bool) {
	if !q.oneEntry && m == 0 {
		return addBelow(q.queue, item, k)
	}
	var place fifo.Placement
	return q.addPlaced(hash, item, q.place(&place, item, k), m)
}

func (q *TypedDelaying[T]) addPlaced(hash uint32, item T, p *fifo.Placement, m mode) (taken bool) {
	var r request[T] // As in delay.
	r.mode, r.hash, r.item = m, hash, item
	return q.carryOut(&r, p)
}

// unplan ends the wait of an item above a queue that is not a Typed.
func (q *TypedDelaying[T]) unplan(r *request[T], memory *fifo.Placement) (p *fifo.Placement, waited bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p, waited = q.unplanLocked(r.hash, r.item, memory); waited && r.want == wantWake {
		q.noteMoveLocked(r.item)
	}
	return p, waited
}

// takeBack removes an item from both layers, and reports whether there was the item.
func (q *TypedDelaying[T]) takeBack(item T) (had bool) {
	waited, had, back := q.removeTyped(slab.HashOf(item), item)
	if back {
		q.typed.metrics.removed()
	}
	return waited || had
}

// removeTyped is takeBack without the metrics. Both locks are held for the whole: an Add between the end of
// a firm wait and the removal would queue the item.
func (q *TypedDelaying[T]) removeTyped(hash uint32, item T) (waited, had, back bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.typed.mu.Lock()
	defer q.typed.mu.Unlock()
	q.softenBothLocked(hash, item)
	_, waited = q.unplanLocked(hash, item, nil)
	if had, back = q.typed.removeLocked(hash, item, waited); had && q.dropped != nil {
		q.dropped.agenda.Remove(hash, item, nil)
	}
	q.typed.settle()
	return waited, had, back
}
