package workqueue_test

import (
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

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

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

// AddAfter at the instant of the shutdown, from many goroutines: nobody stays
// behind, and nothing waits in a closed queue.
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

// One that has seen no shutdown yet, and is overtaken by it before the item
// waits, starts no goroutine: the shutdown would not wait for that.
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

// What is due is added 32 at a time, and others get at the queues in between.
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

func TestRetriesMetric(t *testing.T) {
	r := &recorder{}
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: r})
	q.AddAfter("a", time.Hour)
	q.AddAfter("a", time.Hour)
	q.AddAfter("b", 0)
	q.AddAfter("b", math.MinInt64)
	q.ShutDown()
	q.AddAfter("c", time.Hour)
	if got, want := fmt.Sprint(r.take()), "[retries+1 retries+1 retries+1 adds+1 depth+1 retries+1]"; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The metric has the last word only on itself: the item waits, or is queued.
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

// Where the goroutine does not notice that items are due, whoever comes by adds
// them, or makes it look where it alone may add.
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

// Who has woken a worker for what is due yields the processor, and so do others
// until it is there: it could have to wait for theirs. So does who leaves the
// adding to the goroutine. A goroutine that is yielded to may have to wait all
// the same, now and then, hence the rounds.
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

// yields returns 1 if AddAfter lets another goroutine run before it returns,
// and 0 if not.
func yields(q *workqueue.TypedDelaying[string], item string) (n int) {
	var ran atomic.Bool
	go ran.Store(true)
	q.AddAfter(item, time.Hour)
	if ran.Load() {
		n = 1
	}
	return n
}

// The other order of TestAddOfAWaitingItem_kubernetes110642: what is queued does not
// begin to wait.
func TestAddAfterOfAQueuedItemHandsItOutOnce(t *testing.T) {
	for oneEntry, want := range map[bool]int{false: 2, true: 1} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{OneEntry: oneEntry})
			defer q.ShutDown()
			q.Add("a")
			q.AddRateLimited("a")
			if n := handOuts(q, 2*time.Second); n != want {
				t.Errorf("OneEntry %v: handed out %d times, want %d", oneEntry, n, want)
			}
		})
	}
}

// handOuts takes and finishes items, twice, and returns how many there were.
func handOuts(q *workqueue.TypedRateLimiting[string], pause time.Duration) (n int) {
	for range 2 {
		if item, ok := q.TryGet(); ok {
			q.Done(item)
			n++
		}
		time.Sleep(pause)
		synctest.Wait()
	}
	return n
}

// A retry that a handler asks for while it holds the item must not get lost.
func TestOneEntryKeepsTheRetryOfWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{OneEntry: true})
		defer q.ShutDown()
		q.Add("a")
		q.Get()
		q.AddRateLimited("a")
		q.Done("a")
		if s := q.Snapshot(9); names(s.Waiting) != "a" || s.QueuedTotal != 0 {
			t.Errorf("got %v", s)
		}
	})
}

// Adds and plans of a few items from all sides, with a line and with a storage: no
// item is ever in both places, and what is planned comes.
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

// Another queue below cannot say whether an item is queued. A type around a Typed may
// have an Add of its own.
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

// What the layers below can be told can be told to a rate limiting queue.
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

// The crashes of TestPanicOnTheGoroutineOfADelayingQueue_D12 are logged by a Logger that
// has come the same way.
func TestRateLimitingQueuePassesOnItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recordingBelow{TypedInterface: workqueue.NewTyped[string]()}
		q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{Queue: r})
		defer q.ShutDown()
		q.Add("a")
		if len(r.added) != 1 {
			t.Errorf("the queue below got %q, want a", r.added)
		}
	})
}

type recordingBelow struct {
	workqueue.TypedInterface[string]
	added []string
}

func (r *recordingBelow) Add(item string) {
	r.added = append(r.added, item)
	r.TypedInterface.Add(item)
}

