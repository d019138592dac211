package workqueuetest_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/workqueuetest"
)

var errFailed = errors.New("failed")

func init() { slog.SetDefault(slog.New(slog.DiscardHandler)) } // Run logs what fails.

func TestQueueNotesEachCallAndMakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueuetest.New(t, workqueuetest.Options[string]{
			Config: workqueue.TypedRateLimitingQueueConfig[string]{OneEntry: true},
		})
		for _, row := range []struct {
			call  func()
			notes string
			left  string // queued, in flight, waiting
		}{
			{func() { q.Add("a") }, "[Add a]", "1 0 0"},
			{func() { q.AddAll("b", "a") }, "[Add b Add a]", "2 0 0"},
			{func() { q.Get() }, "[Get a]", "1 1 0"},
			{func() { q.GetContext(t.Context()) }, "[Get b]", "0 2 0"},
			{func() { q.TryGet() }, "[]", "0 2 0"},
			{func() { q.Done("a") }, "[Done a]", "0 1 0"},
			{func() { q.AddAfter("c", time.Minute) }, "[AddAfter c 1m0s]", "0 1 1"},
			{func() { q.AddRateLimited("d") }, "[AddRateLimited d]", "0 1 2"},
			{func() { q.Forget("d") }, "[Forget d]", "0 1 2"},
			{func() { q.Reschedule("c", time.Hour) }, "[Reschedule c 1h0m0s]", "0 1 2"},
			{func() { q.Debounce("e", time.Second, time.Hour) }, "[Debounce e 1s]", "0 1 3"},
			{func() { q.Remove("e") }, "[Remove e]", "0 1 2"},
			{func() { q.AddAfter("f", 0); q.TryGet() }, "[AddAfter f Get f]", "0 2 2"},
			{func() { q.Done("f") }, "[Done f]", "0 1 2"},
			{func() { q.AddWith(workqueue.AddOptions{}, "g", "h") }, "[AddWith g AddWith h]", "2 1 2"},
			{func() { q.AddWith(workqueue.AddOptions{Priority: priority(5)}, "h") }, "[AddWith h, priority 5]", "2 1 2"},
			{func() { wantPriority(t, q, "h", 5) }, "[Get h, priority 5]", "1 2 2"},
			{func() { wantPriority(t, q, "g", 0) }, "[Get g]", "0 3 2"},
			{func() { q.AddWith(workqueue.AddOptions{Priority: priority(0)}, "g") }, "[AddWith g, priority 0]", "0 3 2"},
			{func() { q.Remove("g") }, "[Remove g]", "0 3 2"},
			{func() { q.Done("g"); q.Done("h") }, "[Done g Done h]", "0 1 2"},
			{func() { q.AddWith(workqueue.AddOptions{After: time.Second, Priority: priority(-1)}, "i") }, "[AddWith i 1s, priority -1]", "0 1 3"},
			{func() { q.AddWith(workqueue.AddOptions{RateLimited: true}, "j", "k") }, "[AddWith j rate limited AddWith k rate limited]", "0 1 5"},
			{func() { q.AddWith(workqueue.AddOptions{Priority: priority(1)}, "i") }, "[AddWith i, priority 1]", "1 1 4"}, // OneEntry: the wait is over.
			{func() { q.AddAfter("i", time.Hour) }, "[AddAfter i 1h0m0s]", "1 1 4"},
			{func() { q.AddWith(workqueue.AddOptions{After: time.Hour, Firm: true}, "k") }, "[AddWith k 1h0m0s, firm]", "1 1 4"},
			{func() { q.AddWith(workqueue.AddOptions{RateLimited: true, Firm: true, Priority: priority(2)}, "j") }, "[AddWith j rate limited, firm, priority 2]", "1 1 4"},
			{func() { q.ShutDown(); q.Get() }, "[Get i]", "0 2 0"},
			{func() { q.Get(); q.GetInfo(t.Context()); q.GetContext(t.Context()); q.TryGet() }, "[]", "0 2 0"},
		} {
			row.call()
			if got, again := fmt.Sprint(q.Calls()), fmt.Sprint(q.Take()); got != row.notes || again != got {
				t.Errorf("noted %s, taken %s, want %s", got, again, row.notes)
			}
			s := q.Snapshot(0)
			if got := fmt.Sprint(s.QueuedTotal, s.InFlightTotal, s.WaitingTotal); got != row.left {
				t.Errorf("after %s: %s are left, want %s", row.notes, got, row.left)
			}
		}
	})
}

