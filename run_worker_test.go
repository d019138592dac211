package workqueue_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// An item is failed first and done then: whoever gets it in between would find
// its failure not counted.
func TestRunCountsAFailureBeforeDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, ourQueue)
		limiter := hookedLimiter{constant(time.Second), func() { s.note("limited") }, func() { s.note("forget") }}
		q := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: s.ours.Delaying()})
		s.queue = &replacing{TypedRateLimiting: q, done: func(item string) { s.note("done"); q.Done(item) }}
		s.queue.Add("a")
		s.run(runOptions{}, replies(fails, requeues(time.Second), permanently))
		time.Sleep(10 * time.Second)
		s.want("0:a 0:limited 0:done 1:a 1:forget 1:done 2:a 2:forget 2:done")
		s.queue.Add("a")
		s.want("10:a 10:forget 10:done")
		s.stop()
		s.end()
	})
}

func TestRunWorkers(t *testing.T) {
	for _, workers := range []int{0, 1, 3} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				for i := range 7 {
					s.queue.Add(itemOf(i))
				}
				var atWork, most int
				s.run(runOptions{Workers: workers}, func(context.Context, string) error {
					s.mu.Lock()
					atWork++
					most = max(most, atWork)
					s.mu.Unlock()
					time.Sleep(time.Second)
					s.mu.Lock()
					atWork--
					s.mu.Unlock()
					return nil
				})
				time.Sleep(10 * time.Second)
				s.stop()
				s.end()
				if want := max(1, workers); most != want || len(s.events) != 8 {
					t.Errorf("got %d items at a time in %d events, want %d in 8", most, len(s.events), want)
				}
			})
		})
	}
}

// The workers live on after foreign code has ended one: as many as before.
func TestRunReplacesWorkers(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		for i := range 4 {
			s.queue.Add(itemOf(i))
		}
		s.run(runOptions{Workers: 2}, func(context.Context, string) error {
			if time.Since(s.start) == 0 {
				runtime.Goexit()
			}
			time.Sleep(time.Second)
			return nil
		})
		time.Sleep(1500 * time.Millisecond) // All are back after a second.
		if n := s.fifo.Held(); n != 2 {
			t.Errorf("%d items are held by 2 workers", n)
		}
		time.Sleep(10 * time.Second)
		s.stop()
		if err := s.end(); err != nil || len(s.events) != 9 {
			t.Errorf("got %v, %q, want each item twice", err, s.events)
		}
	})
}

// A limiter that ends the goroutine costs the retry, and no worker.
func TestRunWithALimiterThatEndsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, ourQueue)
		limiter := hookedLimiter{constant(0), runtime.Goexit, func() {}}
		s.queue = workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: s.ours.Delaying()})
		s.queue.Add("a")
		s.queue.Add("b")
		s.run(runOptions{}, replies(fails))
		time.Sleep(10 * time.Second)
		s.want("0:a 0:b")
		s.queue.Add("a")
		s.want("10:a")
		s.stop()
		s.end()
	})
}

// A clock that ended the worker left OnResult the context of the item before.
func TestRunWithAClockThatEndsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &exitingClock{}
		q := workqueue.NewTypedRateLimiting(constant(time.Hour), workqueue.TypedRateLimitingQueueConfig[string]{Clock: c})
		var results []string
		w := startWait(func(ctx context.Context) error {
			return workqueue.Run(ctx, q, func(context.Context, string) error { return errFailed }, runOptions{
				OnResult: func(ctx context.Context, item string, r workqueue.HandlerResult) {
					info, _ := workqueue.ItemInfoFromContext[string](ctx)
					results = append(results, fmt.Sprintf("%s %s %v %v", item, info.Item, r.Err, r.Took))
				},
			})
		})
		q.Add("a")
		time.Sleep(61 * time.Second) // Between two looks of waitingLoop, which reads the clock each 10 s.
		c.exit.Store(true)
		q.Add("b") // With a failed item, a hand-out reads the clock.
		time.Sleep(time.Minute)
		w.cancel()
		<-w.ended
		if got, want := fmt.Sprint(results), "[a a failed 0s b b workqueue: handler called runtime.Goexit 0s]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// exitingClock ends the goroutine of its next reader.
type exitingClock struct {
	clock.RealClock
	exit atomic.Bool
}

