package workqueue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue"
)

type (
	rateLimited = workqueue.TypedRateLimitingInterface[string]
	runOptions  = workqueue.RunOptions[string]
)

// runQueues are one queue with more or less to offer to Run: what a type does
// not have, Run has to do without.
var runQueues = map[string]func(*workqueue.TypedRateLimiting[string]) rateLimited{
	"all methods":   func(q *workqueue.TypedRateLimiting[string]) rateLimited { return q },
	"no GetContext": func(q *workqueue.TypedRateLimiting[string]) rateLimited { return onlyDrain{q, q} },
	"no Drain":      func(q *workqueue.TypedRateLimiting[string]) rateLimited { return onlyGetContext{q, q} },
	"neither":       func(q *workqueue.TypedRateLimiting[string]) rateLimited { return struct{ rateLimited }{q} },
	"neither below": func(q *workqueue.TypedRateLimiting[string]) rateLimited {
		return workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour),
			workqueue.TypedRateLimitingQueueConfig[string]{
				DelayingQueue: workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: bare{q.Delaying().FIFO()}}),
			})
	},
}

type onlyDrain struct {
	rateLimited
	queue *workqueue.TypedRateLimiting[string]
}

func (q onlyDrain) Drain(ctx context.Context) error { return q.queue.Drain(ctx) }

type onlyGetContext struct {
	rateLimited
	queue *workqueue.TypedRateLimiting[string]
}

func (q onlyGetContext) GetContext(ctx context.Context) (string, error) {
	return q.queue.GetContext(ctx)
}

// A show is a Run in virtual time, of a queue whose limiter says 1 s, 2 s, 4 s
// and so on, with what there is to see of it.
type show struct {
	t     *testing.T
	fifo  *workqueue.Typed[string]
	queue rateLimited
	start time.Time
	log   bytes.Buffer
	ctx   context.Context // of Run
	stop  context.CancelFunc

	mu     sync.Mutex
	events []string

	ended   chan struct{}
	result  error
	stopped *workqueue.Snapshot[string] // what OnStop was told
}

// onRunQueues plays a show on each of the queues.
func onRunQueues(t *testing.T, play func(t *testing.T, s *show)) {
	t.Helper()
	for name, wrap := range runQueues {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, newShow(t, wrap)) })
		})
	}
}

func newShow(t *testing.T, wrap func(*workqueue.TypedRateLimiting[string]) rateLimited) *show {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour)
	fifo := workqueue.NewTyped[string]()
	q := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{
		DelayingQueue: workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: fifo}),
	})
	return &show{t: t, fifo: fifo, queue: wrap(q), start: time.Now(), ended: make(chan struct{})}
}

// run starts Run. The handler notes its calls before it is called.
func (s *show) run(options runOptions, handle func(ctx context.Context, item string) error) {
	logger := logr.FromSlogHandler(slog.NewTextHandler(&s.log, nil))
	options.Logger = &logger
	options.OnStop = s.onStop
	s.ctx, s.stop = context.WithCancel(s.t.Context())
	go func() {
		defer close(s.ended)
		s.result = workqueue.Run(s.ctx, s.queue, func(ctx context.Context, item string) error {
			s.note("%s", item)
			return handle(ctx, item)
		}, options)
		s.note("end")
	}()
}

// onStop notes what is left.
func (s *show) onStop(left workqueue.Snapshot[string]) {
	if s.stopped != nil {
		s.t.Error("OnStop is called twice")
	}
	s.stopped = &left
}

// note writes an event down, with the seconds since the start, without the few
// milliseconds for which a drain of a foreign queue may not have looked at it.
func (s *show) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf("%g:%s", time.Since(s.start).Truncate(100*time.Millisecond).Seconds(), fmt.Sprintf(format, args...)))
}

// want compares the events since the last call, when nothing moves any more.
func (s *show) want(want string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.events, " "); got != want {
		s.t.Errorf("got the events %q, want %q", got, want)
	}
	s.events = nil
}

// end waits for Run, with ctx ended or the queue shut down, and returns what it
// has returned. Nothing is held then.
func (s *show) end() error {
	s.t.Helper()
	<-s.ended
	if n := s.fifo.Held(); n != 0 {
		s.t.Errorf("%d items are held after Run", n)
	}
	if !s.queue.ShuttingDown() {
		s.t.Errorf("the queue is open after Run")
	}
	return s.result
}

// A reply is what a handler does at one of its calls.
type reply func() error

func replies(f ...reply) func(context.Context, string) error {
	n := 0
	return func(context.Context, string) error {
		n++
		if n > len(f) {
			return nil
		}
		return f[n-1]()
	}
}

var errFailed = errors.New("failed")

func fails() error    { return errFailed }
func succeeds() error { return nil }
func panics() error   { panic("boom") }
func exits() error    { runtime.Goexit(); return nil }

