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
	"sync/atomic"
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

// runQueues are a queue of ours, and a type that embeds a queue and replaces methods for Run.
var runQueues = map[string]func(*workqueue.TypedRateLimiting[string]) rateLimited{
	"ours": ourQueue,
	"embedding": func(q *workqueue.TypedRateLimiting[string]) rateLimited {
		return &embedding[string]{TypedRateLimiting: q}
	},
}

func ourQueue(q *workqueue.TypedRateLimiting[string]) rateLimited { return q }

// An embedding counts the items that Run holds.
type embedding[T comparable] struct {
	*workqueue.TypedRateLimiting[T]
	held atomic.Int64
}

func (q *embedding[T]) GetInfo(ctx context.Context) (workqueue.ItemInfo[T], error) {
	info, err := q.TypedRateLimiting.GetInfo(ctx)
	if err == nil {
		q.held.Add(1)
	}
	return info, err
}

func (q *embedding[T]) Done(item T) {
	q.held.Add(-1)
	q.TypedRateLimiting.Done(item)
}

// A replacing type embeds a queue of ours, and replaces the methods for which it has a function.
type replacing struct {
	*workqueue.TypedRateLimiting[string]
	getInfo func(ctx context.Context) (workqueue.ItemInfo[string], error)
	done    func(item string)
}

func (q *replacing) GetInfo(ctx context.Context) (workqueue.ItemInfo[string], error) {
	if q.getInfo != nil {
		return q.getInfo(ctx)
	}
	return q.TypedRateLimiting.GetInfo(ctx)
}

func (q *replacing) Done(item string) {
	if q.done != nil {
		q.done(item)
		return
	}
	q.TypedRateLimiting.Done(item)
}

// A show is a Run in virtual time, with its events, its log and its result. The limiter of the queue says
// 1 s, 2 s, 4 s and so on.
type show struct {
	t     *testing.T
	fifo  *workqueue.Typed[string]
	queue rateLimited
	ours  *workqueue.TypedRateLimiting[string] // in queue
	start time.Time
	log   bytes.Buffer
	ctx   context.Context // of Run
	stop  context.CancelFunc

	mu     sync.Mutex
	events []string

	ended   chan struct{}
	result  error
	stopped *workqueue.Snapshot[string] // the argument of OnStop
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
	return &show{t: t, fifo: fifo, queue: wrap(q), ours: q, start: time.Now(), ended: make(chan struct{})}
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
		if s.ctx.Err() == nil && s.result == nil {
			s.t.Error("Run has returned nil before its context has ended")
		}
		s.note("end")
	}()
}

// onStop notes the items left behind.
func (s *show) onStop(_ context.Context, left workqueue.Snapshot[string]) {
	if s.stopped != nil {
		s.t.Error("OnStop is called twice")
	}
	s.stopped = &left
}

// note writes an event down, with the seconds since the start, without the few
// milliseconds for which the drain of a Run may not have looked at the queue.
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

// end waits for Run, with ctx ended or the queue shut down, and returns the error of Run. Nothing is held
// then.
func (s *show) end() error {
	s.t.Helper()
	<-s.ended
	if n := s.fifo.Held(); n != 0 {
		s.t.Errorf("%d items are held after Run", n)
	}
	if q, ok := s.queue.(*embedding[string]); ok && q.held.Load() != 0 {
		s.t.Errorf("the embedding type misses %d calls of Done", q.held.Load())
	}
	if !s.queue.ShuttingDown() {
		s.t.Errorf("the queue is open after Run")
	}
	return s.result
}

// A reply is the body of a handler in a single call.
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

func fails() error { return errFailed }

func succeeds() error { return nil }

func panics() error { panic("boom") }

func exits() error { runtime.Goexit(); return nil }

func requeues(d time.Duration) reply {
	return func() error { return workqueue.RequeueAfter(d) }
}

func permanently() error { return workqueue.Permanent(errFailed) }

