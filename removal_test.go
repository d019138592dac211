package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/seed16c08ea7/workqueue"
)

// A reAdded is any of the three queues.
type reAdded interface {
	workqueue.TypedInterface[string]
	TryGet() (string, bool)
	Remove(item string) bool
	ReAddContext(ctx context.Context, item string) (context.Context, context.CancelFunc)
}

func onReAddQueues(t *testing.T, test func(t *testing.T, q reAdded)) {
	waitQueues(t, func(t *testing.T, q workQueue) { test(t, q) })
}

func TestReAddContextEndsWithTheOneAboveIt(t *testing.T) {
	onReAddQueues(t, func(t *testing.T, q reAdded) {
		q.Add("a")
		q.TryGet()
		for name, parent := range map[string]func() (context.Context, context.CancelCauseFunc){
			"of the library": func() (context.Context, context.CancelCauseFunc) { return context.WithCancelCause(t.Context()) },
			"with a value": func() (context.Context, context.CancelCauseFunc) {
				ctx, cancel := context.WithCancelCause(t.Context())
				return context.WithValue(ctx, noteKey{}, 2), cancel
			},
		} {
			ctx, end := parent()
			reAdd, cancel := q.ReAddContext(ctx, "a")
			end(errFailed)
			if got := context.Cause(reAdd); got != errFailed {
				t.Errorf("%s: got the cause %v, want %v", name, got, errFailed)
			}
			cancel()
		}
	})
}

type noteKey struct{}

// A callingContext calls a function in each of its methods.
type callingContext struct {
	context.Context
	call func()
}

func (c callingContext) Done() <-chan struct{} { c.call(); return c.Context.Done() }
func (c callingContext) Value(key any) any     { c.call(); return c.Context.Value(key) }
func (c callingContext) Err() error            { c.call(); return c.Context.Err() }

// An Add that asked a foreign context with the lock held would wait for itself.
func TestReAddContextAsksNoForeignContextUnderTheLock(t *testing.T) {
	onReAddQueues(t, func(t *testing.T, q reAdded) {
		q.Add("a")
		q.TryGet()
		foreign := callingContext{t.Context(), func() { q.Len() }}
		for name, parent := range map[string]context.Context{
			"itself": foreign, "below one of ours": context.WithValue(foreign, noteKey{}, 2),
		} {
			ctx, cancel := q.ReAddContext(parent, "a")
			derived, end := context.WithTimeout(callingContext{ctx, func() { q.Len() }}, time.Hour)
			q.Add("a")
			if context.Cause(derived) != workqueue.ErrReAdded {
				t.Errorf("%s: got %v", name, context.Cause(derived))
			}
			end()
			cancel()
			q.Done("a")
			q.TryGet()
		}
	})
}

// Each call returns another context. Contexts that have ended are not kept until Done.
func TestReAddContextsOfOneItem(t *testing.T) {
	onReAddQueues(t, func(t *testing.T, q reAdded) {
		q.Add("a")
		q.TryGet()
		var open []context.Context
		for i := range 10 {
			ctx, cancel := q.ReAddContext(t.Context(), "a")
			if i%2 == 0 {
				cancel()
				continue
			}
			defer cancel()
			open = append(open, ctx)
		}
		if q, ok := q.(interface{ Watchers(string) int }); ok && q.Watchers("a") != len(open) {
			t.Errorf("%d watchers are kept, want %d", q.Watchers("a"), len(open))
		}
		q.Add("a")
		for i, ctx := range open {
			if context.Cause(ctx) != workqueue.ErrReAdded {
				t.Errorf("context %d: %v", i, context.Cause(ctx))
			}
		}
	})
}

func TestReAddContextAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are others under the race detector")
	}
	q := workqueue.NewTyped[int]()
	q.Add(1)
	q.Get()
	own, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, row := range map[string]struct {
		ctx  context.Context
		want float64
	}{"made by WithCancel": {own, 3}, "another": {context.Background(), 7}} {
		pass := func() {
			_, cancel := q.ReAddContext(row.ctx, 1)
			cancel()
		}
		pass()
		if n := testing.AllocsPerRun(100, pass); n > row.want {
			t.Errorf("%s: %v allocations, want %v", name, n, row.want)
		}
	}
}