func (c *exitingClock) Since(t time.Time) time.Duration {
	if c.exit.Swap(false) {
		runtime.Goexit()
	}
	return c.RealClock.Since(t)
}

// A Done that ends the worker's goroutine is not called a second time: by then the item can
// be held by another worker.
func TestRunCallsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, ourQueue)
		calls := 0
		s.queue = &replacing{TypedRateLimiting: s.ours, done: func(item string) {
			s.ours.Done(item)
			if calls++; calls == 1 {
				runtime.Goexit()
			}
		}}
		s.queue.Add("a")
		s.queue.Add("b")
		s.run(runOptions{}, replies())
		s.want("0:a 0:b")
		if calls != 2 {
			t.Errorf("got %d calls of Done for 2 items", calls)
		}
		s.stop()
		s.end()
	})
}

// A worker that has had no item yet is not done with any, such as the zero value.
func TestRunDoesNothingWithTheZeroItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, ourQueue)
		s.queue.Add("")
		s.run(runOptions{Workers: 9}, func(context.Context, string) error {
			time.Sleep(time.Second)
			if n := s.fifo.Held(); n != 1 {
				t.Errorf("%d items are held, want 1", n)
			}
			return nil
		})
		time.Sleep(2 * time.Second)
		s.stop()
		s.end()
	})
}

// runUntil runs with one worker until the n-th call of the handler has returned. A panic is
// one of the test.
func runUntil(t *testing.T, q rateLimited, n int, options runOptions, handle func(ctx context.Context, item string) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	options.Logger = discard()
	err := workqueue.Run(ctx, q, func(ctx context.Context, item string) error {
		if n--; n == 0 {
			defer cancel()
		}
		defer func() {
			if v := recover(); v != nil {
				t.Errorf("the handler of %s has panicked: %v", item, v)
			}
		}()
		return handle(ctx, item)
	}, options)
	if err != nil {
		t.Errorf("got %v from Run", err)
	}
}

func succeeding(context.Context, string) error { return nil }

// Metrics that are pushed are told of the end of each hand-out before they are told of the next
// hand-out, although a worker goes from one item to the next in one step where nobody is told.
func TestRunTellsPushedMetricsOfEachHandOut(t *testing.T) {
	r := &recorder{}
	q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{
		Name: "q", MetricsProvider: r, Clock: testingclock.NewFakeClock(epoch),
	})
	q.AddAll("a", "b", "c")
	r.take()
	runUntil(t, q, 3, runOptions{}, succeeding)
	want := "depth-1 latency(0) work(0) depth-1 latency(0) work(0) depth-1 latency(0) work(0)"
	if got := strings.Join(r.take(), " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Each item comes again with its own priority, and not with that of the item before it.
func TestRunRetriesEachItemWithItsOwnPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{
			Order: workqueue.Order[string]{},
		})
		q.AddWith(workqueue.AddOptions{Priority: prio(7)}, "a")
		q.AddWith(workqueue.AddOptions{Priority: prio(3)}, "b")
		q.Add("c")
		var got []string
		runUntil(t, q, 9, runOptions{}, func(_ context.Context, item string) error {
			for _, info := range q.Snapshot(1).InFlight {
				got = append(got, fmt.Sprint(item, info.Priority))
			}
			time.Sleep(400 * time.Millisecond) // The first is due again when the last ends.
			return errFailed
		})
		want := []string{"a7", "b3", "c0", "a7", "b3", "c0", "a7", "b3", "c0"}
		if !slices.Equal(got, want) {
			t.Errorf("handed out %v, want %v", got, want)
		}
	})
}

// Foreign code of the queue that ends the worker's goroutine between two items leaves the
// queue unlocked, and another worker goes on.
func TestRunWithAStorageThatEndsTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		order := &shelf[string]{}
		pops := 0
		order.hook = func(call string) {
			if call == "pop" {
				if pops++; pops == 2 {
					runtime.Goexit()
				}
			}
		}
		q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: order}),
		})
		q.AddAll("a", "b")
		runUntil(t, q, 2, runOptions{}, succeeding)
		if pops != 3 {
			t.Errorf("got %d calls of Pop, want 3", pops)
		}
	})
}