// With OneEntry, a worker that is parked comes for what is added, as without.
func TestOneEntryWakesAWorker(t *testing.T) {
	for name, add := range map[string]func(q *workqueue.TypedDelaying[string]){
		"Add":        func(q *workqueue.TypedDelaying[string]) { q.Add("a") },
		"AddAll":     func(q *workqueue.TypedDelaying[string]) { q.AddAll("a") },
		"AddAfter":   func(q *workqueue.TypedDelaying[string]) { q.AddAfter("a", 0) },
		"Reschedule": func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", 0) },
		"Debounce":   func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 0, 0) },
	} {
		for _, waits := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{OneEntry: true})
				if waits {
					q.AddAfter("a", time.Hour)
				}
				got := ""
				go func() { got, _ = q.Get() }()
				synctest.Wait()
				add(q)
				synctest.Wait()
				if got != "a" {
					t.Errorf("%s, while it waits %v: the worker has got %q", name, waits, got)
				}
				q.ShutDown()
			})
		}
	}
}

// With OneEntry a delayed add of an item that is queued, or will be by its Done, does
// not make it wait. Its priority counts all the same: a retry that somebody asked for
// urgently must not stand behind the initial list.
func TestDelayedAddRaisesTheOneEntry(t *testing.T) {
	calls := map[string]struct {
		call func(q *workqueue.TypedDelaying[string])
		want int
	}{
		"AddWith 5": {func(q *workqueue.TypedDelaying[string]) {
			q.AddWith(workqueue.AddOptions{After: time.Hour, Priority: prio(5)}, "a")
		}, 5},
		"AddWith -200": {func(q *workqueue.TypedDelaying[string]) {
			q.AddWith(workqueue.AddOptions{After: time.Hour, Priority: prio(-200)}, "a")
		}, -100},
		"AddAfter": {func(q *workqueue.TypedDelaying[string]) { q.AddAfter("a", time.Hour) }, 0},
		"Debounce": {func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", time.Hour, 0) }, 0},
	}
	orders := map[string]func() workqueue.Order[string]{
		"levels": func() workqueue.Order[string] { return workqueue.Order[string]{} },
	}
	for order, open := range orders {
		for name, c := range calls {
			for _, held := range []bool{false, true} {
				t.Run(fmt.Sprint(order, "/", name, "/held=", held), func(t *testing.T) {
					q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
						OneEntry: true, Order: open(), Clock: testingclock.NewFakeClock(epoch),
					})
					defer q.ShutDown()
					if held {
						q.Add("a")
						q.Get()
					}
					q.AddWith(workqueue.AddOptions{Priority: prio(-100)}, "a")
					c.call(q)
					if s := q.Snapshot(1); s.WaitingTotal != 0 {
						t.Errorf("it waits: %v", s)
					}
					if held {
						q.Done("a")
					}
					if info, _ := q.GetInfo(t.Context()); info.Priority != c.want {
						t.Errorf("its priority is %d, want %d", info.Priority, c.want)
					}
				})
			}
		}
	}
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
			q.Debounce("a", 3*time.Second, 3*time.Second)
			time.Sleep(2 * time.Second)
			q.Debounce("a", 3*time.Second, 3*time.Second)
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
			q.Debounce("b", time.Nanosecond, time.Nanosecond) // That is one.
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

// Of is asked when an item begins to wait, by the caller, whom a panic reaches with
// nothing changed. So what is due later calls no foreign code with the locks held.
func TestOfIsAskedWhenAnItemBeginsToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := testingclock.NewFakeClock(epoch)
		asked, failing := 0, false
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
			Clock: clock,
			Order: workqueue.Order[int]{Priority: func(item int) int {
				if asked++; failing {
					panic("of")
				}
				return item
			}},
		})
		defer q.ShutDown()
		q.AddAfter(1, time.Second)
		q.Debounce(2, time.Second, time.Hour)
		q.Reschedule(3, time.Second)
		failing = true
		for name, f := range map[string]func(){
			"AddAfter":   func() { q.AddAfter(4, time.Second) },
			"Debounce":   func() { q.Debounce(5, time.Second, 0) },
			"Reschedule": func() { q.Reschedule(6, time.Second) },
		} {
			if got := goes(f); got != "of" {
				t.Errorf("%s: got the panic %v, want that of Of", name, got)
			}
		}
		synctest.Wait()
		clock.Step(time.Second)
		synctest.Wait()
		if got := takeAllOf(q); !slices.Equal(got, []int{3, 2, 1}) || asked != 6 {
			t.Errorf("got %v, asked %d times, want 3, 2, 1 and 6", got, asked)
		}
	})
}

