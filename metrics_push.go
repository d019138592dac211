package workqueue

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/seed16c08ea7/workqueue/internal/gate"
	"github.com/seed16c08ea7/workqueue/internal/histogram"
)

// This file is the push mode: a provider is told of each change, and a goroutine reports the
// work in flight.

// instruments are the metrics of a Typed, and the clock for its items. They are immutable after
// construction. A queue without times has nil. With KeepTimes alone there is only the clock.
type instruments struct {
	clock clock.WithTicker
	// Times are kept as nanoseconds since epoch: half the size of a time.Time
	// without its location. Reading the monotonic clock alone takes half the time of
	// time.Now.
	epoch time.Time

	push *pushed       // nil unless a provider is told of each change
	link *providerLink // nil unless a provider reads this queue
}

// pushed are the metrics of the push mode.
type pushed struct {
	depth          GaugeMetric
	adds           CounterMetric
	latency        HistogramMetric
	workDuration   HistogramMetric
	unfinished     SettableGaugeMetric
	longestRunning SettableGaugeMetric
}

// measure makes the metrics of a new queue, without the link to a StateProvider. p is the result of providerFor.
func (q *Typed[T]) measure(config TypedQueueConfig[T], p MetricsProvider) {
	if p == nil && !config.KeepTimes {
		return
	}
	c := clockOrDefault(config.Clock)
	m := &instruments{clock: c, epoch: c.Now()}
	q.metrics = m
	if p != nil && stateProviderOf(p) == nil {
		m.push = newPushed(p, config.Name)
		q.reporter = &reporter{}
	}
}

// attach lets a StateProvider read a new queue, at once: the queue is complete.
func (q *Typed[T]) attach(name string, p MetricsProvider) {
	state := stateProviderOf(p)
	if state == nil {
		return
	}
	l, bounds := newLink(state, name, LayerQueue, q, (*Typed[T]).Stats)
	q.metrics.link = l
	q.observeDurations(histogram.New(bounds))
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

// now returns the time since the epoch, 0 for a queue without times.
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

// added observes n Adds that were no duplicates.
func (m *instruments) added(n int) {
	if !m.pushes() {
		return
	}
	for range n {
		m.push.adds.Inc()
		m.push.depth.Inc()
	}
}

func (m *instruments) removed() {
	if m.pushes() {
		m.push.depth.Dec()
	}
}

// givenBack undoes what a hand-out has told of the depth.
func (m *instruments) givenBack() {
	if m.pushes() {
		m.push.depth.Inc()
	}
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
	if p != nil && stateProviderOf(p) == nil {
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

// reportPeriod is how often the gauges of work in flight are set. It is the period of
// client-go, for which dashboards were written.
const reportPeriod = 500 * time.Millisecond

// A reporter is the goroutine of the push mode: it sets the gauges of work in flight. The
// goroutine runs while items are held, so a queue at rest has none.
type reporter struct {
	running atomic.Bool   // the goroutine runs, or a Get is about to start the goroutine
	crew    gate.Crew     // guarded by the lock of the queue
	stop    chan struct{} // closed when the queue is shut down; made for the first goroutine
}

// allLeft is AllLeft of the crew. A nil reporter has no crew.
func (r *reporter) allLeft(mu *gate.Mutex) <-chan struct{} {
	if r == nil {
		return gate.ClosedForAll
	}
	return r.crew.AllLeft(mu)
}

// observeGet observes a hand-out. The caller gets the item only when the metrics have returned.
// If a metric panics or ends the goroutine, nobody will process the item or call Done. So the
// item goes back to the head of the queue.
func (q *Typed[T]) observeGet(item T, waited time.Duration) {
	if !q.metrics.pushes() {
		return
	}
	left, delivered := false, false // left: the depth has counted the hand-out.
	defer func() {
		if delivered {
			return
		}
		if queued := q.putBack(item, waited); queued && left {
			q.metrics.givenBack()
		}
	}()
	q.metrics.push.depth.Dec()
	left = true
	q.metrics.push.latency.Observe(waited.Seconds())
	if !q.reporter.running.Load() {
		q.startReports(q.metrics.clock.NewTimer(reportPeriod))
	}
	delivered = true
}

// startReports starts the reporter, unless the reporter runs. The caller has made the timer: a
// clock can be foreign code, which must not run with the lock held.
//
// The reporter has no ticker, as the fake clock of k8s.io/utils counts a ticker as a waiter for
// ever, stopped or not.
func (q *Typed[T]) startReports(timer clock.Timer) {
	if q.enterReports() {
		go q.report(timer)
	} else {
		timer.Stop()
	}
}

// enterReports counts the goroutine, and reports whether it is to start. After a shutdown no
// goroutine starts, as the shutdown waits for all goroutines counted before.
func (q *Typed[T]) enterReports() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fifo.Closed || q.reporter.running.Swap(true) {
		return false
	}
	if q.reporter.stop == nil {
		q.reporter.stop = make(chan struct{})
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
// flight, and the gauges say so. The last Done may have come after the gauges were set, so
// reportOnce asks for both. The timer is set first, or the time for the gauges would add to
// the period.
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

// endReports reports whether nothing is held. The next Get then starts a new goroutine. The flag
// is cleared in the same critical section: a Get in between would see the flag and start no
// goroutine.
//
// The total of the gauges does not count here, as it was read in an earlier critical section.
func (q *Typed[T]) endReports() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fifo.Held() > 0 {
		return false
	}
	q.reporter.running.Store(false)
	return true
}

// inFlight returns for how long the held items have been held, added up and at
// most. The time is proportional to the number of held items, every half second. A sum that is
// always up to date would cost each Get and Done.
func (q *Typed[T]) inFlight() (total, longest time.Duration) {
	now := q.metrics.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fifo.InFlight(now)
}
