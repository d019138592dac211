package workqueue

import (
	"context"
	"errors"
	"hash/maphash"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/gate"
	"github.com/seed16c08ea7/workqueue/internal/slab"
)

// This file says how workers get items. With the lock held, a worker looks for an item. If
// there is no item, the worker counts itself in parked, unlocks, and waits for the token in
// q.wake. The rules of the token stand at the fields of Typed.
//
// The worker looks and counts in one critical section. Otherwise an Add between the two
// steps would find nobody to wake, and the worker would park beside an item.

// getContext is GetContext, with the receipt of the item.
func (q *Typed[T]) getContext(ctx context.Context) (item T, r receipt, err error) {
	if err := ctx.Err(); err != nil {
		return item, r, err
	}
	item, r, err = q.get(ctx.Done())
	if err == errCanceled {
		err = ctx.Err()
	}
	return item, r, err
}

// errCanceled says that the cancel channel of get was closed. It does not leave the
// package: getContext returns the error of the context instead. get takes a channel and no
// context, because Get has no context.
var errCanceled = errors.New("workqueue: canceled")

// get takes an item, or waits for an item until cancel is closed. A nil channel is never
// closed.
func (q *Typed[T]) get(cancel <-chan struct{}) (item T, r receipt, err error) {
	item, r, what := q.tryTake(q.metrics.now(), visitStaying)
	if what < tookItem {
		return q.await(cancel, what, r)
	}
	return q.receive(item, r, what)
}

// stay parks the worker of a Get that has found no item, and returns true when the worker was woken.
// stay returns false at once if the queue is shut down. The caller holds q.mu before and after.
//
// The woken worker arrives and Get looks again in one critical section, as in tryTake. Get looks again
// for the reason that await has. Through await and tryTake, a wake-up and back takes a fifth longer,
// see BenchmarkWakeUp and docs/decisions-locks.md.
func (q *Typed[T]) stay() (woken bool) {
	if q.fifo.Closed {
		return false
	}
	q.enlist()
	q.settle()
	q.mu.Unlock()
	gate.Point()
	<-q.wake
	if !q.mu.TryLock() {
		gate.LockSoon(&q.mu)
	}
	q.arrive(visitWoken)
	return true
}

// await is the rest of get for a worker that is counted in parked. A worker that was woken
// may find no item: another worker has taken the item meanwhile, as a Get does not wait its
// turn. Then the woken worker parks again. what and r are the result of tryTake.
func (q *Typed[T]) await(cancel <-chan struct{}, what took, r receipt) (item T, _ receipt, err error) {
	for {
		how, ok := q.park(cancel, what, r.waited)
		if !ok {
			return item, receipt{}, errCanceled
		}
		if q.metrics.foreign() {
			q.passOn(how)
			how = visitStaying
		}
		if item, r, what = q.tryTake(q.metrics.now(), how); what >= tookItem {
			return q.receive(item, r, what)
		}
	}
}

// passOn ends the way of a woken worker before the worker has looked for an item, and wakes
// the next worker if there is an item.
//
// A woken worker reads the clock before it takes the lock. An injected clock is foreign
// code, and may block or panic. If waking were still set then, no worker would ever be
// woken again. The price of passOn is a worker that is woken for nothing, now and then. The
// real clock neither blocks nor panics, so its worker arrives and looks in one critical
// section.
func (q *Typed[T]) passOn(how visit) {
	q.mu.Lock()
	q.arrive(how)
	q.settle()
	q.mu.Unlock()
}

// receive is the end of every blocking hand-out. The metrics are foreign code, and come
// after the lock.
func (q *Typed[T]) receive(item T, r receipt, what took) (T, receipt, error) {
	if what == tookEnd {
		return item, receipt{}, ErrShutDown
	}
	q.observeGet(item, r.waited)
	return item, r, nil
}

// A receipt says how long an item was queued before its hand-out, and with which rank.
type receipt struct {
	waited time.Duration
	rank   fifo.Rank
}

// A visit says how a worker comes to look for an item. A took says what the worker has
// found.
type (
	visit uint8
	took  uint8
)

const (
	visitPassing visit = iota // does not wait
	visitStaying              // parks if there is no item
	visitWoken                // was parked and woken, and parks again if there is no item
	visitKeeper               // the same, and was the keeper
	visitTimed                // was the keeper, and the time for the next token has come
)

const (
	tookNothing  took = iota // no item; a worker that parks has been counted
	tookKeeper               // the same, and the worker is the keeper: the receipt says until when
	tookItem                 // an item, with its receipt
	tookEnd                  // no item, and no item will come
	tookCanceled             // of pass: no item, as cancel is closed
)

// tryTake looks for an item once. In the same critical section it ends the way of a woken
// worker, and counts a worker that is about to park. Afterwards the worker has an item, or
// is counted and can be woken by any later Add.
func (q *Typed[T]) tryTake(now time.Duration, how visit) (item T, r receipt, what took) {
	if !q.mu.TryLock() {
		gate.LockSoon(&q.mu)
	}
	item, r, what = q.take(now, how)
	q.settle()
	q.mu.Unlock()
	return item, r, what
}

// take is the critical section of tryTake. The caller holds q.mu, and calls settle.
func (q *Typed[T]) take(now time.Duration, how visit) (item T, r receipt, what took) {
	q.arrive(how)
	paced := q.pace != nil && !q.pace.Allow(now, q.fifo.Ready())
	var waited time.Duration
	ok := false
	if !paced {
		item, waited, ok = q.fifo.Take(now)
	}
	switch {
	case ok:
		what = tookItem
		r = receipt{waited, q.fifo.Taken}
		q.paces.take(item, now)
		if q.durations != nil {
			q.durations.queued.Observe(waited)
		}
	case how == visitPassing:
	case q.fifo.Closed && !paced:
		what = tookEnd
	default:
		q.enlist()
		if paced && !q.pace.Kept {
			q.pace.Kept = true
			what, r.waited = tookKeeper, q.pace.Next()
		}
	}
	return item, r, what
}