// Of the priorities of a wait and of the add that ends it the higher one counts, also below
// 0, which a plain Add has. A call that moves the wait names none.
func TestPriorityOfAWaitBelowZero(t *testing.T) {
	for name, tt := range map[string]struct {
		f    func(q *workqueue.TypedDelaying[string])
		want int
	}{
		"Add":                  {func(q *workqueue.TypedDelaying[string]) { q.Add("a") }, 0},
		"AddWith":              {func(q *workqueue.TypedDelaying[string]) { q.AddWith(workqueue.AddOptions{Priority: prio(-6)}, "a") }, -4},
		"AddAfter":             {func(q *workqueue.TypedDelaying[string]) { q.AddAfter("a", 0) }, 0},
		"AddAfter and queued":  {func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", 0); q.AddAfter("a", time.Hour) }, 0},
		"Reschedule":           {func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", 0) }, -4},
		"Debounce":             {func(q *workqueue.TypedDelaying[string]) { q.Debounce("a", 0, 0) }, -4},
		"Reschedule, not due":  {func(q *workqueue.TypedDelaying[string]) { q.Reschedule("a", 1); time.Sleep(time.Nanosecond) }, -4},
		"Reschedule, no entry": {func(q *workqueue.TypedDelaying[string]) { q.Remove("a"); q.Reschedule("a", 0) }, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
				OneEntry: true, Order: workqueue.Order[string]{},
			})
			q.AddWith(workqueue.AddOptions{Priority: prio(-4), After: time.Minute}, "a")
			tt.f(q)
			synctest.Wait()
			if item, priority := getRanked(q); item != "a" || priority != tt.want {
				t.Errorf("%s: got %s with the priority %d, want a with %d", name, item, priority, tt.want)
			}
			q.Done("a")
			q.ShutDown()
		})
	}
}

// Items that wait keep their priorities when the memory of others is given back.
func TestPrioritiesOfWaitsOutliveABurst(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
		Order: workqueue.Order[int]{},
	})
	defer q.ShutDown()
	const many, each = 4000, 100
	for item := range many {
		q.AddWith(workqueue.AddOptions{After: time.Hour, Priority: prio(1 + item/each)}, item)
	}
	for item := range many {
		if item%each != 0 {
			q.Remove(item)
		}
	}
	s := q.Snapshot(many)
	if s.WaitingTotal != many/each {
		t.Errorf("%d items wait, want %d", s.WaitingTotal, many/each)
	}
	for _, info := range s.Waiting {
		if want := 1 + info.Item/each; info.Priority != want {
			t.Errorf("%d waits with the priority %d, want %d", info.Item, info.Priority, want)
		}
	}
}

// The priority of one item that waits is not that of others, however many there are before
// it, and whatever comes in the place of one of them.
func TestOneItemOfManyThatWaitHasAPriority(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
		Order: workqueue.Order[int]{},
	})
	defer q.ShutDown()
	const many = 200
	for item := range many {
		q.AddAfter(item, time.Hour)
	}
	q.AddWith(workqueue.AddOptions{After: time.Hour, Priority: prio(7)}, many)
	q.Remove(0)
	q.AddAfter(0, time.Hour)
	for _, info := range q.Snapshot(many + 1).Waiting {
		if want := info.Item / many * 7; info.Priority != want {
			t.Errorf("%d waits with the priority %d, want %d", info.Item, info.Priority, want)
		}
	}
}
