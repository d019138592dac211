package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// onReAdd plays a show on each queue that tells of an Add.
func onReAdd(t *testing.T, options runOptions, play func(s *show) func(context.Context, string) error, then func(s *show)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		s.queue.Add("a")
		options.CancelOnReAdd = true
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
		"with labels":              {func(s *show) { s.queue.Add("a") }, runOptions{ProfileLabels: true}, "0:a 1:a ends: workqueue: item was added again 1:a"},
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

// What a handler that was overtaken returns: its context's error is no failure
// of the item, and any other is.
func TestRunReturnsOfTheOvertaken(t *testing.T) {
	for name, tt := range map[string]struct {
		reply   func(ctx context.Context) error
		counted int
		want    string
	}{
		"the context's error":          {func(ctx context.Context) error { return ctx.Err() }, 1, "1:a 1.5:a"},
		"the cause, wrapped":           {func(ctx context.Context) error { return errors.Join(errFailed, context.Cause(ctx)) }, 1, "1:a 1.5:a"},
		"another error, and its retry": {func(context.Context) error { return errFailed }, 2, "1:a 1.5:a 3.5:a"},
		"a panic":                      {func(context.Context) error { return panics() }, 2, "1:a 1.5:a 3.5:a"},
		"a panic with the error":       {func(ctx context.Context) error { panic(ctx.Err()) }, 2, "1:a 1.5:a 3.5:a"},
		"an exit":                      {func(context.Context) error { return exits() }, 2, "1:a 1.5:a 3.5:a"},
		"success":                      {func(context.Context) error { return nil }, 0, "1:a 1.5:a"},
		"a permanent error":            {func(context.Context) error { return permanently() }, 0, "1:a 1.5:a"},
	} {
		t.Run(name, func(t *testing.T) {
			var counted []int
			onReAdd(t, runOptions{}, func(s *show) func(context.Context, string) error {
				return func(ctx context.Context, item string) error {
					counted = append(counted, s.queue.NumRequeues(item))
					switch len(counted) {
					case 1:
						return errFailed
					case 2:
						<-ctx.Done()
						return tt.reply(ctx)
					}
					return nil
				}
			}, func(s *show) {
				synctest.Wait()
				s.want("0:a")
				time.Sleep(1500 * time.Millisecond)
				s.queue.Add("a")
				time.Sleep(10 * time.Second)
				s.want(tt.want)
				if counted[2] != tt.counted {
					t.Errorf("%d failures are counted after it, want %d", counted[2], tt.counted)
				}
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

// A Run in the handler of another one ends when the item of that is added again.
// What its own handler then returns is no re-add of its own item.
func TestRunInAHandlerThatIsOvertaken(t *testing.T) {
	for _, options := range []runOptions{{}, {CancelOnReAdd: true}} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, runQueues["all methods"])
			s.queue.Add("a")
			outer, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(workqueue.ErrReAdded) })
			options.Logger = discard()
			options.OnStop = s.onStop
			err := workqueue.Run(outer, s.queue, s.cut, options)
			s.want("1:a ends: workqueue: item was added again")
			if got, want := leftIn(*s.stopped, err), "queued[] held[] waiting[] failed[a]: <nil>"; got != want {
				t.Errorf("CancelOnReAdd %v: got %s, want %s", options.CancelOnReAdd, got, want)
			}
		})
	}
}

// To ask the queue whether it can tell is not to watch an item, be it the zero
// value that somebody holds.
func TestRunWatchesNothingAtItsStart(t *testing.T) {
	onReAdd(t, runOptions{}, func(s *show) func(context.Context, string) error {
		s.queue.Add("")
		for range 2 {
			s.queue.Get()
		}
		s.queue.Done("a")
		return s.cut
	}, func(s *show) {
		synctest.Wait()
		s.queue.Add("")
		s.queue.Done("")
		s.want("0:")
	})
}

// An Add between the hand-out and the handler's start is not missed: the
// handler starts with a context that has ended.
func TestRunReAddBeforeTheHandlerStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		s.queue = &quickReAdd{TypedRateLimiting: s.queue.(*workqueue.TypedRateLimiting[string])}
		s.queue.Add("a")
		s.run(runOptions{CancelOnReAdd: true}, s.cut)
		s.want("0:a 0:a ends: workqueue: item was added again 0:a")
		s.stop()
		s.end()
	})
}

