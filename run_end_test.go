package workqueue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// cut is a handler that ends when its context does, and says why.
func (s *show) cut(ctx context.Context, item string) error {
	<-ctx.Done()
	s.note("%s ends: %v", item, context.Cause(ctx))
	return ctx.Err()
}

// When ctx ends: what is at work, what is queued and what waits.
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
			"0:a 1:a ends: context canceled 1:end", "queued[] held[] waiting[] failed[a]: <nil>"},
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
			"0:a 3:a ends: context canceled 3:end", "queued[b] held[] waiting[] failed[a]: <nil>"},
		"with grace to spare": {"a b", runOptions{Grace: 10 * time.Second}, stubborn, nil,
			"0:a 5:end", "queued[b] held[] waiting[]: <nil>"},
		"drain": {"a b c", runOptions{Grace: 20 * time.Second, Drain: true}, stubborn, nil,
			"0:a 10:c 15:end 5:b", "<nil>"},
		"drain of what is added again": {"a b", runOptions{Grace: 20 * time.Second, Drain: true}, stubborn, func(s *show) { s.queue.Add("a") },
			"0:a 10:a 15:end 5:b", "<nil>"},
		"drain until grace is over": {"a b c", runOptions{Grace: 7 * time.Second, Drain: true}, stubborn, nil,
			"0:a 10:end 5:b", "queued[c] held[] waiting[]: context canceled"},
		"drain that cancels": {"a b c", runOptions{Grace: 7 * time.Second, Drain: true}, cut, nil,
			"0:a 8:a ends: context canceled 8:end", "queued[b c] held[] waiting[] failed[a]: context canceled"},
		"drain of what fails for good": {"a b", runOptions{Grace: 20 * time.Second, Drain: true, MaxAttempts: 1}, failing, nil,
			"0:a 10:end 5:b", "<nil>"},
		"drain of what fails": {"a b", runOptions{Grace: 20 * time.Second, Drain: true}, failing, nil,
			"0:a 10:a 15:b 20:a 25:end 5:b", "queued[] held[] waiting[b] failed[a]: context canceled"},
		"drain of what waits for a retry": {"a", runOptions{Grace: 20 * time.Second, Drain: true}, func(*show) func(context.Context, string) error {
			return replies(fails, fails, fails)
		}, nil, "0:a 1:a 3:a 7:a 7:end", "<nil>"},
		"drain until what waits for a retry cannot come": {"a", runOptions{Grace: 3 * time.Second, Drain: true}, func(*show) func(context.Context, string) error {
			return replies(fails, fails, fails, fails)
		}, nil, "0:a 1:a 3:a 4:end", "queued[] held[] waiting[a]: context canceled"},
		"drain beside what waits for something else": {"a", runOptions{Grace: 3 * time.Second, Drain: true}, func(*show) func(context.Context, string) error {
			return replies()
		}, func(s *show) { s.queue.AddAfter("w", time.Minute) }, "0:a 1:end", "queued[] held[] waiting[w]: <nil>"},
		"drain of an idle queue": {"", runOptions{Grace: 20 * time.Second, Drain: true}, cut, nil, "1:end", "<nil>"},
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
				want := tt.left
				if !s.isOurs() { // Only ours says what it drops.
					want = strings.Replace(want, "queued[] held[] waiting[w]: ", "", 1)
				}
				if got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if s.result != nil && !errors.Is(s.result, context.Canceled) {
					t.Errorf("%v is not the context's error", s.result)
				}
			})
		})
	}
}

func (s *show) drains() bool {
	_, ok := s.queue.(interface{ Drain(context.Context) error })
	return ok
}

func (s *show) isOurs() bool {
	_, ok := s.queue.(*workqueue.TypedRateLimiting[string])
	return ok
}

