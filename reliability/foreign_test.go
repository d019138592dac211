package reliability

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
					if !errors.As(err, &left) || !errors.Is(err, context.DeadlineExceeded) || left.QueuedTotal == 0 {
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