// An item that differs from itself is given back with the time of that.
func TestRunGivesBackWhatDiffersFromItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		q, _ := newEndingOnHandOut[float64](stop)
		q.Add(math.NaN())
		time.Sleep(time.Minute)
		err := workqueue.Run(ctx, q, func(context.Context, float64) error { return nil }, workqueue.RunOptions[float64]{AtEnd: workqueue.EndKeep})
		time.Sleep(time.Second)
		if s := q.Snapshot(2); err != nil || s.QueuedTotal != 1 || s.Queued[0].Age != time.Second {
			t.Errorf("got %v and %+v, want one item that was queued for a second", err, s)
		}
		q.ShutDown()
	})
}

// After a Run whose queue waited for a retry, the item can be forgotten as before.
func TestForgetAfterARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(constant(time.Hour), workqueue.TypedRateLimitingQueueConfig[string]{})
		q.Add("a")
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		workqueue.Run(ctx, q, func(context.Context, string) error { return errFailed }, runOptions{Logger: discard(), OnStop: func(context.Context, workqueue.Snapshot[string]) {}})
		if n := q.Attempts(); n != 1 {
			t.Errorf("the failures of %d items are counted", n)
		}
		q.Forget("a")
		if n := q.Attempts(); n != 0 {
			t.Errorf("the failures of %d items are counted after Forget", n)
		}
	})
}

// A drain does not wait for an item that differs from itself once it is handed out, as no
// Done can name it.
func TestDrainDoesNotWaitForTheHandlerOfWhatDiffersFromItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[float64](), workqueue.TypedRateLimitingQueueConfig[float64]{})
		q.Add(1)
		drained := make(chan struct{})
		err := workqueue.Run(context.Background(), q, func(_ context.Context, item float64) error {
			if item == 1 {
				q.Add(math.NaN())
				go func() {
					defer close(drained)
					q.ShutDownWithDrain()
				}()
				synctest.Wait()
				return nil
			}
			<-drained
			return nil
		}, workqueue.RunOptions[float64]{Logger: discard()})
		if err != workqueue.ErrShutDown {
			t.Error(err)
		}
	})
}

// The handler has called Done itself. The Done of Run ends no second hand-out, and none is observed.
func TestRunObservesNothingAfterADoneByHand(t *testing.T) {
	q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{
		Name: "q", MetricsProvider: workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{})})
	q.AddAll("a", "b")
	runUntil(t, q, 2, runOptions{}, func(_ context.Context, item string) error {
		q.Done(item)
		return nil
	})
	if n := q.Stats().WorkDuration.Count; n != 2 {
		t.Errorf("%d hand-outs are observed, want 2", n)
	}
}

// A retry without a delay, and a handler that was cut short, are queued by Done and not by an add. The counters
// that are read and those that are pushed count them as an add does.
func TestCountsOfEachEndOfAHandOut(t *testing.T) {
	type queue = *workqueue.TypedRateLimiting[string]
	returns := func(err error) func(context.Context, queue) error {
		return func(context.Context, queue) error { return err }
	}
	for name, tt := range map[string]struct {
		first                     func(ctx context.Context, q queue) error
		adds, duplicates, retries int
	}{
		"succeeds":                  {returns(nil), 1, 0, 0},
		"is given up":               {returns(workqueue.Permanent(errFailed)), 1, 0, 0},
		"fails":                     {returns(errFailed), 2, 0, 1},
		"comes at once":             {returns(workqueue.RequeueAfter(0)), 2, 0, 1},
		"succeeds, added meanwhile": {func(_ context.Context, q queue) error { q.Add("a"); return nil }, 2, 0, 0},
		"fails, added meanwhile":    {func(_ context.Context, q queue) error { q.Add("a"); return errFailed }, 2, 1, 1},
		"fails, removed meanwhile":  {func(_ context.Context, q queue) error { q.Remove("a"); return errFailed }, 1, 0, 0},
		"fails, removed and added":  {func(_ context.Context, q queue) error { q.Remove("a"); q.Add("a"); return errFailed }, 2, 0, 0},
		"fails after its Done":      {func(_ context.Context, q queue) error { q.Done("a"); return errFailed }, 2, 0, 1},
		"cut short":                 {func(ctx context.Context, q queue) error { q.Add("a"); <-ctx.Done(); return ctx.Err() }, 2, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			metrics := &recorder{}
			for _, provider := range []workqueue.MetricsProvider{metrics, workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{})} {
				synctest.Test(t, func(t *testing.T) {
					q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: provider})
					q.Add("a")
					ctx, stop := context.WithCancel(t.Context())
					calls := 0
					go func() {
						synctest.Wait()
						stop()
					}()
					err := workqueue.Run(ctx, q, func(ctx context.Context, _ string) error {
						if calls++; calls == 1 {
							return tt.first(ctx, q)
						}
						return nil
					}, runOptions{CancelOnReAdd: 1, Logger: discard()})
					s := q.Stats()
					if provider == metrics { // It knows no duplicates.
						of := map[string]uint64{}
						for _, event := range metrics.take() {
							of[event]++
						}
						s.Adds, s.Retries, s.Duplicates = of["adds+1"], of["retries+1"], uint64(tt.duplicates)
					}
					if err != nil || s.Adds != uint64(tt.adds) || s.Duplicates != uint64(tt.duplicates) || s.Retries != uint64(tt.retries) {
						t.Errorf("%T: %d adds, %d duplicates and %d retries, want %d, %d and %d; Run has returned %v",
							provider, s.Adds, s.Duplicates, s.Retries, tt.adds, tt.duplicates, tt.retries, err)
					}
				})
			}
		})
	}
}

