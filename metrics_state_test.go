package workqueue_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A reader is a provider that reads queues.
type reader struct {
	workqueue.NoMetrics
	hook  func(event string)
	reads []func() (workqueue.QueueStats, bool)
	ends  []string
}

func (r *reader) NewQueue(q workqueue.QueueSource) workqueue.QueueMetrics {
	r.reads = append(r.reads, q.Read)
	r.call("new")
	return workqueue.QueueMetrics{Buckets: []float64{1}, End: func(left workqueue.Abandoned) {
		r.ends = append(r.ends, fmt.Sprintf("%s/%d%+v", q.Name, q.Layers, left))
		r.call("end")
	}}
}

func (r *reader) call(event string) {
	if r.hook != nil {
		r.hook(event)
	}
}

// state returns what is read of the queue that was constructed last, without
// the fields that are zero.
func (r *reader) state() string {
	s, ok := r.reads[len(r.reads)-1]()
	if !ok {
		return "gone"
	}
	var all []string
	add := func(name string, v any) {
		if text := fmt.Sprint(v); text != "0" && text != "0s" {
			all = append(all, name+" "+text)
		}
	}
	add("depth", s.Depth)
	add("in flight", s.InFlight)
	add("adds", s.Adds)
	add("duplicates", s.Duplicates)
	add("unfinished", s.Unfinished)
	add("longest", s.LongestRunning)
	add("oldest", s.OldestItem)
	add("waiting", s.Waiting)
	add("retries", s.Retries)
	add("limited", s.RateLimited)
	for name, h := range map[string]workqueue.Histogram{"latency": s.Latency, "work": s.WorkDuration, "lateness": s.Lateness} {
		if h.Count > 0 {
			add(name, fmt.Sprintf("%d/%v", h.Count, h.Sum))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// A line of a story: the clock moves, something is called, and the state is
// read.
type line struct {
	after time.Duration
	do    string
	f     func()
	want  string
}

func play(t *testing.T, r *reader, clock *testingclock.FakeClock, queue any, lines []line) {
	t.Helper()
	for i, line := range lines {
		clock.SetTime(clock.Now().Add(line.after))
		line.f()
		if got := r.state(); got != line.want {
			t.Errorf("step %d: %s: got %q, want %q", i, line.do, got, line.want)
		}
		checkInvariants(t, i, queue)
	}
}

func newRead(storage workqueue.Queue[string]) (*reader, *testingclock.FakeClock, *workqueue.Typed[string]) {
	r, clock := &reader{}, testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r, Clock: clock, Queue: storage})
	return r, clock, q
}

func TestStateOfTheLifeOfAnItem(t *testing.T) {
	r, clock, q := newRead(nil)
	play(t, r, clock, q, []line{
		{0, "nothing yet", func() {}, ""},
		{0, "add", func() { q.Add("a") }, "adds 1, depth 1"},
		{time.Second, "add a duplicate", func() { q.Add("a") }, "adds 1, depth 1, duplicates 1, oldest 1s"},
		{time.Second, "get what has waited since the first", func() { q.Get() },
			"adds 1, duplicates 1, in flight 1, latency 1/2"},
		{time.Second, "add what is held, twice", func() { q.AddAll("a", "a") },
			"adds 2, depth 1, duplicates 2, in flight 1, latency 1/2, longest 1s, unfinished 1s"},
		{time.Second, "add and get another", func() { q.Add("b"); q.TryGet() },
			"adds 3, depth 1, duplicates 2, in flight 2, latency 2/2, longest 2s, unfinished 2s"},
		{time.Second, "done: the time counts from the second Add", func() { q.Done("a") },
			"adds 3, depth 1, duplicates 2, in flight 1, latency 2/2, longest 1s, oldest 2s, unfinished 1s, work 1/3"},
		{0, "remove it", func() { q.Remove("a") },
			"adds 3, duplicates 2, in flight 1, latency 2/2, longest 1s, unfinished 1s, work 1/3"},
		{0, "add what is held and take it back", func() { q.Add("b"); q.Remove("b") },
			"adds 4, duplicates 2, in flight 1, latency 2/2, longest 1s, unfinished 1s, work 1/3"},
		{-time.Hour, "the clock was set back", func() { q.Add("c") },
			"adds 5, depth 1, duplicates 2, in flight 1, latency 2/2, work 1/3"},
		{time.Hour, "an hour in line", func() { q.Done("b"); q.Done("b"); q.Done("x") },
			"adds 5, depth 1, duplicates 2, latency 2/2, oldest 1h0m0s, work 2/4"},
		{0, "remove from the midst of the line", func() { q.AddAll("x", "y"); q.Remove("x") },
			"adds 7, depth 2, duplicates 2, latency 2/2, oldest 1h0m0s, work 2/4"},
		{0, "and from its end", func() { q.Remove("y") },
			"adds 7, depth 1, duplicates 2, latency 2/2, oldest 1h0m0s, work 2/4"},
		{0, "no Add is one after a shutdown", func() { q.ShutDown(); q.Add("c"); q.Add("d") },
			"adds 7, depth 1, duplicates 2, latency 2/2, oldest 1h0m0s, work 2/4"},
		{0, "but work goes on", func() { q.Get(); q.Done("c") },
			"adds 7, duplicates 2, latency 3/3602, work 3/4"},
	})
	if got, want := fmt.Sprint(r.ends), "[q/1{Queued:1 InFlight:0 Waiting:0}]"; got != want {
		t.Errorf("ended %s, want %s", got, want)
	}
}

// The head of the line is the oldest, whatever was before and behind it, and
// with a storage it is the oldest there is, wherever it may be.
func TestOldestItem(t *testing.T) {
	for name, storage := range map[string]workqueue.Queue[string]{"line": nil, "storage": &shelf[string]{quiet: true}} {
		r, clock, q := newRead(storage)
		oldest := func(step string, after, want time.Duration) {
			t.Helper()
			clock.Step(after)
			if s, _ := r.reads[0](); s.OldestItem != want*time.Second {
				t.Errorf("%s: %s: oldest %v, want %v s", name, step, s.OldestItem, int(want))
			}
		}
		for _, item := range []string{"a", "b", "c"} {
			q.Add(item)
			clock.Step(time.Second)
		}
		oldest("three were added", 0, 3)
		q.Remove("a")
		oldest("the first was removed", 0, 2)
		q.Add("a")
		if storage != nil { // It has kept its place there, but not its time.
			q.Remove("b")
			q.Remove("c")
			oldest("the others were removed", 5*time.Second, 5)
			q.AddAll("b", "c")
		}
		oldest("the first was added again", 0, map[string]time.Duration{"line": 2, "storage": 5}[name])
		for _, ok := q.TryGet(); ok; _, ok = q.TryGet() {
			clock.Step(time.Second)
		}
		oldest("all are held", time.Second, 0)
		q.Add("b")
		oldest("a held item is in no line", time.Second, 0)
		q.Done("b")
		oldest("until it is done", time.Second, 2)
	}
}

func TestOldestItemThatTheStorageDidNotTake(t *testing.T) {
	storage := &shelf[string]{quiet: true}
	r, clock, q := newRead(storage)
	q.Add("a")
	clock.Step(time.Second)
	storage.hook = func(string) { panic("storage") }
	storage.quiet = false
	goes(func() { q.Add("b") })
	storage.quiet = true
	for i, want := range []string{"adds 1, depth 2, oldest 3s", "adds 1, depth 1, in flight 1, latency 1/2, oldest 3s"} {
		if i == 0 {
			clock.Step(2 * time.Second)
		} else {
			q.Get()
		}
		storage.hook = nil
		if got := r.state(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A drain ends the metrics when it is over, another way to end it does so then,
// and no later one again.
func TestWhenMetricsEnd(t *testing.T) {
	for layer, open := range map[string]func(r *reader) draining{
		"FIFO": func(r *reader) draining {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r})
		},
		"delaying": func(r *reader) draining {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: r})
		},
	} {
		done := func(_ func(), q draining) { q.Done("a"); q.Get(); q.Done("b") }
		shutDown := func(_ func(), q draining) { q.ShutDown() }
		cancel := func(cancel func(), _ draining) { cancel() }
		withDrain := func(_ context.Context, q draining) { q.ShutDownWithDrain() }
		drain := func(ctx context.Context, q draining) { q.Drain(ctx) }
		for name, row := range map[string]struct {
			drain func(ctx context.Context, q draining)
			end   func(cancel func(), q draining)
			want  string
		}{
			"ShutDownWithDrain, the work is done":  {withDrain, done, "{Queued:0 InFlight:0 Waiting:0}"},
			"ShutDownWithDrain, then ShutDown":     {withDrain, shutDown, "{Queued:1 InFlight:1 Waiting:0}"},
			"Drain, the work is done":              {drain, done, "{Queued:0 InFlight:0 Waiting:0}"},
			"Drain, then ShutDown":                 {drain, shutDown, "{Queued:1 InFlight:1 Waiting:0}"},
			"Drain, then the end of the context":   {drain, cancel, "{Queued:1 InFlight:1 Waiting:0}"},
			"nothing before ShutDown that is left": {func(context.Context, draining) {}, shutDown, "{Queued:1 InFlight:1 Waiting:0}"},
		} {
			t.Run(layer+"/"+name, func(t *testing.T) { endMetrics(t, open, row.drain, row.end, row.want) })
		}
	}
}