// quickReAdd adds the first item again before its worker has it.
type quickReAdd struct {
	*workqueue.TypedRateLimiting[string]
	added bool
}

func (q *quickReAdd) GetContext(ctx context.Context) (string, error) {
	item, err := q.TypedRateLimiting.GetContext(ctx)
	if !q.added {
		q.added = true
		q.Add(item)
	}
	return item, err
}

// Run refuses a queue that cannot tell, and leaves it as it is.
func TestRunOnAQueueThatCannotTell(t *testing.T) {
	inner := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer inner.ShutDown()
	for name, queue := range map[string]rateLimited{
		"another implementation": struct{ rateLimited }{inner},
		"another one below": workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
			workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: struct{ rateLimited }{inner}}),
	} {
		queue.Add("a")
		err := workqueue.Run(t.Context(), queue, func(context.Context, string) error { t.Error("called"); return nil }, runOptions{CancelOnReAdd: true})
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: got %v, want that it is not supported", name, err)
		}
		if queue.ShuttingDown() || queue.Len() != 1 {
			t.Errorf("%s: %d items are queued, shutting down is %v", name, queue.Len(), queue.ShuttingDown())
		}
	}
}

// A handler that is not cancelled on a re-add goes on, and the item comes again.
func TestRunWithoutCancelOnReAdd(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		s.queue.Add("a")
		s.run(runOptions{}, func(ctx context.Context, item string) error {
			time.Sleep(2 * time.Second)
			return ctx.Err()
		})
		time.Sleep(time.Second)
		s.queue.Add("a")
		time.Sleep(5 * time.Second)
		s.want("0:a 2:a")
		s.stop()
		s.end()
	})
}

// An item whose handler was cancelled for an Add is handled again even if that Add
// is taken back: the one before it has not been worked off. If the queue is shut
// down by then, the item is left behind by name, and OnResult hears that it does not come again.
func TestRunLosesNoItemWhenRemoveTakesBackTheAddThatCancelled(t *testing.T) {
	for name, tt := range map[string]struct {
		during func(s *show) // at 1 s, while the handler takes a second to return
		want   string
		left   string
	}{
		"Remove":              {func(s *show) { s.remove("a") }, "2:a", "<nil>"},
		"Remove, Add":         {func(s *show) { s.remove("a"); s.queue.Add("a") }, "2:a", "<nil>"},
		"Remove, Add, Remove": {func(s *show) { s.remove("a"); s.queue.Add("a"); s.remove("a") }, "2:a", "<nil>"},
		"Remove, ShutDown": {func(s *show) { s.remove("a"); s.queue.ShutDown() }, "2:end",
			"queued[a] held[] waiting[]: <nil>"},
		"ShutDown, Remove": {func(s *show) { s.queue.ShutDown(); s.remove("a") }, "2:end",
			"queued[a] held[] waiting[]: <nil>"},
		"ShutDown":           {func(s *show) { s.queue.ShutDown() }, "2:a 2:end", "<nil>"},
		"Remove, end of ctx": {func(s *show) { s.remove("a"); s.stop() }, "2:end", "queued[a] held[] waiting[]: <nil>"},
		"end of ctx, Remove": {func(s *show) { s.stop(); synctest.Wait(); s.remove("a") }, "2:end",
			"queued[a] held[] waiting[]: <nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShow(t, runQueues["all methods"])
				s.queue.Add("a")
				calls, again := 0, false
				options := runOptions{CancelOnReAdd: true, OnResult: func(_ context.Context, _ string, r workqueue.Result) {
					again = again || r.Again
				}}
				s.run(options, func(ctx context.Context, _ string) error {
					if calls++; calls > 1 {
						return nil
					}
					<-ctx.Done()
					time.Sleep(time.Second)
					return ctx.Err()
				})
				time.Sleep(time.Second)
				s.queue.Add("a")
				s.want("0:a")
				tt.during(s)
				time.Sleep(10 * time.Second)
				s.want(tt.want)
				s.stop()
				if got := s.left(); got != tt.left {
					t.Errorf("got %s, want %s", got, tt.left)
				}
				if want := tt.left == "<nil>"; again != want {
					t.Errorf("OnResult was told that the item comes again: %v, want %v", again, want)
				}
			})
		})
	}
}

