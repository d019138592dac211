package workqueue_test

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

func newMeasured(r *recorder) (*workqueue.Typed[string], *testingclock.FakeClock) {
	clock := testingclock.NewFakeClock(epoch)
	return openFIFO(r, clock), clock
}

// onNext calls f once, within the next call of a metric.
func onNext(r *recorder, metric string, f func()) {
	r.setHook(func(event string) {
		if strings.HasPrefix(event, metric) {
			r.setHook(nil)
			f()
		}
	})
}

func TestMetricsOfTheLifeOfAnItem(t *testing.T) {
	r := &recorder{}
	q, clock := newMeasured(r)
	for i, row := range []struct {
		after time.Duration
		do    string
		f     func()
		want  string
	}{
		{0, "add", func() { q.Add("a") }, "adds+1 depth+1"},
		{time.Second, "add a duplicate", func() { q.Add("a") }, ""},
		{time.Second, "get what has waited since the first", func() { q.Get() }, "depth-1 latency(2)"},
		{500 * time.Millisecond, "add what is held", func() { q.Add("a") }, "adds+1 depth+1"},
		{250 * time.Millisecond, "add it again", func() { q.Add("a") }, ""},
		{250 * time.Millisecond, "done", func() { q.Done("a") }, "work(1)"},
		{time.Second, "get what was added 1.5 s ago, before its Done", func() { q.TryGet() }, "depth-1 latency(1.5)"},
		{0, "done of a stranger", func() { q.Done("b") }, ""},
		{3 * time.Second, "done", func() { q.Done("a") }, "work(3)"},
		{0, "done twice", func() { q.Done("a") }, ""},
		{0, "add several", func() { q.AddAll("a", "b", "a") }, "adds+1 depth+1 adds+1 depth+1"},
		{time.Second, "get", func() { q.GetContext(t.Context()) }, "depth-1 latency(1)"},
		{-time.Minute, "done, the clock was set back", func() { q.Done("a") }, "work(0)"},
		{0, "get, likewise", func() { q.Get() }, "depth-1 latency(0)"},
		{0, "try to get", func() { q.TryGet() }, ""},
		{0, "add after a shutdown", func() { q.ShutDown(); q.Add("c") }, ""},
		{0, "get after it", func() { q.Get() }, ""},
		{0, "done after it", func() { q.Done("b") }, "work(0)"},
	} {
		clock.SetTime(clock.Now().Add(row.after))
		row.f()
		got := slices.DeleteFunc(r.take(), func(event string) bool { return strings.Contains(event, "=") })
		if strings.Join(got, " ") != row.want {
			t.Errorf("step %d: %s: got %q, want %q", i, row.do, got, row.want)
		}
		checkInvariants(t, i, q)
	}
}

// Each Add counts that is no duplicate.
func TestMetricsOfUnusualAdds(t *testing.T) {
	for _, row := range []struct {
		name string
		f    func(q *workqueue.Typed[float64])
		want string
	}{
		{"an item that differs from itself", func(q *workqueue.Typed[float64]) { q.Add(math.NaN()) }, "adds+1 depth+1"},
		{"one that was removed", func(q *workqueue.Typed[float64]) { q.Add(1); q.Remove(1); q.Add(1) },
			"adds+1 depth+1 depth-1 adds+1 depth+1"},
		{"one that RemoveFunc removes", func(q *workqueue.Typed[float64]) {
			q.Add(1)
			q.RemoveFunc(func(float64) bool { return true })
		}, "adds+1 depth+1 depth-1"},
		{"one that is held, after the shutdown", func(q *workqueue.Typed[float64]) { q.Add(1); q.Get(); q.ShutDown(); q.Add(1) },
			"adds+1 depth+1 depth-1 latency(0)"},
	} {
		for _, storage := range []workqueue.Queue[float64]{nil, workqueue.DefaultQueue[float64]()} {
			r := &recorder{}
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[float64]{
				Name: "q", MetricsProvider: r, Clock: testingclock.NewFakeClock(epoch), Queue: storage,
			})
			row.f(q)
			if got := strings.Join(r.take(), " "); got != row.want {
				t.Errorf("%s, storage %v: got %q, want %q", row.name, storage != nil, got, row.want)
			}
			checkInvariants(t, 0, q)
			q.ShutDown()
		}
	}
}

