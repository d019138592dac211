package attack

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

func newPlain(o workqueue.Order[string]) *workqueue.TypedRateLimiting[string] {
	return workqueue.NewTypedRateLimiting(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Second),
		workqueue.TypedRateLimitingQueueConfig[string]{Order: o})
}

// afterGet calls a function between the hand-out and the handler.
type afterGet struct {
	*workqueue.TypedRateLimiting[string]
	call func()
}

func (q afterGet) GetInfo(ctx context.Context) (workqueue.ItemInfo[string], error) {
	info, err := q.TypedRateLimiting.GetInfo(ctx)
	q.call()
	return info, err
}

// The context of a Run ends, and somebody shuts the queue down, while an item is on its way
// to a worker.
func TestRunThatKeepsNamesWhatItCannotGiveBack(t *testing.T) {
	for _, end := range []workqueue.End{workqueue.EndStop, workqueue.EndKeep} {
		q := newPlain(workqueue.Order[string]{})
		ctx, stop := context.WithCancel(t.Context())
		q.Add("a")
		left := 0
		workqueue.Run(ctx, afterGet{q, func() { stop(); q.ShutDown() }},
			func(context.Context, string) error { return nil },
			workqueue.RunOptions[string]{AtEnd: end, OnStop: func(s workqueue.Snapshot[string]) { left = s.QueuedTotal }})
		if left != 1 {
			t.Errorf("AtEnd %v: OnStop was told of %d queued items, want 1", end, left)
		}
	}
}

type cannotGet struct {
	*workqueue.TypedRateLimiting[string]
}

var errCannotGet = errors.New("cannot get")

func (cannotGet) GetInfo(context.Context) (workqueue.ItemInfo[string], error) {
	return workqueue.ItemInfo[string]{}, errCannotGet
}

// Whatever the end of a Run is, an error of GetInfo is not a shutdown.
func TestRunThatCannotGetDoesNotSayShutDown(t *testing.T) {
	for _, options := range []workqueue.RunOptions[string]{{}, {AtEnd: workqueue.EndKeep}, {AtEnd: workqueue.EndDrain, Grace: time.Second}} {
		q := newPlain(workqueue.Order[string]{})
		err := workqueue.Run(t.Context(), cannotGet{q}, func(context.Context, string) error { return nil }, options)
		if !errors.Is(err, errCannotGet) || errors.Is(err, workqueue.ErrShutDown) || q.ShuttingDown() {
			t.Errorf("AtEnd %v: got %q, want that of GetInfo alone", options.AtEnd, err)
		}
		q.ShutDown()
	}
}

// The priority that a function has said counts like one that an add has named.
func TestRunRetriesWithThePriorityOfTheHandOutWhateverPrioritySays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var priority atomic.Int64
		priority.Store(5)
		q := newPlain(workqueue.Order[string]{Priority: func(string) int { return int(priority.Load()) }})
		ctx, stop := context.WithCancel(t.Context())
		q.Add("a")
		var got []int
		workqueue.Run(ctx, q, func(ctx context.Context, _ string) error {
			info, _ := workqueue.ItemInfoFromContext[string](ctx)
			if got = append(got, info.Priority); len(got) == 2 {
				stop()
			}
			priority.Store(1)
			return errors.New("failed")
		}, workqueue.RunOptions[string]{})
		if fmt.Sprint(got) != "[5 5]" {
			t.Errorf("handed out with priorities %v, want [5 5]", got)
		}
	})
}
