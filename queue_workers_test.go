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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/seed16c08ea7/workqueue"
)

// A clock that blocks in one worker, which was woken, does not keep the others
// from what is queued.
func TestClockThatBlocksForAWokenWorker(t *testing.T) {
	for name, storage := range map[string]workqueue.Queue[string]{"line": nil, "storage": workqueue.DefaultQueue[string]()} {
		synctest.Test(t, func(t *testing.T) {
			clock := newHookedClock()
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{KeepTimes: true, Clock: clock, Queue: storage})
			var got atomic.Int64
			for range 3 {
				go func() {
					for _, shutdown := q.Get(); !shutdown; _, shutdown = q.Get() {
						got.Add(1)
					}
				}()
			}
			synctest.Wait()
			hold := make(chan struct{})
			var readings atomic.Int64
			clock.onRead = func() {
				if readings.Add(1) == 2 { // The first is that of Add.
					<-hold
				}
			}
			for n, item := range []string{"a", "b", "c"} {
				q.Add(item)
				synctest.Wait()
				if got.Load() != int64(n+1) {
					t.Errorf("%s: %d of %d items are handed out beside a clock that blocks", name, got.Load(), n+1)
				}
				checkInvariants(t, n, q)
			}
			close(hold)
			synctest.Wait()
			if n := q.Parked(); n != 3 || got.Load() != 3 {
				t.Errorf("%s: %d workers wait and have got %d items, want 3 and 3", name, n, got.Load())
			}
			checkQuiet(t, 3, q)
			q.ShutDown()
		})
	}
}

func TestGetWaits(t *testing.T) {
	for name, steps := range map[string][]step{
		"one worker is woken by each Add": {
			{"w1: get", "blocks"}, {"w2: get", "blocks"}, {"w3: get", "blocks"},
			{"add a", ""}, {"add b", ""}, {"len", "0"}, {"add c", ""},
		},
		"a duplicate wakes nobody": {
			{"add a", ""}, {"get", "a"}, {"w: get", "blocks"}, {"add a", ""}, {"w: returns", "blocks"},
		},
		"Done of a re-added item wakes, although who calls it never gets": {
			{"add a", ""}, {"get", "a"}, {"w: get", "blocks"}, {"add a", ""}, {"w: returns", "blocks"},
			{"done a", ""}, {"w: returns", "a"},
		},
		"AddAll wakes as many as it has items for": {
			{"w1: get", "blocks"}, {"w2: get", "blocks"}, {"w3: get", "blocks"},
			{"addall a b c d", ""}, {"len", "1"}, {"get", "d"},
		},
		"a worker that was woken waits again": {
			{"w: get", "blocks"}, {"add a", ""}, {"w: returns", "a"}, {"w: get", "blocks"},
			{"add b", ""}, {"w: returns", "b"}, {"done b", ""}, {"w: get", "blocks"},
			{"add b", ""}, {"w: returns", "b"},
		},
		"a shutdown wakes all": {
			{"w1: get", "blocks"}, {"w2: get", "blocks"}, {"w3: getcontext", "blocks"}, {"shutdown", ""},
			{"w1: returns", "shutdown "}, {"w2: returns", "shutdown "},
			{"w3: returns", "workqueue: queue is shut down "},
		},
		"a drain wakes all": {
			{"w1: get", "blocks"}, {"w2: get", "blocks"}, {"drain", ""},
			{"w1: returns", "shutdown "}, {"w2: returns", "shutdown "},
		},
	} {
		t.Run(name, func(t *testing.T) { onEach(t, steps) })
	}
}

// Which of the parked workers an Add wakes is not promised, so the table above
// cannot tell that it was one.
func TestEachAddReleasesOneGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		q := workqueue.NewTyped[int]()
		var got atomic.Int64
		for range n {
			go func() {
				if _, shutdown := q.Get(); !shutdown {
					got.Add(1)
				}
			}()
		}
		synctest.Wait()
		for i := range n / 2 {
			q.Add(i)
			synctest.Wait()
			if got.Load() != int64(i+1) {
				t.Fatalf("after Add %d: %d workers have returned, want %d", i, got.Load(), i+1)
			}
			checkInvariants(t, i, q)
		}
		// The other half is released by one critical section: each worker on
		// its way wakes the next.
		rest := make([]int, n/2)
		for i := range rest {
			rest[i] = n + i
		}
		q.AddAll(rest...)
		synctest.Wait()
		if got.Load() != n || q.Parked() != 0 {
			t.Errorf("after AddAll: %d workers have returned and %d wait, want %d and 0", got.Load(), q.Parked(), n)
		}
		checkInvariants(t, n, q)
	})
}

