package workqueue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// A drain that has left nothing ends the queue below by a ShutDown too: the
// goroutine of client-go's delaying queue lingers for up to 10 s without one.
func TestDrainShutsDownTheQueueBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &hasty{bare: bare{workqueue.NewTyped[string]()}}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: below})
		if err := q.Drain(t.Context()); err != nil || !below.ended.Load() {
			t.Errorf("got %v, the queue below was shut down: %v", err, below.ended.Load())
		}
	})
}

// A lingering queue takes a second to return from its drain.
type lingering struct {
	bare
	returned bool
}

func (q *lingering) ShutDownWithDrain() {
	q.bare.ShutDownWithDrain()
	time.Sleep(time.Second)
	q.returned = true
}

// A drain that was cut short leaves no goroutine behind in a foreign queue.
func TestDrainWaitsForTheQueueBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &lingering{bare: bare{workqueue.NewTyped[string]()}}
		below.Add("a")
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: below})
		if err := q.Drain(canceled()); !errors.Is(err, context.Canceled) || !below.returned {
			t.Errorf("got %v, the queue below has returned: %v", err, below.returned)
		}
	})
}

// A hasty queue drains as client-go's does: until nothing is held, whatever is
// queued, or until a ShutDown.
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

// A drain of the queue below that returns while items are queued is not the end
// of ours, whether the last of them is queued or held by then. Each end of it
// comes in each of the waits, and nothing is drained again after one that is
// not the work being done, which shows within 16 ms.
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
						if !ok || !errors.Is(e, end.want) || e.QueuedTotal != wait.queued || below.drains != wait.drains {
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

// A ShutDown that has ended drains can be repeated, and does not end those to
// come.
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

// The end of one drain is not that of another, whatever it takes to end it in
// the queue below, nor is it of one that comes while it is being ended.
func TestDrainsEndOneByOne(t *testing.T) {
	onEachLayer(t, func(t *testing.T, q drainer) {
		q.Add("a")
		q.Get()
		results := make(chan error, 5)
		for n := range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+n%4)*time.Second)
			defer cancel()
			if n == 4 {
				time.Sleep(time.Second) // When the first has just ended.
				ctx = t.Context()
			}
			go func() { results <- q.Drain(ctx) }()
		}
		for n := range 4 {
			if err := <-results; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v from drain %d with a deadline", err, n)
			}
			time.Sleep(500 * time.Millisecond)
			if len(results) > 0 {
				t.Fatalf("got %v, before it was its turn", <-results)
			}
		}
		q.Done("a")
		if err := <-results; err != nil {
			t.Errorf("got %v of a drain that was complete", err)
		}
	})
}

// A drain that comes while the only one is being ended starts anew: what ends
// that one does not end this.
func TestDrainBesideTheEndOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &lingering{bare: bare{workqueue.NewTyped[string]()}}
		q := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{Queue: below})
		q.Add("a")
		q.Get()
		first, second := make(chan error, 1), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { first <- q.Drain(ctx) }()
		time.Sleep(time.Second)
		cancel()
		time.Sleep(time.Second / 2) // It lingers.
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
