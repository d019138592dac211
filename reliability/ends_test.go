package reliability

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// This file has programs in which several goroutines decide at the same moment what becomes of an
// item: the end of its handler, the end of a Run, an add, a RemoveFunc, and another Run.

var rounds = flag.Int("rounds", 300, "rounds of each program in which several goroutines end a hand-out")

var ways = []workqueue.End{workqueue.EndStop, workqueue.EndKeep, workqueue.EndDrain}

var errFailed = errors.New("failed")

// atHandOut returns a provider whose metric of a hand-out calls a function. The worker has the item
// then, and has not looked at its context yet.
func atHandOut(call func()) workqueue.MetricsProvider {
	return probe(func(number int) {
		if number == handOut {
			call()
		}
	})
}

// endOptions are options of a Run that ends in the given way. A drain hands its items out until the
// grace period is over.
func endOptions[T comparable](end workqueue.End, grace time.Duration) workqueue.RunOptions[T] {
	o := workqueue.RunOptions[T]{AtEnd: end, Logger: &quiet}
	if end == workqueue.EndDrain {
		o.Grace = grace
	}
	return o
}

// RemoveFunc removes all items while a Run ends. No removed item comes back, and OnStop names no item
// that was removed before the end.
func TestRemoveFuncOfAllWhileARunEnds(t *testing.T) {
	for _, end := range ways {
		for _, holds := range []bool{false, true} {
			t.Run(fmt.Sprintf("AtEnd %d, a metric holds workers %v", end, holds), func(t *testing.T) {
				for seed := range *rounds {
					if removeAll(t, rand.New(rand.NewPCG(uint64(seed), 0)), end, holds); t.Failed() {
						t.Fatalf("round %d", seed)
					}
				}
			})
		}
	}
}

func removeAll(t *testing.T, rnd *rand.Rand, end workqueue.End, holds bool) {
	const items = 8
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	over := make(chan struct{}) // RemoveFunc has returned
	config := workqueue.TypedRateLimitingQueueConfig[int]{OneEntry: rnd.IntN(2) == 0}
	if holds {
		config.Name = "q"
		config.MetricsProvider = atHandOut(func() {
			switch rand.IntN(3) {
			case 0:
				<-ctx.Done()
			case 1:
				<-over
			}
		})
	}
	longest := time.Duration(1 + rnd.IntN(50_000))
	q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemExponentialFailureRateLimiter[int](1, longest), config)
	defer q.ShutDown()
	for item := range items {
		q.AddAfter(item, time.Duration(rnd.IntN(4)*rnd.IntN(20_000)))
	}

	var gone [items]atomic.Bool // the item was removed, and nobody adds it again
	var calls [items]atomic.Int32
	options := endOptions[int](end, 50*time.Microsecond)
	options.Workers = 1 + rnd.IntN(4)
	var left workqueue.Snapshot[int]
	options.OnStop = func(_ context.Context, s workqueue.Snapshot[int]) { left = s }
	var all sync.WaitGroup
	all.Go(func() {
		workqueue.Run(ctx, q, func(ctx context.Context, item int) error {
			if gone[item].Load() && calls[item].Add(1) > 1 { // The first hand-out was before the removal.
				t.Errorf("item %d was removed and is handed out again", item)
				return nil
			}
			switch rand.IntN(4) {
			case 0:
				return errFailed
			case 1:
				return workqueue.RequeueAfter(longest)
			}
			<-ctx.Done()
			return ctx.Err()
		}, options)
	})
	for range rnd.IntN(20) {
		runtime.Gosched()
	}

	at, seen, last := rnd.IntN(items+1), 0, -1
	before := map[int]bool{} // removed before the end of ctx
	q.RemoveFunc(func(item int) bool {
		if last >= 0 {
			gone[last].Store(true)
		}
		last = item
		if seen++; seen > at && ctx.Err() == nil {
			for i := range items {
				before[i] = gone[i].Load()
			}
			stop()
		}
		return true
	})
	if last >= 0 {
		gone[last].Store(true)
	}
	if ctx.Err() == nil {
		for i := range items {
			before[i] = gone[i].Load()
		}
	}
	close(over)
	stop()
	all.Wait()
	for _, info := range slices.Concat(left.Queued, left.InFlight, left.Waiting, left.Failed) {
		if before[info.Item] {
			t.Errorf("item %d was removed before the end, and is named as %v", info.Item, info.State)
		}
	}
	if s := q.Snapshot(items); s.QueuedTotal+s.InFlightTotal+s.WaitingTotal > 0 {
		t.Errorf("all items were removed, and the queue has %v", s)
	}
}

