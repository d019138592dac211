package workqueue_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// The last Done may come while the gauges are being set to what was in flight
// before it. They are set once more then, to zero.
func TestGaugesOfAQueueAtRestAreZero(t *testing.T) {
	for _, gauge := range []string{"unfinished", "longest"} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{}
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r})
			defer q.ShutDown()
			q.Add("a")
			q.Get()
			r.setHook(func(event string) {
				if strings.HasPrefix(event, gauge) {
					q.Done("a")
				}
			})
			time.Sleep(time.Hour)
			synctest.Wait()
			want := "unfinished=0.5 longest=0.5 unfinished=0 longest=0"
			if got := strings.Join(reportsOf(r), " "); got != want {
				t.Errorf("Done in the Set of %s: set %q, want %q", gauge, got, want)
			}
			if n := goroutines(); n != 0 {
				t.Errorf("Done in the Set of %s: %d goroutines at rest", gauge, n)
			}
		})
	}
}

// The fake clock of k8s.io/utils keeps a ticker that was stopped, and with it
// HasWaiters, on which tests wait.
func TestReportsLeaveNoWaiterOnAFakeClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		q, clock := newMeasured(r)
		defer q.ShutDown()
		for period := range 20 {
			q.Add("a")
			q.Get()
			for range 3 {
				clock.Step(500 * time.Millisecond)
				synctest.Wait()
			}
			if n := clock.Waiters(); n != 1 {
				t.Errorf("period %d: %d waiters while an item is held, want 1", period, n)
			}
			q.Done("a")
			clock.Step(500 * time.Millisecond)
			synctest.Wait()
			if n := clock.Waiters(); n != 0 {
				t.Errorf("period %d: %d waiters at rest", period, n)
			}
			want := "unfinished=0.5 longest=0.5 unfinished=1 longest=1 unfinished=1.5 longest=1.5 unfinished=0 longest=0"
			if got := strings.Join(reportsOf(r), " "); got != want {
				t.Errorf("period %d: set %q, want %q", period, got, want)
			}
		}
	})
}

// A gauge that takes longer than the period neither piles up reports nor stops
// the clock, whose timers wait for room when they fire.
func TestGaugeThatIsSlowerThanItsPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		q, clock := newMeasured(r)
		defer q.ShutDown()
		q.Add("a")
		q.Get()
		hold := make(chan struct{})
		r.setHook(func(event string) {
			if strings.HasPrefix(event, "longest") {
				<-hold
			}
		})
		for range 5 {
			clock.Step(500 * time.Millisecond)
			synctest.Wait()
		}
		close(hold)
		synctest.Wait()
		want := "unfinished=0.5 longest=0.5 unfinished=2.5 longest=2.5"
		if got := strings.Join(reportsOf(r), " "); got != want {
			t.Errorf("set %q, want %q", got, want)
		}
	})
}

// No foreign code runs with the lock held, a clock's neither.
func TestTimerOfReportsThatIsNotUsedIsStoppedWithoutTheLock(t *testing.T) {
	clock := newTickedClock()
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: silent{}, Clock: clock})
	q.Add("a")
	q.ShutDown()
	stopped := false
	clock.onStop = func() {
		stopped = true
		if q.Locked() {
			t.Error("the timer is stopped with the lock held")
		}
	}
	q.Get()
	if !stopped {
		t.Error("the timer is not stopped")
	}
}
