package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// These are the tests of what Run leaves behind, and in which state the queue.

// left waits for Run and returns in short what that has told OnStop, and the error in
// the end. An error that has lists has the same.
func (s *show) left() string {
	s.t.Helper()
	err := s.end()
	if s.stopped == nil {
		return fmt.Sprint("OnStop was not called: ", err)
	}
	if drained := (*workqueue.DrainError[string])(nil); errors.As(err, &drained) {
		if !reflect.DeepEqual(drained.Snapshot, *s.stopped) {
			s.t.Errorf("the error has %+v, and OnStop was told %+v", drained.Snapshot, *s.stopped)
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

// Drain knows what waited; without it, what has failed late is all that does.
func TestRunNamesWhatWaits(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		s.queue.Add("a")
		s.queue.Add("b")
		s.queue.AddAfter("c", time.Minute)
		s.run(runOptions{}, s.cut)
		synctest.Wait()
		s.stop()
		want := "queued[b] held[] waiting[] failed[a]: <nil>"
		if s.drains() {
			want = "queued[b] held[] waiting[c] failed[a]: <nil>"
		}
		if got := s.left(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		// Nothing more is known of what a worker has left behind.
		if got, want := s.stopped.Failed[0], (workqueue.ItemInfo[string]{Item: "a", State: workqueue.ItemFailed, Failures: 1}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// What waited is named beside a handler that has failed late even if that leaves
// nothing to drain; the failures are those that the log says. What is put off late
// is like what waited.
func TestRunNamesWhatWaitsBesideALateFailure(t *testing.T) {
	for name, tt := range map[string]struct {
		items string // of which a does this, and b fails
		reply reply
		left  string // of all that can be known
	}{
		"failure":                  {"a", fails, "queued[] held[] waiting[x w] failed[a]: <nil>"},
		"panic":                    {"a", panics, "queued[] held[] waiting[x w] failed[a]: <nil>"},
		"success":                  {"a", succeeds, "queued[] held[] waiting[x w]: <nil>"},
		"success beside a failure": {"a b", succeeds, "queued[] held[] waiting[x w] failed[b]: <nil>"},
		"put off":                  {"a", requeues(time.Hour), "queued[] held[] waiting[x w a]: <nil>"},
		"put off beside a failure": {"a b", requeues(time.Hour), "queued[] held[] waiting[x w a] failed[b]: <nil>"},
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
					s.stop()
					if synctest.Wait(); cut {
						s.queue.ShutDown()
					}
					got, want := s.left(), tt.left
					if !s.isOurs() && !(s.drains() && cut) {
						want = strings.Replace(want, "[x w ", "[", 1)
						want = strings.Replace(want, "[x w]", "[]", 1)
						want = strings.TrimPrefix(want, "queued[] held[] waiting[]: ")
					}
					if got != want {
						t.Errorf("got %s, want %s", got, want)
					}
					s.wantFailuresAsLogged()
					s.wantDropped()
				})
			})
		}
	}
}

// wantDropped looks at what a queue of ours knows of "x", which has failed and
// waited, and whether it has let go of it.
func (s *show) wantDropped() {
	s.t.Helper()
	q, ours := s.queue.(*workqueue.TypedRateLimiting[string])
	if !ours {
		return
	}
	if drains, dropped := q.Delaying().Drains(); drains+dropped != 0 {
		s.t.Errorf("%d drains seem to be under way, with %d items", drains, dropped)
	}
	if x := s.stopped.Waiting[0]; x.Failures != 1 || !x.Due.Equal(s.start.Add(time.Second)) {
		s.t.Errorf("got %+v, want that it is due after a second, with one failure", x)
	}
}

// wantFailuresAsLogged compares what OnStop was told of items that have failed late
// with the last line on each.
func (s *show) wantFailuresAsLogged() {
	s.t.Helper()
	for _, info := range slices.Concat(s.stopped.Queued, s.stopped.Waiting, s.stopped.Failed) {
		var last string
		for line := range strings.Lines(s.log.String()) {
			if strings.Contains(line, "the queue is shut down") && strings.Contains(line, "item="+info.Item+" ") {
				last = line
			}
		}
		if want := fmt.Sprintf("failures=%d ", info.Failures); last != "" && !strings.Contains(last, want) {
			s.t.Errorf("%s has %d failures, but the log says %s", info.Item, info.Failures, last)
		}
	}
}

// A failure of an item that was added again meanwhile counts too.
func TestRunNamesWhatIsQueuedWithItsLateFailure(t *testing.T) {
	onRunQueues(t, func(t *testing.T, s *show) {
		s.queue.Add("a")
		s.run(runOptions{}, func(context.Context, string) error { time.Sleep(5 * time.Second); return errFailed })
		time.Sleep(time.Second)
		s.queue.Add("a")
		s.stop()
		if got, want := s.left(), "queued[a] held[] waiting[]: <nil>"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		if n := s.stopped.Queued[0].Failures; n != 1 {
			t.Errorf("got %d failures, want 1", n)
		}
		s.wantFailuresAsLogged()
	})
}

// What Run leaves behind by name it does not leave in the queue: a drain after it
// has nothing to wait for, no matter who calls it.
func TestRunLeavesAQueueThatDrains(t *testing.T) {
	for name, drain := range map[string]func(s *show) error{
		"ShutDownWithDrain": func(s *show) error { s.queue.ShutDownWithDrain(); return nil },
		"Drain":             func(s *show) error { return drainOf(s)(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			onRunQueues(t, func(t *testing.T, s *show) {
				for _, item := range []string{"a", "b", "c"} {
					s.queue.Add(item)
				}
				s.run(runOptions{}, s.cut)
				synctest.Wait()
				s.stop()
				if got, want := s.left(), "queued[b c] held[] waiting[] failed[a]: <nil>"; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if err := drain(s); err != nil || s.queue.Len() != 0 { // The bubble reports it if it does not return.
					t.Errorf("got %v of the drain, and %d items are queued", err, s.queue.Len())
				}
			})
		})
	}
}

// What somebody else holds when the last worker has ended is left behind too, in
// his hands, and what is queued is taken out.
func TestRunNamesWhatOthersHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		s.run(runOptions{}, func(context.Context, string) error { time.Sleep(time.Second); return nil })
		s.queue.Add("a")
		synctest.Wait()
		s.queue.Add("b")
		s.queue.Add("c")
		s.queue.Get()
		s.stop()
		<-s.ended
		if got, want := leftIn(*s.stopped, s.result), "queued[c] held[b] waiting[]: <nil>"; got != want || s.queue.Len() != 0 || s.fifo.Held() != 1 {
			t.Errorf("got %s with %d items in the queue, %d held, want %s with 0, 1", got, s.queue.Len(), s.fifo.Held(), want)
		}
	})
}

