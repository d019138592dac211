package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A line with a first item that nobody gets must not grow with each removal.
func TestLineDoesNotGrowWithRemovals(t *testing.T) {
	t.Parallel()
	q := workqueue.NewTyped[int]()
	q.Add(-1)
	for i := range 100_000 {
		q.Add(i)
		q.Add(i + 1)
		q.Remove(i) // i+1 is behind it, and keeps the hole from being the last.
	}
	checkInvariants(t, 0, q)
	if room := q.Room(); room > 4096 {
		t.Errorf("the line has room for %d items, and holds %d", room, q.Len())
	}
}

func TestRemoveKeepsTheOrderOfTheOthers(t *testing.T) {
	q := workqueue.NewTyped[int]()
	const n = 10_000
	want := make([]int, 0, n)
	for i := range n {
		q.Add(i)
		want = append(want, i)
	}
	rnd := newRand(t)
	for _, i := range rnd.Perm(n)[:n-500] {
		if !q.Remove(i) || q.Remove(i) {
			t.Fatalf("item %d cannot be removed once", i)
		}
		want[i] = -1
	}
	checkInvariants(t, 0, q)
	want = slices.DeleteFunc(want, func(i int) bool { return i < 0 })
	if got := takeAll(q); !slices.Equal(got, want) {
		t.Errorf("got %d items, want %d: %v, %v", len(got), len(want), got, want)
	}
}

// What a drain has to wait for can be taken from it.
func TestRemoveOfTheLastItemEndsADrain(t *testing.T) {
	onEachLayer(t, func(t *testing.T, q drainer) {
		r, ok := q.(interface{ Remove(item string) bool })
		if d, below := q.(*workqueue.TypedDelaying[string]); below && !d.Remove("nothing") {
			q.Add("x")
			if ok = d.Remove("x"); !ok {
				q.Get()
				q.Done("x")
			}
		}
		if !ok {
			return // What is below cannot be asked to.
		}
		q.Add("a")
		over := make(chan error, 1)
		go func() { over <- q.Drain(t.Context()) }()
		synctest.Wait()
		if !r.Remove("a") {
			t.Fatal("the item is not there")
		}
		synctest.Wait()
		if len(over) == 0 {
			t.Error("the drain waits for an item that was removed")
			q.ShutDown()
		}
	})
}

func TestRemoveTakesTheDepthDown(t *testing.T) {
	for _, waits := range []bool{false, true} {
		r := &recorder{}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: r, Clock: testingclock.NewFakeClock(epoch)})
		q.Add("a")
		if waits {
			q.AddAfter("a", time.Hour)
		}
		r.take()
		q.Remove("a")
		if got := count(r, "depth-1"); got != 1 {
			t.Errorf("waiting %v: the depth went down %d times", waits, got)
		}
		q.Remove("a")
		if got := r.take(); len(got) > 0 {
			t.Errorf("waiting %v: Remove of nothing is counted as %q", waits, got)
		}
		q.ShutDown()
	}
}

// A worker that waits is woken by the Add of an item that was removed and is in
// the storage still.
func TestAddOfARemovedItemWakesAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newStored(workqueue.DefaultQueue[string]())
		defer q.ShutDown()
		go q.Get()
		synctest.Wait()
		arrive := q.Approach() // Or the worker would drop what was removed.
		q.Add("a")
		q.Remove("a")
		arrive()
		synctest.Wait()
		checkInvariants(t, 0, q)
		if n := q.Waiting(); n != 1 {
			t.Errorf("%d workers wait for nothing, want 1", n)
		}
		q.Add("a")
		synctest.Wait()
		checkInvariants(t, 1, q)
		if n := q.Waiting(); n != 0 {
			t.Errorf("%d workers wait for the item", n)
		}
	})
}

// A burst that is removed, or that nobody can name, leaves no long line.
func TestLineIsShortAfterABurst(t *testing.T) {
	t.Parallel()
	const n = 10_000
	for name, empty := range map[string]func(q *workqueue.Typed[float64], item float64){
		"worked off": func(q *workqueue.Typed[float64], _ float64) { q.Done(first(q.Get())) },
		"removed":    func(q *workqueue.Typed[float64], item float64) { q.Remove(item) },
		"forgotten":  func(q *workqueue.Typed[float64], _ float64) { q.Get() },
	} {
		q := workqueue.NewTyped[float64]()
		for i := range n {
			if item := float64(i); name == "forgotten" && i > 0 {
				q.Add(math.NaN())
			} else {
				q.Add(item)
			}
		}
		for i := range n {
			empty(q, float64(i))
		}
		checkInvariants(t, 0, q)
		if room := q.Room(); room > 2048 {
			t.Errorf("%s: the line has room for %d items", name, room)
		}
	}
}