// A handler whose own status write adds its item was cancelled in every run, as fast as
// the queue could hand it out. The fourth run comes to its end, and the count starts
// anew.
func TestRunCancelsNoMoreThanMaxCancels(t *testing.T) {
	for most, want := range map[int]string{
		0: "0:a 0:cut 0:a 0:cut 0:a 0:cut 0:a 1:a 1:cut 1:a 1:cut 1:a 1:cut 1:a",
		1: "0:a 0:cut 0:a 1:a 1:cut 1:a",
	} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			onReAdd(t, runOptions{MaxCancels: most, MaxAttempts: 1}, func(s *show) func(context.Context, string) error {
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
				cancels := map[int]int{0: 3, 1: 1}[most]
				line := fmt.Sprintf("as its item was added again in each run\" item=a cancels=%d\n", cancels)
				if got := strings.Count(s.log.String(), line); got != 2 {
					t.Errorf("%d lines say so, want 2, in %s", got, s.log.String())
				}
			})
		})
	}
}

// A run that comes to something ends the series, also if it was cancelled.
func TestRunCountsCancelsInARow(t *testing.T) {
	onReAdd(t, runOptions{MaxCancels: 2}, func(s *show) func(context.Context, string) error {
		n := 0
		return func(ctx context.Context, item string) error {
			n++
			if n > 9 {
				return nil
			}
			s.queue.Add(item)
			if ctx.Err() == nil {
				t.Errorf("run %d is not cancelled", n)
			}
			if n%2 == 0 {
				return nil
			}
			return ctx.Err()
		}
	}, func(s *show) {
		synctest.Wait()
		if got := s.log.String(); got != "" {
			t.Errorf("logged %s", got)
		}
		s.want(strings.TrimSpace(strings.Repeat("0:a ", 10)))
	})
}

// remove is Remove of a queue that has it.
func (s *show) remove(item string) {
	if q, ok := s.queue.(interface{ Remove(item string) bool }); ok {
		q.Remove(item)
	}
}

// One whose Add was not taken back needs no other.
func TestRunAddsNothingToWhatIsAddedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		s.queue = addNoting{s.queue.(*workqueue.TypedRateLimiting[string]), s}
		s.queue.Add("a")
		s.run(runOptions{CancelOnReAdd: true}, s.cut)
		synctest.Wait()
		s.queue.Add("a")
		s.want("0:add 0:a 0:add 0:a ends: workqueue: item was added again 0:a")
		s.stop()
		s.end()
	})
}

type addNoting struct {
	*workqueue.TypedRateLimiting[string]
	show *show
}

func (q addNoting) Add(item string) { q.show.note("add"); q.TypedRateLimiting.Add(item) }

// An Add that cancels a handler has the lock, and so must not ask the context of
// the caller anything: one that then called the queue would wait for that Add.
func TestRunAsksNoForeignContextWithTheLock(t *testing.T) {
	for name, options := range map[string]runOptions{
		"alone":           {},
		"with a deadline": {Timeout: time.Minute},
		"with grace":      {Grace: time.Minute},
		"with labels":     {ProfileLabels: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShow(t, runQueues["all methods"])
				var adding, asked atomic.Bool
				inner, stop := context.WithCancel(t.Context())
				ctx := askedContext{inner, func() {
					// The worker may ask at the same time, without the lock.
					if adding.Load() && s.fifo.Locked() && strings.Contains(string(debug.Stack()), ".tellWatcher(") {
						asked.Store(true)
					}
				}}
				options.CancelOnReAdd = true
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

// askedContext tells of each question that it is asked.
type askedContext struct {
	context.Context
	tell func()
}

func (c askedContext) Done() <-chan struct{} { c.tell(); return c.Context.Done() }
func (c askedContext) Err() error            { c.tell(); return c.Context.Err() }
func (c askedContext) Value(key any) any     { c.tell(); return c.Context.Value(key) }
