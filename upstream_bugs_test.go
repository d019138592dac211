package workqueue_test

import (
	"context"
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

// The bugs that got through the tests of other queues, and where they would be
// found here. A change that makes one of these tests pass on a queue that has
// the bug is a change for the worse.
//
//	drain returns with items queued, kubernetes#141079    TestDrainWaitsForQueuedItems_kubernetes141079
//	spurious Done queues an item twice, kubernetes#79934  TestSpuriousDoneQueuesNothing_kubernetes79934
//	wake-up goes to a worker, kubernetes#101928           TestConcurrentDrainsAllReturn_kubernetes101928
//	wake-up of the drain lost, kubernetes#119554          TestDrainIsWokenByADoneBesideIt_kubernetes119554
//	second ShutDown panics, kubernetes#77170,
//	controller-runtime#450                                TestShutDownTwice_kubernetes77170
//	timers for the far future, kubernetes#83895, #83945   TestFarFutureItemsShareATimer_kubernetes83945
//	goroutines outlive the queue, kubernetes#134323       TestDrainEndsTheGoroutine_kubernetes134323
//	and kubernetes#133524, #135072                        TestShutDownWaitsForItsGoroutines_kubernetes135072
//	an item is queued and waits too, kubernetes#110642    TestAddOfAWaitingItem_kubernetes110642
//	memory stays, kubernetes#116878                       TestMemoryReturns_kubernetes116878
//	a step of the clock is missed, kubernetes#125581      TestClockSteppedWhileTheTimerIsArmed_kubernetes125581
//	Get hangs after ShutDown, controller-runtime#3239     TestGetAfterShutDown_controllerruntime3239
//	waiters miscounted, controller-runtime#3363, #3368    TestWaitersThatComeAndGo_controllerruntime3363
//	changed while walked, controller-runtime#3060         TestAddingWhileDueItemsAreTaken_controllerruntime3060
//	ShutDown deadlocks, controller-runtime#3538           TestShutDownBesideEverything_controllerruntime3538
//	a popped item stays referenced, tidb#65522            TestPoppedItemsAreCollected_tidb65522
//
// controller-runtime#3330, a lower priority handed out first, has no test of its name:
// the specification decides the order, see model_test.go.

// Between the look of a drain at the queue and the wait of the drain, the last Done must not pass
// unnoticed. A lost wake-up is a hang.
func TestDrainIsWokenByADoneBesideIt_kubernetes119554(t *testing.T) {
	for round := range 2000 {
		q := workqueue.NewTyped[int]()
		q.Add(1)
		q.Get()
		var running sync.WaitGroup
		running.Go(q.ShutDownWithDrain)
		running.Go(func() {
			if err := q.Drain(context.Background()); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		})
		q.Done(1)
		running.Wait()
	}
}

func TestShutDownTwice_kubernetes77170(t *testing.T) {
	ends := []func(workqueue.TypedInterface[string]){
		workqueue.TypedInterface[string].ShutDown,
		workqueue.TypedInterface[string].ShutDownWithDrain,
		func(q workqueue.TypedInterface[string]) {
			q.(interface{ Drain(context.Context) error }).Drain(context.Background())
		},
	}
	limited := func() workqueue.TypedInterface[string] {
		return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	}
	for _, open := range []func() workqueue.TypedInterface[string]{newTyped, newDelaying, limited} {
		for _, first := range ends {
			for _, second := range ends {
				q := open()
				first(q)
				second(q)
				second(q)
				if _, shutdown := q.Get(); !shutdown {
					t.Errorf("%T is not shut down", q)
				}
			}
		}
	}
}

// In client-go, each AddAfter of an item that waits for long made a timer.
func TestFarFutureItemsShareATimer_kubernetes83945(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := testingclock.NewFakeClock(epoch)
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Clock: clock})
		for i := range 1000 {
			q.AddAfter(i%100, time.Duration(2000-i)*time.Hour)
			synctest.Wait()
			if n := clock.Waiters(); n > 1 {
				t.Fatalf("%d timers after %d calls", n, i+1)
			}
		}
		if n := q.Waiting(); n != 100 {
			t.Errorf("%d items wait, want 100", n)
		}
		q.ShutDown()
		if n := clock.Waiters(); n > 0 {
			t.Errorf("%d timers after the shutdown", n)
		}
	})
}

