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

// A plan is what a call wants for an item. The caller sets the first fields, and carryOut the
// others. The placement of the add goes beside the plan, as it would be allocated in the plan.
type plan[T comparable] struct {
	kind        planKind
	mode        mode
	end         fifo.End // with modeConclude
	hash        uint32
	item        T
	after, most time.Duration // most is for planDebounce, and 0 for no latest time

	r reading
	agenda.Timing
	unmarked bool // the re-add of the item was taken back
}

type planKind uint8

const (
	planAdd   planKind = iota // an Add with OneEntry: now
	planReAdd                 // an Add of a Run for the item at work: without ItemPace, and beside a wait
	planDelay                 // AddAfter and AddRateLimited, with a positive delay
	planReschedule
	planDebounce
)

// A mode says more of an add with a delay.
type mode uint8

const (
	modeStrict   mode = 1 << iota // an Add must not end the wait
	modeConclude                  // a Run concludes about an item that it holds
)

// ends reports whether the call wants that the item waits no more.
func (w *plan[T]) ends() bool { return w.after <= 0 }

// keeps reports whether the item keeps the rank of its wait.
func (w *plan[T]) keeps() bool { return w.kind >= planReschedule }

// addAfter is AddAfter with a rank, and reports whether the item was taken.
func (q *TypedDelaying[T]) addAfter(item T, duration time.Duration, k fifo.Rank, m mode) (taken bool) {
	hash := slab.HashOf(item)
	if q.ShuttingDown() {
		return false
	}
	if duration <= 0 {
		return q.retryNow(hash, item, k)
	}
	var place fifo.Placement
	return q.delay(hash, item, duration, q.place(&place, item, k), m)
}

// retryNow counts a retry and adds the item, even if the metric does not return.
func (q *TypedDelaying[T]) retryNow(hash uint32, item T, k fifo.Rank) (taken bool) {
	defer func() { taken = q.addNow(hash, item, k) }()
	q.countRetry()
	return taken
}

