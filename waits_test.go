package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// A waiter is one call of a wait, on a goroutine of its own.
type waiter struct {
	cancel context.CancelFunc
	ended  chan error
	over   bool
	err    error
}

func startWait(wait func(ctx context.Context) error) *waiter {
	ctx, cancel := context.WithCancel(context.Background())
	w := &waiter{cancel: cancel, ended: make(chan error, 1)}
	go func() { w.ended <- wait(ctx) }()
	synctest.Wait()
	return w
}

// state returns whether the call has returned, when all goroutines wait.
func (w *waiter) state() string {
	synctest.Wait()
	if !w.over {
		select {
		case w.err = <-w.ended:
			w.over = true
		default:
			return "waits"
		}
	}
	return fmt.Sprint(w.err)
}

func (w *waiter) want(t *testing.T, when, want string) {
	t.Helper()
	if got := w.state(); got != want {
		t.Errorf("%s: got %s, want %s", when, got, want)
	}
}

// waitQueues are all queues that can be waited for.
func waitQueues(t *testing.T, test func(t *testing.T, q workQueue)) {
	for name, open := range map[string]func() workQueue{
		"FIFO": func() workQueue { return workqueue.NewTyped[string]() },
		"storage": func() workQueue {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: workqueue.DefaultQueue[string]()})
		},
		"ordered": func() workQueue {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Order: workqueue.Order[string]{OldestEvery: 3}})
		},
		"delaying": func() workQueue { return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{}) },
		"rate limiting": func() workQueue {
			return workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := open()
				defer q.ShutDown()
				test(t, q)
			})
		})
	}
}

type workQueue interface {
	reAdded
	WaitIdle(ctx context.Context) error
	Barrier(ctx context.Context) error
	RemoveFunc(del func(item string) bool) int
}

// The error of a wait named items, which may be secret or large, and lived as long as the error.
func TestErrorOfAWaitHoldsNoItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{KeepTimes: true})
		defer q.ShutDown()
		q.AddAll("a", "b")
		q.AddAfter("c", time.Hour)
		q.Get()
		time.Sleep(time.Second)
		const want = "workqueue: the queue is not empty: 1 queued, 1 in flight, 1 waiting: context canceled"
		if err := q.WaitEmpty(canceled()); fmt.Sprint(err) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	})
}

// A moment between a Done and the next Add counts, although the goroutine of WaitIdle runs later.
func TestWaitIdleSeesAMoment(t *testing.T) {
	waitQueues(t, func(t *testing.T, q workQueue) {
		q.Add("a")
		q.TryGet()
		w := startWait(q.WaitIdle)
		w.want(t, "held", "waits")
		q.Done("a")
		q.Add("b")
		w.want(t, "another is queued", "<nil>")
	})
}

func TestWaitEmpty(t *testing.T) {
	for name, config := range map[string]workqueue.TypedRateLimitingQueueConfig[string]{
		"own":                    {},
		"a queue around a Typed": {Queue: struct{ *workqueue.Typed[string] }{workqueue.NewTyped[string]()}},
		"OneEntry":               {OneEntry: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := workqueue.NewTypedRateLimiting(constant(time.Minute), config)
				defer q.ShutDown()
				startWait(q.WaitEmpty).want(t, "empty", "<nil>")
				q.AddRateLimited("a")
				q.Add("b")
				w, late := startWait(q.WaitEmpty), startWait(q.WaitEmpty)
				w.want(t, "queued", "waits")
				q.TryGet()
				q.Done("b")
				w.want(t, "waiting", "waits")
				late.cancel()
				late.want(t, "canceled", "workqueue: the queue is not empty: 0 queued, 0 in flight, 1 waiting: context canceled")
				time.Sleep(time.Minute)
				w.want(t, "due", "waits")
				q.TryGet()
				late = startWait(q.WaitEmpty)
				late.cancel()
				late.want(t, "canceled while the last one is held", "workqueue: the queue is not empty: 0 queued, 1 in flight, 0 waiting: context canceled")
				q.AddAfter("c", time.Hour)
				q.Done("a")
				w.want(t, "another waits", "waits")
				q.Remove("c")
				w.want(t, "removed", "<nil>")
				q.AddAfter("d", time.Hour)
				w = startWait(q.WaitEmpty)
				w.want(t, "waiting", "waits")
				q.ShutDown()
				w.want(t, "dropped", "<nil>")
			})
		})
	}
}

