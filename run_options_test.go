package workqueue_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"github.com/seed16c08ea7/workqueue"
)

// The context ends after the timeout, which is its cause; the item stays with its handler, and is
// not handed out again, until that returns.
func TestRunTimeout(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		s.queue.Add("a")
		s.run(runOptions{Workers: 2, Timeout: time.Second}, func(ctx context.Context, item string) error {
			if time.Since(s.start) > 5*time.Second {
				return nil
			}
			<-ctx.Done()
			s.note("%v, %v", ctx.Err(), context.Cause(ctx))
			time.Sleep(2 * time.Second)
			return ctx.Err()
		})
		time.Sleep(1500 * time.Millisecond)
		s.queue.Add("a")
		s.want("0:a 1:context deadline exceeded, workqueue: handler has timed out")
		time.Sleep(10 * time.Second)
		// Again at Done for the Add, and for each of the two failures.
		s.want("3:a 4:context deadline exceeded, workqueue: handler has timed out 6:a 8:a")
		s.stop()
		s.end()
	})
}

// The least one is a timeout too.
func TestRunTimeoutOfANanosecond(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		s.queue.Add("a")
		s.run(runOptions{Timeout: 1}, func(ctx context.Context, _ string) error { <-ctx.Done(); s.note("over"); return nil })
		time.Sleep(time.Second)
		s.want("0:a 0:over")
		s.stop()
		if err := s.end(); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// Without the option, a handler has the deadline of Run or none.
func TestRunWithoutATimeout(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		s.queue.Add("a")
		s.run(runOptions{}, func(ctx context.Context, item string) error {
			if at, ok := ctx.Deadline(); ok {
				t.Errorf("got the deadline %v", at)
			}
			time.Sleep(1000 * time.Hour)
			return ctx.Err()
		})
		time.Sleep(2000 * time.Hour)
		s.want("0:a")
		s.stop()
		s.end()
	})
}

// The context of a handler that Run has made ends with the handler, or with Run
// if all of them share it, for what the handler has started.
func TestRunContextDoesNotOutlastItsUse(t *testing.T) {
	for name, tt := range map[string]struct {
		options runOptions
		want    string
	}{
		"timeout": {runOptions{Timeout: time.Hour}, "0:a 1:over 3:end"},
		"re-add":  {runOptions{CancelOnReAdd: true}, "0:a 1:over 3:end"},
		"grace":   {runOptions{Grace: time.Hour}, "0:a 3:end 3:over"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, runQueues["all methods"])
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

func TestRunMaxAttempts(t *testing.T) {
	for name, tt := range map[string]struct {
		max     int
		replies []reply
		want    string
	}{
		"gives up at the last one":          {3, []reply{fails, fails, fails}, "0:a 1:a 3:a 3:gave up a: failed"},
		"of one":                            {1, []reply{fails}, "0:a 0:gave up a: failed"},
		"without a limit never":             {0, []reply{fails, fails, fails, fails}, "0:a 1:a 3:a 7:a 15:a"},
		"counts panics and exits":           {3, []reply{panics, exits, panics}, "0:a 1:a 3:a 3:gave up a: workqueue: panic: boom"},
		"ends by an exit too":               {1, []reply{exits}, "0:a 0:gave up a: workqueue: handler called runtime.Goexit"},
		"starts over after a success":       {2, []reply{fails, succeeds, fails, fails}, "0:a 1:a 50:a 51:a 51:gave up a: failed"},
		"starts over after a requeue":       {2, []reply{fails, requeues(time.Second), fails, fails}, "0:a 1:a 2:a 3:a 3:gave up a: failed"},
		"starts over after it has given up": {2, []reply{fails, fails, fails, fails}, "0:a 1:a 1:gave up a: failed 50:a 51:a 51:gave up a: failed"},
		"starts over after a permanent":     {2, []reply{fails, permanently, fails, fails}, "0:a 1:a 1:gave up a: failed 50:a 51:a 51:gave up a: failed"},
		"has no say about a permanent":      {9, []reply{permanently}, "0:a 0:gave up a: failed"},
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				s.queue.Add("a")
				calls := replies(tt.replies...)
				over := false
				s.run(runOptions{MaxAttempts: tt.max, OnGiveUp: func(_ context.Context, item string, err error) {
					s.note("gave up %s: %v", item, err)
				}}, func(ctx context.Context, item string) error {
					if over {
						return nil
					}
					return calls(ctx, item)
				})
				time.Sleep(50 * time.Second)
				if strings.Contains(tt.want, "50:a") {
					s.queue.Add("a")
				}
				time.Sleep(49 * time.Second)
				s.want(tt.want)
				if n := s.queue.NumRequeues("a"); n != 0 {
					t.Errorf("the limiter still counts %d failures", n)
				}
				over = true
				s.stop()
				s.end()
			})
		})
	}
}

