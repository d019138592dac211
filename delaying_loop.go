package workqueue

import (
	"fmt"
	"math"
	"runtime/debug"
	"time"
)

const (
	// heartbeat is the longest that waitingLoop sleeps: an item is never due
	// for longer than this without being added, whatever the clock and its
	// timers do. client-go gives the same guarantee.
	heartbeat = 10 * time.Second

	// maxArms bounds how often the timer is armed for one sleep, if the clock
	// moves each time. It takes as many steps of a fake clock, each within the
	// same microsecond as one of these, to make an item late.
	maxArms = 8
)

// A reading is the time that somebody has read from the clock before taking the
// lock. No clock is read with the lock held, as it may be foreign code. So an
// injected clock may be set back between the reading and the lock, and another
// goroutine may plan an item by the new time in between. The old reading would call
// that item due, although it was only just delayed. The rule is therefore: a reading
// counts for an item only if it began after the item was planned.
//
// If the earliest item looks due and the reading does not count for it, the loop
// reads the clock again. A flood of new items does not prolong that: while the clock
// goes forward, items planned after the earliest one was due get later times. So
// there is one more reading for each time that the clock is set back, or that an item
// is planned during a reading.
//
// The real clock is monotonic. If it shows a time by which an item is due, it
// was read after the item was planned, so that all its readings count.
type reading struct {
	now   time.Duration
	plans uint64 // agenda.plans when the reading began, or the end of numbers
}

// readClock reads the clock, and before it the number of plans: the other order would let
// a plan from in between count as older than the reading.
func (q *TypedDelaying[T]) readClock() reading {
	if q.real {
		return reading{q.now(), math.MaxUint64}
	}
	plans := q.planned.Load()
	return reading{q.now(), plans}
}

// waitingLoop adds items as they become due, and returns when none is left
// waiting. AddAfter starts it.
//
// It adds what is due in one step and sleeps in another, and reads the clock anew
// in each. AddAfter puts items into the agenda itself, and not through this
// goroutine. So no rate of AddAfter keeps due items from being added.
//
// Foreign code that ends the goroutine (runtime.Goexit) does not end the loop:
// another one carries on after the item with which it happened.
func (q *TypedDelaying[T]) waitingLoop() {
	defer q.loops.Leave(&q.mu)
	over := false
	defer q.endLoop(&over)
	for {
		o := q.addDue()
		switch {
		case o.over:
			over = true
			return
		case !o.due:
			q.sleepUntil(o.next)
		}
	}
}

// An outlook is what waitingLoop finds in the agenda.
type outlook struct {
	next time.Duration // when the earliest item is due
	due  bool          // it is due now
	over bool          // no item waits, and the loop ends
}

// endLoop decides what the end of the goroutine means.
func (q *TypedDelaying[T]) endLoop(over *bool) {
	switch r := recover(); {
	case r != nil:
		defer panic(r) // Even if the logger does not return.
		err, ok := r.(error)
		if !ok {
			err = fmt.Errorf("%v", r)
		}
		q.logger.Error(err, "Panic while adding delayed items", "stack", string(debug.Stack()))
	case !*over:
		q.replaceLoop()
	}
}

// replaceLoop starts a goroutine before this one leaves.
func (q *TypedDelaying[T]) replaceLoop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.loops.Enter()
	go q.loop()
}

// addDue adds items that are due, up to a batch of them.
func (q *TypedDelaying[T]) addDue() outlook {
	shutDown := q.queue.ShuttingDown() // The queue below may have been shut down by itself.
	r := q.readClock()
	if q.typed == nil {
		item, k, o := q.popDue(shutDown, r)
		if o.due {
			addBelow(q.queue, item, k)
		}
		return o
	}
	a, o := q.moveDue(shutDown, r, q.typedNow(r.now))
	q.typed.observeAdds(a.added)
	return o
}

// moveDue is addDue for a typed queue below. It moves a batch in one critical section.
func (q *TypedDelaying[T]) moveDue(shutDown bool, r reading, added time.Duration) (a promotion, o outlook) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o = q.lookAheadLocked(shutDown, r)
	if o.due {
		a = q.moveDueLocked(r, added)
	}
	return a, o
}

// popDue takes one due item off the agenda. The caller adds it without the
// lock, as that is foreign code, and only then comes for the next: no more than
// one item is ever between the queues, and one is lost at most if the call does
// not return.
func (q *TypedDelaying[T]) popDue(shutDown bool, r reading) (item T, k rank, o outlook) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o = q.lookAheadLocked(shutDown, r)
	if o.due {
		q.metrics.observeLateness(r.now - o.next)
		var p *placement
		_, item, p = q.agenda.pop(new(placement))
		k = p.rankOf()
	}
	return item, k, o
}

// lookAheadLocked looks at the earliest item. If there is none, it decides the end of
// the loop and clears running in the same critical section: an AddAfter in between
// would rely on a goroutine that is about to end.
func (q *TypedDelaying[T]) lookAheadLocked(shutDown bool, r reading) outlook {
	if shutDown {
		q.dropLocked(r.now)
	}
	if q.agenda.len() == 0 {
		q.running = false
		return outlook{over: true}
	}
	return outlook{next: q.agenda.next(), due: q.agenda.due(r)}
}

// sleepUntil waits until the time next, for a token, or for a heartbeat.
//
// A clock that is stepped between reading it and arming the timer makes the
// timer late by the step, which for a clock that nobody steps again is for
// ever (kubernetes/kubernetes#125581). So an injected clock is read again
// after arming, until it has stood still in between. A clock that never stands
// still runs by itself, and is late only by the time that the calls take.
func (q *TypedDelaying[T]) sleepUntil(next time.Duration) {
	now := q.now()
	for arms := 0; next > now && arms < maxArms; arms++ {
		d := heartbeat
		if next < now+heartbeat { // A difference first could overflow.
			d = next - now
		}
		q.arm(d)
		before := now
		if now = q.now(); q.real || now == before {
			break
		}
	}
	if next <= now {
		q.disarm()
		return
	}
	select {
	case <-q.timer.C():
	case <-q.wake:
		q.disarm()
	}
}

func (q *TypedDelaying[T]) arm(d time.Duration) {
	if q.timer == nil {
		q.timer = q.clock.NewTimer(d)
		return
	}
	q.disarm()
	q.timer.Reset(d)
}

// disarm keeps the timer from firing while nobody listens, and takes back a
// tick that nobody has received: a fake clock that fires the timer again would
// wait for room for the next one, with its lock held.
func (q *TypedDelaying[T]) disarm() {
	if q.timer == nil {
		return
	}
	q.timer.Stop()
	select {
	case <-q.timer.C():
	default:
	}
}
