package workqueue_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// Without a delay the item is queued when the call returns. The item is added once, is not late, and
// needs no goroutine. A nanosecond is a delay.
func TestNoDelay(t *testing.T) {
	for name, call := range map[string]func(q *workqueue.TypedDelaying[string], d time.Duration){
		"AddAfter":             func(q *workqueue.TypedDelaying[string], d time.Duration) { q.AddAfter("a", d) },
		"Reschedule":           func(q *workqueue.TypedDelaying[string], d time.Duration) { q.Reschedule("a", d) },
		"Debounce":             func(q *workqueue.TypedDelaying[string], d time.Duration) { q.Debounce("a", d, time.Hour) },
		"Debounce, no maxWait": func(q *workqueue.TypedDelaying[string], d time.Duration) { q.Debounce("a", d, 0) },
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

// AddAfter reads the clock once more before it returns. If the delay has passed, AddAfter adds the item
// itself, in the order of the due times.
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

// The same if no other item waits. The lateness is that of the second reading: the time that AddAfter
// takes does not count twice.
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

// An item that was due before is added before, even if the goroutine of the queue has not run yet: here
// it has no processor.
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

// Many goroutines call AddAfter at the instant of the shutdown. All of them return, and no item waits in
// the closed queue.
func TestAddAfterAtTheInstantOfTheShutDown(t *testing.T) {
	for round := range 30 {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
			for i := range 100 {
				go q.AddAfter(i, time.Duration(1+i%3)*time.Nanosecond)
				if i == round*3 {
					go q.ShutDownWithDrain()
					go q.ShutDown()
				}
			}
			synctest.Wait()
			checkInvariants(t, round, q)
			if n := q.Waiting(); n != 0 || goroutines() != 0 {
				t.Errorf("round %d: %d items wait and %d goroutines are left", round, n, goroutines())
			}
		})
	}
}

// A shutdown comes between the first look of a call and its critical section. The call starts no
// goroutine, for which the shutdown would not wait.
func TestAddAfterThatTheShutDownOvertakes(t *testing.T) {
	for name, add := range map[string]func(q *workqueue.TypedDelaying[string]){
		"AddAfter":   func(q *workqueue.TypedDelaying[string]) { q.AddAfter("a", time.Second) },
		"Reschedule": func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", time.Second) },
		"Debounce":   func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", time.Second, time.Minute) },
	} {
		synctest.Test(t, func(t *testing.T) {
			clock := newHookedClock()
			q := newClocked(clock)
			reads := 0
			clock.onRead = func() {
				if reads++; reads == 1 {
					q.ShutDown()
				}
			}
			add(q)
			synctest.Wait()
			if reads != 2 || q.Waiting() != 0 { // By the call, and by the shutdown.
				t.Errorf("%s: the clock was read %d times, %d items wait, want 2 and 0", name, reads, q.Waiting())
			}
		})
	}
}

func TestAddAfterDoesNotWaitForTheQueueBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		q := newGated(func(int) { <-hold })
		q.AddAfter(-1, time.Second)
		time.Sleep(time.Second)
		synctest.Wait() // Its goroutine is stuck in Add now.
		const n = 5000
		for i := range n {
			q.AddAfter(i, time.Minute)
			if got := q.Waiting(); got != i+1 {
				t.Fatalf("%d items wait after AddAfter %d", got, i)
			}
		}
		close(hold)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := q.Len(); got != n+1 {
			t.Errorf("%d items were added, want %d", got, n+1)
		}
		q.ShutDown()
	})
}

// Due items are added 32 at a time. Between two batches other calls get the locks.
func TestDueItemsAreAddedInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Name: "q", MetricsProvider: r})
		defer q.ShutDown()
		var lens []int
		r.setHook(func(event string) {
			if event == "adds+1" {
				lens = append(lens, q.Len())
			}
		})
		for i := range 100 {
			q.AddAfter(i, time.Second)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got, want := slices.Compact(slices.Clone(lens)), []int{32, 64, 96, 100}; len(lens) != 100 || !slices.Equal(got, want) {
			t.Errorf("%d Adds were counted, with %v items queued, want 100 with %v", len(lens), got, want)
		}
	})
}