// A worker on its way to the last item meets the shutdown that came after it
// was woken: it must pass the news on to those that still wait.
func TestShutDownBehindAWokenWorkerReleasesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newHookedClock()
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
			Name: "q", MetricsProvider: &recorder{}, Clock: clock,
		})
		results := make(chan string, 3)
		for range 3 {
			go func() {
				item, _ := q.Get()
				results <- item
			}()
		}
		synctest.Wait()

		hold := make(chan struct{})
		var readings atomic.Int64
		clock.onRead = func() {
			if readings.Add(1) == 2 { // The first is that of Add.
				<-hold
			}
		}
		q.Add("a")
		synctest.Wait()
		q.ShutDown()
		close(hold)
		synctest.Wait()
		if n := q.Parked(); n != 0 {
			t.Errorf("%d workers wait in a queue that is shut down and empty", n)
		}
		if err := q.CheckInvariants(); err != nil {
			t.Error(err)
		}
		q.Add("b") // Ignored.
		for range q.Parked() {
			q.Get() // Releases the next one, or the bubble would hang.
		}
	})
}

func TestGetContext(t *testing.T) {
	for name, steps := range map[string][]step{
		"an item": {
			{"add a", ""}, {"getcontext", "a"}, {"w: getcontext", "blocks"}, {"add b", ""}, {"w: returns", "b"},
		},
		"canceled while it waits": {
			{"w: getcontext", "blocks"}, {"w: cancel", "context canceled "},
			{"add a", ""}, {"len", "1"}, {"get", "a"},
		},
		"one of two canceled, the other gets the item": {
			{"w1: getcontext", "blocks"}, {"w2: get", "blocks"}, {"w1: cancel", "context canceled "},
			{"add a", ""}, {"w2: returns", "a"},
		},
		"canceled after it has returned": {
			{"w: getcontext", "blocks"}, {"add a", ""}, {"w: cancel", "a"}, {"done a", ""}, {"drain", ""},
		},
		"shut down": {
			{"w: getcontext", "blocks"}, {"add a", ""}, {"add b", ""}, {"shutdown", ""}, {"w: returns", "a"},
			{"getcontext", "b"}, {"getcontext", "workqueue: queue is shut down "},
		},
	} {
		t.Run(name, func(t *testing.T) { onEach(t, steps) })
	}
}

func TestGetContextThatHasEnded(t *testing.T) {
	q := workqueue.NewTyped[string]()
	q.Add("a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if item, err := q.GetContext(ctx); item != "" || err != context.Canceled {
		t.Errorf("got %q, %v, want no item, %v", item, err, context.Canceled)
	}
	if q.Len() != 1 {
		t.Errorf("got %d items left, want 1", q.Len())
	}
}

func TestGetContextWithDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTyped[string]()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		if item, err := q.GetContext(ctx); item != "" || err != context.DeadlineExceeded {
			t.Errorf("got %q, %v, want no item, %v", item, err, context.DeadlineExceeded)
		}
		if waited := time.Since(start); waited != time.Hour {
			t.Errorf("returned after %v, want 1h", waited)
		}
		if n := q.Parked(); n != 0 {
			t.Errorf("%d workers wait", n)
		}
	})
}

// An Add and a cancellation at the same instant, in whatever order the
// scheduler picks: the item reaches the worker, or the one that waits beside
// it, or stays. And a worker that comes later is woken as if nothing had been.
func TestGetContextCanceledAtTheInstantOfAnAdd(t *testing.T) {
	t.Parallel()
	outcomes := map[string]int{}
	for round := range 2000 {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTyped[string]()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var got atomic.Int64
			get := func(ctx context.Context) {
				if _, err := q.GetContext(ctx); err == nil {
					got.Add(1)
				}
			}
			go get(ctx)
			patient := round%2 == 0
			if patient {
				go get(t.Context())
			}
			synctest.Wait()
			addAndCancel(round, func() { q.AddAll("a", "a") }, cancel)
			checkInvariants(t, round, q)
			checkQuiet(t, round, q)
			left := q.Len()
			if int(got.Load())+left != 1 || patient && left != 0 {
				t.Fatalf("round %d: %d workers got the item and %d are left", round, got.Load(), left)
			}
			outcomes[fmt.Sprint("left ", left)]++
			takeAll(q)
			go get(t.Context())
			synctest.Wait()
			q.Add("b")
			synctest.Wait()
			if q.Len() != 0 {
				t.Fatalf("round %d: the next worker was not woken", round)
			}
			q.ShutDown()
		})
	}
	if len(outcomes) != 2 {
		t.Errorf("only one of two outcomes came up: %v", outcomes)
	}
}

// addAndCancel does both at once, in one of the orders that there are.
func addAndCancel(round int, add, cancel func()) {
	switch round / 2 % 4 {
	case 0: // What is started last tends to run first.
		go cancel()
		go add()
	case 1:
		go add()
		go cancel()
	case 2: // Both have happened before the worker runs, unless on another CPU.
		cancel()
		add()
	default:
		add()
		cancel()
	}
	synctest.Wait()
}

