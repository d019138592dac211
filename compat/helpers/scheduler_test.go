// Package helpers_test has helpers that projects have written around client-go's queue, on this
// queue. Each test is the contract of a helper, in our words. docs/migrating.md has the table.
package helpers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue"
)

// A scheduler calls a function for each key when the time of the key has come, as cert-manager's
// scheduler does with a timer for each key: Add replaces the time of the key, and Forget drops the time.
type scheduler struct {
	queue *workqueue.TypedRateLimiting[string]
}

func newScheduler(ctx context.Context, process func(key string)) (s scheduler, wait func()) {
	s.queue = workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{})
	return s, start(func() error {
		return workqueue.Run(ctx, s.queue, func(_ context.Context, key string) error {
			process(key)
			return nil
		}, workqueue.RunOptions[string]{Workers: 4})
	})
}

func (s scheduler) Add(key string, after time.Duration) { s.queue.Reschedule(key, after) }
func (s scheduler) Forget(key string)                   { s.queue.Remove(key) }

// start runs f on a goroutine. wait returns when f has returned, and panics if f has failed.
func start(f func() error) (wait func()) {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	return func() {
		if err := <-ended; err != nil {
			panic(err)
		}
	}
}

// A journal has the calls for keys, with the time since its start.
type journal struct {
	start time.Time
	mu    sync.Mutex
	calls []string // guarded by mu
}

func newJournal() *journal { return &journal{start: time.Now()} }

func (j *journal) note(key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls = append(j.calls, fmt.Sprint(key, " at ", time.Since(j.start)))
}

func (j *journal) len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.calls)
}

// expect compares the calls since the last expect. The goroutines of a bubble must be blocked.
func (j *journal) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.calls, want) {
		t.Errorf("the calls are %q, want %q", j.calls, want)
	}
	j.calls = nil
}

// quiet drops log lines.
func quiet() *logr.Logger {
	discard := logr.Discard()
	return &discard
}

func TestScheduler(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, s scheduler, j *journal){
		"a key comes once, at its time": func(t *testing.T, s scheduler, j *journal) {
			s.Add("a", 10*time.Second)
			time.Sleep(10*time.Second - 1)
			j.expect(t)
			time.Sleep(time.Hour)
			j.expect(t, "a at 10s")
		},
		"an Add puts the key off": func(t *testing.T, s scheduler, j *journal) {
			s.Add("a", 10*time.Second)
			time.Sleep(5 * time.Second)
			s.Add("a", 10*time.Second)
			time.Sleep(time.Hour)
			j.expect(t, "a at 15s")
		},
		"an Add makes the key come earlier": func(t *testing.T, s scheduler, j *journal) {
			s.Add("a", time.Hour)
			s.Add("a", time.Second)
			time.Sleep(2 * time.Hour)
			j.expect(t, "a at 1s")
		},
		"an Add without a time is now": func(t *testing.T, s scheduler, j *journal) {
			s.Add("a", 0)
			s.Add("b", -time.Second)
			synctest.Wait()
			j.mu.Lock()
			slices.Sort(j.calls) // Two workers have the two keys.
			j.mu.Unlock()
			j.expect(t, "a at 0s", "b at 0s")
		},
		"Forget drops one key": func(t *testing.T, s scheduler, j *journal) {
			s.Add("a", time.Second)
			s.Add("b", 2*time.Second)
			s.Forget("a")
			s.Forget("unknown")
			time.Sleep(time.Hour)
			j.expect(t, "b at 2s")
		},
		"a forgotten key may be added again": func(t *testing.T, s scheduler, j *journal) {
			s.Add("a", time.Second)
			s.Forget("a")
			s.Add("a", time.Minute)
			time.Sleep(time.Hour)
			j.expect(t, "a at 1m0s")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				j := newJournal()
				s, wait := newScheduler(ctx, j.note)
				test(t, s, j)
				stop()
				wait()
			})
		})
	}
}

// With a timer for each key, the end of the function forgets the timer that the function has set, and two
// calls for one key can overlap. Neither happens here.
func TestSchedulerWhoseFunctionAddsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		j := newJournal()
		var s scheduler
		s, wait := newScheduler(ctx, func(key string) {
			j.note(key)
			s.Add(key, time.Second)
			time.Sleep(10 * time.Second)
		})
		s.Add("a", time.Second)
		time.Sleep(25 * time.Second)
		j.expect(t, "a at 1s", "a at 11s", "a at 21s")
		stop()
		wait()
	})
}

