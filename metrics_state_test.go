package workqueue_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
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
	return workqueue.QueueMetrics{Buckets: []float64{1}, End: func(left workqueue.Totals) {
		r.ends = append(r.ends, fmt.Sprintf("%s/%d{Queued:%d InFlight:%d Waiting:%d}", q.Name, q.Layers, left.QueuedTotal, left.InFlightTotal, left.WaitingTotal))
		r.call("end")
	}}
}

func (r *reader) call(event string) {
	if r.hook != nil {
		r.hook(event)
	}
}

// state returns the state of the last queue, without the fields of zero.
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
	for name, h := range map[string]workqueue.DurationStats{"latency": s.Latency, "work": s.WorkDuration, "lateness": s.Lateness} {
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

// The oldest item is the head of the line. With a storage the oldest item can be anywhere.
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
		if storage != nil { // The item has kept its place there, but not its time.
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

// The end of a drain, or whatever cuts the drain short, ends the metrics. They end once.
func TestWhenMetricsEnd(t *testing.T) {
	for layer, open := range map[string]func(r *reader) draining{
		"FIFO":     func(r *reader) draining { return openFIFO(r, nil) },
		"delaying": func(r *reader) draining { return openDelaying(r, nil) },
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

// Read of a collected queue reports false, so that nobody takes the stats for zeros.
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
	openFIFO(p, nil).ShutDown() // Nobody is told.
}

// The last counts of a queue are read in End, and the program has dropped the queue by then. If the
// collector ran while End waited for the provider, the counts were lost.
func TestCountsAreReadInEndAlthoughTheCollectorRuns(t *testing.T) {
	type ending interface {
		ShutDown()
		Drain(context.Context) error
	}
	for layer, open := range map[string]func(workqueue.MetricsProvider) ending{
		"Typed": func(p workqueue.MetricsProvider) ending {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p})
		},
		"TypedDelaying": func(p workqueue.MetricsProvider) ending {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: p})
		},
		"TypedRateLimiting": func(p workqueue.MetricsProvider) ending {
			return workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
				workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: p})
		},
	} {
		for name, end := range map[string]func(ending){
			"ShutDown": func(q ending) { q.ShutDown() },
			"Drain":    func(q ending) { q.Drain(t.Context()) },
		} {
			r := &reader{}
			alive := false
			r.hook = func(event string) {
				if event == "end" {
					runtime.GC()
					_, alive = r.reads[0]()
				}
			}
			end(open(r))
			if !alive {
				t.Errorf("%s, %s: the queue was gone in End", layer, name)
			}
		}
	}
}

