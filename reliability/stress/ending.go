package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// end shuts the queue down, possibly in several ways at once, while the actors
// go on. After the last actor has returned, end audits the accounts.
func (r *round) end() {
	r.at("shutting down")
	var enders, mopping sync.WaitGroup
	gone := make(chan struct{})
	mopping.Go(func() { r.mop(gone) })
	for range 1 + r.rnd.IntN(4) {
		kind, patience := r.rnd.IntN(3), time.Duration(r.rnd.IntN(2000))*time.Microsecond
		enders.Go(func() { r.guarded(func() { r.shutDown(kind, patience) }) })
	}
	enders.Wait()
	r.at("waiting for the workers")
	r.adding.Store(false)
	r.actors.Wait()
	close(gone)
	mopping.Wait()
	r.workOff()
	r.at("looking at what is left")
	alone(func() { r.guarded(r.checkEmpty) })
	r.checkSeries()
	r.over.Store(true)
	r.audit()
}

func (r *round) shutDown(kind int, patience time.Duration) {
	switch kind {
	case 0:
		r.closing.Store(true)
		r.queue.ShutDown()
	case 1:
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		r.checkDrain(r.queue.Drain(ctx))
	default:
		r.queue.ShutDownWithDrain()
		if !r.closing.Load() {
			r.checkDrained()
		}
	}
}

// checkDrained runs after a drain that no ShutDown has released. The queue accepts
// no more items, so the drain has left behind every item that checkDrained finds.
func (r *round) checkDrained() {
	if queued, held := r.queue.Len(), r.inHand.Load(); queued > 0 || held > 0 {
		r.tally.violation(earlyDrain, "%d items are queued and %d in hand, with %s", queued, held, r.recipe.text)
	}
}

func (r *round) checkDrain(err error) {
	var left *workqueue.DrainError[int]
	switch {
	case err == nil:
		r.checkDrained()
	case !errors.As(err, &left):
		r.tally.violation(wrongDrain, "%v is no DrainError", err)
	case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, workqueue.ErrShutDown):
		r.tally.violation(wrongDrain, "%v has no cause", err)
	case left.Left.QueuedTotal+left.Left.InFlightTotal == 0 || left.Left.QueuedTotal != len(left.Left.Queued) ||
		left.Left.InFlightTotal != len(left.Left.InFlight) || left.Left.WaitingTotal != len(left.Left.Waiting):
		r.tally.violation(wrongDrain, "%v, but it lists %d queued, %d in flight, %d waiting, with %s",
			err, len(left.Left.Queued), len(left.Left.InFlight), len(left.Left.Waiting), r.recipe.text)
	}
}

// mop calls Done for forgotten items, because a drain waits for them. Such a Done
// can queue the item again, after all workers have found the queue empty and left:
// mop then starts a new worker.
func (r *round) mop(gone <-chan struct{}) {
	for {
		select {
		case <-gone:
			return
		case <-time.After(200 * time.Microsecond):
		}
		r.flush()
		if r.queue.ShuttingDown() && r.queue.Len() > 0 {
			r.oneMore()
		}
	}
}

// oneMore runs a worker until the queue is empty. The result is false if foreign
// code has ended the worker before.
func (r *round) oneMore() (returned bool) {
	a := &actor{round: r, rnd: rand.New(rand.NewPCG(rand.Uint64(), 0)), worker: true}
	alone(func() {
		a.loop()
		returned = true
	})
	return returned
}

// workOff handles the last items of a queue that is shut down.
func (r *round) workOff() {
	for from := time.Now(); time.Since(from) < r.patience; {
		r.flush()
		ended := r.oneMore()
		r.mu.Lock()
		left := len(r.stash)
		r.mu.Unlock()
		if left == 0 && ended {
			return
		}
	}
}

// checkEmpty checks that an ended queue has no items, and that Drain returns at once.
func (r *round) checkEmpty() {
	if n, held := r.queue.Len(), r.inHand.Load(); n != 0 || held != 0 || !r.queue.ShuttingDown() {
		r.tally.violation(leftQueued, "%d items, and %d in hand, shutting down %v, with %s",
			n, held, r.queue.ShuttingDown(), r.recipe.text)
	}
	if s := r.queue.Snapshot(items); s.QueuedTotal+s.InFlightTotal+s.WaitingTotal > 0 {
		r.tally.violation(lengthWrong, "in the end the snapshot is %v, with %s", s, r.recipe.text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.patience)
	defer cancel()
	if err := r.queue.Drain(ctx); err != nil {
		r.tally.violation(wrongDrain, "in the end Drain says %v, with %s", err, r.recipe.text)
	}
}

// checkSeries checks that an ended queue has no series, except its abandoned items.
func (r *round) checkSeries() {
	if r.recipe.series == nil {
		return
	}
	families, err := r.recipe.series.Gather()
	for _, family := range families {
		if family.GetName() != "workqueue_abandoned_total" {
			r.tally.violation(wrongSeries, "%s is left, with %s", family.GetName(), r.recipe.text)
		}
	}
	if err != nil {
		r.tally.violation(wrongSeries, "%v, with %s", err, r.recipe.text)
	}
}

// checkGoroutines waits for the goroutines of a round to end. A goroutine whose work
// is done ends within a moment, except on a busy machine.
func checkGoroutines(o *options, t *tally, before int, what string) {
	after := runtime.NumGoroutine()
	for from := time.Now(); time.Since(from) < max(time.Second, o.patience/2); {
		if after <= before {
			return
		}
		time.Sleep(time.Millisecond)
		after = runtime.NumGoroutine()
	}
	t.violation(goroutines, "%d after a queue has ended, %d before, with %s", after, before, what)
}
