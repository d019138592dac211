package workqueue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// cut is a handler that ends with its context, and notes the cause.
func (s *show) cut(ctx context.Context, item string) error {
	<-ctx.Done()
	s.note("%s ends: %v", item, context.Cause(ctx))
	return ctx.Err()
}

// The fate of items at work, queued items and waiting items when ctx ends.
func TestRunEnd(t *testing.T) {
	t.Parallel()
	stubborn := func(s *show) func(context.Context, string) error {
		return func(ctx context.Context, item string) error { time.Sleep(5 * time.Second); return nil }
	}
	failing := func(*show) func(context.Context, string) error {
		return func(context.Context, string) error { time.Sleep(5 * time.Second); return errFailed }
	}
	cut := func(s *show) func(context.Context, string) error { return s.cut }
	for name, tt := range map[string]struct {
		items   string
		options runOptions
		handle  func(*show) func(context.Context, string) error
		during  func(s *show) // at 0.5 s; ctx ends at 1 s
		want    string
		left    string
	}{
		"idle": {"", runOptions{}, cut, nil, "1:end", "<nil>"},
		"idle, waiting": {"", runOptions{}, cut, func(s *show) { s.queue.AddAfter("w", time.Minute) }, "1:end",
			"queued[] held[] waiting[w]: <nil>"},
		"a handler is cancelled": {"a", runOptions{}, cut, nil,
			"0:a 1:a ends: context canceled 1:end", "queued[a] held[] waiting[]: <nil>"},
		"a handler that then succeeds": {"a", runOptions{}, func(s *show) func(context.Context, string) error {
			return func(ctx context.Context, item string) error { s.cut(ctx, item); return nil }
		}, nil, "0:a 1:a ends: context canceled 1:end", "<nil>"},
		"a handler that does not listen is waited for": {"a", runOptions{}, stubborn, nil, "0:a 5:end", "<nil>"},
		"all workers are waited for":                   {"a b c", runOptions{Workers: 3}, stubborn, nil, "0:a 0:b 0:c 5:end", "<nil>"},
		"what is queued is not handed out": {"a b c", runOptions{}, stubborn, nil,
			"0:a 5:end", "queued[b c] held[] waiting[]: <nil>"},
		"nor is what is added again": {"a", runOptions{}, stubborn, func(s *show) { s.queue.Add("a") },
			"0:a 5:end", "queued[a] held[] waiting[]: <nil>"},
		"it is named once if it fails too": {"a", runOptions{}, failing, func(s *show) { s.queue.Add("a") },
			"0:a 5:end", "queued[a] held[] waiting[]: <nil>"},
		"what fails late": {"a b", runOptions{}, failing, nil,
			"0:a 5:end", "queued[b] held[] waiting[] failed[a]: <nil>"},
		"is not given up": {"a", runOptions{MaxAttempts: 1, OnGiveUp: func(context.Context, string, error) { panic("given up") }}, failing, nil,
			"0:a 5:end", "queued[] held[] waiting[] failed[a]: <nil>"},
		"but what is permanent is": {"a", runOptions{OnGiveUp: func(context.Context, string, error) {}}, func(*show) func(context.Context, string) error {
			return func(context.Context, string) error { time.Sleep(5 * time.Second); return permanently() }
		}, nil, "0:a 5:end", "<nil>"},
		"in grace": {"a b", runOptions{Grace: 2 * time.Second}, cut, nil,
			"0:a 3:a ends: context canceled 3:end", "queued[a b] held[] waiting[]: <nil>"},
		"with grace to spare": {"a b", runOptions{Grace: 10 * time.Second}, stubborn, nil,
			"0:a 5:end", "queued[b] held[] waiting[]: <nil>"},
		"drain": {"a b c", runOptions{Grace: 20 * time.Second, AtEnd: workqueue.EndDrain}, stubborn, nil,
			"0:a 10:c 15:end 5:b", "<nil>"},
		"drain of what is added again": {"a b", runOptions{Grace: 20 * time.Second, AtEnd: workqueue.EndDrain}, stubborn, func(s *show) { s.queue.Add("a") },
			"0:a 10:a 15:end 5:b", "<nil>"},
		"drain until grace is over": {"a b c", runOptions{Grace: 7 * time.Second, AtEnd: workqueue.EndDrain}, stubborn, nil,
			"0:a 10:end 5:b", "queued[c] held[] waiting[]: context canceled"},
		"drain that cancels": {"a b c", runOptions{Grace: 7 * time.Second, AtEnd: workqueue.EndDrain}, cut, nil,
			"0:a 8:a ends: context canceled 8:end", "queued[a b c] held[] waiting[]: context canceled"},
		"drain of what fails for good": {"a b", runOptions{Grace: 20 * time.Second, AtEnd: workqueue.EndDrain, MaxAttempts: 1}, failing, nil,
			"0:a 10:end 5:b", "<nil>"},
		"drain of what fails": {"a b", runOptions{Grace: 20 * time.Second, AtEnd: workqueue.EndDrain}, failing, nil,
			"0:a 10:a 15:b 20:a 25:end 5:b", "queued[] held[] waiting[b] failed[a]: context canceled"},
		"drain of what waits for a retry": {"a", runOptions{Grace: 20 * time.Second, AtEnd: workqueue.EndDrain}, func(*show) func(context.Context, string) error {
			return replies(fails, fails, fails)
		}, nil, "0:a 1:a 3:a 7:a 7:end", "<nil>"},
		"drain until what waits for a retry cannot come": {"a", runOptions{Grace: 3 * time.Second, AtEnd: workqueue.EndDrain}, func(*show) func(context.Context, string) error {
			return replies(fails, fails, fails, fails)
		}, nil, "0:a 1:a 3:a 3:end", "queued[] held[] waiting[a]: context canceled"},
		"drain beside what waits for something else": {"a", runOptions{Grace: 3 * time.Second, AtEnd: workqueue.EndDrain}, func(*show) func(context.Context, string) error {
			return replies()
		}, func(s *show) { s.queue.AddAfter("w", time.Minute) }, "0:a 1:end", "queued[] held[] waiting[w]: <nil>"},
		"drain until a ShutDown drops the retry": {"a", runOptions{Grace: time.Hour, AtEnd: workqueue.EndDrain}, func(*show) func(context.Context, string) error {
			return replies(func() error { return workqueue.RetryAfter(time.Minute, errFailed) })
		}, func(s *show) { time.AfterFunc(2*time.Second, s.queue.ShutDown) }, "0:a 2.5:end", "queued[] held[] waiting[a]: context canceled"},
		"drain of an idle queue": {"", runOptions{Grace: 20 * time.Second, AtEnd: workqueue.EndDrain}, cut, nil, "1:end", "<nil>"},
		"timeout in grace": {"a", runOptions{Grace: 2 * time.Second, Timeout: 1500 * time.Millisecond}, cut, nil,
			"0:a 1.5:a ends: workqueue: handler has timed out 1.5:end", "queued[] held[] waiting[] failed[a]: <nil>"},
		"panic late": {"a", runOptions{}, func(*show) func(context.Context, string) error {
			return func(context.Context, string) error { time.Sleep(5 * time.Second); return panics() }
		}, nil, "0:a 5:end", "queued[] held[] waiting[] failed[a]: <nil>"},
		"exit late": {"a b", runOptions{}, func(*show) func(context.Context, string) error {
			return func(context.Context, string) error { time.Sleep(5 * time.Second); return exits() }
		}, nil, "0:a 5:end", "queued[b] held[] waiting[] failed[a]: <nil>"},
		"requeue late": {"a", runOptions{}, func(*show) func(context.Context, string) error {
			return func(context.Context, string) error { time.Sleep(5 * time.Second); return requeues(time.Second)() }
		}, nil, "0:a 5:end", "queued[] held[] waiting[a]: <nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				for item := range strings.FieldsSeq(tt.items) {
					s.queue.Add(item)
				}
				s.run(tt.options, tt.handle(s))
				time.Sleep(500 * time.Millisecond)
				if tt.during != nil {
					tt.during(s)
				}
				time.Sleep(500 * time.Millisecond)
				s.stop()
				got := s.left()
				slices.Sort(s.events) // The workers are not in step.
				s.want(tt.want)
				if got != tt.left {
					t.Errorf("got %s, want %s", got, tt.left)
				}
				if s.result != nil && !errors.Is(s.result, context.Canceled) {
					t.Errorf("%v is not the context's error", s.result)
				}
				s.wantFailuresAsLogged()
			})
		})
	}
}

