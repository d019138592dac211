// Package setprovider_test is the part of the conformance suite about the
// global metrics provider. It is a package of its own because a process has
// one such provider and the first to set it wins: beside controller-runtime,
// which sets client-go's when it is imported, there would be nothing to test.
package setprovider_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
	clientgo "k8s.io/client-go/util/workqueue"
)

// A tally is a provider that counts the updates of each metric, as
// "queue/metric". A metric that was made and never updated counts 0.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) add(name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[string]int)
	}
	c.counts[name] += n
}

// of returns the counts of a queue's metrics.
func (c *tally) of(queue string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(c.counts)) {
		if metric, ok := strings.CutPrefix(name, queue+"/"); ok {
			all = append(all, fmt.Sprintf("%s %d", metric, c.counts[name]))
		}
	}
	return strings.Join(all, ", ")
}

func (c *tally) metric(queue, name string) any {
	c.add(queue+"/"+name, 0)
	return metric{c, queue + "/" + name}
}

// A metric has the methods of every kind of metric. Set does not count, since
// when a queue calls it is left open.
type metric struct {
	tally *tally
	name  string
}

func (m metric) Inc()            { m.tally.add(m.name, 1) }
func (m metric) Dec()            { m.tally.add(m.name, 1) }
func (m metric) Observe(float64) { m.tally.add(m.name, 1) }
func (m metric) Set(float64)     {}

// provider makes a package's MetricsProvider from a tally.
type provider[Gauge, Settable, Counter, Histogram any] struct{ *tally }

func (p provider[G, S, C, H]) NewDepthMetric(q string) G   { return p.metric(q, "depth").(G) }
func (p provider[G, S, C, H]) NewAddsMetric(q string) C    { return p.metric(q, "adds").(C) }
func (p provider[G, S, C, H]) NewLatencyMetric(q string) H { return p.metric(q, "latency").(H) }
func (p provider[G, S, C, H]) NewRetriesMetric(q string) C { return p.metric(q, "retries").(C) }

func (p provider[G, S, C, H]) NewWorkDurationMetric(q string) H {
	return p.metric(q, "work").(H)
}

func (p provider[G, S, C, H]) NewUnfinishedWorkSecondsMetric(q string) S {
	return p.metric(q, "unfinished").(S)
}

func (p provider[G, S, C, H]) NewLongestRunningProcessorSecondsMetric(q string) S {
	return p.metric(q, "longest").(S)
}

type queue interface {
	Add(item string)
	AddAfter(item string, duration time.Duration)
	ShutDown()
}

// An implementation is one of the packages under test. A queue is made with
// the tally as its config's provider, or none if that is nil.
type implementation struct {
	name        string
	setProvider func(*tally)
	construct   func(name string, configured *tally) queue
}

func clientGo() implementation {
	type adapter = provider[clientgo.GaugeMetric, clientgo.SettableGaugeMetric, clientgo.CounterMetric, clientgo.HistogramMetric]
	return implementation{
		name:        "client-go",
		setProvider: func(c *tally) { clientgo.SetProvider(adapter{c}) },
		construct: func(name string, configured *tally) queue {
			config := clientgo.TypedDelayingQueueConfig[string]{Name: name}
			if configured != nil {
				config.MetricsProvider = adapter{configured}
			}
			return clientgo.NewTypedDelayingQueueWithConfig(config)
		},
	}
}

func ours() implementation {
	type adapter = provider[workqueue.GaugeMetric, workqueue.SettableGaugeMetric, workqueue.CounterMetric, workqueue.HistogramMetric]
	return implementation{
		name:        "workqueue",
		setProvider: func(c *tally) { workqueue.SetProvider(adapter{c}) },
		construct: func(name string, configured *tally) queue {
			config := workqueue.TypedDelayingQueueConfig[string]{Name: name}
			if configured != nil {
				config.MetricsProvider = adapter{configured}
			}
			return workqueue.NewTypedDelayingQueueWithConfig(config)
		},
	}
}

// A history is what has been done to the global provider of a package. It is
// made once, whatever number of times the tests run.
type history struct {
	implementation
	early         queue // made before there was a provider
	first, second tally // set in this order
}

var histories = []*history{begin(clientGo()), begin(ours())}

func begin(impl implementation) *history {
	h := &history{implementation: impl, early: impl.construct("early", nil)}
	h.setProvider(&h.first)
	h.setProvider(&h.second)
	return h
}

// run makes each run's queues different ones to the tallies.
var run atomic.Int64

func TestSetProvider(t *testing.T) {
	const all = "adds 1, depth 1, latency 0, longest 0, retries 1, unfinished 0, work 0"
	for _, h := range histories {
		t.Run("impl="+h.name, func(t *testing.T) {
			var own tally
			plain, configured := fmt.Sprint("plain", run.Add(1)), fmt.Sprint("configured", run.Load())
			use(h.construct(plain, nil))
			use(h.construct("", nil))
			use(h.construct(configured, &own))
			use(h.early)
			for _, c := range []struct {
				what  string
				tally *tally
				queue string
				want  string
			}{
				{"a queue is the first provider's", &h.first, plain, all},
				{"and not the second's", &h.second, plain, ""},
				{"one without a name is nobody's", &h.first, "", ""},
				{"nor is one made before", &h.first, "early", ""},
				{"a provider in the config comes first", &own, configured, all},
				{"and alone", &h.first, configured, ""},
			} {
				if got := c.tally.of(c.queue); got != c.want {
					t.Errorf("%s: got %q, want %q", c.what, got, c.want)
				}
			}
		})
	}
}

func use(q queue) {
	defer q.ShutDown()
	q.Add("a")
	q.AddAfter("b", time.Hour)
}
