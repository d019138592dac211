package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// The runtime's panic about a value that cannot be hashed reaches the caller,
// of the delayed calls too, and leaves the queue as it was.
func TestItemThatCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fifo := workqueue.NewTyped[any]()
		delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[any]{Queue: fifo})
		q := workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemFastSlowRateLimiter[any](time.Second, time.Second, 1),
			workqueue.TypedRateLimitingQueueConfig[any]{DelayingQueue: delaying})
		q.Add("held")
		q.Get()
		q.Add("queued")
		for _, bad := range []any{[]int{1}, map[int]int{}, func() {}, struct{ s any }{[]int{}}} {
			for name, f := range map[string]func(){
				"Add":            func() { q.Add(bad) },
				"AddAll":         func() { fifo.AddAll("x", bad, "y") },
				"AddAfter":       func() { q.AddAfter(bad, time.Second) },
				"AddAfter 0":     func() { q.AddAfter(bad, 0) },
				"AddRateLimited": func() { q.AddRateLimited(bad) },
				"Done":           func() { q.Done(bad) },
				"Forget":         func() { q.Forget(bad) },
				"NumRequeues":    func() { q.NumRequeues(bad) },
			} {
				var err runtime.Error
				if r, _ := goes(f).(error); !errors.As(r, &err) || !strings.Contains(err.Error(), "hash") {
					t.Errorf("%s of %T: got the panic %v, want the runtime's", name, bad, r)
				}
				if fifo.Len() != 1 || fifo.Held() != 1 || delaying.Waiting() != 0 {
					t.Fatalf("%s of %T: %d items are queued, %d held, %d wait, want 1, 1, 0",
						name, bad, fifo.Len(), fifo.Held(), delaying.Waiting())
				}
				checkInvariants(t, 0, delaying)
			}
		}
		q.AddAfter("late", time.Second)
		q.Done("held")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := fmt.Sprint(takeAllOf(q)); got != "[queued late]" {
			t.Errorf("got %s, want [queued late]", got)
		}
		q.ShutDownWithDrain()
	})
}

const noQueueLimiter = "workqueue: the rate limiter of TypedRateLimiting is nil: give one to its constructor"

func newLimited(l workqueue.TypedRateLimiter[string]) *workqueue.TypedRateLimiting[string] {
	return workqueue.NewTypedRateLimiting(l, workqueue.TypedRateLimitingQueueConfig[string]{})
}

// There are programs that make a queue with a nil limiter and never use it:
// client-go accepts it, and controller-runtime's own tests do it. What does not
// need the limiter works, what does says that there is none.
func TestNilLimiterIsNeededWhereItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLimited(nil)
		q.AddAll("a", "b")
		item, _ := q.Get()
		q.AddAfter("c", time.Second)
		for name, f := range map[string]func(){
			"AddRateLimited": func() { q.AddRateLimited("d") },
			"Forget":         func() { q.Forget("a") },
			"NumRequeues":    func() { q.NumRequeues("a") },
		} {
			if got := goes(f); got != noQueueLimiter {
				t.Errorf("%s: got the panic %v, want %s", name, got, noQueueLimiter)
			}
		}
		if s := q.Snapshot(9); s.QueuedTotal != 1 || s.InFlightTotal != 1 || s.WaitingTotal != 1 || s.InFlight[0].Failures != 0 {
			t.Errorf("got %v, want one in each state, without failures", s)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		var left *workqueue.DrainError[string]
		if err := q.Drain(ended); !errors.As(err, &left) || left.Queued[0].Item != "b" {
			t.Errorf("Drain: got %v, want an error that names b", err)
		}
		q.Done(item)
		q.ShutDown()
	})
}

func TestUseAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTyped[string]()
		d := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: q})
		d.ShutDown()
		d.Add("a")
		d.AddAfter("a", 0)
		d.AddAfter("a", time.Second)
		q.AddAll("a", "b")
		d.Done("a")
		if _, err := q.GetContext(t.Context()); err != workqueue.ErrShutDown {
			t.Errorf("GetContext: got %v, want %v", err, workqueue.ErrShutDown)
		}
		if item, shutdown := d.Get(); item != "" || !shutdown {
			t.Errorf("Get: got %q, %v, want no item, true", item, shutdown)
		}
		if d.Len() != 0 || d.Waiting() != 0 || goroutines() != 0 {
			t.Errorf("%d items are queued, %d wait, %d goroutines run", d.Len(), d.Waiting(), goroutines())
		}
	})
}

// An item that differs from itself is handed out once for each Add and never
// tracked, so that a drain does not wait for a Done that cannot come.
func TestNaN(t *testing.T) {
	nan := math.NaN()
	for name, config := range map[string]workqueue.TypedQueueConfig[float64]{
		"plain":   {},
		"metrics": {Name: "q", MetricsProvider: &recorder{discard: true}, Clock: testingclock.NewFakeClock(epoch)},
		"storage": {Queue: workqueue.DefaultQueue[float64]()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := workqueue.NewTypedWithConfig(config)
				q.AddAll(nan, 1, nan, 1, nan)
				checkInvariants(t, 0, q)
				if n := q.Len(); n != 4 {
					t.Fatalf("%d items are queued, want 4", n)
				}
				for i, want := range []float64{nan, 1, nan} {
					got, _ := q.Get()
					if got != want && !math.IsNaN(want) || math.IsNaN(got) != math.IsNaN(want) {
						t.Errorf("step %d: got %v, want %v", i, got, want)
					}
					q.Done(got)
					checkInvariants(t, i, q)
				}
				go q.ShutDownWithDrain()
				synctest.Wait()
				q.Get() // The last one; the drain ends with it and the bubble too.
				checkInvariants(t, 4, q)
				if n := q.Held(); n != 0 {
					t.Errorf("%d items are held", n)
				}
			})
		})
	}
}

