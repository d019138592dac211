package workqueue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue"
)

// An End in a log line was a number.
func TestEndPrintsItsName(t *testing.T) {
	got := fmt.Sprint(workqueue.EndStop, workqueue.EndDrain, workqueue.EndKeep, workqueue.End(9))
	if want := "EndStop EndDrain EndKeep End(9)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The context of a handler ends with the handler, or with Run if all handlers share the context. Goroutines
// of the handler see the end.
func TestRunContextDoesNotOutlastItsUse(t *testing.T) {
	for name, tt := range map[string]struct {
		options runOptions
		want    string
	}{
		"timeout": {runOptions{Timeout: time.Hour}, "0:a 1:over 3:end"},
		"re-add":  {runOptions{CancelOnReAdd: 3}, "0:a 1:over 3:end"},
		"grace":   {runOptions{Grace: time.Hour}, "0:a 3:end 3:over"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, ourQueue)
			s.queue.Add("a")
			s.run(tt.options, func(ctx context.Context, _ string) error {
				go func() {
					<-ctx.Done()
					s.note("over")
				}()
				time.Sleep(time.Second)
				return nil
			})
			time.Sleep(3 * time.Second)
			s.queue.ShutDown()
			s.end()
			synctest.Wait()
			slices.Sort(s.events)
			if got := strings.Join(s.events, " "); got != tt.want {
				t.Errorf("%s: got the events %q, want %q", name, got, tt.want)
			}
			s.stop()
		})
	}
}

func discard() *logr.Logger {
	logger := logr.Discard()
	return &logger
}

func TestRunLogs(t *testing.T) {
	for name, tt := range map[string]struct {
		reply reply
		want  []string // parts of the one line before the end
		quiet bool
	}{
		"a failure":         {fails, []string{`level=INFO msg="Handler failed, the item will be retried" queue=jobs after=1s item=a failures=1 err=failed`}, false},
		"a panic":           {panics, []string{`level=ERROR msg="Handler failed, the item will be retried" queue=jobs after=1s item=a failures=1 stack="goroutine`, "run_test.go", "panics", `err="workqueue: panic: boom"`}, false},
		"an exit":           {exits, []string{`level=INFO msg="Handler failed, the item will be retried"`, `err="workqueue: handler called runtime.Goexit"`}, false},
		"a permanent error": {permanently, []string{`level=ERROR msg="Item given up" queue=jobs item=a failures=1 err=failed`}, false},
		"no success":        {succeeds, nil, false},
		"no requeue":        {requeues(time.Second), nil, false},
		"a refused retry":   {nil, []string{`level=INFO msg="Handler failed, and the queue is shut down" queue=jobs item=a failures=1 err=failed`}, false},
		"a quiet failure":   {fails, nil, true},
		"a quiet panic":     {panics, nil, true},
		"a quiet give-up":   {permanently, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				do := tt.reply
				if do == nil {
					do = func() error { s.queue.ShutDown(); return errFailed }
				}
				s.queue.Add("a")
				s.run(runOptions{Name: "jobs", QuietFailures: tt.quiet}, replies(do))
				synctest.Wait()
				got := s.log.String()
				if lines := strings.Count(got, "\n") - strings.Count(got, "Run has "); lines != min(1, len(tt.want)) {
					t.Errorf("got %d lines:\n%s", lines, got)
				}
				for _, want := range tt.want {
					if !strings.Contains(got, want) {
						t.Errorf("%q is missing in %q", want, got)
					}
				}
				s.stop()
				s.end()
			})
		})
	}
}

// Without a logger, it is the default of slog.
func TestRunLogsToTheDefault(t *testing.T) {
	var log bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	q.Add("a")
	workqueue.Run(t.Context(), q, func(context.Context, string) error { q.ShutDown(); return permanently() }, runOptions{})
	if want := `msg="Item given up" item=a failures=1 err=failed`; !strings.Contains(log.String(), want) {
		t.Errorf("got %q, want %q", log.String(), want)
	}
}