// Run counts for itself, as a bucket cannot.
func TestRunMaxAttemptsWithALimiterThatDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimitingQueue[string](&workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(1, 1)})
		q.Add("a")
		calls := 0
		workqueue.Run(t.Context(), q, func(context.Context, string) error { calls++; return errFailed }, runOptions{
			MaxAttempts: 4,
			OnGiveUp:    func(context.Context, string, error) { q.ShutDown() },
			Logger:      discard(),
		})
		if calls != 4 {
			t.Errorf("got %d calls, want 4", calls)
		}
	})
}

// An item that was removed or forgotten while it failed, and is added once more,
// has all its attempts again, and nothing is kept of it.
func TestRunMaxAttemptsStartAnew(t *testing.T) {
	for name, tt := range map[string]struct {
		call func(s *show, q *workqueue.TypedRateLimiting[string])
		want string
	}{
		"Remove, Add": {func(s *show, q *workqueue.TypedRateLimiting[string]) {
			q.Remove("a")
			if n := q.Attempts(); n != 0 {
				s.t.Errorf("%d items are kept after Remove", n)
			}
			q.Add("a")
		}, "0.5:a 2.5:a 2.5:gave up"},
		"Remove": {func(s *show, q *workqueue.TypedRateLimiting[string]) { q.Remove("a") }, ""},
		"Forget": {func(s *show, q *workqueue.TypedRateLimiting[string]) { q.Forget("a") }, "1:a 2:a 2:gave up"},
		"Forget of another": {func(s *show, q *workqueue.TypedRateLimiting[string]) { q.Forget("b"); q.Remove("b") },
			"1:a 1:gave up"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShow(t, runQueues["all methods"])
				q := s.queue.(*workqueue.TypedRateLimiting[string])
				s.queue.Add("a")
				s.run(runOptions{MaxAttempts: 2, OnGiveUp: func(context.Context, string, error) { s.note("gave up") }},
					func(context.Context, string) error { return errFailed })
				s.want("0:a")
				time.Sleep(500 * time.Millisecond)
				tt.call(s, q)
				time.Sleep(10 * time.Second)
				s.want(tt.want)
				if n := q.Attempts(); n != 0 {
					t.Errorf("%d items are kept", n)
				}
				s.stop()
				s.end()
			})
		})
	}
}

// Two calls of Run on one queue share the count: one has the first two failures,
// and the other the next two, while the first is busy.
func TestRunMaxAttemptsAreOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		options := runOptions{MaxAttempts: 4, OnGiveUp: func(context.Context, string, error) { s.note("gave up") }, Logger: discard()}
		s.queue.Add("a")
		s.run(options, func(_ context.Context, item string) error {
			if item == "b" {
				time.Sleep(time.Hour)
				return nil
			}
			return errFailed
		})
		time.Sleep(2 * time.Second)
		s.queue.Add("b")
		s.want("0:a 1:a 2:b")
		go workqueue.Run(s.ctx, s.queue, func(_ context.Context, item string) error {
			s.note("%s, the other", item)
			return errFailed
		}, options)
		time.Sleep(time.Minute)
		s.want("3:a, the other 7:a, the other 7:gave up")
		s.stop()
		s.end()
	})
}

