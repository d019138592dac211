package workqueue

import (
	"sync/atomic"
	"time"
)

// This file has what a TypedDelaying counts for a StateProvider, and how it is read.
// A provider that is told of changes gets only the retries from it.

// delayMetrics are the metrics of a delaying queue that a provider reads.
type delayMetrics struct {
	link    *providerLink
	layers  QueueLayers
	retries tally
	limited tally
	results atomic.Pointer[[outcomes]tally] // nil until a Run counts
	limits  atomic.Pointer[toldDurations]   // what the limiter has said; nil until it has

	// Guarded by the lock of the queue.

	lateness  histogram
	abandoned int // items that waited when the queue was closed
}

// A tally is a counter that is read. It can stand in for a [CounterMetric], and with
// Dec for a [GaugeMetric], so that callers need not know who counts. It is atomic
// because AddAfter counts before it takes a lock.
type tally struct{ n atomic.Int64 }

func (t *tally) Inc() { t.n.Add(1) }
func (t *tally) Dec() { t.n.Add(-1) }

func (t *tally) value() uint64 { return uint64(t.n.Load()) }

// attach lets the provider read the queue and, if it is the delaying queue's
// own, the FIFO below. Both are then read in one critical section: an item that
// becomes due is in exactly one of the two layers.
//
// The provider may read as soon as newLink has called it. So metrics is set before,
// and the histogram, for which newLink returns the bounds, with the lock held.
func (q *TypedDelaying[T]) attach(p StateProvider, name string, own bool) {
	m := &delayMetrics{layers: LayerDelays}
	if own {
		m.layers |= LayerFIFO
	}
	q.metrics = m
	q.retries = &m.retries
	l, bounds := newLink(p, name, m.layers, q, (*TypedDelaying[T]).stats)
	m.link = l
	if own {
		q.typed.observeDurations(bounds)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	m.lateness = newHistogram(bounds)
}

// observeLateness counts by how much an item was late. It is called with the lock of
// the queue held.
func (m *delayMetrics) observeLateness(late time.Duration) {
	if m != nil {
		m.lateness.observe(late)
	}
}

// stats returns the state of the queue. The clock is read before the locks are
// taken, as it may be foreign code. Lock order: this queue, the FIFO.
//
// Both are held at once so that the sums agree: between two sections an item could
// become due, and would be in Waiting and in Depth, or in neither.
func (q *TypedDelaying[T]) stats() (s QueueStats) {
	own := q.metrics.layers&LayerFIFO != 0
	var now time.Duration
	if own {
		now = q.typed.metrics.now()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if own {
		q.typed.mu.Lock()
		defer q.typed.mu.Unlock()
		s = q.typed.statsLocked(now)
	}
	s.Waiting = q.agenda.len()
	s.Retries = q.metrics.retries.value()
	s.Lateness = q.metrics.lateness.read()
	q.metrics.readLimits(&s)
	return s
}

// retire tells the provider that the queue has ended and what it has left. It does so
// for the FIFO below too, if that is read through this queue and has no link of its
// own. The provider is foreign code, and so is called without a lock.
func (q *TypedDelaying[T]) retire() {
	if q.metrics == nil {
		return
	}
	var left Abandoned
	if q.metrics.layers&LayerFIFO != 0 {
		left = q.typed.abandoned()
	}
	q.mu.Lock()
	left.Waiting = q.metrics.abandoned
	q.mu.Unlock()
	q.metrics.link.cut(left)
}

// dropLocked drops the waiting items, as the queue is shut down. Their number is
// kept for retire.
func (q *TypedDelaying[T]) dropLocked() {
	if q.metrics != nil {
		q.metrics.abandoned += q.agenda.len()
	}
	q.agenda.clear()
}