// The contexts of handlers carry the values, the deadline and the end of Run's.
func TestRunHandlerContext(t *testing.T) {
	type key struct{}
	for _, options := range []runOptions{{}, {Grace: time.Second}, {Timeout: time.Minute}, {CancelOnReAdd: 3}} {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("because")
			deadline := time.Now().Add(time.Hour)
			timed, stop := context.WithDeadline(context.WithValue(t.Context(), key{}, "value"), deadline)
			defer stop()
			ctx, cancel := context.WithCancelCause(timed)
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
			q.Add("a")
			start := time.Now()
			workqueue.Run(ctx, q, func(ctx context.Context, _ string) error {
				if got := ctx.Value(key{}); got != "value" {
					t.Errorf("%+v: got the value %v", options, got)
				}
				if got, _ := ctx.Deadline(); !got.Equal(deadline) && options.Timeout+options.Grace == 0 {
					t.Errorf("%+v: got the deadline %v, want %v", options, got, deadline)
				}
				cancel(cause)
				<-ctx.Done()
				if got := time.Since(start); got != options.Grace {
					t.Errorf("%+v: the context ended after %v", options, got)
				}
				if got := context.Cause(ctx); got != cause {
					t.Errorf("%+v: got the cause %v", options, got)
				}
				return nil
			}, options)
		})
	}
}

// When somebody else shuts the queue down, Run works off the queued items.
func TestRunWhenTheQueueIsShutDown(t *testing.T) {
	for name, down := range map[string]func(s *show){
		"ShutDown":          func(s *show) { s.queue.ShutDown() },
		"ShutDownWithDrain": func(s *show) { s.queue.ShutDownWithDrain(); s.note("drained") },
		"Drain": func(s *show) {
			if err := s.ours.Drain(s.t.Context()); err != nil {
				s.t.Errorf("got %v from Drain", err)
			}
			s.note("drained")
		},
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				s.queue.Add("a")
				s.queue.Add("b")
				s.queue.Add("c")
				s.queue.AddAfter("d", time.Minute)
				s.run(runOptions{}, func(ctx context.Context, item string) error {
					time.Sleep(time.Second)
					if item == "c" {
						return errFailed // The retry is dropped.
					}
					return ctx.Err()
				})
				time.Sleep(500 * time.Millisecond)
				s.queue.Add("a")
				go down(s)
				if err := s.end(); err != workqueue.ErrShutDown {
					t.Errorf("got %v, want %v", err, workqueue.ErrShutDown)
				}
				synctest.Wait()
				got := strings.Join(s.events, " ")
				if !strings.HasPrefix(got, "0:a 1:b 2:c 3:a ") || !strings.Contains(got, "4:end") || name != "ShutDown" && !strings.Contains(got, "4:drained") {
					t.Errorf("got the events %q", got)
				}
				s.stop()
			})
		})
	}
}

// The end of ctx ends the work on the queue, also after a shutdown by somebody else. Run takes the items
// out of the queue and names them: a drain afterwards has nothing to wait for.
func TestRunLeavesAQueueThatDrains(t *testing.T) {
	for name, tt := range map[string]struct{ before, after func(s *show) }{
		"after a ShutDown":           {func(s *show) { s.queue.ShutDown() }, func(*show) {}},
		"after a ShutDownWithDrain":  {func(s *show) { s.queue.ShutDownWithDrain() }, func(*show) {}},
		"and then ShutDownWithDrain": {func(*show) {}, func(s *show) { s.queue.ShutDownWithDrain() }},
		"and then Drain": {func(*show) {}, func(s *show) {
			if err := s.ours.Drain(context.Background()); err != nil {
				s.t.Errorf("got %v of the drain", err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				for _, item := range []string{"a", "b", "c"} {
					s.queue.Add(item)
				}
				s.run(runOptions{}, s.cut)
				synctest.Wait()
				go tt.before(s) // The bubble reports a drain without an end.
				time.Sleep(time.Second)
				s.stop()
				got := s.left()
				s.want("0:a 1:a ends: context canceled 1:end")
				if want := "queued[a b c] held[] waiting[]: <nil>"; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				tt.after(s)
				if n := s.queue.Len(); n != 0 {
					t.Errorf("%d items are queued", n)
				}
			})
		})
	}
}

// A drain without OnStop took the waiting items for itself, and nobody named the items.
func TestOnStopNamesWhatWaitsAfterTheEndOfAnotherRun(t *testing.T) {
	for _, first := range []runOptions{{}, {AtEnd: workqueue.EndDrain, Grace: time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, ourQueue)
			s.queue.AddAfter("w", time.Hour)
			ctx, stop := context.WithCancel(t.Context())
			var other sync.WaitGroup
			other.Go(func() {
				first.Logger = discard()
				if err := workqueue.Run(ctx, s.queue, replies(), first); err != nil {
					t.Error(err)
				}
			})
			s.run(runOptions{}, replies())
			synctest.Wait()
			stop()
			if got, want := s.left(), "queued[] held[] waiting[w]: workqueue: queue is shut down"; got != want {
				t.Errorf("AtEnd %v: got %s, want %s", first.AtEnd, got, want)
			}
			other.Wait()
			s.stop()
		})
	}
}

// Of two Runs, the Run that ends the queue names the waiting items, also if its own worker is the last to
// end.
func TestTheRunThatEndsTheQueueNamesWhatHasWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLimited(constant(0))
		q.Add("long")
		q.AddAfter("w", time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		var runs sync.WaitGroup
		run := func(ctx context.Context, want string) {
			runs.Go(func() {
				workqueue.Run(ctx, q, func(context.Context, string) error { time.Sleep(time.Minute); return nil },
					runOptions{Logger: discard(), OnStop: func(_ context.Context, left workqueue.Snapshot[string]) {
						if got := names(left.Waiting); got != want {
							t.Errorf("%q is named as waiting, want %q", got, want)
						}
					}})
			})
			synctest.Wait()
		}
		run(ctx, "w")
		run(t.Context(), "")
		stop()
		runs.Wait()
	})
}

// Of two Runs that drain, the first to give up leaves the queue to the other. The retry of 1.8 s is too late for
// a grace period of 1 s. The last Run names the items left, and shuts the queue down.
func TestTheLastOfTwoDrainsEndsTheQueue(t *testing.T) {
	for want, reply := range map[string]reply{
		"1.8:a, queued[] held[] waiting[a]: context canceled": func() error { return workqueue.RetryAfter(1800*time.Millisecond, errFailed) },
		"0.5:end, <nil>": func() error { time.Sleep(500 * time.Millisecond); return nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, ourQueue)
			handle := func(context.Context, string) error { return reply() }
			s.run(runOptions{AtEnd: workqueue.EndDrain, Grace: 2 * time.Second}, handle)
			ctx, stop := context.WithCancel(t.Context())
			var other sync.WaitGroup
			other.Go(func() {
				err := workqueue.Run(ctx, s.queue, handle, runOptions{AtEnd: workqueue.EndDrain, Grace: time.Second, Logger: discard()})
				if err != nil {
					t.Errorf("the first Run returned %v", err)
				}
			})
			s.queue.Add("a")
			synctest.Wait()
			s.events = nil
			s.stop()
			stop()
			other.Wait()
			if got := s.left(); s.events[0]+", "+got != want {
				t.Errorf("got %s, %s, want %s", s.events, got, want)
			}
		})
	}
}

// left waits for Run and returns in short the items that OnStop got, and the error of Run. The lists of the
// error must be the same.
func (s *show) left() string {
	s.t.Helper()
	err := s.end()
	if s.stopped == nil {
		return fmt.Sprint("OnStop was not called: ", err)
	}
	if drained := (*workqueue.DrainError[string])(nil); errors.As(err, &drained) {
		if !reflect.DeepEqual(drained.Left, *s.stopped) {
			s.t.Errorf("the error has %+v, and OnStop was told %+v", drained.Left, *s.stopped)
		}
		if !errors.Is(err, workqueue.ErrNotDrained) {
			s.t.Errorf("%v is not ErrNotDrained", err)
		}
		if err == error(drained) {
			err = drained.Err
		}
	}
	return leftIn(*s.stopped, err)
}