// In a process of its own each: a panic goes on once the item is done.
func TestRunCrashes(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		options runOptions
		queue   func(rateLimited) rateLimited
		reply   reply
		want    []string
	}{
		"handler": {runOptions{CrashOnPanic: true}, noQueue, panics,
			[]string{"limited\ndone\n", "panic: boom", "workqueue_test.panics"}},
		"OnGiveUp": {runOptions{CrashOnPanic: true, OnGiveUp: func(context.Context, string, error) { panics() }}, noQueue, permanently,
			[]string{"forget\ndone\n", "panic: boom", "workqueue_test.panics"}},
		"last attempt": {runOptions{CrashOnPanic: true, MaxAttempts: 1, OnGiveUp: func(context.Context, string, error) { fmt.Println("gave up") }}, noQueue, panics,
			[]string{"gave up\nforget\ndone\n", "panic: boom", "workqueue_test.panics"}},
		"limiter": {runOptions{}, panickingLimiter, fails,
			[]string{"done\n", "panic: limiter", "panickingLimiter"}},
		"Get after an exit": {runOptions{}, secondGetPanics, exits,
			[]string{"limited\ndone\n", "panic: Get", "panickingGet"}},
		"Get after a panic": {runOptions{}, secondGetPanics, panics,
			[]string{"limited\ndone\n", "panic: Get", "panickingGet"}},
	}
	if name := os.Getenv(crashCase); name != "" {
		tt := cases[name]
		tt.options.Logger = discard()
		q := newPrinting(func() { fmt.Println("limited") })
		workqueue.Run(t.Context(), tt.queue(q), replies(tt.reply), tt.options)
		return
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			output := crash(t, "^TestRunCrashes$", name)
			for _, want := range tt.want {
				if !strings.Contains(output, want) {
					t.Errorf("%q is missing from what the process has left:\n%s", want, output)
				}
			}
		})
	}
}

func noQueue(q rateLimited) rateLimited { return q }

func secondGetPanics(q rateLimited) rateLimited {
	return &panickingGet{printingQueue: q.(printingQueue)}
}

// panickingGet panics in the second GetInfo. Run must not take the panic for a panic of the handler.
type panickingGet struct {
	printingQueue
	calls int
}

func (q *panickingGet) GetInfo(ctx context.Context) (workqueue.ItemInfo[string], error) {
	if q.calls++; q.calls == 2 {
		panic("Get")
	}
	return q.printingQueue.GetInfo(ctx)
}

// panickingLimiter has the limiter panic, when it is asked for a wait.
func panickingLimiter(rateLimited) rateLimited {
	return newPrinting(func() { panic("limiter") })
}

// A printingQueue prints the calls by which an item is accounted for.
type printingQueue struct {
	*workqueue.TypedRateLimiting[string]
}

func newPrinting(when func()) printingQueue {
	q := newLimited(hookedLimiter{workqueue.DefaultTypedControllerRateLimiter[string](), when, func() { fmt.Println("forget") }})
	q.Add("a")
	return printingQueue{q}
}

func (q printingQueue) Done(item string) { fmt.Println("done"); q.TypedRateLimiting.Done(item) }

func newNamed(name string, keepTimes bool) *workqueue.TypedRateLimiting[string] {
	return workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: name, KeepTimes: keepTimes})
}