// passes reports whether Run may use pass. Metrics that are pushed have to be told of the end of
// each hand-out before the next hand-out, and they are foreign code, like a [Queue]: a worker
// could not tell which item it holds when foreign code between the two does not return.
func (q *Typed[T]) passes() bool { return !q.metrics.pushes() && q.fifo.Queue() == nil }

// pass is Done of an item, and then the first look of get for the next one, in one critical
// section with one settle at its end. If there is no item, the worker is counted in parked, and
// goes on with await. If cancel is closed, pass takes nothing: whoever closes cancel knows that
// no hand-out begins afterwards. cancel is a channel, as Err of a context may be foreign code.
//
// The caller has read the clock, and passes must be true.
func (q *Typed[T]) pass(item T, now time.Duration, cancel <-chan struct{}) (next T, r receipt, what took) {
	hash := uint32(maphash.Comparable(slab.HashSeed, item)) // HashOf is not inlined.
	if !q.mu.TryLock() {
		gate.LockSoon(&q.mu)
	}
	at, record := q.fifo.Items.Probe(q.fifo.Items.Slots, hash, item)
	if record == nil && q.fifo.Items.Old != nil {
		record = q.fifo.Items.Fetch(at, hash, item)
	}
	if worked, ok := q.fifo.Done(at, record, now); ok && q.durations != nil {
		q.durations.held.Observe(worked)
	}
	select {
	case <-cancel:
		what = tookCanceled
	default:
		next, r, what = q.take(now, visitStaying)
	}
	q.settle()
	q.mu.Unlock()
	return next, r, what
}

// enlist counts a worker that is about to park. The caller holds q.mu.
//
// The first worker makes the channel: the zero value of a Typed is usable, and a queue
// whose workers only poll needs no channel.
func (q *Typed[T]) enlist() {
	q.parked++
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
	}
}

// arrive ends the way of a worker that was parked. From now on the next worker can be woken.
// The caller holds q.mu and calls settle, which wakes the next worker if more items are
// left.
func (q *Typed[T]) arrive(how visit) {
	if how < visitWoken {
		return
	}
	q.parked--
	if how != visitTimed {
		q.waking = false
	}
	if how != visitWoken {
		q.pace.Kept = false
	}
}

// park waits for the token of wake, or as the keeper for the timer, and reports false if
// cancel was closed first. Then a token may be in the channel, and stays there for another
// parked worker. If no worker is parked, waking stays set until a worker parks and takes the
// token at once.
func (q *Typed[T]) park(cancel <-chan struct{}, what took, until time.Duration) (how visit, ok bool) {
	if what == tookKeeper {
		return q.keep(cancel, until)
	}
	if cancel == nil {
		gate.Point()
		<-q.wake
		return visitWoken, true
	}
	_, wake, cancel := gate.Select(nil, q.wake, cancel)
	select {
	case <-wake:
		return visitWoken, true
	case <-cancel:
		q.mu.Lock()
		q.parked--
		q.mu.Unlock()
		return how, false
	}
}

// settle is the exit of every critical section that has changed something. It wakes a
// parked worker if there is an item, and ends the waits of a queue that is idle. The caller
// holds q.mu, and changes nothing afterwards.
//
// With one exit for all sections, nobody can forget the worker or the drain. settle must
// stay small enough to be inlined, which TestHotPathIsInlined checks: most sections have
// nobody to wake and no drain, and BenchmarkCycle would pay for the call.
func (q *Typed[T]) settle() {
	if q.parked > 0 && !q.waking || q.idling != nil {
		q.settleDue()
	}
}

// settleDue is the rest of settle.
//
// The send never blocks: waking was false, so the channel is empty. A send after Unlock
// would shorten the section, but every method would have to remember the send until its
// return, also past a panic of a storage.
//
// A closed queue wakes workers without an item too, one after the other: each worker finds
// the end, calls settle, and so wakes the next worker.
func (q *Typed[T]) settleDue() {
	if q.parked > 0 && !q.waking && q.mayWake() {
		q.waking = true
		q.wake <- struct{}{}
	}
	if q.idling != nil && q.fifo.Idle() {
		q.idling.idle = true
		q.endDrains()
	}
}

// mayWake reports whether a woken worker would find an item or the end.
func (q *Typed[T]) mayWake() bool {
	if q.fifo.Ready() {
		return q.pace == nil || !q.pace.Kept
	}
	return q.fifo.Closed
}

// unlock ends a critical section in which a method of a [Queue] has panicked or has ended
// its goroutine. The fifo is consistent before each call of a Queue, so unlock
// is an ordinary exit.
func (q *Typed[T]) unlock() {
	q.settle()
	q.mu.Unlock()
}

// keep is park for the keeper, until the given time. The clock is read once more after the
// timer is armed: if a clock was stepped in between, the timer may never fire, as in
// sleepUntil.
func (q *Typed[T]) keep(cancel <-chan struct{}, until time.Duration) (how visit, ok bool) {
	defer func() {
		if !ok { // Also if the clock panics.
			q.passOn(visitTimed)
		}
	}()
	q.pace.TellPause()
	q.pace.Arm(until - q.metrics.now())
	defer q.pace.Alarm.Disarm()
	if q.metrics.now() >= until {
		return visitTimed, true
	}
	alarm, wake, cancel := gate.Select(q.pace.Alarm.C(), q.wake, cancel)
	select {
	case <-alarm:
		return visitTimed, true
	case <-wake:
		return visitKeeper, true
	case <-cancel:
		return how, false
	}
}