// What the page says of retries_total: which calls count, and which results of Run.
func TestWhatCountsAsARetry(t *testing.T) {
	type queue = workqueue.TypedRateLimiting[string]
	ends := func(err error) func(*queue) {
		return func(q *queue) {
			q.Add("a")
			ctx, stop := context.WithCancel(t.Context())
			workqueue.Run(ctx, q, func(context.Context, string) error { return err },
				runOptions{AtEnd: workqueue.EndKeep, Logger: discard(), OnResult: func(context.Context, string, workqueue.HandlerResult) { stop() }})
		}
	}
	for name, tt := range map[string]struct {
		do   func(q *queue)
		want uint64
	}{
		"Add":                  {func(q *queue) { q.Add("a") }, 0},
		"AddAfter":             {func(q *queue) { q.AddAfter("a", time.Hour) }, 1},
		"AddAfter, later":      {func(q *queue) { q.AddAfter("a", time.Hour); q.AddAfter("a", 2*time.Hour) }, 2},
		"AddAfter 0":           {func(q *queue) { q.AddAfter("a", 0) }, 1},
		"AddRateLimited":       {func(q *queue) { q.AddRateLimited("a") }, 1},
		"AddWith":              {func(q *queue) { q.AddWith(workqueue.AddOptions{Firm: true}, "a") }, 0},
		"AddWith, After":       {func(q *queue) { q.AddWith(workqueue.AddOptions{After: time.Hour}, "a", "b") }, 2},
		"AddWith, Firm":        {func(q *queue) { q.AddWith(workqueue.AddOptions{After: time.Hour, Firm: true}, "a") }, 1},
		"AddWith, RateLimited": {func(q *queue) { q.AddWith(workqueue.AddOptions{RateLimited: true}, "a") }, 1},
		"Reschedule":           {func(q *queue) { q.Reschedule("a", time.Hour) }, 0},
		"Debounce":             {func(q *queue) { q.Debounce("a", time.Hour, 0) }, 0},

		"succeeded":    {ends(nil), 0},
		"failed":       {ends(errFailed), 1},
		"RetryAfter":   {ends(workqueue.RetryAfter(time.Hour, errFailed)), 1},
		"RequeueAfter": {ends(workqueue.RequeueAfter(time.Hour)), 1},
		"Requeue":      {ends(workqueue.Requeue()), 1},
		"DeferFor":     {ends(workqueue.DeferFor(time.Hour)), 1},
		"given up":     {ends(permanently()), 0},
		"a failure of what was removed": {func(q *queue) {
			q.Add("a")
			ctx, stop := context.WithCancel(t.Context())
			workqueue.Run(ctx, q, func(context.Context, string) error { q.Remove("a"); return errFailed },
				runOptions{AtEnd: workqueue.EndKeep, OnResult: func(context.Context, string, workqueue.HandlerResult) { stop() }})
		}, 0},
		"a failure, and then early": {func(q *queue) {
			ends(errFailed)(q)
			ends(errFailed)(q)
		}, 2},
	} {
		r := &reader{}
		q := workqueue.NewTypedRateLimiting(constant(time.Hour), workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: r})
		tt.do(q)
		if s, _ := r.reads[0](); s.Retries != tt.want {
			t.Errorf("%s: got %d, want %d", name, s.Retries, tt.want)
		}
		q.ShutDown()
	}
}

// If the metric does not return, the item waits or is queued all the same.
func TestRetriesMetricThatFails(t *testing.T) {
	for kind, fail := range map[string]func(){"panic": func() { panic("metric") }, "Goexit": runtime.Goexit} {
		r := &recorder{}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: r})
		r.setHook(func(string) { fail() })
		goes(func() { q.AddAfter("a", time.Hour) })
		goes(func() { q.AddAfter("b", 0) })
		r.setHook(nil)
		if q.Waiting() != 1 || q.Len() != 1 {
			t.Errorf("%s: %d items wait and %d are queued, want 1 and 1", kind, q.Waiting(), q.Len())
		}
		checkInvariants(t, 0, q)
		q.ShutDown()
	}
}

// If the goroutine does not notice that items are due, the next call adds them. Above a foreign queue
// only the goroutine may add, so the call makes the goroutine look.
func TestWhoeverComesByAddsWhatIsDue(t *testing.T) {
	for name, call := range map[string]func(q *workqueue.TypedDelaying[string], item string){
		"AddAfter":   func(q *workqueue.TypedDelaying[string], item string) { q.AddAfter(item, time.Hour) },
		"Reschedule": func(q *workqueue.TypedDelaying[string], item string) { q.Reschedule(item, time.Hour) },
		"Debounce":   func(q *workqueue.TypedDelaying[string], item string) { q.Debounce(item, time.Hour, time.Hour) },
	} {
		for below, queue := range map[string]workqueue.TypedInterface[string]{"own": nil, "foreign": bare{workqueue.NewTyped[string]()}} {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{}
				clock := &leapingClock{FakeClock: testingclock.NewFakeClock(epoch)}
				q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
					Name: "q", MetricsProvider: r, Clock: clock, Queue: queue,
				})
				defer q.ShutDown()
				q.AddAfter("a", time.Minute)
				synctest.Wait()
				clock.leap = time.Minute
				call(q, "b")
				if queue == nil && (q.Len() != 1 || count(r, "adds+1") != 1) {
					t.Errorf("%s: %d items are queued, want 1, and counted", name, q.Len())
				}
				synctest.Wait()
				if q.Len() != 1 || q.Waiting() != 1 {
					t.Errorf("%s, %s queue below: %d are queued, %d wait, want 1 and 1", name, below, q.Len(), q.Waiting())
				}
				clock.leap += 2 * time.Hour
				q.AddAfter("b", time.Second)
				synctest.Wait()
				if q.Len() != 2 || q.Waiting() != 0 || goroutines() != 0 {
					t.Errorf("%s, %s queue below: %d are queued, %d wait, and %d goroutines are left, want 2, 0 and 0",
						name, below, q.Len(), q.Waiting(), goroutines())
				}
			})
		}
	}
}