// With StrictBackoff, a failure takes the re-add of the item back.
func TestMetricsOfAReAddThatWaits(t *testing.T) {
	r := &recorder{}
	q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{
		Name: "q", MetricsProvider: r, Clock: testingclock.NewFakeClock(epoch), StrictBackoff: true,
	})
	defer q.ShutDown()
	q.Add("a")
	q.Get()
	q.Add("a")
	q.AddRateLimited("a")
	if got, want := strings.Join(r.take(), " "), "adds+1 depth+1 depth-1 latency(0) adds+1 depth+1 retries+1 depth-1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Times follow their records when records move.
func TestMetricsWhileTheQueueShrinks(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Name: "q", MetricsProvider: r, Clock: clock})
	const n = 4000
	for i := range n {
		q.Add(i)
		clock.Step(time.Second)
	}
	r.take()
	for i := range n {
		q.Get()
		if got, want := r.take()[1], fmt.Sprintf("latency(%d)", n-i); got != want {
			t.Fatalf("item %d: got %s, want %s", i, got, want)
		}
		if i < n-10 || i >= n-5 {
			q.Done(i)
			r.take()
		}
		if i%500 == 0 {
			checkInvariants(t, i, q)
		}
	}
	checkInvariants(t, n, q)
	q.ShutDown()
}

// Every metric fails once, by a panic, by ending the goroutine, or by calling
// the queue. Each Add still leads to a hand-out.
func TestMetricsThatFail(t *testing.T) {
	for _, event := range []string{"adds+1", "depth+1", "depth-1", "latency", "work"} {
		for kind, fail := range map[string]func(q *workqueue.Typed[string]){
			"panic":    func(*workqueue.Typed[string]) { panic("metric") },
			"Goexit":   func(*workqueue.Typed[string]) { runtime.Goexit() },
			"callback": func(q *workqueue.Typed[string]) { q.Add("a"); q.Len(); q.Done("c"); q.ShuttingDown() },
		} {
			for skip := range 2 {
				t.Run(fmt.Sprintf("%s/%s/%d", event, kind, skip), func(t *testing.T) {
					failMetric(t, event, skip, kind == "panic", fail)
				})
			}
		}
	}
}

func failMetric(t *testing.T, event string, skip int, panics bool, fail func(*workqueue.Typed[string])) {
	r := &recorder{}
	q, _ := newMeasured(r)
	failures := 0
	r.setHook(func(e string) {
		if strings.HasPrefix(e, event) {
			if failures++; failures == skip+1 {
				fail(q)
			}
		}
	})
	panicked := 0
	for i, f := range []func(){
		func() { q.Add("a") },
		func() { q.Get() },
		func() { q.Add("a") },
		func() { q.Done("a") },
		func() { q.Get() },
		func() { q.Add("a") },
		func() { q.Done("a") },
	} {
		if goes(f) != nil {
			panicked++
		}
		checkInvariants(t, i, q)
	}
	if want := map[bool]int{true: 1, false: 0}[panics]; panicked != want || failures <= skip {
		t.Errorf("%d panics reached the caller at %d events, want %d", panicked, failures, want)
	}
	if got := takeAll(q); !slices.Equal(got, []string{"a"}) {
		t.Errorf("handed out %q in the end, want a", got)
	}
	q.ShutDownWithDrain()
	checkInvariants(t, 9, q)
	depth := 0
	for _, e := range r.take() {
		switch e {
		case "depth+1":
			depth++
		case "depth-1":
			depth--
		}
	}
	if (event == "latency" || event == "work") && depth != 0 { // The depth is told before and after, and does not fail.
		t.Errorf("the queue is empty, and the depth is %d", depth)
	}
}