// When a shutdown has returned, no code of the queue runs, and no metric is called.
func TestShutDownWaitsForItsGoroutines_kubernetes135072(t *testing.T) {
	for name, end := range map[string]func(*workqueue.TypedDelaying[string]){
		"ShutDown":          (*workqueue.TypedDelaying[string]).ShutDown,
		"ShutDownWithDrain": func(q *workqueue.TypedDelaying[string]) { q.Done("a"); q.ShutDownWithDrain() },
		"Drain":             func(q *workqueue.TypedDelaying[string]) { q.Done("a"); q.Drain(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{}
				var inside, after atomic.Int32
				r.hook = func(string) {
					inside.Add(1)
					time.Sleep(time.Millisecond)
					inside.Add(-1)
				}
				q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: r})
				q.Add("a")
				q.Get()
				q.AddAfter("b", time.Hour)
				time.Sleep(500*time.Millisecond + time.Microsecond) // The gauges are being set.
				end(q)
				if n := inside.Load(); n != 0 {
					t.Errorf("%d metrics are being called", n)
				}
				r.setHook(func(string) { after.Add(1) })
				time.Sleep(time.Minute)
				if n := after.Load(); n != 0 || goroutines() != 0 {
					t.Errorf("%d calls of metrics, %d goroutines", n, goroutines())
				}
			})
		})
	}
}

// As in client-go, the item is handed out twice, since callers may rely on it; OneEntry hands it
// out once.
func TestAddOfAWaitingItem_kubernetes110642(t *testing.T) {
	for cancels, want := range map[bool]int{false: 2, true: 1} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{OneEntry: cancels})
			q.AddAfter("a", time.Second)
			q.Add("a")
			n := 0
			for range 2 {
				if item, ok := q.TryGet(); ok {
					q.Done(item)
					n++
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
			}
			if n != want {
				t.Errorf("OneEntry %v: handed out %d times, want %d", cancels, n, want)
			}
			q.ShutDown()
		})
	}
}

func TestGetAfterShutDown_controllerruntime3239(t *testing.T) {
	for _, open := range []func() workqueue.TypedInterface[string]{newTyped, newDelaying} {
		synctest.Test(t, func(t *testing.T) {
			q := open()
			var returned atomic.Int32
			get := func() {
				if item, shutdown := q.Get(); !shutdown || item != "" {
					t.Errorf("got %q, %v, want the shutdown", item, shutdown)
				}
				returned.Add(1)
			}
			for range 10 {
				go get()
			}
			synctest.Wait()
			go q.ShutDown()
			for range 10 {
				go get()
			}
			synctest.Wait()
			get()
			if n := returned.Load(); n != 21 {
				t.Errorf("%d of 21 calls have returned", n)
			}
		})
	}
}

// Workers that come and go leave the count of waiting workers right: each item still wakes a
// worker, and the shutdown wakes all.
func TestWaitersThatComeAndGo_controllerruntime3363(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTyped[int]()
		var got atomic.Int32
		for i := range 300 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%7)*time.Millisecond)
				defer cancel()
				for ctx.Err() == nil {
					if item, err := q.GetContext(ctx); err == nil {
						got.Add(1)
						q.Done(item)
					}
				}
			}()
		}
		for i := range 10 {
			time.Sleep(time.Millisecond)
			q.Add(i)
			checkInvariants(t, i, q)
		}
		synctest.Wait()
		if n := q.Parked(); n != 0 || int(got.Load())+q.Len() != 10 {
			t.Errorf("%d workers are counted as waiting, %d items were handed out, %d are left", n, got.Load(), q.Len())
		}
		takeAll(q)
		for range 3 {
			go q.Get()
		}
		synctest.Wait()
		if n := q.Parked(); n != 3 {
			t.Errorf("%d workers are counted as waiting, want 3", n)
		}
		q.ShutDown() // A worker that is not woken stays in the bubble.
	})
}

// The metric of a due item makes other items wait, and become due, while the rest is being added.
func TestAddingWhileDueItemsAreTaken_controllerruntime3060(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Name: "q", MetricsProvider: r})
		var added atomic.Int32
		r.setHook(func(event string) {
			if n := int(added.Load()); strings.HasPrefix(event, "adds") && n < 500 && added.CompareAndSwap(int32(n), int32(n+1)) {
				q.AddAfter(1000+n, time.Duration(n%3-1)*time.Millisecond)
				q.Reschedule(n%100, time.Duration(n%5)*time.Millisecond)
				q.Remove(1000 + n - 2)
			}
		})
		for i := range 200 {
			q.AddAfter(i, time.Duration(i%10)*time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		checkInvariants(t, 0, q)
		var got []int
		for q.Len() > 0 {
			item, _ := q.Get()
			got = append(got, item)
		}
		slices.Sort(got)
		if first := got[:min(200, len(got))]; len(slices.Compact(slices.Clone(got))) != len(got) || first[len(first)-1] != 199 {
			t.Errorf("got %v, want the first 200 numbers and some above 1000, each once", got)
		}
		q.ShutDown()
	})
}