func TestShutDown(t *testing.T) {
	for name, steps := range map[string][]step{
		"what is queued is handed out": {
			{"addall a b c d e", ""}, {"shutting", "false"}, {"shutdown", ""}, {"shutting", "true"}, {"len", "5"},
			{"get", "a"}, {"get", "b"}, {"get", "c"}, {"get", "d"}, {"get", "e"}, {"get", "shutdown "}, {"get", "shutdown "},
		},
		"nothing is accepted any more": {
			{"shutdown", ""}, {"add a", ""}, {"addall b c", ""}, {"len", "0"}, {"get", "shutdown "},
		},
		"an Add of what is processed is not accepted either": {
			{"add a", ""}, {"get", "a"}, {"shutdown", ""}, {"add a", ""}, {"done a", ""}, {"len", "0"}, {"get", "shutdown "},
		},
		"what was added again before is queued by its Done": {
			{"add a", ""}, {"get", "a"}, {"add a", ""}, {"shutdown", ""}, {"get", "shutdown "},
			{"done a", ""}, {"len", "1"}, {"get", "a"}, {"done a", ""}, {"get", "shutdown "},
		},
		"twice": {
			{"add a", ""}, {"shutdown", ""}, {"shutdown", ""}, {"get", "a"}, {"get", "shutdown "},
		},
		"after a drain": {
			{"drain", ""}, {"shutdown", ""}, {"drain", ""}, {"get", "shutdown "},
		},
	} {
		t.Run(name, func(t *testing.T) { onEach(t, steps) })
		t.Run("delaying/"+name, func(t *testing.T) { timeline(t, newDelaying, noExtras(steps)...) })
	}
}

// noExtras replaces AddAll, which only a Typed has.
func noExtras(steps []step) (plain []step) {
	for _, s := range steps {
		var first, second, third, fourth, fifth string
		switch n, _ := fmt.Sscanf(s.do, "addall %s %s %s %s %s", &first, &second, &third, &fourth, &fifth); n {
		case 0:
			plain = append(plain, s)
		default:
			for _, item := range []string{first, second, third, fourth, fifth}[:n] {
				plain = append(plain, step{"add " + item, ""})
			}
		}
	}
	return plain
}

func TestDrainWaits(t *testing.T) {
	for name, steps := range map[string][]step{
		"for nothing": {
			{"drain", ""}, {"shutting", "true"}, {"add a", ""}, {"len", "0"},
		},
		"for what is queued, none in flight": {
			{"add a", ""}, {"add b", ""}, {"d: drain", "blocks"}, {"get", "a"}, {"d: returns", "blocks"},
			{"done a", ""}, {"d: returns", "blocks"}, {"get", "b"}, {"d: returns", "blocks"}, {"done b", ""}, {"d: returns", ""},
		},
		"for what is in flight": {
			{"add a", ""}, {"get", "a"}, {"d: drain", "blocks"}, {"done a", ""}, {"d: returns", ""},
		},
		"for the queued behind one in flight": {
			{"add a", ""}, {"add b", ""}, {"add c", ""}, {"get", "a"}, {"d: drain", "blocks"}, {"done a", ""}, {"d: returns", "blocks"},
			{"get", "b"}, {"get", "c"}, {"done c", ""}, {"d: returns", "blocks"}, {"done b", ""}, {"d: returns", ""},
		},
		"for what was added again in flight": {
			{"add a", ""}, {"get", "a"}, {"add a", ""}, {"d: drain", "blocks"}, {"done a", ""}, {"d: returns", "blocks"},
			{"get", "a"}, {"d: returns", "blocks"}, {"done a", ""}, {"d: returns", ""},
		},
		"not for what is added after it": {
			{"add a", ""}, {"get", "a"}, {"d: drain", "blocks"}, {"add a", ""}, {"add b", ""}, {"done a", ""}, {"d: returns", ""}, {"len", "0"},
		},
		"not for a Done of what nobody holds": {
			{"add a", ""}, {"add b", ""}, {"get", "a"}, {"d: drain", "blocks"}, {"done b", ""}, {"done c", ""}, {"d: returns", "blocks"},
			{"get", "b"}, {"done b", ""}, {"done b", ""}, {"d: returns", "blocks"}, {"done a", ""}, {"d: returns", ""},
		},
	} {
		t.Run(name, func(t *testing.T) { onEach(t, steps) })
		t.Run("delaying/"+name, func(t *testing.T) { timeline(t, newDelaying, steps...) })
	}
}

func TestDrainsBesideOthers(t *testing.T) {
	for name, steps := range map[string][]step{
		"several of them, all return": {
			{"add a", ""}, {"d1: drain", "blocks"}, {"d2: drain", "blocks"}, {"get", "a"}, {"d3: drain", "blocks"},
			{"done a", ""}, {"d1: returns", ""}, {"d2: returns", ""}, {"d3: returns", ""}, {"drain", ""},
		},
		"until a ShutDown": {
			{"add a", ""}, {"get", "a"}, {"d1: drain", "blocks"}, {"d2: drain", "blocks"}, {"shutdown", ""},
			{"d1: returns", ""}, {"d2: returns", ""}, {"done a", ""}, {"get", "shutdown "},
		},
		"after a ShutDown too": {
			{"add a", ""}, {"shutdown", ""}, {"d: drain", "blocks"}, {"get", "a"}, {"done a", ""}, {"d: returns", ""},
		},
		"beside workers, who get the rest and learn of the end": {
			{"w1: get", "blocks"}, {"w2: get", "blocks"}, {"add a", ""}, {"w1: returns", "a"}, {"d: drain", "blocks"},
			{"w2: returns", "shutdown "}, {"done a", ""}, {"d: returns", ""},
		},
	} {
		t.Run(name, func(t *testing.T) { onEach(t, steps) })
		t.Run("delaying/"+name, func(t *testing.T) { timeline(t, newDelaying, steps...) })
	}
}