// The worker loop by hand, with the effect of CancelOnReAdd.
func ExampleTyped_ReAddContext() {
	queue := workqueue.NewTyped[string]()
	queue.Add("default/web")
	key, _ := queue.Get()
	ctx, cancel := queue.ReAddContext(context.Background(), key)
	queue.Add(key) // The object has changed: the work is out of date.
	fmt.Println(ctx.Err(), "-", context.Cause(ctx))
	cancel()
	queue.Done(key)
	fmt.Println("queued:", queue.Len())
	// Output:
	// context canceled - workqueue: item was added again
	// queued: 1
}

// The context of a held item ends, and an Add afterwards counts as any other.
func TestRemoveFuncEndsTheWorkOnAnItem(t *testing.T) {
	waitQueues(t, func(t *testing.T, q workQueue) {
		q.Add("a")
		q.TryGet()
		ctx, cancel := q.ReAddContext(t.Context(), "a")
		defer cancel()
		q.RemoveFunc(func(string) bool { return true })
		if got := context.Cause(ctx); got != workqueue.ErrRemoved {
			t.Errorf("the context has ended with %v", got)
		}
		late, cancel := q.ReAddContext(t.Context(), "a")
		defer cancel()
		if got := context.Cause(late); got != workqueue.ErrRemoved {
			t.Errorf("a context afterwards has ended with %v", got)
		}
		q.Add("a")
		again, cancel := q.ReAddContext(t.Context(), "a")
		defer cancel()
		if got := context.Cause(again); got != workqueue.ErrReAdded {
			t.Errorf("after an Add: %v", got)
		}
		q.Done("a")
		if got, ok := q.TryGet(); got != "a" || !ok {
			t.Errorf("got %q, %v", got, ok)
		}
	})
}

// Items of all states, some of which become due, are handed out or are added while del runs.
func TestRemoveFuncFindsWhatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting[int](nil, workqueue.TypedRateLimitingQueueConfig[int]{})
		defer q.ShutDown()
		const n = 3000
		for i := range n {
			if i%3 > 0 {
				q.AddAfter(i, time.Duration(i%7)*time.Second)
			} else {
				q.Add(i)
			}
		}
		asked := 0
		removed := q.RemoveFunc(func(item int) bool {
			if asked++; asked%50 == 0 {
				time.Sleep(time.Second) // Some become due.
				synctest.Wait()
				got, ok := q.TryGet() // Some are done.
				if ok {
					q.Done(got)
				}
				q.Add(-asked)
			}
			return item >= 0
		})
		checkInvariants(t, 0, q)
		s := q.Snapshot(-1)
		for _, info := range slices.Concat(s.Queued, s.Waiting) {
			if info.Item >= 0 {
				t.Errorf("left: %v", info)
			}
		}
		if removed < n-asked/50 || removed > n {
			t.Errorf("removed %d of %d", removed, n)
		}
		time.Sleep(time.Minute)
		if got := q.Len(); got != len(s.Queued) {
			t.Errorf("%d items later, want %d", got, len(s.Queued))
		}
	})
}

// Items become due while del is asked about the first of them. The queue below was configured, and
// a wrapper hides its type.
func TestRemoveFuncFindsWhatBecomesDueAboveAnotherQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
			Queue: struct{ *workqueue.Typed[int] }{workqueue.NewTyped[int]()},
		})
		defer q.ShutDown()
		const n = 3000
		for i := range n {
			q.AddAfter(i, time.Second)
		}
		asked := 0
		removed := q.RemoveFunc(func(int) bool {
			if asked++; asked == 1 {
				time.Sleep(time.Minute)
			}
			return true
		})
		if removed != n || q.Len() != 0 {
			t.Errorf("removed %d of %d, and %d are queued", removed, n, q.Len())
		}
	})
}

