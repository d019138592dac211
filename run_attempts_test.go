package workqueue_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// Two calls with MaxAttempts 5 made 7 attempts and more on a queue that does not count itself. They
// share a count as long as one of them is there.
func TestRunMaxAttemptsOfAForeignQueue(t *testing.T) {
	for name, tt := range map[string]struct {
		hide   func(rateLimited) rateLimited
		shares bool
	}{
		"of another type":            {func(q rateLimited) rateLimited { return struct{ rateLimited }{q} }, true},
		"by pointer":                 {func(q rateLimited) rateLimited { return &struct{ rateLimited }{q} }, true},
		"that embeds one of ours":    {func(q rateLimited) rateLimited { return onlyOurs{q.(*workqueue.TypedRateLimiting[string])} }, true},
		"which cannot be compared":   {func(q rateLimited) rateLimited { return uncomparable{q, nil} }, false},
		"which only looks as if not": {func(q rateLimited) rateLimited { return struct{ rateLimited }{uncomparable{q, nil}} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShow(t, runQueues["all methods"])
				q := tt.hide(s.queue)
				attempts := 0
				options := runOptions{MaxAttempts: 5, OnGiveUp: func(context.Context, string, error) { q.ShutDown() }, Logger: discard()}
				handle := func(_ context.Context, item string) error {
					if item == "busy" {
						time.Sleep(time.Hour)
						return nil
					}
					attempts++
					return workqueue.RetryAfter(time.Second, errFailed)
				}
				q.Add("a")
				var runs sync.WaitGroup
				runs.Go(func() { workqueue.Run(t.Context(), q, handle, options) })
				time.Sleep(1500 * time.Millisecond)
				q.Add("busy") // The first Run is, from now on.
				synctest.Wait()
				runs.Go(func() { workqueue.Run(t.Context(), q, handle, options) })
				runs.Wait()
				want := 7
				if tt.shares {
					want = 5
				}
				if attempts != want {
					t.Errorf("got %d attempts, want %d", attempts, want)
				}
				if n := workqueue.ForeignCounts(); n != 0 {
					t.Errorf("%d counts are kept", n)
				}
			})
		})
	}
}

type onlyOurs struct {
	*workqueue.TypedRateLimiting[string]
}

type uncomparable struct {
	rateLimited
	_ []int
}