// Drains under load, many of them since each tries one interleaving: when one
// returns, everything that was accepted has been handed out and is done.
func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	runs := 10_000
	if testing.Short() || raceEnabled {
		runs = 3_000
	}
	for run := range runs {
		drainUnderLoad(t, run)
		if t.Failed() {
			return
		}
	}
}

func drainUnderLoad(t *testing.T, run int) {
	q := workqueue.NewTyped[int]()
	var producing, working, draining sync.WaitGroup
	var inHand atomic.Int64
	for p := range 2 {
		producing.Go(func() {
			for i := range 20 {
				q.Add((p*7 + i) % 9)
			}
		})
		working.Go(func() {
			for item, shutdown := q.Get(); !shutdown; item, shutdown = q.Get() {
				inHand.Add(1)
				if item%3 == 0 {
					q.Add(item + 1)
				}
				inHand.Add(-1)
				q.Done(item)
			}
		})
	}
	for range 1 + run%3 {
		draining.Go(func() {
			q.ShutDownWithDrain()
			if left, held := q.Len(), inHand.Load(); left+int(held) != 0 {
				t.Errorf("run %d: drain returned with %d items queued and %d in hand", run, left, held)
			}
		})
	}
	draining.Wait()
	working.Wait()
	producing.Wait()
	checkInvariants(t, run, q)
}

func TestDrainWithManyWorkersIsComplete(t *testing.T) {
	q := workqueue.NewTyped[int]()
	const items = 1000
	for i := range items {
		q.Add(i)
	}
	var working sync.WaitGroup
	var done atomic.Int64
	for range 4 {
		working.Go(func() {
			for {
				item, shutdown := q.Get()
				if shutdown {
					return
				}
				done.Add(1)
				q.Done(item)
			}
		})
	}
	q.ShutDownWithDrain()
	if n := done.Load(); n != items {
		t.Errorf("drain returned after %d of %d items", n, items)
	}
	working.Wait()
}

func TestShutDownFromEverywhere(t *testing.T) {
	for _, open := range []func() workqueue.TypedInterface[string]{newTyped, newDelaying} {
		synctest.Test(t, func(t *testing.T) {
			q := open()
			if d, ok := q.(workqueue.TypedDelayingInterface[string]); ok {
				d.AddAfter("late", time.Hour)
			}
			for i := range 32 {
				go func() {
					if i%2 == 0 {
						q.ShutDown()
					} else {
						q.ShutDownWithDrain()
					}
				}()
				go q.Get()
			}
			synctest.Wait() // The bubble reports goroutines that are left.
		})
	}
}

// A Get never returns an item and shutdown == true, and between them the
// workers get all that was accepted.
func TestGetAtTheInstantOfTheShutDown(t *testing.T) {
	for run := range 2000 {
		q := workqueue.NewTyped[int]()
		var running sync.WaitGroup
		var got atomic.Int64
		for range 3 {
			running.Go(func() {
				for {
					item, shutdown := q.Get()
					if shutdown {
						if item != 0 {
							t.Errorf("run %d: got item %d at the shutdown", run, item)
						}
						return
					}
					got.Add(1)
				}
			})
		}
		running.Go(q.ShutDown)
		for i := 1; i <= 5; i++ {
			q.Add(i)
		}
		running.Wait()
		if n := q.Held(); int64(n) != got.Load() || q.Len() != 0 {
			t.Fatalf("run %d: %d items were handed out, %d returned, %d are left", run, n, got.Load(), q.Len())
		}
	}
}

// A stuck queue blocks in Add until it is released.
type stuck struct {
	bare
	hold chan struct{}
}

func (q stuck) Add(item string) {
	<-q.hold
	q.bare.Add(item)
}

// Each of these has a goroutine of the queue in foreign code that does not
// return, and an item that is not worked off.
var blocked = map[string]func(hold chan struct{}) drainer{
	"a gauge": func(hold chan struct{}) drainer {
		return startBlocked(hold, "unfinished", func(p workqueue.MetricsProvider) drainer {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p})
		})
	},
	"a gauge, two layers below": func(hold chan struct{}) drainer {
		return startBlocked(hold, "longest", func(p workqueue.MetricsProvider) drainer {
			return workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: p})
		})
	},
	"a counter of what was due": func(hold chan struct{}) drainer {
		return startBlocked(hold, "adds", func(p workqueue.MetricsProvider) drainer {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Name: "q", MetricsProvider: p})
		})
	},
	"the queue below": func(hold chan struct{}) drainer {
		return startBlocked(hold, "", func(workqueue.MetricsProvider) drainer {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
				Queue: stuck{bare{workqueue.NewTyped[string]()}, hold},
			})
		})
	},
}