// A noted limiter is one of somebody's own, that counts the calls of Forget.
type noted struct {
	workqueue.TypedRateLimiter[string]
	forgotten int
}

func (l *noted) Forget(item string) { l.forgotten++; l.TypedRateLimiter.Forget(item) }

func newNoted() *noted {
	return &noted{TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour)}
}

// Whatever limiters are put together, each forgets an item that has succeeded. One that
// is not ours is told of each success, and once.
func TestRunHasEachLimiterForget(t *testing.T) {
	own := newNoted()
	within := func(l workqueue.TypedRateLimiter[string]) workqueue.TypedRateLimiter[string] {
		return workqueue.NewTypedMaxOfRateLimiter(workqueue.NewTypedItemFastSlowRateLimiter[string](time.Second, time.Second, 1),
			workqueue.NewTypedWithMaxWaitRateLimiter(l, time.Minute))
	}
	limiters := allLimiters[string]()
	limiters["of somebody's own"] = own
	limiters["within others"] = within(newNoted())
	for name, limiter := range limiters {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{})
			q.Add("a")
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				time.Sleep(time.Hour)
				cancel()
			}()
			workqueue.Run(ctx, q, replies(fails, fails), runOptions{Logger: discard()})
			if n := limiter.NumRequeues("a"); n != 0 {
				t.Errorf("%s: %d failures are known after a success", name, n)
			}
		})
	}
	if own.forgotten != 1 {
		t.Errorf("Forget was called %d times for one success", own.forgotten)
	}
}

// An item that is on its way to a worker when ctx ends is not handled any more,
// and is left behind by name, whether or not it is the zero value.
func TestRunHandOutAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, ourQueue)
		s.queue = &replacing{TypedRateLimiting: s.ours, getInfo: func(ctx context.Context) (workqueue.ItemInfo[string], error) {
			defer s.stop()
			return s.ours.GetInfo(ctx)
		}}
		s.run(runOptions{}, replies())
		synctest.Wait()
		s.ours.AddAll("", "b") // Together: the end of Run refuses an add after it.
		got := s.left()
		s.want("0:end")
		if want := "queued[ b] held[] waiting[]: <nil>"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if first, second := s.stopped.Queued[0], s.stopped.Queued[1]; first.Position != 0 || second.Position != 1 {
			t.Errorf("got the positions %d and %d, want none for what was handed out, and 1", first.Position, second.Position)
		}
	})
}

// A GetInfo that fails for a reason of its own ends Run with that.
func TestRunOnAQueueThatFails(t *testing.T) {
	q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](), workqueue.TypedRateLimitingQueueConfig[string]{})
	defer q.ShutDown()
	failing := &replacing{TypedRateLimiting: q, getInfo: func(context.Context) (workqueue.ItemInfo[string], error) {
		return workqueue.ItemInfo[string]{}, errFailed
	}}
	told := 0
	err := workqueue.Run(t.Context(), failing, replies(), runOptions{Workers: 3, OnStop: func(context.Context, workqueue.Snapshot[string]) { told++ }})
	if !errors.Is(err, errFailed) || errors.Is(err, workqueue.ErrShutDown) || told != 1 {
		t.Errorf("got %v and %d calls of OnStop, want only that it failed, and one call", err, told)
	}
}

