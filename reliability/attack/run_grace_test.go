package attack

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// When the grace period is over, the handlers at work return an error of their own. Each item
// is then named.
func TestRunNamesWhatFailsWhenTheGraceIsOver(t *testing.T) {
	const workers = 8
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[int](time.Hour, time.Hour)
	rounds := 1000
	lost := 0
	for range rounds {
		q := workqueue.NewTypedRateLimiting(limiter, workqueue.TypedRateLimitingQueueConfig[int]{})
		ctx, stop := context.WithCancel(t.Context())
		begun := make(chan bool, workers)
		for i := range workers {
			q.Add(i)
		}
		go func() {
			for range workers {
				<-begun
			}
			stop()
		}()
		var left workqueue.Snapshot[int]
		err := workqueue.Run(ctx, q, func(ctx context.Context, _ int) error {
			begun <- true
			<-ctx.Done()
			return errors.New("aborted")
		}, workqueue.RunOptions[int]{
			Workers: workers, AtEnd: workqueue.EndDrain, Grace: time.Microsecond, Logger: &quiet,
			OnStop: func(s workqueue.Snapshot[int]) { left = s },
		})
		if n := left.QueuedTotal + left.WaitingTotal + left.FailedTotal; n != workers || err == nil {
			lost += workers - n
		}
	}
	if lost > 0 {
		t.Errorf("%d items are lost in %d calls of Run with %d items each", lost, rounds, workers)
	}
}

// slow is a Queue whose Push of one item blocks, with the locks of both layers held.
type slow struct {
	workqueue.Queue[string]
	entered, leave chan bool
}

func (s *slow) Push(item string) {
	if item == "slow" {
		close(s.entered)
		<-s.leave
	}
	s.Queue.Push(item)
}

// One Run drains, and its grace period is over. While an item of it fails, another Run begins
// to drain.
func TestRunNamesWhatFailsWhenAnotherRunBeginsToDrain(t *testing.T) {
	storage := &slow{workqueue.DefaultQueue[string](), make(chan bool), make(chan bool)}
	d := workqueue.NewTypedDelaying(workqueue.TypedDelayingQueueConfig[string]{
		OneEntry: true, Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: storage}),
	})
	q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, time.Hour),
		workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: d})
	started, fails := make(chan bool), make(chan bool)
	var named []string
	run := func(ctx context.Context, grace time.Duration, handle func(ctx context.Context, item string) error) <-chan error {
		ended := make(chan error, 1)
		go func() {
			ended <- workqueue.Run(ctx, q, handle, workqueue.RunOptions[string]{
				AtEnd: workqueue.EndDrain, Grace: grace, Logger: &quiet,
				OnStop: func(s workqueue.Snapshot[string]) {
					for _, info := range slices.Concat(s.Queued, s.Waiting, s.Failed) {
						named = append(named, info.Item)
					}
				},
			})
		}()
		return ended
	}
	ctx1, stop1 := context.WithCancel(t.Context())
	ctx2, stop2 := context.WithCancel(t.Context())
	first := run(ctx1, time.Millisecond, func(context.Context, string) error {
		close(started)
		<-fails
		return errors.New("failed")
	})
	q.Add("a")
	<-started
	second := run(ctx2, time.Second, func(context.Context, string) error { return nil })
	go d.Add("slow")
	<-storage.entered
	stop1()
	time.Sleep(50 * time.Millisecond) // The grace period is over.
	close(fails)
	time.Sleep(50 * time.Millisecond) // The worker looks whether the item can come again.
	stop2()
	time.Sleep(50 * time.Millisecond) // The second Run drains too.
	close(storage.leave)
	err1, err2 := <-first, <-second
	if !slices.Contains(named, "a") {
		t.Errorf("the Runs have named %v, want a among them, which has failed: they return %v and %v", named, err1, err2)
	}
}
