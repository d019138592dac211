package helpers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgo "k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/seed16c08ea7/workqueue"
)

// The programs of docs/migrating.md: a loop as most controllers on client-go have it, Run, and Run with the
// lines of the loop in the log.

func loop(ctx context.Context, queue clientgo.TypedRateLimitingInterface[string], sync func(context.Context, string) error) {
	const workers = 2
	for range workers {
		go func() {
			for {
				key, shutdown := queue.Get()
				if shutdown {
					return
				}
				if err := sync(ctx, key); err != nil {
					klog.FromContext(ctx).Error(err, "sync failed", "key", key)
					queue.AddRateLimited(key)
				} else {
					queue.Forget(key)
				}
				queue.Done(key)
			}
		}()
	}
	<-ctx.Done()
	queue.ShutDown()
}

// loopWithAnEnd is what Run becomes on the way back, where a lease is given back behind it.
func loopWithAnEnd(ctx context.Context, queue clientgo.TypedRateLimitingInterface[string], handle func(context.Context, string) error) {
	const workers, grace = 2, 20 * time.Second
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for handleNext(working, queue, handle) {
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown() // The workers go on with what is queued.
	defer time.AfterFunc(grace, stop).Stop()
	all.Wait() // Before the lease is given back. A handler that ignores its context holds this up.
}

func handleNext(ctx context.Context, queue clientgo.TypedRateLimitingInterface[string], handle func(context.Context, string) error) bool {
	key, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(key)
	if ctx.Err() != nil {
		return true // Left to the next start.
	}
	const maxRetries = 15
	err := withRecover(ctx, key, handle)
	switch {
	case err == nil:
		queue.Forget(key)
	case queue.NumRequeues(key) < maxRetries:
		klog.FromContext(ctx).Error(err, "sync failed", "key", key)
		queue.AddRateLimited(key)
	default:
		klog.FromContext(ctx).Error(err, "sync given up", "key", key)
		queue.Forget(key)
	}
	return true
}

func withRecover(ctx context.Context, key string, handle func(context.Context, string) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return handle(ctx, key)
}

func run(ctx context.Context, queue clientgo.TypedRateLimitingInterface[string], sync func(context.Context, string) error) error {
	const workers = 2
	defer queue.ShutDown()
	return workqueue.Run(klog.NewContext(ctx, klog.FromContext(ctx)), queue, sync,
		workqueue.RunOptions[string]{Workers: workers})
}

// Both make the same calls of sync: after two failures the third call succeeds. The ShutDown in
// a defer stays, and does nothing. Run has returned only when no call is at work, and the loop has not.
func TestLoopAndRun(t *testing.T) {
	for name, program := range map[string]func(context.Context, clientgo.TypedRateLimitingInterface[string], func(context.Context, string) error) error{
		"loop": func(ctx context.Context, q clientgo.TypedRateLimitingInterface[string], sync func(context.Context, string) error) error {
			loop(ctx, q, sync)
			return nil
		},
		"Run": run,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute),
					workqueue.TypedRateLimitingQueueConfig[string]{Name: "deployments"})
				ctx, stop := context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
				j := newJournal()
				var returned atomic.Bool // the last call of sync
				failures := 2
				wait := start(func() error {
					err := program(ctx, queue, func(_ context.Context, key string) error {
						j.note(key)
						if key == "slow" {
							time.Sleep(time.Minute)
							returned.Store(true)
							return nil
						}
						if failures--; failures >= 0 {
							return errors.New("conflict")
						}
						return nil
					})
					if returned.Load() != (name == "Run") {
						t.Errorf("%s: the call that was at work at the end has returned: %v", name, returned.Load())
					}
					return err
				})
				queue.Add("web")
				time.Sleep(time.Hour)
				j.expect(t, "web at 0s", "web at 1s", "web at 3s")
				queue.Add("slow")
				synctest.Wait()
				stop()
				wait()
				time.Sleep(time.Hour)
			})
		})
	}
}

// On client-go's queue: the items that are queued at the signal are handled within the grace, then the contexts end, and no handler is
// at work when the loop has returned. A panic is a failure, and the last one gives its key up.
func TestLoopWithAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := clientgo.NewTypedRateLimitingQueue(clientgo.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Second))
		ctx, stop := context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
		j := newJournal()
		var atWork atomic.Int32
		panics := 0
		wait := start(func() error {
			loopWithAnEnd(ctx, queue, func(ctx context.Context, key string) error {
				atWork.Add(1)
				defer atWork.Add(-1)
				if key == "panics" {
					panics++
					panic("at the disco")
				}
				j.note("begun")
				select {
				case <-time.After(8 * time.Second):
				case <-ctx.Done():
					j.note("cut short")
				}
				return nil
			})
			if n := atWork.Load(); n > 0 {
				t.Errorf("%d handlers are at work after the loop", n)
			}
			return nil
		})
		queue.Add("panics")
		time.Sleep(time.Minute)
		synctest.Wait()
		if panics != 16 || queue.NumRequeues("panics") != 0 {
			t.Errorf("%d calls, and %d failures, want 16 and 0", panics, queue.NumRequeues("panics"))
		}
		for _, key := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			queue.Add(key)
			synctest.Wait() // Both workers may wait for an item.
		}
		stop()
		wait()
		j.expect(t, "begun at 1m0s", "begun at 1m0s", "begun at 1m8s", "begun at 1m8s", "begun at 1m16s", "begun at 1m16s", "cut short at 1m20s", "cut short at 1m20s")
	})
}