// An item that fails, is put off or is overtaken comes again with the priority that it
// was handed out with, if that is the least above that of Add too, and whatever the Order answers by then.
func TestRunRetriesWithThePriorityOfTheHandOut(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context, q *workqueue.TypedRateLimiting[string]) error{
		"failure": func(context.Context, *workqueue.TypedRateLimiting[string]) error { return errors.New("failed") },
		"failure, at once": func(context.Context, *workqueue.TypedRateLimiting[string]) error {
			return workqueue.RetryAfter(0, errFailed)
		},
		"put off": func(context.Context, *workqueue.TypedRateLimiting[string]) error {
			return workqueue.RequeueAfter(time.Second)
		},
		"overtaken": func(ctx context.Context, q *workqueue.TypedRateLimiting[string]) error {
			q.Add("a")
			return ctx.Err()
		},
	} {
		for n := range 4 {
			of, embeds := n%2 == 0, n/2 == 0
			synctest.Test(t, func(t *testing.T) {
				order := workqueue.Order[string]{}
				if of {
					next := 2
					order.Priority = func(string) int { next--; return next }
				}
				q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{
					Order: order,
				})
				q.AddWith(workqueue.AddOptions{Priority: map[bool]*int{false: prio(1)}[of]}, "a")
				var queue rateLimited = q
				if embeds {
					queue = &embedding[string]{TypedRateLimiting: q}
				}
				var seen []int
				ctx, cancel := context.WithCancel(t.Context())
				workqueue.Run(ctx, queue, func(ctx context.Context, item string) error {
					for _, info := range q.Snapshot(1).InFlight {
						seen = append(seen, info.Priority)
					}
					if info, _ := workqueue.ItemInfoFromContext[string](ctx); info.Priority != seen[len(seen)-1] {
						t.Errorf("%s: the context has the priority %d, want %d", name, info.Priority, seen[len(seen)-1])
					}
					if len(seen) == 3 {
						cancel()
						return nil
					}
					return fail(ctx, q)
				}, workqueue.RunOptions[string]{CancelOnReAdd: map[string]int{"overtaken": 3}[name]})
				if !slices.Equal(seen, []int{1, 1, 1}) {
					t.Errorf("%s, by Order %v, embedding type %v: handed out with the priorities %v, want 1 each time", name, of, embeds, seen)
				}
			})
		}
	}
}

// An item that was handed out at 5, and cut short by an Add at -5, came back behind all items
// of 0. So did each item whose work a resync at a low priority has cut short.
func TestWhatIsCutShortComesBackAtTheHigherPriority(t *testing.T) {
	for name, tt := range map[string]struct {
		first, again *int
		want         int
	}{
		"an Add below":             {prio(5), prio(-5), 5},
		"an Add above":             {prio(-5), prio(5), 5},
		"an Add below no priority": {nil, prio(-100), 0},
		"an Add without priority":  {prio(5), nil, 5},
	} {
		for _, end := range []bool{false, true} { // Whether it is the end of Run that cuts it short.
			t.Run(fmt.Sprint(name, ", end ", end), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newShow(t, ourQueue)
					s.ours.AddWith(workqueue.AddOptions{Priority: tt.first}, "a")
					calls := 0
					s.run(runOptions{AtEnd: workqueue.EndKeep, CancelOnReAdd: map[bool]int{false: 2}[end]}, func(ctx context.Context, item string) error {
						if calls++; calls > 1 {
							if info, _ := workqueue.ItemInfoFromContext[string](ctx); info.Priority != tt.want {
								t.Errorf("came back at %d, want %d", info.Priority, tt.want)
							}
							return nil
						}
						s.ours.AddWith(workqueue.AddOptions{Priority: tt.again}, item)
						if end {
							s.stop()
						}
						return ctx.Err()
					})
					synctest.Wait()
					if left := s.ours.Snapshot(1); end && (left.QueuedTotal != 1 || left.Queued[0].Priority != tt.want) {
						t.Errorf("the queue has %+v, want a at %d", left, tt.want)
					}
					s.stop()
					<-s.ended
					s.queue.ShutDown()
				})
			})
		}
	}
}