// A provider fails, or calls the queue, at the construction or at the end of the queue.
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
				for range 2 { // The second time comes after the failure.
					try(func() {
						q = openDelaying(r, nil)
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

// The provider read a Typed before the queue had its Pace and its FIFO.
func TestStateProviderReadsACompleteTyped(t *testing.T) {
	r := &reader{}
	var reading sync.WaitGroup
	r.hook = func(string) {
		r.hook = nil
		read := r.reads[0]
		if s, _ := read(); s.Pace.Burst != 7 {
			t.Errorf("read the Pace %+v", s.Pace)
		}
		reading.Go(func() { read() }) // For the race detector.
	}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: r, Pace: rate.NewLimiter(1, 7)})
	reading.Wait()
	q.ShutDown()
}

// A clock that panics while the queue is read leaves no lock held.
func TestClockThatPanicsWhenTheQueueIsRead(t *testing.T) {
	r, clock := &reader{}, newHookedClock()
	q := openDelaying(r, clock)
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
		q := openFIFO(r, nil)
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

// Layers constructed apart are read apart, and each layer ends for itself.
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
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", DelayingQueue: delaying})
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

// The parts by priority and by group agree with a naive model of the same calls.
func TestPartsOfManyPrioritiesAndGroups(t *testing.T) {
	type lane struct {
		priority int
		group    string
	}
	laneOf := func(item int) lane { return lane{item % 11 * (item % 7), fmt.Sprint("g", item%83)} }
	for shape, order := range map[string]workqueue.Order[int]{
		"priorities first": {},
		"groups first":     {GroupsFirst: true},
		"limited":          {MaxInFlight: func(string) int { return 3 }},
	} {
		order.Priority = func(item int) int { return laneOf(item).priority }
		order.Group = func(item int) string { return laneOf(item).group }
		rnd, clock, r := newRand(t), testingclock.NewFakeClock(epoch), &reader{}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Name: "q", MetricsProvider: r, Clock: clock, Order: order})
		queued := make(map[lane][]int) // in line
		added := make(map[int]time.Time)
		held := make(map[int]bool) // whether the item was added again
		check := func() {
			t.Helper()
			priorities, groups := make(map[int]workqueue.PartStats[int]), make(map[string]workqueue.PartStats[string])
			enter := func(l lane, depth, inFlight int, age time.Duration) {
				p, g := priorities[l.priority], groups[l.group]
				p.Key, p.Depth, p.InFlight, p.OldestItem = l.priority, p.Depth+depth, p.InFlight+inFlight, max(p.OldestItem, age)
				g.Key, g.Depth, g.InFlight, g.OldestItem = l.group, g.Depth+depth, g.InFlight+inFlight, max(g.OldestItem, age)
				priorities[l.priority], groups[l.group] = p, g
			}
			for l, items := range queued {
				if len(items) > 0 {
					enter(l, len(items), 0, clock.Since(added[items[0]]))
				}
			}
			for item, again := range held {
				enter(laneOf(item), map[bool]int{true: 1}[again], 1, 0)
			}
			s, ok := r.reads[0]()
			if !ok {
				t.Fatalf("%s: the queue is gone", shape)
			}
			checkParts(t, shape, s, s.ByPriority, priorities)
			checkParts(t, shape, s, s.ByGroup, groups)
			for i := range s.ByGroup[1:] {
				if b := s.ByGroup[i+1]; !b.Others && b.Depth > s.ByGroup[i].Depth {
					t.Errorf("%s: groups are not ordered by depth: %+v", shape, s.ByGroup)
				}
			}
		}
		for range rounds(3000) {
			clock.Step(time.Second)
			switch rnd.IntN(5) {
			case 0, 1:
				item := rnd.IntN(3000)
				if rnd.IntN(4) == 0 && len(held) > 0 { // Otherwise an add of a held item is rare.
					item = slices.Max(slices.Collect(maps.Keys(held)))
				}
				l := laneOf(item)
				again, isHeld := held[item]
				switch {
				case isHeld && !again:
					held[item], added[item] = true, clock.Now()
				case !isHeld && !slices.Contains(queued[l], item):
					queued[l], added[item] = append(queued[l], item), clock.Now()
				}
				q.Add(item)
			case 2:
				if got, ok := q.TryGet(); ok {
					queued[laneOf(got)] = slices.DeleteFunc(queued[laneOf(got)], func(i int) bool { return i == got })
					held[got] = false
				}
			case 3:
				if len(held) == 0 {
					break
				}
				item := slices.Min(slices.Collect(maps.Keys(held)))
				if held[item] {
					queued[laneOf(item)] = append(queued[laneOf(item)], item)
				}
				delete(held, item)
				q.Done(item)
			}
			if rnd.IntN(50) == 0 && q.Len() > 0 {
				check()
			}
		}
		check()
		q.ShutDown() // Also so that the queue is not collected before the last check.
	}
}