func leftIn(left workqueue.Snapshot[string], err error) string {
	if reflect.DeepEqual(left, workqueue.Snapshot[string]{}) {
		return fmt.Sprint(err)
	}
	list := func(name string, infos []workqueue.ItemInfo[string], total int) string {
		var items []string
		for _, info := range infos {
			items = append(items, info.Item)
		}
		if len(items) != total {
			return fmt.Sprintf("%s%v of %d", name, items, total)
		}
		return name + fmt.Sprint(items)
	}
	text := fmt.Sprintf("%s %s %s", list("queued", left.Queued, left.QueuedTotal),
		list("held", left.InFlight, left.InFlightTotal), list("waiting", left.Waiting, left.WaitingTotal))
	if left.FailedTotal > 0 || left.Failed != nil {
		text += list(" failed", left.Failed, left.FailedTotal)
	}
	return fmt.Sprintf("%s: %v", text, err)
}

// leftBy returns the argument of OnStop of a Run, and the error of the Run.
func leftBy[T comparable](
	ctx context.Context, q workqueue.TypedRateLimitingInterface[T],
	handle func(ctx context.Context, item T) error, options workqueue.RunOptions[T],
) (left workqueue.Snapshot[T], err error) {
	options.Logger = discard()
	options.OnStop = func(_ context.Context, s workqueue.Snapshot[T]) { left = s }
	err = workqueue.Run(ctx, q, handle, options)
	return left, err
}

// OnStop names waiting items beside an item that has failed late, even with nothing to drain, and with the
// failures in the log. An item put off late counts as waiting. An item at work that waits too is named
// once: as failed, or as due at the earlier time.
func TestRunNamesWhatWaitsBesideALateFailure(t *testing.T) {
	for name, tt := range map[string]struct {
		items string // the handler of a replies, and b fails
		reply reply
		waits bool   // a waits too
		left  string // the names of all items left
	}{
		"failure":                  {"a", fails, false, "queued[] held[] waiting[x w] failed[a]: <nil>"},
		"failure of what waits":    {"a", fails, true, "queued[] held[] waiting[x w] failed[a]: <nil>"},
		"panic":                    {"a", panics, false, "queued[] held[] waiting[x w] failed[a]: <nil>"},
		"success":                  {"a", succeeds, false, "queued[] held[] waiting[x w]: <nil>"},
		"success beside a failure": {"a b", succeeds, false, "queued[] held[] waiting[x w] failed[b]: <nil>"},
		"put off":                  {"a", requeues(time.Hour), false, "queued[] held[] waiting[x w a]: <nil>"},
		"put off, and waits":       {"a", requeues(time.Hour), true, "queued[] held[] waiting[x w a]: <nil>"},
		"put off beside a failure": {"a b", requeues(time.Hour), false, "queued[] held[] waiting[x w a] failed[b]: <nil>"},
	} {
		for _, cut := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, ShutDown %v", name, cut), func(t *testing.T) {
				onRunQueues(t, func(t *testing.T, s *show) {
					s.queue.AddRateLimited("x")
					s.queue.AddAfter("w", time.Minute)
					for item := range strings.FieldsSeq(tt.items) {
						s.queue.Add(item)
					}
					s.run(runOptions{Workers: 2}, func(_ context.Context, item string) error {
						if item == "b" {
							time.Sleep(6 * time.Second)
							return errFailed
						}
						time.Sleep(5 * time.Second)
						return tt.reply()
					})
					time.Sleep(500 * time.Millisecond)
					if tt.waits {
						s.queue.AddAfter("a", 2*time.Minute)
					}
					s.stop()
					if synctest.Wait(); cut {
						s.queue.ShutDown()
					}
					if got := s.left(); got != tt.left {
						t.Errorf("got %s, want %s", got, tt.left)
					}
					for _, info := range s.stopped.Waiting[1:] {
						want := map[string]time.Duration{"w": time.Minute, "a": time.Hour + 5*time.Second}[info.Item]
						if tt.waits && info.Item == "a" {
							want = 2*time.Minute + 500*time.Millisecond
						}
						if got := info.Due.Sub(s.start); got != want {
							t.Errorf("%s is due after %v, want %v", info.Item, got, want)
						}
					}
					s.wantFailuresAsLogged()
					s.wantDropped()
				})
			})
		}
	}
}

// wantDropped checks the info of "x", which has failed and waited, and that the queue keeps no list of dropped
// items.
func (s *show) wantDropped() {
	s.t.Helper()
	if drains, dropped := s.ours.Delaying().Drains(); drains+dropped != 0 {
		s.t.Errorf("%d drains seem to be under way, with %d items", drains, dropped)
	}
	if x := s.stopped.Waiting[0]; x.Failures != 1 || !x.Due.Equal(s.start.Add(time.Second)) {
		s.t.Errorf("got %+v, want that it is due after a second, with one failure", x)
	}
}

// wantFailuresAsLogged compares the failures of late items in OnStop with the last line in the log on each item.
func (s *show) wantFailuresAsLogged() {
	s.t.Helper()
	for _, info := range slices.Concat(s.stopped.Queued, s.stopped.Waiting, s.stopped.Failed) {
		var last string
		failed := 0
		for line := range strings.Lines(s.log.String()) {
			if strings.Contains(line, "Handler failed") && strings.Contains(line, "item="+info.Item+" ") {
				failed++
			}
			if strings.Contains(line, "the queue is shut down") && strings.Contains(line, "item="+info.Item+" ") {
				last = line
			}
		}
		calls := 0
		for _, event := range s.events {
			if strings.HasSuffix(event, ":"+info.Item) {
				calls++
			}
		}
		if info.State == workqueue.ItemWaiting && calls > failed {
			continue // A dropped wait of an item with another entry, which has succeeded since.
		}
		if want := fmt.Sprintf("failures=%d ", info.Failures); last != "" && !strings.Contains(last, want) {
			s.t.Errorf("%s has %d failures, but the log says %s", info.Item, info.Failures, last)
		}
	}
}

// A hookedLimiter calls a function in When, and one in Forget.
type hookedLimiter struct {
	workqueue.TypedRateLimiter[string]
	when, forget func()
}

func (l hookedLimiter) When(item string) time.Duration {
	l.when()
	return l.TypedRateLimiter.When(item)
}

func (l hookedLimiter) Forget(item string) { l.forget(); l.TypedRateLimiter.Forget(item) }

// An endingContext has ended, and its Done is closed a moment later, as for each context of the standard library.
type endingContext struct {
	context.Context
	ended atomic.Bool
}

