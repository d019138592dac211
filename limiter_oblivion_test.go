package workqueue_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// A noted limiter is one of somebody's own, that counts the calls of Forget.
type noted struct {
	workqueue.TypedRateLimiter[string]
	forgotten int
}

func (l *noted) Forget(item string) { l.forgotten++; l.TypedRateLimiter.Forget(item) }

func newNoted() *noted {
	return &noted{TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour)}
}

// Whatever limiters are put together, each forgets an item that has succeeded. One that
// is not ours is told of each success, and once.
func TestRunHasEachLimiterForget(t *testing.T) {
	own := newNoted()
	within := func(l workqueue.TypedRateLimiter[string]) workqueue.TypedRateLimiter[string] {
		return workqueue.NewTypedMaxOfRateLimiter(workqueue.NewTypedItemFastSlowRateLimiter[string](time.Second, time.Second, 1),
			workqueue.NewTypedWithMaxWaitRateLimiter(l, time.Minute))
	}
	limiters := allLimiters[string]()
	limiters["of somebody's own"] = own
	limiters["within others"] = within(newNoted())
	for name, limiter := range limiters {
		synctest.Test(t, func(t *testing.T) {
			q := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[string]{})
			q.Add("a")
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				time.Sleep(time.Hour)
				cancel()
			}()
			workqueue.Run(ctx, q, replies(fails, fails), runOptions{Logger: discard()})
			if n := limiter.NumRequeues("a"); n != 0 {
				t.Errorf("%s: %d failures are known after a success", name, n)
			}
		})
	}
	if own.forgotten != 1 {
		t.Errorf("Forget was called %d times for one success", own.forgotten)
	}
}

// A limiter without the one that it is to be around panics in Forget, and so it does in
// a Run, where others in it do not hide that.
func TestRunWithALimiterThatLacksOne(t *testing.T) {
	good := newNoted()
	for name, limiter := range map[string]workqueue.TypedRateLimiter[string]{
		"max wait": workqueue.NewTypedWithMaxWaitRateLimiter[string](nil, time.Second),
		"max of":   workqueue.NewTypedMaxOfRateLimiter[string](good, nil),
	} {
		want := goes(func() { limiter.Forget("a") })
		got := goes(func() { workqueue.ForgetInRun(limiter, "a") })
		if want == nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got the panic %v, want %v", name, got, want)
		}
	}
	if good.forgotten != 2 {
		t.Errorf("the limiter beside it was told %d times, want 2: once by each Forget", good.forgotten)
	}
}