// What fails when Run is about to shut the queue down, but is added again before that
// happens, is not named if it has succeeded or was given up then, and is named once
// if it has failed again.
func TestRunDrainOfWhatHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		s.queue = lateDrain{s.queue.(*workqueue.TypedRateLimiting[string])}
		calls := replies(fails, fails, fails, fails, succeeds, fails, permanently)
		s.run(runOptions{Grace: time.Minute, Drain: true}, func(ctx context.Context, item string) error {
			time.Sleep(time.Second)
			return calls(ctx, item)
		})
		synctest.Wait()
		s.stop()
		got := s.left()
		s.want("0:a 1:b 2:c 3:d 10:a 11:b 12:d 13:end")
		if want := "queued[] held[] waiting[] failed[c b]: context canceled"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := s.log.String(); strings.Contains(got, "retried") {
			t.Errorf("logged %q", got)
		}
	})
}

// lateDrain lets some time pass before the shutdown, and some Adds. Retries are
// dropped all the same.
type lateDrain struct {
	*workqueue.TypedRateLimiting[string]
}

func (q lateDrain) AddRateLimited(string) {}

func (q lateDrain) Drain(ctx context.Context) error {
	q.AddAll("a", "b", "c", "d")
	time.Sleep(10 * time.Second)
	q.AddAll("a", "b", "d")
	return q.TypedRateLimiting.Drain(ctx)
}

// The last failure counts on top of those that the limiter knows, also if ctx ends
// while the item is being added for a retry by a limiter that does not count.
func TestRunCountsTheLastFailure(t *testing.T) {
	for name, tt := range map[string]struct {
		hide func(*show) rateLimited
		stop time.Duration
		want int
	}{
		"the first":  {func(s *show) rateLimited { return s.queue }, 500 * time.Millisecond, 1},
		"the second": {func(s *show) rateLimited { return s.queue }, 2500 * time.Millisecond, 2},
		"at once":    {func(s *show) rateLimited { return stopping{s.queue, s} }, time.Minute, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, runQueues["all methods"])
			s.queue = tt.hide(s)
			s.queue.Add("a")
			s.run(runOptions{}, func(context.Context, string) error { time.Sleep(time.Second); return errFailed })
			time.AfterFunc(tt.stop, s.stop)
			if got, want := s.left(), "queued[] held[] waiting[] failed[a]: <nil>"; got != want {
				t.Fatalf("%s: got %s, want %s", name, got, want)
			}
			if n := s.stopped.Failed[0].Failures; n != tt.want {
				t.Errorf("%s: got %d failures, want %d", name, n, tt.want)
			}
			s.wantFailuresAsLogged()
		})
	}
}

// stopping ends ctx when an item is to be retried.
type stopping struct {
	rateLimited
	show *show
}

func (q stopping) AddRateLimited(string) { q.show.stop() }

