package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
)

// A drainer is any of the three queues.
type drainer interface {
	workqueue.TypedInterface[string]
	Drain(ctx context.Context) error
	Snapshot(limit int) workqueue.Snapshot[string]
}

// onEachLayer runs the test on the three queues, and on one above a queue that
// has no method beyond the interface.
func onEachLayer(t *testing.T, test func(t *testing.T, q drainer)) {
	for name, open := range map[string]func() drainer{
		"typed":    func() drainer { return workqueue.NewTyped[string]() },
		"delaying": func() drainer { return newDelaying().(drainer) },
		"storage": func() drainer {
			return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: workqueue.DefaultQueue[string]()})
		},
		"rate limiting": func() drainer {
			return workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{})
		},
		"above a foreign queue": func() drainer {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: bare{workqueue.NewTyped[string]()}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, open()) })
		})
	}
}

// A bare queue hides what its queue can do beyond the interface.
type bare struct {
	workqueue.TypedInterface[string]
}

func TestDrainEndsWithTheLastDone(t *testing.T) {
	onEachLayer(t, func(t *testing.T, q drainer) {
		q.Add("a")
		q.Add("b")
		q.Get()
		q.Add("a")
		results := make(chan error, 3)
		for range 3 {
			go func() { results <- q.Drain(t.Context()) }()
		}
		for _, item := range []string{"a", "b", "a"} {
			synctest.Wait()
			if len(results) > 0 {
				t.Fatalf("a drain has ended before %q was done: %v", item, <-results)
			}
			q.Add("c") // Ignored from the shutdown on.
			q.Done(item)
			q.Get()
		}
		for range 3 {
			if err := <-results; err != nil {
				t.Errorf("got %v of a drain that was complete", err)
			}
		}
		if err := q.Drain(t.Context()); err != nil {
			t.Errorf("got %v of a drain of a drained queue", err)
		}
	})
}

// A context that is done is no reason to fail where nothing is left to do.
func TestDrainOfAnEmptyQueueAfterItsDeadline(t *testing.T) {
	for _, q := range []drainer{workqueue.NewTyped[string](), newDelaying().(drainer)} {
		if err := q.Drain(canceled()); err != nil {
			t.Errorf("%T: got %v", q, err)
		}
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestDrainThatEndsEarlySaysWhatIsLeft(t *testing.T) {
	onEachLayer(t, func(t *testing.T, q drainer) {
		for _, item := range []string{"a", "b", "c", "d", "e"} {
			q.Add(item)
		}
		q.Get()
		q.Get()
		if d, ok := q.(workqueue.TypedDelayingInterface[string]); ok {
			d.AddAfter("w", time.Hour)
			d.AddAfter("v", time.Minute)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := q.Drain(ctx)
		e, ok := err.(*workqueue.DrainError[string])
		if !ok || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want a DrainError for a deadline", err)
		}
		waiting := 0
		if _, ok := q.(workqueue.TypedDelayingInterface[string]); ok {
			waiting = 2
		}
		if e.QueuedTotal != 3 || e.WaitingTotal != waiting {
			t.Errorf("%d queued and %d waiting are left, want 3 and %d", e.QueuedTotal, e.WaitingTotal, waiting)
		}
		if got, want := names(e.Waiting), "v w"; waiting > 0 && got != want {
			t.Errorf("left waiting: %s, want %s", got, want)
		}
		if e.InFlightTotal == 0 && len(e.Queued) == 0 {
			return // It could ask for no more than Len.
		}
		if got, want := names(e.Queued)+"; "+names(e.InFlight), "c d e; a b"; got != want {
			t.Errorf("left queued and in flight: %s, want %s", got, want)
		}
		if _, ok := q.(workqueue.TypedRateLimitingInterface[string]); ok && e.InFlight[0].Failures != 3 {
			t.Errorf("%d failures of the first, want the 3 that the limiter knows", e.InFlight[0].Failures)
		}
		if !q.ShuttingDown() {
			t.Error("the queue is not shut down")
		}
		if item, shutdown := q.Get(); item != "c" || shutdown {
			t.Errorf("got %q, %v: what is left can still be worked off", item, shutdown)
		}
	})
}

func names(infos []workqueue.ItemInfo[string]) string {
	var names []string
	for _, info := range infos {
		names = append(names, info.Item)
	}
	return strings.Join(names, " ")
}

func TestShutDownEndsDrains(t *testing.T) {
	onEachLayer(t, func(t *testing.T, q drainer) {
		q.Add("a")
		q.Get()
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- q.Drain(t.Context()) }()
		}
		synctest.Wait()
		q.ShutDown()
		for range 2 {
			// One that was drained by ShutDownWithDrain cannot tell.
			if err := <-results; !errors.Is(err, workqueue.ErrShutDown) && q.Snapshot(1).InFlightTotal > 0 {
				t.Errorf("got %v, want %v", err, workqueue.ErrShutDown)
			}
		}
	})
}

