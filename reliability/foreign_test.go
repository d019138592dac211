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

// A probe is a provider whose metrics call a function with their number. The metrics measure nothing.
type probe func(number int)

type probed struct {
	call   probe
	number int
}

func (m probed) Inc()            { m.call(m.number) }
func (m probed) Dec()            { m.call(m.number) }
func (m probed) Set(float64)     { m.call(m.number) }
func (m probed) Observe(float64) { m.call(m.number) }

const (
	handOut = 2 // the metric of a hand-out
	metrics = 7
)

func (p probe) NewDepthMetric(string) workqueue.GaugeMetric            { return probed{p, 0} }
func (p probe) NewAddsMetric(string) workqueue.CounterMetric           { return probed{p, 1} }
func (p probe) NewLatencyMetric(string) workqueue.HistogramMetric      { return probed{p, handOut} }
func (p probe) NewWorkDurationMetric(string) workqueue.HistogramMetric { return probed{p, 3} }
func (p probe) NewRetriesMetric(string) workqueue.CounterMetric        { return probed{p, 4} }
func (p probe) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return probed{p, 5}
}
func (p probe) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return probed{p, 6}
}

// Whichever metric blocks, on whichever goroutine, a Drain ends when its context
// does.
func TestDrainEndsWithItsContextWhicheverMetricBlocks(t *testing.T) {
	awaitNone(t) // Of the tests before.
	for number := range metrics {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hold chan struct{} // Not nil once the metric blocks.
				var hits atomic.Int32
				block := probe(func(n int) {
					if hold != nil && n == number {
						hits.Add(1)
						<-hold
					}
				})
				clock := testingclock.NewFakeClock(time.Now())
				q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Name: "q", MetricsProvider: block, Clock: clock})
				q.AddAll(1, 2, 3)
				q.Get()
				q.AddAfter(4, time.Second)
				synctest.Wait()
				hold = make(chan struct{})
				for _, call := range []func(){
					func() { q.Add(5) }, func() { q.Get() }, func() { q.Done(1) }, func() { q.AddAfter(6, time.Hour) },
					func() { clock.Step(time.Second) },
				} {
					go call()
					synctest.Wait()
				}
				if hits.Load() == 0 {
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
				close(hold)
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

// A gatedClock is the real clock.
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

// Each call of a metric and of the clock blocks once, whoever makes it: that
// delays its caller, with at most one item in its hands, and nobody else.
func TestForeignCodeThatBlocksDelaysItsCallerAlone(t *testing.T) {
	const items, workers = 7, 3
	for number := int64(1); number > 0; number++ {
		synctest.Test(t, func(t *testing.T) {
			g := &gate{number: number, hold: make(chan struct{})}
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
				Name: "q", MetricsProvider: probe(func(int) { g.pass() }), Clock: gatedClock{gate: g},
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