func discard() *logr.Logger {
	logger := logr.Discard()
	return &logger
}

// OnGiveUp has the item: what it adds is handed out after it, and what it
// panics or exits with does no harm.
func TestRunOnGiveUp(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(s *show)
		want string
		log  string
	}{
		"may take its time": {func(s *show) { time.Sleep(5 * time.Second) }, "0:a 0:gave up a 5:b", ""},
		"may add the item":  {func(s *show) { s.queue.Add("a") }, "0:a 0:gave up a 0:b 0:a", ""},
		"may have it added": {func(s *show) { s.queue.AddAfter("a", time.Second) }, "0:a 0:gave up a 0:b 1:a", ""},
		"may panic":         {func(*show) { panic("boom") }, "0:a 0:gave up a 0:b", `level=ERROR msg="OnGiveUp panicked" item=a failures=1 stack="goroutine`},
		"may exit":          {func(*show) { runtime.Goexit() }, "0:a 0:gave up a 0:b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				s.queue.Add("a")
				s.queue.Add("b")
				s.run(runOptions{OnGiveUp: func(_ context.Context, item string, err error) {
					s.note("gave up %s", item)
					if n := s.fifo.Held(); n != 1 {
						t.Errorf("%d items are held in OnGiveUp, want 1", n)
					}
					tt.do(s)
				}}, replies(permanently))
				time.Sleep(20 * time.Second)
				s.want(tt.want)
				if got := s.log.String(); !strings.Contains(got, tt.log) || tt.log == "" && got != "" {
					t.Errorf("logged %q, want %q", got, tt.log)
				}
				if n := s.queue.NumRequeues("a"); n != 0 {
					t.Errorf("%d failures are not forgotten", n)
				}
				s.stop()
				s.end()
			})
		})
	}
}

// An item that was added again in its last attempt is revived by that.
func TestRunGivesUpWhatWasAddedAgain(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		s.queue.Add("a")
		calls, added := replies(fails, fails, fails), false
		s.run(runOptions{MaxAttempts: 2, OnGiveUp: func(_ context.Context, item string, err error) { s.note("gave up %s", item) }},
			func(ctx context.Context, item string) error {
				if time.Since(s.start) == time.Second && !added {
					added = true
					s.queue.Add(item)
				}
				return calls(ctx, item)
			})
		time.Sleep(1100 * time.Millisecond)
		s.want("0:a 1:a 1:gave up a 1:a")
		s.stop()
		s.end()
	})
}

