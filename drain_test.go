package workqueue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
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

// onEachLayer runs the test on the three queues, and on a queue above a foreign queue that has only
// the methods of the interface.
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

// A bare queue hides the methods of its queue beyond the interface.
type bare struct {
	workqueue.TypedInterface[string]
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
		start := time.Now()
		err := q.Drain(ctx)
		if took := time.Since(start); took != time.Second {
			t.Errorf("ended after %v, want the deadline", took)
		}
		e, ok := err.(*workqueue.DrainError[string])
		if !ok || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want a DrainError for a deadline", err)
		}
		waiting := 0
		if _, ok := q.(workqueue.TypedDelayingInterface[string]); ok {
			waiting = 2
		}
		if e.Left.QueuedTotal != 3 || e.Left.WaitingTotal != waiting {
			t.Errorf("%d queued and %d waiting are left, want 3 and %d", e.Left.QueuedTotal, e.Left.WaitingTotal, waiting)
		}
		if got, want := names(e.Left.Waiting), "v w"; waiting > 0 && got != want {
			t.Errorf("left waiting: %s, want %s", got, want)
		}
		if e.Left.InFlightTotal == 0 && len(e.Left.Queued) == 0 {
			return // The layer above knows only a Len.
		}
		if got, want := names(e.Left.Queued)+"; "+names(e.Left.InFlight), "c d e; a b"; got != want {
			t.Errorf("left queued and in flight: %s, want %s", got, want)
		}
		if _, ok := q.(workqueue.TypedRateLimitingInterface[string]); ok && e.Left.InFlight[0].Failures != 3 {
			t.Errorf("%d failures of the first, want the 3 that the limiter knows", e.Left.InFlight[0].Failures)
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

// Each of several drains names the items that waited, in any order of the drains, also a drain that
// begins after the first has ended. The last drain drops the list.
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
			if names(e.Left.Waiting) != "v w" || e.Left.WaitingTotal != 2 {
				t.Errorf("waited: %d, %q, want v w", e.Left.WaitingTotal, names(e.Left.Waiting))
			}
			e.Left.Waiting[0].Item = "of this drain alone"
		}
		if drains, dropped := q.Drains(); drains != 0 || dropped != 0 {
			t.Errorf("%d drains are counted, and %d items kept, want none", drains, dropped)
		}
	})
}

// A higher priority that a firm wait got by an Add, while a worker held the item, was missing in the error: the
// queue forgot the priority at Done, and the list is made later.
func TestDrainNamesThePriorityOfAFirmWaitOfAHeldItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{})
		q.AddAll("a", "held")
		q.Get()
		q.Get()
		q.AddWith(workqueue.AddOptions{After: time.Hour, Firm: true}, "a")
		q.AddWith(workqueue.AddOptions{Priority: prio(7)}, "a")
		time.AfterFunc(time.Second, func() { q.Done("a") }) // After the shutdown.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var left *workqueue.DrainError[string]
		if err := q.Drain(ctx); !errors.As(err, &left) || names(left.Left.Waiting) != "a" || left.Left.Waiting[0].Priority != 7 {
			t.Errorf("got %v, want a to wait with the priority 7", err)
		}
	})
}

// To list the waiting items takes time in proportion to their number, while callers wait for the
// lock. So the shutdown makes no list: hardly anything was allocated when the queue below is
// drained, and a list is made only if the drain has failed.
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
			listed = len(e.Left.Waiting)
		}
		if listed != want {
			t.Errorf("%d items are listed, want %d", listed, want)
		}
	}
}

// A drainedBelow notes how many bytes had been allocated when it was drained.
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