// startBlocked makes a queue whose metric of that name blocks, and lets the
// goroutine of the queue get there.
func startBlocked(hold chan struct{}, name string, open func(workqueue.MetricsProvider) drainer) drainer {
	r := &recorder{}
	q := open(r)
	if below, ok := q.(*workqueue.TypedDelaying[string]); ok && name == "" {
		go below.Add("a") // Blocks too, before it counts.
	} else {
		q.Add("a")
		q.Get()
	}
	r.setHook(func(event string) {
		if name != "" && strings.HasPrefix(event, name) {
			<-hold
		}
	})
	if d, ok := q.(workqueue.TypedDelayingInterface[string]); ok {
		d.AddAfter("b", time.Second)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	return q
}

// Whatever foreign code does on the goroutine of a queue, a Drain ends with its
// context, and says what is left. The goroutine ends when that code does.
func TestDrainEndsWithItsContextBesideForeignCodeThatBlocks(t *testing.T) {
	for name, open := range blocked {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hold := make(chan struct{})
				q := open(hold)
				if n := goroutines(); n == 0 {
					t.Fatal("no goroutine of the queue blocks")
				}
				results := make(chan error, 3)
				for n := range cap(results) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*time.Second)
					defer cancel()
					go func() { results <- q.Drain(ctx) }()
				}
				if name == "the queue below" { // One ShutDown ends all of its drains.
					time.Sleep(time.Second)
					for range cap(results) {
						if err := <-results; err != nil && !errors.Is(err, workqueue.ErrNotDrained) {
							t.Errorf("got %v, want nil or that it is not drained", err)
						}
					}
				}
				for n := range cap(results) {
					if synctest.Wait(); name == "the queue below" {
						break
					}
					if len(results) != 1 {
						t.Errorf("%d drains have returned after %d s, want the one of that time", len(results), n)
						break
					}
					checkLeft(t, q, <-results)
					time.Sleep(time.Second)
				}
				close(hold)
				synctest.Wait()
				if n := goroutines(); n != 0 {
					t.Errorf("%d goroutines are left when the foreign code has returned", n)
				}
			})
		})
	}
}

// checkLeft looks at the error of a drain that was ended by its context, for
// which there must be a reason.
func checkLeft(t *testing.T, q drainer, err error) {
	t.Helper()
	s := workqueue.Snapshot[string]{Totals: workqueue.Totals{QueuedTotal: q.Len()}}
	goes(func() { s = q.Snapshot(0) }) // What is below may have none.
	if s.QueuedTotal+s.InFlightTotal == 0 && err == nil {
		return
	}
	if e, ok := err.(*workqueue.DrainError[string]); !ok || !errors.Is(e, context.DeadlineExceeded) {
		t.Errorf("got %v, want a DrainError for a deadline", err)
	}
}

// A drain that is complete waits for the goroutine as long as its context lets
// it, and leaves nothing behind but that.
func TestDrainThatIsCompleteBesideAGaugeThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		q := blocked["a gauge"](hold)
		q.Done("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := q.Drain(ctx); err != nil || time.Since(start) != time.Second {
			t.Errorf("got %v after %v, want nil after 1s", err, time.Since(start))
		}
		time.AfterFunc(time.Minute, func() { close(hold) })
		if err := q.Drain(t.Context()); err != nil || time.Since(start) != time.Minute+time.Second {
			t.Errorf("got %v after %v, want nil after 1m1s", err, time.Since(start))
		}
		q.ShutDown()
		q.ShutDownWithDrain()
	})
}

// Calls stay awake for a lock that is held for some tens of nanoseconds. One that
// is held for long must not take a processor that long.
func TestCallsSleepWhereTheQueueIsLockedForLong(t *testing.T) {
	fifo := workqueue.NewTyped[int]()
	ranked := newPrioritized(workqueue.Order[int]{})
	delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
	totals := func() [3]int {
		f, r, d := fifo.Snapshot(0), ranked.Snapshot(0), delaying.Snapshot(0)
		return [3]int{f.QueuedTotal + r.QueuedTotal, f.InFlightTotal + r.InFlightTotal, d.WaitingTotal}
	}
	for _, c := range []struct {
		name, waits string
		hold        func() (release func())
		call        func()
		want        [3]int
	}{
		{"Add", "LockSoon", fifo.Hold, func() { fifo.Add(1) }, [3]int{1, 0, 0}},
		{"Get", "LockSoon", fifo.Hold, func() { fifo.Get() }, [3]int{0, 1, 0}},
		{"Done", "LockSoon", fifo.Hold, func() { fifo.Done(1) }, [3]int{0, 0, 0}},
		{"AddWith", "LockSoon", ranked.Hold, func() { addAt(ranked, 1, 1) }, [3]int{1, 0, 0}},
		{"GetInfo", "LockSoon", ranked.Hold, func() { ranked.GetInfo(context.Background()) }, [3]int{0, 1, 0}},
		{"AddAfter", "LockAwake", delaying.Hold, func() { delaying.AddAfter(1, time.Hour) }, [3]int{0, 1, 1}},
	} {
		release := c.hold()
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			c.call()
		}()
		awaitSleeper(t, returned, c.waits)
		release()
		<-returned
		if got := totals(); got != c.want {
			t.Errorf("after %s the totals are %v, want %v", c.name, got, c.want)
		}
	}
	fifo.ShutDown()
	ranked.ShutDown()
	delaying.ShutDown()
}