func (c *endingContext) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// An item between its decline and the shutdown is named once, or not at all after a Remove.
func TestOnStopNamesWhatBecameOfADeclinedItem(t *testing.T) {
	for want, then := range map[string]func(q *workqueue.TypedRateLimiting[string]) (removed bool){
		"queued[c a] waiting[] false":  func(q *workqueue.TypedRateLimiting[string]) bool { return false },
		"queued[c a] waiting[]  false": func(q *workqueue.TypedRateLimiting[string]) bool { return q.Remove("a") },
		"queued[c b a] waiting[] false": func(q *workqueue.TypedRateLimiting[string]) bool {
			q.AddAll("b", "a")
			return false
		},
		"queued[c] waiting[] true": func(q *workqueue.TypedRateLimiting[string]) bool {
			q.Add("a")
			return q.Remove("a")
		},
		"queued[c] waiting[]  true": func(q *workqueue.TypedRateLimiting[string]) bool {
			q.AddAfter("a", time.Hour)
			return q.Remove("a")
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newLimited(constant(0))
			inner, stop := context.WithCancel(t.Context())
			defer stop()
			ctx := &endingContext{Context: inner}
			var left workqueue.Snapshot[string]
			ended := make(chan error)
			go func() {
				ended <- workqueue.Run(ctx, q, func(context.Context, string) error {
					time.Sleep(time.Second)
					return nil
				}, runOptions{Workers: 3, Logger: discard(), OnStop: func(_ context.Context, s workqueue.Snapshot[string]) { left = s }})
			}()
			q.Add("long") // Its worker keeps Run from its end.
			synctest.Wait()
			ctx.ended.Store(true)
			q.Add("c")
			synctest.Wait()
			q.Add("a")
			synctest.Wait() // Two workers have declined an item each.
			removed := then(q)
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			got := fmt.Sprintf("queued[%s] waiting[%s] %v", names(left.Queued), names(left.Waiting), removed)
			if want := strings.ReplaceAll(want, "  ", " "); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// The Due of an item that was put off too late was that of the real clock, in a queue with another one.
func TestDueOfWhatIsPutOffTooLateIsThatOfTheClock(t *testing.T) {
	for _, putOff := range []error{workqueue.RequeueAfter(time.Minute), workqueue.DeferFor(time.Minute),
		errors.Join(workqueue.RequeueAfter(time.Hour), workqueue.DeferFor(time.Minute))} {
		clock := testingclock.NewFakeClock(epoch)
		q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{Clock: clock})
		q.Add("a")
		clock.Step(time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		left, _ := leftBy(ctx, q, func(ctx context.Context, _ string) error {
			stop()
			<-ctx.Done()
			for !q.ShuttingDown() {
				runtime.Gosched()
			}
			return putOff
		}, runOptions{})
		if want := epoch.Add(time.Hour + time.Minute); len(left.Waiting) != 1 || !left.Waiting[0].Due.Equal(want) {
			t.Errorf("%v: got %+v, want a at %v", putOff, left.Waiting, want)
		}
	}
}

// OnStop could not store the items left: OnStop had no context, and the context of Run had ended.
func TestOnStopHasAContextThatHasNotEnded(t *testing.T) {
	type key struct{}
	for name, options := range map[string]runOptions{
		"EndStop": {}, "EndKeep": {AtEnd: workqueue.EndKeep}, "EndDrain": {AtEnd: workqueue.EndDrain, Grace: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedRateLimiting(constant(time.Hour), workqueue.TypedRateLimitingQueueConfig[string]{})
			defer q.ShutDown()
			told := 0
			options.OnStop = func(ctx context.Context, left workqueue.Snapshot[string]) {
				told++
				if ctx.Err() != nil || ctx.Done() != nil || ctx.Value(key{}) != "value" {
					t.Errorf("%s: OnStop got a context with the error %v and the value %v", name, ctx.Err(), ctx.Value(key{}))
				}
			}
			ctx, stop := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Second)
			defer stop()
			workqueue.Run(ctx, q, succeeding, options)
			if told != 1 {
				t.Errorf("%s: OnStop was called %d times", name, told)
			}
		})
	}
}

// The log has the numbers of all items left. An item counts once: an item that fails too late and waits because of a
// call has failed. Items that wait without a failure are no error.
func TestRunLogsWhatIsLeft(t *testing.T) {
	drain := runOptions{AtEnd: workqueue.EndDrain, Grace: time.Second}
	for _, row := range []struct {
		items   []string
		options runOptions
		want    string
	}{
		{nil, runOptions{}, "queued=0 inFlight=0 failed=0 retries=0 planned=0"},
		{[]string{"adds late"}, runOptions{}, "queued=1 inFlight=0 failed=0 retries=0 planned=0"},
		{[]string{"late fails"}, runOptions{}, "queued=0 inFlight=0 failed=1 retries=0 planned=0"},
		{[]string{"waits late fails"}, runOptions{}, "queued=0 inFlight=0 failed=1 retries=0 planned=0"},
		{[]string{"others late fails", "late fails", "late planned"}, runOptions{}, "queued=2 inFlight=1 failed=2 retries=0 planned=1"},
		{[]string{"", "deferred", "planned"}, runOptions{}, "queued=0 inFlight=0 failed=0 retries=0 planned=3"},
		{[]string{"", "deferred", "late planned"}, runOptions{}, "queued=0 inFlight=0 failed=0 retries=0 planned=3"},
		{[]string{"", "deferred", "waits late planned"}, runOptions{}, "queued=0 inFlight=0 failed=0 retries=0 planned=3"},
		{[]string{"", "deferred", "added late planned"}, runOptions{}, "queued=1 inFlight=0 failed=0 retries=0 planned=2"},
		{[]string{"", "deferred", "planned"}, drain, "queued=0 inFlight=0 failed=0 retries=0 planned=3"},
		{[]string{"", "deferred", "late planned"}, drain, "queued=0 inFlight=0 failed=0 retries=0 planned=3"},
		{[]string{"", "deferred", "waits late planned"}, drain, "queued=0 inFlight=0 failed=0 retries=0 planned=3"},
		// These failures were no error of the drain: the failure was forgotten, or the item was put off.
		{[]string{"waits late forgotten fails"}, drain, "queued=0 inFlight=0 failed=1 retries=0 planned=0"},
		{[]string{"again in-grace deferred"}, drain, "queued=0 inFlight=0 failed=0 retries=1 planned=0"},
		{[]string{"again late deferred"}, drain, "queued=0 inFlight=0 failed=0 retries=1 planned=0"},
	} {
		log, err := logOfEnd(t, row.options, row.items...)
		if want := `level=INFO msg="Run has ended, and the queue is shut down" ` + row.want + "\n"; strings.Count(log, want) != 1 {
			t.Errorf("%q, %v: logged %q, want %q", row.items, row.options.AtEnd, log, row.want)
		}
		failed := !strings.Contains(row.want, "failed=0 retries=0")
		if errors.Is(err, workqueue.ErrNotDrained) != (failed && row.options.AtEnd == workqueue.EndDrain) {
			t.Errorf("%q, %v: got %v from Run", row.items, row.options.AtEnd, err)
		}
	}
	// There are as many records as fit on some pages, and fewer. A free record has the item "" too.
	for n := range 2*16 + 1 {
		items := []string{"", "again"}
		for i := range n {
			items = append(items, fmt.Sprint("fails ", i))
		}
		log, _ := logOfEnd(t, runOptions{}, items...)
		if want := fmt.Sprintf("queued=0 inFlight=0 failed=0 retries=%d planned=1\n", n); !strings.Contains(log, want) {
			t.Errorf("%d items: logged %q, want %q", n, log, want)
		}
	}
}

// logOfEnd returns the log and the error of a Run whose context ends after a second. The handler of an item does what
// the words of the item say. The item "" waits.
func logOfEnd(t *testing.T, options runOptions, items ...string) (log string, err error) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		logger := logr.FromSlogHandler(slog.NewTextHandler(&b, nil))
		q := newLimited(constant(time.Minute))
		for _, item := range items {
			if item == "" {
				q.AddAfter(item, time.Hour)
			} else {
				q.Add(item)
			}
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		options.Logger, options.Workers = &logger, len(items)
		options.OnResult = func(_ context.Context, item string, _ workqueue.HandlerResult) {
			if strings.Contains(item, "forgotten") {
				q.Forget(item)
			}
		}
		err = workqueue.Run(ctx, q, func(ctx context.Context, item string) (err error) {
			info, _ := workqueue.ItemInfoFromContext[string](ctx)
			for word := range strings.FieldsSeq(item) {
				switch word {
				case "again":
					if info.Failures == 0 {
						return workqueue.RetryAfter(time.Second/2, errFailed)
					}
				case "adds":
					q.Add("another")
				case "added":
					q.Add(item)
				case "waits":
					q.AddAfter(item, time.Hour)
				case "others":
					time.Sleep(time.Second / 2) // Each worker has an item.
					q.Add("theirs")
					q.Get()
					q.AddAll("another", "a third")
				case "in-grace":
					time.Sleep(time.Second)
				case "late":
					<-ctx.Done()
					time.Sleep(time.Millisecond)
				case "fails":
					err = errFailed
				case "planned":
					err = workqueue.RequeueAfter(time.Minute)
				case "deferred":
					err = workqueue.DeferFor(time.Hour)
				}
			}
			return err
		}, options)
		log = b.String()
	})
	return log, err
}

// The Run of a queue had ended, others went on to add, and nothing in the log said why nobody worked. A second Run had
// shut the queue down for the first. Nor did the log say with how many workers a deploy had begun.
func TestRunLogsItsStartAndEnd(t *testing.T) {
	for end, want := range map[workqueue.End]string{
		workqueue.EndKeep:  `"Run has ended, and the queue stays open" queued=1`,
		workqueue.EndStop:  `"Run has ended, and the queue is shut down" queued=1 inFlight=0`,
		workqueue.EndDrain: `"Run has ended, and another Run drains the queue" queued=0 inFlight=0`,
	} {
		for _, onStop := range []func(context.Context, workqueue.Snapshot[string]){nil, func(context.Context, workqueue.Snapshot[string]) {}} {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				logger := logr.FromSlogHandler(slog.NewTextHandler(&log, nil))
				s := newShow(t, ourQueue)
				defer s.queue.ShutDown()
				ctx, stop := context.WithCancel(t.Context())
				s.queue.Add("a")
				if end == workqueue.EndDrain { // The longer grace drains the queue.
					for _, options := range []runOptions{{Grace: time.Second, Logger: &logger, Workers: 3}, {Grace: time.Minute, Logger: discard()}} {
						options.AtEnd, options.OnStop = end, onStop
						go workqueue.Run(ctx, s.queue, func(ctx context.Context, _ string) error {
							<-ctx.Done()
							return ctx.Err()
						}, options)
						synctest.Wait()
					}
				}
				stop()
				if end != workqueue.EndDrain {
					if err := workqueue.Run(ctx, s.queue, replies(), runOptions{AtEnd: end, Logger: &logger, OnStop: onStop, Workers: 3}); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				lines := 1
				if onStop != nil {
					lines = 0
				}
				if got := log.String(); strings.Count(got, want) != lines || strings.Count(got, "Run has ended") != lines {
					t.Errorf("logged %q, want %q without an OnStop", got, want)
				}
				if got, want := log.String(), `level=INFO msg="Run has started" workers=3`; strings.Count(got, want) != 1 {
					t.Errorf("logged %q, want %q", got, want)
				}
			})
		}
	}
}