type draining interface {
	workqueue.TypedInterface[string]
	Drain(ctx context.Context) error
}

func endMetrics(t *testing.T, open func(*reader) draining, drain func(context.Context, draining), end func(func(), draining), want string) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		q := open(r)
		ctx, cancel := context.WithCancel(t.Context())
		q.Add("a")
		q.Add("b")
		q.Get()
		go drain(ctx, q)
		synctest.Wait()
		if len(r.ends) > 0 {
			t.Errorf("ended %s before", r.ends)
		}
		end(cancel, q)
		synctest.Wait()
		if len(r.ends) != 1 || !strings.HasSuffix(r.ends[0], want) {
			t.Errorf("ended %s, want %s", r.ends, want)
		}
		q.ShutDown()
		cancel()
		q.Drain(ctx)
		if len(r.ends) != 1 {
			t.Errorf("ended again: %s", r.ends)
		}
	})
}

// A careless provider does not want to know of the end.
type careless struct {
	reader
}

func (c *careless) NewQueue(q workqueue.QueueSource) workqueue.QueueMetrics {
	c.reads = append(c.reads, q.Read)
	return workqueue.QueueMetrics{}
}

// Of a queue that was collected there is nothing to read, and nothing to take
// for zeros.
func TestReadOfAQueueThatIsGone(t *testing.T) {
	p := &careless{}
	done := make(chan struct{}, 1)
	func() {
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[[64]string]{Name: "q", MetricsProvider: p})
		runtime.AddCleanup(q, func(int) { done <- struct{}{} }, 0)
		q.Add([64]string{"a"})
		if s, ok := p.reads[0](); s.Depth != 1 || !ok {
			t.Errorf("got %+v, %v of a live queue", s, ok)
		}
	}()
	collected(t, 1, done)
	if s, ok := p.reads[0](); ok {
		t.Errorf("got %+v", s)
	}
	workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p}).ShutDown() // Nobody is told.
}