// Run ignored the logger of its context, and a handler had none with the item. Its name
// was not that of the queue.
func TestRunLogsToTheLoggerOfItsContext(t *testing.T) {
	for name, tt := range map[string]struct {
		option bool
		name   string
		want   string
	}{
		"of the context": {false, "", "context"},
		"of the options": {true, "", "option"},
		"with a name":    {false, "other", "context"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logs [2]bytes.Buffer
				first := logr.FromSlogHandler(slog.NewTextHandler(&logs[0], nil)).WithValues("from", "context")
				second := logr.FromSlogHandler(slog.NewTextHandler(&logs[1], nil)).WithValues("from", "option")
				options := runOptions{Name: tt.name, Timeout: time.Minute,
					OnResult: func(ctx context.Context, item string, _ workqueue.HandlerResult) {
						logr.FromContextOrDiscard(ctx).Info("result", "of", item)
					},
					OnStop: func(ctx context.Context, _ workqueue.Snapshot[string]) {
						logr.FromContextOrDiscard(ctx).Info("stop", "of", "Run")
					},
				}
				if tt.option {
					options.Logger = &second
				}
				q := newNamed("jobs", false)
				q.Add("a")
				q.Add("b")
				workqueue.Run(logr.NewContext(t.Context(), first), q, func(ctx context.Context, item string) error {
					logr.FromContextOrDiscard(ctx).Info("logr", "of", item)
					logr.FromContextAsSlogLogger(context.WithoutCancel(ctx)).Info("slog", "of", item)
					if item == "b" {
						q.ShutDown()
						return permanently()
					}
					return nil
				}, options)
				got := logs[0].String() + logs[1].String()
				queue := "jobs"
				if tt.name != "" {
					queue = tt.name
				}
				for _, want := range []string{"msg=logr from=F queue=Q item=a of=a", "msg=slog from=F queue=Q item=b of=b", `msg="Item given up" from=F queue=Q item=b`,
					"msg=result from=F queue=Q item=b of=b", "msg=stop from=context of=Run"} {
					want = strings.NewReplacer("=F", "="+tt.want, "=Q", "="+queue).Replace(want)
					if !strings.Contains(got, want) {
						t.Errorf("got\n%s\nwithout %s", got, want)
					}
				}
			})
		})
	}
}

// An item may be larger than the piece in which a worker allocates contexts.
func TestRunWithLargeItems(t *testing.T) {
	type large [4096]byte
	for _, times := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[large](),
				workqueue.TypedRateLimitingQueueConfig[large]{KeepTimes: times})
			q.Add(large{1})
			q.Add(large{2})
			time.Sleep(time.Second)
			calls := byte(0)
			workqueue.Run(t.Context(), q, func(ctx context.Context, item large) error {
				calls++
				if info, _ := workqueue.ItemInfoFromContext[large](ctx); item[0] != calls || info.Item != item {
					t.Errorf("call %d is for %d, with the context of %d", calls, item[0], info.Item[0])
				}
				if calls == 2 {
					q.ShutDown()
				}
				return nil
			}, workqueue.RunOptions[large]{})
			if calls != 2 {
				t.Errorf("got %d calls, want 2", calls)
			}
		})
	}
}

// A worker handles items of several priorities, with ages and without. Each context has the values of
// the context of Run, and the priority and the age of its own item, also after the handler of the next item
// has begun, and after a Done by hand. OnResult has the context of its item.
func TestItemInfoFromContextOfEachItem(t *testing.T) {
	type key struct{}
	describe := func(ctx context.Context) string {
		info, ok := workqueue.ItemInfoFromContext[string](ctx)
		if _, other := workqueue.ItemInfoFromContext[int](ctx); other || !ok {
			t.Errorf("the context has a string: %v, and an int: %v", ok, other)
		}
		return fmt.Sprint(ctx.Value(key{}), " ", info.Item, " ", info.Priority, " ", info.Age)
	}
	for times, want := range map[bool]string{
		false: "[of Run a0 7 0s of Run a1 7 0s of Run a2 3 0s of Run a3 0 0s of Run a4 -1 0s]",
		true:  "[of Run a0 7 5s of Run a1 7 4s of Run a2 3 3s of Run a3 0 2s of Run a4 -1 1s]",
	} {
		for _, cancels := range []int{0, 3} {
			synctest.Test(t, func(t *testing.T) {
				q := newNamed("", times)
				for _, priority := range []int{7, 7, 3, 0, -1} {
					q.AddWith(workqueue.AddOptions{Priority: &priority}, fmt.Sprint("a", q.Len()))
					time.Sleep(time.Second)
				}
				var kept []context.Context
				var told, got []string
				workqueue.Run(context.WithValue(t.Context(), key{}, "of Run"), q, func(ctx context.Context, item string) error {
					if kept = append(kept, ctx); len(kept) == 5 {
						q.ShutDown()
					}
					if cancels > 0 {
						q.Done(item)
					}
					return nil
				}, runOptions{Logger: discard(), CancelOnReAdd: cancels, OnResult: func(ctx context.Context, _ string, _ workqueue.HandlerResult) {
					told = append(told, describe(ctx))
				}})
				for _, ctx := range kept {
					got = append(got, describe(ctx))
				}
				if fmt.Sprint(got) != want || fmt.Sprint(told) != want {
					t.Errorf("got %v and in OnResult %v, want %v", got, told, want)
				}
			})
		}
	}
}