// The error of a drain names the items left, also without an OnStop, with the priority of a queued item,
// whoever holds an item and whoever has shut the queue down.
func TestRunDrainHasWhatIsLeftInItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, ourQueue)
		ctx, stop := context.WithCancel(t.Context())
		s.queue.Add("a")
		s.queue.AddAfter("w", time.Hour)
		time.AfterFunc(time.Second, func() {
			s.queue.Add("b")
			s.queue.Get()
			s.ours.AddWith(workqueue.AddOptions{Priority: prio(5)}, "c")
			stop()
		})
		err := workqueue.Run(ctx, s.queue, func(ctx context.Context, _ string) error { time.Sleep(5 * time.Second); return errFailed },
			runOptions{AtEnd: workqueue.EndDrain, Grace: time.Second, Logger: discard()})
		left, _ := err.(*workqueue.DrainError[string])
		const want = "queued[c] held[b] waiting[w] failed[a]: context canceled"
		if left == nil || leftIn(left.Left, left.Err) != want || left.Left.Queued[0].Priority != 5 {
			t.Errorf("got %v, %+v", err, left)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, ourQueue)
		s.queue.Add("a")
		s.run(runOptions{AtEnd: workqueue.EndDrain, Grace: time.Second}, func(context.Context, string) error { s.queue.ShutDown(); return errFailed })
		got := s.left()
		if want := "queued[] held[] waiting[] failed[a]: workqueue: queue is shut down"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		s.stop()
	})
}

// Run returns the error of a GetInfo together with the items left by the other workers.
func TestRunReturnsWhatAWorkerHasFailedWith(t *testing.T) {
	for _, options := range []runOptions{{}, {AtEnd: workqueue.EndDrain, Grace: time.Second}, {AtEnd: workqueue.EndKeep}} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, ourQueue)
			var asked atomic.Bool
			s.queue = &replacing{TypedRateLimiting: s.ours, getInfo: func(ctx context.Context) (workqueue.ItemInfo[string], error) {
				if !asked.Swap(true) {
					return workqueue.ItemInfo[string]{}, errFailed
				}
				return s.ours.GetInfo(ctx)
			}}
			s.queue.Add("a")
			s.queue.Add("b")
			options.Workers = 2
			s.run(options, s.cut)
			synctest.Wait()
			s.stop()
			<-s.ended
			if err := s.result; !errors.Is(err, errFailed) || errors.Is(err, workqueue.ErrNotDrained) != (options.AtEnd == workqueue.EndDrain) {
				t.Errorf("%v: got %v", options.AtEnd, err)
			}
			s.queue.ShutDown()
		})
	}
}

// Under an errgroup, a controller whose queue somebody else had shut down looked alive: Run
// returned nil, unless the shutdown came before the call.
func TestRunReturnsNilOnlyIfItsContextHasEnded(t *testing.T) {
	for name, tt := range map[string]struct {
		ends []func(s *show)
		want error
	}{
		"shutdown":                {[]func(s *show){func(s *show) { s.queue.ShutDown() }}, workqueue.ErrShutDown},
		"end of ctx":              {[]func(s *show){func(s *show) { s.stop() }}, nil},
		"end of ctx and shutdown": {[]func(s *show){func(s *show) { s.stop(); s.queue.ShutDown() }}, nil},
		"end of ctx while the queue is worked off": {[]func(s *show){func(s *show) { s.queue.ShutDown() }, func(s *show) { s.stop() }}, nil},
	} {
		for _, item := range []string{"", "at work"} {
			t.Run(name+" "+item, func(t *testing.T) {
				onRunQueues(t, func(t *testing.T, s *show) {
					if item != "" {
						s.queue.Add(item)
					}
					s.run(runOptions{}, func(context.Context, string) error { time.Sleep(3 * time.Second); return nil })
					for _, end := range tt.ends {
						time.Sleep(time.Second)
						end(s)
					}
					want := tt.want
					if item == "" && len(tt.ends) == 2 {
						want = workqueue.ErrShutDown // Nothing was there to be worked off.
					}
					if err := s.end(); err != want {
						t.Errorf("got %v, want %v", err, want)
					}
				})
			})
		}
	}
}

// A program that regains leadership calls Run on the queue of before. Run returned nil
// at once then, and the controller was dead.
func TestRunOnAQueueThatIsShutDown(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		s.queue.Add("a")
		s.queue.ShutDown()
		err := workqueue.Run(t.Context(), s.queue, func(context.Context, string) error { t.Error("called"); return nil }, runOptions{OnStop: s.onStop})
		if err != workqueue.ErrShutDown || s.queue.Len() != 1 || s.stopped != nil {
			t.Errorf("got %v with %d items in the queue, and OnStop was told %v", err, s.queue.Len(), s.stopped)
		}
	})
}

// An item that is handed out when ctx ends goes back to its place, with its priority, also by the Done
// of an embedding type. A Barrier waits until the item is done.
func TestRunGivesBackWhatItDeclinesToAKeptQueue(t *testing.T) {
	const want = "a b"
	for _, embeds := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			q, metrics := newEndingOnHandOut[string](stop)
			q.AddWith(workqueue.AddOptions{Priority: prio(7)}, "a", "b")
			var queue rateLimited = q
			if embeds {
				queue = &embedding[string]{TypedRateLimiting: q}
			}
			barrier := make(chan error)
			go func() { barrier <- q.Barrier(t.Context()) }()
			synctest.Wait()
			err := workqueue.Run(ctx, queue, func(context.Context, string) error { t.Error("called"); return nil }, runOptions{AtEnd: workqueue.EndKeep})
			if s := q.Snapshot(9); err != nil || names(s.Queued) != want || s.Queued[0].Priority+s.Queued[1].Priority != 14 || s.InFlightTotal != 0 {
				t.Errorf("got %v, and %+v in the queue, want %s queued with priority 7", err, s, want)
			}
			depth := 0
			for _, event := range metrics.take() {
				depth += map[string]int{"depth+1": 1, "depth-1": -1}[event]
			}
			if depth != 2 {
				t.Errorf("the gauge of the depth is %d, want 2", depth)
			}
			for range 2 {
				item, _ := q.Get()
				q.Done(item)
			}
			if err := <-barrier; err != nil {
				t.Errorf("the Barrier got %v, and both items were done", err)
			}
			q.ShutDown()
		})
	}
}

// The end of a Run counted a latency and a duration of work for each item taken out of the queue.
func TestTheEndOfRunCountsNoHandOut(t *testing.T) {
	for _, below := range []workqueue.Queue[string]{nil, workqueue.DefaultQueue[string]()} {
		metrics := &recorder{}
		fifo := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", Queue: below, MetricsProvider: metrics})
		delaying := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: fifo})
		q := workqueue.NewTypedRateLimiting(constant(time.Hour), workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: delaying})
		q.AddAll("a", "b")
		metrics.take()
		ctx, stop := context.WithCancel(t.Context())
		stop()
		left, err := leftBy(ctx, q, succeeding, runOptions{})
		if got := fmt.Sprint(metrics.take()); err != nil || names(left.Queued) != "a b" || got != "[depth-1 depth-1]" {
			t.Errorf("got %v, left are %v, and the metrics are told of %s", err, left, got)
		}
	}
}

// Items that differ from themselves, of a group that is held back, stayed in the queue at the end of Run: OnStop
// did not name them, and a drain waited for ever.
func TestRunTakesOutWhatIsHeldBackAndDiffersFromItself(t *testing.T) {
	for name, end := range map[string]func(q *workqueue.TypedRateLimiting[float64], stop func()){
		"the context": func(_ *workqueue.TypedRateLimiting[float64], stop func()) { stop() },
		"a shutdown":  func(q *workqueue.TypedRateLimiting[float64], _ func()) { q.ShutDown() },
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[float64]{Order: workqueue.Order[float64]{
				Group: func(float64) string { return "g" }, MaxInFlight: func(string) int { return workqueue.HoldBack },
			}})
			q.AddAll(math.NaN(), 1, math.NaN())
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, func() { end(q, stop) })
			left, _ := leftBy(ctx, q, func(context.Context, float64) error { return nil }, workqueue.RunOptions[float64]{})
			if left.QueuedTotal != 3 || q.Len() != 0 {
				t.Errorf("%s: left are %v, and the queue has %v", name, left, q.Snapshot(9))
			}
			q.ShutDownWithDrain()
		})
	}
}