// The waiting item that Remove took back was the last: the goroutine ends.
func TestRemoveOfTheLastWaitingItemEndsTheGoroutine(t *testing.T) {
	for name, call := range map[string]func(q *workqueue.TypedDelaying[string]){
		"Remove":         func(q *workqueue.TypedDelaying[string]) { q.Remove("a") },
		"Reschedule now": func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", 0) },
		"Add absorbs":    func(q *workqueue.TypedDelaying[string]) { q.Add("a") },
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{AddCancelsWaiting: true})
			q.AddAfter("a", time.Hour)
			synctest.Wait()
			if n := goroutines(); n != 1 {
				t.Errorf("%s: %d goroutines while an item waits", name, n)
			}
			call(q)
			synctest.Wait()
			if n := goroutines(); n != 0 {
				t.Errorf("%s: %d goroutines while no item waits", name, n)
			}
			checkInvariants(t, 0, q)
			q.ShutDown()
		})
	}
}

func TestDebounceAddsOnceWhenASeriesIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
		defer q.ShutDown()
		// Ten events, one a second, are one item 3 s after the last.
		for range 10 {
			q.Debounce("a", 3*time.Second, time.Minute)
			time.Sleep(time.Second)
		}
		q.Get()
		if got := time.Since(start); got != 12*time.Second {
			t.Errorf("the item came after %v", got)
		}
		q.Done("a")
		// Events that do not end are an item every 5 s.
		start = time.Now()
		for i := range 15 {
			q.Debounce("a", 3*time.Second, 5*time.Second)
			time.Sleep(time.Second)
			synctest.Wait()
			if got, want := q.Len(), map[bool]int{true: 1}[i%5 == 4]; got != want {
				t.Errorf("after %v: %d items", time.Since(start), got)
			}
			if q.Len() > 0 {
				q.Get()
				q.Done("a")
			}
		}
	})
}

// Without a maximum a series of calls may last. Only that of its first call
// counts, so that a later one is no maximum either.
func TestDebounceWithoutAMaximum(t *testing.T) {
	for _, most := range []time.Duration{0, -1, math.MinInt64} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
			defer q.ShutDown()
			for i := range 1000 {
				q.Debounce("a", 3*time.Second, most*time.Duration((i+1)%2))
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if q.Len() != 0 || q.Waiting() != 1 {
					t.Fatalf("at most %d: %d items are queued and %d wait after %d calls, want 0 and 1", most, q.Len(), q.Waiting(), i+1)
				}
			}
			q.Debounce("a", 3*time.Second, time.Second)
			time.Sleep(3*time.Second - 1)
			synctest.Wait()
			if n := q.Len(); n != 0 {
				t.Errorf("at most %d: the maximum of a later call counts", most)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if n := q.Len(); n != 1 {
				t.Errorf("at most %d: %d items are queued when the series is over", most, n)
			}
			q.Debounce("b", time.Hour, time.Nanosecond) // That is one.
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if n := q.Len(); n != 2 {
				t.Errorf("%d items are queued after a maximum of a nanosecond, want 2", n)
			}
		})
	}
}

// An AddAfter promises when an item comes at the latest, also to itself.
func TestDebounceDoesNotBreakThePromiseOfAddAfter(t *testing.T) {
	for name, calls := range map[string][]func(q *workqueue.TypedDelaying[string]){
		"before": {
			func(q *workqueue.TypedDelaying[string]) { q.AddAfter("a", 10*time.Second) },
			func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 20*time.Second, time.Hour) },
		},
		"between": {
			func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 5*time.Second, time.Hour) },
			func(q *workqueue.TypedDelaying[string]) { q.AddAfter("a", 10*time.Second) },
			func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 20*time.Second, time.Hour) },
		},
		"after": {
			func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 20*time.Second, time.Hour) },
			func(q *workqueue.TypedDelaying[string]) { q.AddAfter("a", 10*time.Second) },
		},
		"rescheduled": {
			func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 5*time.Second, time.Hour) },
			func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", 10*time.Second) },
			func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 20*time.Second, time.Hour) },
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
			defer q.ShutDown()
			start := time.Now()
			for _, call := range calls {
				call(q)
			}
			q.Get()
			if got := time.Since(start); got != 10*time.Second {
				t.Errorf("%s: the item came after %v", name, got)
			}
		})
	}
}

func TestWaitingItemsThatDifferFromThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[float64]{AddCancelsWaiting: true})
		defer q.ShutDown()
		nan := math.NaN()
		q.AddAfter(nan, time.Second)
		q.Reschedule(nan, 2*time.Second)
		q.Debounce(nan, 3*time.Second, time.Minute)
		q.Add(nan)
		if q.Remove(nan) {
			t.Error("an item that differs from itself was found")
		}
		checkInvariants(t, 0, q)
		if s := q.Snapshot(9); s.WaitingTotal != 3 || s.QueuedTotal != 1 {
			t.Errorf("got %v", s)
		}
		time.Sleep(time.Minute)
		for range 4 {
			q.Done(first(q.Get()))
		}
		checkInvariants(t, 1, q)
	})
}

func first[T any](item T, _ bool) T { return item }

// No delay is none: the item is there when the call returns, once, is not late,
// and needs no goroutine. A nanosecond is a delay.
func TestNoDelay(t *testing.T) {
	for name, call := range map[string]func(q *workqueue.TypedDelaying[string], d time.Duration){
		"AddAfter":          func(q *workqueue.TypedDelaying[string], d time.Duration) { q.AddAfter("a", d) },
		"Reschedule":        func(q *workqueue.TypedDelaying[string], d time.Duration) { q.Reschedule("a", d) },
		"Debounce":          func(q *workqueue.TypedDelaying[string], d time.Duration) { q.Debounce("a", d, time.Hour) },
		"Debounce, no most": func(q *workqueue.TypedDelaying[string], d time.Duration) { q.Debounce("a", d, 0) },
	} {
		for _, d := range []time.Duration{math.MinInt64, -1, 0, 1} {
			for below, queue := range map[string]workqueue.TypedInterface[string]{"own": nil, "foreign": bare{workqueue.NewTyped[string]()}} {
				r, told := &reader{}, &recorder{}
				config := workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: r, Clock: testingclock.NewFakeClock(epoch), Queue: queue}
				q := workqueue.NewTypedDelaying(config)
				config.MetricsProvider, config.Queue = told, nil
				teller := workqueue.NewTypedDelaying(config)
				call(q, d)
				call(teller, d)
				s, _ := r.reads[0]()
				got := fmt.Sprintf("%d queued, %d waiting, %d duplicates, %d late, %d counted",
					q.Len(), q.Waiting(), s.Duplicates, s.Lateness.Count, count(told, "adds+1"))
				want := "1 queued, 0 waiting, 0 duplicates, 0 late, 1 counted"
				if d > 0 {
					want = "0 queued, 1 waiting, 0 duplicates, 0 late, 0 counted"
				}
				if got != want {
					t.Errorf("%s %d, %s queue below: got %s, want %s", name, d, below, got, want)
				}
				q.ShutDown()
				teller.ShutDown()
			}
		}
	}
}

// A delay that has passed when AddAfter looks again needs no goroutine; the
// order of what is due stays.
func TestShortDelays(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
	defer q.ShutDown()
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		q.AddAfter(i, time.Duration(1+rnd.IntN(3)))
		q.AddAfter(i, time.Hour)
	}
	seen := 0
	for range 2000 {
		i, _ := q.Get()
		seen += i
		q.Done(i)
	}
	if s := q.Snapshot(0); seen != 1999*1000 || s.WaitingTotal != 2000 || s.QueuedTotal != 0 {
		t.Errorf("got %d, %v", seen, s)
	}
	checkInvariants(t, 0, q)
}

// They need no more than that where nothing else waits, and are as late as that
// look was: the time that AddAfter takes is not counted twice.
func TestShortDelaysWhereNothingWaits(t *testing.T) {
	for name, below := range map[string]workqueue.TypedInterface[int]{"own": nil, "foreign": struct{ *workqueue.Typed[int] }{workqueue.NewTyped[int]()}} {
		r := &reader{}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Name: "q", MetricsProvider: r, Queue: below})
		start := time.Now()
		const n = 300
		for i := range n {
			q.AddAfter(i, 1)
			q.Done(first(q.Get()))
		}
		took := time.Since(start)
		if s, _ := r.reads[0](); s.Lateness.Count != n || s.Lateness.Sum < 0 || s.Lateness.Sum > 100*took.Seconds() {
			t.Errorf("%s: %d items were late by %v s in all, want %d by less than %v", name, s.Lateness.Count, s.Lateness.Sum, n, took)
		}
		q.ShutDown()
	}
}

