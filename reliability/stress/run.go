package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/go-logr/logr"

	"github.com/seed16c08ea7/workqueue"
)

// withRun is a burst with Run beside the other workers, and handlers that fail
// in all ways. Its queue has no traps: a panic in a trap would end the program of
// Run, as documented.
func (r *round) withRun() {
	r.at("Run")
	r.queue.ShutDown()
	r.open(newRecipe(r.rnd, 2, false, nil))
	r.recipe.text += ", Run"
	limited := r.queue.(*workqueue.TypedRateLimiting[int])
	options := workqueue.RunOptions[int]{
		Workers: 1 + r.rnd.IntN(8), MaxAttempts: r.rnd.IntN(4),
		Timeout: time.Duration(r.rnd.IntN(2)) * time.Millisecond, Grace: time.Duration(r.rnd.IntN(2)) * time.Millisecond,
		CancelOnReAdd: r.rnd.IntN(5),
	}
	if options.Grace > 0 && r.rnd.IntN(2) == 0 {
		options.AtEnd = workqueue.EndDrain
	}
	cancel := r.startRun(limited, options)
	defer cancel()
	r.start()
	time.Sleep(time.Duration(1+r.rnd.IntN(20)) * time.Millisecond)
	if r.rnd.IntN(2) == 0 {
		r.adding.Store(false)
		r.settle()
	}
	r.closing.Store(true) // Run shuts the queue down some time from now.
	cancel()
	r.end()
}

// startRun starts a Run on the queue of the round.
func (r *round) startRun(q *workqueue.TypedRateLimiting[int], options workqueue.RunOptions[int]) (cancel func()) {
	discard := logr.Discard()
	options.Logger, options.OnStop = &discard, r.excuse
	if r.rnd.IntN(2) == 0 {
		options.OnResult = r.checkResult
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.actors.Go(func() {
		err := workqueue.Run(asker{ctx, r.queue}, q, r.handle, options)
		switch {
		case err == nil, options.AtEnd == workqueue.EndDrain && errors.Is(err, workqueue.ErrNotDrained), err == workqueue.ErrShutDown:
		default:
			r.tally.violation(wrongDrain, "Run returned %v, with %s", err, r.recipe.text)
		}
	})
	return cancel
}

// An asker is a context whose Value calls the queue. Package context calls Value when
// a context that descends from the asker is made or ended.
type asker struct {
	context.Context
	queue queue
}

func (c asker) Value(key any) any {
	c.queue.Len()
	return c.Context.Value(key)
}

// excuse excuses the queued items that Run leaves behind. No other item may be lost.
func (r *round) excuse(_ context.Context, left workqueue.Snapshot[int]) {
	for _, info := range left.Queued {
		if info.Item < items {
			r.accounts[info.Item].excuse()
		}
	}
}

// checkResult checks a result that OnResult receives, while the item is still held.
func (r *round) checkResult(ctx context.Context, item int, result workqueue.HandlerResult) {
	info, ok := workqueue.ItemInfoFromContext[int](ctx)
	succeeded := result.Outcome == workqueue.OutcomeSucceeded
	if !ok || info.Item != item || succeeded != (result.Err == nil) || succeeded && (result.Again || result.Failures != 0) || result.Took < 0 {
		r.tally.violation(wrongDrain, "OnResult was told %+v of item %d, with the context of %v", result, item, info.Item)
	}
}

// handle is hold for Run, which calls Done itself. After an error Run may add the
// item again: outcome counts the add, but announces no version.
func (r *round) handle(ctx context.Context, item int) error {
	if item >= items { // A visitor of a lasting round.
		return nil
	}
	account := &r.accounts[item]
	if strict(item) {
		account.worked++
		r.inHand.Add(1)
		if n := account.held.Add(1); n != 1 {
			r.tally.violation(twoWorkers, "%d workers hold item %d, with %s", n, item, r.recipe.text)
		}
		defer func() {
			account.removedBefore.Store(account.removed.Load())
			r.inHand.Add(-1)
			account.held.Add(-1)
		}()
	}
	account.see()
	return r.outcome(ctx, item)
}

func (r *round) outcome(ctx context.Context, item int) error {
	account, kind := &r.accounts[item], rand.IntN(64)
	if kind < 6 {
		account.adds.Add(1)
	}
	switch kind {
	case 0, 1:
		return errors.New("failed")
	case 2, 3:
		return workqueue.RequeueAfter(time.Duration(rand.IntN(1000)) * time.Microsecond)
	case 4:
		panic(fault("handler"))
	case 5:
		runtime.Goexit()
	case 6:
		return workqueue.Permanent(errors.New("failed for good"))
	case 7, 8, 9:
		return r.linger(ctx, item)
	}
	return nil
}

// linger waits for a while. If an Add of the item cancels the handler meanwhile, the handler returns
// with its work undone, half of the time after it has removed its own item. A worker must then see the
// item again, unless it was removed since the hand-out: Run does not retry such an item.
func (r *round) linger(ctx context.Context, item int) error {
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Microsecond):
	}
	if context.Cause(ctx) != workqueue.ErrReAdded || !strict(item) {
		return nil
	}
	account := &r.accounts[item]
	if rand.IntN(2) == 0 {
		account.removing.Add(1)
		r.queue.Remove(item)
		account.removed.Add(1)
	}
	account.owed.Store(true)
	if account.removing.Load() > account.removedBefore.Load() {
		account.excuse()
	}
	return ctx.Err()
}
