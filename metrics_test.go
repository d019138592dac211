package workqueue_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// openFIFO and openDelaying open a queue with the name q. A nil clock is the real one.
func openFIFO(p workqueue.MetricsProvider, c clock.WithTicker) *workqueue.Typed[string] {
	return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p, Clock: c})
}

func openDelaying(p workqueue.MetricsProvider, c clock.WithTicker) *workqueue.TypedDelaying[string] {
	return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: p, Clock: c})
}

// A census notes which metrics a provider was asked for.
type census struct {
	recorder
	mu    sync.Mutex
	asked []string
}

func (c *census) ask(metric string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, metric)
}

func (c *census) NewDepthMetric(name string) workqueue.GaugeMetric {
	c.ask("depth of " + name)
	return c.recorder.NewDepthMetric(name)
}

func (c *census) NewRetriesMetric(name string) workqueue.CounterMetric {
	c.ask("retries of " + name)
	return c.recorder.NewRetriesMetric(name)
}

// A readCensus is a census of a provider that reads.
type readCensus struct{ census }

func (c *readCensus) NewQueue(q workqueue.QueueSource) workqueue.QueueMetrics {
	c.ask(fmt.Sprintf("layers %d of %s", q.Layers, q.Name))
	return workqueue.QueueMetrics{}
}

// The provider in the config wins over the global provider. Queues constructed before SetProvider
// have no metrics, nor have queues without a name.
func TestWhichQueuesHaveMetrics(t *testing.T) {
	t.Cleanup(workqueue.ResetProvider)
	build := func(name string, p workqueue.MetricsProvider) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: name, MetricsProvider: p})
		q.Add("a")
		q.AddAfter("a", 0)
		q.ShutDown()
		workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: name, MetricsProvider: p}).ShutDown()
	}
	play := func(mine, global, late workqueue.MetricsProvider) {
		workqueue.ResetProvider()
		build("too early", nil)
		build("", mine)
		build("mine", mine)
		workqueue.SetProvider(nil)
		workqueue.SetProvider(global)
		workqueue.SetProvider(late)
		build("", nil)
		build("global", nil)
		build("again", mine)
	}
	var pushed [3]census
	play(&pushed[0], &pushed[1], &pushed[2])
	var read [3]readCensus
	play(&read[0], &read[1], &read[2])
	for i, want := range []string{
		"[retries of mine depth of mine depth of mine retries of again depth of again depth of again]",
		"[retries of global depth of global depth of global]", "[]",
	} {
		if got := fmt.Sprint(pushed[i].asked); got != want {
			t.Errorf("told %d: made %s, want %s", i, got, want)
		}
	}
	for i, want := range []string{
		"[layers 3 of mine layers 1 of mine layers 3 of again layers 1 of again]", "[layers 3 of global layers 1 of global]", "[]",
	} {
		if got := fmt.Sprint(read[i].asked); got != want {
			t.Errorf("reads %d: made %s, want %s", i, got, want)
		}
	}
	if got, want := strings.Join(pushed[1].take(), " "), "adds+1 depth+1 retries+1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A queue has all metrics or none, whenever in its construction the provider is
// set: here by the clock, which a constructor reads.
func TestProviderSetWithinAConstructor(t *testing.T) {
	t.Cleanup(workqueue.ResetProvider)
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[any](1, 1)
	for name, construct := range map[string]func(c clock.WithTicker) interface{ ShutDown() }{
		"NewTypedWithConfig": func(c clock.WithTicker) interface{ ShutDown() } {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[any]{Name: "q", Clock: c})
		},
		"NewTypedWithConfig, with times": func(c clock.WithTicker) interface{ ShutDown() } {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[any]{Name: "q", Clock: c, KeepTimes: true})
		},
		"NewTypedDelaying": func(c clock.WithTicker) interface{ ShutDown() } {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[any]{Name: "q", Clock: c})
		},
		"NewTypedDelaying, with times": func(c clock.WithTicker) interface{ ShutDown() } {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[any]{Name: "q", Clock: c, KeepTimes: true})
		},
		"NewTypedRateLimiting": func(c clock.WithTicker) interface{ ShutDown() } {
			return workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[any]{Name: "q", Clock: c})
		},
		"NewDelayingQueueWithCustomClock": func(c clock.WithTicker) interface{ ShutDown() } {
			return workqueue.NewDelayingQueueWithCustomClock(c, "q")
		},
	} {
		for reading := 1; reading <= 3; reading++ {
			pushed, read := &census{}, &readCensus{}
			for p, c := range map[workqueue.MetricsProvider]*census{pushed: pushed, read: &read.census} {
				workqueue.ResetProvider()
				readings := 0
				hooked := newHookedClock()
				hooked.onRead = func() {
					if readings++; readings == reading {
						workqueue.SetProvider(p)
					}
				}
				construct(hooked).ShutDown()
				if len(c.asked) > 0 {
					t.Errorf("%s, set at reading %d: %T has made metrics %v, want none", name, reading, p, c.asked)
				}
			}
		}
	}
}

// The adapter passes everything on.
func TestAdaptMetricsProvider(t *testing.T) {
	r := &recorder{}
	p := workqueue.AdaptMetricsProvider(r)
	clock := testingclock.NewFakeClock(epoch)
	q := openDelaying(p, clock)
	q.AddAfter("a", 0)
	clock.Step(time.Second)
	q.Get()
	p.NewUnfinishedWorkSecondsMetric("q").Set(1)
	p.NewLongestRunningProcessorSecondsMetric("q").Set(2)
	q.Done("a")
	q.ShutDown()
	if got, want := strings.Join(r.take(), " "), "retries+1 adds+1 depth+1 depth-1 latency(1) unfinished=1 longest=2 work(0)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
