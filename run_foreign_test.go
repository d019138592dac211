package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// This file is about handlers and callbacks that do what nobody expects of them.

// A joined is an error that joins others, and that handlers may return while it joins
// none. A nil pointer of brokenError is the well-known error that is not nil.
type (
	joined      []error
	brokenError struct{ cause error }
)

func (j joined) Error() string        { return fmt.Sprintf("%d errors", len(j)) }
func (j joined) Unwrap() []error      { return j }
func (e *brokenError) Error() string  { return e.cause.Error() }
func (e *brokenError) Unwrap() error  { return e.cause }
func (e *brokenError) Is(error) bool  { return e.cause == nil }
func failsBrokenly() error            { return (*brokenError)(nil) }
func failsJoined(errs ...error) reply { return func() error { return joined(errs) } }

// An error that joins nothing was taken for a Requeue: it was neither logged nor counted.
func TestErrorThatJoinsNothingIsAFailure(t *testing.T) {
	requeue := workqueue.RequeueAfter(5 * time.Second)
	for name, tt := range map[string]struct {
		reply reply
		want  string
	}{
		"nothing":                 {failsJoined(), "failed 1 1s"},
		"nil alone":               {failsJoined(nil, nil), "failed 1 1s"},
		"two verbs for nil":       {func() error { return fmt.Errorf("close: %w, flush: %w", nil, nil) }, "failed 1 1s"},
		"nothing, in a join":      {func() error { return errors.Join(joined{}, requeue) }, "failed 1 5s"},
		"nil beside a requeue":    {failsJoined(nil, requeue), "requeued 0 5s"},
		"nil beside a permanent":  {failsJoined(nil, permanently()), "given_up 1 0s"},
		"an error that is broken": {failsBrokenly, "failed 1 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				s.queue.Add("a")
				s.run(runOptions{OnResult: func(_ context.Context, _ string, r workqueue.Result) {
					if r.After < 0 { // The queue is not ours.
						r.After = time.Second
					}
					s.note("%v %d %v", r.Outcome, r.Failures, r.After)
				}}, replies(tt.reply))
				synctest.Wait()
				s.want("0:a 0:" + tt.want)
				s.stop()
				s.end()
			})
		})
	}
}

// A method of a returned error that panicked ended the program.
func TestPanicInAMethodOfAnErrorIsOneOfTheHandler(t *testing.T) {
	for _, options := range []runOptions{{}, {CancelOnReAdd: true}, {Timeout: time.Second, MaxAttempts: 2}} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, runQueues["all methods"])
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

// An item that fails after a shutdown, comes again because it was added while it was
// held, and then succeeds was listed as failed.
func TestWhatHasSucceededSinceIsNotLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second reply
		want          string
	}{
		"succeeds":      {fails, succeeds, "0 waiting"},
		"is given up":   {fails, permanently, "0 waiting"},
		"fails again":   {fails, fails, "0 waiting, 1 failed\na: failed, 2 failures"},
		"was put off":   {requeues(time.Hour), succeeds, "0 waiting"},
		"is put off":    {fails, requeues(time.Hour), "1 waiting\na: waiting, due 2000-01-01T01:00:00Z"},
		"was requeued":  {workqueue.Requeue, fails, "0 waiting, 1 failed\na: failed, 1 failures"},
		"does not come": {fails, nil, "0 waiting, 1 failed\na: failed, 1 failures"},
	} {
		for _, options := range []runOptions{{}, {MaxAttempts: 9, Timeout: time.Minute}, {OnResult: func(context.Context, string, workqueue.Result) {}}} {
			t.Run(name, func(t *testing.T) {
				onRunQueues(t, func(t *testing.T, s *show) {
					s.queue.Add("a")
					calls := 0
					s.run(options, func(context.Context, string) error {
						if calls++; calls > 1 {
							return tt.second()
						}
						if tt.second != nil {
							s.queue.Add("a")
						}
						s.queue.ShutDown()
						return tt.first()
					})
					if err := s.end(); err != nil {
						t.Errorf("got %v", err)
					}
					if got, want := fmt.Sprint(s.stopped), "0 queued, 0 in flight, "+tt.want; got != want {
						t.Errorf("left: %s\nwant: %s", got, want)
					}
				})
			})
		}
	}
}

// An OnGiveUp that ended its goroutine kept the result from OnResult and the metrics. A
// panic of it is not taken for one of OnResult.
func TestOnResultIsToldAlthoughOnGiveUpExits(t *testing.T) {
	for name, f := range map[string]reply{"exits": exits, "panics": panics, "returns": succeeds} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				s.queue.Add("a")
				s.queue.Add("b")
				s.run(runOptions{
					MaxAttempts: 1,
					OnGiveUp:    func(context.Context, string, error) { f() },
					OnResult: func(_ context.Context, item string, r workqueue.Result) {
						s.note("%s %v %d %v", item, r.Outcome, r.Failures, r.Err)
					},
				}, replies(fails, permanently))
				synctest.Wait()
				s.want("0:a 0:a given_up 1 failed 0:b 0:b given_up 1 failed")
				if got, want := strings.Count(s.log.String(), "OnGiveUp panicked"), map[string]int{"panics": 2}[name]; got != want {
					t.Errorf("%d panics of OnGiveUp are logged, want %d", got, want)
				}
				if strings.Contains(s.log.String(), "OnResult panicked") {
					t.Errorf("logged %s", &s.log)
				}
				s.stop()
				s.end()
			})
		})
	}
}

// OnResult was told that an item comes again which Run then took out of the queue.
func TestWhatWasCutShortAtTheEndDoesNotComeAgain(t *testing.T) {
	for _, tt := range []struct {
		options runOptions
		ends    bool // while the item is held
		again   bool
		queued  int
	}{
		{runOptions{}, false, true, 0},
		{runOptions{}, true, false, 1},
		{runOptions{KeepQueue: true}, true, true, 1},
		{runOptions{Drain: true, Grace: time.Minute}, true, true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, runQueues["all methods"])
			s.queue.Add("a")
			calls := 0
			var told []bool
			options := tt.options
			options.CancelOnReAdd = true
			options.OnResult = func(_ context.Context, _ string, r workqueue.Result) {
				if r.Outcome == workqueue.OutcomeReAdded {
					told = append(told, r.Again)
				}
			}
			s.run(options, func(ctx context.Context, item string) error {
				if calls++; calls > 1 {
					return nil
				}
				s.queue.Add(item)
				if tt.ends {
					s.stop()
				}
				return ctx.Err()
			})
			synctest.Wait()
			s.stop()
			<-s.ended
			if len(told) != 1 || told[0] != tt.again || s.stopped.QueuedTotal != tt.queued {
				t.Errorf("%+v: told %v, %d queued at the end, want %v, %d", tt, told, s.stopped.QueuedTotal, tt.again, tt.queued)
			}
		})
	}
}