func TestRunLogs(t *testing.T) {
	for name, tt := range map[string]struct {
		reply reply
		want  []string // parts of the one line
	}{
		"a failure":         {fails, []string{`level=INFO msg="Handler failed, the item will be retried" queue=jobs item=a failures=1 err=failed`}},
		"a panic":           {panics, []string{`level=ERROR msg="Handler failed, the item will be retried" queue=jobs item=a failures=1 stack="goroutine`, "run_test.go", "panics", `err="workqueue: panic: boom"`}},
		"an exit":           {exits, []string{`level=INFO msg="Handler failed, the item will be retried"`, `err="workqueue: handler called runtime.Goexit"`}},
		"a permanent error": {permanently, []string{`level=ERROR msg="Item given up" queue=jobs item=a failures=1 err=failed`}},
		"no success":        {succeeds, nil},
		"no requeue":        {requeues(time.Second), nil},
		"a refused retry":   {nil, []string{`level=INFO msg="Handler failed, and the queue is shut down" queue=jobs item=a failures=1 err=failed`}},
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				do := tt.reply
				if do == nil {
					do = func() error { s.queue.ShutDown(); return errFailed }
				}
				s.queue.Add("a")
				s.run(runOptions{Name: "jobs"}, replies(do))
				synctest.Wait()
				got := s.log.String()
				if lines := strings.Count(got, "\n"); lines != min(1, len(tt.want)) {
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

// A profile names the item that a worker is at, and none when it is at none.
// The labels reach what the handler starts.
func TestRunProfileLabels(t *testing.T) {
	for name, want := range map[string]string{"": `{"item":"a"}`, "jobs": `{"item":"a", "queue":"jobs"}`} {
		onRunQueues(t, func(t *testing.T, s *show) {
			s.queue.Add("a")
			s.run(runOptions{ProfileLabels: true, Name: name}, func(ctx context.Context, item string) error {
				if label, _ := pprof.Label(ctx, "item"); label != item {
					t.Errorf("the context has the item %q", label)
				}
				go time.Sleep(2 * time.Second)
				time.Sleep(time.Second)
				return nil
			})
			for at, times := range []int{2, 1, 0} { // The handler and its child, the child, nobody.
				synctest.Wait()
				if got := labelled(t, want); got != times {
					t.Errorf("after %d s, %d goroutines have the labels %s, want %d", at, got, want, times)
				}
				time.Sleep(time.Second)
			}
			s.stop()
			s.end()
		})
	}
}

// labelled counts the goroutines with the labels.
func labelled(t *testing.T, labels string) (n int) {
	t.Helper()
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	var same int
	for line := range strings.Lines(profile.String()) {
		if _, err := fmt.Sscanf(line, "%d @", &same); err == nil {
			continue
		}
		if strings.Contains(line, "labels: "+labels) {
			n += same
		}
	}
	return n
}

// Without the option there are none.
func TestRunWithoutProfileLabels(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		s.queue.Add("a")
		s.run(runOptions{Name: "jobs"}, func(ctx context.Context, item string) error {
			if _, ok := pprof.Label(ctx, "item"); ok {
				t.Error("the context has labels")
			}
			time.Sleep(time.Second)
			return nil
		})
		synctest.Wait()
		if n := labelled(t, `{"item"`); n != 0 {
			t.Errorf("%d goroutines have labels", n)
		}
		s.stop()
		s.end()
	})
}

// In a process of its own each: a panic that goes on, once the item is done.
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
		"limiter": {runOptions{}, func(q rateLimited) rateLimited { return panickingQueue{q} }, fails,
			[]string{"done\n", "panic: limiter", "panickingQueue"}},
		"Get after an exit": {runOptions{}, secondGetPanics, exits,
			[]string{"limited\ndone\n", "panic: Get", "panickingGet"}},
		"Get after a panic": {runOptions{}, secondGetPanics, panics,
			[]string{"limited\ndone\n", "panic: Get", "panickingGet"}},
	}
	if name := os.Getenv(crashCase); name != "" {
		tt := cases[name]
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
		q.Add("a")
		tt.options.Logger = discard()
		workqueue.Run(t.Context(), tt.queue(printingQueue{q}), replies(tt.reply), tt.options)
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

func secondGetPanics(q rateLimited) rateLimited { return &panickingGet{rateLimited: q} }

// panickingGet panics in the second Get, which is not to be taken for a panic of the handler.
type panickingGet struct {
	rateLimited
	calls int
}

func (q *panickingGet) Get() (string, bool) {
	if q.calls++; q.calls == 2 {
		panic("Get")
	}
	return q.rateLimited.Get()
}

type panickingQueue struct{ rateLimited }

func (panickingQueue) AddRateLimited(string) { panic("limiter") }

type printingQueue struct{ rateLimited }

func (q printingQueue) AddRateLimited(item string) {
	fmt.Println("limited")
	q.rateLimited.AddRateLimited(item)
}
func (q printingQueue) Forget(item string) { fmt.Println("forget"); q.rateLimited.Forget(item) }
func (q printingQueue) Done(item string)   { fmt.Println("done"); q.rateLimited.Done(item) }