// A wrapper around a provider took the counts and the gauges of a StateProvider away, without a word.
func TestStateProviderIsFoundBehindWrappers(t *testing.T) {
	registry := prometheus.NewRegistry()
	var p workqueue.MetricsProvider = unwrapping{unwrapping{workqueue.NewPrometheusProvider(registry, workqueue.PrometheusOptions{})}}
	type queue interface {
		workqueue.TypedInterface[string]
		Stats() workqueue.QueueStats
	}
	for name, q := range map[string]queue{
		"Typed":         workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "a", MetricsProvider: p}),
		"TypedDelaying": workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "b", MetricsProvider: p}),
	} {
		q.Add("item")
		if s := q.Stats(); s.Adds != 1 || s.Pushed {
			t.Errorf("%s: %d adds are counted, pushed %v, want 1 and false", name, s.Adds, s.Pushed)
		}
		defer q.ShutDown()
	}
	if series, err := registry.Gather(); err != nil || len(series) == 0 {
		t.Errorf("the registry has %d series, %v", len(series), err)
	}
	hidden := struct{ workqueue.MetricsProvider }{p}
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "c", MetricsProvider: hidden})
	defer q.ShutDown()
	if !q.Stats().Pushed {
		t.Error("Stats do not say that a provider without Unwrap reads no queue")
	}
	if unnamed := workqueue.NewTyped[string](); unnamed.Stats().Pushed {
		t.Error("a queue without a provider is pushed")
	}
}

// An unwrapping is a wrapper, as for a prefix of the names.
type unwrapping struct{ workqueue.MetricsProvider }

func (u unwrapping) Unwrap() workqueue.MetricsProvider { return u.MetricsProvider }

// checkParts compares parts with the parts of all keys. Some keys may be among the others.
func checkParts[K comparable](t *testing.T, shape string, s workqueue.QueueStats, parts []workqueue.PartStats[K], want map[K]workqueue.PartStats[K]) {
	t.Helper()
	sum := workqueue.PartStats[K]{}
	add := func(p workqueue.PartStats[K]) {
		sum.Depth += p.Depth
		sum.InFlight += p.InFlight
		sum.OldestItem = max(sum.OldestItem, p.OldestItem)
	}
	named := 0
	for _, p := range parts {
		add(p)
		if p.Others {
			continue
		}
		named++
		if w := want[p.Key]; p.Depth != w.Depth || p.InFlight != w.InFlight || p.OldestItem != w.OldestItem {
			t.Errorf("%s: got %+v, want %+v", shape, p, w)
		}
		delete(want, p.Key)
	}
	if sum.Depth != s.Depth || sum.InFlight != s.InFlight || sum.OldestItem != s.OldestItem {
		t.Errorf("%s: the parts are %+v together, want depth %d, in flight %d, oldest %v", shape, sum, s.Depth, s.InFlight, s.OldestItem)
	}
	if rest := parts[len(parts)-1]; len(want) > 0 && (named != 25 || !rest.Others) {
		t.Errorf("%s: %d parts of their own, and then %+v, want 25 and others: %d are missing", shape, named, rest, len(want))
	}
}

// Workers that wait count, in whatever call, and items that workers hold.
func TestWorkersOfLoopsByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(constant(time.Hour), workqueue.TypedRateLimitingQueueConfig[string]{})
		check := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if got := q.Stats().Workers; got != want {
				t.Errorf("%s: %d workers, want %d", when, got, want)
			}
		}
		q.Add("queued")
		q.AddAfter("later", time.Hour)
		check("without a worker", 0)
		q.TryGet()
		check("a hand-out by TryGet", 1)
		q.Done("queued")
		check("after its Done", 0)
		ctx, cancel := context.WithCancel(t.Context())
		for _, get := range []func(){
			func() { q.Get() }, func() { q.Get() }, func() { q.GetContext(ctx) }, func() { q.GetInfo(ctx) },
		} {
			go get()
		}
		check("four that wait", 4)
		cancel()
		check("two of them are canceled", 2)
		q.Add("a")
		check("one has an item", 2)
		q.Add("a")
		check("an item that is marked", 2)
		q.Done("a")
		check("the same item for the other", 1)
		q.AddAll("b", "c")
		q.Get()
		q.Get()
		check("a worker with two items", 3)
		go q.ShutDownWithDrain()
		go q.Get()
		check("in a drain", 3)
		for _, item := range []string{"a", "b", "c"} {
			q.Done(item)
		}
		check("after the drain", 0)
	})
}