// awaitSleeper waits until a goroutine sleeps for a lock within the function. The call that
// is to sleep must not return.
func awaitSleeper(t *testing.T, returned <-chan struct{}, function string) {
	t.Helper()
	sleeps := func(stack string) bool {
		return strings.Contains(stack, "[sync.Mutex.Lock") && strings.Contains(stack, function)
	}
	for !slices.ContainsFunc(stacks(), sleeps) {
		select {
		case <-returned:
			t.Fatalf("a call has not waited for the lock in %s", function)
		default:
			runtime.Gosched()
		}
	}
}

// A pacedQueue is any of the three queues with a Pace.
type pacedQueue interface {
	workQueue
	GetInfo(ctx context.Context) (workqueue.ItemInfo[string], error)
	AddWith(options workqueue.AddOptions, items ...string) int
	Drain(ctx context.Context) error
	Stats() workqueue.QueueStats
}

func onPacedQueues(t *testing.T, limit rate.Limit, test func(t *testing.T, q pacedQueue, limiter *rate.Limiter)) {
	for name, open := range map[string]func(pace *rate.Limiter) pacedQueue{
		"FIFO": func(pace *rate.Limiter) pacedQueue {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Pace: pace})
		},
		"delaying": func(pace *rate.Limiter) pacedQueue {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Pace: pace})
		},
		"rate limiting": func(pace *rate.Limiter) pacedQueue {
			return workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{Pace: pace})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := rate.NewLimiter(limit, 1)
				q := open(limiter)
				defer q.ShutDown()
				test(t, q, limiter)
				checkInvariants(t, 0, q)
			})
		})
	}
}

// pacedHandOuts gets items on several workers until the queue has none, and returns each with the time
// of its hand-out.
func pacedHandOuts(q pacedQueue, workers int) (got []string) {
	start := time.Now()
	var mu sync.Mutex
	var over sync.WaitGroup
	for range workers {
		over.Go(func() {
			for {
				item, shutdown := q.Get()
				if shutdown {
					return
				}
				mu.Lock()
				got = append(got, fmt.Sprint(item, " ", time.Since(start)))
				mu.Unlock()
				q.Done(item)
			}
		})
	}
	over.Wait()
	return got
}

func TestPaceOfHandOuts(t *testing.T) {
	onPacedQueues(t, 10, func(t *testing.T, q pacedQueue, _ *rate.Limiter) {
		for _, item := range []string{"a", "b", "c", "d"} {
			q.Add(item)
		}
		q.Add("c")
		if _, ok := q.TryGet(); !ok { // The burst.
			t.Error("TryGet finds no token")
		}
		if item, ok := q.TryGet(); ok {
			t.Errorf("TryGet gets %s without a token", item)
		}
		q.Done("a")
		time.AfterFunc(150*time.Millisecond, func() {
			q.AddWith(workqueue.AddOptions{Priority: prio(1)}, "urgent") // Before c, which waits for a token.
			q.Remove("d")
			q.ShutDown() // A drain is paced too.
		})
		want := "[b 100ms urgent 200ms c 300ms]"
		if got := fmt.Sprint(pacedHandOuts(q, 3)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// The worker with the timer goes away, and another one takes its place.
func TestPaceWithoutItsKeeper(t *testing.T) {
	onPacedQueues(t, 20, func(t *testing.T, q pacedQueue, _ *rate.Limiter) {
		q.Add("a")
		q.TryGet()
		q.Add("b")
		ctx, cancel := context.WithCancel(t.Context())
		keeper := startWait(func(context.Context) error { _, err := q.GetInfo(ctx); return err })
		other := startWait(func(ctx context.Context) error { _, err := q.GetInfo(ctx); return err })
		third := startWait(func(ctx context.Context) error { _, err := q.GetInfo(ctx); return err })
		cancel()
		keeper.want(t, "canceled", "context canceled")
		other.want(t, "no token", "waits")
		time.Sleep(50 * time.Millisecond)
		other.want(t, "a token", "<nil>")
		third.want(t, "nothing queued", "waits")
		q.ShutDown()
		third.want(t, "shut down", "workqueue: queue is shut down")
	})
}

// A worker that waits for a token is told of the end, if nothing is left to hand out.
func TestPaceAndTheEnd(t *testing.T) {
	onPacedQueues(t, 0, func(t *testing.T, q pacedQueue, limiter *rate.Limiter) {
		limiter.AllowN(time.Now(), 1)
		q.Add("a")
		w := startWait(func(ctx context.Context) error { _, err := q.GetInfo(ctx); return err })
		drain := startWait(q.Drain)
		time.Sleep(time.Hour)
		w.want(t, "no tokens", "waits")
		drain.want(t, "no tokens", "waits")
		q.Remove("a")
		w.want(t, "removed", "workqueue: queue is shut down")
		drain.want(t, "removed", "<nil>")
	})
}

// A pause is a limit of 0. A new limit holds within 100 ms, and the queue says how long it has
// kept items back.
func TestPaceThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &reader{}
		limiter := rate.NewLimiter(rate.Every(time.Hour), 1)
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: p, Pace: limiter})
		defer q.ShutDown()
		q.Add("a")
		q.TryGet()
		q.Add("b")
		q.Add("c")
		w := startWait(func(ctx context.Context) error { _, err := q.GetInfo(ctx); return err })
		time.Sleep(time.Second + time.Millisecond)
		limiter.SetLimit(rate.Inf)
		start := time.Now()
		if err := <-w.ended; err != nil || time.Since(start) > 100*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if s, _ := p.reads[0](); s.Paced != 1100*time.Millisecond {
			t.Errorf("kept back for %v", s.Paced)
		}
		limiter.SetLimit(0)
		limiter.SetBurst(0)
		w = startWait(func(ctx context.Context) error { _, err := q.GetInfo(ctx); return err })
		time.Sleep(time.Second)
		w.want(t, "a pause", "waits")
		if s, _ := p.reads[0](); s.Paced != 2100*time.Millisecond {
			t.Errorf("kept back for %v", s.Paced)
		}
		q.Remove("c")
		time.Sleep(time.Hour)
		if s, _ := p.reads[0](); s.Paced > 2200*time.Millisecond {
			t.Errorf("kept back for %v, and there was no item for an hour", s.Paced)
		}
	})
}