// handlers are what the first call of a handler does once go is closed.
var handlers = map[string]func(ctx context.Context) error{
	"success":      func(context.Context) error { return nil },
	"failure":      func(context.Context) error { return errFailed },
	"RequeueAfter": func(context.Context) error { return workqueue.RequeueAfter(time.Second) },
	"at once":      func(context.Context) error { return workqueue.RequeueAfter(0) },
	"Permanent":    func(context.Context) error { return workqueue.Permanent(errFailed) },
	"panic":        func(context.Context) error { panic("handler") },
	"Goexit":       func(context.Context) error { runtime.Goexit(); return nil },
	"cut short":    func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	"declined":     nil, // A metric keeps the worker from calling the handler.
}

// A Barrier is raised while a worker holds the item. Barrier returns nil after an end of the work, and
// not for work that was cut short: then it waits for the next hand-out, or returns ErrShutDown if
// there is none.
func TestBarrierAndEachEndOfAHandOut(t *testing.T) {
	for name, handle := range handlers {
		for _, end := range ways {
			for _, embeds := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, AtEnd %d, embeds %v", name, end, embeds), func(t *testing.T) {
					for seed := range max(1, *rounds/10) {
						rnd := rand.New(rand.NewPCG(uint64(seed), 1))
						synctest.Test(t, func(t *testing.T) { raiseBarrier(t, rnd, handle, end, embeds) })
						if t.Failed() {
							t.Fatalf("round %d", seed)
						}
					}
				})
			}
		}
	}
}

func raiseBarrier(t *testing.T, rnd *rand.Rand, handle func(ctx context.Context) error, end workqueue.End, embeds bool) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	leave := make(chan struct{})
	taken := 0
	wait := time.Duration(rnd.IntN(2)) * time.Second
	q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemFastSlowRateLimiter[string](wait, wait, 1),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: atHandOut(func() {
			if taken++; taken == 1 && handle == nil {
				<-leave
			}
		})})
	defer q.ShutDown()
	var queue workqueue.TypedRateLimitingInterface[string] = q
	if embeds {
		queue = afterGet{q, func() {}}
	}
	var settled, removing atomic.Bool // the item was done, or may have been removed
	var left workqueue.Snapshot[string]
	options := endOptions[string](end, time.Minute)
	options.CancelOnReAdd = 3
	options.MaxAttempts = rnd.IntN(2)
	options.OnStop = func(_ context.Context, s workqueue.Snapshot[string]) { left = s }
	options.OnGiveUp = func(context.Context, string, error) {}
	options.OnResult = func(_ context.Context, _ string, r workqueue.HandlerResult) {
		if r.Outcome != workqueue.OutcomeReAdded && r.Outcome != workqueue.OutcomeInterrupted {
			settled.Store(true)
		}
	}
	q.Add("a")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		calls := 0
		workqueue.Run(ctx, queue, func(ctx context.Context, _ string) error {
			if calls++; calls > 1 || handle == nil {
				return nil
			}
			<-leave
			return handle(ctx)
		}, options)
	}()
	synctest.Wait() // The worker has the item.
	var err error
	var nilWithout bool // Barrier has returned nil before the work was done
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		err = q.Barrier(t.Context())
		nilWithout = err == nil && !settled.Load() && !removing.Load()
	}()
	synctest.Wait() // The Barrier is raised.

	var all sync.WaitGroup
	all.Go(func() { close(leave) })
	if rnd.IntN(3) > 0 {
		all.Go(stop)
	}
	if rnd.IntN(3) == 0 {
		all.Go(func() { q.Add("a") })
	}
	removes := rnd.IntN(3) == 0
	if removes {
		removing.Store(true)
		all.Go(func() { q.RemoveFunc(func(string) bool { return true }) })
	}
	all.Wait()
	if rnd.IntN(2) == 0 {
		time.Sleep(2 * time.Second) // The retry is due.
	}
	stop()
	<-ended
	if end == workqueue.EndKeep {
		settling := settled.Load()
		if item, ok := q.TryGet(); ok {
			select {
			case <-passed:
			default:
				settling = true
			}
			settled.Store(settling)
			q.Done(item)
		}
	}
	synctest.Wait()
	select {
	case <-passed:
	default:
		t.Errorf("the Barrier goes on, and the queue has %v", q.Snapshot(1))
		return // The end of the test ends the Barrier.
	}
	dropped := errors.Is(err, workqueue.ErrShutDown)
	switch {
	case nilWithout:
		t.Error("the Barrier got nil for work that was not done")
	case err != nil && !dropped:
		t.Errorf("the Barrier got %v", err)
	case dropped && settled.Load():
		t.Error("the Barrier got ErrShutDown, and the work was done")
	case dropped && left.QueuedTotal == 0 && !removes:
		t.Error("the Barrier got ErrShutDown for an item that OnStop does not name")
	}
}

