package workqueue_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
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
			if reads != 1 || q.Waiting() != 0 {
				t.Errorf("%s: the clock was read %d times, %d items wait, want 1 and 0", name, reads, q.Waiting())
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

// An order of another make is left to the goroutine, also where OneEntry has it called
// with the lock held: if it fails, that is no failure of whoever comes by.
func TestOrderThatFailsForWhatIsDueFailsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf[string]{}
		clock := &leapingClock{FakeClock: testingclock.NewFakeClock(epoch)}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{OneEntry: true, Clock: clock, Order: s})
		defer q.ShutDown()
		q.AddAfter("a", time.Minute)
		synctest.Wait()
		clock.leap = time.Minute
		failures := failOnce(s, "push", runtime.Goexit)
		returned := false
		goes(func() {
			q.AddAfter("b", time.Hour)
			returned = true
		})
		synctest.Wait()
		if !returned || *failures != 1 || q.Len() != 1 || q.Waiting() != 1 {
			t.Errorf("AddAfter has returned: %v, with %d failures, %d items queued and %d waiting, want 1 each",
				returned, *failures, q.Len(), q.Waiting())
		}
	})
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