// A provider that fails, or calls the queue, as it is made known or ends.
func TestStateProviderThatFails(t *testing.T) {
	for event, kinds := range map[string][]string{"new": {"panic", "Goexit", "read"}, "end": {"panic", "Goexit", "read", "shut down"}} {
		for _, kind := range kinds {
			t.Run(event+"/"+kind, func(t *testing.T) {
				r := &reader{}
				var q *workqueue.TypedDelaying[string]
				r.hook = func(e string) {
					if e != event {
						return
					}
					r.hook = nil
					switch kind {
					case "panic":
						panic("provider")
					case "Goexit":
						runtime.Goexit()
					case "read":
						r.state()
					case "shut down":
						q.ShutDown()
					}
				}
				var panics []any
				try := func(f func()) {
					if p := goes(f); p != nil {
						panics = append(panics, p)
					}
				}
				for range 2 { // The second time is the one after the failure.
					try(func() {
						q = workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: r})
					})
				}
				q.Add("a")
				q.AddAfter("b", time.Hour)
				q.Get()
				try(q.ShutDown)
				checkInvariants(t, 0, q)
				q.Done("a")
				q.ShutDownWithDrain()
				want := map[string]string{"panic": "[provider]"}[kind]
				if want == "" {
					want = "[]"
				}
				if got := fmt.Sprint(panics); got != want {
					t.Errorf("panics %s reached the caller, want %s", got, want)
				}
				if got := fmt.Sprint(r.ends); got != "[q/3{Queued:0 InFlight:1 Waiting:1}]" {
					t.Errorf("ended %s", got)
				}
				if !q.ShuttingDown() || q.Len() != 0 || q.FIFO().Held() != 0 {
					t.Errorf("not shut down, or %d items are left", q.Len())
				}
			})
		}
	}
}