// A call that has woken a worker for a due item yields the processor, and so do other calls until the
// worker has arrived. A call that leaves the adding to the goroutine yields too. The scheduler does not
// always run the other goroutine, so the test counts rounds.
func TestWhoeverComesByYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const rounds = 9
	var none, due, urgent, arrived, foreign int
	for range rounds {
		synctest.Test(t, func(t *testing.T) {
			clock := &leapingClock{FakeClock: testingclock.NewFakeClock(epoch)}
			below := workqueue.NewTyped[string]()
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock, Queue: below})
			defer q.ShutDown()
			other := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock, Queue: bare{workqueue.NewTyped[string]()}})
			defer other.ShutDown()
			go q.Get()
			q.AddAfter("a", time.Minute)
			other.AddAfter("a", time.Minute)
			synctest.Wait()
			none += yields(q, "b")
			synctest.Wait()
			clock.leap = time.Minute
			due += yields(q, "c")
			synctest.Wait()
			arrive := below.Approach()
			urgent += yields(q, "d")
			arrive()
			synctest.Wait()
			arrived += yields(q, "e")
			foreign += yields(other, "b")
		})
	}
	if none > rounds/2 || due <= rounds/2 || urgent <= rounds/2 || arrived > rounds/2 || foreign <= rounds/2 {
		t.Errorf("of %d AddAfter, %d have yielded without cause, %d to a worker, %d until it was there, %d beyond, and %d to a goroutine",
			rounds, none, due, urgent, arrived, foreign)
	}
}

// yields returns 1 if AddAfter lets another goroutine run before AddAfter returns, and 0 if not.
func yields(q *workqueue.TypedDelaying[string], item string) (n int) {
	var ran atomic.Bool
	go ran.Store(true)
	q.AddAfter(item, time.Hour)
	if ran.Load() {
		n = 1
	}
	return n
}

// Goroutines add items and have them wait, at the same time, with a line and with a storage. No item is
// ever queued and waiting. CheckInvariants looks for such items.
func TestOneEntryFromAllSides(t *testing.T) {
	t.Parallel()
	for _, storage := range []workqueue.Queue[int]{nil, workqueue.DefaultQueue[int]()} {
		below := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Queue: storage})
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Queue: below, OneEntry: true})
		var workers sync.WaitGroup
		for w := range 4 {
			workers.Go(func() {
				for i := range 500 {
					item := (i*7 + w) % 5
					switch (i + w) % 4 {
					case 0:
						q.Add(item)
					case 1:
						q.AddAfter(item, time.Duration(i%3)*100*time.Microsecond)
					case 2:
						q.Debounce(item, 50*time.Microsecond, 0)
					case 3:
						if item, ok := q.TryGet(); ok {
							q.AddAfter(item, 10*time.Microsecond)
							q.Done(item)
						}
					}
					checkInvariants(t, i, q)
				}
			})
		}
		workers.Wait()
		q.ShutDown()
	}
}

// OneEntry refuses both: a foreign queue cannot be asked whether an item is queued, and a type that
// embeds a Typed may replace Add.
func TestOneEntryNeedsATypedBelow(t *testing.T) {
	for _, below := range []workqueue.TypedInterface[string]{
		bare{workqueue.NewTyped[string]()}, struct{ *workqueue.Typed[string] }{workqueue.NewTyped[string]()},
	} {
		got, _ := goes(func() {
			workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{OneEntry: true, Queue: below})
		}).(string)
		if !strings.HasPrefix(got, "workqueue: OneEntry cannot ask a ") {
			t.Errorf("%T: got %q", below, got)
		}
	}
}

// A rate limiting queue has all options of the layers below.
func TestRateLimitingConfigHasAllOptionsOfTheLayersBelow(t *testing.T) {
	all := reflect.TypeFor[workqueue.TypedRateLimitingQueueConfig[string]]()
	for _, below := range []reflect.Type{
		reflect.TypeFor[workqueue.TypedDelayingQueueConfig[string]](), reflect.TypeFor[workqueue.TypedQueueConfig[string]](),
	} {
		for i := range below.NumField() {
			option := below.Field(i)
			has, ok := all.FieldByName(option.Name)
			// The Queue of a FIFO stores items, that of the others is a layer.
			if !ok || has.Type != option.Type && option.Name != "Queue" {
				t.Errorf("%v of %v: got %v", option.Name, below, has)
			}
		}
	}
}