// onReAdd plays a show in which an Add of the item cancels the handler.
func onReAdd(t *testing.T, options runOptions, play func(s *show) func(context.Context, string) error, then func(s *show)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, ourQueue)
		s.queue.Add("a")
		options.CancelOnReAdd = cmp.Or(options.CancelOnReAdd, 3)
		s.run(options, play(s))
		then(s)
		s.stop()
		s.end()
	})
}

func TestRunCancelsOnReAdd(t *testing.T) {
	for name, tt := range map[string]struct {
		during  func(s *show) // at 1 s
		options runOptions
		want    string
	}{
		"Add":                      {func(s *show) { s.queue.Add("a") }, runOptions{}, "0:a 1:a ends: workqueue: item was added again 1:a"},
		"AddAfter, when it is due": {func(s *show) { s.queue.AddAfter("a", 2*time.Second) }, runOptions{}, "0:a 3:a ends: workqueue: item was added again 3:a"},
		"AddAll":                   {func(s *show) { s.fifo.AddAll("b", "a") }, runOptions{}, "0:a 1:a ends: workqueue: item was added again 1:b"},
		"many Adds":                {func(s *show) { s.fifo.AddAll("a", "a"); s.queue.Add("a") }, runOptions{}, "0:a 1:a ends: workqueue: item was added again 1:a"},
		"Add of another item":      {func(s *show) { s.queue.Add("b") }, runOptions{}, "0:a"},
		"in a deadline":            {func(s *show) { s.queue.Add("a") }, runOptions{Timeout: time.Minute}, "0:a 1:a ends: workqueue: item was added again 1:a"},
		"in grace":                 {func(s *show) { s.stop(); time.Sleep(time.Second); s.queue.Add("a") }, runOptions{Grace: 5 * time.Second}, "0:a"},
	} {
		t.Run(name, func(t *testing.T) {
			onReAdd(t, tt.options, func(s *show) func(context.Context, string) error { return s.cut }, func(s *show) {
				time.Sleep(time.Second)
				tt.during(s)
				time.Sleep(3 * time.Second)
				s.want(tt.want)
			})
		})
	}
}

// An error of the context is a failure if it was not the re-add that ended it.
func TestRunCountsADeadlineBeforeAReAdd(t *testing.T) {
	calls := 0
	onReAdd(t, runOptions{Timeout: time.Second}, func(s *show) func(context.Context, string) error {
		return func(ctx context.Context, item string) error {
			if calls++; calls > 1 {
				return nil
			}
			<-ctx.Done()
			time.Sleep(2 * time.Second)
			return ctx.Err()
		}
	}, func(s *show) {
		time.Sleep(2 * time.Second)
		s.queue.Add("a")
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if got := s.log.String(); !strings.Contains(got, "failures=1") {
			t.Errorf("logged %q", got)
		}
		s.want("0:a 3:a")
	})
}

// An Add between the hand-out and the handler's start is not missed: the
// handler starts with a context that has ended.
func TestRunReAddBeforeTheHandlerStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, ourQueue)
		reAdd := sync.OnceFunc(func() { s.ours.Add("a") })
		s.queue = &replacing{TypedRateLimiting: s.ours, getInfo: func(ctx context.Context) (workqueue.ItemInfo[string], error) {
			defer reAdd()
			return s.ours.GetInfo(ctx)
		}}
		s.queue.Add("a")
		s.run(runOptions{CancelOnReAdd: 3}, s.cut)
		s.want("0:a 0:a ends: workqueue: item was added again 0:a")
		s.stop()
		s.end()
	})
}

