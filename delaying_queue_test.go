package workqueue_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

func TestDelaysThatNeverEnd(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]step{
		"the end of time": {
			{"after 2562047h47m16.854775807s a", ""}, {"after 1s b", ""}, {"sleep 1s", ""}, {"get", "b"},
			{"after 2s a", ""}, {"sleep 2s", ""}, {"get", "a"}, {"after 2562047h47m16.854775807s b", ""}, {"sleep 100h", ""}, {"len", "0"},
		},
		"for ever, and ever": {
			{"sleep 1000000h", ""}, {"after 2562047h47m16.854775807s a", ""}, {"sleep 1h", ""}, {"len", "0"},
		},
	} {
		t.Run(name, func(t *testing.T) { timeline(t, newDelaying, steps...) })
	}
}

func TestGoroutinesOfADelayingQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := make([]*workqueue.TypedDelaying[int], 200)
		for i := range queues {
			queues[i] = workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Name: "q", MetricsProvider: &recorder{}})
		}
		check := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if n := goroutines(); n != want {
				t.Errorf("%s: %d goroutines, want %d", when, n, want)
			}
		}
		check("at rest", 0)
		for round := range 2 {
			for _, q := range queues {
				q.AddAfter(1, time.Second)
				q.AddAfter(2, 2*time.Second)
			}
			check("while something waits", len(queues))
			time.Sleep(time.Second)
			check("while something waits still", len(queues))
			time.Sleep(time.Second)
			check(fmt.Sprint("at rest again ", round), 0)
		}
		for i, q := range queues {
			q.AddAfter(3, time.Hour)
			if i%2 == 0 {
				takeAllOf(q)
			}
		}
		for i, q := range queues {
			if i%2 == 0 {
				q.ShutDownWithDrain()
			} else {
				q.ShutDown()
			}
		}
		check("at the moment of the shutdown", 0)
	})
}

func takeAllOf[T comparable](q workqueue.TypedInterface[T]) (items []T) {
	for q.Len() > 0 {
		item, _ := q.Get()
		items = append(items, item)
		q.Done(item)
	}
	return items
}

// A token that comes while the goroutine does not listen is not lost.
func TestEarlierItemWhileTheTimerIsArmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newHookedClock()
		q := newClocked(clock)
		clock.onArmed = func() {
			clock.onArmed = nil
			q.AddAfter("early", time.Second)
		}
		q.AddAfter("late", 5*time.Second)
		synctest.Wait()
		if got, want := clock.armed(), []time.Duration{5 * time.Second, time.Second}; !slices.Equal(got, want) {
			t.Errorf("armed %v, want %v", got, want)
		}
		q.ShutDown()
	})
}

// A gate is a queue whose Add calls a hook first.
type gate[T comparable] struct {
	*workqueue.Typed[T]
	hook func(item T)
}

func (g *gate[T]) Add(item T) {
	g.hook(item)
	g.Typed.Add(item)
}

func newGated[T comparable](hook func(item T)) *workqueue.TypedDelaying[T] {
	return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[T]{
		Queue: &gate[T]{workqueue.NewTyped[T](), hook},
	})
}

// All shutdowns wait for a goroutine that is adding due items.
func TestShutDownJoinsTheGoroutine(t *testing.T) {
	for name, shutDown := range map[string]func(q *workqueue.TypedDelaying[int]){
		"ShutDown":          (*workqueue.TypedDelaying[int]).ShutDown,
		"ShutDownWithDrain": (*workqueue.TypedDelaying[int]).ShutDownWithDrain,
		"Drain":             func(q *workqueue.TypedDelaying[int]) { q.Drain(context.Background()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			hold := make(chan struct{})
			q := newGated(func(int) { <-hold })
			q.AddAfter(1, time.Second)
			time.Sleep(time.Second)
			synctest.Wait()
			returned := false
			go func() {
				shutDown(q)
				returned = true
			}()
			synctest.Wait()
			if returned {
				t.Errorf("%s returned beside a goroutine in Add", name)
			}
			close(hold)
			synctest.Wait()
			takeAllOf(q)
			synctest.Wait()
			if !returned || goroutines() != 0 {
				t.Errorf("%s: returned %v, %d goroutines are left", name, returned, goroutines())
			}
		})
	}
}

// A slow queue takes a minute to be shut down.
type slow struct{ bare }

func (s slow) ShutDown() {
	time.Sleep(time.Minute)
	s.bare.ShutDown()
}

func (s slow) ShutDownWithDrain() {
	time.Sleep(time.Minute)
	s.bare.ShutDownWithDrain()
}

// Waiting items are dropped before the queue below hears of the shutdown. No item becomes due while
// that shutdown takes its time.
func TestNothingIsAddedWhileTheQueueBelowIsShutDown(t *testing.T) {
	for name, shutDown := range map[string]func(q *workqueue.TypedDelaying[string]){
		"ShutDown":          (*workqueue.TypedDelaying[string]).ShutDown,
		"ShutDownWithDrain": (*workqueue.TypedDelaying[string]).ShutDownWithDrain,
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: slow{bare{workqueue.NewTyped[string]()}}})
			q.AddAfter("a", time.Second)
			go shutDown(q)
			synctest.Wait()
			q.AddAfter("b", time.Second)
			time.Sleep(time.Hour)
			if q.Len() != 0 || q.Waiting() != 0 {
				t.Errorf("%s: %d items were added, %d wait", name, q.Len(), q.Waiting())
			}
		})
	}
}

