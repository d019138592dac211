package workqueue_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

func newMeasured(r *recorder) (*workqueue.Typed[string], *testingclock.FakeClock) {
	clock := testingclock.NewFakeClock(epoch)
	return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Name: "q", MetricsProvider: r, Clock: clock,
	}), clock
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

// What is no duplicate counts, whatever its kind.
func TestMetricsOfUnusualAdds(t *testing.T) {
	for _, row := range []struct {
		name string
		f    func(q *workqueue.Typed[float64])
		want string
	}{
		{"an item that differs from itself", func(q *workqueue.Typed[float64]) { q.Add(math.NaN()) }, "adds+1 depth+1"},
		{"one that was removed", func(q *workqueue.Typed[float64]) { q.Add(1); q.Remove(1); q.Add(1) },
			"adds+1 depth+1 depth-1 adds+1 depth+1"},
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

// Times must follow their records when these move.
func TestMetricsThroughCompaction(t *testing.T) {
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
// the queue. The item is handed out for each Add that was to hand it out.
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
}

// The hand-out that is undone may have been overtaken: somebody called Done
// and added the item again while the metric was busy failing.
func TestMetricThatFinishesTheItemAndFails(t *testing.T) {
	r := &recorder{}
	q, _ := newMeasured(r)
	q.AddAll("a", "b", "c")
	q.Get()
	r.setHook(func(event string) {
		if strings.HasPrefix(event, "latency") {
			r.setHook(nil)
			q.Done("b")
			q.Add("b")
			panic("metric")
		}
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

// The item goes back to the head of the queue, also of one with a storage, and
// on to another worker that waits.
func TestMetricThatFailsPutsTheItemBackFirst(t *testing.T) {
	for name, storage := range map[string]workqueue.Queue[string]{"plain": nil, "storage": &shelf[string]{}} {
		r := &recorder{}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
			Name: "q", MetricsProvider: r, Clock: testingclock.NewFakeClock(epoch), Queue: storage,
		})
		q.AddAll("a", "b", "c")
		first, _ := q.Get()
		second := map[string]string{"a": "b", "c": "b"}[first]
		r.setHook(func(string) {
			r.setHook(nil)
			panic("metric")
		})
		goes(func() { q.Get() })
		checkInvariants(t, 0, q)
		if got, _ := q.Get(); got != second {
			t.Errorf("%s: got %q after the failure, want %q", name, got, second)
		}
		q.ShutDown()
	}
}

// Whoever watches an item learns nothing of it once its hand-out is undone.
func TestMetricThatFailsForAWatchedItem(t *testing.T) {
	r := &recorder{}
	q, _ := newMeasured(r)
	q.Add("a")
	told := 0
	r.setHook(func(event string) {
		if strings.HasPrefix(event, "latency") {
			r.setHook(nil)
			q.Watch("a", func() { told++ })
			panic("metric")
		}
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
			// With the real clock, and so without others that are woken for nothing.
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r})
			got := make(chan string, 2)
			for range 2 {
				go goes(func() {
					item, _ := q.Get()
					got <- item
				})
			}
			synctest.Wait()
			r.setHook(func(event string) {
				if strings.HasPrefix(event, "latency") {
					r.setHook(nil)
					fail()
				}
			})
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
		r.setHook(func(event string) {
			if event == "adds+1" {
				r.setHook(nil)
				<-hold
			}
		})
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

// named notes which metrics it is asked for.
type named struct {
	recorder
	names []string
}

func (n *named) NewDepthMetric(name string) workqueue.GaugeMetric {
	n.names = append(n.names, name)
	return n.recorder.NewDepthMetric(name)
}

func (n *named) NewRetriesMetric(name string) workqueue.CounterMetric {
	n.names = append(n.names, "retries of "+name)
	return n.recorder.NewRetriesMetric(name)
}

func TestWhichQueuesHaveMetrics(t *testing.T) {
	t.Cleanup(workqueue.ResetProvider)
	mine, global, late := &named{}, &named{}, &named{}
	build := func(name string, p workqueue.MetricsProvider) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: name, MetricsProvider: p})
		q.Add("a")
		q.AddAfter("a", 0)
		q.ShutDown()
	}
	build("too early", nil)
	build("", mine)
	build("mine", mine)
	workqueue.SetProvider(nil)
	workqueue.SetProvider(global)
	workqueue.SetProvider(late)
	build("", nil)
	build("global", nil)
	build("mine again", mine)
	for i, p := range []struct {
		got  *named
		want []string
	}{
		{mine, []string{"retries of mine", "mine", "retries of mine again", "mine again"}},
		{global, []string{"retries of global", "global"}},
		{late, nil},
	} {
		if !slices.Equal(p.got.names, p.want) {
			t.Errorf("provider %d: made metrics for %q, want %q", i, p.got.names, p.want)
		}
	}
	if got, want := strings.Join(global.take(), " "), "adds+1 depth+1 retries+1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
