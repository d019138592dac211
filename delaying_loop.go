package workqueue

import (
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"github.com/seed16c08ea7/workqueue/internal/fifo"
	"github.com/seed16c08ea7/workqueue/internal/gate"
)

const (
	// heartbeat is the longest sleep of waitingLoop: a due item waits no longer than a
	// heartbeat to be added, whatever the clock and its timers do. client-go gives the same
	// guarantee.
	heartbeat = 10 * time.Second

	// maxArms bounds how often the timer is armed for one sleep, if the clock moves each
	// time. An item is late only if a fake clock is stepped maxArms times, each time within
	// the microsecond around an arming of the timer.
	maxArms = 8
)

// A reading is a time that was read from the clock before the lock was taken. The clock may
// be foreign code, and is not read with the lock held. So an injected clock may be set back
// between the reading and the lock, and another goroutine may plan an item by the new time
// in between. By the old reading, the item would be due, although it was only just delayed.
// The rule is therefore: a reading counts for an item only if it began after the item was
// planned.
//
// If the earliest item looks due and the reading does not count for the item, the loop
// reads the clock again. A flood of new items causes no further readings: while the clock
// goes forward, items planned after the earliest item was due get later times. So there is
// one more reading for each time that the clock is set back, or that an item is planned
// during a reading.
//
// The real clock is monotonic. If a reading of the real clock shows that an item is due,
// the reading began after the item was planned. So all readings of the real clock count.
type reading struct {
	now   time.Duration
	plans uint64 // agenda.Plans when the reading began, or the largest number
}

// readClock reads the number of plans first, and then the clock. In the other order, a plan
// made in between would count as older than the reading.
func (q *TypedDelaying[T]) readClock() reading {
	if q.real {
		return reading{q.now(), math.MaxUint64}
	}
	plans := q.planned.Load()
	return reading{q.now(), plans}
}

// waitingLoop adds items as they become due, and returns when no item waits. AddAfter
// starts the loop.
//
// The loop adds due items in one step and sleeps in another, and reads the clock anew in
// each step. AddAfter itself puts items into the agenda, without this goroutine. So no rate
// of AddAfter keeps due items from being added.
//
// If foreign code ends the goroutine (runtime.Goexit), another goroutine carries on after
// the item whose add ended the goroutine.
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

// An outlook tells waitingLoop the state of the agenda.
type outlook struct {
	next time.Duration // when the earliest item is due
	due  bool          // the earliest item is due now
	over bool          // no item waits, and the loop ends
}

// endLoop logs a panic of the goroutine and panics again. It replaces a goroutine that was
// ended by runtime.Goexit.
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

// replaceLoop starts the next goroutine before this goroutine leaves loops, so a shutdown
// waits for the next goroutine too.
func (q *TypedDelaying[T]) replaceLoop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.loops.Enter()
	go q.loop()
}

// addDue adds due items, up to a batch.
func (q *TypedDelaying[T]) addDue() outlook {
	shutDown := q.queue.ShuttingDown() // Somebody may have shut down the queue below alone.
	r := q.readClock()
	if q.typed == nil {
		item, k, o := q.popDue(shutDown, r)
		if o.due {
			addBelow(q.queue, item, k)
		}
		return o
	}
	a, o := q.moveDue(shutDown, r, q.typedNow(r.now))
	q.typed.metrics.added(a.fresh)
	return o
}

// moveDue is addDue if typed is set. It moves a batch in one critical section.
func (q *TypedDelaying[T]) moveDue(shutDown bool, r reading, at time.Duration) (a promotion, o outlook) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o = q.lookAheadLocked(shutDown, r)
	if o.due {
		a = q.moveDueLocked(r, at)
	}
	return a, o
}

// popDue takes one due item off the agenda. The caller adds the item without the lock,
// because the queue below is foreign code, and only then pops the next item. So at most one
// item is between the queues, and at most one item is lost if the call does not return.
func (q *TypedDelaying[T]) popDue(shutDown bool, r reading) (item T, k fifo.Rank, o outlook) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o = q.lookAheadLocked(shutDown, r)
	if o.due {
		q.metrics.observeLateness(r.now - o.next)
		var p *fifo.Placement
		_, item, p = q.agenda.Pop(new(fifo.Placement))
		q.noteMoveLocked(item)
		k = p.RankOf()
	}
	return item, k, o
}

// lookAheadLocked looks at the earliest item. If no item waits, the loop ends, and running
// is cleared in the same critical section: an AddAfter in between would rely on a goroutine
// that is about to end.
func (q *TypedDelaying[T]) lookAheadLocked(shutDown bool, r reading) outlook {
	if shutDown {
		q.dropLocked(r.now)
	}
	if q.agenda.Len() == 0 {
		q.running = false
		return outlook{over: true}
	}
	return outlook{next: q.agenda.Next(), due: q.agenda.Due(r.now, r.plans)}
}

// sleepUntil waits until the time next, for a token, or for a heartbeat.
//
// If a clock is stepped after it was read and before the timer is armed, the timer is late
// by the step. If nobody steps the clock again, the timer never fires
// (kubernetes/kubernetes#125581). So an injected clock is read again after arming, until
// the clock has stood still in between. A clock that never stands still runs by itself, and
// its timer is late only by the time that the calls take.
func (q *TypedDelaying[T]) sleepUntil(next time.Duration) {
	now := q.now()
	for arms := 0; next > now && arms < maxArms; arms++ {
		d := heartbeat
		if next < now+heartbeat { // next - now could overflow.
			d = next - now
		}
		q.alarm.Arm(q.clock, d)
		before := now
		if now = q.now(); q.real || now == before {
			break
		}
	}
	if next <= now {
		q.alarm.Disarm()
		return
	}
	alarm, wake, _ := gate.Select(q.alarm.C(), q.wake, nil)
	select {
	case <-alarm:
	case <-wake:
		q.alarm.Disarm()
	}
}