// Above a foreign queue or layer, Run retried without a priority, and could not name the items left behind.
// Run refuses the queue by its type, and changes nothing. The log has the refusal: callers often drop the error
// of a Run on a goroutine of its own.
func TestRunRefusesOtherQueues(t *testing.T) {
	ours := func() *workqueue.TypedRateLimiting[string] { return newLimited(constant(0)) }
	for want, q := range map[string]rateLimited{
		"struct { workqueue.TypedRateLimitingInterface[string] }": struct{ rateLimited }{ours()},
		"workqueue_test.bareDelaying": workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
			DelayingQueue: bareDelaying{workqueue.NewTypedDelayingQueue[string]()},
		}),
		"workqueue_test.bare": workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
			Queue: bare{workqueue.NewTyped[string]()},
		}),
		"*workqueue_test.embedding[string]": &embedding[string]{},
		"workqueue_test.informed":           informed{ours()},
		"workqueue_test.renamed":            renamed{ours()},
	} {
		for _, options := range []runOptions{{}, {AtEnd: workqueue.EndKeep}, {CancelOnReAdd: 3}} {
			options.OnStop = func(context.Context, workqueue.Snapshot[string]) { t.Errorf("%s: OnStop is called", want) }
			var log bytes.Buffer
			logger := logr.FromSlogHandler(slog.NewTextHandler(&log, nil))
			options.Logger = &logger
			err := workqueue.Run(canceled(), q, replies(), options)
			if !strings.Contains(log.String(), "Run refuses the queue") || !strings.Contains(log.String(), want) {
				t.Errorf("the log has %q, want that Run refuses a %s", log.String(), want)
			}
			if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), " not a "+want+": ") {
				t.Errorf("got %v, want that a %s is not supported", err, want)
			}
		}
		if want != "*workqueue_test.embedding[string]" && q.ShuttingDown() {
			t.Errorf("the %s is shut down", want)
		}
	}
}

// A renamed is ours, and hides a method by which Run gets items behind another.
type renamed struct {
	*workqueue.TypedRateLimiting[string]
}

func (renamed) GetInfo(string) {}

// An informed is not ours, but has the methods by which Run gets items.
type informed struct{ rateLimited }

func (informed) GetInfo(context.Context) (workqueue.ItemInfo[string], error) {
	return workqueue.ItemInfo[string]{}, nil
}

func TestRunBadInput(t *testing.T) {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer q.ShutDown()
	handle := func(context.Context, string) error { return nil }
	for want, f := range map[string]func(){
		"workqueue: queue is nil":                                         func() { workqueue.Run(t.Context(), nil, handle, runOptions{}) },
		"workqueue: handler is nil":                                       func() { workqueue.Run(t.Context(), q, nil, runOptions{}) },
		noQueueLimiter:                                                    func() { workqueue.Run(t.Context(), newLimited(nil), handle, runOptions{}) },
		"workqueue: Workers is negative: -1":                              func() { workqueue.Run(t.Context(), q, handle, runOptions{Workers: -1}) },
		"workqueue: Timeout is negative: -1ns":                            func() { workqueue.Run(t.Context(), q, handle, runOptions{Timeout: -1}) },
		"workqueue: CancelOnReAdd is negative: -2":                        func() { workqueue.Run(t.Context(), q, handle, runOptions{CancelOnReAdd: -2}) },
		"workqueue: Grace is negative: -1s":                               func() { workqueue.Run(t.Context(), q, handle, runOptions{Grace: -time.Second}) },
		"workqueue: MaxAttempts is negative: -1000":                       func() { workqueue.Run(t.Context(), q, handle, runOptions{MaxAttempts: -1000}) },
		"workqueue: EndDrain without Grace: there is no time to drain in": func() { workqueue.Run(t.Context(), q, handle, runOptions{AtEnd: workqueue.EndDrain}) },
		"workqueue: AtEnd has an unknown value: 3": func() {
			workqueue.Run(t.Context(), q, handle, runOptions{AtEnd: workqueue.EndKeep + 1, Grace: time.Second})
		},
	} {
		if got := goes(f); got != want {
			t.Errorf("got the panic %v, want %s", got, want)
		}
	}
}

// A returned is a value for a handler to return. The text is copied from the page.
type returned struct {
	text string
	err  func() error
}

// returneds are all kinds of values: a plain error, each value with a meaning for Run,
// and two values with a time, as two times may meet.
var returneds = []returned{
	{"nil", func() error { return nil }},
	{"err", fails},
	{"RequeueAfter(5s)", requeues(5 * time.Second)},
	{"RequeueAfter(9s)", requeues(9 * time.Second)},
	{"DeferFor(8s)", func() error { return workqueue.DeferFor(8 * time.Second) }},
	{"RetryAfter(7s, err)", func() error { return workqueue.RetryAfter(7*time.Second, errFailed) }},
	{"Requeue()", workqueue.Requeue},
	{"Permanent(err)", permanently},
}

// handled is the outcome of an item with a single failure before. The limiter says 2 s for
// the next failure.
type handled struct {
	outcome  workqueue.Outcome
	again    string // when the item comes again
	failures int    // for MaxAttempts
	limiter  int    // the count of the limiter
	logged   string // the level of the line in the log
}

