package workqueue_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

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

// A Run that follows another handles all that the first has left, in its order, and what
// has failed with its backoff.
func TestRunAfterAnotherOnAKeptQueue(t *testing.T) {
	for name, handle := range map[string]func(*show) func(context.Context, string) error{
		"the handler is cancelled": func(s *show) func(context.Context, string) error {
			return func(ctx context.Context, item string) error {
				<-ctx.Done()
				time.Sleep(500 * time.Millisecond)
				return ctx.Err()
			}
		},
		"it fails late": func(*show) func(context.Context, string) error {
			return func(context.Context, string) error { time.Sleep(1500 * time.Millisecond); return errFailed }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShow(t, runQueues["all methods"])
				for _, item := range []string{"a", "b", "c"} {
					s.queue.Add(item)
				}
				s.queue.AddAfter("w", 10*time.Second)
				s.run(runOptions{KeepQueue: true, MaxAttempts: 1}, handle(s))
				time.Sleep(time.Second)
				s.stop()
				<-s.ended
				if s.result != nil || s.queue.ShuttingDown() {
					t.Fatalf("got %v, and shutting down is %v", s.result, s.queue.ShuttingDown())
				}
				if got, want := leftIn(*s.stopped, nil), "queued[b c] held[] waiting[a w]: <nil>"; got != want {
					t.Errorf("OnStop was told %s, want %s", got, want)
				}
				s.events = nil
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := workqueue.Run(ctx, s.queue, func(_ context.Context, item string) error { s.note("%s", item); return nil }, runOptions{})
				s.want("1.5:b 1.5:c 2.5:a 10:w")
				if err != nil || !s.queue.ShuttingDown() {
					t.Errorf("got %v, and shutting down is %v", err, s.queue.ShuttingDown())
				}
			})
		})
	}
}

// The number of workers changes while others are at work, and nobody is disturbed.
func TestRunsSideBySideOnAKeptQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		var mu sync.Mutex
		most := 0
		handle := func(ctx context.Context, _ string) error {
			mu.Lock()
			most = max(most, s.fifo.Held())
			mu.Unlock()
			time.Sleep(time.Second)
			return ctx.Err()
		}
		start := func(workers int) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			var run sync.WaitGroup
			run.Go(func() {
				if err := workqueue.Run(ctx, s.queue, handle, runOptions{Workers: workers, KeepQueue: true, Grace: time.Minute}); err != nil {
					t.Errorf("got %v from a Run with %d workers", err, workers)
				}
			})
			return func() { cancel(); run.Wait() }
		}
		wave := func(want int) {
			t.Helper()
			mu.Lock()
			most = 0
			mu.Unlock()
			for i := range 12 {
				s.queue.Add(itemOf(i))
			}
			time.Sleep(13 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			if most != want || s.queue.Len() != 0 {
				t.Errorf("got %d items at a time, and %d are left, want %d and 0", most, s.queue.Len(), want)
			}
		}
		stopTwo := start(2)
		wave(2)
		stopThree := start(3)
		wave(5)
		stopTwo()
		wave(3)
		stopThree()
		s.queue.ShutDown()
	})
}

// An item that is handed out when ctx ends goes back to its place.
func TestRunGivesBackWhatItDeclinesToAKeptQueue(t *testing.T) {
	for name, wrap := range map[string]func(*show) rateLimited{
		"GetContext": func(s *show) rateLimited { return lateContext{s.queue.(*workqueue.TypedRateLimiting[string]), s} },
		"in passing": func(s *show) rateLimited { return s.queue },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, runQueues["all methods"])
			s.queue = wrap(s)
			s.queue.Add("a")
			s.queue.Add("b")
			s.run(runOptions{KeepQueue: true}, func(context.Context, string) error { s.queue.Add("c"); s.stop(); return nil })
			<-s.ended
			if n := s.queue.Len(); s.fifo.Held() != 0 || n != 2 {
				t.Errorf("%s: %d items are queued, %d held", name, n, s.fifo.Held())
			}
			if first, _ := s.queue.Get(); first != "b" && name == "in passing" {
				t.Errorf("%s: %s is the first in line, want b", name, first)
			}
			s.queue.ShutDown()
		})
	}
}

