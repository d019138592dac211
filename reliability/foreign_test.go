package reliability

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A jammed provider has metrics that block: the one of the given number, from
// the time that it is jammed on.
type jammed struct {
	number int
	hold   chan struct{} // nil until jammed
	hits   atomic.Int32
}

type jam struct {
	*jammed
	number int
}

func (j jam) Inc()            { j.call() }
func (j jam) Dec()            { j.call() }
func (j jam) Set(float64)     { j.call() }
func (j jam) Observe(float64) { j.call() }

func (j jam) call() {
	if j.hold != nil && j.number == j.jammed.number {
		j.hits.Add(1)
		<-j.hold
	}
}

const metrics = 7

func (j *jammed) NewDepthMetric(string) workqueue.GaugeMetric            { return jam{j, 0} }
func (j *jammed) NewAddsMetric(string) workqueue.CounterMetric           { return jam{j, 1} }
func (j *jammed) NewLatencyMetric(string) workqueue.HistogramMetric      { return jam{j, 2} }
func (j *jammed) NewWorkDurationMetric(string) workqueue.HistogramMetric { return jam{j, 3} }
func (j *jammed) NewRetriesMetric(string) workqueue.CounterMetric        { return jam{j, 4} }
func (j *jammed) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return jam{j, 5}
}
func (j *jammed) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return jam{j, 6}
}

// Whichever metric blocks, on whichever goroutine, a Drain ends when its context
// does.
func TestDrainEndsWithItsContextWhicheverMetricBlocks(t *testing.T) {
	awaitNone(t) // Of the tests before.
	for number := range metrics {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &jammed{number: number}
				clock := testingclock.NewFakeClock(time.Now())
				q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Name: "q", MetricsProvider: j, Clock: clock})
				q.AddAll(1, 2, 3)
				q.Get()
				q.AddAfter(4, time.Second)
				synctest.Wait()
				j.hold = make(chan struct{})
				for _, call := range []func(){
					func() { q.Add(5) }, func() { q.Get() }, func() { q.Done(1) }, func() { q.AddAfter(6, time.Hour) },
					func() { clock.Step(time.Second) },
				} {
					go call()
					synctest.Wait()
				}
				if j.hits.Load() == 0 {
					t.Fatal("nothing blocks")
				}
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				result := make(chan error, 1)
				go func() { result <- q.Drain(ctx) }()
				time.Sleep(time.Minute)
				select {
				case err := <-result:
					var left *workqueue.DrainError[int]
					if !errors.As(err, &left) || !errors.Is(err, context.DeadlineExceeded) || left.Left.QueuedTotal == 0 {
						t.Errorf("got %v, want what is left at the deadline", err)
					}
				default:
					t.Errorf("the drain lasts %v and more", time.Since(start))
				}
				close(j.hold)
				synctest.Wait()
				if n := ours(); n != 0 {
					t.Errorf("%d goroutines are left", n)
				}
			})
		})
	}
}

// A gate is in all foreign code of a queue. It keeps the call of the given
// number from when it is armed.
type gate struct {
	number int64
	calls  atomic.Int64
	armed  atomic.Bool
	shut   atomic.Bool // the call has come
	hold   chan struct{}
}

func (g *gate) pass() {
	if g.armed.Load() && g.calls.Add(1) == g.number {
		g.shut.Store(true)
		<-g.hold
	}
}

// gatedClock and gatedMetrics are the real clock, and metrics that do nothing.
type gatedClock struct {
	clock.RealClock
	*gate
}

func (c gatedClock) Now() time.Time {
	c.pass()
	return c.RealClock.Now()
}

func (c gatedClock) Since(t time.Time) time.Duration {
	c.pass()
	return c.RealClock.Since(t)
}

func (c gatedClock) NewTimer(d time.Duration) clock.Timer {
	c.pass()
	return c.RealClock.NewTimer(d)
}

type gatedMetrics struct{ *gate }

func (m gatedMetrics) Inc()            { m.pass() }
func (m gatedMetrics) Dec()            { m.pass() }
func (m gatedMetrics) Set(float64)     { m.pass() }
func (m gatedMetrics) Observe(float64) { m.pass() }

func (m gatedMetrics) NewDepthMetric(string) workqueue.GaugeMetric            { return m }
func (m gatedMetrics) NewAddsMetric(string) workqueue.CounterMetric           { return m }
func (m gatedMetrics) NewLatencyMetric(string) workqueue.HistogramMetric      { return m }
func (m gatedMetrics) NewWorkDurationMetric(string) workqueue.HistogramMetric { return m }
func (m gatedMetrics) NewRetriesMetric(string) workqueue.CounterMetric        { return m }
func (m gatedMetrics) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return m
}
func (m gatedMetrics) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return m
}

// Each call of a metric and of the clock blocks once, whoever makes it: that
// delays its caller, with at most one item in its hands, and nobody else.
func TestForeignCodeThatBlocksDelaysItsCallerAlone(t *testing.T) {
	const items, workers = 7, 3
	for number := int64(1); number > 0; number++ {
		synctest.Test(t, func(t *testing.T) {
			g := &gate{number: number, hold: make(chan struct{})}
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
				Name: "q", MetricsProvider: gatedMetrics{g}, Clock: gatedClock{gate: g},
			})
			var got atomic.Int64
			for range workers {
				go func() {
					for item, shutdown := q.Get(); !shutdown; item, shutdown = q.Get() {
						got.Add(1)
						q.Done(item)
					}
				}()
			}
			synctest.Wait()
			g.armed.Store(true)
			for i := range items {
				go func() {
					if i == 2 { // One, as the goroutine of the queue is a caller too.
						q.AddAfter(i, time.Second)
					} else {
						q.Add(i)
					}
				}()
				synctest.Wait()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := got.Load(); n < items-1 {
				t.Errorf("call %d of foreign code blocks, and %d of %d items are handed out", number, n, items)
			}
			if !g.shut.Load() {
				t.Logf("foreign code is called %d times", number-1)
				number = -1
			}
			close(g.hold)
			time.Sleep(time.Minute)
			q.ShutDownWithDrain()
			if n := got.Load(); n != items {
				t.Errorf("call %d of foreign code returns at last, and %d of %d items were handed out", number, n, items)
			}
		})
	}
}