// A clock that panics while the queue is read leaves no lock held.
func TestClockThatPanicsWhenTheQueueIsRead(t *testing.T) {
	r, clock := &reader{}, newHookedClock()
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: r, Clock: clock})
	clock.onRead = func() { panic("clock") }
	if got := goes(func() { r.state() }); got != "clock" {
		t.Errorf("got the panic %v, want clock", got)
	}
	clock.onRead = nil
	q.Add("a")
	if got, want := r.state(), "adds 1, depth 1"; got != want {
		t.Errorf("then got %q, want %q", got, want)
	}
	q.ShutDown()
}

// Work in flight costs no goroutine, however long it takes.
func TestNoGoroutineForAProviderThatReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r})
		q.Add("a")
		q.Get()
		for range 3 {
			time.Sleep(time.Minute)
			if n := goroutines(); n != 0 {
				t.Errorf("%d goroutines", n)
			}
		}
		if got, want := r.state(), "adds 1, in flight 1, latency 1/0, longest 3m0s, unfinished 3m0s"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		q.ShutDown()
	})
}

func TestStateOfDelays(t *testing.T) {
	r, clock := &reader{}, testingclock.NewFakeClock(epoch)
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour)
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{
			Name: "q", MetricsProvider: r, Clock: clock,
		})
		step := func(d time.Duration) func() {
			return func() {
				synctest.Wait()
				clock.Step(d)
				synctest.Wait()
			}
		}
		play(t, r, clock, q.Delaying(), []line{
			{0, "after", func() { q.AddAfter("a", 10*time.Second) }, "retries 1, waiting 1"},
			{0, "the same earlier", func() { q.AddAfter("a", 5*time.Second) }, "retries 2, waiting 1"},
			{0, "limited", func() { q.AddRateLimited("b") }, "limited 1, retries 3, waiting 2"},
			{0, "rescheduled", func() { q.Reschedule("b", 8*time.Second) }, "limited 1, retries 3, waiting 2"},
			{0, "due, a second late", step(6 * time.Second), "adds 1, depth 1, lateness 1/1, limited 1, retries 3, waiting 1"},
			{0, "no delay is none to be late for", func() { q.AddAfter("c", 0); q.AddAfter("c", -1) },
				"adds 2, depth 2, duplicates 1, lateness 1/1, limited 1, retries 5, waiting 1"},
			{0, "what is queued gets due", func() { q.Add("b"); step(2 * time.Second)() },
				"adds 3, depth 3, duplicates 2, lateness 2/1, limited 1, oldest 2s, retries 5"},
			{0, "removed while it waits", func() { q.AddAfter("d", time.Hour); q.Remove("d") },
				"adds 3, depth 3, duplicates 2, lateness 2/1, limited 1, oldest 2s, retries 6"},
			{0, "left behind", func() { q.Get(); q.AddAfter("d", time.Hour); q.AddAfter("e", time.Hour); q.ShutDown() },
				"adds 3, depth 2, duplicates 2, in flight 1, latency 1/2, lateness 2/1, limited 1, oldest 2s, retries 8"},
			{0, "nothing counts after it", func() { q.AddRateLimited("e"); q.AddAfter("e", 1); q.ShutDown() },
				"adds 3, depth 2, duplicates 2, in flight 1, latency 1/2, lateness 2/1, limited 1, oldest 2s, retries 8"},
		})
	})
	if got, want := fmt.Sprint(r.ends), "[q/3{Queued:2 InFlight:1 Waiting:2}]"; got != want {
		t.Errorf("ended %s, want %s", got, want)
	}
}