// An idle worker of Run counts, whatever it waits for.
func TestWorkersOfRun(t *testing.T) {
	limited := workqueue.Order[string]{
		Group: func(item string) string { return item[:1] }, MaxInFlight: func(string) int { return 1 },
	}
	for name, config := range map[string]workqueue.TypedRateLimitingQueueConfig[string]{
		"plain":               {},
		"with a full group":   {Order: limited},
		"with a Pace":         {Pace: rate.NewLimiter(rate.Every(time.Hour), 1)},
		"with times":          {KeepTimes: true},
		"with pushed metrics": {Name: "q", MetricsProvider: &recorder{}},
		"with a Typed below":  {Queue: workqueue.NewTyped[string]()},
		"with a Queue":        {Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: &shelf[string]{}})},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedRateLimiting(constant(time.Hour), config)
			defer q.ShutDown()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				done <- workqueue.Run(ctx, q, func(ctx context.Context, _ string) error {
					<-ctx.Done()
					return nil
				}, workqueue.RunOptions[string]{Workers: 3, AtEnd: workqueue.EndKeep})
			}()
			for n, add := range []string{"", "g1", "g2"} {
				if add != "" {
					q.Add(add)
				}
				synctest.Wait()
				if got := q.Stats().Workers; got != 3 {
					t.Errorf("%s, %d items: %d workers, want 3", name, n, got)
				}
			}
			cancel()
			<-done
			if got := q.Stats().Workers; got != 0 {
				t.Errorf("%s, after Run: %d workers, want 0", name, got)
			}
		})
	}
}

// Stats of two queues are added up, and neither is changed by that.
func TestMergedStats(t *testing.T) {
	parts := func(from, to int) (all []workqueue.PartStats[string]) {
		for i := from; i < to; i++ {
			all = append(all, workqueue.PartStats[string]{Key: fmt.Sprint(i), Depth: i, InFlight: 1, OldestItem: time.Duration(i)})
		}
		return all
	}
	durations := func(n uint64) workqueue.DurationStats {
		return workqueue.DurationStats{Count: n, Sum: 1, Buckets: []uint64{n, 0}, Exponential: map[int]uint64{1: n}}
	}
	stats := func(n int) workqueue.QueueStats {
		return workqueue.QueueStats{
			Depth: n, InFlight: n, Workers: 2 * n, Adds: uint64(n), Unfinished: time.Duration(n), LongestRunning: time.Duration(n), Paced: time.Duration(n),
			ByPriority: []workqueue.PartStats[int]{{Key: n, Depth: 1}, {Key: 7, Depth: n}}, Latency: durations(uint64(n)),
			Results: map[workqueue.Outcome]uint64{workqueue.OutcomeFailed: uint64(n)},
		}
	}
	a, b := stats(1), stats(2)
	a.ByGroup, b.ByGroup = parts(0, 20), parts(10, 40)
	a.Pushed, b.Paused = true, true
	b.ByGroup[9].HeldBack = true // 19
	before := fmt.Sprint(a, b)
	sum := a
	sum.Merge(b)
	if after := fmt.Sprint(a, b); after != before {
		t.Errorf("Merge changed %s to %s", before, after)
	}
	again := b
	again.Merge(a)
	for _, s := range []workqueue.QueueStats{sum, again} {
		if !s.Pushed || !s.Paused {
			t.Errorf("pushed %v, paused %v, want what one of the two is", s.Pushed, s.Paused)
		}
	}
	if got, want := fmt.Sprint(sum.Depth, sum.InFlight, sum.Workers, sum.Adds, sum.Unfinished, sum.LongestRunning, sum.Paced, sum.Latency, sum.Results[workqueue.OutcomeFailed]),
		"3 3 6 3 3ns 2ns 3ns {3 2 [3 0] 0 map[1:3]} 3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(sum.ByPriority), "[{1 false 1 0 false 0s} {7 false 3 0 false 0s} {2 false 1 0 false 0s}]"; got != want {
		t.Errorf("by priority: got %s, want %s", got, want)
	}
	// The groups 10 to 19 are in both, and have twice their depth.
	g := sum.ByGroup
	if len(g) != 26 || g[0].Key != "39" || g[1].Key != "19" || g[1].Depth != 38 || g[1].InFlight != 2 || !g[1].HeldBack || !g[25].Others {
		t.Errorf("by group: got %+v", g)
	}
	depth, inFlight := 0, 0
	for _, p := range g {
		depth, inFlight = depth+p.Depth, inFlight+p.InFlight
	}
	if want := 19*20/2 + 39*40/2 - 9*10/2; depth != want || inFlight != 50 {
		t.Errorf("by group: depth %d and %d in flight together, want %d and 50", depth, inFlight, want)
	}
	paced := workqueue.PaceStats{Limit: 5, Burst: 1}
	for _, other := range []workqueue.PaceStats{{}, {Limit: 7}} {
		s := workqueue.QueueStats{Pace: paced}
		if s.Merge(workqueue.QueueStats{Pace: other}); s.Pace != paced {
			t.Errorf("with a Pace of %+v: got %+v, want the first", other, s.Pace)
		}
	}
	var late workqueue.QueueStats
	if late.Merge(workqueue.QueueStats{Pace: paced}); late.Pace != paced {
		t.Errorf("the second queue has a Pace: got %+v", late.Pace)
	}
	few := workqueue.QueueStats{ByPriority: []workqueue.PartStats[int]{{Key: 5, OldestItem: 2}, {Others: true, Depth: 1}}}
	few.Merge(workqueue.QueueStats{ByPriority: []workqueue.PartStats[int]{{Key: 5, Depth: 1, OldestItem: 3}, {Key: 6}, {Others: true, Depth: 2}}})
	if got, want := fmt.Sprint(few.ByPriority), "[{5 false 1 0 false 3ns} {6 false 0 0 false 0s} {0 true 3 0 false 0s}]"; got != want {
		t.Errorf("with others in both: got %s, want %s", got, want)
	}
	var none workqueue.QueueStats
	none.Merge(workqueue.QueueStats{})
	if got := fmt.Sprintf("%+v", none); got != fmt.Sprintf("%+v", workqueue.QueueStats{}) {
		t.Errorf("nothing and nothing is %s", got)
	}
}