// RemoveFunc comes at any moment of retries without a wait, above a Queue or not. A removed item is
// not handed out again.
func TestRemoveFuncAgainstRetriesAtOnce(t *testing.T) {
	for _, storage := range []bool{false, true} {
		for seed := range *rounds {
			if removeRetried(t, rand.New(rand.NewPCG(uint64(seed), 2)), storage); t.Failed() {
				t.Fatalf("round %d, with a Queue %v", seed, storage)
			}
		}
	}
}

func removeRetried(t *testing.T, rnd *rand.Rand, storage bool) {
	var low workqueue.TypedQueueConfig[int]
	if storage {
		low.Queue = workqueue.DefaultQueue[int]()
	}
	q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemFastSlowRateLimiter[int](0, 0, 1),
		workqueue.TypedRateLimitingQueueConfig[int]{Queue: workqueue.NewTypedWithConfig(low), OneEntry: !storage && rnd.IntN(2) == 0})
	defer q.ShutDown()
	const items = 3
	var gone atomic.Bool
	var calls atomic.Int32
	var after [items]atomic.Int32
	options := endOptions[int](workqueue.EndStop, 0)
	options.Workers = 1 + rnd.IntN(3)
	options.OnResult = func(_ context.Context, item int, r workqueue.HandlerResult) {
		if r.Outcome == workqueue.OutcomeRemoved && r.Again {
			t.Errorf("item %d is removed and comes again", item)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		workqueue.Run(ctx, q, func(_ context.Context, item int) error {
			calls.Add(1)
			runtime.Gosched()
			if gone.Load() && after[item].Add(1) > 1 { // The first hand-out was before the removal.
				t.Errorf("item %d was removed and is handed out again", item)
				return nil
			}
			return errFailed
		}, options)
	}()
	for item := range items {
		q.Add(item)
	}
	for enough := rnd.Int32N(20); calls.Load() < enough; {
		runtime.Gosched()
	}
	q.RemoveFunc(func(int) bool { return true })
	gone.Store(true)
	if err := q.WaitEmpty(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	<-ended
}

// A Run that has ended gives up what it fails with, and another Run succeeds. OnStop names an item as
// failed if no call came after the failure, and else not.
func TestOneRunSucceedsWhereAnotherGivesUp(t *testing.T) {
	for seed := range *rounds {
		if runTwo(t, rand.New(rand.NewPCG(uint64(seed), 3))); t.Failed() {
			t.Fatalf("round %d", seed)
		}
	}
}

func runTwo(t *testing.T, rnd *rand.Rand) {
	const items, last = 4, 4 // last keeps the first Run from its end until the second has ended.
	q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemFastSlowRateLimiter[int](0, 0, 1),
		workqueue.TypedRateLimitingQueueConfig[int]{})
	defer q.ShutDown()
	var failed [items]atomic.Bool // the last call has failed, and the item does not come again
	told := func(_ context.Context, item int, r workqueue.HandlerResult) {
		if item < items {
			failed[item].Store(r.Outcome == workqueue.OutcomeFailed && !r.Again)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	started, second := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	var left [2]workqueue.Snapshot[int]
	options := endOptions[int](workqueue.EndStop, 0)
	options.OnResult = told
	options.Workers = 3
	options.MaxAttempts = rnd.IntN(3)
	options.OnGiveUp = func(context.Context, int, error) {}
	q.Add(last)
	all.Go(func() {
		options := options
		options.OnStop = func(_ context.Context, s workqueue.Snapshot[int]) { left[0] = s }
		workqueue.Run(ctx, q, func(ctx context.Context, item int) error {
			if item == last {
				close(started)
				<-second
				return nil
			}
			if rand.IntN(2) == 0 {
				<-ctx.Done()
			}
			return errFailed
		}, options)
	})
	<-started
	go func() {
		defer close(second)
		options := options
		options.Workers = 1
		options.OnStop = func(_ context.Context, s workqueue.Snapshot[int]) { left[1] = s }
		workqueue.Run(t.Context(), q, func(context.Context, int) error {
			runtime.Gosched()
			return nil
		}, options)
	}()
	adds := rnd.Perm(8 * items)
	all.Go(func() {
		for _, n := range adds {
			q.Add(n % items)
			runtime.Gosched()
		}
	})
	for range rnd.IntN(40) {
		runtime.Gosched()
	}
	stop()
	all.Wait()
	named := map[int]int{}
	for _, info := range slices.Concat(left[0].Failed, left[1].Failed) {
		named[info.Item]++
	}
	for item := range items {
		again := slices.ContainsFunc(slices.Concat(left[0].Queued, left[1].Queued), func(info workqueue.ItemInfo[int]) bool { return info.Item == item })
		if want := failed[item].Load() && !again; named[item] > 1 || named[item] == 1 != want {
			t.Errorf("item %d is named as failed %d times, and the last call has failed: %v; queued again: %v", item, named[item], want, again)
		}
	}
}

// Runs with different ends share a queue and end together, or somebody shuts the queue down. Each item has come to
// its end, or is named by one of the Runs, or is still in the queue. Two windows lost an item: a last failure while
// the queue passed from one Run to another, and a shutdown while a Run began.
func TestNothingIsLostWhenRunsEndTogether(t *testing.T) {
	for seed := range 10 * *rounds {
		if endTogether(t, rand.New(rand.NewPCG(uint64(seed), 4))); t.Failed() {
			t.Fatalf("round %d", seed)
		}
	}
}

func endTogether(t *testing.T, rnd *rand.Rand) {
	const items = 4
	q := workqueue.NewTypedRateLimiting(workqueue.NewTypedItemFastSlowRateLimiter[int](time.Hour, time.Hour, 1),
		workqueue.TypedRateLimitingQueueConfig[int]{OneEntry: rnd.IntN(2) == 0})
	defer q.ShutDown()
	var found, kept [items]atomic.Int32 // kept is what a Run with EndKeep has left to others
	var began atomic.Int32
	names := func(s workqueue.Snapshot[int], found *[items]atomic.Int32) {
		for _, info := range slices.Concat(s.Queued, s.Waiting, s.Failed) {
			found[info.Item].Add(1)
		}
	}
	for item := range items {
		q.AddAfter(item, time.Duration(rnd.IntN(2))*time.Hour)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	for range 1 + rnd.IntN(3) {
		options := endOptions[int](ways[rnd.IntN(len(ways))], time.Duration(1+rnd.IntN(50_000)))
		options.Workers = 1 + rnd.IntN(items)
		options.OnStop = func(_ context.Context, s workqueue.Snapshot[int]) {
			began.Add(1)
			if options.AtEnd == workqueue.EndKeep {
				names(s, &kept)
			} else {
				names(s, &found)
			}
		}
		all.Go(func() {
			workqueue.Run(ctx, q, func(ctx context.Context, item int) error {
				began.Add(1)
				<-ctx.Done()
				switch rand.IntN(4) {
				case 0:
					found[item].Add(1)
					return nil
				case 1:
					return ctx.Err()
				}
				return errFailed
			}, options)
		})
	}
	for range rnd.IntN(20) {
		runtime.Gosched()
	}
	if rnd.IntN(3) == 0 {
		all.Go(q.ShutDown)
	}
	stop()
	all.Wait()
	names(q.Snapshot(items), &found)
	if began.Load() == 0 {
		return // The shutdown came before each Run.
	}
	for item := range found {
		if n := found[item].Load(); n > 1 || n+kept[item].Load() == 0 {
			t.Errorf("item %d has come to its end, is named or is queued %d times", item, n)
		}
	}
}