func TestDrainErrorNamesTheLeast(t *testing.T) {
	err := &workqueue.DrainError[string]{Err: workqueue.ErrShutDown, Left: workqueue.Snapshot[string]{
		InFlight: []workqueue.ItemInfo[string]{{Item: "a", Age: 1}}, Totals: workqueue.Totals{InFlightTotal: 1, FailedTotal: 1},
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
	// The error has no methods of a Snapshot. JSON leaves the inner error out.
	_, prints := err.(fmt.Stringer)
	if text, _ := json.Marshal(err); prints || !strings.HasPrefix(string(text), `{"left":{"queued":[{"item":"queued"`) {
		t.Errorf("has String: %v, JSON %s", prints, text)
	}
	// Held items have no order any more.
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

// An ownDrain has a function in place of its drain.
type ownDrain struct {
	bare
	drain func(q bare)
}

func (q ownDrain) ShutDownWithDrain() { q.drain(q.bare) }

// A hasty queue drains as client-go's does: until no item is held, although items are queued, or
// until a ShutDown.
type hasty struct {
	bare
	ended  atomic.Bool
	drains int
}

func (q *hasty) ShutDown() {
	q.bare.ShutDown()
	q.ended.Store(true)
}

func (q *hasty) ShutDownWithDrain() {
	q.drains++
	q.bare.ShutDown()
	q.ended.Store(false)
	for !q.ended.Load() && q.TypedInterface.(drainer).Snapshot(0).InFlightTotal > 0 {
		time.Sleep(time.Millisecond)
	}
}

// A drain of the queue below that returns while items are queued does not end our drain, whether
// the last item is then queued or held. Each wait of the loop sees the end of the drain below.
// After an end for another reason than the end of the work, nothing is drained again: that would
// show within 16 ms.
func TestDrainOfAQueueThatReturnsEarly(t *testing.T) {
	ends := map[string]struct {
		end  func(q *workqueue.TypedDelaying[string], cancel func())
		want error
	}{
		"done":     {func(*workqueue.TypedDelaying[string], func()) {}, nil},
		"cancel":   {func(_ *workqueue.TypedDelaying[string], cancel func()) { cancel() }, context.Canceled},
		"ShutDown": {func(q *workqueue.TypedDelaying[string], _ func()) { q.ShutDown() }, workqueue.ErrShutDown},
	}
	waits := []struct {
		name           string
		steps          func(q *workqueue.TypedDelaying[string])
		queued, drains int
	}{
		{"one is held", func(q *workqueue.TypedDelaying[string]) {}, 1, 1},
		{"all are held", func(q *workqueue.TypedDelaying[string]) { q.Get() }, 0, 1},
		{"one is queued", func(q *workqueue.TypedDelaying[string]) { q.Done("a") }, 1, 1},
		{"the last is held", func(q *workqueue.TypedDelaying[string]) {
			q.Done("a")
			time.Sleep(time.Second)
			q.Get()
		}, 0, 2},
	}
	for _, wait := range waits {
		for name, end := range ends {
			t.Run(wait.name+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					below := &hasty{bare: bare{workqueue.NewTyped[string]()}}
					q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: below})
					q.Add("a")
					q.Add("b")
					q.Get()
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					result := make(chan error, 1)
					go func() { result <- q.Drain(ctx) }()
					time.Sleep(time.Second)
					wait.steps(q)
					time.Sleep(time.Second)
					if len(result) > 0 {
						t.Fatalf("got %v from a drain that is not done", <-result)
					}
					end.end(q, cancel)
					time.Sleep(time.Second)
					if end.want != nil {
						e, ok := (<-result).(*workqueue.DrainError[string])
						if !ok || !errors.Is(e, end.want) || e.Left.QueuedTotal != wait.queued || below.drains != wait.drains {
							t.Errorf("got %v after %d drains, want %v with %d queued after %d", e, below.drains, end.want, wait.queued, wait.drains)
						}
						return
					}
					done := time.Now()
					q.Done("a")
					for q.Len() > 0 {
						q.Get()
					}
					q.Done("b")
					if err := <-result; err != nil || time.Since(done) > 20*time.Millisecond {
						t.Errorf("got %v of a drain that was complete, %v later", err, time.Since(done))
					}
				})
			})
		}
	}
}

// A second ShutDown has no effect on later drains.
func TestShutDownAgainAfterADrainThatItHasEnded(t *testing.T) {
	for name, open := range map[string]func() drainer{
		"delaying": func() drainer {
			return workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: bare{workqueue.NewTyped[string]()}})
		},
		"rate limiting": func() drainer {
			return workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{
				DelayingQueue: bareDelaying{workqueue.NewTypedDelayingQueue[string]()},
			})
		},
	} {
		t.Run(name, func(t *testing.T) { endDrainsTwice(t, open) })
	}
}

func endDrainsTwice(t *testing.T, open func() drainer) {
	synctest.Test(t, func(t *testing.T) {
		q := open()
		q.Add("a")
		q.Get()
		for range 2 {
			result := make(chan error, 1)
			go func() { result <- q.Drain(t.Context()) }()
			time.Sleep(time.Second)
			if len(result) > 0 {
				t.Fatalf("got %v from a drain that nothing has ended", <-result)
			}
			q.ShutDown()
			q.ShutDown()
			if err := <-result; !errors.Is(err, workqueue.ErrShutDown) {
				t.Errorf("got %v, want %v", err, workqueue.ErrShutDown)
			}
		}
	})
}