func (h handled) String() string {
	logged := h.logged
	if logged == "" {
		logged = "no"
	}
	return fmt.Sprintf("%s | %s | %d | %d | %s", h.outcome, h.again, h.failures, h.limiter, logged)
}

// handleOnce has a handler fail once and return the result of f then.
func handleOnce(t *testing.T, f func() error) (got handled) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, ourQueue)
		s.queue.Add("a")
		calls := 0
		s.run(runOptions{MaxAttempts: 9, OnResult: func(_ context.Context, _ string, result workqueue.HandlerResult) {
			if calls != 2 {
				return
			}
			got = handled{outcome: result.Outcome, again: "-", failures: result.Failures}
			if result.Again {
				got.again = fmt.Sprint(result.After)
			}
		}}, func(context.Context, string) error {
			switch calls++; calls {
			case 1:
				return errFailed
			case 2:
				s.log.Reset()
				return f()
			}
			return nil
		})
		time.Sleep(time.Second)
		synctest.Wait()
		got.limiter = s.queue.NumRequeues("a")
		if level, ok := strings.CutPrefix(s.log.String(), "time="); ok {
			_, level, _ = strings.Cut(level, "level=")
			got.logged, _, _ = strings.Cut(level, " ")
		}
		second := time.Since(s.start)
		time.Sleep(time.Minute)
		s.stop()
		s.end()
		came := "-"
		if calls > 2 {
			came = s.at(3).String()
		}
		if want := got.again; came != "-" {
			if d, _ := time.ParseDuration(want); s.at(3) != second+d {
				t.Errorf("the item has come again at %v, not after %v", came, want)
			}
		} else if want != "-" {
			t.Errorf("the item has not come again after %v", want)
		}
	})
	return got
}

// at returns when the handler was called for the n-th time.
func (s *show) at(n int) time.Duration {
	for _, event := range s.events {
		at, what, _ := strings.Cut(event, ":")
		if what == "a" {
			if n--; n == 0 {
				d, _ := time.ParseDuration(at + "s")
				return d
			}
		}
	}
	return -1
}

// tableOfReturns is the table of the page: each value by itself, and each pair of two values other than nil,
// side by side and with either wrapped by fmt.Errorf. Both orders must have the same outcome.
func tableOfReturns(t *testing.T) (rows []string) {
	for i, one := range returneds {
		got := handleOnce(t, one.err)
		rows = append(rows, fmt.Sprintf("| `%s` | %v |", one.text, got))
		wrapped := handleOnce(t, func() error {
			if err := one.err(); err != nil {
				return fmt.Errorf("in short: %w", err)
			}
			return nil
		})
		if wrapped != got {
			t.Errorf("%s: got %v, and %v if wrapped", one.text, got, wrapped)
		}
		for _, other := range returneds[max(i, 1):] {
			if i > 0 {
				rows = append(rows, pairOfReturns(t, one, other))
			}
		}
	}
	return rows
}

func pairOfReturns(t *testing.T, one, other returned) (row string) {
	got := handleOnce(t, func() error { return errors.Join(one.err(), other.err()) })
	for name, f := range map[string]func() error{
		"the other way round": func() error { return errors.Join(other.err(), one.err()) },
		"two verbs":           func() error { return fmt.Errorf("%w beside %w", one.err(), other.err()) },
		"wrapped":             func() error { return errors.Join(fmt.Errorf("in short: %w", other.err()), one.err()) },
		"twice":               func() error { return errors.Join(errors.Join(one.err(), other.err()), other.err()) },
	} {
		if same := handleOnce(t, f); same != got {
			t.Errorf("Join(%s, %s): got %v, and %v %s", one.text, other.text, got, same, name)
		}
	}
	return fmt.Sprintf("| `Join(%s, %s)` | %v |", one.text, other.text, got)
}

// The page has every value and every pair, and Run does as the page says.
func TestRunReturnsByAllPairs(t *testing.T) {
	t.Parallel()
	played := tableOfReturns(t)
	written := rowsOf(section(read(t, "docs/semantics.md"), "What a handler returns"))
	if !slices.Equal(written, played) {
		t.Errorf("the page has\n%s\nand Run does\n%s", strings.Join(written, "\n"), strings.Join(played, "\n"))
	}
}

