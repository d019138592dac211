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
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// Run counts a failure before Done. A worker that got the item in between would not see the failure.
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

// runUntil runs with one worker until the n-th call of the handler has returned. A panic of the handler
// fails the test.
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

// Pushed metrics hear of the end of each hand-out before the next hand-out. Without metrics, a worker goes
// from item to item in a single step.
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

// Done, and not an add, queues an item without a delay, and an item whose handler was cut short. Read and
// pushed counters count both as adds.
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
					if provider == metrics { // The recorder has no duplicates.
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

// The context of Run ends while the handler is at work. OnResult was told that an item comes again which Run then
// took out of the queue.
func TestRunTellsWhetherWhatEndsLateComesAgain(t *testing.T) {
	type queue = *workqueue.TypedRateLimiting[string]
	for name, tt := range map[string]struct {
		first             func(ctx context.Context, q queue) error
		stop, drain, keep string
	}{
		"fails":         {func(context.Context, queue) error { return errFailed }, "failed false 0s", "failed true 1s", "failed true 1s"},
		"comes later":   {func(context.Context, queue) error { return workqueue.RequeueAfter(time.Minute) }, "requeued false 0s", "requeued true 1m0s", "requeued true 1m0s"},
		"is put off":    {func(context.Context, queue) error { return workqueue.DeferFor(time.Minute) }, "deferred false 0s", "deferred true 1m0s", "deferred true 1m0s"},
		"added again":   {func(ctx context.Context, q queue) error { q.Add("a"); return ctx.Err() }, "readded false 0s", "readded true 0s", "readded true 0s"},
		"a new version": {func(_ context.Context, q queue) error { q.Remove("a"); q.Add("a"); return errFailed }, "removed false 0s", "removed true 0s", "removed true 0s"},
	} {
		for end, want := range map[workqueue.End]string{workqueue.EndStop: tt.stop, workqueue.EndDrain: tt.drain, workqueue.EndKeep: tt.keep} {
			synctest.Test(t, func(t *testing.T) {
				q := newLimited(constant(time.Second))
				q.Add("a")
				ctx, stop := context.WithCancel(t.Context())
				var got []string
				options := runOptions{AtEnd: end, CancelOnReAdd: 1, Logger: discard(), OnStop: func(context.Context, workqueue.Snapshot[string]) {}}
				if end == workqueue.EndDrain {
					options.Grace = time.Hour
				}
				options.OnResult = func(_ context.Context, _ string, r workqueue.HandlerResult) {
					got = append(got, fmt.Sprint(r.Outcome, r.Again, r.After))
				}
				workqueue.Run(ctx, q, func(ctx context.Context, _ string) error {
					if len(got) > 0 {
						return nil
					}
					err := tt.first(ctx, q)
					stop()
					return err
				}, options)
				if len(got) == 0 || got[0] != want {
					t.Errorf("%s, %v: told %q, want %s", name, end, got, want)
				}
				q.ShutDown()
			})
		}
	}
}

// A noted limiter is a limiter of a caller, and counts the calls of Forget.
type noted struct {
	workqueue.TypedRateLimiter[string]
	forgotten int
}

func (l *noted) Forget(item string) { l.forgotten++; l.TypedRateLimiter.Forget(item) }

func newNoted() *noted {
	return &noted{TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour)}
}

// Each of several nested limiters forgets an item after its success. A foreign limiter hears of each success
// once.
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

// An item on its way to a worker when ctx ends is not handled. OnStop names the item, the zero value too.
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

// Run ends with the error of GetInfo. The error can be about another queue that was shut down: Run then took its own
// queue for shut down, and returned nil.
func TestRunOnAQueueThatFails(t *testing.T) {
	for _, failure := range []error{errFailed, fmt.Errorf("the queue behind: %w", workqueue.ErrShutDown)} {
		for _, end := range []workqueue.End{workqueue.EndStop, workqueue.EndDrain, workqueue.EndKeep} {
			q := newLimited(constant(time.Second))
			failing := &replacing{TypedRateLimiting: q, getInfo: func(context.Context) (workqueue.ItemInfo[string], error) {
				return workqueue.ItemInfo[string]{}, failure
			}}
			told := 0
			options := runOptions{Workers: 3, AtEnd: end, OnStop: func(context.Context, workqueue.Snapshot[string]) { told++ }}
			if end == workqueue.EndDrain {
				options.Grace = time.Hour
			}
			if err := workqueue.Run(t.Context(), failing, replies(), options); err != failure || told != 1 {
				t.Errorf("%v: got %v and %d calls of OnStop, want %v and one call", end, err, told, failure)
			}
			q.ShutDown()
		}
	}
}

// A failed, deferred or overtaken item comes again with the priority of its hand-out, even if this priority
// is only 1 above the priority of an Add, and whatever the Order answers by then.
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

// An item was handed out at 5, an Add at -5 cut the handler short, and the item came back behind all items
// of 0. A resync at a low priority moved each item at work back.
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
		for _, end := range []bool{false, true} { // Whether the end of Run cuts the handler short.
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
// the queue could hand the item out. The fourth run comes to its end, and the count starts
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

// The cancels of a removed item were counted until the end of the Run. Cancels before a removal are not in
// a row with cancels after the removal.
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

// A failure before its retry was due goes on with the wait of the failure before, which was counted when it began. A
// Requeue at the due time has a wait of its own.
func TestEarlyFailureIsLoggedAndNotObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := workqueue.NewPrometheusProvider(prometheus.NewRegistry(), workqueue.PrometheusOptions{})
		q := workqueue.NewTypedRateLimiting(constant(10*time.Second), workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: provider})
		q.Add("a")
		var log bytes.Buffer
		logger := logr.FromSlogHandler(slog.NewTextHandler(&log, nil))
		calls := 0
		go workqueue.Run(t.Context(), q, func(context.Context, string) error {
			calls++
			return []error{errFailed, errFailed, workqueue.Requeue(), nil}[calls-1]
		}, runOptions{Logger: &logger})
		time.Sleep(time.Second)
		q.Wake("a")
		synctest.Wait()
		if n := strings.Count(log.String(), "after=10s"); n != 1 || strings.Count(log.String(), "after=9s early=true") != 1 {
			t.Errorf("the log is %s", log.String())
		}
		if s := q.Stats(); s.RateLimited != 1 || s.RetryDelay.Count != 1 {
			t.Errorf("%d waits of the limiter and %d waits are counted, want 1 and 1", s.RateLimited, s.RetryDelay.Count)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := q.Stats(); calls != 4 || s.RateLimited != 2 || s.RetryDelay.Count != 2 {
			t.Errorf("after %d calls %d waits of the limiter and %d waits are counted, want 4, 2 and 2", calls, s.RateLimited, s.RetryDelay.Count)
		}
		q.ShutDown()
		synctest.Wait()
	})
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
