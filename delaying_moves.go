package workqueue

import (
	"math"
	"runtime"
	"time"

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

// addAfter is AddAfter with a rank, and reports whether the item was taken.
func (q *TypedDelaying[T]) addAfter(item T, duration time.Duration, k rank) (taken bool) {
	hash := slab.HashOf(item)
	if q.queue.ShuttingDown() {
		return false
	}
	if duration <= 0 {
		defer func() { taken = q.addNow(hash, item, k) }() // Even if the metric does not return.
		q.countRetry()
		return taken
	}
	var place placement
	return q.delay(hash, item, duration, q.place(&place, item, k))
}

// addAllAfter is addAfter for several items and a positive duration. eachPlaced hashes all
// items and asks the order about all items before the first item waits: both can panic.
func (q *TypedDelaying[T]) addAllAfter(items []T, duration time.Duration, k rank) (taken int) {
	return q.eachPlaced(items, k, func(hash uint32, item T, p *placement) bool {
		return !q.queue.ShuttingDown() && q.delay(hash, item, duration, p)
	})
}

// eachPlaced calls add for each item with its hash and its placement, and returns how many
// of the items were taken.
func (q *TypedDelaying[T]) eachPlaced(items []T, k rank, add func(hash uint32, item T, p *placement) bool) (taken int) {
	var few [64]uint32
	hashes := few[:0]
	for _, item := range items {
		hashes = append(hashes, slab.HashOf(item))
	}
	var each []placement
	if q.typed != nil && q.typed.order != nil {
		each = q.typed.order.placeAll(items, k)
	}
	var same placement
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
func (q *TypedDelaying[T]) delay(hash uint32, item T, duration time.Duration, p *placement) (taken bool) {
	if q.retries == nil {
		return q.delayUncounted(hash, item, duration, p)
	}
	defer func() { taken = q.delayUncounted(hash, item, duration, p) }()
	q.retries.Inc()
	return taken
}

// delayUncounted is delay without the metric. A delay up to instantDelay may be over at the
// second reading of the clock: then the item is due already.
func (q *TypedDelaying[T]) delayUncounted(hash uint32, item T, duration time.Duration, p *placement) (taken bool) {
	r := q.readClock()
	due := dueAfter(r.now, duration)
	if duration <= instantDelay && q.real {
		r.now = q.now()
	}
	return q.observePromotion(q.schedule(hash, item, r, due, p))
}

// place asks the order of typed about an item, see [Order.place]. It asks before the wait,
// because both locks are held when the wait ends.
func (q *TypedDelaying[T]) place(p *placement, item T, k rank) *placement {
	if q.typed != nil {
		return q.typed.place(p, item, k)
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

// schedule makes the item wait, or adds an item that is due by now. If no other item waits,
// the due item is added without a detour through the agenda. Otherwise the due item goes
// through the agenda, behind items that were due before.
func (q *TypedDelaying[T]) schedule(hash uint32, item T, r reading, due time.Duration, p *placement) promotion {
	added := q.typedNow(r.now)
	if !q.mu.TryLock() {
		gate.LockAwake(&q.mu)
	}
	defer q.mu.Unlock()
	if q.closed {
		return promotion{}
	}
	if q.hasEntryLocked(hash, item) {
		return q.raiseLocked(hash, item, added, p)
	}
	if due <= r.now && q.typed != nil && q.agenda.len() == 0 {
		q.metrics.observeLateness(r.now - due)
		return q.promoteLocked(hash, item, added, p, false)
	}
	first := q.agenda.schedule(hash, item, r.now, due, p)
	return q.arrangeLocked(first, r, added)
}

// A promotion is the work that is left when items have moved from the agenda to the queue
// below and the locks are free. Metrics are foreign code, and must not run with a lock
// held.
type promotion struct {
	taken bool // the item of the call was taken: the item waits, or is in the queue below
	added int  // how many items were no duplicates
	yield bool // a woken worker needs the processor of the caller
}

// arrangeLocked follows each change of the agenda. It ensures that a goroutine runs while
// items wait, and that the goroutine wakes up in time. The item of the call waits, and so
// counts as taken. first says whether the earliest due time has changed: only then may the
// timer be set too late.
func (q *TypedDelaying[T]) arrangeLocked(first bool, r reading, added time.Duration) promotion {
	if !q.real {
		q.planned.Store(q.agenda.plans())
	}
	a := q.hurryLocked(r, added)
	a.taken = true
	switch {
	case q.agenda.len() == 0:
		if q.running {
			q.poke()
		}
	case !q.running:
		q.running = true
		q.loops.Enter()
		go q.loop()
	case first || q.agenda.next() <= r.now:
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
func (q *TypedDelaying[T]) hurryLocked(r reading, added time.Duration) (a promotion) {
	behind := q.agenda.due(r)
	switch {
	case q.typed == nil || q.typed.fifo.storage != nil:
		a.yield = behind
	case behind:
		a = q.moveDueLocked(r, added)
		q.urgent = a.yield
	case q.urgent:
		q.urgent = q.typed.isWaking()
		a.yield = q.urgent
	}
	return a
}

// moveDueLocked moves up to dueBatch due items to typed, in one critical section of typed
// with one wake-up at its end. It reads waking after settle, which may have set waking.
func (q *TypedDelaying[T]) moveDueLocked(r reading, added time.Duration) (a promotion) {
	q.typed.mu.Lock()
	for n := 0; n < dueBatch && q.agenda.len() > 0 && q.agenda.due(r); n++ {
		q.metrics.observeLateness(r.now - q.agenda.next())
		var place placement
		hash, item, p := q.agenda.pop(&place)
		if q.typed.addLocked(hash, item, added, p) {
			a.added++
		}
	}
	q.typed.settle()
	a.yield = q.typed.waking
	q.typed.mu.Unlock()
	return a
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
func (q *TypedDelaying[T]) promoteLocked(hash uint32, item T, added time.Duration, p *placement, keep bool) (a promotion) {
	var place placement
	said := p
	if wait, waited := q.unplanLocked(hash, item, &place); waited {
		p = p.endWait(wait, keep)
	}
	gate.LockSoon(&q.typed.mu)
	a.taken = !q.typed.fifo.closed
	q.typed.fifo.hear(said)
	if q.typed.addLocked(hash, item, added, p) {
		a.added = 1
	}
	q.typed.settle()
	q.typed.mu.Unlock()
	return a
}

// endWait returns the placement of an add that ends a wait. The wait keeps its group, and
// with keep its rank. Otherwise the higher priority counts. If the add names the group of
// the wait, the weight and the limit from the add count.
func (p *placement) endWait(wait *placement, keep bool) *placement {
	higher := !keep && p.number() > wait.number()
	switch {
	case wait == nil && higher:
		return p
	case wait == nil:
		return nil
	case higher:
		wait.rank = p.rankOf()
	}
	if p != nil && p.weight > 0 && p.group == wait.group {
		wait.weight, wait.limit, wait.waited = p.weight, p.limit, false
	}
	return wait
}

// unplanLocked ends the wait of the item, and reports whether the item waited. It returns
// the placement of the wait in the memory of the caller, if there is memory. After the end
// of the last wait, the goroutine has to look again, and ends.
func (q *TypedDelaying[T]) unplanLocked(hash uint32, item T, memory *placement) (p *placement, waited bool) {
	if q.agenda.len() == 0 {
		return nil, false
	}
	if p, waited = q.agenda.remove(hash, item, memory); waited && q.agenda.len() == 0 {
		q.poke()
	}
	return p, waited
}

// observePromotion does the work of a promotion when the locks are free, and reports
// whether the item of the call was taken.
func (q *TypedDelaying[T]) observePromotion(a promotion) (taken bool) {
	if a.added > 0 {
		q.typed.observeAdds(a.added)
	}
	if a.yield {
		runtime.Gosched()
	}
	return a.taken
}

// typedNow returns the time that typed notes for an item added now. If typed has a clock of
// its own, typedNow reads the clock of typed. That clock may be foreign code, so a caller
// must not hold a lock.
func (q *TypedDelaying[T]) typedNow(now time.Duration) time.Duration {
	if q.aligned || q.typed == nil {
		return now
	}
	return q.typed.metrics.now()
}

// hasEntryLocked reports whether OneEntry keeps the item from waiting. The caller plans the
// item in the same critical section. An Add takes the lock too, and so cannot come in
// between.
func (q *TypedDelaying[T]) hasEntryLocked(hash uint32, item T) bool {
	return q.oneEntry && q.typed.isQueued(hash, item)
}

// raiseLocked handles a delayed add for an item that OneEntry keeps from waiting. The
// priority of the add still counts, and a Queue is told of the add as of any other.
func (q *TypedDelaying[T]) raiseLocked(hash uint32, item T, added time.Duration, p *placement) (a promotion) {
	if p != nil || q.typed.hasOrder() {
		a = q.promoteLocked(hash, item, added, p, false)
	}
	a.taken = true
	return a
}

// isQueued reports whether the item is queued, or will be queued by its Done.
func (q *Typed[T]) isQueued(hash uint32, item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.isQueued(hash, item)
}

// hasOrder reports whether the queue has lanes or a storage.
func (q *Typed[T]) hasOrder() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.lanes != nil || q.fifo.storage != nil
}

// addNow adds the item at once. With OneEntry the add ends the wait of the item.
func (q *TypedDelaying[T]) addNow(hash uint32, item T, k rank) (taken bool) {
	if !q.oneEntry {
		return addBelow(q.queue, item, k)
	}
	var place placement
	return q.promote(hash, item, q.place(&place, item, k), false)
}

// promote ends the wait of the item and adds the item. With keep, the item keeps the rank
// of its wait. If the queue below is foreign code, the two steps hold no common lock. The
// wait ends first: in the other order the loop could add the item once more, after a worker
// has got the item.
func (q *TypedDelaying[T]) promote(hash uint32, item T, p *placement, keep bool) (taken bool) {
	if q.typed == nil {
		var place placement
		if wait, waited := q.unplan(hash, item, &place); waited {
			p = p.endWait(wait, keep)
		}
		return addBelow(q.queue, item, p.rankOf())
	}
	return q.observePromotion(q.promoteTyped(hash, item, q.typedNow(q.now()), p, keep))
}

func (q *TypedDelaying[T]) promoteTyped(hash uint32, item T, added time.Duration, p *placement, keep bool) promotion {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.promoteLocked(hash, item, added, p, keep)
}

// unplan is unplanLocked for a caller without the lock.
func (q *TypedDelaying[T]) unplan(hash uint32, item T, memory *placement) (p *placement, waited bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unplanLocked(hash, item, memory)
}

func (q *TypedDelaying[T]) reschedule(hash uint32, item T, r reading, due time.Duration, p *placement) promotion {
	added := q.typedNow(r.now)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.hasEntryLocked(hash, item) {
		return promotion{taken: !q.closed}
	}
	first := q.agenda.reschedule(hash, item, r.now, due, p)
	return q.arrangeLocked(first, r, added)
}

func (q *TypedDelaying[T]) debounce(hash uint32, item T, r reading, due, latest time.Duration, p *placement) promotion {
	added := q.typedNow(r.now)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return promotion{}
	}
	if q.hasEntryLocked(hash, item) {
		return q.raiseLocked(hash, item, added, p)
	}
	first := q.agenda.debounce(hash, item, r.now, due, latest, p)
	return q.arrangeLocked(first, r, added)
}

func (q *TypedDelaying[T]) removeTyped(hash uint32, item T) (waited, added bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, waited = q.unplanLocked(hash, item, nil)
	return waited, q.typed.remove(hash, item)
}