// An item that differs from itself and whose handler was cut short was named twice.
func TestRunNamesWhatDiffersFromItselfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(nil, workqueue.TypedRateLimitingQueueConfig[float64]{})
		q.Add(math.NaN())
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		left, err := leftBy(ctx, q, func(ctx context.Context, _ float64) error { <-ctx.Done(); return ctx.Err() }, workqueue.RunOptions[float64]{})
		if err != nil || left.QueuedTotal != 1 || left.FailedTotal != 0 {
			t.Errorf("got %v, and left are %v", err, left)
		}
	})
}

// newEndingOnHandOut returns a queue that calls a function during a hand-out, and the metrics of the queue.
func newEndingOnHandOut[T comparable](stop func()) (*workqueue.TypedRateLimiting[T], *recorder) {
	metrics := &recorder{}
	metrics.setHook(func(event string) {
		if strings.HasPrefix(event, "latency") {
			stop()
		}
	})
	q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[T](), workqueue.TypedRateLimitingQueueConfig[T]{Name: "q", MetricsProvider: metrics})
	return q, metrics
}

// A Run that ended beside a draining Run emptied the queue: 5 of 100 items were handled, and
// OnStop named 95 lost items. The draining Run has the queue until its end.
func TestRunThatDrainsHandlesAllWhateverOthersEndWith(t *testing.T) {
	t.Parallel()
	for name, extra := range map[string]runOptions{
		"keep":             {AtEnd: workqueue.EndKeep},
		"stop":             {},
		"stop with grace":  {Grace: 1500 * time.Millisecond},
		"a shorter drain":  {AtEnd: workqueue.EndDrain, Grace: 1500 * time.Millisecond},
		"cancels handlers": {AtEnd: workqueue.EndDrain, Grace: time.Millisecond},
	} {
		for _, after := range []time.Duration{0, time.Second} { // The second Run ends with the drain, or in its midst.
			t.Run(fmt.Sprint(name, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newShow(t, ourQueue)
					for i := range 20 {
						s.queue.Add(itemOf(i))
					}
					var succeeded atomic.Int64
					handle := func(ctx context.Context, _ string) error {
						select {
						case <-ctx.Done():
							return ctx.Err()
						case <-time.After(time.Second):
							succeeded.Add(1)
							return nil
						}
					}
					s.run(runOptions{AtEnd: workqueue.EndDrain, Grace: time.Minute}, handle)
					ctx, cancel := context.WithCancel(t.Context())
					var second sync.WaitGroup
					second.Go(func() {
						extra.Logger = discard()
						extra.OnStop = func(_ context.Context, left workqueue.Snapshot[string]) {
							if got := leftIn(left, nil); got != "<nil>" {
								t.Errorf("the second Run has left %s", got)
							}
						}
						if err := workqueue.Run(ctx, s.queue, handle, extra); err != nil {
							t.Errorf("got %v from the second Run", err)
						}
					})
					time.Sleep(1500 * time.Millisecond)
					s.stop()
					time.Sleep(after + time.Microsecond)
					cancel()
					second.Wait()
					if got := s.left(); got != "<nil>" || succeeded.Load() != 20 {
						t.Errorf("got %s after %d successes, want nothing left after 20", got, succeeded.Load())
					}
				})
			})
		}
	}
}

// Nobody named the items held back by a limit in flight, and a later drain waited for them.
func TestRunNamesWhatIsHeldBackByALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
			Order: workqueue.Order[string]{
				Group:       func(string) string { return "all" },
				MaxInFlight: func(string) int { return 1 },
			},
		})
		q.AddAll("theirs", "a")
		q.Get()
		passed := make(chan error, 1)
		go func() { passed <- q.Delaying().FIFO().Barrier(t.Context()) }()
		synctest.Wait()
		left, _ := leftBy(canceled(), q, replies(), runOptions{})
		if got, want := leftIn(left, nil), "queued[a] held[theirs] waiting[]: <nil>"; got != want || q.Len() != 0 {
			t.Errorf("got %s with %d items in the queue, want %s with none", got, q.Len(), want)
		}
		q.Done("theirs")
		q.ShutDownWithDrain() // The bubble reports a drain without an end.
		if err := <-passed; !errors.Is(err, workqueue.ErrShutDown) {
			t.Errorf("the Barrier got %v, and nobody has handled a", err)
		}
	})
}

// Somebody else shuts the queue down: no worker gets the items of a group that is held back, and OnStop did not name
// the items. The items of a group at its limit are for the worker who holds an item of the group.
func TestRunNamesWhatIsHeldBackAfterAShutdownOfOthers(t *testing.T) {
	for limit, row := range map[int]struct {
		left string
		len  int
	}{workqueue.HoldBack: {"queued[b c] held[] waiting[]: <nil>", 0}, 1: {"queued[] held[b] waiting[]: <nil>", 1}} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
				Order: workqueue.Order[string]{
					Group:       func(item string) string { return map[string]string{"a": "a"}[item] },
					MaxInFlight: func(group string) int { return map[string]int{"a": 0, "": limit}[group] },
				},
			})
			q.AddAll("b", "c", "a")
			if limit > 0 {
				q.Get()
			}
			left, err := leftBy(t.Context(), q, func(context.Context, string) error { q.ShutDown(); return nil }, runOptions{})
			if got := leftIn(left, nil); !errors.Is(err, workqueue.ErrShutDown) || got != row.left || q.Len() != row.len {
				t.Errorf("limit %d: got %s with %d items in the queue, %v, want %s with %d", limit, got, q.Len(), err, row.left, row.len)
			}
		})
	}
}

// Each rollout and each lost leadership looked like failures of the items at work: the limiter counted the
// items, the log named them, and they came back with a backoff.
func TestRunDoesNotCountWhatItsEndInterrupts(t *testing.T) {
	canceled := func(ctx context.Context) error { return ctx.Err() }
	for name, tt := range map[string]struct {
		options  runOptions
		deadline bool // of ctx
		returns  func(ctx context.Context) error
		want     string
		left     string
	}{
		"stop":             {runOptions{}, false, canceled, "interrupted false 0s", "queued[a] held[] waiting[]: <nil>"},
		"stop after grace": {runOptions{Grace: time.Second}, false, canceled, "interrupted false 0s", "queued[a] held[] waiting[]: <nil>"},
		"drain":            {runOptions{AtEnd: workqueue.EndDrain, Grace: time.Second}, false, canceled, "interrupted false 0s", "queued[a] held[] waiting[]: context canceled"},
		"keep":             {runOptions{AtEnd: workqueue.EndKeep}, false, canceled, "interrupted true 0s", "queued[a] held[] waiting[]: <nil>"},
		"keep after grace": {runOptions{AtEnd: workqueue.EndKeep, Grace: time.Second}, false, canceled, "interrupted true 0s", "queued[a] held[] waiting[]: <nil>"},
		"under Timeout":    {runOptions{Timeout: time.Hour}, false, canceled, "interrupted false 0s", "queued[a] held[] waiting[]: <nil>"},
		"with re-adds":     {runOptions{CancelOnReAdd: 3, MaxAttempts: 1}, false, canceled, "interrupted false 0s", "queued[a] held[] waiting[]: <nil>"},
		"a deadline":       {runOptions{}, true, canceled, "interrupted false 0s", "queued[a] held[] waiting[]: <nil>"},
		"wrapped": {runOptions{}, false, func(ctx context.Context) error { return fmt.Errorf("get: %w", context.Canceled) },
			"interrupted false 0s", "queued[a] held[] waiting[]: <nil>"},
		"Canceled after a deadline": {runOptions{}, true, func(context.Context) error { return context.Canceled },
			"interrupted false 0s", "queued[a] held[] waiting[]: <nil>"},
		"with a verdict": {runOptions{}, false, func(ctx context.Context) error { return workqueue.Permanent(ctx.Err()) },
			"interrupted false 0s", "queued[a] held[] waiting[]: <nil>"},
		"another error": {runOptions{}, false, func(context.Context) error { return errFailed },
			"failed false 0s", "queued[] held[] waiting[] failed[a]: <nil>"},
		"a panic": {runOptions{}, false, func(ctx context.Context) error { panic(ctx.Err()) },
			"failed false 0s", "queued[] held[] waiting[] failed[a]: <nil>"},
		"after a timeout": {runOptions{Timeout: time.Second, Grace: 2 * time.Second}, false, func(ctx context.Context) error { time.Sleep(time.Hour); return ctx.Err() },
			"failed false 0s", "queued[] held[] waiting[] failed[a]: <nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				s.queue.Add("a")
				var result string
				options := tt.options
				options.OnStop = s.onStop
				options.OnResult = func(_ context.Context, _ string, r workqueue.HandlerResult) {
					result = fmt.Sprint(r.Outcome, r.Again, r.After)
				}
				logger := logr.FromSlogHandler(slog.NewTextHandler(&s.log, nil))
				options.Logger = &logger
				ctx, stop := context.WithTimeout(t.Context(), time.Second)
				if !tt.deadline {
					// A handler of another Run has called this Run, and its item was added again.
					overtaken, cancel := context.WithCancelCause(t.Context())
					ctx, stop = overtaken, func() { cancel(workqueue.ErrReAdded) }
					time.AfterFunc(time.Second, stop)
				}
				defer stop()
				err := workqueue.Run(ctx, s.queue, func(ctx context.Context, _ string) error { <-ctx.Done(); return tt.returns(ctx) }, options)
				if drained := (*workqueue.DrainError[string])(nil); errors.As(err, &drained) {
					err = drained.Err
				}
				if got := leftIn(*s.stopped, err); got != tt.left || result != tt.want {
					t.Errorf("OnResult was told %s, left %s, want %s, %s", result, got, tt.want, tt.left)
				}
				interrupted := strings.HasPrefix(tt.want, "interrupted")
				if n := s.queue.NumRequeues("a") + s.ours.Attempts(); interrupted && n != 0 {
					t.Errorf("%d failures are counted", n)
				}
				if logged := strings.Contains(s.log.String(), "Handler failed"); logged == interrupted {
					t.Errorf("logged %s", s.log.String())
				}
				s.queue.ShutDown()
			})
		})
	}
}