// OnGiveUp and OnResult are foreign code: a panic is logged, and neither a panic nor an exit does harm. An exit of
// OnGiveUp kept the result from OnResult. At the second failure of MaxAttempts 2, OnGiveUp was told of 2 and of 1
// failures, and OnResult of 2 and of none.
func TestRunWithCallbacksThatFail(t *testing.T) {
	failures := func(ctx context.Context) int {
		info, _ := workqueue.ItemInfoFromContext[string](ctx)
		return info.Failures
	}
	for name, f := range map[string]reply{"succeeds": succeeds, "panics": panics, "exits": exits} {
		onRunQueues(t, func(t *testing.T, s *show) {
			s.queue.Add("a")
			s.run(runOptions{
				MaxAttempts: 2,
				OnGiveUp:    func(ctx context.Context, _ string, _ error) { s.note("gave up %d", failures(ctx)); f() },
				OnResult: func(ctx context.Context, _ string, r workqueue.HandlerResult) {
					s.note("%v %d %d", r.Outcome, r.Failures, failures(ctx))
					f()
				},
			}, replies(fails, fails))
			time.Sleep(2 * time.Second)
			s.queue.Add("b")
			s.want("0:a 0:failed 1 1 1:a 1:gave up 2 1:given_up 2 2 2:b 2:succeeded 0 0")
			logged := fmt.Sprint(strings.Count(s.log.String(), "OnGiveUp panicked"), strings.Count(s.log.String(), "OnResult panicked"))
			if want := map[bool]string{true: "1 3", false: "0 0"}[name == "panics"]; logged != want {
				t.Errorf("%s: %s panics of OnGiveUp and of OnResult are logged, want %s", name, logged, want)
			}
			if n := s.queue.NumRequeues("a") + s.ours.Attempts(); n != 0 {
				t.Errorf("%d failures are not forgotten", n)
			}
			s.stop()
			s.end()
		})
	}
}

// OnGiveUp could not write a status: the context of the handler had ended by then, if it
// had got it at all.
func TestRunOnGiveUpHasAContext(t *testing.T) {
	for name, tt := range map[string]struct {
		options runOptions
		want    string // when the context ends, and why
	}{
		"with grace":    {runOptions{Timeout: time.Second, Grace: 5 * time.Second}, "1:gave up a 8:context canceled 8:end"},
		"without grace": {runOptions{Timeout: time.Second}, "1:gave up a 3:context canceled 3:end"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShow(t, ourQueue)
				s.queue.Add("a")
				tt.options.MaxAttempts = 1
				tt.options.OnGiveUp = func(ctx context.Context, item string, err error) {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v", err)
					}
					if info, ok := workqueue.ItemInfoFromContext[string](ctx); !ok || info.Item != item {
						t.Errorf("got %+v, %v", info, ok)
					}
					if ctx.Err() != nil {
						t.Errorf("the context has ended: %v", ctx.Err())
					}
					s.note("gave up %s", item)
					<-ctx.Done()
					s.note("%v", ctx.Err())
				}
				s.run(tt.options, func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
				synctest.Wait()
				s.want("0:a")
				time.Sleep(3 * time.Second)
				s.stop()
				s.end()
				s.want(tt.want)
			})
		})
	}
}