// Layers that were constructed apart are read apart, and each ends for itself.
func TestStateOfLayersConstructedApart(t *testing.T) {
	r, clock := &reader{}, testingclock.NewFakeClock(epoch)
	synctest.Test(t, func(t *testing.T) {
		fifo := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
			Name: "q", MetricsProvider: r, Clock: clock, Queue: &shelf[string]{quiet: true},
		})
		delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
			Name: "q", MetricsProvider: r, Clock: clock, Queue: fifo,
		})
		q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemFastSlowRateLimiter[string](time.Second, time.Second, 1),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: r, DelayingQueue: delaying})
		if len(r.reads) != 2 {
			t.Fatalf("%d queues were made known, want 2", len(r.reads))
		}
		play(t, r, clock, delaying, []line{
			{0, "limited", func() { q.AddRateLimited("a") }, "limited 1, retries 1, waiting 1"},
			{0, "due", func() { synctest.Wait(); clock.Step(3 * time.Second); synctest.Wait() }, "lateness 1/2, limited 1, retries 1"},
			{0, "waiting", func() { q.AddAfter("b", time.Hour) }, "lateness 1/2, limited 1, retries 2, waiting 1"},
			{0, "shut down from below", func() {
				fifo.ShutDown()
				synctest.Wait()
				clock.Step(time.Hour)
				synctest.Wait()
			}, "lateness 1/2, limited 1, retries 2"},
		})
		if s, _ := r.reads[0](); s.Adds != 1 || s.Depth != 1 || s.Waiting != 0 {
			t.Errorf("the FIFO below: got %+v, want 1 add and depth 1", s)
		}
		q.ShutDown()
	})
	if got, want := fmt.Sprint(r.ends), "[q/1{Queued:1 InFlight:0 Waiting:0} q/2{Queued:0 InFlight:0 Waiting:1}]"; got != want {
		t.Errorf("ended %s, want %s", got, want)
	}
}

// Each item and each call is in one series, whatever the order.
func TestSeriesOfADelayingQueueAreThoseOfAnyOrder(t *testing.T) {
	orders := []workqueue.Order[int]{
		{},
		{OldestEvery: 2},
		{Group: func(item int) string { return fmt.Sprint(item % 2) }, MaxInFlight: func(string) int { return 2 }},
	}
	var want []string
	for i, order := range orders {
		for _, oneEntry := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r, p := newExposed(workqueue.PrometheusOptions{})
				q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
					Name: "q", MetricsProvider: p, OneEntry: oneEntry, Order: order,
				})
				q.AddAll(1, 2, 2)
				q.AddAfter(3, time.Second)
				q.AddAfter(4, time.Hour)
				time.Sleep(3 * time.Second)
				item, _ := q.Get()
				q.Get()
				time.Sleep(time.Second)
				q.Done(item)
				got := slices.DeleteFunc(scrape(t, r), func(s string) bool { return strings.Contains(s, "_by_") })
				if want == nil {
					want = got
				}
				if !slices.Equal(got, want) {
					t.Errorf("order %d, OneEntry %v: got\n%s\nwant\n%s", i, oneEntry, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				q.ShutDown()
				checkAbandoned(t, r, 1, 1, 1)
			})
		}
	}
	for _, series := range []string{`adds_total{name="q"} 3`, `depth{name="q"} 1`, `waiting{name="q"} 1`, `retries_total{name="q"} 2`} {
		if !slices.Contains(want, series) {
			t.Errorf("without an order there is no %s: got\n%s", series, strings.Join(want, "\n"))
		}
	}
}