// A worker in Get of a queue without GetContext cannot be told to leave, and so Run
// refuses to keep such a queue, whatever it is hidden in.
func TestRunKeepsOnlyAQueueWithGetContext(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		s.queue.Add("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		calls := 0
		err := workqueue.Run(ctx, s.queue, func(context.Context, string) error { calls++; return nil }, runOptions{KeepQueue: true})
		if err == nil && calls == 1 && s.queue.Len() == 0 || errors.Is(err, errors.ErrUnsupported) && calls == 0 && s.queue.Len() == 1 {
			return
		}
		t.Errorf("got %v, %d calls, and %d items are queued", err, calls, s.queue.Len())
	})
}

// A drain in which nothing could be drained in, and one of a queue that is kept, were
// ignored.
func TestRunRefusesOptionsWithoutMeaning(t *testing.T) {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer q.ShutDown()
	for want, options := range map[string]runOptions{
		"workqueue: Drain without Grace: there is no time to drain in":         {Drain: true},
		"workqueue: Drain with KeepQueue: a queue that is drained is not kept": {Drain: true, Grace: time.Second, KeepQueue: true},
	} {
		if got := goes(func() { workqueue.Run(t.Context(), q, replies(), options) }); got != want {
			t.Errorf("got the panic %v, want %s", got, want)
		}
	}
}

// While a Run drains, its own retries come, and nothing that others add.
func TestRunDrainIgnoresWhatOthersAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		q := s.queue.(*workqueue.TypedRateLimiting[string])
		s.queue.Add("a")
		calls := replies(fails, fails, workqueue.Requeue, requeues(time.Second))
		s.run(runOptions{Grace: time.Minute, Drain: true}, func(ctx context.Context, item string) error {
			if s.ctx.Err() != nil {
				if !q.ShuttingDown() {
					t.Error("the queue does not say that it is drained")
				}
				q.Add("x")
				q.AddAll("x", "y")
				q.AddAfter("x", time.Second)
				q.AddRateLimited("x")
				q.Reschedule("x", time.Second)
				q.Debounce("x", time.Second, 0)
			}
			return calls(ctx, item)
		})
		time.Sleep(500 * time.Millisecond)
		s.stop()
		// The third and fourth reply are no failures: what has failed is forgotten by the
		// fourth, and nothing waits for it any more.
		if got, want := s.left(), "queued[] held[] waiting[a]: <nil>"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		s.want("0:a 1:a 3:a 7:a 7:end")
	})
}

// What was lost in silence at an ordinary SIGTERM: deliveries in backoff. OnStop is told
// of them, and with Drain they are an error that needs no type parameter.
func TestRunTellsWhatWaitsForARetry(t *testing.T) {
	for drain, want := range map[bool]string{
		false: "queued[q] held[] waiting[a b]: <nil>",
		true:  "queued[] held[] waiting[a b]: context canceled",
	} {
		onRunQueues(t, func(t *testing.T, s *show) {
			s.queue.Add("a")
			s.queue.Add("b")
			s.queue.Add("q")
			options := runOptions{Drain: drain}
			if drain {
				options.Grace = time.Second
			}
			s.run(options, func(ctx context.Context, item string) error {
				switch {
				case item != "q":
					return workqueue.RetryAfter(time.Minute, errFailed)
				case !drain && s.ctx.Err() == nil:
					s.queue.Add("q")
					s.stop()
				}
				return nil
			})
			synctest.Wait()
			s.stop()
			got := s.left()
			if got != want && got != "queued[q] held[] waiting[b a]: <nil>" && got != "queued[] held[] waiting[b a]: context canceled" {
				t.Errorf("got %s, want %s", got, want)
			}
			for _, info := range s.stopped.Waiting {
				if info.Failures != 1 {
					t.Errorf("got %+v, want one failure", info)
				}
			}
			if errors.Is(s.result, workqueue.ErrNotDrained) != drain {
				t.Errorf("got %v", s.result)
			}
		})
	}
}

// A queue that is kept and has no Snapshot tells OnStop how many items it holds.
func TestRunKeepsAQueueWithoutSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["no Drain"])
		for _, item := range []string{"a", "b", "c"} {
			s.queue.Add(item)
		}
		s.run(runOptions{KeepQueue: true}, func(context.Context, string) error { s.stop(); return nil })
		<-s.ended
		if got, want := leftIn(*s.stopped, s.result), "queued[] of 2 held[] waiting[]: <nil>"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		s.queue.ShutDown()
	})
}
