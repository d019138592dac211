package workqueue_test

import (
	"context"
	"os"
	"runtime"
	"slices"
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

func TestWorkInFlightIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r})
		for i, row := range []struct {
			sleep      time.Duration
			do         string
			f          func()
			want       string
			goroutines int
		}{
			{0, "at rest there is no goroutine", func() {}, "", 0},
			{time.Hour, "nor are there reports", func() { q.AddAll("a", "b") }, "adds+1 depth+1 adds+1 depth+1", 0},
			{0, "the first Get starts them", func() { q.Get() }, "depth-1 latency(0)", 1},
			{499 * time.Millisecond, "not at once", func() {}, "", 1},
			{time.Millisecond, "after half a second", func() {}, "unfinished=0.5 longest=0.5", 1},
			{250 * time.Millisecond, "a second item", func() { q.Get() }, "depth-1 latency(0.75)", 1},
			{250 * time.Millisecond, "adds to one of them", func() {}, "unfinished=1.25 longest=1", 1},
			{400 * time.Millisecond, "the first is done", func() { q.Done("a") }, "work(1.4)", 1},
			{100 * time.Millisecond, "the second is left", func() {}, "unfinished=0.75 longest=0.75", 1},
			{0, "all are done", func() { q.Done("b") }, "work(0.75)", 1},
			{500 * time.Millisecond, "the last report", func() {}, "unfinished=0 longest=0", 0},
			{time.Hour, "and none after it", func() {}, "", 0},
			{0, "work starts again", func() { q.Add("c"); q.Get() }, "adds+1 depth+1 depth-1 latency(0)", 1},
			{500 * time.Millisecond, "and is reported", func() {}, "unfinished=0.5 longest=0.5", 1},
			{0, "until the shutdown", func() { q.ShutDown() }, "", 0},
			{time.Hour, "whatever is in flight", func() { q.Done("c") }, "work(3600.5)", 0},
		} {
			time.Sleep(row.sleep)
			synctest.Wait()
			row.f()
			synctest.Wait()
			if got := strings.Join(r.take(), " "); got != row.want {
				t.Errorf("step %d: %s: got %q, want %q", i, row.do, got, row.want)
			}
			if n := goroutines(); n != row.goroutines {
				t.Errorf("step %d: %s: %d goroutines, want %d", i, row.do, n, row.goroutines)
			}
		}
	})
}

// What was in hand before a shutdown is not reported after it, and a Get after
// it starts nothing that nobody would stop, even if it ticked at once.
func TestNoReportsAfterTheShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // Which of a tick and the shutdown is seen first is chance.
			r := &recorder{}
			clock := newTickedClock()
			close(clock.ticks)
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r, Clock: clock})
			q.AddAll("a", "b")
			q.ShutDown()
			q.Get()
			time.Sleep(time.Minute)
			if n := goroutines(); n != 0 {
				t.Fatalf("%d goroutines are left", n)
			}
			if got, n := reportsOf(r), clock.running.Load(); len(got) > 0 || n != 0 {
				t.Fatalf("reported %q, %d timers run", got, n)
			}
		}
	})
}

// There is one timer while reports are due, whoever else has made one, and none
// otherwise.
func TestTimersOfReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		clock := newTickedClock()
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r, Clock: clock})
		q.AddAll("a", "b", "c")
		tick := func() {
			clock.ticks <- epoch
			synctest.Wait()
		}
		for i, row := range []struct {
			do      string
			f       func()
			timers  int64
			reports string
		}{
			{"get", func() { q.Get() }, 1, ""},
			{"tick, the clock was set back", func() { clock.Step(-time.Second); tick() }, 1, "unfinished=0 longest=0"},
			{"tick at rest", func() { q.Done("a"); tick() }, 0, "unfinished=0 longest=0"},
			{"get while another one makes its timer", func() {
				clock.onMake = func() { clock.onMake = nil; q.Get() }
				q.Get()
			}, 1, ""},
			{"shut down", func() { q.ShutDown() }, 0, ""},
		} {
			r.take()
			row.f()
			synctest.Wait()
			if n, got := clock.running.Load(), strings.Join(reportsOf(r), " "); n != row.timers || got != row.reports {
				t.Errorf("step %d: %s: %d timers run, reported %q, want %d, %q", i, row.do, n, got, row.timers, row.reports)
			}
		}
	})
}

// reportsOf returns what the gauges were set to since the last call.
func reportsOf(r *recorder) []string {
	return slices.DeleteFunc(r.take(), func(event string) bool { return !strings.Contains(event, "=") })
}

// There is no caller for the panic of a gauge: it ends the program, as it does
// on any goroutine.
func TestGaugeThatPanics(t *testing.T) {
	t.Parallel()
	if os.Getenv(crashCase) != "" {
		r := &recorder{}
		r.setHook(func(event string) {
			if strings.HasPrefix(event, "unfinished") {
				panic("foreign code")
			}
		})
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r})
		q.Add("a")
		q.Get()
		q.Get()
	}
	output := crash(t, "^TestGaugeThatPanics$", "gauge")
	if strings.Count(output, "panic: foreign code") != 1 {
		t.Errorf("the panic is not what the process has left:\n%s", output)
	}
}

// A gauge that ends its goroutine ends the reports, until the next Get.
func TestGaugeThatEndsItsGoroutine(t *testing.T) {
	for _, gauge := range []string{"unfinished", "longest"} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{}
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r})
			q.AddAll("a", "b")
			q.Get()
			r.setHook(func(event string) {
				if strings.HasPrefix(event, gauge) {
					r.setHook(nil)
					runtime.Goexit()
				}
			})
			time.Sleep(time.Minute)
			q.Get()
			r.take()
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			if got, want := strings.Join(r.take(), " "), "unfinished=61 longest=60.5"; got != want {
				t.Errorf("%s: got %q after the next Get, want %q", gauge, got, want)
			}
			q.ShutDown() // Waits for the goroutine, also for the first.
		})
	}
}

// When a shutdown has returned, no goroutine is left, not even one that is
// about to end: all wait for a gauge that is being set.
func TestShutDownWaitsForAGauge(t *testing.T) {
	for name, shutDown := range map[string]func(q *workqueue.Typed[string]){
		"ShutDown":          (*workqueue.Typed[string]).ShutDown,
		"ShutDownWithDrain": (*workqueue.Typed[string]).ShutDownWithDrain,
		"Drain":             func(q *workqueue.Typed[string]) { q.Drain(context.Background()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{}
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r})
			q.Add("a")
			q.Get()
			hold := make(chan struct{})
			r.setHook(func(event string) {
				if strings.HasPrefix(event, "longest") {
					<-hold
				}
			})
			time.Sleep(time.Second)
			q.Done("a")
			returned := false
			go func() {
				shutDown(q)
				returned = true
			}()
			synctest.Wait()
			if returned {
				t.Errorf("%s returned beside a gauge that was being set", name)
			}
			close(hold)
			synctest.Wait()
			if !returned {
				t.Errorf("%s has not returned", name)
			}
		})
	}
}

// A gauge that calls the queue: the reports hold no lock either.
func TestGaugeThatCallsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r})
		q.Add("a")
		q.Get()
		r.setHook(func(event string) {
			if strings.HasPrefix(event, "longest") {
				r.setHook(nil)
				q.Add("b")
				q.Done("a")
			}
		})
		time.Sleep(time.Minute)
		if got := takeAll(q); !slices.Equal(got, []string{"b"}) {
			t.Errorf("got %q, want b", got)
		}
		q.ShutDown()
	})
}