// Each item and each call is in one series, with any order.
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

// A queue without a provider knows what it has, and counts nothing.
func TestStatsWithoutAProvider(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	typed := func(keep bool) *workqueue.Typed[string] {
		return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Clock: clock, KeepTimes: keep})
	}
	above := func(q workqueue.TypedInterface[string]) *workqueue.TypedRateLimiting[string] {
		return workqueue.NewTypedRateLimiting(constant(time.Minute), workqueue.TypedRateLimitingQueueConfig[string]{Clock: clock, Queue: q})
	}
	for name, tt := range map[string]struct {
		q     *workqueue.TypedRateLimiting[string]
		timed bool
	}{
		"own layers":              {above(nil), false},
		"a Typed below":           {above(typed(true)), true},
		"an embedding type below": {above(struct{ *workqueue.Typed[string] }{typed(true)}), true},
		"no times below":          {above(typed(false)), false},
	} {
		q := tt.q
		q.AddWith(workqueue.AddOptions{Priority: prio(2)}, "a", "b")
		q.AddAll("c", "c")
		q.Get()
		q.Add("a")
		q.AddAfter("w", time.Hour)
		q.AddRateLimited("v")
		clock.Step(time.Second)
		want := workqueue.QueueStats{
			Depth: 3, InFlight: 1, Workers: 1, Waiting: 2,
			ByPriority: []workqueue.PartStats[int]{{Key: 0, Depth: 2}, {Key: 2, Depth: 1, InFlight: 1}},
		}
		if tt.timed {
			want.Unfinished, want.LongestRunning, want.OldestItem = time.Second, time.Second, time.Second
			want.ByPriority[0].OldestItem, want.ByPriority[1].OldestItem = time.Second, time.Second
		}
		if got := q.Stats(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got\n%+v, want\n%+v", name, got, want)
		}
		q.ShutDown()
	}
}