// A Queue keeps a removed item until Pop. The match of such an item was taken for a removal in the queue
// below, so the wait of the item ended and did not count.
func TestRemoveFuncCountsTheWaitOfAnItemThatItsQueueStillHas(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
		Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: workqueue.DefaultQueue[string]()}),
	})
	defer q.ShutDown()
	q.Add("a")
	q.Remove("a")
	q.AddAfter("a", time.Hour)
	if n := q.RemoveFunc(func(string) bool { return true }); n != 1 {
		t.Errorf("RemoveFunc has removed %d items, want 1: a waits", n)
	}
	if s := q.Stats(); s.Waiting != 0 {
		t.Errorf("%d items wait, want 0", s.Waiting)
	}
}

// A removal ends all that the queue knew of the item, and so the note of a Wake: a wait that begins
// afterwards goes on.
func TestRemoveEndsTheNoteOfAWake(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
	defer q.ShutDown()
	q.Add("a")
	q.Get()
	q.Wake("a")
	q.Remove("a")
	q.AddWith(workqueue.AddOptions{After: time.Hour, Firm: true}, "a")
	q.Done("a")
	if info, _ := q.Find("a"); info.State != workqueue.ItemWaiting {
		t.Errorf("%v, want an item that waits", info)
	}
}

// Above a Queue, RemoveFunc called del about all items before it removed the first.
func TestRemoveFuncAboveAQueueRemovesAsItGoes(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{
		Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Queue: workqueue.DefaultQueue[int]()}),
	})
	defer q.ShutDown()
	for i := range 3 {
		q.Add(i)
	}
	asked := 0
	wantPanic(t, "del", func() {
		q.RemoveFunc(func(int) bool {
			if asked++; asked == 3 {
				panic("del")
			}
			return true
		})
	})
	if n := q.Len(); n != 1 {
		t.Errorf("%d items are queued after a panic at the third, want 1", n)
	}
}

// A panic of del reaches the caller, and nothing stays locked or noted.
func TestRemoveFuncWithAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
		defer q.ShutDown()
		q.Add("a")
		q.AddAfter("b", time.Second)
		wantPanic(t, "no", func() { q.RemoveFunc(func(string) bool { panic("no") }) })
		if got := q.RemoveFunc(func(string) bool { return true }); got != 2 {
			t.Errorf("removed %d", got)
		}
		checkInvariants(t, 0, q)
	})
}