func TestShutDownBesideEverything_controllerruntime3538(t *testing.T) {
	for round := range 300 {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Name: "q", MetricsProvider: &recorder{discard: true}})
		var running sync.WaitGroup
		for p := range 2 {
			running.Go(func() {
				for i := range 20 {
					q.Add(i)
					q.AddAfter(i, time.Duration(p*i))
				}
			})
			running.Go(func() {
				for item, shutdown := q.Get(); !shutdown; item, shutdown = q.Get() {
					q.Done(item)
				}
			})
			running.Go(q.ShutDown)
		}
		running.Wait()
		if q.Len() != 0 || q.Waiting() != 0 {
			t.Fatalf("round %d: %d items are left, %d wait", round, q.Len(), q.Waiting())
		}
	}
}

// Items that were due or removed are garbage although others still wait.
func TestPoppedItemsAreCollected_tidb65522(t *testing.T) {
	var collected atomic.Int32
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[*[64]byte]{})
	item := func() *[64]byte {
		p := new([64]byte)
		runtime.AddCleanup(p, func(n *atomic.Int32) { n.Add(1) }, &collected)
		return p
	}
	const n = 40
	keep := item()
	q.AddAfter(keep, time.Hour)
	for range n {
		removed := item()
		q.AddAfter(item(), time.Nanosecond)
		q.AddAfter(removed, time.Minute)
		q.Remove(removed)
	}
	for range n {
		due, _ := q.Get()
		q.Done(due)
	}
	for range 1000 {
		runtime.GC()
		if runtime.Gosched(); collected.Load() >= 2*n {
			break
		}
	}
	if got := collected.Load(); got != 2*n || q.Waiting() != 1 {
		t.Errorf("%d of %d items were collected, %d wait", got, 2*n, q.Waiting())
	}
	runtime.KeepAlive(keep)
	q.ShutDown()
}

// After a clock was set a day forwards, due items come. After a clock was set a day back, no item
// that was added since waits longer than asked.
func TestClockSetADayForwardsAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		clock := testingclock.NewFakeClock(epoch)
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Clock: clock, Name: "q", MetricsProvider: r})
		set := func(by time.Duration) {
			clock.SetTime(clock.Now().Add(by))
			synctest.Wait()
			checkInvariants(t, 0, q)
		}
		q.AddAfter("an hour", time.Hour)
		q.AddAfter("two days", 48*time.Hour)
		synctest.Wait()
		set(24 * time.Hour)
		if item, ok := q.TryGet(); item != "an hour" || !ok || q.Waiting() != 1 {
			t.Errorf("a day later, got %q, %v; %d wait", item, ok, q.Waiting())
		}
		set(-48 * time.Hour)
		q.Done("an hour")
		q.AddAfter("a second", time.Second)
		q.AddAfter("two days", time.Minute)
		synctest.Wait()
		set(time.Second)
		if item, ok := q.TryGet(); item != "a second" || !ok {
			t.Errorf("a second after being set back, got %q, %v", item, ok)
		}
		q.Done("a second")
		set(time.Minute)
		if item, ok := q.TryGet(); item != "two days" || !ok || q.Waiting() != 0 {
			t.Errorf("a minute later, got %q, %v; %d wait", item, ok, q.Waiting())
		}
		q.ShutDown()
		for _, event := range r.take() {
			if strings.Contains(event, "(-") || strings.Contains(event, "=-") {
				t.Errorf("a metric was told %s", event)
			}
		}
	})
}