// While the metric fails, somebody calls Done for the item and adds the item again. The hand-out
// must not be undone then.
func TestMetricThatFinishesTheItemAndFails(t *testing.T) {
	r := &recorder{}
	q, _ := newMeasured(r)
	q.AddAll("a", "b", "c")
	q.Get()
	onNext(r, "latency", func() {
		q.Done("b")
		q.Add("b")
		panic("metric")
	})
	if got := goes(func() { q.Get() }); got != "metric" {
		t.Errorf("the caller got the panic %v, want metric", got)
	}
	checkInvariants(t, 0, q)
	q.Done("a")
	if got, want := takeAll(q), []string{"c", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	q.ShutDownWithDrain()
}

// Done tells the metric after it has queued a re-added item, so the metric can take the item. The hand-out
// is its own, and the Done before does not end it.
func TestMetricThatTakesTheItemOfADone(t *testing.T) {
	r := &recorder{}
	q, _ := newMeasured(r)
	q.Add("a")
	q.Get()
	q.Add("a")
	onNext(r, "work", func() { q.Get() })
	q.Done("a")
	if q.Len() != 0 || q.Held() != 1 {
		t.Errorf("%d items are queued and %d held, want 0 and 1", q.Len(), q.Held())
	}
	q.Done("a")
	q.ShutDownWithDrain()
}

// The item goes back to the head of the queue, also above a storage.
func TestMetricThatFailsPutsTheItemBackFirst(t *testing.T) {
	for name, storage := range map[string]workqueue.Queue[string]{"plain": nil, "storage": &shelf[string]{}} {
		r := &recorder{}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
			Name: "q", MetricsProvider: r, Clock: testingclock.NewFakeClock(epoch), Queue: storage,
		})
		q.AddAll("a", "b", "c")
		first, _ := q.Get()
		second := map[string]string{"a": "b", "c": "b"}[first]
		onNext(r, "", func() { panic("metric") })
		goes(func() { q.Get() })
		checkInvariants(t, 0, q)
		if got, _ := q.Get(); got != second {
			t.Errorf("%s: got %q after the failure, want %q", name, got, second)
		}
		q.ShutDown()
	}
}

// A watch of an item ends when the hand-out is undone.
func TestMetricThatFailsForAWatchedItem(t *testing.T) {
	r := &recorder{}
	q, _ := newMeasured(r)
	q.Add("a")
	told := 0
	onNext(r, "latency", func() {
		q.Watch("a", func(error) { told++ })
		panic("metric")
	})
	goes(func() { q.Get() })
	checkInvariants(t, 0, q)
	q.Get()
	q.Add("a")
	if told != 0 {
		t.Error("told of an Add of the next hand-out")
	}
	q.ShutDown()
}

func TestMetricThatFailsForAWokenWorker(t *testing.T) {
	for kind, fail := range map[string]func(){"panic": func() { panic("metric") }, "Goexit": runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{}
			// A fake clock would wake workers for nothing.
			q := openFIFO(r, nil)
			got := make(chan string, 2)
			for range 2 {
				go goes(func() {
					item, _ := q.Get()
					got <- item
				})
			}
			synctest.Wait()
			onNext(r, "latency", fail)
			q.Add("a")
			synctest.Wait()
			checkInvariants(t, 0, q)
			if len(got) != 1 || q.Len() != 0 {
				t.Errorf("%s: %d workers got the item, %d are left", kind, len(got), q.Len())
			}
			q.ShutDown()
		})
	}
}

// A metric that blocks delays its caller and nobody else.
func TestMetricThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		q, _ := newMeasured(r)
		hold := make(chan struct{})
		onNext(r, "adds+1", func() { <-hold })
		go q.Add("a")
		synctest.Wait()
		if item, ok := q.TryGet(); item != "a" || !ok {
			t.Errorf("got %q, %v beside a metric that blocks, want a", item, ok)
		}
		q.Add("b")
		q.Done("a")
		close(hold)
		synctest.Wait()
		if got := takeAll(q); !slices.Equal(got, []string{"b"}) {
			t.Errorf("got %q, want b", got)
		}
		q.ShutDown()
	})
}

// A clock panics before a transition, so nothing has happened.
func TestClockThatPanics(t *testing.T) {
	clock := newHookedClock()
	q := openFIFO(&recorder{}, clock)
	q.AddAll("a", "b")
	q.Get()
	for name, f := range map[string]func(){
		"Add": func() { q.Add("c") }, "AddAll": func() { q.AddAll("c", "d") }, "Get": func() { q.Get() },
		"TryGet": func() { q.TryGet() }, "Done": func() { q.Done("a") },
	} {
		clock.onRead = func() { panic("clock") }
		if got := goes(f); got != "clock" {
			t.Errorf("%s: got the panic %v, want clock", name, got)
		}
		clock.onRead = nil
		checkInvariants(t, 0, q)
		if q.Len() != 1 || q.Held() != 1 {
			t.Errorf("%s: %d items are queued and %d held, want 1 and 1", name, q.Len(), q.Held())
		}
	}
	q.ShutDown()
}