func priority(n int) *int { return &n }

// A handler that acts on the number of failures, or an item that is given up, needed a loop of calls and
// waits.
func TestHandleBeginsWithFailures(t *testing.T) {
	for failures, want := range map[int]string{
		0: "[Get a AddRateLimited a Done a] failed 1 false",
		3: "[Get a AddRateLimited a Done a] failed 4 false",
		4: "[Get a Forget a Done a] given_up 5 true",
	} {
		limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, 1000*time.Hour)
		q := workqueuetest.New(t, workqueuetest.Options[string]{Limiter: limiter, Failures: failures})
		var outcome string
		calls := workqueuetest.HandleOn(t.Context(), q, func(ctx context.Context, item string) error {
			if info, _ := workqueue.ItemInfoFromContext[string](ctx); info.Failures != failures || q.NumRequeues(item) != failures {
				t.Errorf("the handler is told of %d failures, and the limiter knows %d, want %d", info.Failures, q.NumRequeues(item), failures)
			}
			return errFailed
		}, "a", workqueue.RunOptions[string]{MaxAttempts: 5, OnResult: func(_ context.Context, _ string, r workqueue.HandlerResult) {
			outcome = fmt.Sprint(r.Outcome, " ", r.Failures)
		}})
		if got := fmt.Sprint(calls, " ", outcome, " ", q.NumRequeues("a") == 0); got != want {
			t.Errorf("after %d failures: got %s, want %s", failures, got, want)
		}
	}
}

// With an ItemPace, each failure before the call waited for the next token.
func TestHandleWithFailuresWaitsForNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueuetest.New(t, workqueuetest.Options[string]{
			Config:   workqueue.TypedRateLimitingQueueConfig[string]{ItemPace: workqueue.Rate{Limit: rate.Every(time.Hour)}},
			Failures: 2,
		})
		start := time.Now()
		calls := workqueuetest.HandleOn(t.Context(), q, func(ctx context.Context, item string) error {
			if info, _ := workqueue.ItemInfoFromContext[string](ctx); info.Failures != 2 {
				t.Errorf("the handler is told of %d failures, want 2", info.Failures)
			}
			return errFailed
		}, "a", workqueue.RunOptions[string]{})
		if got, want := fmt.Sprint(calls, time.Since(start)), "[Get a AddRateLimited a Done a] 0s"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// A worker that returned early without a Done was seen only by a drain that never ends.
func TestCheckDoneFindsALostDone(t *testing.T) {
	q := workqueuetest.New(t, workqueuetest.Options[string]{})
	q.AddAll("lost", "done", "queued")
	q.Get()
	q.Get()
	q.Done("done")
	r := &recorder{TB: t}
	q.CheckDone(r)
	if got, want := fmt.Sprint(r.errors), "[workqueuetest: the item lost was handed out, and Done was not called]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	q.Done("lost")
	q.CheckDone(t)
}

// A recorder records errors in place of failing.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func wantPriority(t *testing.T, q *workqueuetest.Queue[string], item string, priority int) {
	t.Helper()
	if info, err := q.GetInfo(t.Context()); info.Item != item || info.Priority != priority || err != nil {
		t.Errorf("got %+v, %v, want %s, %d", info, err, item, priority)
	}
}

