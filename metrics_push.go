package workqueue

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/seed16c08ea7/workqueue/internal/gate"
)

// This file is the push mode: a provider is told of each change, and a goroutine tells it of the
// work in flight.

// instruments are the metrics of a FIFO, and the clock that its items are timed
// by. They are immutable after construction; a queue that keeps no times has
// nil, and one that keeps them for itself has the clock alone.
type instruments struct {
	clock clock.WithTicker
	// Times are kept as nanoseconds since epoch: half the size of a time.Time
	// without its location, and reading the monotonic clock alone costs half
	// of what time.Now does.
	epoch time.Time

	push *pushed       // nil unless a provider is told of each change
	link *providerLink // nil unless a provider reads this queue
}

// pushed are the metrics that a queue keeps up to date itself.
type pushed struct {
	depth          GaugeMetric
	adds           CounterMetric
	latency        HistogramMetric
	workDuration   HistogramMetric
	unfinished     SettableGaugeMetric
	longestRunning SettableGaugeMetric
}

// measure makes the metrics of a new queue, by the provider that providerFor has
// returned for it.
func (q *Typed[T]) measure(config TypedQueueConfig[T], p MetricsProvider) {
	if p == nil && !config.KeepTimes {
		return
	}
	c := clockOrDefault(config.Clock)
	m := &instruments{clock: c, epoch: c.Now()}
	q.metrics = m
	if state, ok := p.(StateProvider); ok {
		l, bounds := newLink(state, config.Name, LayerFIFO, q, (*Typed[T]).stats)
		m.link = l
		q.observeDurations(bounds)
	} else if p != nil {
		m.push = newPushed(p, config.Name)
		q.reporter = &reporter{stop: make(chan struct{})}
	}
}

func newPushed(p MetricsProvider, name string) *pushed {
	return &pushed{
		depth:          p.NewDepthMetric(name),
		adds:           p.NewAddsMetric(name),
		latency:        p.NewLatencyMetric(name),
		workDuration:   p.NewWorkDurationMetric(name),
		unfinished:     p.NewUnfinishedWorkSecondsMetric(name),
		longestRunning: p.NewLongestRunningProcessorSecondsMetric(name),
	}
}

// now returns the time since the epoch, 0 for a queue that keeps no times.
func (m *instruments) now() time.Duration {
	if m == nil {
		return 0
	}
	return m.clock.Since(m.epoch)
}

// foreign reports whether reading the clock calls foreign code.
func (m *instruments) foreign() bool {
	if m == nil {
		return false
	}
	_, real := m.clock.(clock.RealClock)
	return !real
}

// pushes reports whether a provider is told of each change. If not, metrics are
// counted under the lock and read, or there are none.
func (m *instruments) pushes() bool { return m != nil && m.push != nil }

func (m *instruments) added() {
	if m.pushes() {
		m.push.adds.Inc()
		m.push.depth.Inc()
	}
}

func (m *instruments) removed() {
	if m.pushes() {
		m.push.depth.Dec()
	}
}

func (m *instruments) handedOut(waited time.Duration) {
	m.push.depth.Dec()
	m.push.latency.Observe(waited.Seconds())
}

func (m *instruments) done(worked time.Duration) {
	if m.pushes() {
		m.push.workDuration.Observe(worked.Seconds())
	}
}

func (m *instruments) inFlight(total, longest time.Duration) {
	m.push.unfinished.Set(total.Seconds())
	m.push.longestRunning.Set(longest.Seconds())
}

// newRetries returns the counter of delayed adds for a queue, or nil if no provider is
// to be told of them.
func newRetries(name string, p MetricsProvider) CounterMetric {
	if _, ok := p.(StateProvider); !ok && p != nil {
		return p.NewRetriesMetric(name)
	}
	return nil
}

// clockOrDefault resolves the clock of a config.
func clockOrDefault(c clock.WithTicker) clock.WithTicker {
	if c == nil {
		return clock.RealClock{}
	}
	return c
}

// reportPeriod is how often the gauges of work in flight are set while there
// is any; dashboards written for client-go rely on it.
const reportPeriod = 500 * time.Millisecond

// A reporter is the goroutine that sets the gauges of work in flight. There is
// one while items are held, so that a queue at rest has none. Only a queue with a
// provider that is told of changes has it: a StateProvider reads the queue itself.
type reporter struct {
	running atomic.Bool   // there is one, or a Get is about to start it
	crew    gate.Crew     // guarded by the lock of the queue
	stop    chan struct{} // closed when the queue is shut down
}

// allLeft is that of crew, for a queue that may have no reporter.
func (r *reporter) allLeft(mu *sync.Mutex) <-chan struct{} {
	if r == nil {
		return gate.ClosedForAll
	}
	return r.crew.AllLeft(mu)
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
	q.reporter.crew.Enter()
	return true
}

// report sets the gauges at each tick until the queue is shut down, or a tick
// has found nothing in flight and left them at zero.
func (q *Typed[T]) report(timer clock.Timer) {
	defer q.reporter.crew.Leave(&q.mu)
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
