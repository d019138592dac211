package otelqueue

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// ProducerOptions are the options of a [Producer]. The zero value is valid.
type ProducerOptions struct {
	// Buckets are the upper bounds of the buckets of all histograms, in seconds and in
	// increasing order. Without Buckets the histograms are exponential.
	Buckets []float64
}

// A Producer makes metrics of queues. It is a metric.Producer of the SDK: give it to a reader
// by metric.WithProducer. It is a [workqueue.StateProvider] too: give it to the config of each
// queue, or to [workqueue.SetProvider]. A queue is read when the reader collects, and has no
// goroutine for its metrics.
//
// All metrics have the attribute workqueue.name, except workqueue.abandoned. They are
// cumulative. No metric has an item or a group as an attribute. Of the priorities, 25 have an
// attribute of their own, and all others together have the attribute "other".
//
// The metrics of a queue are there from its construction to its end. Queues of one name share
// their metrics: sums, the greatest of the longest times. Counts go on until the last of these
// queues ends. A later queue of the name starts anew, with a new start time.
//
// All methods may be called concurrently. Constructors and shutdowns of queues wait for a
// collection, which takes the lock of one queue after the other. Make Producers by
// [NewProducer].
type Producer struct {
	workqueue.NoMetrics

	bounds []float64
	start  time.Time

	// Lock order: mu, a queue. A queue calls the Producer without its lock.
	mu        sync.Mutex
	names     map[string]*family // guarded by mu, as are the families
	abandoned workqueue.Totals   // guarded by mu
}

// A family is all queues of one name.
type family struct {
	start   time.Time
	layers  workqueue.QueueLayers // of all members so far
	members []*member
	past    workqueue.QueueStats // the counts of members that have ended
}

// A member is a queue, or a layer of a queue that was made apart.
type member struct {
	read func() (workqueue.QueueStats, bool)
	last workqueue.QueueStats // the counts when read was last called
}

// NewProducer returns a Producer without queues. It panics if the buckets are not finite and
// increasing.
func NewProducer(options ProducerOptions) *Producer {
	for i, b := range options.Buckets {
		if math.IsNaN(b) || math.IsInf(b, 0) || i > 0 && b <= options.Buckets[i-1] {
			panic(fmt.Sprint("otelqueue: buckets are not finite and increasing: ", options.Buckets))
		}
	}
	return &Producer{bounds: slices.Clone(options.Buckets), start: time.Now(), names: make(map[string]*family)}
}

// NewQueue implements [workqueue.StateProvider].
func (p *Producer) NewQueue(queue workqueue.QueueSource) workqueue.QueueMetrics {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := valid(queue.Name)
	f := p.names[name]
	if f == nil {
		f = &family{start: time.Now()}
		p.names[name] = f
	}
	m := &member{read: queue.Read}
	f.members = append(f.members, m)
	f.layers |= queue.Layers
	return workqueue.QueueMetrics{Buckets: p.bounds, End: func(left workqueue.Totals) { p.end(name, m, left) }}
}

// end removes a member, and the family with its last member. Until then the family keeps the
// counts: a sum that falls would be taken for a restart.
func (p *Producer) end(name string, m *member, left workqueue.Totals) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.names[name]
	m.stats()
	f.past.Merge(m.last)
	f.members = slices.DeleteFunc(f.members, func(other *member) bool { return other == m })
	if len(f.members) == 0 {
		delete(p.names, name)
	}
	p.abandoned.QueuedTotal += left.QueuedTotal
	p.abandoned.InFlightTotal += left.InFlightTotal
	p.abandoned.WaitingTotal += left.WaitingTotal
}

// stats reads a member. A queue that was dropped without a shutdown can be gone before its end is
// told. Then stats returns the last counts.
func (m *member) stats() workqueue.QueueStats {
	now, ok := m.read()
	if !ok {
		return m.last
	}
	m.last = workqueue.QueueStats{
		Adds: now.Adds, Duplicates: now.Duplicates, Paced: now.Paced, Retries: now.Retries, RateLimited: now.RateLimited,
		Latency: now.Latency, WorkDuration: now.WorkDuration, Lateness: now.Lateness, RetryDelay: now.RetryDelay,
		Results: now.Results,
	}
	return now
}

// A reading is the state of a family at one time.
type reading struct {
	name        string
	layers      workqueue.QueueLayers
	start, time time.Time
	stats       workqueue.QueueStats
}

// Produce implements metric.Producer. The metrics are sorted by name of queue. The error is
// always nil.
func (p *Producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	readings, abandoned := p.read()
	var all []metricdata.Metrics
	for _, r := range counts {
		all = r.append(all, readings)
	}
	for _, r := range times {
		all = r.append(all, readings)
	}
	for _, h := range histograms {
		all = h.append(all, readings, p.bounds)
	}
	return []metricdata.ScopeMetrics{{
		Scope:   instrumentation.Scope{Name: scope},
		Metrics: append(all, p.ends(abandoned)),
	}}, nil
}

func (p *Producer) read() (readings []reading, abandoned workqueue.Totals) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.names)) {
		f := p.names[name]
		stats := f.past
		for _, m := range f.members {
			stats.Merge(m.stats())
		}
		readings = append(readings, reading{name: name, layers: f.layers, start: f.start, time: time.Now(), stats: stats})
	}
	return readings, p.abandoned
}

// ends is the counter of items that queues had at their end. The metrics of a name end with its
// queue, so this counter has no name.
func (p *Producer) ends(abandoned workqueue.Totals) metricdata.Metrics {
	sum := metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
	now := time.Now()
	for _, state := range []struct {
		name string
		n    int
	}{{"queued", abandoned.QueuedTotal}, {"in_flight", abandoned.InFlightTotal}, {"waiting", abandoned.WaitingTotal}} {
		sum.DataPoints = append(sum.DataPoints, metricdata.DataPoint[int64]{
			Attributes: attribute.NewSet(stateKey.String(state.name)), StartTime: p.start, Time: now, Value: int64(state.n),
		})
	}
	return metricdata.Metrics{Name: "workqueue.abandoned", Unit: "{item}", Data: sum,
		Description: "Items that queues still had when they were shut down, by their state."}
}

// attributes returns the attributes of a point.
func (r reading) attributes(more ...attribute.KeyValue) attribute.Set {
	return attribute.NewSet(append(more, nameKey.String(r.name))...)
}
