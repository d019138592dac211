package reliability

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue"
)

var quiet = logr.Discard()

// slow is a Queue whose Push of one item blocks, with the lock of the queue held.
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

// A Run with EndKeep ends while a ShutDown by somebody else has closed the delaying queue and not yet
// the queue below. OnStop is told of the item that failed in between, and of the waiting item.
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
		}, workqueue.RunOptions[string]{AtEnd: workqueue.EndKeep, Logger: &quiet, OnStop: func(_ context.Context, s workqueue.Snapshot[string]) { left = s }})
	}()
	q.AddAfter("waits", time.Hour)
	q.Add("fails")
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
	if !slices.Contains(named, "fails") || !slices.Contains(named, "waits") {
		t.Errorf("OnStop was told of %v, want the item that fails and the item that waits", named)
	}
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

// The context of a Run ends, and somebody shuts the queue down, while an item is on its way to a
// worker: the queue does not take the item back.
func TestRunNamesWhatItCannotGiveBack(t *testing.T) {
	for _, end := range []workqueue.End{workqueue.EndStop, workqueue.EndKeep} {
		q := workqueue.NewTypedRateLimiting[string](nil, workqueue.TypedRateLimitingQueueConfig[string]{})
		ctx, stop := context.WithCancel(t.Context())
		q.Add("a")
		left := 0
		workqueue.Run(ctx, afterGet{q, func() { stop(); q.ShutDown() }},
			func(context.Context, string) error { return nil },
			workqueue.RunOptions[string]{AtEnd: end, OnStop: func(_ context.Context, s workqueue.Snapshot[string]) { left = s.QueuedTotal }})
		if left != 1 {
			t.Errorf("AtEnd %v: OnStop was told of %d queued items, want 1", end, left)
		}
	}
}

// A Run that ends at any time while another Run works: each item is either handled to the end by
// one of them or named to OnStop, and never both. Waiting items are named too, and a later drain
// has nothing to wait for.
func TestRunEndAddsUpUnderLoad(t *testing.T) {
	for run := range 2000 {
		e := &runEnd{queue: workqueue.NewTypedRateLimiting(
			workqueue.NewTypedItemExponentialFailureRateLimiter[int](time.Hour, time.Hour), workqueue.TypedRateLimitingQueueConfig[int]{})}
		for i := range e.handled {
			e.queue.Add(i)
		}
		for i := range run % 5 {
			e.queue.AddAfter(waiting+i, time.Hour)
		}
		if problem := e.play(run); problem != "" {
			t.Fatalf("run %d: %s", run, problem)
		}
	}
}

const waiting = 1000 // and more are the items that wait

type runEnd struct {
	queue   *workqueue.TypedRateLimiting[int]
	handled [40]atomic.Int32
}

func (e *runEnd) play(run int) (problem string) {
	ctx, cancel := context.WithCancel(context.Background())
	var left workqueue.Snapshot[int]
	options := workqueue.RunOptions[int]{Workers: 1 + run%3, Logger: &quiet}
	var runs sync.WaitGroup
	var one, other error
	first := options
	first.OnStop = func(_ context.Context, s workqueue.Snapshot[int]) { left = s }
	runs.Go(func() { one = workqueue.Run(ctx, e.queue, e.handle(ctx, run%2 == 0), first) })
	if run%3 > 0 {
		runs.Go(func() { other = workqueue.Run(context.Background(), e.queue, e.handle(ctx, false), options) })
	}
	for range run % 50 {
		runtime.Gosched()
	}
	cancel()
	runs.Wait()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		e.queue.ShutDownWithDrain()
	}()
	select {
	case <-drained:
	case <-time.After(patience):
		return fmt.Sprintf("a drain after Run hangs, which has returned %v", one)
	}
	if one != nil || other != nil && other != workqueue.ErrShutDown {
		return fmt.Sprintf("the calls of Run returned %v and %v", one, other)
	}
	return e.judge(left, run%5)
}

// handle returns a handler whose calls fail in part if they come late.
func (e *runEnd) handle(ctx context.Context, fails bool) func(context.Context, int) error {
	return func(_ context.Context, item int) error {
		runtime.Gosched()
		if fails && item%4 == 0 && ctx.Err() != nil {
			return errors.New("failed")
		}
		if item < waiting {
			e.handled[item].Add(1)
		}
		return nil
	}
}

func (e *runEnd) judge(left workqueue.Snapshot[int], waits int) (problem string) {
	named := map[int]int32{}
	for _, info := range slices.Concat(left.Queued, left.Waiting, left.Failed) {
		named[info.Item]++
	}
	for i := range waits {
		if named[waiting+i] != 1 {
			return fmt.Sprintf("item %d waited, and %v names it %d times", waiting+i, left, named[waiting+i])
		}
	}
	for i := range e.handled {
		if times := e.handled[i].Load(); times+named[i] != 1 {
			return fmt.Sprintf("item %d was handled %d times, and %v names it %d times", i, times, left, named[i])
		}
	}
	return ""
}