// The first add of a queue with a priority may be one that OneEntry keeps from waiting.
func TestFirstDelayedPriorityRaisesTheOneEntry(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{OneEntry: true})
	defer q.ShutDown()
	q.AddAll("a", "b")
	q.AddWith(workqueue.AddOptions{After: time.Hour, Priority: prio(5)}, "b")
	if s := q.Snapshot(2); names(s.Queued) != "b a" || s.WaitingTotal != 0 {
		t.Errorf("got %v, want b before a", s)
	}
}

// With OneEntry, a second Add of a queued item is a duplicate. An AddAfter that makes nothing
// wait is none, but a Queue is told of the AddAfter.
func TestAddsOfTheOneEntryAreCountedAndTold(t *testing.T) {
	for name, pace := range map[string]workqueue.Rate{"OneEntry": {}, "ItemPace": {Limit: 1e9}} {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
			OneEntry: true, ItemPace: pace, Name: "q", MetricsProvider: &reader{},
		})
		q.Add("a")
		q.Add("a")
		q.AddAfter("a", time.Hour)
		if s := q.Stats(); s.Adds != 1 || s.Duplicates != 1 {
			t.Errorf("%s: %d adds and %d duplicates were counted, want 1 and 1", name, s.Adds, s.Duplicates)
		}
		q.ShutDown()
	}
	store := &shelf[string]{}
	low := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: store})
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{OneEntry: true, Queue: low})
	q.Add("a")
	q.AddAfter("a", time.Hour)
	q.Reschedule("a", time.Hour)
	if got := strings.Join(store.calls, " "); got != "push[a] touch[a]" {
		t.Errorf("the Queue was told %s", got)
	}
	q.ShutDown()
}

// The waiting item that Remove took back was the last: the goroutine ends.
func TestRemoveOfTheLastWaitingItemEndsTheGoroutine(t *testing.T) {
	for name, call := range map[string]func(q *workqueue.TypedDelaying[string]){
		"Remove":         func(q *workqueue.TypedDelaying[string]) { q.Remove("a") },
		"Reschedule now": func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", 0) },
		"Add, one entry": func(q *workqueue.TypedDelaying[string]) { q.Add("a") },
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{OneEntry: true})
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

func TestWaitingItemsThatDifferFromThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[float64]{OneEntry: true})
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

// A changeable is a limiter whose wait a test changes.
type changeable struct {
	wait func(item string) time.Duration
}

func changeableOf(wait time.Duration) *changeable {
	return &changeable{func(string) time.Duration { return wait }}
}

func (l *changeable) When(item string) time.Duration { return l.wait(item) }
func (*changeable) Forget(string)                    {}
func (*changeable) NumRequeues(string) int           { return 0 }

// everyThree is a Rate with a token of each item every 3 s.
var everyThree = workqueue.Rate{Limit: rate.Every(3 * time.Second)}

// newPaced returns a queue with ItemPace, whose limiter for retries says a second. The item a was handed
// out once just now.
func newPaced(pace workqueue.Rate) *workqueue.TypedRateLimiting[string] {
	q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{ItemPace: pace})
	handOut(q, "a")
	return q
}

func handOut(q workqueue.TypedInterface[string], item string) {
	q.Add(item)
	q.Done(first(q.Get()))
}

// Eight producers with all calls, and workers that take their time: the hand-outs of each item keep to
// the rate and the burst.
func TestItemPaceConformsToItsRate(t *testing.T) {
	t.Parallel()
	for round := range 4 {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{ItemPace: workqueue.Rate{Limit: 10, Burst: 2}})
			defer q.ShutDown()
			outs := newHandOutLog()
			for range 3 {
				go outs.work(q)
			}
			var producers sync.WaitGroup
			for p := range 8 {
				producers.Go(func() { addAtRandom(q, rand.New(rand.NewPCG(uint64(round), uint64(p)))) })
			}
			producers.Wait()
			time.Sleep(time.Minute)
			synctest.Wait()
			checkInvariants(t, round, q)
			for item := range 5 {
				if n := len(outs.at[item]); n < 10 {
					t.Errorf("round %d: item %d was handed out %d times", round, item, n)
				}
				conforms(t, outs.at[item], 10, 2)
			}
		})
	}
}

// A Debounce without a quiet time adds the item now. If the item has to wait for its token, a further
// event does not put the item off.
func TestItemPaceEndsADebounceWithoutAQuietTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newPaced(everyThree)
		defer q.ShutDown()
		start := time.Now()
		q.Debounce("a", 0, 0)
		q.Debounce("a", time.Hour, 0)
		q.Get()
		if came := time.Since(start); came != 3*time.Second {
			t.Errorf("the item came after %v, want 3s", came)
		}
		q.Done("a")
	})
}

func conforms(t *testing.T, used []time.Duration, limit, burst float64) {
	t.Helper()
	tokens, last := burst, time.Duration(0)
	for i, at := range used {
		tokens = math.Min(burst, tokens+(at-last).Seconds()*limit) - 1
		if last = at; tokens < -0.001 {
			t.Fatalf("limit %v, burst %v: token %d, used at %v, is one too many (%v)", limit, burst, i, at, tokens)
		}
	}
}