// A handler whose own status write adds its item was cancelled in every run, as fast as
// the queue could hand it out. The fourth run comes to its end, and the count starts
// anew.
func TestRunCancelsNoMoreThanCancelOnReAddSays(t *testing.T) {
	for most, want := range map[int]string{
		3: "0:a 0:cut 0:a 0:cut 0:a 0:cut 0:a 1:a 1:cut 1:a 1:cut 1:a 1:cut 1:a",
		1: "0:a 0:cut 0:a 1:a 1:cut 1:a",
	} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			onReAdd(t, runOptions{CancelOnReAdd: most, MaxAttempts: 1}, func(s *show) func(context.Context, string) error {
				return func(ctx context.Context, item string) error {
					if time.Since(s.start) < 1500*time.Millisecond {
						s.queue.Add(item) // The status.
					}
					select {
					case <-ctx.Done():
						s.note("cut")
						return context.Cause(ctx)
					case <-time.After(time.Second):
						return nil
					}
				}
			}, func(s *show) {
				time.Sleep(1900 * time.Millisecond)
				s.want(want)
				line := fmt.Sprintf("as its item was added again in each run\" item=a cancels=%d\n", most)
				if got := strings.Count(s.log.String(), line); got != 2 {
					t.Errorf("%d lines say so, want 2, in %s", got, s.log.String())
				}
			})
		})
	}
}

// An item that was cut short and then removed for good was counted until the end of the Run. Cancels
// before a removal are not in a row with those after the removal.
func TestCancelsBeforeARemovalDoNotCount(t *testing.T) {
	for name, remove := range map[string]func(q *workqueue.TypedRateLimiting[string]){
		"Remove": func(q *workqueue.TypedRateLimiting[string]) { q.Remove("a") },
		"RemoveFunc": func(q *workqueue.TypedRateLimiting[string]) {
			q.RemoveFunc(func(item string) bool { return item == "a" })
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, ourQueue)
			s.run(runOptions{CancelOnReAdd: 1}, func(ctx context.Context, item string) error {
				select {
				case <-ctx.Done():
					s.note("cut")
					return context.Cause(ctx)
				case <-time.After(time.Second):
					return nil
				}
			})
			for range 3 {
				s.queue.Add("a")
				synctest.Wait()
				s.queue.Add("b") // The worker has b when a is removed.
				s.queue.Add("a")
				synctest.Wait()
				remove(s.ours)
				if n := s.ours.Attempts(); n != 0 {
					t.Errorf("%s: %d items are counted", name, n)
				}
				time.Sleep(2 * time.Second)
			}
			s.want("0:a 0:cut 0:b 2:a 2:cut 2:b 4:a 4:cut 4:b")
			s.stop()
			s.end()
		})
	}
}

// An Add that cancels a handler has the lock, and so must not ask the context of
// the caller anything: one that then called the queue would wait for that Add.
func TestRunAsksNoForeignContextWithTheLock(t *testing.T) {
	for name, options := range map[string]runOptions{
		"alone":           {},
		"with a deadline": {Timeout: time.Minute},
		"with grace":      {Grace: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShow(t, ourQueue)
				var adding, asked atomic.Bool
				inner, stop := context.WithCancel(t.Context())
				ctx := callingContext{inner, func() {
					// The worker may ask at the same time, without the lock.
					if adding.Load() && s.fifo.Locked() && strings.Contains(string(debug.Stack()), ".tellWatcher(") {
						asked.Store(true)
					}
				}}
				options.CancelOnReAdd = 3
				s.queue.Add("a")
				s.ctx, s.stop = ctx, stop
				go func() {
					defer close(s.ended)
					s.result = workqueue.Run(ctx, s.queue, s.cut, options)
				}()
				synctest.Wait()
				adding.Store(true)
				s.queue.Add("a")
				adding.Store(false)
				s.want("0:a ends: workqueue: item was added again")
				if asked.Load() {
					t.Error("the context was asked while the queue was locked")
				}
				s.stop()
				s.end()
			})
		})
	}
}