// A handler is at work on an item that RemoveFunc removes.
func TestRunDoesNotRetryWhatIsRemoved(t *testing.T) {
	failed := errors.New("failed")
	remove := func(q *workqueue.TypedRateLimiting[string]) {
		q.RemoveFunc(func(item string) bool { return item == "a" })
	}
	for _, row := range []struct {
		name    string
		options workqueue.RunOptions[string]
		handle  func(ctx context.Context, q *workqueue.TypedRateLimiting[string]) error
		want    string
	}{
		{"a failure", workqueue.RunOptions[string]{}, func(_ context.Context, q *workqueue.TypedRateLimiting[string]) error {
			remove(q)
			return failed
		}, "removed"},
		{"a success", workqueue.RunOptions[string]{}, func(_ context.Context, q *workqueue.TypedRateLimiting[string]) error {
			remove(q)
			return nil
		}, "succeeded"},
		{"RequeueAfter", workqueue.RunOptions[string]{}, func(_ context.Context, q *workqueue.TypedRateLimiting[string]) error {
			remove(q)
			return workqueue.RequeueAfter(time.Second)
		}, "removed"},
		{"Permanent", workqueue.RunOptions[string]{}, func(_ context.Context, q *workqueue.TypedRateLimiting[string]) error {
			remove(q)
			return workqueue.Permanent(failed)
		}, "removed"},
		{"a failure before", workqueue.RunOptions[string]{}, func(_ context.Context, q *workqueue.TypedRateLimiting[string]) error {
			time.AfterFunc(time.Millisecond, func() { remove(q) })
			return failed
		}, "failed"},
		{"CancelOnReAdd", workqueue.RunOptions[string]{CancelOnReAdd: 3}, func(ctx context.Context, q *workqueue.TypedRateLimiting[string]) error {
			remove(q)
			return ctx.Err()
		}, "removed"},
		{"CancelOnReAdd, after an Add", workqueue.RunOptions[string]{CancelOnReAdd: 3}, func(ctx context.Context, q *workqueue.TypedRateLimiting[string]) error {
			q.Add("a")
			remove(q)
			return ctx.Err()
		}, "removed"},
		{"RemoveFunc of the queue below", workqueue.RunOptions[string]{}, func(_ context.Context, q *workqueue.TypedRateLimiting[string]) error {
			q.AddRateLimited("a")
			q.Delaying().RemoveFunc(func(string) bool { return true })
			return failed
		}, "removed"},
		{"an Add since", workqueue.RunOptions[string]{}, func(_ context.Context, q *workqueue.TypedRateLimiting[string]) error {
			remove(q)
			q.Add("a")
			return failed
		}, "removed again; succeeded"},
	} {
		for _, oneEntry := range []bool{false, true} {
			t.Run(fmt.Sprint(row.name, oneEntry), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Second),
						workqueue.TypedRateLimitingQueueConfig[string]{OneEntry: oneEntry})
					var got []string
					options := row.options
					quiet := logr.Discard()
					options.Logger = &quiet
					options.OnResult = func(_ context.Context, _ string, r workqueue.HandlerResult) {
						got = append(got, r.Outcome.String())
						if r.Again && r.Outcome == workqueue.OutcomeRemoved {
							got[len(got)-1] += " again"
						}
					}
					ctx, stop := context.WithCancel(t.Context())
					ended := make(chan error)
					calls := 0
					go func() {
						ended <- workqueue.Run(ctx, q, func(ctx context.Context, _ string) error {
							if calls++; calls > 1 {
								return nil
							}
							return row.handle(ctx, q)
						}, options)
					}()
					q.Add("a")
					time.Sleep(time.Hour)
					synctest.Wait()
					if got := strings.Join(got, "; "); got != row.want {
						t.Errorf("got %s, want %s", got, row.want)
					}
					if n := q.NumRequeues("a") + q.Attempts(); n != 0 && row.want == "removed" {
						t.Errorf("%d failures and cancels are counted", n)
					}
					checkInvariants(t, 0, q)
					stop()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// RemoveFunc comes between two steps of Run for an item that was cut short: the question whether
// the item was removed, and the add, which asks the order. At the end of the Run the item was named
// as queued.
func TestRunForgetsWhatIsRemovedAfterItWasCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q *workqueue.TypedRateLimiting[string]
		removes := false
		order := workqueue.Order[string]{Priority: func(string) int {
			if removes {
				q.Delaying().RemoveFunc(func(string) bool { return true })
			}
			return 0
		}}
		q = workqueue.NewTypedRateLimiting[string](constant(0), workqueue.TypedRateLimitingQueueConfig[string]{Order: order})
		q.Add("a")
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, stop)
		var outcomes []workqueue.Outcome
		options := workqueue.RunOptions[string]{Logger: discard(), CancelOnReAdd: 3,
			OnResult: func(_ context.Context, _ string, r workqueue.HandlerResult) { outcomes = append(outcomes, r.Outcome) },
			OnStop: func(_ context.Context, s workqueue.Snapshot[string]) {
				if s.QueuedTotal != 0 {
					t.Errorf("left %v", s)
				}
			}}
		err := workqueue.Run(ctx, q, func(ctx context.Context, _ string) error {
			q.Add("a")
			removes = true
			return ctx.Err()
		}, options)
		if n := q.Attempts(); err != nil || n != 0 || !slices.Equal(outcomes, []workqueue.Outcome{workqueue.OutcomeRemoved}) {
			t.Errorf("%v, %v, %d items are counted", err, outcomes, n)
		}
	})
}