// addAtRandom makes 500 calls of all kinds for five items.
func addAtRandom(q *workqueue.TypedDelaying[int], rnd *rand.Rand) {
	for range 500 {
		item, d := rnd.IntN(5), time.Duration(rnd.IntN(300))*time.Millisecond
		switch rnd.IntN(7) {
		case 0:
			q.AddAfter(item, d)
		case 1:
			q.Reschedule(item, d)
		case 2:
			q.Debounce(item, d, d)
		case 3:
			q.AddWith(workqueue.AddOptions{Priority: prio(rnd.IntN(3))}, item, (item+1)%5)
		default:
			q.Add(item)
		}
		time.Sleep(time.Duration(rnd.IntN(20)) * time.Millisecond)
	}
}

// A handOutLog has the times of hand-outs by item.
type handOutLog struct {
	start time.Time
	mu    sync.Mutex
	at    map[int][]time.Duration
}

func newHandOutLog() *handOutLog {
	return &handOutLog{start: time.Now(), at: map[int][]time.Duration{}}
}

// work is a worker that holds each item for a while.
func (l *handOutLog) work(q *workqueue.TypedDelaying[int]) {
	for {
		item, shutdown := q.Get()
		if shutdown {
			return
		}
		l.mu.Lock()
		l.at[item] = append(l.at[item], time.Since(l.start))
		l.mu.Unlock()
		time.Sleep(time.Duration(item) * 7 * time.Millisecond)
		q.Done(item)
	}
}

// A hand-out that is undone, as its metric has panicked, takes no token.
func TestItemPaceGivesTheTokenOfAnUndoneHandOutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &panicsOnce{}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: p, ItemPace: everyThree})
		defer q.ShutDown()
		start := time.Now()
		q.Add("a")
		for range 3 {
			p.armed = true
			if got := goes(func() { q.Get() }); got != "latency" {
				t.Fatalf("Get: got %v, want a panic", got)
			}
		}
		q.Done(first(q.Get()))
		q.Add("a")
		if due := q.Snapshot(1).Waiting[0].Due.Sub(start); due != 3*time.Second {
			t.Errorf("the next token is there after %v, want 3s", due)
		}
	})
}

// panicsOnce is a provider whose latency panics once, if it is armed.
type panicsOnce struct {
	workqueue.NoMetrics
	armed bool
	after func() // called once, if not nil
}

func (p *panicsOnce) NewLatencyMetric(string) workqueue.HistogramMetric { return p }

func (p *panicsOnce) Observe(float64) {
	if after := p.after; after != nil {
		p.after = nil
		after()
	}
	if p.armed {
		p.armed = false
		panic("latency")
	}
}

func TestRatesAtTheEndsOfTheirRange(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		rate  workqueue.Rate
		waits bool
	}{
		"none":                             {workqueue.Rate{}, false},
		"endless":                          {workqueue.Rate{Limit: rate.Inf}, false},
		"endless, with a burst":            {workqueue.Rate{Limit: rate.Inf, Burst: 2}, false},
		"more than a nanosecond can tell":  {workqueue.Rate{Limit: 1e30}, false},
		"once in longer than a clock runs": {workqueue.Rate{Limit: 1e-300}, true},
		"hardly any, two at first":         {workqueue.Rate{Limit: 1e-300, Burst: 2}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newPaced(row.rate)
			defer q.ShutDown()
			taken := q.AddAll("a")
			q.Reschedule("a", 0)
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			s := q.Snapshot(1)
			if taken != 1 || (s.WaitingTotal == 1) != row.waits || s.QueuedTotal+s.WaitingTotal != 1 || !q.Remove("a") {
				t.Errorf("%s: %d taken, got %v", name, taken, s)
			}
			checkInvariants(t, 0, q.Delaying())
		})
	}
}

func TestRatesWithoutAMeaningPanic(t *testing.T) {
	for want, r := range map[string]workqueue.Rate{
		"workqueue: limit -1 is not a number of at least 0":         {Limit: -1},
		"workqueue: limit NaN is not a number of at least 0":        {Limit: rate.Limit(math.NaN())},
		"workqueue: burst -1 is negative":                           {Limit: 1, Burst: -1},
		"workqueue: a Rate with a burst of 2 needs a Limit above 0": {Burst: 2},
	} {
		wantPanic(t, want, func() { newPaced(r) })
	}
}

// Nobody can tell such an item from the next one: each has all its tokens.
func TestItemPaceOfItemsThatDifferFromThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[float64]{ItemPace: everyThree})
		defer q.ShutDown()
		start := time.Now()
		for range 3 {
			q.Add(math.NaN())
		}
		q.AddAfter(math.NaN(), 5*time.Second)
		checkInvariants(t, 0, q)
		for i := range 4 {
			item, _ := q.Get()
			q.Done(item)
			if want := []time.Duration{0, 0, 0, 5}[i] * time.Second; time.Since(start) != want {
				t.Errorf("item %d came after %v, want %v", i, time.Since(start), want)
			}
		}
		if n := q.Paced(); n != 0 {
			t.Errorf("%d buckets are kept", n)
		}
	})
}