// Nobody looks for a token after TryGet.
func TestPaceCountsALookOfTryGetForAMoment(t *testing.T) {
	onPacedQueues(t, 1, func(t *testing.T, q pacedQueue, _ *rate.Limiter) {
		q.Add("a")
		q.TryGet()
		q.Add("b")
		if _, ok := q.TryGet(); ok {
			t.Error("TryGet gets an item without a token")
		}
		time.Sleep(time.Hour)
		if paced := q.Stats().Paced; paced != 100*time.Millisecond {
			t.Errorf("kept back for %v", paced)
		}
	})
}

// A limiter whose burst or limit is not positive has no next token to sleep for.
func TestPaceWithoutTokensLooksNowAndThen(t *testing.T) {
	for _, limiter := range []*rate.Limiter{rate.NewLimiter(1e6, 0), rate.NewLimiter(-1, 1)} {
		synctest.Test(t, func(t *testing.T) {
			limiter.AllowN(time.Now(), 1)
			c := &countedClock{}
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Pace: limiter, Clock: c})
			defer q.ShutDown()
			q.Add("a")
			w := startWait(func(ctx context.Context) error { _, err := q.GetInfo(ctx); return err })
			time.Sleep(time.Millisecond)
			w.want(t, "no tokens", "waits")
			if n := c.readings.Load(); n > 10 {
				t.Errorf("a limit of %v with a burst of %d costs %d readings of the clock in a millisecond", limiter.Limit(), limiter.Burst(), n)
			}
			q.Remove("a")
		})
	}
}

// The next look of the keeper is an hour away then.
func TestPaceAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newHookedClock()
		limiter := rate.NewLimiter(1, 1)
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Pace: limiter, Clock: c})
		defer q.ShutDown()
		q.Add("a")
		q.TryGet()
		q.Add("b")
		q.TryGet()
		c.SetTime(c.Now().Add(-time.Hour))
		w := startWait(func(ctx context.Context) error { _, err := q.GetInfo(ctx); return err })
		limiter.SetLimit(rate.Inf)
		c.Step(100 * time.Millisecond)
		w.want(t, "a new limit", "<nil>")
	})
}

// A countedClock counts how often it is read.
type countedClock struct {
	clock.RealClock
	readings atomic.Int64
}

func (c *countedClock) Since(t time.Time) time.Duration {
	c.readings.Add(1)
	return c.RealClock.Since(t)
}

// Two queues of different types share a limiter.
func TestPaceOfTwoQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := rate.NewLimiter(100, 1)
		a := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Pace: limiter})
		b := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Pace: limiter})
		var ofA, ofB atomic.Int64
		var over sync.WaitGroup
		for range 4 {
			over.Go(func() {
				for item, shutdown := a.Get(); !shutdown; item, shutdown = a.Get() {
					ofA.Add(1)
					a.Add(item)
					a.Done(item)
				}
			})
			over.Go(func() {
				for item, shutdown := b.Get(); !shutdown; item, shutdown = b.Get() {
					ofB.Add(1)
					b.Add(item)
					b.Done(item)
				}
			})
		}
		for i := range 8 {
			a.Add(fmt.Sprint(i))
			b.Add(i)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := ofA.Load() + ofB.Load(); n < 5999 || n > 6001 {
			t.Errorf("%d and %d hand-outs in a minute, want 6001 together", ofA.Load(), ofB.Load())
		}
		if min(ofA.Load(), ofB.Load()) == 0 {
			t.Errorf("%d and %d hand-outs", ofA.Load(), ofB.Load())
		}
		limiter.SetLimit(rate.Inf)
		a.ShutDown()
		b.ShutDown()
		over.Wait()
	})
}