// The context of a held item ends with an Add, and neither is a call that changes a queue.
func TestQueueHasReAddContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueuetest.New(t, workqueuetest.Options[string]{})
		q.Add("a")
		q.Get()
		ctx, cancel := q.ReAddContext(t.Context(), "a")
		defer cancel()
		if got := fmt.Sprint(q.Take()); got != "[Add a Get a]" || ctx.Err() != nil {
			t.Errorf("noted %s, the context has ended with %v", got, ctx.Err())
		}
		q.Add("a")
		if cause := context.Cause(ctx); cause != workqueue.ErrReAdded {
			t.Errorf("the context has ended with %v", cause)
		}
		q.Done("a")
	})
}

// A method that changes a queue and is not here would be made without a note.
func TestQueueHasEachMethodThatChangesAQueue(t *testing.T) {
	looks := map[string]bool{
		"Len": true, "NumRequeues": true, "ReAddContext": true, "Find": true, "ShuttingDown": true, "Snapshot": true, "Items": true, "Stats": true,
		"WaitIdle": true, "WaitEmpty": true, "Barrier": true, "LimitsChanged": true, "CountResult": true,
		"ShutDown": true, "ShutDownWithDrain": true, "Drain": true, // No shutdown is noted.
	}
	tree, err := parser.ParseFile(token.NewFileSet(), "calls.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	noted := make(map[string]bool)
	for _, decl := range tree.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			noted[f.Name.Name] = true
		}
	}
	typ := reflect.TypeFor[*workqueue.TypedRateLimiting[string]]()
	for i := range typ.NumMethod() {
		if name := typ.Method(i).Name; !noted[name] && !looks[name] {
			t.Errorf("%s is neither noted nor one that only looks", name)
		}
	}
	if len(noted) < 15 {
		t.Errorf("found %d methods", len(noted))
	}
}

func TestHandleSaysWhatBecomesOfAnItem(t *testing.T) {
	for name, row := range map[string]struct {
		handle func(ctx context.Context, item string) error
		want   string
	}{
		"success":     {func(context.Context, string) error { return nil }, "[Get a Forget a Done a]"},
		"failure":     {func(context.Context, string) error { return errFailed }, "[Get a AddRateLimited a Done a]"},
		"again later": {func(context.Context, string) error { return workqueue.RequeueAfter(time.Minute) }, "[Get a Forget a AddAfter a 1m0s Done a]"},
		"deferred":    {func(context.Context, string) error { return workqueue.DeferFor(time.Minute) }, "[Get a AddWith a 1m0s, firm Done a]"},
		"failed and deferred": {func(context.Context, string) error {
			return errors.Join(errors.New("429"), workqueue.DeferFor(time.Minute))
		},
			"[Get a AddWith a 1m0s rate limited, firm Done a]"},
		"again at once": {func(context.Context, string) error { return workqueue.RequeueAfter(0) }, "[Get a Forget a AddAfter a Done a]"},
		"given up":      {func(context.Context, string) error { return workqueue.Permanent(errFailed) }, "[Get a Forget a Done a]"},
		"panic":         {func(context.Context, string) error { panic("at the disco") }, "[Get a AddRateLimited a Done a]"},
		"goexit":        {func(context.Context, string) error { runtime.Goexit(); return nil }, "[Get a AddRateLimited a Done a]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := fmt.Sprint(workqueuetest.Handle(t.Context(), row.handle, "a", workqueue.RunOptions[string]{}))
				if got != row.want {
					t.Errorf("got %s, want %s", got, row.want)
				}
			})
		})
	}
}

// A handler that adds its item, and another one, to the queue that it has.
func TestHandleOnNotesWhatTheHandlerDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueuetest.New(t, workqueuetest.Options[string]{})
		got := workqueuetest.HandleOn(t.Context(), q, func(_ context.Context, item string) error {
			q.Add(item)
			q.AddAfter("b", time.Second)
			return nil
		}, "a", workqueue.RunOptions[string]{})
		if want := "[Get a Add a AddAfter b 1s Forget a Done a]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
}