func TestNaNInItemsOfEveryKind(t *testing.T) {
	nan := math.NaN()
	passTwice(t, float32(nan))
	passTwice(t, complex(nan, 0))
	passTwice(t, complex64(complex(0, nan)))
	passTwice(t, [2]float64{1, nan})
	passTwice(t, any(nan))
	passTwice(t, fmt.Stringer(stringNaN(nan)))
	passTwice(t, struct{ f float64 }{nan})
	passTwice(t, struct {
		name  string
		inner struct{ f float64 }
	}{"a", struct{ f float64 }{nan}})
}

// passTwice adds and gets an item that differs from itself, after which nothing
// is left of it. No Add of it is missed in between, as none is of the same item.
func passTwice[T comparable](t *testing.T, item T) {
	t.Helper()
	q := workqueue.NewTyped[T]()
	q.AddAll(item, item)
	checkInvariants(t, 2, q)
	if n := q.Len(); n != 2 {
		t.Errorf("%T: %d items are queued, want 2", item, n)
	}
	q.Get()
	q.Get()
	checkInvariants(t, 4, q)
	if n := q.Held(); n != 0 {
		t.Errorf("%T: %d items are held, want none", item, n)
	}
	ctx, cancel := q.ReAddContext(t.Context(), item)
	defer cancel()
	if q.Add(item); ctx.Err() != nil {
		t.Errorf("%T: the Add of one that differs is one of the same item", item)
	}
}

type stringNaN float64

func (stringNaN) String() string { return "NaN" }

func TestNaNInAWaitingWorkersHands(t *testing.T) {
	for _, storage := range []workqueue.Queue[any]{nil, workqueue.DefaultQueue[any]()} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[any]{Queue: storage})
			got := make(chan any, 2)
			for range 2 {
				go func() {
					item, _ := q.Get()
					got <- item
				}()
			}
			synctest.Wait()
			q.Add(struct{ key any }{math.NaN()})
			q.Add(struct{ key any }{math.NaN()})
			synctest.Wait()
			if n := len(got); n != 2 {
				t.Errorf("storage %v: %d workers got an item, want 2", storage != nil, n)
			}
			q.ShutDownWithDrain()
		})
	}
}

func TestNaNDelayedAndLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nan := math.NaN()
		q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[float64](time.Second, time.Hour),
			workqueue.TypedRateLimitingQueueConfig[float64]{})
		start := time.Now()
		q.AddAfter(nan, 3*time.Second)
		q.AddAfter(nan, 2*time.Second)
		q.AddRateLimited(nan)
		q.AddRateLimited(nan)
		for i, want := range []time.Duration{1, 1, 2, 3} {
			got, _ := q.Get()
			if at := time.Since(start); at != want*time.Second || !math.IsNaN(got) {
				t.Errorf("item %d: got %v after %v, want NaN after %v", i, got, at, want*time.Second)
			}
			q.Done(got)
		}
		if n := q.NumRequeues(nan); n != 0 {
			t.Errorf("got %d requeues, want 0", n)
		}
		q.Forget(nan)
		q.ShutDownWithDrain()
	})
}

// Zeros of both signs are one item, as they are one key of a map.
func TestNegativeZero(t *testing.T) {
	q := workqueue.NewTyped[float64]()
	q.AddAll(0, math.Copysign(0, -1))
	if n := q.Len(); n != 1 {
		t.Errorf("%d items are queued, want 1", n)
	}
	item, _ := q.Get()
	q.Done(-item)
	q.ShutDownWithDrain()
}

// A million Adds of a few items, from 64 goroutines.
func TestDuplicatesFromManyGoroutines(t *testing.T) {
	t.Parallel()
	adds := million / 64
	if raceEnabled || testing.Short() {
		adds /= 10
	}
	q := workqueue.NewTyped[int]()
	var adding sync.WaitGroup
	for g := range 64 {
		adding.Go(func() {
			for i := range adds {
				q.Add((g + i) % 10)
			}
		})
	}
	adding.Wait()
	got := takeAll(q)
	slices.Sort(got)
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	checkInvariants(t, 0, q)
}

// Items of a megabyte, compared by their contents.
func TestLargeItems(t *testing.T) {
	t.Parallel()
	q := workqueue.NewTyped[string]()
	for i := range 20 {
		q.Add(strings.Repeat("x", 1<<20) + fmt.Sprint(i%10))
	}
	if n := len(takeAll(q)); n != 10 {
		t.Errorf("got %d items, want 10", n)
	}
}