// The queue below is called without a lock, and may call back.
func TestQueueBelowThatCallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q *workqueue.TypedDelaying[int]
		q = newGated(func(item int) {
			if item < 10 {
				q.AddAfter(item+1, time.Second)
				q.AddAfter(item, time.Hour)
			}
		})
		q.AddAfter(0, time.Second)
		time.Sleep(12 * time.Second)
		synctest.Wait()
		if got, want := takeAllOf(q), []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if q.Waiting() != 10 {
			t.Errorf("%d items wait, want 10", q.Waiting())
		}
		q.ShutDown()
	})
}

// If somebody shuts the queue below down, the delaying queue cannot add items any more: it drops
// the waiting items and ends its goroutine at the next look.
func TestQueueBelowIsShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := workqueue.NewTyped[string]()
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: below})
		q.AddAfter("a", time.Hour)
		synctest.Wait() // The goroutine sleeps, and does not hear of this:
		below.ShutDown()
		q.AddAfter("b", time.Second)
		q.AddAfter("c", 0)
		q.Reschedule("b", time.Second)
		q.Debounce("b", time.Second, time.Hour)
		if !q.ShuttingDown() || q.Waiting() != 1 {
			t.Errorf("shutting down %v, %d items wait, want true, 1", q.ShuttingDown(), q.Waiting())
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := goroutines(); n != 0 || q.Waiting() != 0 {
			t.Errorf("after a heartbeat %d goroutines are left and %d items wait", n, q.Waiting())
		}
		checkInvariants(t, 0, q)
		q.ShutDown()
		q.ShutDownWithDrain()
	})
}

// A queue below with another clock measures its times by that clock.
func TestQueueBelowHasItsOwnClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, other := testingclock.NewFakeClock(epoch), testingclock.NewFakeClock(epoch)
		below := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{KeepTimes: true, Clock: other})
		other.Step(time.Hour)
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock, Queue: below})
		defer q.ShutDown()
		q.AddAfter("a", time.Second)
		synctest.Wait()
		clock.Step(time.Second)
		synctest.Wait()
		other.Step(time.Minute)
		if got, want := below.Snapshot(9).String(), "1 queued, 0 in flight, 0 waiting\na: queued for 1m0s"; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// A method of a queue below that ends the goroutine keeps no other item from being added, and does
// not end the delays.
func TestQueueBelowThatEndsTheGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newGated(func(item int) {
			if item%10 == 3 {
				runtime.Goexit()
			}
		})
		for i := range 50 {
			q.AddAfter(i, time.Second)
		}
		q.AddAfter(50, 2*time.Second)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		var want []int
		for i := range 51 {
			if i%10 != 3 {
				want = append(want, i)
			}
		}
		if got := takeAllOf(q); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if n := goroutines(); n != 0 {
			t.Errorf("%d goroutines are left", n)
		}
		q.ShutDown()
	})
}

// The same, in the first call of the goroutine.
func TestQueueBelowThatEndsTheGoroutineAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newHookedClock()
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
			Clock: clock,
			Queue: &gate[string]{workqueue.NewTyped[string](), func(item string) {
				if item == "a" {
					runtime.Goexit()
				}
			}},
		})
		clock.onRead = func() { // The item is due as soon as it waits.
			clock.onRead = nil
			clock.Step(time.Second)
		}
		q.AddAfter("a", time.Second)
		synctest.Wait()
		q.AddAfter("b", time.Second)
		synctest.Wait()
		clock.Step(time.Second)
		synctest.Wait()
		if got := takeAllOf(q); !slices.Equal(got, []string{"b"}) || goroutines() != 0 {
			t.Errorf("got %q, and %d goroutines are left, want b and none", got, goroutines())
		}
		q.ShutDown()
	})
}

// The same one layer down: a batch goes to a Typed whose storage fails in the middle of the batch.
func TestStorageThatEndsTheGoroutineOfADelayingQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf[int]{}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Queue: s}),
		})
		pushes := 0
		s.hook = func(call string) {
			if call == "push" {
				if pushes++; pushes == 3 {
					runtime.Goexit()
				}
			}
		}
		for i := range 10 {
			q.AddAfter(i, time.Second)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		got := takeAllOf(q)
		slices.Sort(got)
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		q.ShutDown()
	})
}

// Both shutdowns drop the waiting items at once.
func TestShutDownDropsWhatWaits(t *testing.T) {
	for name, steps := range map[string][]step{
		"ShutDown": {
			{"after 1s a", ""}, {"add b", ""}, {"shutdown", ""}, {"len", "1"}, {"sleep 2s", ""}, {"len", "1"},
			{"get", "b"}, {"get", "shutdown "},
		},
		"ShutDownWithDrain": {
			{"after 1s a", ""}, {"add b", ""}, {"d: drain", "blocks"}, {"sleep 2s", ""}, {"len", "1"},
			{"get", "b"}, {"done b", ""}, {"d: returns", ""},
		},
		"AddAfter does nothing any more": {
			{"shutdown", ""}, {"after 1s a", ""}, {"after 0s b", ""}, {"sleep 2s", ""}, {"len", "0"}, {"get", "shutdown "},
		},
	} {
		t.Run(name, func(t *testing.T) { timeline(t, newDelaying, steps...) })
	}
}