func requeues(d time.Duration) reply {
	return func() error { return workqueue.RequeueAfter(d) }
}

func permanently() error { return workqueue.Permanent(errFailed) }

// What each return of the handler does, seen by when the next call comes.
func TestRunReturns(t *testing.T) {
	wrap := func(f reply) reply { return func() error { return fmt.Errorf("wrapped: %w", f()) } }
	for name, tt := range map[string]struct {
		replies []reply
		want    string
		counted int // failures after the last call
	}{
		"success":                      {[]reply{succeeds}, "0:a", 0},
		"failures back off":            {[]reply{fails, fails, fails}, "0:a 1:a 3:a 7:a", 0},
		"success forgets failures":     {[]reply{fails, fails, requeues(0), fails}, "0:a 1:a 3:a 3:a 4:a", 0},
		"requeue":                      {[]reply{requeues(5 * time.Second)}, "0:a 5:a", 0},
		"requeue, wrapped":             {[]reply{wrap(requeues(5 * time.Second))}, "0:a 5:a", 0},
		"requeue forgets failures":     {[]reply{fails, fails, requeues(5 * time.Second), fails}, "0:a 1:a 3:a 8:a 9:a", 0},
		"requeue at once":              {[]reply{requeues(0), requeues(-time.Hour)}, "0:a 0:a 0:a", 0},
		"permanent":                    {[]reply{fails, permanently}, "0:a 1:a", 0},
		"permanent, wrapped":           {[]reply{wrap(permanently)}, "0:a", 0},
		"permanent beside a requeue":   {[]reply{func() error { return errors.Join(requeues(1)(), permanently()) }}, "0:a", 0},
		"permanent nil":                {[]reply{func() error { return workqueue.Permanent(nil) }}, "0:a", 0},
		"panics back off":              {[]reply{panics, panics}, "0:a 1:a 3:a", 0},
		"panic with a permanent error": {[]reply{func() error { panic(permanently()) }}, "0:a 1:a", 0},
		"panic with a requeue":         {[]reply{func() error { panic(requeues(5 * time.Second)()) }}, "0:a 1:a", 0},
		"exits back off":               {[]reply{exits, exits}, "0:a 1:a 3:a", 0},
		"a failure of each kind":       {[]reply{fails, panics, exits, fails, fails}, "0:a 1:a 3:a 7:a 15:a 31:a", 0},
		"failing to the end":           {slices.Repeat([]reply{fails}, 7), "0:a 1:a 3:a 7:a 15:a 31:a 63:a", 7},
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				s.queue.Add("a")
				s.run(runOptions{}, replies(tt.replies...))
				time.Sleep(100 * time.Second)
				s.want(tt.want)
				if n := s.queue.NumRequeues("a"); n != tt.counted {
					t.Errorf("%d failures are counted, want %d", n, tt.counted)
				}
				s.stop()
				if err := s.end(); err != nil {
					t.Errorf("got %v from Run, want nil", err)
				}
			})
		})
	}
}

// An item that is given up is handed out after an Add, and starts over.
func TestRunRevivesWhatWasGivenUp(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		s.queue.Add("a")
		s.run(runOptions{}, replies(fails, fails, permanently, fails, permanently))
		time.Sleep(10 * time.Second)
		s.want("0:a 1:a 3:a")
		s.queue.Add("a")
		time.Sleep(10 * time.Second)
		s.want("10:a 11:a")
		s.queue.Add("a")
		s.want("20:a")
		s.stop()
		s.end()
	})
}

func TestRunBadInput(t *testing.T) {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer q.ShutDown()
	handle := func(context.Context, string) error { return nil }
	for want, f := range map[string]func(){
		"workqueue: queue is nil":                   func() { workqueue.Run(t.Context(), nil, handle, runOptions{}) },
		"workqueue: handler is nil":                 func() { workqueue.Run(t.Context(), q, nil, runOptions{}) },
		noQueueLimiter:                              func() { workqueue.Run(t.Context(), newLimited(nil), handle, runOptions{}) },
		"workqueue: Workers is negative: -1":        func() { workqueue.Run(t.Context(), q, handle, runOptions{Workers: -1}) },
		"workqueue: Timeout is negative: -1ns":      func() { workqueue.Run(t.Context(), q, handle, runOptions{Timeout: -1}) },
		"workqueue: MaxCancels is negative: -2":     func() { workqueue.Run(t.Context(), q, handle, runOptions{MaxCancels: -2}) },
		"workqueue: Grace is negative: -1s":         func() { workqueue.Run(t.Context(), q, handle, runOptions{Grace: -time.Second}) },
		"workqueue: MaxAttempts is negative: -1000": func() { workqueue.Run(t.Context(), q, handle, runOptions{MaxAttempts: -1000}) },
	} {
		if got := goes(f); got != want {
			t.Errorf("got the panic %v, want %s", got, want)
		}
	}
}