// What the end of an early hand-out makes of the item, which has failed once: the retry is due at 10 s, and
// the hand-out is at 1 s.
func TestEarlyFailure(t *testing.T) {
	for _, brings := range []string{"Add", "Wake", "Reschedule"} {
		for name, tt := range map[string]struct {
			handle func(q *workqueue.TypedRateLimiting[string]) error
			want   string // the second result, and when the third call comes
		}{
			"an error": {func(*workqueue.TypedRateLimiting[string]) error { return errFailed }, "failed 1 true, 10s"},
			"RetryAfter 2s": {func(*workqueue.TypedRateLimiting[string]) error {
				return workqueue.RetryAfter(2*time.Second, errFailed)
			}, "failed 1 true, 3s"},
			"RetryAfter 20s": {func(*workqueue.TypedRateLimiting[string]) error {
				return workqueue.RetryAfter(20*time.Second, errFailed)
			}, "failed 1 true, 10s"},
			"Requeue": {func(*workqueue.TypedRateLimiting[string]) error { return workqueue.Requeue() }, "requeued 1 true, 10s"},
			"error and defer": {func(*workqueue.TypedRateLimiting[string]) error {
				return errors.Join(errFailed, workqueue.DeferFor(30*time.Second))
			}, "failed 1 true, 31s"},
			"error and short defer": {func(*workqueue.TypedRateLimiting[string]) error {
				return errors.Join(errFailed, workqueue.DeferFor(2*time.Second))
			}, "failed 1 true, 10s"},
			"DeferFor":         {func(*workqueue.TypedRateLimiting[string]) error { return workqueue.DeferFor(30 * time.Second) }, "deferred 1 false, 31s"},
			"RequeueAfter":     {func(*workqueue.TypedRateLimiting[string]) error { return workqueue.RequeueAfter(2 * time.Second) }, "requeued 0 false, 3s"},
			"Permanent":        {func(*workqueue.TypedRateLimiting[string]) error { return workqueue.Permanent(errFailed) }, "given_up 2 false, 0s"},
			"after a Forget":   {func(q *workqueue.TypedRateLimiting[string]) error { q.Forget("a"); return errFailed }, "failed 1 false, 11s"},
			"a panic":          {func(*workqueue.TypedRateLimiting[string]) error { panic("early") }, "failed 1 true, 10s"},
			"too many, though": {func(*workqueue.TypedRateLimiting[string]) error { return errFailed }, "failed 1 true, 10s"},
		} {
			synctest.Test(t, func(t *testing.T) {
				q := workqueue.NewTypedRateLimiting(constant(10*time.Second), workqueue.TypedRateLimitingQueueConfig[string]{OneEntry: true})
				var log bytes.Buffer
				logger := logr.FromSlogHandler(slog.NewTextHandler(&log, nil))
				options := runOptions{Logger: &logger, MaxAttempts: 2}
				start := time.Now()
				calls, second := 0, ""
				var third time.Duration
				options.OnResult = func(_ context.Context, _ string, r workqueue.HandlerResult) {
					if calls == 2 {
						second = fmt.Sprint(r.Outcome, " ", r.Failures, " ", r.Early)
					}
				}
				go workqueue.Run(t.Context(), q, func(context.Context, string) error {
					switch calls++; calls {
					case 1:
						return errFailed
					case 2:
						return tt.handle(q)
					case 3:
						third = time.Since(start)
					}
					return nil
				}, options)
				q.Add("a")
				time.Sleep(time.Second)
				switch brings {
				case "Add":
					q.Add("a")
				case "Wake":
					q.Wake("a")
				case "Reschedule":
					q.Reschedule("a", 0)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := fmt.Sprint(second, ", ", third); got != tt.want {
					t.Errorf("%s by %s: got %s, want %s", name, brings, got, tt.want)
				}
				if says := strings.Contains(log.String(), "early=true"); says != strings.HasPrefix(tt.want, "failed 1 true") {
					t.Errorf("%s by %s: the log is %s", name, brings, log.String())
				}
				q.ShutDown()
				synctest.Wait()
			})
		}
	}
}

// An early failure does not move the time from which failures count again, also if a DeferFor beside it has
// the item wait for longer.
func TestAfterAnEarlyDeferralFailuresCountFromTheFirstRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLimited(constant(10 * time.Second))
		q.Add("a")
		var got []string
		run := runOptions{Logger: discard(), OnResult: func(_ context.Context, _ string, r workqueue.HandlerResult) {
			got = append(got, fmt.Sprint(r.Failures, " ", r.Early))
		}}
		go workqueue.Run(t.Context(), q, func(context.Context, string) error {
			if len(got) == 1 {
				return errors.Join(errFailed, workqueue.DeferFor(time.Hour))
			}
			return errFailed
		}, run)
		time.Sleep(time.Second)
		q.Wake("a") // 9 s too early.
		time.Sleep(20 * time.Second)
		q.Wake("a")
		synctest.Wait()
		if want := "[1 false 1 true 2 false]"; fmt.Sprint(got) != want {
			t.Errorf("got the failures %v, want %s", got, want)
		}
		q.ShutDown()
		synctest.Wait()
	})
}