// A drain waits for the handler of an item that differs from itself, and for the retry of the item, or of an
// item from a Queue. The drain ends with the last retry, and does not wait for an item without a failure. A
// retry after the end of the Grace is an error.
func TestRunDrainEndsWithTheLastRetry(t *testing.T) {
	stored := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[float64]{Queue: workqueue.DefaultQueue[float64]()})
	for name, tt := range map[string]struct {
		config workqueue.TypedRateLimitingQueueConfig[float64]
		item   float64
		grace  time.Duration
		calls  int
		took   time.Duration
	}{
		"differs from itself": {workqueue.TypedRateLimitingQueueConfig[float64]{}, math.NaN(), time.Hour, 2, 12 * time.Second},
		"retried too late":    {workqueue.TypedRateLimitingQueueConfig[float64]{}, math.NaN(), 5 * time.Second, 1, time.Second},
		"from a Queue":        {workqueue.TypedRateLimitingQueueConfig[float64]{Queue: stored}, 1, time.Hour, 2, 12 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[float64](), tt.config)
			q.Add(tt.item)
			ctx, stop := context.WithCancel(t.Context())
			calls, start := 0, time.Now()
			err := workqueue.Run(ctx, q, func(context.Context, float64) error {
				calls++
				stop()
				time.Sleep(time.Second)
				if calls == 1 {
					return workqueue.RetryAfter(10*time.Second, errFailed)
				}
				return nil
			}, workqueue.RunOptions[float64]{AtEnd: workqueue.EndDrain, Grace: tt.grace, Logger: discard()})
			if took := time.Since(start).Round(time.Second); calls != tt.calls || (err == nil) != (calls == 2) || took != tt.took {
				t.Errorf("%s: got %v after %d calls in %v, want %d in %v", name, err, calls, took, tt.calls, tt.took)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[float64](), workqueue.TypedRateLimitingQueueConfig[float64]{})
		q.AddAfter(math.NaN(), time.Hour)
		start := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		err := workqueue.Run(ctx, q, func(context.Context, float64) error { return nil },
			workqueue.RunOptions[float64]{AtEnd: workqueue.EndDrain, Grace: time.Minute, Logger: discard()})
		if took := time.Since(start); err != nil || took > 2*time.Second {
			t.Errorf("an item that waits: got %v in %v", err, took)
		}
	})
}

// A drain goes on for a retry that can come within its Grace: due at the very end, or at any time by a
// clock of the caller, as the clock may leap.
func TestRunDrainWaitsForARetryThatCanCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLimited(constant(0))
		q.Add("a")
		ctx, stop := context.WithCancel(t.Context())
		start := time.Now()
		err := workqueue.Run(ctx, q, func(context.Context, string) error {
			stop()
			return workqueue.RetryAfter(time.Minute, errFailed)
		}, runOptions{AtEnd: workqueue.EndDrain, Grace: time.Minute, Logger: discard()})
		if took := time.Since(start); took != time.Minute {
			t.Errorf("due at the end of the Grace: Run has returned %v after %v", err, took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		clock := testingclock.NewFakeClock(epoch)
		q := workqueue.NewTypedRateLimiting(constant(time.Hour), workqueue.TypedRateLimitingQueueConfig[string]{Clock: clock})
		q.Add("a")
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, func() { clock.Step(time.Hour) })
		err := workqueue.Run(ctx, q, replies(func() error { stop(); return errFailed }), runOptions{AtEnd: workqueue.EndDrain, Grace: time.Minute, Logger: discard()})
		if err != nil {
			t.Errorf("with a clock that leaps: %v", err)
		}
	})
}

// OnStop names items in the order in which they failed after the end.
func TestRunNamesLateFailuresInTheirOrder(t *testing.T) {
	run := func(t *testing.T) {
		q := newLimited(constant(0))
		order := []string{"e", "c", "a", "d", "b"}
		q.AddAll("a", "b", "c", "d", "e")
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		left, _ := leftBy(ctx, q, func(_ context.Context, item string) error {
			time.Sleep(time.Duration(2+slices.Index(order, item)) * time.Second)
			return errFailed
		}, runOptions{Workers: 5})
		if got, want := names(left.Failed), strings.Join(order, " "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for range 20 { // A map may give the right order by chance.
		synctest.Test(t, run)
	}
}

// Run retires its queue after the shutdown, and the drain of somebody else goes on until the last worker has
// ended.
func TestRunEndsWithItsLastWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: r})
		q.Add("a")
		start := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		var drained time.Duration
		go func() {
			time.Sleep(time.Second)
			q.ShutDownWithDrain()
			drained = time.Since(start)
		}()
		workqueue.Run(ctx, q, func(context.Context, string) error { time.Sleep(5 * time.Second); return nil }, runOptions{})
		synctest.Wait()
		if drained != 5*time.Second {
			t.Errorf("the drain has ended after %v, want 5s", drained)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: r})
		workqueue.Run(canceled(), q, replies(), runOptions{})
		if len(r.ends) == 0 {
			t.Error("the queue has not been retired")
		}
	})
}

// The item of somebody else was counted, and then done before the list was made: the error named no item.
func TestRunDrainHasNoErrorWithoutANameInIt(t *testing.T) {
	for n := range int64(40) {
		synctest.Test(t, func(t *testing.T) {
			clock := newHookedClock()
			q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{Clock: clock, KeepTimes: true})
			q.Add("a")
			q.Get()
			var reads atomic.Int64
			clock.onRead = func() {
				if reads.Add(1) == n {
					q.Done("a")
				}
			}
			left, err := leftBy(canceled(), q, replies(), runOptions{AtEnd: workqueue.EndDrain, Grace: time.Second})
			if errors.Is(err, workqueue.ErrNotDrained) != (left.InFlightTotal > 0) {
				t.Errorf("done at reading %d of %d: got %v, and OnStop was told %v", n, reads.Load(), err, left)
			}
		})
	}
}