// addAllAfter is addAfter for several items and a positive duration. eachPlaced hashes all
// items and asks the order about all items before the first item waits: both can panic.
func (q *TypedDelaying[T]) addAllAfter(items []T, duration time.Duration, k fifo.Rank) (taken int) {
	return q.eachPlaced(items, k, func(hash uint32, item T, p *fifo.Placement) bool {
		return !q.queue.ShuttingDown() && q.delay(hash, item, duration, p, 0)
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
func (q *TypedDelaying[T]) delay(hash uint32, item T, duration time.Duration, p *fifo.Placement, m mode) (taken bool) {
	var w plan[T] // Set field by field: a literal is made elsewhere and copied.
	w.kind, w.mode, w.hash, w.item, w.after = planDelay, m, hash, item, duration
	if q.retries == nil { // As for most queues. A defer in this function would cost them some ns.
		return q.carryOut(&w, p)
	}
	return q.countAndCarryOut(&w, p)
}

func (q *TypedDelaying[T]) countAndCarryOut(w *plan[T], p *fifo.Placement) (taken bool) {
	defer func() { taken = q.carryOut(w, p) }()
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

// carryOut carries out a plan, and reports whether the item was taken.
//
// A delay up to instantDelay may be over at a second reading of the clock: then the item is due
// already.
func (q *TypedDelaying[T]) carryOut(w *plan[T], p *fifo.Placement) (taken bool) {
	if q.typed == nil && w.ends() {
		return q.endWaitAboveForeign(w, p)
	}
	return q.promote(w, p).taken
}

// promote is carryOut without foreign code below, or for an item that waits. It may move other items
// too, which have become due.
func (q *TypedDelaying[T]) promote(w *plan[T], p *fifo.Placement) promotion {
	w.r = q.readClock()
	w.Due = dueAfter(w.r.now, max(0, w.after))
	switch {
	case w.kind == planDelay:
		w.Strict = w.mode&modeStrict != 0
		if w.after <= instantDelay && q.real {
			w.r.now = q.now()
		}
	case w.kind == planDebounce:
		w.Latest = math.MaxInt64
		if w.most > 0 {
			w.Latest = dueAfter(w.r.now, w.most)
		}
	}
	at := q.typedNow(w.r.now)
	var a promotion
	if q.pace == nil {
		a, _ = q.carryOutOnce(w, p, at, true)
	} else {
		a = q.carryOutPaced(w, p, at)
	}
	if w.unmarked {
		q.typed.metrics.removed()
	}
	if a.fresh > 0 || a.yield {
		q.observePromotion(a)
	}
	return a
}

// endWaitAboveForeign is carryOut for the end of a wait above foreign code. The two steps of the
// move then hold no common lock. The wait ends first: in the other order the loop could add the
// item once more, after a worker has got the item.
func (q *TypedDelaying[T]) endWaitAboveForeign(w *plan[T], p *fifo.Placement) (taken bool) {
	var place fifo.Placement
	if wait, waited := q.unplan(w.hash, w.item, &place); waited {
		p = endWait(p, wait, w.keeps())
	}
	return addBelow(q.queue, w.item, p.RankOf())
}

// carryOutPaced is carryOut with ItemPace. The item waits for the limiter once for each hand-out:
// the first call after the hand-out asks the limiter. That is the call that finds the item neither
// queued nor waiting. The limiter is foreign code, and is asked without the lock of the queue. The
// lock pacing keeps all other calls from finding the same in the meantime.
func (q *TypedDelaying[T]) carryOutPaced(w *plan[T], p *fifo.Placement, at time.Duration) promotion {
	q.pacing.Lock()
	defer q.pacing.Unlock()
	a, done := q.carryOutOnce(w, p, at, w.kind == planReAdd)
	if !done {
		if d := q.pace.When(w.item); d > 0 {
			w.Floor = dueAfter(q.now(), d) // When counts from some moment before its return.
		}
		a, _ = q.carryOutOnce(w, p, at, true)
	}
	return a
}

// carryOutOnce does nothing and reports false if the limiter of ItemPace has to be asked first.
//
// If no other item waits, an item of an AddAfter that is due already is added without a detour
// through the agenda. Otherwise the item goes through the agenda, behind items that were due
// before.
func (q *TypedDelaying[T]) carryOutOnce(w *plan[T], p *fifo.Placement, at time.Duration, asked bool) (a promotion, done bool) {
	if !q.mu.TryLock() {
		gate.LockAwake(&q.mu)
	}
	defer q.mu.Unlock()
	if q.closed || q.oneEntry || w.mode&modeConclude != 0 {
		var how int
		if p, a, how = q.specialLocked(w, p, at, asked); how != planGoesOn {
			return a, how == planIsOver
		}
	}
	if w.Due <= w.r.now && q.mayGoLocked(w) {
		if !w.ends() {
			q.metrics.observeLateness(w.r.now - w.Due)
		}
		return q.promoteLocked(w, p, at), true
	}
	if p != nil {
		q.hearLocked(p)
	}
	if w.kind != planDelay {
		return q.arrangeLocked(q.waitLocked(w, p), w.r, at), true
	}
	return q.arrangeLocked(q.agenda.Schedule(w.hash, w.item, w.r.now, &w.Timing, p), w.r, at), true
}

// mayGoLocked reports whether the item of the plan, which is due, is added now.
func (q *TypedDelaying[T]) mayGoLocked(w *plan[T]) bool {
	if w.Floor > max(0, w.r.now) && w.kind != planReAdd {
		return false
	}
	return w.ends() || q.typed != nil && q.agenda.Len() == 0
}

// waitLocked has the item of a plan without a delay of its own wait, and reports whether the
// earliest due time has changed.
func (q *TypedDelaying[T]) waitLocked(w *plan[T], p *fifo.Placement) (first bool) {
	switch {
	case w.kind == planReschedule:
		return q.agenda.Reschedule(w.hash, w.item, w.r.now, &w.Timing, p)
	case w.kind == planDebounce && !w.ends():
		return q.agenda.Debounce(w.hash, w.item, w.r.now, &w.Timing, p)
	}
	return q.agenda.Schedule(w.hash, w.item, w.r.now, &w.Timing, p)
}

const (
	planGoesOn = iota // nothing has been done
	planIsOver        // the plan is carried out
	planAsks          // the limiter of ItemPace has to be asked first
)

// specialLocked carries out a plan in a queue that is closed, for an item that a RemoveFunc has let
// go of, and for an item that OneEntry keeps from waiting. For any other item specialLocked
// looks for the floor, and returns the placement for the wait.
func (q *TypedDelaying[T]) specialLocked(w *plan[T], p *fifo.Placement, at time.Duration, asked bool) (_ *fifo.Placement, a promotion, how int) {
	if w.mode&modeConclude != 0 {
		if c := q.lookBelow(w.hash, w.item); c.Removed {
			return p, promotion{concluded: c}, planIsOver
		}
	}
	switch {
	case q.closed && w.ends(): // Nothing waits any more, but the queue below may still be open.
		return p, q.promoteLocked(w, p, at), planIsOver
	case q.closed:
		return p, promotion{}, planIsOver
	case w.Strict:
		p = q.unmarkLocked(w, p)
		asked = asked || w.unmarked // The re-add was the first call after the hand-out.
	}
	if q.oneEntry && (!w.ends() || !asked) {
		if a, queued := q.queuedLocked(w, p, at); queued {
			return p, a, planIsOver
		}
	}
	if q.holds {
		waits, floor := q.agenda.FloorOf(w.hash, w.item, w.kind != planReschedule)
		if !asked && !waits {
			return p, promotion{}, planAsks
		}
		w.Floor = max(w.Floor, floor)
	}
	return p, promotion{}, planGoesOn
}

// unmarkLocked takes back the re-add of a held item for a strict wait, and returns the placement
// of the wait. The wait gets the priority of the re-add if that is higher. Without unmarkLocked,
// an event that comes while a worker is at the item would undo the backoff of each failure.
func (q *TypedDelaying[T]) unmarkLocked(w *plan[T], p *fifo.Placement) *fifo.Placement {
	t := q.typed
	gate.LockSoon(&t.mu)
	defer t.mu.Unlock()
	k, marked := t.fifo.MarkOf(w.hash, w.item)
	if !marked {
		return p
	}
	t.fifo.Remove(w.hash, w.item)
	t.settle()
	w.unmarked = true
	if k.Priority > p.Number() {
		if p == nil {
			p = new(fifo.Placement)
		}
		p.Rank = k
	}
	return p
}

// hearLocked tells the order of an add that waits: the last add of a group decides the weight and
// the limit of the group, whenever its item is due.
func (q *TypedDelaying[T]) hearLocked(p *fifo.Placement) {
	if p.Weight == 0 {
		return
	}
	q.typed.mu.Lock()
	defer q.typed.mu.Unlock()
	q.typed.fifo.Hear(p)
	q.typed.settle()
}

// lookBelow reports whether the item of a Run was removed. A RemoveFunc of this queue removes held
// items with mu held, or before it removes the waiting items: no removed item goes on to wait.
func (q *TypedDelaying[T]) lookBelow(hash uint32, item T) fifo.Conclusion {
	t := q.below()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fifo.Conclude(hash, item, fifo.EndWorked, 0, nil)
}

// queuedLocked carries out the plan for an item that OneEntry keeps from waiting, because the item
// is queued, or will be by its Done. The priority of the add still counts, and a Queue is told of
// the add as of any other. Between the look and the add a worker could get the item, and the add
// would count as one after the hand-out.
func (q *TypedDelaying[T]) queuedLocked(w *plan[T], p *fifo.Placement, at time.Duration) (a promotion, queued bool) {
	t := q.typed
	gate.LockSoon(&t.mu)
	queued = t.fifo.IsQueued(w.hash, w.item)
	if queued && (w.ends() || w.kind != planReschedule && (p != nil || !t.fifo.IsPlain())) {
		t.addLocked(w.hash, w.item, at, p) // Adds no item, as this one is queued.
		t.settle()
	}
	t.mu.Unlock()
	a.taken = true
	return a, queued
}

// A promotion is the work that is left when items have moved from the agenda to the queue
// below and the locks are free. Metrics are foreign code, and must not run with a lock
// held.
type promotion struct {
	taken bool // the item of the call was taken: the item waits, or is in the queue below
	fresh int  // how many items were no duplicates
	yield bool // a woken worker needs the processor of the caller

	concluded fifo.Conclusion // about the item of a Run
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

// promoteLocked ends the wait of the item, if the item waits, and adds the item to typed.
// mu is held during both steps: otherwise a Snapshot could show the item twice or not at
// all.
func (q *TypedDelaying[T]) promoteLocked(w *plan[T], p *fifo.Placement, at time.Duration) (a promotion) {
	var place fifo.Placement
	said := p
	if w.kind != planReAdd || q.oneEntry {
		if wait, waited := q.unplanLocked(w.hash, w.item, &place); waited {
			p = endWait(p, wait, w.keeps())
		}
	}
	gate.LockSoon(&q.typed.mu)
	a.taken = !q.typed.fifo.Closed
	q.typed.fifo.Hear(said)
	added := false
	if w.mode&modeConclude == 0 {
		added = q.typed.addLocked(w.hash, w.item, at, p)
	} else {
		a.concluded = q.typed.concludeLocked(w.hash, w.item, w.end, at, p)
		added, a.taken = a.concluded.Added, a.concluded.Again && !a.concluded.Removed
	}
	if added {
		a.fresh = 1
	}
	q.typed.settle()
	q.typed.mu.Unlock()
	return a
}

// endWait returns the placement of an add that ends a wait. The wait keeps its group, and
// with keep its rank. Otherwise the higher priority counts. If the add names the group of
// the wait, the weight and the limit from the add count.
func endWait(p, wait *fifo.Placement, keep bool) *fifo.Placement {
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

// observePromotion does the work of a promotion when the locks are free.
func (q *TypedDelaying[T]) observePromotion(a promotion) {
	if a.fresh > 0 {
		q.typed.observeAdds(a.fresh)
	}
	if a.yield {
		runtime.Gosched()
	}
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

// addNow adds the item at once. With OneEntry the add ends the wait of the item.
func (q *TypedDelaying[T]) addNow(hash uint32, item T, k fifo.Rank) (taken bool) {
	if !q.oneEntry {
		return addBelow(q.queue, item, k)
	}
	var place fifo.Placement
	return q.addPlaced(hash, item, q.place(&place, item, k))
}

func (q *TypedDelaying[T]) addPlaced(hash uint32, item T, p *fifo.Placement) (taken bool) {
	var w plan[T] // As in delay.
	w.hash, w.item = hash, item
	return q.carryOut(&w, p)
}

// unplan is unplanLocked for a caller without the lock.
func (q *TypedDelaying[T]) unplan(hash uint32, item T, memory *fifo.Placement) (p *fifo.Placement, waited bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unplanLocked(hash, item, memory)
}

// takeBack removes an item from both layers, and reports whether there was anything to remove. An
// add of the item that comes later must not find the limiter of ItemPace before its Forget.
func (q *TypedDelaying[T]) takeBack(item T, fully bool) (removed bool) {
	hash := slab.HashOf(item)
	if q.pace != nil {
		q.pacing.Lock()
		defer q.pacing.Unlock()
	}
	waited, queued := q.removeTyped(hash, item, fully)
	if queued {
		q.typed.metrics.removed()
	}
	if q.pace != nil && (waited || queued) {
		q.pace.Forget(item)
	}
	return waited || queued
}

func (q *TypedDelaying[T]) removeTyped(hash uint32, item T, fully bool) (waited, queued bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, waited = q.unplanLocked(hash, item, nil)
	return waited, q.typed.remove(hash, item, fully)
}
