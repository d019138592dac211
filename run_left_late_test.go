package workqueue_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue"
)

// These are the tests of what run_left.go says where an end is late: after that of ctx, or
// after a shutdown.

// Without OnStop, the log has the numbers of all that is left, and none if there is nothing.
func TestRunLogsWhatIsLeft(t *testing.T) {
	for want, fill := range map[string]func(s *show){
		"": func(*show) {},
		"queued=2 inFlight=1 failed=2 retries=0": func(s *show) {
			s.queue.Add("b")
			s.queue.Get()
			s.queue.Add("c")
			s.queue.Add("d")
		},
		"queued=0 inFlight=0 failed=2 retries=0": func(s *show) {},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			logger := logr.FromSlogHandler(slog.NewTextHandler(&log, nil))
			s := newShow(t, runQueues["all methods"])
			ctx, stop := context.WithCancel(t.Context())
			go func() {
				if want != "" {
					s.queue.Add("a")
					s.queue.Add("e")
					s.queue.Add("p")
				}
				synctest.Wait()
				fill(s)
				stop()
			}()
			workqueue.Run(ctx, s.queue, func(ctx context.Context, item string) error {
				<-ctx.Done()
				if item == "p" {
					return workqueue.RequeueAfter(time.Hour) // Is not left: it has not failed.
				}
				return errFailed
			}, runOptions{Workers: 3, Logger: &logger})
			line := log.String()
			if at := strings.Index(line, "Run has ended and left items behind"); at < 0 && want != "" || at >= 0 && want == "" || !strings.Contains(line, want) {
				t.Errorf("logged %q, want %q", line, want)
			}
		})
	}
}

// With Drain, what is left is in the error, by name also if nobody else is told, whoever
// holds it and whoever has shut the queue down.
func TestRunDrainHasWhatIsLeftInItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		ctx, stop := context.WithCancel(t.Context())
		s.queue.Add("a")
		s.queue.AddAfter("w", time.Hour)
		time.AfterFunc(time.Second, func() {
			s.queue.Add("b")
			s.queue.Get()
			s.queue.Add("c")
			stop()
		})
		err := workqueue.Run(ctx, s.queue, func(ctx context.Context, _ string) error { time.Sleep(5 * time.Second); return errFailed },
			runOptions{Drain: true, Grace: time.Second, Logger: discard()})
		left, _ := err.(*workqueue.DrainError[string])
		if left == nil || leftIn(left.Snapshot, left.Err) != "queued[c] held[b] waiting[w] failed[a]: context canceled" {
			t.Errorf("got %v, %+v", err, left)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		s.queue.Add("a")
		s.run(runOptions{Drain: true, Grace: time.Second}, func(context.Context, string) error { s.queue.ShutDown(); return errFailed })
		got := s.left()
		if want := "queued[] held[] waiting[] failed[a]: workqueue: queue is shut down"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		s.stop()
	})
}

// A GetContext that fails for one worker is in the error of Run, beside what is left by
// the others.
func TestRunReturnsWhatAWorkerHasFailedWith(t *testing.T) {
	for _, drain := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, runQueues["all methods"])
			s.queue = &failingOnce{TypedRateLimiting: s.queue.(*workqueue.TypedRateLimiting[string])}
			s.queue.Add("a")
			s.queue.Add("b")
			options := runOptions{Workers: 2, Drain: drain}
			if drain {
				options.Grace = time.Second
			}
			s.run(options, s.cut)
			synctest.Wait()
			s.stop()
			s.left()
			if !errors.Is(s.result, errFailed) || errors.Is(s.result, workqueue.ErrNotDrained) != drain {
				t.Errorf("Drain %v: got %v", drain, s.result)
			}
		})
	}
}

// failingOnce fails for the first worker that asks.
type failingOnce struct {
	*workqueue.TypedRateLimiting[string]
	failed atomic.Bool
}

func (q *failingOnce) GetContext(ctx context.Context) (string, error) {
	if !q.failed.Swap(true) {
		return "", errFailed
	}
	return q.TypedRateLimiting.GetContext(ctx)
}

// An item can wait for its time while it is handled. If it fails late, it has failed, and
// waits no more; if it is put off late, it waits once.
func TestRunNamesOnceWhatWaitsAndEndsLate(t *testing.T) {
	for want, f := range map[string]reply{
		"queued[] held[] waiting[w] failed[a]: <nil>": fails,
		"queued[] held[] waiting[w a]: <nil>":         requeues(time.Hour),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, runQueues["all methods"])
			s.queue.Add("a")
			s.run(runOptions{}, func(context.Context, string) error { time.Sleep(2 * time.Second); return f() })
			time.Sleep(time.Second)
			s.queue.AddAfter("w", time.Minute)
			s.queue.AddAfter("a", 2*time.Minute)
			s.stop()
			if got := s.left(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			for _, info := range s.stopped.Waiting {
				if wait := info.Due.Sub(s.start); wait != time.Minute+time.Second && wait != 2*time.Minute+time.Second {
					t.Errorf("%s is due after %v", info.Item, wait)
				}
			}
		})
	}
}

// What is put off late is due at the time that the handler has said, if it has said one.
func TestRunNamesWhenWhatIsPutOffLateIsDue(t *testing.T) {
	for _, tt := range []struct {
		reply reply
		due   time.Duration
	}{{requeues(time.Hour), time.Hour + 2*time.Second}, {workqueue.Requeue, 0}} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, runQueues["all methods"])
			s.queue.Add("a")
			var again bool
			s.run(runOptions{OnResult: func(_ context.Context, _ string, result workqueue.Result) { again = result.Again }},
				func(context.Context, string) error { time.Sleep(2 * time.Second); return tt.reply() })
			time.Sleep(time.Second)
			s.stop()
			if got, want := s.left(), "queued[] held[] waiting[a]: <nil>"; got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
			info, due := s.stopped.Waiting[0], time.Time{}
			if tt.due > 0 {
				due = s.start.Add(tt.due)
			}
			if info.State != workqueue.ItemWaiting || !info.Due.Equal(due) || again {
				t.Errorf("got %+v, want that it is due at %v; it was said to come again: %v", info, due, again)
			}
		})
	}
}
