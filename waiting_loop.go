package workqueue

import (
	"fmt"
	"runtime/debug"
	"time"
)

// waitingLoop adds items as they become due, and returns when none is left
// waiting. AddAfter starts it.
//
// Taking what is due and waiting for more are separate steps, and the first
// looks at the clock anew for each batch, so that no rate of AddAfter keeps
// due items from being added: inserting never passes through here.
//
// Foreign code that ends the goroutine (runtime.Goexit) does not end the loop:
// another one carries on after the item with which it happened.
func (q *TypedDelaying[T]) waitingLoop() {
	defer q.loops.Done()
	idle := false
	defer q.endLoop(&idle)
	for {
		var next time.Duration
		if next, idle = q.takeDue(); idle {
			return
		}
		if len(q.due) > 0 {
			q.deliver()
			continue
		}
		q.sleepUntil(next)
	}
}

// endLoop decides what the end of the goroutine means.
func (q *TypedDelaying[T]) endLoop(idle *bool) {
	if r := recover(); r != nil {
		defer panic(r) // Even if the logger does not return.
		err, ok := r.(error)
		if !ok {
			err = fmt.Errorf("%v", r)
		}
		q.logger.Error(err, "Panic while adding delayed items", "stack", string(debug.Stack()))
		return
	}
	if !*idle {
		q.loops.Add(1) // This goroutine has not yet called Done.
		go q.loop()
	}
}

// takeDue moves up to a batch of due items from the agenda to q.due. If there
// is none, it returns when there will be, or reports that the loop is over:
// decided in one critical section with running, or an AddAfter in between
// would rely on a goroutine that is about to end.
func (q *TypedDelaying[T]) takeDue() (next time.Duration, idle bool) {
	shutDown := q.queue.ShuttingDown()
	now := q.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if shutDown { // From below, that is without our own shutdown.
		q.agenda = agenda[T]{}
	}
	for q.agenda.len() > 0 && q.agenda.next() <= now && len(q.due) < batch {
		if q.due == nil {
			q.due = make([]T, 0, batch)
		}
		q.due = append(q.due, q.agenda.pop())
	}
	switch {
	case len(q.due) > 0:
		return 0, false
	case q.agenda.len() == 0:
		q.running = false
		return 0, true
	}
	return q.agenda.next(), false
}

// deliver adds q.due to the queue below. Each item counts as delivered before
// the call that may not return.
func (q *TypedDelaying[T]) deliver() {
	if q.typed != nil {
		first := q.delivered
		q.delivered = len(q.due)
		q.typed.AddAll(q.due[first:]...) // All are added before a metric is.
	}
	for q.delivered < len(q.due) {
		item := q.due[q.delivered]
		q.delivered++
		q.queue.Add(item)
	}
	clear(q.due)
	q.due = q.due[:0]
	q.delivered = 0
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
	if q.timer == nil || q.timer.Stop() {
		return
	}
	select {
	case <-q.timer.C():
	default:
	}
}