func runWithOwnLines(ctx context.Context, queue clientgo.TypedRateLimitingInterface[string], sync func(context.Context, string) error) error {
	const workers = 2
	return workqueue.Run(klog.NewContext(ctx, klog.FromContext(ctx)), queue, sync, workqueue.RunOptions[string]{
		Workers:       workers,
		QuietFailures: true,
		OnResult: func(ctx context.Context, _ string, r workqueue.HandlerResult) {
			values := []any{"failures", r.Failures, "early", r.Early, "again", r.Again}
			if p := (*workqueue.PanicError)(nil); errors.As(r.Err, &p) {
				values = append(values, "stack", string(p.Stack))
			}
			switch r.Outcome {
			case workqueue.OutcomeFailed:
				utilruntime.HandleErrorWithContext(ctx, r.Err, "Sync failed", values...)
			case workqueue.OutcomeInterrupted:
				utilruntime.HandleErrorWithContext(ctx, r.Err, "Sync cut short by the end", values...)
			case workqueue.OutcomeGivenUp:
				utilruntime.HandleErrorWithContext(ctx, r.Err, "Sync given up", values...)
			}
		},
	})
}

// The log of a loop and of the two forms of Run, in a program that only knows klog. Each failure has one line,
// the end of Run has one, and the handler logs to klog. ErrorHandlers that count failures counted none after the change
// to Run.
func TestLinesOfKlog(t *testing.T) {
	state := klog.CaptureState()
	defer state.Restore()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	was := slog.Default()
	defer slog.SetDefault(was)
	handlers := utilruntime.ErrorHandlers
	defer func() { utilruntime.ErrorHandlers = handlers }()
	counted := 0
	utilruntime.ErrorHandlers = append(slices.Clip(handlers), func(context.Context, error, string, ...any) { counted++ })

	for name, tt := range map[string]struct {
		program func(context.Context, clientgo.TypedRateLimitingInterface[string], func(context.Context, string) error) error
		failure string
		counted int
		values  string // of the logger of the handler
		givenUp bool
		panics  bool
	}{
		"loop": {func(ctx context.Context, q clientgo.TypedRateLimitingInterface[string], sync func(context.Context, string) error) error {
			loop(ctx, q, sync)
			return nil
		}, `E loop_test.go "sync failed" err="conflict" key="web"`, 0, "", false, false},
		"the lines of Run":                       {run, `I run_outcome.go "Handler failed, the item will be retried" after="0s" item="web" failures=1 err="conflict"`, 0, ` item="web"`, false, false},
		"its own line":                           {runWithOwnLines, `E loop_test.go "Sync failed" err="conflict" logger="UnhandledError" item="web" failures=1 early=false again=true`, 1, ` item="web"`, false, false},
		"its own line of a key that is given up": {runWithOwnLines, `E loop_test.go "Sync given up" err="conflict" logger="UnhandledError" item="web" failures=1 early=false again=false`, 1, ` item="web"`, true, false},
		"its own line of a panic":                {runWithOwnLines, `E loop_test.go "Sync failed" err="workqueue: panic: conflict" logger="UnhandledError" item="web" failures=1 early=false again=true`, 1, ` item="web"`, false, true},
	} {
		var inKlog, inSlog bytes.Buffer
		klog.SetOutputBySeverity("INFO", &inKlog) // It has the lines of all severities.
		slog.SetDefault(slog.New(slog.NewTextHandler(&inSlog, nil)))
		counted = 0
		queue := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](0, 0),
			workqueue.TypedRateLimitingQueueConfig[string]{})
		queue.Add("web")
		ctx, stop := context.WithCancel(t.Context())
		calls := 0
		err := tt.program(ctx, queue, func(ctx context.Context, _ string) error {
			klog.FromContext(ctx).Info("Call")
			if calls++; calls == 1 && tt.panics {
				panic("conflict")
			} else if calls == 1 && !tt.givenUp {
				return errors.New("conflict")
			}
			stop()
			if tt.givenUp {
				return workqueue.Permanent(errors.New("conflict"))
			}
			return nil
		})
		if err := queue.WaitIdle(t.Context()); err != nil { // The loop does not wait for its worker.
			t.Fatal(err)
		}
		klog.Flush()
		head := regexp.MustCompile(`(?m)^(.).* (\w+\.go):\d+\] `) // The severity, the time, the thread, the file and the line.
		got := head.ReplaceAllString(inKlog.String(), "$1 $2 ")
		stack := regexp.MustCompile(`(?s) stack=<\n.*loop_test\.go.*?\n >`)
		if stack.MatchString(got) != tt.panics {
			t.Errorf("%s: the stack is logged: %v, want %v", name, !tt.panics, tt.panics)
		}
		got = stack.ReplaceAllString(got, "")
		call := `I loop_test.go "Call"` + tt.values + "\n"
		want := call + tt.failure + "\n" + strings.Repeat(call, calls-1)
		if name != "loop" {
			want = `I run.go "Run has started" workers=2` + "\n" + want
			want += `I run_end.go "Run has ended, and the queue is shut down" queued=0 inFlight=0 failed=0 retries=0 planned=0` + "\n"
		}
		if err != nil || got != want || inSlog.String() != "" || counted != tt.counted {
			t.Errorf("%s: klog got\n%swant\n%sslog got %q, ErrorHandlers were called %d times, want %d, and Run returned %v",
				name, got, want, inSlog.String(), counted, tt.counted, err)
		}
	}
}