// Each of several drains knows what waited, whichever came first, also one
// that comes when the first has ended. The last takes it away.
func TestEachDrainSaysWhatWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
		q.Add("a")
		q.AddAfter("w", time.Hour)
		q.AddAfter("v", time.Minute)
		results := make(chan error, 3)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			go func() { results <- q.Drain(ctx) }()
			time.Sleep(2 * time.Second)
		}
		for range 3 {
			e := (<-results).(*workqueue.DrainError[string])
			if names(e.Waiting) != "v w" || e.WaitingTotal != 2 {
				t.Errorf("waited: %d, %q, want v w", e.WaitingTotal, names(e.Waiting))
			}
			e.Waiting[0].Item = "of this drain alone"
		}
		if drains, dropped := q.Drains(); drains != 0 || dropped != 0 {
			t.Errorf("%d drains are counted, and %d items kept, want none", drains, dropped)
		}
	})
}

// A list of what waits takes time in proportion to it, with everybody at the
// lock if the shutdown makes it. So the shutdown makes none: by the time that
// the queue below is drained, hardly anything has been allocated, and there is
// only a list when that has failed.
func TestDrainListsWhatWaitedOnlyForAnError(t *testing.T) {
	if raceEnabled {
		t.Skip("the figures mean nothing under the race detector")
	}
	const waiting = 10_000
	for want, err := range map[int]error{
		0:       nil,
		waiting: &workqueue.DrainError[int]{Err: workqueue.ErrShutDown},
	} {
		below := &drainedBelow{TypedInterface: workqueue.NewTyped[int](), err: err}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[int]{Queue: below})
		for i := range waiting {
			q.AddAfter(i, time.Hour+time.Duration(i*7919%waiting))
		}
		before := allocatedSoFar()
		err := q.Drain(t.Context())
		if in, all := below.allocated-before, allocatedSoFar()-before; in > waiting || err == nil && all > waiting {
			t.Errorf("%d bytes are allocated until the drain of the queue below, %d in all, with the result %v", in, all, err)
		}
		listed := 0
		if e, ok := err.(*workqueue.DrainError[int]); ok {
			listed = len(e.Waiting)
		}
		if listed != want {
			t.Errorf("%d items are listed, want %d", listed, want)
		}
	}
}

// A drainedBelow says how much had been allocated when it was drained.
type drainedBelow struct {
	workqueue.TypedInterface[int]
	err       error
	allocated uint64
}

func (q *drainedBelow) Drain(context.Context) error {
	q.allocated = allocatedSoFar()
	q.ShutDown()
	return q.err
}

// allocatedSoFar returns how many bytes have been allocated since the program began.
func allocatedSoFar() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}

// What is held counts beside what is stored.
func TestDrainOfAStorage(t *testing.T) {
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: workqueue.DefaultQueue[string]()})
	q.Add("a")
	q.Add("b")
	q.Get()
	err := q.Drain(canceled())
	want := "workqueue: drain left 1 queued, 1 in flight (a), 0 waiting: context canceled"
	if fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestDrainErrorNamesTheLeast(t *testing.T) {
	err := &workqueue.DrainError[string]{Err: workqueue.ErrShutDown, Snapshot: workqueue.Snapshot[string]{
		InFlightTotal: 1, InFlight: []workqueue.ItemInfo[string]{{Item: "a", Age: 1}}, FailedTotal: 1,
	}}
	const want = "workqueue: drain left 0 queued, 1 in flight (a for 1ns), 0 waiting, 1 failed: workqueue: queue is shut down"
	if err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestDrainErrorInWords(t *testing.T) {
	clock := testingclock.NewFakeClock(epoch)
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: &recorder{}, Clock: clock})
	for i := range 5 {
		q.Add(fmt.Sprint("item", i))
		q.Get()
		clock.Step(time.Second)
	}
	q.Add("queued")
	err := q.Drain(canceled())
	want := "workqueue: drain left 1 queued, 5 in flight (item0 for 5s, item1 for 4s, item2 for 3s, ...), 0 waiting: context canceled"
	if err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if s := err.(fmt.Stringer).String(); s != want {
		t.Errorf("String: got %v", s)
	}
	// What is held is not in its order any more.
	q.Done("item0")
	q.Done("item1")
	want = "workqueue: drain left 1 queued, 3 in flight (item2 for 3s, item3 for 2s, item4 for 1s), 0 waiting: context canceled"
	if err := q.Drain(canceled()); fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	q.Done("item2")
	q.Done("item3")
	want = "workqueue: drain left 1 queued, 1 in flight (item4 for 1s), 0 waiting: context canceled"
	if err := q.Drain(canceled()); fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	q.Done("item4")
	want = "workqueue: drain left 1 queued, 0 in flight, 0 waiting: context canceled"
	if err := q.Drain(canceled()); fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