// The first of two calls that overlap ends. The second still removes an item that becomes due.
func TestRemoveFuncGoesOnBesideAnotherThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
		defer q.ShutDown()
		for i := range 300 { // RemoveFunc looks at 256 waiting items at a time.
			q.AddAfter(fmt.Sprint(i), time.Hour)
		}
		q.AddAfter("due", 4*time.Second)
		var first sync.WaitGroup
		first.Go(func() {
			q.RemoveFunc(func(item string) bool {
				if item == "0" {
					time.Sleep(time.Second)
				}
				return false
			})
		})
		synctest.Wait()
		removed := q.RemoveFunc(func(item string) bool {
			if item == "0" {
				time.Sleep(5 * time.Second)
			}
			return item == "due"
		})
		first.Wait()
		if s := q.Snapshot(0); removed != 1 || s.QueuedTotal != 0 || s.WaitingTotal != 300 {
			t.Errorf("%d removed, and %v is left, want 1 and the 300 others", removed, s)
		}
		checkInvariants(t, 0, q)
	})
}

// removing is a limiter that removes all items when it is asked.
type removing struct {
	constant
	q *workqueue.TypedRateLimiting[string]
}

func (r *removing) When(item string) time.Duration {
	r.q.RemoveFunc(func(string) bool { return true })
	return r.constant.When(item)
}

// RemoveFunc comes between the question of Run about a failed item and the retry. Above a Queue, the item came again
// after a retry without a wait, and OnResult was told so.
func TestRunDoesNotRetryWhatIsRemovedMeanwhile(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second} {
		for name, config := range map[string]workqueue.TypedRateLimitingQueueConfig[string]{
			"plain": {}, "OneEntry": {OneEntry: true}, "above a Queue": {Queue: stored()},
		} {
			synctest.Test(t, func(t *testing.T) {
				limiter := &removing{constant: constant(wait)}
				q := workqueue.NewTypedRateLimiting[string](limiter, config)
				limiter.q = q
				q.Add("a")
				calls := 0
				var results []string
				time.AfterFunc(time.Hour, q.ShutDown)
				err := workqueue.Run(t.Context(), q, func(context.Context, string) error { calls++; return errFailed },
					runOptions{Logger: discard(), OnResult: func(_ context.Context, _ string, r workqueue.HandlerResult) {
						results = append(results, fmt.Sprint(r.Outcome, " ", r.Again))
					}})
				if n := q.Attempts(); n != 0 {
					t.Errorf("wait %v, %s: %d failures are counted", wait, name, n)
				}
				if calls != 1 || !slices.Equal(results, []string{"removed false"}) || !errors.Is(err, workqueue.ErrShutDown) {
					t.Errorf("wait %v, %s: %d calls with %q, %v", wait, name, calls, results, err)
				}
			})
		}
	}
}

// RemoveFunc comes between the hand-out of an item and the look of the worker at the context, which
// has ended. The item was queued again with EndKeep, and named as left with EndStop.
func TestRunForgetsWhatIsRemovedBeforeItsHandler(t *testing.T) {
	for _, end := range []workqueue.End{workqueue.EndStop, workqueue.EndDrain, workqueue.EndKeep} {
		for _, embeds := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				var q *workqueue.TypedRateLimiting[string]
				q, _ = newEndingOnHandOut[string](func() {
					stop()
					q.RemoveFunc(func(string) bool { return true })
					if end == workqueue.EndDrain { // A drain goes on with the next item until its grace period is over.
						time.Sleep(2 * time.Second)
					}
				})
				q.AddAll("a")
				var queue rateLimited = q
				if embeds {
					queue = &embedding[string]{TypedRateLimiting: q}
				}
				var left workqueue.Snapshot[string]
				options := runOptions{AtEnd: end, Logger: discard(), OnStop: func(_ context.Context, s workqueue.Snapshot[string]) { left = s }}
				if end == workqueue.EndDrain {
					options.Grace = time.Second
				}
				err := workqueue.Run(ctx, queue, func(context.Context, string) error { t.Error("called"); return nil }, options)
				if s := q.Snapshot(9); err != nil || left.QueuedTotal+s.QueuedTotal+s.InFlightTotal > 0 {
					t.Errorf("AtEnd %d, embeds %v: got %v, left are %v, the queue has %v", end, embeds, err, left, s)
				}
				q.ShutDown()
			})
		}
	}
}