// The clock of the queue measures the time until the next token, also if it is set back.
func TestItemPaceOnAnInjectedClock(t *testing.T) {
	for name, row := range map[string]struct {
		steps []time.Duration
		want  string
	}{
		"in one step":     {[]time.Duration{3 * time.Second}, "1"},
		"just not":        {[]time.Duration{3*time.Second - 1, 1}, "01"},
		"by a leap":       {[]time.Duration{time.Hour}, "1"},
		"back and forth":  {[]time.Duration{2 * time.Second, -time.Second, time.Second, time.Second}, "0001"},
		"before the past": {[]time.Duration{-time.Hour, time.Hour, 3 * time.Second}, "001"},
	} {
		for adds := range 2 {
			synctest.Test(t, func(t *testing.T) {
				clock := testingclock.NewFakeClock(epoch)
				q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock, ItemPace: everyThree})
				defer q.ShutDown()
				handOut(q, "a")
				q.Add("a")
				got := ""
				for i, d := range row.steps {
					synctest.Wait()
					clock.SetTime(clock.Now().Add(d))
					if synctest.Wait(); adds > 0 {
						q.Add("a")
					}
					checkInvariants(t, i, q)
					got += fmt.Sprint(q.Len())
				}
				if got != row.want {
					t.Errorf("%s, %d adds after each step: queued after the steps: %s, want %s", name, adds, got, row.want)
				}
			})
		}
	}
}

// Of many items that were handed out, only those without all their tokens take memory.
func TestItemPaceReturnsItsMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{ItemPace: workqueue.Rate{Limit: 10, Burst: 2}})
		defer q.ShutDown()
		most := 0
		for item := range rounds(100_000) { // All tokens are there after 100 ms: up to 110 items miss some.
			q.Add(item)
			q.Done(first(q.Get()))
			if item%10 == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			most = max(most, q.Paced())
		}
		if most > 330 {
			t.Errorf("%d buckets at a time", most)
		}
		checkInvariants(t, 0, q)
	})
}

// The firm waits of the rest stay when the memory of others is given back, and an item that gets the
// place of another does not wait firmly.
func TestFirmWaitsOutliveABurst(t *testing.T) {
	t.Parallel()
	for _, oneEntry := range []bool{false, true} {
		const many, each = 4000, 100
		clock := testingclock.NewFakeClock(epoch)
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Clock: clock, OneEntry: oneEntry})
		for item := range many {
			q.AddWith(workqueue.AddOptions{After: time.Hour, Firm: item%2 == 0, Priority: prio(item)}, item)
		}
		for item := range many {
			if item%each > 5 {
				q.Remove(item)
			}
		}
		for item := range many / each {
			q.AddAfter(-item-1, time.Hour) // In the place of an item that was removed, and not firm.
		}
		checkInvariants(t, 0, q)
		for item := -many / each; item < many; item++ {
			q.AddAfter(item, time.Second)
		}
		checkInvariants(t, 1, q)
		for _, info := range q.Snapshot(2 * many).Waiting {
			want, priority := time.Second, 0
			if info.Item >= 0 && info.Item%each <= 5 {
				priority = info.Item
				if info.Item%2 == 0 {
					want = time.Hour
				}
			}
			if got := info.Due.Sub(epoch); got != want || info.Firm != (want == time.Hour) || info.Priority != priority {
				t.Fatalf("OneEntry %v: item %d is due at %v, firm %v, with priority %d, want %v, %d", oneEntry, info.Item, got, info.Firm, info.Priority, want, priority)
			}
		}
		q.ShutDown()
	}
}

// A Wake stands until the end of the hand-out in which it came, and not longer.
func TestWakeOfAnUndoneHandOutIsOver(t *testing.T) {
	for _, ends := range []string{"Done", "undone"} {
		p := &panicsOnce{}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: p})
		q.Add("a")
		p.after = func() { q.Wake("a") }
		if ends == "undone" {
			p.after = func() { q.Wake("a"); panic("latency") }
		}
		goes(func() { q.Done(first(q.Get())) })
		if ends == "undone" {
			q.Get()
		} else {
			q.Add("a")
			q.Get()
		}
		q.AddWith(workqueue.AddOptions{After: time.Hour, Firm: true}, "a")
		if info, _ := q.Find("a"); info.State != workqueue.ItemInFlight || !info.Firm {
			t.Errorf("%s: the item is %v, firm %v, want a firm wait", ends, info.State, info.Firm)
		}
		checkInvariants(t, 0, q)
		q.ShutDown()
	}
}