// BenchmarkRunEnd measures items that fail after a shutdown.
// The end was quadratic: 100k items took 52 s.
func BenchmarkRunEnd(b *testing.B) {
	for _, items := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("items=%d", items), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				q := workqueue.NewTypedRateLimiting(constant(time.Hour), workqueue.TypedRateLimitingQueueConfig[string]{})
				for i := range items {
					q.Add(itemOf(i))
				}
				b.StartTimer()
				left := 0
				workqueue.Run(context.Background(), q, func(_ context.Context, item string) error {
					q.ShutDown()
					return errFailed
				}, runOptions{Logger: discard(), OnStop: func(_ context.Context, s workqueue.Snapshot[string]) { left = s.FailedTotal }})
				if left != items {
					b.Fatalf("%d items are left, want %d", left, items)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*items), "ns/item")
		})
	}
}

// A crawler whose context ends at its first page: the 30 links of the page are refused.
func TestOnStopIsToldHowManyAddsADrainHasRefused(t *testing.T) {
	for want, add := range map[int]func(q *workqueue.TypedRateLimiting[string]){
		0: func(*workqueue.TypedRateLimiting[string]) {},
		1: func(q *workqueue.TypedRateLimiting[string]) { q.Add("a") },
		10: func(q *workqueue.TypedRateLimiting[string]) {
			q.AddAll("a", "b", "c", "d", "e")
			q.AddAfter("f", time.Second)
			q.AddRateLimited("g")
			q.AddWith(workqueue.AddOptions{RateLimited: true}, "h")
			q.Reschedule("i", time.Second)
			q.Debounce("j", time.Second, 0)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{})
			ctx, stop := context.WithCancel(t.Context())
			q.Add("page")
			var log bytes.Buffer
			logger := logr.FromSlogHandler(slog.NewTextHandler(&log, nil))
			var left workqueue.Snapshot[string]
			err := workqueue.Run(ctx, q, func(_ context.Context, item string) error {
				stop()
				time.Sleep(time.Second)
				add(q)
				return nil
			}, workqueue.RunOptions[string]{Logger: &logger, AtEnd: workqueue.EndDrain, Grace: time.Minute, OnStop: func(_ context.Context, s workqueue.Snapshot[string]) { left = s }})
			if err != nil || left.RefusedTotal != want || left.QueuedTotal+left.InFlightTotal+left.WaitingTotal != 0 {
				t.Errorf("got %v, left %v, want %d refused adds and nothing else", err, left, want)
			}
			if says := strings.Contains(left.String(), fmt.Sprint(want, " adds refused")); says != (want > 0) {
				t.Errorf("%d adds were refused, and the text is %q", want, left)
			}
			if says := strings.Contains(log.String(), fmt.Sprint("refused=", want)); says != (want > 0) {
				t.Errorf("%d adds were refused, and the log is %q", want, log.String())
			}
		})
	}
}

// lateEnds are results of a handler for an item without a retry after the end.
var lateEnds = map[string]func(ctx context.Context) error{
	"failed":    func(context.Context) error { return errFailed },
	"put off":   func(context.Context) error { return workqueue.RequeueAfter(time.Hour) },
	"cut short": func(ctx context.Context) error { return ctx.Err() },
}

// OnStop named removed items as failed, waiting or queued if the removal came between the end of the handler and
// Done: Run had noted the item before Done, and no removal took the note back.
func TestOnStopDoesNotNameWhatWasRemovedBeforeItsDone(t *testing.T) {
	for name, handle := range lateEnds {
		q := newLimited(constant(0))
		q.Add("a")
		ctx, stop := context.WithCancel(t.Context())
		var left []workqueue.Snapshot[string]
		removing := &replacing{TypedRateLimiting: q, done: func(item string) { q.Remove(item); q.Done(item) }}
		err := workqueue.Run(ctx, removing, func(ctx context.Context, _ string) error {
			stop()
			return handle(ctx)
		}, runOptions{Logger: discard(), OnStop: func(_ context.Context, s workqueue.Snapshot[string]) { left = append(left, s) }})
		if got := fmt.Sprint(left); err != nil || got != "[0 queued, 0 in flight, 0 waiting]" {
			t.Errorf("%s: OnStop was told %s, and Run returned %v", name, got, err)
		}
	}
}

// An item came to wait for its retry, and the end of Run dropped the wait before the Done of the item. OnStop
// named the item as waiting although Remove had found the item in between, in the hands of its worker.
func TestOnStopDoesNotNameWhatWasRemovedAfterItsWaitWasDropped(t *testing.T) {
	for _, name := range []string{"failed", "put off"} {
		synctest.Test(t, func(t *testing.T) {
			q := newLimited(constant(time.Hour))
			q.Add("a")
			ctx, stop := context.WithCancel(t.Context())
			waiting := 0
			removing := &replacing{TypedRateLimiting: q, done: func(item string) {
				waiting = q.Snapshot(0).WaitingTotal
				stop()
				synctest.Wait() // Run has shut the queue down.
				q.Remove(item)
				q.Done(item)
			}}
			left, err := leftBy(ctx, removing, func(ctx context.Context, _ string) error { return lateEnds[name](ctx) }, runOptions{})
			if got := left.String(); err != nil || waiting != 1 || got != "0 queued, 0 in flight, 0 waiting" {
				t.Errorf("%s: %d items waited, OnStop was told %s, and Run returned %v", name, waiting, got, err)
			}
		})
	}
}

// An item is removed, and a metric keeps Remove from its return. Meanwhile the item is added anew, and
// fails too late for a retry: Remove took the note of this failure back, and nobody named the item.
func TestOnStopNamesWhatWasAddedAfterItsRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := &recorder{}
		q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: metrics})
		q.Add("a")
		metrics.setHook(func(event string) {
			if event == "depth-1" {
				metrics.setHook(nil)
				time.Sleep(time.Minute)
			}
		})
		go q.Remove("a")
		synctest.Wait()
		q.AddAll("a", "z")
		ctx, stop := context.WithCancel(t.Context())
		left, err := leftBy(ctx, q, func(_ context.Context, item string) error {
			if item == "z" { // Until Remove has returned.
				time.Sleep(time.Hour)
				return nil
			}
			time.Sleep(time.Second)
			stop()
			return errFailed
		}, runOptions{Workers: 2})
		if got := left.String(); err != nil || got != "0 queued, 0 in flight, 0 waiting, 1 failed\na: failed, 1 failures" {
			t.Errorf("OnStop was told %s, and Run returned %v", got, err)
		}
	})
}

// A removal that does not find an item takes no note of the item back: either the removal or OnStop says
// where the item is. Remove comes when "a" has failed. RemoveFunc asks about "a" while a worker holds the item,
// and finds the item gone after the answer: nobody named the item.
func TestOnStopNamesWhatARemovalDidNotFind(t *testing.T) {
	type removal struct {
		at     time.Duration // the context ends after a second, and "a" fails then
		remove func(q *workqueue.TypedRateLimiting[string]) (found bool)
	}
	for name, r := range map[string]removal{
		"Remove": {time.Minute, func(q *workqueue.TypedRateLimiting[string]) bool { return q.Remove("a") }},
		"RemoveFunc": {time.Millisecond, func(q *workqueue.TypedRateLimiting[string]) bool {
			return q.RemoveFunc(func(item string) bool { time.Sleep(time.Minute); return item == "a" }) > 0
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newLimited(constant(0))
			q.AddAll("a", "b")
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, stop)
			time.AfterFunc(r.at, func() {
				if r.remove(q) {
					t.Errorf("%s has found an item that nobody holds any more", name)
				}
			})
			left, err := leftBy(ctx, q, func(ctx context.Context, item string) error {
				<-ctx.Done()
				if item == "b" {
					time.Sleep(time.Hour)
				}
				return errFailed
			}, runOptions{Workers: 2})
			if err != nil || names(left.Failed) != "a b" {
				t.Errorf("%s: OnStop was told %s, and Run returned %v", name, left, err)
			}
		})
	}
}

// A drain left a failed item, and returned nil: a Remove that had found nothing forgot that the item had failed.
func TestDrainIsNotDoneAfterARemoveThatFoundNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLimited(constant(time.Hour))
		q.AddAll("fails", "long")
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, stop)
		time.AfterFunc(4*time.Second, func() { // After the grace period.
			if q.Remove("fails") {
				t.Error("Remove has found an item whose wait was dropped")
			}
		})
		left, err := leftBy(ctx, q, func(_ context.Context, item string) error {
			if item == "fails" {
				return errFailed
			}
			time.Sleep(10 * time.Second)
			return nil
		}, runOptions{Workers: 2, AtEnd: workqueue.EndDrain, Grace: time.Second})
		if names(left.Waiting) != "fails" || !errors.Is(err, workqueue.ErrNotDrained) {
			t.Errorf("OnStop was told %v, and Run returned %v", left, err)
		}
	})
}