// The record had a retry of an item that the handler had removed. Run plans none.
func TestHandleOnNotesNoRetryOfARemovedItem(t *testing.T) {
	for name, row := range map[string]struct {
		result error
		add    bool // after the Remove
		want   string
	}{
		"success":            {nil, false, "[Get a Remove a Forget a Done a] succeeded false"},
		"failure":            {errFailed, false, "[Get a Remove a Forget a Done a] removed false"},
		"again":              {workqueue.Requeue(), false, "[Get a Remove a Forget a Done a] removed false"},
		"added, again later": {workqueue.RequeueAfter(time.Minute), true, "[Get a Remove a Add a Forget a Done a] removed true"},
		"added, failure":     {workqueue.RetryAfter(time.Minute, errFailed), true, "[Get a Remove a Add a Forget a Done a] removed true"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := workqueuetest.New(t, workqueuetest.Options[string]{})
				var outcome string
				calls := workqueuetest.HandleOn(t.Context(), q, func(_ context.Context, item string) error {
					q.Remove(item)
					if row.add {
						q.Add(item)
					}
					return row.result
				}, "a", workqueue.RunOptions[string]{OnResult: func(_ context.Context, _ string, r workqueue.HandlerResult) {
					outcome = fmt.Sprint(r.Outcome, " ", r.Again)
				}})
				if got := fmt.Sprint(calls, " ", outcome); got != row.want {
					t.Errorf("got %s, want %s", got, row.want)
				}
			})
		})
	}
}

// A second HandleOn on one queue, or a context that had ended, returned no calls.
func TestHandleTellsWhyItsHandlerIsNotCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handle := func(context.Context, string) error { return nil }
		used := workqueuetest.New(t, workqueuetest.Options[string]{})
		workqueuetest.HandleOn(t.Context(), used, handle, "a", workqueue.RunOptions[string]{})
		full := workqueuetest.New(t, workqueuetest.Options[string]{})
		full.Add("b")
		held := workqueuetest.New(t, workqueuetest.Options[string]{})
		held.Add("a")
		held.Get()
		order := workqueue.Order[string]{Group: func(item string) string { return item }, MaxInFlight: func(string) int { return workqueue.HoldBack }}
		back := workqueuetest.New(t, workqueuetest.Options[string]{Failures: 1, Config: workqueue.TypedRateLimitingQueueConfig[string]{Order: order}})
		paused := workqueuetest.New(t, workqueuetest.Options[string]{Config: workqueue.TypedRateLimitingQueueConfig[string]{Pace: rate.NewLimiter(0, 0)}})
		soon, stop := context.WithTimeout(t.Context(), time.Hour) // Otherwise a call without a panic hangs.
		defer stop()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		firm := workqueuetest.New(t, workqueuetest.Options[string]{})
		firm.AddWith(workqueue.AddOptions{After: time.Hour, Firm: true}, "c")
		for want, f := range map[string]func(){
			"workqueuetest: the queue of HandleOn is shut down: give each call a new queue": func() {
				workqueuetest.HandleOn(t.Context(), used, handle, "a", workqueue.RunOptions[string]{})
			},
			"workqueuetest: the queue of HandleOn is not empty: 1 items": func() {
				workqueuetest.HandleOn(t.Context(), full, handle, "a", workqueue.RunOptions[string]{})
			},
			"workqueuetest: a worker holds items of the queue of HandleOn: 1 items": func() {
				workqueuetest.HandleOn(soon, held, handle, "a", workqueue.RunOptions[string]{})
			},
			"workqueuetest: the queue of HandleOn does not hand out a: the item has to wait, MaxInFlight holds its group back, or the limiter of Pace has a limit or a burst of 0": func() {
				workqueuetest.HandleOn(soon, back, handle, "a", workqueue.RunOptions[string]{})
			},
			"workqueuetest: the queue of HandleOn does not hand out b: the item has to wait, MaxInFlight holds its group back, or the limiter of Pace has a limit or a burst of 0": func() {
				workqueuetest.HandleOn(soon, paused, handle, "b", workqueue.RunOptions[string]{})
			},
			"workqueuetest: the queue of HandleOn does not hand out c: the item has to wait, MaxInFlight holds its group back, or the limiter of Pace has a limit or a burst of 0": func() {
				workqueuetest.HandleOn(soon, firm, handle, "c", workqueue.RunOptions[string]{})
			},
			"workqueuetest: handler is nil": func() {
				workqueuetest.Handle(t.Context(), nil, "a", workqueue.RunOptions[string]{})
			},
			"workqueuetest: the context of Handle has ended: context canceled": func() {
				workqueuetest.Handle(ended, handle, "a", workqueue.RunOptions[string]{})
			},
		} {
			if got := panicOf(f); got != want {
				t.Errorf("got the panic %v, want %s", got, want)
			}
		}
	})
}