// What was due before goes before, though its goroutine, for which there is no
// processor here, has not seen to it yet.
func TestShortDelayBehindAnother(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for round := range 20 {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
		q.AddAfter("a", 200*time.Nanosecond)
		for start := time.Now(); time.Since(start) < time.Microsecond; {
		}
		q.AddAfter("b", 1)
		if got := first(q.Get()) + first(q.Get()); got != "ab" {
			t.Errorf("round %d: got %s, want ab", round, got)
		}
		q.ShutDown()
	}
}

// What a layer below lacks is said, not made up.
func TestLayersAboveAQueueWithoutTheNewMethods(t *testing.T) {
	low := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: bare{workqueue.NewTyped[string]()}})
	high := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
		DelayingQueue: bareDelaying{workqueue.NewTypedDelayingQueue[string]()},
	})
	defer low.ShutDown()
	defer high.ShutDown()
	for _, get := range []func(ctx context.Context) (string, error){low.GetContext, high.GetContext} {
		if _, err := get(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("GetContext: %v", err)
		}
	}
	for name, call := range map[string]func(){
		"TryGet":     func() { low.TryGet() },
		"TryGet ":    func() { high.TryGet() },
		"Reschedule": func() { high.Reschedule("a", 1) },
		"Debounce":   func() { high.Debounce("a", 1, 1) },
	} {
		if goes(call) == nil {
			t.Errorf("%s has not panicked", name)
		}
	}
	high.AddAll("a", "b")
	low.AddAll("a", "b")
	if high.Len() != 2 || low.Len() != 2 {
		t.Errorf("AddAll: %d and %d items", high.Len(), low.Len())
	}
	if high.Remove("a") || low.Remove("a") {
		t.Error("Remove has found something")
	}
	if low.AddAfter("a", time.Hour); !low.Remove("a") {
		t.Error("Remove has not found what waits")
	}
	if low.Watch("a", func() {}) || high.Watch("a", func() {}) {
		t.Error("a queue that cannot tell of an Add says that it can")
	}
}

type bareDelaying struct {
	workqueue.TypedDelayingInterface[string]
}

// The upper layers pass on what they get.
// No Get comes between the items of an AddAll.
func TestLayersAddAllAtOnce(t *testing.T) {
	r := &recorder{}
	config := workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: r}
	for name, open := range map[string]func() drainer{
		"delaying": func() drainer { return workqueue.NewTypedDelaying(config) },
		"rate limiting": func() drainer {
			return workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
				DelayingQueue: workqueue.NewTypedDelaying(config),
			})
		},
	} {
		q := open()
		var lens []int
		r.setHook(func(event string) {
			if event == "adds+1" {
				lens = append(lens, q.Len())
			}
		})
		q.(extended).AddAll("a", "b", "c")
		if !slices.Equal(lens, []int{3, 3, 3}) {
			t.Errorf("%s: %v items were queued when the Adds were counted, want 3 each time", name, lens)
		}
		q.ShutDown()
	}
}

// Above a queue that cannot tell of Adds, nobody can.
func TestLayersDoNotWatchAForeignQueue(t *testing.T) {
	delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: bare{workqueue.NewTyped[string]()}})
	q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: delaying})
	q.Add("a")
	q.Get()
	if q.Watch("a", func() {}) || delaying.Watch("a", func() {}) {
		t.Error("the item seems to be watched")
	}
}

func TestLayersPassOn(t *testing.T) {
	q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{AddCancelsWaiting: true})
	defer q.ShutDown()
	q.Reschedule("a", time.Hour)
	q.Debounce("b", time.Hour, time.Hour)
	q.AddAll("b", "c")
	if s := q.Snapshot(9); names(s.Queued) != "b c" || names(s.Waiting) != "a" {
		t.Errorf("got %v", s)
	}
	got, err := q.GetContext(t.Context())
	next, ok := q.TryGet()
	if fmt.Sprintf("%v %v %v %v", got, err, next, ok) != "b <nil> c true" {
		t.Error(got, err, next, ok)
	}
	if _, ok := q.TryGet(); ok {
		t.Error("TryGet of an empty queue")
	}
	told := 0
	tells := q.Watch("b", func() { told++ })
	q.Add("b")
	q.Add("b")
	if !tells || told != 1 {
		t.Errorf("the queue tells: %v; told %d times of the Add", tells, told)
	}
}

// count returns how often the event was among those since the last call.
func count(r *recorder, event string) (n int) {
	for _, e := range r.take() {
		if e == event {
			n++
		}
	}
	return n
}