// A drain of a queue below that ignores ShutDown kept our Drain for ever.
func TestDrainEndsWithItsContextAlthoughTheQueueBelowGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		defer close(letGo)
		below := ownDrain{bare{workqueue.NewTyped[string]()}, func(q bare) { q.ShutDown(); <-letGo }}
		q := workqueue.NewTypedRateLimiting(constant(0), workqueue.TypedRateLimitingQueueConfig[string]{Queue: below})
		q.Add("a")
		q.Get()
		for end, want := range map[string]error{"ctx": context.DeadlineExceeded, "ShutDown": workqueue.ErrShutDown} {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if end == "ShutDown" {
				ctx = t.Context()
				time.AfterFunc(time.Second, q.ShutDown)
			}
			err := q.Drain(ctx)
			if took := time.Since(start); !errors.Is(err, want) || took > 1200*time.Millisecond {
				t.Errorf("ended by %s after a second: got %v after %v", end, err, took)
			}
		}
	})
}

// A drain that begins while the only other drain ends starts anew, and does not end with the other. The queue
// below takes a second to return from a drain, or in the last round only from the first drain.
func TestDrainBesideTheEndOfAnother(t *testing.T) {
	for i, later := range []time.Duration{50 * time.Millisecond, time.Second / 2, 5 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			var drains atomic.Int32
			below := ownDrain{bare{workqueue.NewTyped[string]()}, func(q bare) {
				first := drains.Add(1) == 1
				q.ShutDownWithDrain()
				if first || i < 2 {
					time.Sleep(time.Second)
				}
			}}
			q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: below})
			q.Add("a")
			q.Get()
			first, second := make(chan error, 1), make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { first <- q.Drain(ctx) }()
			time.Sleep(time.Second)
			cancel()
			time.Sleep(later) // It is shut down, or lingers.
			go func() { second <- q.Drain(t.Context()) }()
			time.Sleep(time.Minute)
			if err := <-first; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v from the first", err)
			}
			if len(second) > 0 {
				t.Fatalf("got %v from the second, while an item is held", <-second)
			}
			q.Done("a")
			if err := <-second; err != nil {
				t.Errorf("got %v from the second", err)
			}
		})
	}
}

// A puppet has functions in place of two methods.
type puppet struct {
	bare
	shutDown     func(q bare)
	shuttingDown func(q bare) bool
}

func (q puppet) ShutDown()          { q.shutDown(q.bare) }
func (q puppet) ShuttingDown() bool { return q.shuttingDown(q.bare) }

// The queue of controller-runtime panics for a second shutdown, and that panic is dropped. A panic
// of a queue that is not shut down afterwards reaches the caller of Drain.
func TestDrainAboveAQueueWhoseShutDownPanics(t *testing.T) {
	for name, row := range map[string]struct {
		below puppet
		want  any
	}{
		"a second shutdown panics": {puppet{
			shutDown: func(bare) { panic("twice") }, shuttingDown: func(q bare) bool { return q.ShuttingDown() },
		}, nil},
		"a panic in place of the shutdown": {puppet{
			shutDown: func(bare) { panic("broken") }, shuttingDown: func(bare) bool { return false },
		}, "broken"},
		"no shutdown and no panic": {puppet{
			shutDown: func(bare) {}, shuttingDown: func(bare) bool { return false },
		}, nil},
	} {
		row.below.bare = bare{workqueue.NewTyped[string]()}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: row.below})
		var err error
		if got := goes(func() { err = q.Drain(t.Context()) }); got != row.want || err != nil {
			t.Errorf("%s: got the panic %v and %v, want %v", name, got, err, row.want)
		}
	}
}

// In client-go, only the first ShutDown of a delaying queue gets to the queue below,
// and the drain hangs until the last Done.
func TestSecondShutDownEndsADrain(t *testing.T) {
	timeline(t, newDelaying,
		step{"add a", ""}, step{"get", "a"}, step{"shutdown", ""}, step{"d: drain", "blocks"},
		step{"shutdown", ""}, step{"d: returns", ""}, step{"done a", ""})
}
