package attack

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/workqueuetest"
)

// A Run that ends takes out what is queued and drops what waits. Nothing is left then.
func TestWaitEmptySeesTheEndOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueuetest.New(t, workqueuetest.Options[string]{})
		runs, stop := context.WithCancel(t.Context())
		go workqueue.Run(runs, q, func(context.Context, string) error { time.Sleep(time.Second); return nil },
			workqueue.RunOptions[string]{OnStop: func(workqueue.Snapshot[string]) {}})
		q.AddAll("a", "b")
		q.AddAfter("c", time.Hour)
		time.AfterFunc(time.Millisecond, stop)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := q.WaitEmpty(ctx); err != nil {
			t.Errorf("%v, and the queue has %v", err, q.Snapshot(-1))
		}
	})
}

// No Done can name a NaN, so its hand-out ends the work.
func TestWaitIdleSeesTheHandOutOfANaN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueuetest.New(t, workqueuetest.Options[float64]{})
		q.Add(math.NaN())
		time.AfterFunc(time.Second, func() { q.Get() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := q.WaitIdle(ctx); err != nil {
			t.Errorf("%v, and the queue has %v", err, q.Snapshot(-1))
		}
	})
}

// An item whose handler the end of a Run has cut short is left behind, although its worker calls
// Done.
func TestBarrierIsToldOfAnInterruptedItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueuetest.New(t, workqueuetest.Options[string]{})
		runs, stop := context.WithCancel(t.Context())
		go workqueue.Run(runs, q, func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() },
			workqueue.RunOptions[string]{OnStop: func(workqueue.Snapshot[string]) {}})
		q.Add("a")
		synctest.Wait()
		time.AfterFunc(time.Second, stop)
		if err := q.Barrier(t.Context()); !errors.Is(err, workqueue.ErrShutDown) {
			t.Errorf("Barrier returns %v, and Run has left its item behind", err)
		}
	})
}
