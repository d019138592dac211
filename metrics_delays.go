package workqueue

import (
	"sync/atomic"
	"time"
)

// This file is what a TypedDelaying counts for a StateProvider.

// delayMetrics are the metrics of a delaying queue that a provider reads.
type delayMetrics struct {
	link    *link
	layers  QueueLayers
	retries tally
	limited tally

	// Guarded by the lock of the queue.

	lateness  histogram
	abandoned int // items that waited when the queue was closed
}

// A tally is a count that is read.
type tally struct{ n atomic.Int64 }

func (t *tally) Inc() { t.n.Add(1) }
func (t *tally) Dec() { t.n.Add(-1) }

func (t *tally) count() uint64 { return uint64(t.n.Load()) }

// attach lets the provider read the queue and, if it is the delaying queue's
// own, the FIFO below. That is then one reading with one critical section: an
// item that becomes due is in one of the two layers, not in both or neither.
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

// observeLateness is called with the lock of the queue held.
func (m *delayMetrics) observeLateness(late time.Duration) {
	if m != nil {
		m.lateness.observe(late)
	}
}

// stats returns the state of the queue. Lock order: this queue, the FIFO.
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
	s.Retries = q.metrics.retries.count()
	s.RateLimited = q.metrics.limited.count()
	s.Lateness = q.metrics.lateness.read()
	return s
}

// retire is that of Typed, which has no link of its own if it is read through
// this queue.
func (q *TypedDelaying[T]) retire() {
	if q.metrics == nil {
		return
	}
	var left Abandoned
	if q.metrics.layers&LayerFIFO != 0 {
		left = q.typed.left()
	}
	q.mu.Lock()
	left.Waiting = q.metrics.abandoned
	q.mu.Unlock()
	q.metrics.link.cut(left)
}

// abandonLocked drops the items that wait, as the queue is shut down.
func (q *TypedDelaying[T]) abandonLocked() {
	if q.metrics != nil {
		q.metrics.abandoned += q.agenda.len()
	}
	q.agenda.clear()
}
