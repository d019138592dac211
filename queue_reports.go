package workqueue

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// reportPeriod is how often the gauges of work in flight are set while there
// is any; dashboards written for client-go rely on it.
const reportPeriod = 500 * time.Millisecond

// A reporter is the goroutine that sets the gauges of work in flight. There is
// one while items are held, so that a queue at rest has none. Only a queue with a
// provider that is told of changes has it: a StateProvider reads the queue itself.
type reporter struct {
	running atomic.Bool   // there is one, or a Get is about to start it
	crew    crew          // guarded by the lock of the queue
	stop    chan struct{} // closed when the queue is shut down
}

// allLeft is that of crew, for a queue that may have no reporter.
func (r *reporter) allLeft(mu *sync.Mutex) <-chan struct{} {
	if r == nil {
		return closedForAll
	}
	return r.crew.allLeft(mu)
}

// observeGet observes a hand-out. The item is the caller's only once the
// metrics have returned: if one panics or ends the goroutine, nobody will
// process the item or call Done, so it goes back to the head of the queue.
func (q *Typed[T]) observeGet(item T, waited time.Duration) {
	if !q.metrics.pushes() {
		return
	}
	delivered := false
	defer func() {
		if !delivered {
			q.putBack(item, waited)
		}
	}()
	q.metrics.handedOut(waited)
	if !q.reporter.running.Load() {
		q.startReports(q.metrics.clock.NewTimer(reportPeriod))
	}
	delivered = true
}

// putBack undoes a hand-out, unless somebody has called Done for the item that
// nobody got.
func (q *Typed[T]) putBack(item T, waited time.Duration) {
	added := q.metrics.now() - waited
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fifo.putBack(item, added)
	q.settle()
}

// observeAdds observes that items were added which were no duplicates.
func (q *Typed[T]) observeAdds(n int) {
	if !q.metrics.pushes() {
		return
	}
	for range n {
		q.metrics.added()
	}
}

// startReports starts the reporter, unless it runs. The caller has made the timer, as
// that is foreign code and must not run with the lock held.
//
// It has a timer and no ticker: the fake clock of k8s.io/utils counts tickers
// as waiters for ever, stopped or not.
func (q *Typed[T]) startReports(timer clock.Timer) {
	if q.enterReports() {
		go q.report(timer)
	} else {
		timer.Stop()
	}
}

// enterReports reports whether the goroutine is to start, and counts it. After a
// shutdown none starts: the shutdown waits for those that are counted.
func (q *Typed[T]) enterReports() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fifo.closed || q.reporter.running.Swap(true) {
		return false
	}
	q.reporter.crew.enter()
	return true
}

// report sets the gauges at each tick until the queue is shut down, or a tick
// has found nothing in flight and left them at zero.
func (q *Typed[T]) report(timer clock.Timer) {
	defer q.reporter.crew.leave(&q.mu)
	defer timer.Stop()
	for over := false; !over; {
		select {
		case <-q.reporter.stop:
			return
		case <-timer.C():
			over = q.reportOnce(timer)
		}
	}
}

// reportOnce sets the gauges, and reports whether the reporter is over: nothing is in
// flight, and the gauges say so. Both are asked, as the last Done may have come after
// the gauges were set. The timer is set first: otherwise the time that the gauges
// take would add to the period.
func (q *Typed[T]) reportOnce(timer clock.Timer) (over bool) {
	set := false
	defer func() {
		if !set { // The goroutine ends in foreign code; let Get start another.
			q.reporter.running.Store(false)
		}
	}()
	timer.Reset(reportPeriod)
	total, longest := q.inFlight()
	q.metrics.inFlight(total, longest)
	set = true
	return total == 0 && q.endReports()
}

// endReports reports whether nothing is held, in which case the next Get
// starts the goroutine anew. Decided in one critical section with the flag: a
// Get between the two would find it set and start none.
//
// It looks at held itself and not at the total of the gauges, which was read in a section
// before this one.
func (q *Typed[T]) endReports() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.fifo.held) > 0 {
		return false
	}
	q.reporter.running.Store(false)
	return true
}

// inFlight returns for how long the held items have been held, added up and at
// most. It takes time proportional to their number, every half second. To keep the
// sum up to date instead would cost each Get and Done.
func (q *Typed[T]) inFlight() (total, longest time.Duration) {
	now := q.metrics.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.inFlight(now)
}