// The contexts of handlers carry the values and the end of Run's.
func TestRunHandlerContext(t *testing.T) {
	type key struct{}
	for _, options := range []runOptions{{}, {Grace: time.Second}, {Timeout: time.Minute}, {CancelOnReAdd: true}, {ProfileLabels: true}} {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("because")
			ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
			q.Add("a")
			start := time.Now()
			workqueue.Run(ctx, q, func(ctx context.Context, _ string) error {
				if got := ctx.Value(key{}); got != "value" {
					t.Errorf("%+v: got the value %v", options, got)
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

// When somebody else shuts the queue down, Run works off what is queued.
func TestRunWhenTheQueueIsShutDown(t *testing.T) {
	for name, down := range map[string]func(s *show){
		"ShutDown":          func(s *show) { s.queue.ShutDown() },
		"ShutDownWithDrain": func(s *show) { s.queue.ShutDownWithDrain(); s.note("drained") },
		"Drain": func(s *show) {
			if err := drainOf(s)(s.t.Context()); err != nil {
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
				if err := s.end(); err != nil {
					t.Errorf("got %v, want nil", err)
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

func drainOf(s *show) func(context.Context) error {
	if q, ok := s.queue.(interface{ Drain(context.Context) error }); ok {
		return q.Drain
	}
	return func(context.Context) error { s.queue.ShutDownWithDrain(); return nil }
}

// ctx that ends while the workers still do so ends that, and the wait for it.
func TestRunEndsAfterAShutDown(t *testing.T) {
	for name, down := range map[string]func(rateLimited){
		"ShutDown":          rateLimited.ShutDown,
		"ShutDownWithDrain": rateLimited.ShutDownWithDrain,
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				for _, item := range []string{"a", "b", "c"} {
					s.queue.Add(item)
				}
				s.run(runOptions{}, s.cut)
				synctest.Wait()
				go down(s.queue) // The bubble reports it if it does not return.
				time.Sleep(time.Second)
				s.stop()
				got := s.left()
				s.want("0:a 1:a ends: context canceled 1:end")
				if want := "queued[b c] held[] waiting[] failed[a]: <nil>"; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		})
	}
}

// A drain waits for each item, in a queue that does not count what it hands out too: for the
// one that is on its way to a worker, and for the one that a handler is at. If it fails, it
// is retried.
func TestRunDrainWaitsForTheLastItem(t *testing.T) {
	for name, way := range map[string]time.Duration{"at a handler": 0, "on its way": 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, runQueues["no Drain"])
			s.queue = &slowGet{s.queue.(onlyGetContext), way}
			s.queue.Add("a")
			calls := replies(fails)
			s.run(runOptions{Drain: true, Grace: time.Minute}, func(ctx context.Context, item string) error {
				time.Sleep(2*time.Second - way)
				return calls(ctx, item)
			})
			time.Sleep(time.Second)
			s.stop()
			if err := s.end(); err != nil {
				t.Errorf("%s: got %v", name, err)
			}
			if n := strings.Count(strings.Join(s.events, " "), ":a"); n != 2 {
				t.Errorf("%s: got the events %q, want two calls for a", name, s.events)
			}
		})
	}
}

// slowGet hands out nothing before some time has passed.
type slowGet struct {
	onlyGetContext
	takes time.Duration
}

func (q *slowGet) GetContext(ctx context.Context) (string, error) {
	time.Sleep(q.takes)
	return q.onlyGetContext.GetContext(ctx)
}

// A ShutDown in the drain of a Run drops the retry that it waits for, and so ends it.
func TestRunDrainEndsWithAShutDown(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		s.queue.Add("a")
		s.run(runOptions{Drain: true, Grace: time.Hour}, func(context.Context, string) error {
			return workqueue.RetryAfter(time.Minute, errFailed)
		})
		time.Sleep(time.Second)
		s.stop()
		time.Sleep(time.Second)
		s.queue.ShutDown()
		if got, want := s.left(), "queued[] held[] waiting[a]: context canceled"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		s.want("0:a 2:end")
	})
}

// A ShutDown cuts the drain of Run short, but not what Run reports.
func TestRunDrainIsCutShort(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		for _, item := range []string{"a", "b", "c"} {
			s.queue.Add(item)
		}
		s.queue.AddAfter("d", time.Minute)
		s.run(runOptions{Workers: 2}, func(_ context.Context, item string) error {
			time.Sleep(5 * time.Second)
			if item == "a" {
				return errFailed
			}
			return nil
		})
		time.Sleep(time.Second)
		s.stop()
		time.Sleep(time.Second)
		s.queue.ShutDown()
		time.Sleep(time.Second)
		s.queue.ShutDown()
		got := s.left()
		if took := time.Since(s.start).Truncate(100 * time.Millisecond); took != 5*time.Second {
			t.Errorf("Run has returned after %v, want 5s, with the workers", took)
		}
		want := "queued[c] held[] waiting[] failed[a]: <nil>"
		if s.drains() {
			want = "queued[c] held[] waiting[d] failed[a]: <nil>"
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// The drain of a queue of somebody's own may fail in its own way, at the first or
// at the second time: that is then in what Run returns. If it was cut short and
// the workers have done the rest since, there is nothing to return.
func TestRunOnAQueueWithADrainOfItsOwn(t *testing.T) {
	cut := &workqueue.DrainError[string]{Err: workqueue.ErrShutDown}
	for name, tt := range map[string]struct {
		drains []error
		want   error
	}{
		"fails":                     {[]error{errFailed}, errFailed},
		"fails after a ShutDown":    {[]error{cut, errFailed}, errFailed},
		"is done after a ShutDown":  {[]error{cut, nil}, nil},
		"has nothing left after it": {[]error{cut, cut}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, runQueues["all methods"])
			s.queue = &ownDrain{s.queue, tt.drains}
			s.run(runOptions{}, replies())
			synctest.Wait()
			s.stop()
			if err := s.end(); !errors.Is(err, tt.want) {
				t.Errorf("%s: got %v, want %v", name, err, tt.want)
			}
		})
	}
}

// ownDrain shuts the queue down and returns the first of the errors.
type ownDrain struct {
	rateLimited
	errs []error
}

func (q *ownDrain) Drain(context.Context) error {
	q.ShutDown()
	err := q.errs[0]
	q.errs = q.errs[1:]
	return err
}

// Two of them share a queue: the end of one is that of the queue. It names and
// takes out what is queued, and the other ends with what it is at.
func TestRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		for i := range 5 {
			s.queue.Add(itemOf(i))
		}
		s.run(runOptions{}, func(context.Context, string) error { time.Sleep(time.Second); return nil })
		var other sync.WaitGroup
		other.Go(func() {
			calls := 0
			err := workqueue.Run(t.Context(), s.queue, func(context.Context, string) error { calls++; time.Sleep(3 * time.Second); return nil }, runOptions{})
			if err != nil || calls != 1 {
				t.Errorf("got %v and %d calls from the other one, want 1", err, calls)
			}
		})
		time.Sleep(500 * time.Millisecond)
		s.stop()
		<-s.ended
		if s.result != nil || len(s.stopped.Queued) != 3 || len(s.stopped.InFlight) != 1 {
			t.Errorf("got %v, left %v", s.result, s.stopped)
		}
		other.Wait()
		if n := s.queue.Len(); n != 0 {
			t.Errorf("%d items are left", n)
		}
	})
}

// A panic of a shutdown is nobody's business if the queue is shut down: that of
// controller-runtime panics at the second. Any other reaches the caller of Run.
func TestRunOnAQueueWhoseShutDownPanics(t *testing.T) {
	cases := map[string]struct {
		panics, shutDown bool
		want             any
	}{
		"it is shut down":          {true, true, nil},
		"it is not":                {true, false, "twice"},
		"it has yet to say that":   {false, false, nil},
		"it does what is expected": {false, true, nil},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &fragile{workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()), tt.panics, tt.shutDown, false}
				defer func() {
					if got := recover(); got != tt.want {
						t.Errorf("got a panic with %v, want %v", got, tt.want)
					}
				}()
				if err := workqueue.Run(canceled(), q, replies(), runOptions{}); err != nil {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

type fragile struct {
	rateLimited
	panics, says bool
	down         bool
}

func (q *fragile) ShutDown() {
	q.rateLimited.ShutDown()
	q.down = q.says
	if q.panics {
		panic("twice")
	}
}

func (q *fragile) ShuttingDown() bool { return q.down }