// The wait of an item ends in the step in which the item is queued: there is no moment at which
// the queue is empty. A WaitEmpty that has seen the FIFO idle looks at both layers once more.
func TestWaitEmptySeesAnItemThatBecomesDue(t *testing.T) {
	for range rounds(200) {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
			defer q.ShutDown()
			q.Add("a")
			q.Get()
			w := startWait(q.WaitEmpty)
			q.AddAfter("b", time.Hour)
			q.Done("a") // Ends the wait for the FIFO.
			q.Reschedule("b", 0)
			w.want(t, "b is queued", "waits")
			q.Get()
			q.Done("b")
			w.want(t, "b is done", "<nil>")
		})
	}
}

// A Queue has items that differ from themselves, and the FIFO has no record of them. No Done can
// name such an item, so no barrier waits for it.
func TestBarrierWithoutWhatNoDoneCanName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[float64]{Queue: workqueue.DefaultQueue[float64]()})
		defer q.ShutDown()
		q.AddAll(math.NaN(), 1)
		w := startWait(q.Barrier)
		q.Get()
		q.Get()
		w.want(t, "1 is held", "waits")
		q.Done(1)
		w.want(t, "1 is done", "<nil>")
	})
}

func TestBarrierEndsWithItsContext(t *testing.T) {
	waitQueues(t, func(t *testing.T, q workQueue) {
		q.Add("a")
		first := startWait(q.Barrier)
		first.want(t, "raised", "waits")
		q.Add("b")
		second := startWait(q.Barrier)
		second.want(t, "raised", "waits")
		q.ShutDown() // Not the end of a barrier.
		first.cancel()
		first.want(t, "canceled", "workqueue: 1 of the items before the barrier are left: 2 queued, 0 in flight, 0 waiting: context canceled")
		if e := (*workqueue.WaitError)(nil); !errors.As(first.err, &e) || e.Left != (workqueue.Totals{QueuedTotal: 2}) || e.Err != context.Canceled {
			t.Errorf("got the error %#v, want a WaitError with the totals", first.err)
		}
		second.cancel()
		if got := second.state(); !strings.HasPrefix(got, "workqueue: 2 of the items before the barrier are left: ") || !errors.Is(second.err, context.Canceled) {
			t.Errorf("got %s", got)
		}
	})
}

// Run takes out what its end leaves, and nobody does it any more.
func TestBarrierIsToldWhatARunDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedRateLimiting(constant(time.Second), workqueue.TypedRateLimitingQueueConfig[string]{})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		q.Add("held")
		go func() {
			ended <- workqueue.Run(ctx, q, func(context.Context, string) error { time.Sleep(time.Minute); return nil },
				workqueue.RunOptions[string]{Grace: time.Hour})
		}()
		synctest.Wait()
		held := startWait(q.Barrier)
		held.want(t, "raised", "waits")
		q.Add("queued")
		queued := startWait(q.Barrier)
		queued.want(t, "raised", "waits")
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		held.want(t, "handled", "<nil>")
		queued.want(t, "dropped", "workqueue: an item before the barrier was dropped: workqueue: queue is shut down")
		if !errors.Is(queued.err, workqueue.ErrShutDown) {
			t.Errorf("got %v", queued.err)
		}
	})
}

