package workqueue_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/seed16c08ea7/workqueue"
)

// Without options that need a context of their own, many items that pass through
// Run share an allocation, that of their contexts; each of those options costs what its
// context does.
func TestAllocationsOfRun(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, tt := range map[string]struct {
		options workqueue.RunOptions[int]
		most    float64 // per item
	}{
		"default options": {workqueue.RunOptions[int]{}, 0.05},
		"max attempts":    {workqueue.RunOptions[int]{MaxAttempts: 3}, 0.05},
		"grace":           {workqueue.RunOptions[int]{Grace: 1}, 0.05},
		"cancel on add":   {workqueue.RunOptions[int]{CancelOnReAdd: true}, 4},
		"timeout":         {workqueue.RunOptions[int]{Timeout: 1 << 40}, 5},
	} {
		const items = 256
		q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[int](), workqueue.TypedRateLimitingQueueConfig[int]{})
		handled := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			workqueue.Run(t.Context(), q, func(_ context.Context, item int) error {
				if item == items-1 {
					handled <- struct{}{}
				}
				return nil
			}, tt.options)
		}()
		pass := func() {
			for i := range items {
				q.Add(i)
			}
			<-handled
		}
		pass()
		if n := testing.AllocsPerRun(100, pass); n > tt.most*items {
			t.Errorf("%s: %v allocations for %d items, want %v each", name, n, items, tt.most)
		}
		q.ShutDown()
		<-ended
	}
}

// A worker that has handled one item has allocated contexts for a few more, and no more.
func TestBytesOfAWorkerOfRun(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const workers = 100
	q := workqueue.NewTypedRateLimiting(workqueue.DefaultTypedControllerRateLimiter[int](), workqueue.TypedRateLimitingQueueConfig[int]{})
	for i := range workers {
		q.Add(i)
	}
	at, all := make(chan struct{}), make(chan struct{})
	go func() {
		for range workers { // Each worker has one, so that all have begun.
			<-at
		}
		q.ShutDown()
		close(all)
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := workqueue.Run(t.Context(), q, func(context.Context, int) error { at <- struct{}{}; <-all; return nil }, workqueue.RunOptions[int]{Workers: workers})
	runtime.ReadMemStats(&after)
	if bytes := (after.TotalAlloc - before.TotalAlloc) / workers; err != nil || bytes > 4096 {
		t.Errorf("got %v and %d bytes for each worker, want at most 4096", err, bytes)
	}
}