// RemoveFunc removes an item after its retry was decided, and then the Run ends, both while a metric
// counts the retry. OnStop named the item as failed, or as waiting.
func TestRunDoesNotNameWhatIsRemovedBetweenItsRetryAndTheEnd(t *testing.T) {
	for _, err := range []error{errors.New("failed"), workqueue.RequeueAfter(0)} {
		ctx, stop := context.WithCancel(t.Context())
		var q *workqueue.TypedRateLimiting[string]
		metrics := &recorder{}
		q = workqueue.NewTypedRateLimiting[string](constant(0), workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: metrics})
		q.Add("a")
		metrics.setHook(func(event string) {
			if event == "adds+1" {
				q.RemoveFunc(func(string) bool { return true })
				stop()
			}
		})
		var outcomes []workqueue.Outcome
		workqueue.Run(ctx, q, func(context.Context, string) error { return err }, runOptions{
			Logger:   discard(),
			OnResult: func(_ context.Context, _ string, r workqueue.HandlerResult) { outcomes = append(outcomes, r.Outcome) },
			OnStop: func(_ context.Context, s workqueue.Snapshot[string]) {
				if s.QueuedTotal+s.WaitingTotal+s.FailedTotal > 0 {
					t.Errorf("%v: left are %v", err, s)
				}
			},
		})
		if !slices.Equal(outcomes, []workqueue.Outcome{workqueue.OutcomeRemoved}) {
			t.Errorf("%v: got %v", err, outcomes)
		}
	}
}

// One Run has failed with an item when it could not retry it any more. The item was added again
// before, and another Run has succeeded with it since: nobody names the item as failed.
func TestRunDoesNotNameAsFailedWhatAnotherRunHasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{})
		ctx, stop := context.WithCancel(t.Context())
		q.AddAll("a", "z")
		var left workqueue.Snapshot[string]
		first := make(chan error, 1)
		go func() {
			first <- workqueue.Run(ctx, q, func(_ context.Context, item string) error {
				if item == "z" {
					time.Sleep(time.Hour)
					return nil
				}
				time.Sleep(time.Second)
				q.Add("a")
				stop()
				time.Sleep(time.Second)
				return errors.New("failed")
			}, runOptions{Workers: 2, Logger: discard(), OnStop: func(_ context.Context, s workqueue.Snapshot[string]) { left = s }})
		}()
		synctest.Wait()
		q.Add("y") // Keeps the worker of the second Run from its end, which comes with the shutdown.
		var done []string
		second := make(chan error, 1)
		go func() {
			second <- workqueue.Run(t.Context(), q, func(_ context.Context, item string) error {
				time.Sleep(3 * time.Second)
				done = append(done, item)
				return nil
			}, runOptions{Logger: discard()})
		}()
		if err := <-first; err != nil {
			t.Error(err)
		}
		if err := <-second; !errors.Is(err, workqueue.ErrShutDown) {
			t.Error(err)
		}
		if !slices.Equal(done, []string{"y", "a"}) || left.FailedTotal+left.QueuedTotal != 0 {
			t.Errorf("done are %q, and left are %v", done, left)
		}
	})
}

// The count of cancels is that of the queue. A success in a Run without CancelOnReAdd ends it.
func TestSuccessInAnyRunEndsTheCountOfCancels(t *testing.T) {
	q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{})
	q.Add("a")
	runUntil(t, q, 1, runOptions{AtEnd: workqueue.EndKeep, CancelOnReAdd: 3, Grace: time.Minute}, func(ctx context.Context, _ string) error {
		q.Add("a")
		<-ctx.Done()
		return ctx.Err()
	})
	if n := q.Attempts(); n != 1 {
		t.Errorf("%d items are counted after a cancel, want 1", n)
	}
	runUntil(t, q, 1, runOptions{AtEnd: workqueue.EndKeep}, succeeding)
	if n := q.Attempts(); n != 0 {
		t.Errorf("%d items are counted after a success, want none", n)
	}
	q.ShutDown()
}
