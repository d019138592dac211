package workqueue_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// Two calls with MaxAttempts 5 made 9 attempts on a queue that does not count itself. They
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
				q.Add("a")
				var mu sync.Mutex
				attempts := 0
				var runs sync.WaitGroup
				for range 2 {
					runs.Go(func() {
						workqueue.Run(t.Context(), q, func(_ context.Context, item string) error {
							if item != "a" {
								time.Sleep(1500 * time.Millisecond) // The other one gets the next.
								return nil
							}
							mu.Lock()
							defer mu.Unlock()
							attempts++
							q.Add("busy") // For this worker.
							return workqueue.RetryAfter(time.Second, errFailed)
						}, runOptions{MaxAttempts: 5, OnGiveUp: func(context.Context, string, error) { q.ShutDown() }, Logger: discard()})
					})
				}
				runs.Wait()
				if shared := attempts == 5; shared != tt.shares {
					t.Errorf("got %d attempts", attempts)
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