func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// A call that panicked, and so had added nothing, was recorded all the same.
func TestCallThatPanicsIsNotRecorded(t *testing.T) {
	q := workqueuetest.New(t, workqueuetest.Options[string]{Config: workqueue.TypedRateLimitingQueueConfig[string]{
		Order: workqueue.Order[string]{Priority: func(item string) int {
			if item == "bad" {
				panic("boom")
			}
			return 0
		}},
	}})
	q.Add("bad before")
	for name, f := range map[string]func(){
		"Add":      func() { q.Add("bad") },
		"AddAll":   func() { q.AddAll("good", "bad", "bad") },
		"AddWith":  func() { q.AddWith(workqueue.AddOptions{}, "good", "bad") },
		"AddAfter": func() { q.AddAfter("bad", time.Hour) },
	} {
		if got := panicOf(f); got != "boom" {
			t.Errorf("%s: got the panic %v", name, got)
		}
	}
	if got := fmt.Sprint(q.Take()); got != "[Add bad before]" || q.Len() != 1 {
		t.Errorf("recorded %s, with %d items in the queue", got, q.Len())
	}
	q.AddAll("a", "b")
	q.Take()
	removed := 0
	panicOf(func() {
		q.RemoveFunc(func(string) bool {
			if removed == 2 {
				panic("boom")
			}
			removed++
			return true
		})
	})
	if calls := q.Take(); len(calls) != 2 || q.Len() != 1 {
		t.Errorf("recorded %v, with %d items in the queue", calls, q.Len())
	}
}

// The queue of Handle said another wait than a real queue, and the test queue neither age nor
// priority.
func TestHandlerSeesWhatARealQueueSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var after time.Duration
		workqueuetest.Handle(t.Context(), func(context.Context, string) error { return errFailed }, "a", workqueue.RunOptions[string]{
			OnResult: func(_ context.Context, _ string, r workqueue.HandlerResult) { after = r.After },
		})
		if want := workqueue.DefaultTypedControllerRateLimiter[string]().When("a"); after != want {
			t.Errorf("OnResult of Handle was told that the item comes after %v, want %v", after, want)
		}
		q := workqueuetest.New(t, workqueuetest.Options[string]{Config: workqueue.TypedRateLimitingQueueConfig[string]{KeepTimes: true}})
		q.AddWith(workqueue.AddOptions{Priority: priority(7)}, "a")
		time.Sleep(time.Second)
		ctx, stop := context.WithCancel(t.Context())
		workqueue.Run(ctx, q, func(ctx context.Context, item string) error {
			if got, _ := workqueue.ItemInfoFromContext[string](ctx); got.Item != item || got.State != workqueue.ItemInFlight || got.Age != time.Second || got.Priority != 7 || got.Failures != 0 {
				t.Errorf("got %+v, want an item in flight that was queued for 1 s at the priority 7", got)
			}
			stop()
			return nil
		}, workqueue.RunOptions[string]{})
	})
}