// A Wake moves an item from the layer that a RemoveFunc has not walked to the layer that it has walked.
func TestRemoveFuncFindsWhatIsWoken(t *testing.T) {
	for _, firm := range []bool{false, true} {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
		const many = 1000
		for item := range many {
			q.AddWith(workqueue.AddOptions{After: time.Hour, Firm: firm}, item)
		}
		last := -1
		removed := q.RemoveFunc(func(item int) bool {
			if item != last { // The item behind in the same piece, or of a later piece.
				last = item
				q.Wake((item + many/2) % many)
			}
			return true
		})
		if s := q.Snapshot(0); removed != many || s.QueuedTotal+s.WaitingTotal != 0 {
			t.Errorf("firm %v: removed %d of %d, left %v", firm, removed, many, s)
		}
		checkInvariants(t, 0, q)
		q.ShutDown()
	}
}

// Above a queue of another make nothing can keep an item from being added.
func TestFirmNeedsATyped(t *testing.T) {
	foreign := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: bare{workqueue.NewTyped[string]()}})
	defer foreign.ShutDown()
	q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: foreign})
	bareBelow := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: bareDelaying{foreign}})
	for name, call := range map[string]func(){
		"delaying":              func() { foreign.AddWith(workqueue.AddOptions{After: time.Second, Firm: true}, "a") },
		"rate limiting":         func() { q.AddWith(workqueue.AddOptions{After: time.Second, Firm: true}, "a") },
		"with the limiter":      func() { q.AddWith(workqueue.AddOptions{RateLimited: true, Firm: true}, "a") },
		"above a bare delaying": func() { bareBelow.AddWith(workqueue.AddOptions{RateLimited: true, Firm: true}, "a") },
	} {
		if got := fmt.Sprint(goes(call)); !strings.Contains(got, "workqueue: ") {
			t.Errorf("%s: got %q, want a panic that names the queue", name, got)
		}
	}
	if n := foreign.Waiting(); n != 0 {
		t.Errorf("%d items wait", n)
	}
}

// Real time, real goroutines: producers with all calls, workers that defer their items, and Wakes. No item
// is handed out before its firm wait is over, unless a Wake has ended the wait.
func TestNoItemComesBeforeItsFirmWait(t *testing.T) {
	t.Parallel()
	for _, oneEntry := range []bool{false, true} {
		q := workqueue.NewTypedRateLimiting(limiterOf(func(int) time.Duration { return 2 * time.Millisecond }), workqueue.TypedRateLimitingQueueConfig[int]{OneEntry: oneEntry})
		const items = 8
		var floors [items]atomic.Int64 // the end of the last firm wait, at the earliest
		start := time.Now()
		var early atomic.Int64
		var workers, producers sync.WaitGroup
		for range 3 {
			workers.Go(func() {
				for item, shutdown := q.Get(); !shutdown; item, shutdown = q.Get() {
					if now := int64(time.Since(start)); floors[item].Load() > now {
						early.Add(1)
					}
					const wait = 3 * time.Millisecond
					if item%2 == 0 { // Nobody wakes these items.
						floors[item].Store(int64(time.Since(start) + wait))
					}
					if q.AddWith(workqueue.AddOptions{After: wait, Firm: true}, item) == 0 {
						floors[item].Store(0) // Shut down: Done queues an item that was added before.
					}
					q.Done(item)
				}
			})
		}
		for p := range 4 {
			producers.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(p), 1))
				for range rounds(3000) {
					item := rnd.IntN(items)
					switch rnd.IntN(6) {
					case 0:
						q.AddAfter(item, time.Duration(rnd.IntN(1000))*time.Microsecond)
					case 1:
						q.AddRateLimited(item)
					case 2:
						q.Debounce(item, time.Microsecond, time.Millisecond)
					case 3:
						q.Wake(item | 1)
					default:
						q.Add(item)
					}
				}
			})
		}
		producers.Wait()
		q.ShutDown()
		workers.Wait()
		checkInvariants(t, 0, q.Delaying())
		if n := early.Load(); n > 0 {
			t.Errorf("OneEntry %v: %d items came before their time", oneEntry, n)
		}
	}
}

// A limiterOf is a limiter of one formula.
type limiterOf func(item int) time.Duration

func (l limiterOf) When(item int) time.Duration { return l(item) }
func (limiterOf) Forget(int)                    {}
func (limiterOf) NumRequeues(int) int           { return 0 }