// A panic decides by itself, whatever its value or what is wrapped by another error
// with one in it. The error of a context that is not the handler's is a failure.
func TestRunReturnsAPanicOfAnotherRun(t *testing.T) {
	for _, err := range []error{
		&workqueue.PanicError{Value: permanently()},
		fmt.Errorf("within: %w", &workqueue.PanicError{Value: requeues(time.Hour)()}),
		workqueue.RetryAfter(2*time.Second, workqueue.RequeueAfter(time.Hour)),
		fmt.Errorf("nothing: %w", nil),
		context.Canceled,
	} {
		got := handleOnce(t, func() error { return err })
		if got.outcome != workqueue.OutcomeFailed || got.again != "2s" || got.failures != 2 {
			t.Errorf("%v: got %v", err, got)
		}
	}
}

// The errors of the library have texts, and Permanent and RetryAfter of nil are nil. TestVerdict has the rest.
func TestRunErrors(t *testing.T) {
	for want, err := range map[string]error{
		"workqueue: requeue after 1s":     workqueue.RequeueAfter(time.Second),
		"workqueue: requeue after 0s":     workqueue.RequeueAfter(-1),
		"workqueue: defer for 1s":         workqueue.DeferFor(time.Second),
		"failed":                          workqueue.Permanent(errFailed),
		"broken":                          workqueue.RetryAfter(time.Second, errors.New("broken")),
		"workqueue: panic: failed":        &workqueue.PanicError{Value: errFailed},
		"workqueue: panic: boom":          &workqueue.PanicError{Value: "boom"},
		"workqueue: item was added again": workqueue.ErrReAdded,
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if !errors.Is(&workqueue.PanicError{Value: errFailed}, errFailed) || errors.Is(&workqueue.PanicError{Value: "boom"}, errFailed) {
		t.Error("PanicError does not unwrap its value, or unwraps a value that is no error")
	}
	if err := workqueue.Permanent(nil); err != nil {
		t.Errorf("Permanent(nil): got %v, want nil", err)
	}
	if err := workqueue.RetryAfter(time.Second, nil); err != nil {
		t.Errorf("RetryAfter(1s, nil): got %v, want nil", err)
	}
}

// The runbook tells failures from planned waits by Why. A failure beside a DeferFor was shown as deferred.
func TestWhyAnItemWaitsAfterItsHandler(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string // why, and whether the wait is firm
	}{
		{errFailed, "retry false"},
		{workqueue.RetryAfter(time.Minute, errFailed), "retry false"},
		{errors.Join(errFailed, workqueue.DeferFor(time.Second)), "retry true"},
		{errors.Join(errFailed, workqueue.DeferFor(time.Hour)), "retry true"},
		{workqueue.Requeue(), "retry false"},
		{workqueue.RequeueAfter(time.Minute), "delay false"},
		{workqueue.DeferFor(time.Minute), "deferred true"},
		{errors.Join(workqueue.Requeue(), workqueue.DeferFor(time.Minute)), "deferred true"},
		{errors.Join(workqueue.RequeueAfter(time.Hour), workqueue.DeferFor(time.Minute)), "deferred true"},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newLimited(constant(time.Minute))
			q.Add("a")
			go workqueue.Run(t.Context(), q, func(context.Context, string) error { return tt.err }, runOptions{Logger: discard()})
			synctest.Wait()
			info, _ := q.Find("a")
			if got := fmt.Sprint(info.Why, " ", info.Firm); got != tt.want {
				t.Errorf("%v: got %s, want %s", tt.err, got, tt.want)
			}
		})
	}
}

