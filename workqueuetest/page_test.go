package workqueuetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/workqueuetest"
)

// The code of docs/testing.md, which a test of the root compares with this file.

// An object is what the controller of the page is about.
type object struct{ name, owner string }

// onUpdate is an event handler.
func onUpdate(queue workqueue.TypedRateLimitingInterface[string], before, after object) {
	if before == after {
		return
	}
	queue.Add(after.name)
	if after.owner != "" {
		queue.AddAfter(after.owner, time.Second)
	}
}

func TestOnUpdate(t *testing.T) {
	queue := workqueuetest.New(t, workqueuetest.Options[string]{})
	onUpdate(queue, object{"web", ""}, object{"web", "shop"})
	if got, want := fmt.Sprint(queue.Take()), "[Add web AddAfter shop 1s]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	onUpdate(queue, object{"web", "shop"}, object{"web", "shop"})
	if got := queue.Take(); len(got) > 0 {
		t.Errorf("nothing has changed, got %v", got)
	}
}

// reconcile fails until the third attempt.
func reconcile(attempts *int) func(context.Context, string) error {
	return func(ctx context.Context, key string) error {
		if *attempts++; *attempts < 3 {
			return errors.New("not yet")
		}
		return nil
	}
}

func TestReconcileIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := workqueuetest.New(t, workqueuetest.Options[string]{
			Limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Minute, time.Hour),
		})
		attempts := 0
		go workqueue.Run(t.Context(), queue, reconcile(&attempts), workqueue.RunOptions[string]{})
		start := time.Now()
		queue.Add("default/web")
		if err := queue.WaitEmpty(t.Context()); err != nil {
			t.Fatal(err)
		}
		// One minute, then two: they pass at once.
		if took := time.Since(start); attempts != 3 || took != 3*time.Minute {
			t.Errorf("%d attempts in %v, want 3 in 3m", attempts, took)
		}
	})
}

func TestReconcileWithAFakeClock(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Now())
	queue := workqueuetest.New(t, workqueuetest.Options[string]{
		Limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Minute, time.Hour),
		Config:  workqueue.TypedRateLimitingQueueConfig[string]{Clock: clock},
	})
	attempts := 1 // The second attempt fails, and the third succeeds.
	go workqueue.Run(t.Context(), queue, reconcile(&attempts), workqueue.RunOptions[string]{})
	queue.Add("default/web")
	if err := queue.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, _ := queue.Find("default/web")
	if wait := info.Due.Sub(clock.Now()); wait != time.Minute {
		t.Errorf("the retry is due after %v, want 1m", wait)
	}
	clock.Step(time.Minute)
	if err := queue.WaitEmpty(t.Context()); err != nil || attempts != 3 {
		t.Errorf("%d attempts, want 3, %v", attempts, err)
	}
}