// A delaying queue of another type does not say what it drops.
func TestRunNamesWhatItCanOnAForeignDelayingQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, func(q *workqueue.TypedRateLimiting[string]) rateLimited {
			return workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour),
				workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: struct{ rateLimited }{q}})
		})
		s.queue.AddAfter("w", time.Minute)
		s.queue.Add("a")
		s.run(runOptions{}, s.cut)
		synctest.Wait()
		s.stop()
		if got, want := s.left(), "queued[] held[] waiting[] failed[a]: <nil>"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// What somebody gets after the drain has looked is not named, and of the rest all
// is known that the drain knew.
func TestRunNamesOnlyWhatItTakesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		s.queue = robbed{s.queue.(*workqueue.TypedRateLimiting[string])}
		for _, item := range []string{"a", "b", "c", "d"} {
			s.queue.Add(item)
		}
		s.run(runOptions{}, func(context.Context, string) error { time.Sleep(time.Second); return nil })
		synctest.Wait()
		s.stop()
		if got, want := s.left(), "queued[c d] held[] waiting[]: <nil>"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		if c := s.stopped.Queued[0]; c.Position != 2 {
			t.Errorf("got the position %d of what was behind another one", c.Position)
		}
	})
}

// robbed loses an item after a drain.
type robbed struct {
	*workqueue.TypedRateLimiting[string]
}

func (q robbed) Drain(ctx context.Context) error {
	err := q.TypedRateLimiting.Drain(ctx)
	item, _ := q.Get()
	q.Done(item)
	return err
}

// An item that is declined at the end of ctx, and was added again before, is named
// once. Nothing is known of it.
func TestRunNamesOnceWhatItDeclines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShow(t, runQueues["all methods"])
		s.queue = lateAgain{s.queue.(*workqueue.TypedRateLimiting[string]), s}
		s.run(runOptions{}, replies())
		synctest.Wait()
		s.queue.Add("a")
		if got, want := s.left(), "queued[a] held[] waiting[]: <nil>"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		if a := s.stopped.Queued[0]; a.Age != 0 {
			t.Errorf("got %+v", a)
		}
	})
}

// lateAgain ends ctx while it hands an item out, which is added again.
type lateAgain struct {
	*workqueue.TypedRateLimiting[string]
	show *show
}

func (q lateAgain) GetContext(ctx context.Context) (string, error) {
	item, err := q.TypedRateLimiting.GetContext(ctx)
	q.Add(item)
	q.show.stop()
	return item, err
}

// The error of a drain of somebody's own comes with what is left all the same, and
// the queue is shut down after a drain that has not.
func TestRunNamesWhatIsLeftByADrainThatFails(t *testing.T) {
	for _, want := range []error{errFailed, nil} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, runQueues["all methods"])
			s.queue = noDrain{s.queue, want}
			s.queue.Add("a")
			s.queue.Add("b")
			s.run(runOptions{}, s.cut)
			synctest.Wait()
			s.stop()
			if got, want := s.left(), fmt.Sprint("queued[b] held[] waiting[] failed[a]: ", want); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if want != nil && !errors.Is(s.result, want) {
				t.Errorf("got %v, want %v", s.result, want)
			}
			info := s.stopped.Queued[0]
			if info.Age != 0 || info.Position != 0 {
				t.Errorf("got %+v, of which nothing is known", info)
			}
		})
	}
}

// noDrain waits for its context and does nothing else.
type noDrain struct {
	rateLimited
	err error
}

func (q noDrain) Drain(ctx context.Context) error { <-ctx.Done(); return q.err }

// A handler that ends with ctx has failed, although one that was overtaken and
// returns the same has not.
func TestRunUnderCancelOnReAddFailsWithItsContext(t *testing.T) {
	onReAdd(t, runOptions{}, func(s *show) func(context.Context, string) error { return s.cut }, func(s *show) {
		synctest.Wait()
		s.stop()
		if got, want := s.left(), "queued[] held[] waiting[] failed[a]: <nil>"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// After a shutdown by somebody else, OnStop was not told what others hold, and a Run with
// Drain returned nil.
func TestRunNamesWhatOthersHoldAfterTheirShutdown(t *testing.T) {
	for _, options := range []runOptions{{}, {Drain: true, Grace: time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			s := newShow(t, runQueues["all methods"])
			s.fifo.Add("theirs")
			s.fifo.Get()
			s.queue.Add("a")
			s.run(options, func(context.Context, string) error { s.queue.ShutDown(); return nil })
			<-s.ended
			if err := s.result; errors.Is(err, workqueue.ErrNotDrained) != options.Drain || errors.Is(err, workqueue.ErrShutDown) != options.Drain {
				t.Errorf("%+v: got %v from Run", options, err)
			}
			if got := names(s.stopped.InFlight); got != "theirs" || s.stopped.InFlightTotal != 1 {
				t.Errorf("%+v: in flight: %d, %s, want theirs", options, s.stopped.InFlightTotal, got)
			}
			s.fifo.Done("theirs")
		})
	}
}
