package attack

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// A Run with EndKeep ends while a ShutDown of somebody else has closed the delaying queue and
// not yet the queue below. What failed in between, and what waited, is named.
func TestRunThatKeepsNamesWhatAShutDownHalfWayHasDropped(t *testing.T) {
	for range 1000 {
		keepBesideShutDown(t)
	}
}

func keepBesideShutDown(t *testing.T) {
	storage := &slow{workqueue.DefaultQueue[string](), make(chan bool), make(chan bool)}
	typed := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: storage})
	q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, time.Hour),
		workqueue.TypedRateLimitingQueueConfig[string]{Queue: typed})
	started, fails, ended := make(chan bool), make(chan bool), make(chan bool)
	var left workqueue.Snapshot[string]
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		workqueue.Run(ctx, q, func(context.Context, string) error {
			close(started)
			<-fails
			return errors.New("failed")
		}, workqueue.RunOptions[string]{AtEnd: workqueue.EndKeep, Logger: &quiet, OnStop: func(s workqueue.Snapshot[string]) { left = s }})
	}()
	q.AddAfter("w", time.Hour)
	q.Add("a")
	<-started
	go typed.Add("slow")
	<-storage.entered
	down := make(chan bool)
	go func() {
		defer close(down)
		q.ShutDown()
	}()
	stop()
	for begin := time.Now(); time.Since(begin) < 100*time.Microsecond; {
	} // ShutDown waits for the lock of typed, but not so long that the lock is handed to it.
	close(fails)
	close(storage.leave)
	<-ended
	<-down
	var named []string
	for _, info := range slices.Concat(left.Queued, left.Waiting, left.Failed, q.Snapshot(-1).Waiting) {
		named = append(named, info.Item)
	}
	if !slices.Contains(named, "a") || !slices.Contains(named, "w") {
		t.Errorf("OnStop was told of %v, want a, which has failed, and w, which has waited", named)
	}
}