// A fake clock is stepped at any moment, also while the timer is armed, and nobody steps it again.
func TestPaceOfAClockThatIsStepped(t *testing.T) {
	for _, hook := range []string{"onArm", "onArmed", ""} {
		synctest.Test(t, func(t *testing.T) {
			c := newHookedClock()
			q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Clock: c, Pace: rate.NewLimiter(20, 1)})
			defer q.ShutDown()
			q.Add("a")
			q.TryGet()
			q.Add("b")
			step := sync.OnceFunc(func() { c.Step(50 * time.Millisecond) })
			switch hook {
			case "onArm":
				c.onArm = step
			case "onArmed":
				c.onArmed = step
			}
			w := startWait(func(ctx context.Context) error { _, err := q.GetInfo(ctx); return err })
			if hook == "" {
				w.want(t, "armed", "waits")
				step()
			}
			w.want(t, "stepped "+hook, "<nil>")
		})
	}
}

// A clock that panics for the keeper ends its Get, and another worker keeps the pace.
func TestPaceOfAClockThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newHookedClock()
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Clock: c, Pace: rate.NewLimiter(20, 1)})
		defer q.ShutDown()
		q.Add("a")
		q.TryGet()
		q.Add("b")
		c.onArm = func() { c.onArm = nil; panic("arm") }
		wantPanic(t, "arm", func() { q.Get() })
		checkInvariants(t, 0, q)
		w := startWait(func(ctx context.Context) error { _, err := q.GetInfo(ctx); return err })
		c.Step(50 * time.Millisecond)
		w.want(t, "stepped", "<nil>")
	})
}

// The end of a Run takes out what is queued, and needs no tokens for that.
func TestRunEndsWithoutThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := rate.NewLimiter(1, 1)
		q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{Pace: limiter})
		ctx, stop := context.WithCancel(t.Context())
		for i := range 100 {
			q.Add(fmt.Sprint(i))
		}
		time.AfterFunc(5500*time.Millisecond, stop)
		handled := 0
		start := time.Now()
		err := workqueue.Run(ctx, q, func(context.Context, string) error { handled++; return nil }, workqueue.RunOptions[string]{
			OnStop: func(s workqueue.Snapshot[string]) {
				if s.QueuedTotal+handled != 100 || handled != 6 {
					t.Errorf("%d are handled and %d left", handled, s.QueuedTotal)
				}
			},
		})
		if err != nil || time.Since(start) != 5500*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// The same for items that no Remove can name.
func TestRunEndsWithoutThePaceOfItemsThatDifferFromThemselves(t *testing.T) {
	q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[float64](), workqueue.TypedRateLimitingQueueConfig[float64]{
		Pace: rate.NewLimiter(rate.Every(time.Hour), 0)})
	q.AddAll(math.NaN(), math.NaN())
	ctx, stop := context.WithCancel(t.Context())
	stop()
	left := 0
	err := workqueue.Run(ctx, q, func(context.Context, float64) error { return nil }, workqueue.RunOptions[float64]{
		OnStop: func(s workqueue.Snapshot[float64]) { left = s.QueuedTotal }})
	if err != nil || left != 2 || q.Len() != 0 {
		t.Errorf("got %v, %d items in the list, %d in the queue", err, left, q.Len())
	}
}

// Workers that come and go, adds and changes of the limit, in real time.
func TestPaceUnderLoad(t *testing.T) {
	limiter := rate.NewLimiter(50_000, 10)
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Pace: limiter})
	var over sync.WaitGroup
	var got atomic.Int64
	for w := range 8 {
		over.Go(func() {
			for i := 0; ; i++ {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+w*i%7)*100*time.Microsecond)
				item, err := q.GetContext(ctx)
				cancel()
				switch {
				case errors.Is(err, workqueue.ErrShutDown):
					return
				case err == nil:
					got.Add(1)
					q.Done(item)
				}
			}
		})
	}
	const n = 5000
	for i := range n {
		q.Add(i)
		switch {
		case i%500 == 0:
			limiter.SetLimit(rate.Limit(10_000 + i*20))
		case i%50 == 0:
			checkInvariants(t, i, q)
		}
	}
	limiter.SetLimit(rate.Inf)
	if err := q.Drain(context.Background()); err != nil || got.Load() != n {
		t.Errorf("%v, %d of %d", err, got.Load(), n)
	}
	over.Wait()
	checkInvariants(t, n, q)
}