// After 65,535 barriers the marks of the records start again.
func TestBarriersWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTyped[int]()
		defer q.ShutDown()
		q.SkipMarks(math.MaxUint16 - 1000)
		q.Add(-1)
		q.TryGet()
		oldest := startWait(q.Barrier)
		oldest.want(t, "raised", "waits")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range 3000 {
			q.Add(i)
			if err := q.Barrier(ctx); !errors.Is(err, context.Canceled) {
				t.Fatalf("barrier %d: %v", i, err)
			}
			if i%2 == 0 {
				q.Remove(i)
			}
			if i%501 == 0 {
				checkInvariants(t, i, q)
			}
		}
		last := startWait(q.Barrier)
		last.want(t, "raised", "waits")
		oldest.want(t, "nothing is done", "waits")
		q.Done(-1)
		oldest.want(t, "done", "<nil>")
		for i := range 1500 {
			if i%500 == 0 {
				last.want(t, "some are left", "waits")
			}
			q.Done(first(q.TryGet()))
		}
		last.want(t, "all are done", "<nil>")
	})
}

// Each write of a worker before its Done is seen after the return of a wait for the Done. The race
// detector tells otherwise.
func TestWaitsSeeTheWritesOfTheWorkers(t *testing.T) {
	for name, wait := range map[string]func(ctx context.Context, q *workqueue.TypedDelaying[int]) error{
		"WaitIdle":  func(ctx context.Context, q *workqueue.TypedDelaying[int]) error { return q.WaitIdle(ctx) },
		"WaitEmpty": func(ctx context.Context, q *workqueue.TypedDelaying[int]) error { return q.WaitEmpty(ctx) },
		"Barrier":   func(ctx context.Context, q *workqueue.TypedDelaying[int]) error { return q.Barrier(ctx) },
		"Drain":     func(ctx context.Context, q *workqueue.TypedDelaying[int]) error { return q.Drain(ctx) },
	} {
		const items = 200
		for range 20 {
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{})
			var written [items]bool
			for i := range items {
				q.Add(i)
			}
			for range 3 {
				go func() {
					for item, shutdown := q.Get(); !shutdown; item, shutdown = q.Get() {
						written[item] = true
						q.Done(item)
					}
				}()
			}
			if err := wait(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			for i := range written {
				if !written[i] {
					t.Fatalf("%s: %d is not done", name, i)
				}
			}
			q.ShutDown()
		}
	}
}

// WaitEmpty returned while the goroutine was about to add a due item to a queue below that is foreign code.
func TestWaitEmptyWaitsForAnItemOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrive := make(chan struct{})
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: slowBelow{workqueue.NewTyped[string](), arrive}})
		defer q.ShutDown()
		q.Add("a")
		q.Get()
		w := startWait(q.WaitEmpty)
		q.AddAfter("slow", time.Second)
		time.Sleep(2 * time.Second)
		q.Done("a")
		w.want(t, "an item is on its way", "waits")
		close(arrive)
		w.want(t, "the item is queued", "waits")
		q.Get()
		q.Done("slow")
		w.want(t, "the item is done", "<nil>")
	})
}

// A slowBelow takes its time for an item.
type slowBelow struct {
	*workqueue.Typed[string]
	arrive chan struct{}
}

func (s slowBelow) Add(item string) {
	if item == "slow" {
		<-s.arrive
	}
	s.Typed.Add(item)
}

// WaitEmpty does not ask a foreign queue again and again that cannot wait.
func TestWaitEmptyReturnsTheErrorOfAForeignQueue(t *testing.T) {
	q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: unwaitable{workqueue.NewTyped[string]()}})
	defer q.ShutDown()
	q.Add("a")
	if err := q.WaitEmpty(t.Context()); err != errors.ErrUnsupported {
		t.Errorf("got %v", err)
	}
}

// An unwaitable queue cannot wait.
type unwaitable struct{ *workqueue.Typed[string] }

func (unwaitable) WaitIdle(context.Context) error { return errors.ErrUnsupported }