// Nothing told what became of an item: here a log of it, in the order of the calls.
func TestRunOnResult(t *testing.T) {
	slow := func(f reply) reply { return func() error { time.Sleep(time.Second); return f() } }
	for name, tt := range map[string]struct {
		reply reply
		want  string // of queues that tell how long the limiter has an item wait
	}{
		"success":     {slow(succeeds), "succeeded <nil> 0 - 1s"},
		"failure":     {slow(fails), "failed failed 1 1s 1s"},
		"panic":       {slow(panics), "failed workqueue: panic: boom 1 1s 1s"},
		"exit":        {exits, "failed workqueue: handler called runtime.Goexit 1 1s 0s"},
		"requeue":     {requeues(5 * time.Second), "requeued workqueue: requeue after 5s 0 5s 0s"},
		"at once":     {requeues(0), "requeued workqueue: requeue after 0s 0 0s 0s"},
		"by limiter":  {workqueue.Requeue, "requeued workqueue: requeue 0 1s 0s"},
		"retry after": {func() error { return workqueue.RetryAfter(-1, errFailed) }, "failed failed 1 0s 0s"},
		"permanent":   {permanently, "given_up failed 1 - 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				s.queue.Add("a")
				calls := 0
				s.run(runOptions{OnResult: func(ctx context.Context, item string, r workqueue.HandlerResult) {
					if calls > 1 {
						return
					}
					info, _ := workqueue.ItemInfoFromContext[string](ctx)
					again := "-"
					if r.Again {
						again = fmt.Sprint(r.After)
					}
					s.note("%s %v %v %v %d %s %v", item, info.Item, r.Outcome, r.Err, r.Failures, again, r.Took)
					if n := s.fifo.Held(); n != 1 {
						t.Errorf("%d items are held in OnResult, want 1", n)
					}
				}}, func(context.Context, string) error {
					if calls++; calls > 1 {
						return nil
					}
					return tt.reply()
				})
				time.Sleep(20 * time.Second)
				s.stop()
				s.end()
				want := "a a " + tt.want
				if !strings.HasSuffix(s.events[1], ":"+want) {
					t.Errorf("got %q, want %s", s.events, want)
				}
			})
		})
	}
}

// A handler that returns the error of its context, as those of net/http and database/sql do,
// had an error without ErrTimeout in OnGiveUp and OnResult.
func TestTimeoutIsInTheErrorOfAHandlerThatReturnsItsContexts(t *testing.T) {
	for name, tt := range map[string]struct {
		returns func(ctx context.Context) error
		timeout bool
		text    string
	}{
		"the error":      {context.Context.Err, true, "workqueue: handler has timed out: context deadline exceeded"},
		"wrapped":        {func(ctx context.Context) error { return fmt.Errorf("get: %w", ctx.Err()) }, true, "workqueue: handler has timed out: get: context deadline exceeded"},
		"the cause":      {context.Cause, true, "workqueue: handler has timed out"},
		"the cause also": {func(ctx context.Context) error { return errors.Join(ctx.Err(), context.Cause(ctx)) }, true, "context deadline exceeded\nworkqueue: handler has timed out"},
		"another":        {func(context.Context) error { return errFailed }, false, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				s.queue.Add("a")
				told := func(err error) {
					if errors.Is(err, workqueue.ErrTimeout) != tt.timeout || err.Error() != tt.text {
						t.Errorf("got %q, want %q", err, tt.text)
					}
					var asNetworksSay interface{ Timeout() bool }
					says := errors.As(err, &asNetworksSay) && asNetworksSay.Timeout()
					if errors.Is(err, context.DeadlineExceeded) != tt.timeout || says != tt.timeout {
						t.Errorf("%q is a deadline: %v, and a timeout: %v, want %v", err, !tt.timeout, says, tt.timeout)
					}
					s.note("told")
				}
				s.run(runOptions{
					MaxAttempts: 1, Timeout: time.Second,
					OnGiveUp: func(_ context.Context, _ string, err error) { told(err) },
					OnResult: func(_ context.Context, _ string, r workqueue.HandlerResult) { told(r.Err) },
				}, func(ctx context.Context, _ string) error { <-ctx.Done(); return tt.returns(ctx) })
				time.Sleep(time.Minute)
				s.want("0:a 1:told 1:told")
				s.stop()
				s.end()
			})
		})
	}
}