// A timer that is set outside of the work is a queue of its own, and its handler adds the key to the queue of
// the work. An event that comes while the key is at work is not lost, whatever the work does with the timer,
// and neither is the retry of a failure.
func TestSchedulerBesideTheQueueOfTheWork(t *testing.T) {
	failure := errors.New("conflict")
	for name, test := range map[string]struct {
		event func(work *workqueue.TypedRateLimiting[string]) // comes while the first call is at work
		timer func(s scheduler)                               // what the first call does then
		err   error                                           // of the first call
		want  []string
	}{
		"an Add, and the timer is dropped": {func(w *workqueue.TypedRateLimiting[string]) { w.Add("a") },
			func(s scheduler) { s.Forget("a") }, nil, []string{"a at 0s", "a at 1s"}},
		"an Add, and the timer is put off": {func(w *workqueue.TypedRateLimiting[string]) { w.Add("a") },
			func(s scheduler) { s.Add("a", time.Hour) }, nil, []string{"a at 0s", "a at 1s", "a at 1h0m1s"}},
		"a Debounce, and the timer is dropped": {func(w *workqueue.TypedRateLimiting[string]) { w.Debounce("a", time.Second, 0) },
			func(s scheduler) { s.Forget("a") }, nil, []string{"a at 0s", "a at 2s"}},
		"a Debounce, and the timer is put off": {func(w *workqueue.TypedRateLimiting[string]) { w.Debounce("a", time.Second, 0) },
			func(s scheduler) { s.Add("a", time.Hour) }, nil, []string{"a at 0s", "a at 2s", "a at 1h0m1s"}},
		"a failure, and the timer is dropped": {func(*workqueue.TypedRateLimiting[string]) {},
			func(s scheduler) { s.Forget("a") }, failure, []string{"a at 0s", "a at 1.005s"}},
		"a failure, and the timer is put off": {func(*workqueue.TypedRateLimiting[string]) {},
			func(s scheduler) { s.Add("a", time.Hour) }, failure, []string{"a at 0s", "a at 1.005s", "a at 1h0m1s"}},
		"the timer of a key at work": {func(*workqueue.TypedRateLimiting[string]) {},
			func(s scheduler) { s.Add("a", 0); time.Sleep(time.Millisecond) }, nil, []string{"a at 0s", "a at 1.001s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				j := newJournal()
				work := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
					workqueue.TypedRateLimitingQueueConfig[string]{})
				timers, waitTimers := newScheduler(ctx, work.Add)
				first := true
				wait := start(func() error {
					return workqueue.Run(ctx, work, func(_ context.Context, key string) error {
						j.note(key)
						if !first {
							return nil
						}
						first = false
						time.Sleep(time.Second)
						test.event(work)
						test.timer(timers)
						return test.err
					}, workqueue.RunOptions[string]{Logger: quiet()})
				})
				timers.Add("a", 0)
				time.Sleep(3 * time.Hour)
				j.expect(t, test.want...)
				stop()
				wait()
				waitTimers()
			})
		})
	}
}

// A timer that only the handler sets is its result. With OneEntry an event ends the wait, and the next call
// says a new time, or none.
func TestTimerOfTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		j := newJournal()
		work := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[string](),
			workqueue.TypedRateLimitingQueueConfig[string]{OneEntry: true})
		results := []error{workqueue.RequeueAfter(time.Hour), workqueue.RequeueAfter(2 * time.Hour), workqueue.RequeueAfter(time.Hour), nil}
		wait := start(func() error {
			return workqueue.Run(ctx, work, func(_ context.Context, key string) error {
				j.note(key)
				time.Sleep(time.Second)
				if j.len() == 3 {
					work.Add(key) // An event while the key is at work.
				}
				err := results[0]
				results = results[1:]
				return err
			}, workqueue.RunOptions[string]{})
		})
		work.Add("a")
		time.Sleep(10 * time.Minute)
		work.Add("a")
		time.Sleep(24 * time.Hour)
		j.expect(t, "a at 0s", "a at 10m0s", "a at 2h10m1s", "a at 2h10m2s")
		stop()
		wait()
	})
}