// A woken worker dies on its way, by its clock: the next worker has to go.
func TestClockThatPanicsForAWokenWorker(t *testing.T) {
	for kind, fail := range map[string]func(){"panic": func() { panic("clock") }, "Goexit": runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			clock := newHookedClock()
			q := openFIFO(&recorder{}, clock)
			var mu sync.Mutex
			got := 0
			for range 2 {
				go goes(func() {
					q.Get()
					mu.Lock()
					got++
					mu.Unlock()
				})
			}
			synctest.Wait()
			readings := 0
			clock.onRead = func() {
				mu.Lock()
				readings++
				dies := readings == 2 // Add has read the clock before.
				mu.Unlock()
				if dies {
					fail()
				}
			}
			q.Add("a")
			synctest.Wait()
			if got != 1 || q.Len() != 0 || q.Parked() != 0 {
				t.Errorf("%s: %d workers got the item, %d are left, %d workers wait", kind, got, q.Len(), q.Parked())
			}
			checkInvariants(t, 0, q)
			q.ShutDown()
		})
	}
}

// Each layer keeps times on request, and the times move with the item as under metrics.
func TestKeepTimes(t *testing.T) {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](1, 1)
	for _, keep := range []bool{false, true} {
		clock := testingclock.NewFakeClock(epoch)
		for name, q := range map[string]*workqueue.Typed[string]{
			"FIFO": workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Clock: clock, KeepTimes: keep}),
			"storage": workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
				Clock: clock, KeepTimes: keep, Queue: workqueue.DefaultQueue[string](),
			}),
			"delaying": workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock, KeepTimes: keep}).FIFO(),
			"rate limiting": workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{
				Clock: clock, KeepTimes: keep,
			}).Delaying().FIFO(),
		} {
			start := clock.Now()
			for i, row := range []struct {
				f              func()
				added, started time.Duration
			}{
				{func() { q.Add("a") }, 1, 0},
				{func() { q.Add("a") }, 1, 0},
				{func() { q.Get() }, 1, 3},
				{func() { q.Add("a") }, 4, 3},
				{func() { q.Done("a") }, 4, 3},
				{func() { q.TryGet() }, 4, 6},
			} {
				clock.Step(time.Second)
				row.f()
				added, started, kept := q.Times("a")
				if kept != keep || kept && (added != row.added*time.Second || started != row.started*time.Second) {
					t.Errorf("%s, keep %v, step %d: kept %v: added after %v, handed out after %v, want %d s and %d s",
						name, keep, i, kept, added, started, row.added, row.started)
				}
				checkInvariants(t, i, q)
			}
			clock.SetTime(start)
			q.Done("a")
			q.ShutDownWithDrain()
		}
	}
}

// The last Done may come while the gauges are being set. Then the gauges are set once more, to
// zero.
func TestGaugesOfAQueueAtRestAreZero(t *testing.T) {
	for _, gauge := range []string{"unfinished", "longest"} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{}
			q := openFIFO(r, nil)
			defer q.ShutDown()
			q.Add("a")
			q.Get()
			r.setHook(func(event string) {
				if strings.HasPrefix(event, gauge) { // With no lock held.
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

// The fake clock of k8s.io/utils keeps a stopped ticker as a waiter, and tests wait on
// HasWaiters.
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

// A gauge slower than the period neither piles up reports nor stops the clock, whose timers wait
// for room when they fire.
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
	q := openFIFO(workqueue.NoMetrics{}, clock)
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
		q := openFIFO(r, nil)
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

// After a shutdown there are no reports, and a Get starts no goroutine, even if its timer ticks
// at once.
func TestNoReportsAfterTheShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // Which of a tick and the shutdown is seen first is chance.
			r := &recorder{}
			clock := newTickedClock()
			close(clock.ticks)
			q := openFIFO(r, clock)
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

// There is one timer while reports are due, and none otherwise.
func TestTimersOfReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		clock := newTickedClock()
		q := openFIFO(r, clock)
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

// The panic of a gauge has no caller. It ends the program, as on any goroutine.
func TestGaugeThatPanics(t *testing.T) {
	t.Parallel()
	if os.Getenv(crashCase) != "" {
		r := &recorder{}
		r.setHook(func(event string) {
			if strings.HasPrefix(event, "unfinished") {
				panic("foreign code")
			}
		})
		q := openFIFO(r, nil)
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
			q := openFIFO(r, nil)
			q.AddAll("a", "b")
			q.Get()
			onNext(r, gauge, runtime.Goexit)
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