// JSON had an Outcome as a number, such as 3.
func TestOutcomeAsText(t *testing.T) {
	for outcome := range workqueue.Outcome(10) {
		checkText(t, outcome, int(outcome) < len(workqueue.Outcomes()))
	}
	got, err := json.Marshal(map[workqueue.Outcome]workqueue.Outcome{workqueue.OutcomeGivenUp: workqueue.OutcomeFailed})
	if want := `{"given_up":"failed"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

// The results and the waits of retries were in no metric, and later those of RetryAfter.
func TestSeriesOfResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := newExposed(workqueue.PrometheusOptions{})
		q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](2*time.Second, time.Hour),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: p})
		if got := scrape(t, r); slices.ContainsFunc(got, func(row string) bool { return strings.HasPrefix(row, "results_total") }) {
			t.Errorf("a queue that no Run has used has the series %q", got)
		}
		options := runOptions{AtEnd: workqueue.EndKeep, CancelOnReAdd: 3, Logger: discard()}
		once := func(items string, f func(ctx context.Context, item string) error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			for item := range strings.FieldsSeq(items) {
				q.Add(item)
			}
			if err := workqueue.Run(ctx, q, f, options); err != nil {
				t.Error(err)
			}
		}
		once("a b c", func(context.Context, string) error { return nil })
		once("f", func(context.Context, string) error { return workqueue.RequeueAfter(time.Hour) })
		once("g h", func(context.Context, string) error { return permanently() })
		calls := 0
		once("i", func(ctx context.Context, item string) error {
			if calls++; calls == 1 {
				q.Add(item)
				<-ctx.Done()
			}
			return ctx.Err()
		})
		once("j", func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		q.Remove("j")
		once("k", func(context.Context, string) error { return workqueue.RetryAfter(time.Hour, errFailed) })
		once("l", func(context.Context, string) error { return errors.Join(errFailed, workqueue.DeferFor(time.Minute)) })
		once("d e", func(context.Context, string) error { return errFailed })
		got := scrape(t, r)
		for _, want := range []string{
			`work_duration_seconds{name="q"} 13 observations of 1 s`,
			`results_total{name="q",result="succeeded"} 4`,
			`results_total{name="q",result="failed"} 4`,
			`results_total{name="q",result="requeued"} 1`,
			`results_total{name="q",result="given_up"} 2`,
			`results_total{name="q",result="readded"} 1`,
			`results_total{name="q",result="interrupted"} 1`,
			`rate_limited_total{name="q"} 3`,
			`retry_delay_seconds{name="q"} 4 observations of 3664 s`,
		} {
			if !slices.Contains(got, want) {
				t.Errorf("got %q without %s", got, want)
			}
		}
		q.ShutDown()
		if got := scrape(t, r); slices.ContainsFunc(got, func(row string) bool { return strings.HasPrefix(row, "results_total") }) {
			t.Errorf("after the shutdown, there are the series %q", got)
		}
	})
}

// A loop by hand counts its results where Run does.
func TestCountResult(t *testing.T) {
	_, p := newExposed(workqueue.PrometheusOptions{})
	for name, want := range map[string]string{"": "map[]", "q": "map[failed:2 given_up:1]"} {
		q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: name, MetricsProvider: p})
		defer q.ShutDown()
		for _, outcome := range []workqueue.Outcome{workqueue.OutcomeFailed, workqueue.OutcomeFailed, workqueue.OutcomeGivenUp} {
			q.CountResult(outcome)
		}
		results := q.Stats().Results
		maps.DeleteFunc(results, func(_ workqueue.Outcome, n uint64) bool { return n == 0 })
		if got := fmt.Sprint(results); got != want {
			t.Errorf("the queue %q has the results %s, want %s", name, got, want)
		}
		wantPanic(t, "workqueue: CountResult of an unknown outcome: Outcome(8)", func() { q.CountResult(workqueue.OutcomeDeferred + 1) })
	}
}