// The interrupted and the cancelled handlers of a paced queue: Run gives the item back at once,
// with the hand-out that it had, and what was added meanwhile is not lost.
func TestRunOnAPacedQueue(t *testing.T) {
	for name, tt := range map[string]struct {
		options runOptions
		end     time.Duration // of the first Run
		add     time.Duration
		want    string
	}{
		// The re-add begins to wait at 1 s. It cuts the handler short when its token is there.
		"cancel on re-add": {runOptions{CancelOnReAdd: 3}, time.Hour, time.Second, "0s, 3s"},
		"interrupted":      {runOptions{AtEnd: workqueue.EndKeep}, 2 * time.Second, time.Hour, "0s, 2s"},
		// The wait of the re-add ends: the next hand-out is for both.
		"interrupted, added again": {runOptions{AtEnd: workqueue.EndKeep}, 2 * time.Second, time.Second, "0s, 2s"},
		"interrupted when due":     {runOptions{AtEnd: workqueue.EndKeep, CancelOnReAdd: 3}, 3*time.Second - 1, time.Second, "0s, 2.999999999s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newPaced(everyThree)
			time.Sleep(time.Minute)
			q.Add("a")
			start := time.Now()
			var calls []string
			handle := func(ctx context.Context, _ string) error {
				if calls = append(calls, time.Since(start).String()); len(calls) == 1 {
					<-ctx.Done()
				}
				return ctx.Err()
			}
			ctx, cancel := context.WithTimeout(t.Context(), tt.end)
			tt.options.Logger = discard()
			time.AfterFunc(tt.add, func() { q.Add("a") })
			go func() {
				workqueue.Run(ctx, q, handle, tt.options)
				workqueue.Run(t.Context(), q, handle, tt.options)
			}()
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := strings.Join(calls, ", "); got != tt.want {
				t.Errorf("%s: the handler was called at %s, want %s", name, got, tt.want)
			}
			cancel()
			q.ShutDown()
			synctest.Wait()
		})
	}
}

// With StrictBackoff a retry is an add that keeps a firm wait, also if the limiter has a token for it.
func TestStrictBackoffWithoutAWaitLeavesAFirmWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := &workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(10, 100)}
		q := workqueue.NewTypedRateLimiting[string](limiter, workqueue.TypedRateLimitingQueueConfig[string]{StrictBackoff: true})
		defer q.ShutDown()
		q.AddWith(workqueue.AddOptions{After: time.Hour, Firm: true}, "a")
		q.AddRateLimited("a")
		if info, _ := q.Find("a"); info.State != workqueue.ItemWaiting || !info.Firm {
			t.Errorf("got %+v, want a firm wait", info)
		}
		q.AddWith(workqueue.AddOptions{Firm: true}, "a") // An end of the wait, with StrictBackoff too.
		if info, _ := q.Find("a"); info.State != workqueue.ItemQueued {
			t.Errorf("got %+v, want a queued item", info)
		}
	})
}

func TestDebounceKeepsThePriorityOfAFirmWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
		defer q.ShutDown()
		low := -5
		q.AddWith(workqueue.AddOptions{After: time.Hour, Firm: true, Priority: &low}, "a")
		q.Debounce("a", 0, 0)
		if info, _ := q.Find("a"); info.State != workqueue.ItemWaiting || info.Priority != low {
			t.Errorf("got %+v, want a wait with priority %d", info, low)
		}
	})
}

// Beside a DelayingQueue and above a foreign Queue the options could have no effect.
func TestPaceOptionsNeedAQueueOfOurs(t *testing.T) {
	foreign := bare{workqueue.NewTyped[string]()}
	delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
	defer delaying.ShutDown()
	for option, config := range map[string]workqueue.TypedRateLimitingQueueConfig[string]{
		"ItemPace": {ItemPace: everyThree}, "StrictBackoff": {StrictBackoff: true},
	} {
		config.DelayingQueue = delaying
		beside := fmt.Sprint(goes(func() { workqueue.NewTypedRateLimiting(constant(0), config) }))
		if !strings.Contains(beside, "DelayingQueue") || !strings.Contains(beside, option) {
			t.Errorf("%s beside a DelayingQueue: got %q", option, beside)
		}
		config.DelayingQueue, config.Queue = nil, foreign
		above := fmt.Sprint(goes(func() { workqueue.NewTypedRateLimiting(constant(0), config) }))
		if !strings.Contains(above, option) {
			t.Errorf("%s above a foreign queue: got %q", option, above)
		}
	}
	above := fmt.Sprint(goes(func() {
		workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: foreign, ItemPace: everyThree})
	}))
	if !strings.Contains(above, "ItemPace") {
		t.Errorf("ItemPace above a foreign queue: got %q", above)
	}
}

// The groups of waiting items stay when the memory of others is given back.
func TestGroupsOfWaitsOutliveABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
			Order: workqueue.Order[int]{
				Group: func(item int) string {
					if item < 4990 {
						return "gone"
					}
					return fmt.Sprint(item % 2)
				},
				MaxInFlight: func(group string) int { return 1 },
			},
		})
		defer q.ShutDown()
		for i := range 5000 {
			q.AddAfter(i, time.Minute)
		}
		q.RemoveFunc(func(item int) bool { return item < 4990 })
		checkInvariants(t, 0, q)
		time.Sleep(time.Hour)
		synctest.Wait()
		var got []int
		for item, ok := q.TryGet(); ok; item, ok = q.TryGet() {
			got = append(got, item)
		}
		if fmt.Sprint(got) != "[4990 4991]" || q.Len() != 8 {
			t.Errorf("handed out %v, %d queued: each of two groups may have one item in flight", got, q.Len())
		}
	})
}