// A clock is stepped between a reading and the arming of the timer, or while the timer is armed.
// The timer is late by the step, and nobody steps the clock again: due items have to come all the
// same.
func TestClockSteppedWhileTheTimerIsArmed_kubernetes125581(t *testing.T) {
	for name, place := range map[string]func(c *hookedClock, hook func()){
		"before": func(c *hookedClock, hook func()) { c.onArm = hook },
		"after":  func(c *hookedClock, hook func()) { c.onArmed = hook },
	} {
		for timer := range 3 { // The first timer is made, the others are reset.
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					clock := newHookedClock()
					q := newClocked(clock)
					arms := 0
					place(clock, func() {
						if arms++; arms == timer+1 {
							clock.Step(time.Second)
						}
					})
					for i := timer + 1; i > 0; i-- {
						q.AddAfter(strings.Repeat("a", i), time.Duration(i)*time.Second)
						synctest.Wait()
					}
					if got := takeAllOf(q); !slices.Equal(got, []string{"a"}) {
						t.Errorf("timer %d: got %q after a step of the clock, want a", timer, got)
					}
					place(clock, nil)
					clock.Step(time.Hour)
					synctest.Wait()
					if got := len(takeAllOf(q)); got != timer {
						t.Errorf("timer %d: got %d items in the end, want %d", timer, got, timer)
					}
					q.ShutDown()
				})
			})
		}
	}
}

// After many items have passed, a queue keeps at most a byte for each: room for noise, and for
// the sizes below which nothing shrinks.
func TestMemoryReturns_kubernetes116878(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("the figures mean nothing under the race detector")
	}
	for name, f := range map[string]func() any{
		"drained":                   drainedMany,
		"drained, all of them held": func() any { return heldMany(workqueue.TypedQueueConfig[string]{}) },
		"drained, with metrics": func() any {
			return heldMany(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: workqueue.NoMetrics{}})
		},
		"drained, with a storage": func() any {
			return heldMany(workqueue.TypedQueueConfig[string]{Queue: workqueue.DefaultQueue[string]()})
		},
		"delayed and fired":            firedMany,
		"delayed and dropped":          droppedMany,
		"failed and forgotten":         forgottenMany,
		"removed, but for a thousand":  removedMany,
		"in a group each, but for one": groupedMany,
		"not equal to themselves":      func() any { return nanMany(workqueue.NewTyped[float64]()) },
		"never more than a few":        steadyMany,
		"delayed, not equal to itself": delayedNaNMany,
	} {
		t.Run(name, func(t *testing.T) {
			if bytes := retained(f); bytes > many {
				t.Errorf("%d bytes are retained, want at most %d", bytes, many)
			}
		})
	}
}

// In client-go, a drain with nothing in flight returns at once, and a drain with work in flight
// returns after its Done, although items are queued.
func TestDrainWaitsForQueuedItems_kubernetes141079(t *testing.T) {
	timeline(t, newTyped,
		step{"addall a b c", ""}, step{"d1: drain", "blocks"}, step{"get", "a"}, step{"get", "b"}, step{"done a", ""},
		step{"d1: returns", "blocks"}, step{"done b", ""}, step{"d1: returns", "blocks"},
		step{"get", "c"}, step{"done c", ""}, step{"d1: returns", ""})
}

// In client-go, Len is 2 after Add and Done, and two workers get the item at once.
func TestSpuriousDoneQueuesNothing_kubernetes79934(t *testing.T) {
	timeline(t, newTyped,
		step{"add a", ""}, step{"done a", ""}, step{"len", "1"}, step{"get", "a"}, step{"try", "nothing "},
		step{"add a", ""}, step{"done a", ""}, step{"done a", ""}, step{"len", "1"}, step{"get", "a"}, step{"try", "nothing "})
}

// In client-go, one Signal wakes one of the drains, or a worker, and the other drains hang.
func TestConcurrentDrainsAllReturn_kubernetes101928(t *testing.T) {
	timeline(t, newTyped,
		step{"add a", ""}, step{"get", "a"}, step{"w1: get", "blocks"}, step{"w2: get", "blocks"},
		step{"d1: drain", "blocks"}, step{"d2: drain", "blocks"}, step{"d3: drain", "blocks"}, step{"done a", ""},
		step{"d1: returns", ""}, step{"d2: returns", ""}, step{"d3: returns", ""},
		step{"w1: returns", "shutdown "}, step{"w2: returns", "shutdown "})
}

// In client-go, the goroutine lives for up to ten seconds after the drain, and the 1001st of the
// callers that were past the check is blocked for ever.
func TestDrainEndsTheGoroutine_kubernetes134323(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Name: "q", MetricsProvider: &recorder{}})
		q.AddAfter(-1, time.Hour)
		synctest.Wait()
		for i := range 3000 {
			go q.AddAfter(i, time.Hour)
		}
		start := time.Now()
		q.ShutDownWithDrain()
		synctest.Wait()
		if n := goroutines(); n != 0 || time.Since(start) != 0 {
			t.Errorf("%d goroutines are left %v after the drain began, want 0 at once", n, time.Since(start))
		}
	})
}