// A loop that drops a key once NumRequeues has reached maxRetries makes as many calls as Run with a
// MaxAttempts of maxRetries + 1.
func TestMaxRetries(t *testing.T) {
	const maxRetries = 5
	for name, program := range map[string]func(ctx context.Context, queue *workqueue.TypedRateLimiting[string], sync func() error) error{
		"loop": func(ctx context.Context, queue *workqueue.TypedRateLimiting[string], sync func() error) error {
			defer context.AfterFunc(ctx, queue.ShutDown)()
			for {
				key, shutdown := queue.Get()
				if shutdown {
					return nil
				}
				if err := sync(); err != nil && queue.NumRequeues(key) < maxRetries {
					queue.AddRateLimited(key)
				} else {
					queue.Forget(key)
				}
				queue.Done(key)
			}
		},
		"Run": func(ctx context.Context, queue *workqueue.TypedRateLimiting[string], sync func() error) error {
			return workqueue.Run(ctx, queue, func(context.Context, string) error { return sync() },
				workqueue.RunOptions[string]{MaxAttempts: maxRetries + 1, Logger: quiet()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				queue := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
					workqueue.TypedRateLimitingQueueConfig[string]{})
				calls := 0
				wait := start(func() error {
					return program(ctx, queue, func() error { calls++; return errors.New("conflict") })
				})
				queue.Add("a")
				time.Sleep(time.Hour)
				stop()
				wait()
				if calls != maxRetries+1 {
					t.Errorf("%d calls, want %d", calls, maxRetries+1)
				}
			})
		})
	}
}

// Events bring a failing key to more calls than MaxAttempts says. StrictBackoff keeps the events back, and a
// deletion too, unless the delete handler calls Wake.
func TestMaxAttemptsWithEvents(t *testing.T) {
	for name, tt := range map[string]struct {
		strict, wake bool
		calls        int
		deletedAfter time.Duration // from the event of the deletion to the call that finds no object
	}{
		"plain":                   {false, false, 39, 0},
		"StrictBackoff":           {true, false, 4, 150 * time.Millisecond},
		"StrictBackoff with Wake": {true, true, 4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, time.Minute),
					workqueue.TypedRateLimitingQueueConfig[string]{StrictBackoff: tt.strict})
				calls, givenUp := 0, false
				var deleted, handled time.Time
				ctx, stop := context.WithCancel(t.Context())
				wait := start(func() error {
					return workqueue.Run(ctx, queue, func(_ context.Context, key string) error {
						if calls++; key == "deleted" && !deleted.IsZero() {
							if handled.IsZero() {
								handled = time.Now()
							}
							return nil
						}
						return errors.New("conflict")
					}, workqueue.RunOptions[string]{MaxAttempts: 4, Logger: quiet(), OnGiveUp: func(context.Context, string, error) { givenUp = true }})
				})
				queue.Add("web")
				time.Sleep(10 * time.Millisecond) // No event comes at the time of a retry.
				for !givenUp {
					queue.Add("web")
					time.Sleep(20 * time.Millisecond)
					synctest.Wait()
				}
				if calls != tt.calls {
					t.Errorf("%d calls, want %d", calls, tt.calls)
				}
				queue.Add("deleted")
				time.Sleep(150 * time.Millisecond) // It has failed twice, and waits for 150 ms more.
				synctest.Wait()
				deleted = time.Now()
				queue.Add("deleted")
				if tt.wake {
					queue.Wake("deleted")
				}
				time.Sleep(time.Minute)
				stop()
				wait()
				if took := handled.Sub(deleted); took != tt.deletedAfter {
					t.Errorf("the deletion was handled after %v, want %v", took, tt.deletedAfter)
				}
			})
		})
	}
}