// Middleware and tests could not tell the wish of a handler, nor compare two errors. An error without parts was taken
// for a Requeue.
func TestVerdict(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		want  string
		equal error // in the sense of errors.Is; nil for none
	}{
		"nil":                    {nil, "{succeeded false 0s}", nil},
		"failure":                {errFailed, "{failed false 0s}", errFailed},
		"requeue":                {workqueue.Requeue(), "{requeued false 0s}", workqueue.Requeue()},
		"requeue after":          {workqueue.RequeueAfter(time.Second), "{requeued true 1s}", workqueue.RequeueAfter(time.Second)},
		"requeue at once":        {workqueue.RequeueAfter(-1), "{requeued true 0s}", workqueue.RequeueAfter(0)},
		"retry after":            {workqueue.RetryAfter(time.Minute, errFailed), "{failed true 1m0s}", workqueue.RetryAfter(time.Minute, errFailed)},
		"permanent":              {workqueue.Permanent(errFailed), "{given_up false 0s}", workqueue.Permanent(errFailed)},
		"permanent, unwrapped":   {workqueue.Permanent(errFailed), "{given_up false 0s}", errFailed},
		"panic":                  {&workqueue.PanicError{Value: workqueue.RequeueAfter(time.Second)}, "{failed false 0s}", nil},
		"wrapped":                {fmt.Errorf("get: %w", workqueue.RequeueAfter(time.Second)), "{requeued true 1s}", workqueue.RequeueAfter(time.Second)},
		"joined":                 {errors.Join(errFailed, workqueue.RequeueAfter(time.Second)), "{failed true 1s}", workqueue.RequeueAfter(time.Second)},
		"defer":                  {workqueue.DeferFor(time.Second), "{deferred true 1s}", workqueue.DeferFor(time.Second)},
		"defer twice":            {errors.Join(workqueue.DeferFor(time.Second), workqueue.DeferFor(2*time.Second)), "{deferred true 2s}", nil},
		"defer a failure":        {errors.Join(errFailed, workqueue.DeferFor(time.Second)), "{failed false 1s}", errFailed},
		"defer a retry":          {errors.Join(workqueue.RetryAfter(time.Minute, errFailed), workqueue.DeferFor(time.Second)), "{failed true 1m0s}", errFailed},
		"within":                 {workqueue.Permanent(fmt.Errorf("get: %w", errFailed)), "{given_up false 0s}", workqueue.Permanent(errFailed)},
		"requeue within a retry": {workqueue.RetryAfter(time.Minute, workqueue.RequeueAfter(3*time.Second)), "{failed true 3s}", nil},
		"permanent in a retry":   {workqueue.RetryAfter(time.Minute, permanently()), "{given_up false 0s}", workqueue.Permanent(errFailed)},
		"nothing":                {joined{}, "{failed false 0s}", nil},
		"nil alone":              {joined{nil, nil}, "{failed false 0s}", nil},
		"two verbs for nil":      {fmt.Errorf("close: %w, flush: %w", nil, nil), "{failed false 0s}", nil},
		"nothing, in a join":     {errors.Join(joined{}, workqueue.RequeueAfter(time.Second)), "{failed true 1s}", workqueue.RequeueAfter(time.Second)},
		"nil beside a requeue":   {joined{nil, workqueue.RequeueAfter(time.Second)}, "{requeued true 1s}", workqueue.RequeueAfter(time.Second)},
		"nil beside a permanent": {joined{nil, permanently()}, "{given_up false 0s}", workqueue.Permanent(errFailed)},
		// == panics for two errors of this kind.
		"not comparable": {workqueue.Permanent(joined{errFailed}), "{given_up false 0s}", workqueue.Permanent(errFailed)},
	} {
		if got := fmt.Sprint(workqueue.VerdictOf(tt.err)); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
		if tt.equal != nil && !errors.Is(tt.err, tt.equal) {
			t.Errorf("%s: %v is not %v", name, tt.err, tt.equal)
		}
		for _, other := range []error{workqueue.RequeueAfter(2 * time.Second), workqueue.RetryAfter(2*time.Second, errFailed),
			workqueue.RetryAfter(time.Minute, context.Canceled), workqueue.Permanent(context.Canceled), workqueue.Permanent(joined{})} {
			if errors.Is(tt.err, other) {
				t.Errorf("%s: %v is %v", name, tt.err, other)
			}
		}
	}
}

// A joined is an error of several parts, or of none. A nil pointer of brokenError is the well-known error
// other than nil.
type (
	joined      []error
	brokenError struct{ cause error }
)

func (j joined) Error() string { return fmt.Sprintf("%d errors", len(j)) }

func (j joined) Unwrap() []error { return j }

func (e *brokenError) Error() string { return e.cause.Error() }

func (e *brokenError) Unwrap() error { return e.cause }

func (e *brokenError) Is(error) bool { return e.cause == nil }

func failsBrokenly() error { return (*brokenError)(nil) }

// A panic in a method of a returned error ended the program.
func TestPanicInAMethodOfAnErrorIsOneOfTheHandler(t *testing.T) {
	for _, options := range []runOptions{{}, {CancelOnReAdd: 3}, {Timeout: time.Second, MaxAttempts: 2}} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, ourQueue)
			s.queue.Add("a")
			var given error
			options.OnGiveUp = func(_ context.Context, _ string, err error) { given = err }
			s.run(options, replies(failsBrokenly, failsBrokenly))
			time.Sleep(10 * time.Second)
			var panicked *workqueue.PanicError
			if options.MaxAttempts > 0 {
				s.want("0:a 1:a")
				if !errors.As(given, &panicked) {
					t.Errorf("given up with %T, want a panic", given)
				}
			} else {
				s.want("0:a 1:a 3:a")
			}
			if log := s.log.String(); strings.Count(log, "workqueue: panic: runtime error") != 2-options.MaxAttempts/2 {
				t.Errorf("logged %s", log)
			}
			s.stop()
			s.end()
		})
	}
}
