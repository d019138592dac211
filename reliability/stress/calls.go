package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed16c08ea7/workqueue"
)

// callsOf returns the calls from which an actor chooses. A call that is listed
// several times is chosen more often. Calls that delay or remove items are rare:
// otherwise few items would reach the workers.
func callsOf(q queue, r *recipe) (calls []func(*actor)) {
	calls = slices.Repeat([]func(*actor){(*actor).callAdd}, 40)
	calls = append(calls, (*actor).callLen, (*actor).callDone, (*actor).callDone, (*actor).callAddAll, (*actor).callSnapshot,
		func(a *actor) { a.callRemove(q.Remove) }, (*actor).callRemoveFunc,
		func(a *actor) { a.callWait(q.WaitIdle) }, func(a *actor) { a.callWait(q.Barrier) })
	if q, ok := q.(delayer); ok {
		calls = append(calls, slices.Repeat([]func(*actor){func(a *actor) { a.callAddAfter(q) }}, 12)...)
		calls = append(calls, func(a *actor) { a.callReschedule(q) }, func(a *actor) { a.callDebounce(q) })
	}
	if q, ok := q.(rateLimiter); ok {
		add := func(a *actor) { a.addRateLimited(q, a.item()) }
		forget := func(a *actor) { a.guarded(func() { q.Forget(a.item()) }) }
		calls = append(calls, add, add, add, add, forget)
	}
	if r.prioritizes {
		calls = append(calls, slices.Repeat([]func(*actor){(*actor).callAddWith}, 30)...)
	}
	if r.series != nil {
		calls = append(calls, func(a *actor) { a.scrape(r.series) })
	}
	return calls
}

// item chooses an item below far.
func (a *actor) item() int {
	if a.rnd.IntN(4) == 0 {
		return a.rnd.IntN(hot)
	}
	return a.rnd.IntN(far)
}

// soon chooses a delay that is short beside the patience.
func (a *actor) soon() time.Duration {
	return time.Duration(1 + a.rnd.IntN(1<<a.rnd.IntN(22))) // 1 ns to 2 ms
}

func (a *actor) callAdd() { a.add(a.item(), a.queue.Add) }

// callAddAll adds the items one by one if AddAll does not return. A Queue that
// panics in AddAll leaves the rest of the items out.
func (a *actor) callAddAll() {
	all := make([]int, 1+a.rnd.IntN(20))
	for i := range all {
		all[i] = a.item()
		a.announce(all[i])
	}
	added := false
	defer func() {
		if !added {
			for _, item := range all {
				alone(func() { a.add(item, a.queue.Add) })
			}
		}
	}()
	a.guarded(func() {
		a.queue.AddAll(all...)
		added = true
	})
}

func (a *actor) callAddAfter(q delayer) {
	switch a.rnd.IntN(10) {
	case 0:
		a.add(a.item(), func(item int) { q.AddAfter(item, 0) })
	case 1:
		a.add(a.item(), func(item int) { q.AddAfter(item, math.MinInt64) })
	case 2:
		item := far + a.rnd.IntN(alien-far)
		a.accounts[item].adds.Add(1)
		a.guarded(func() { q.AddAfter(item, math.MaxInt64-time.Duration(a.rnd.IntN(3))*1000*time.Hour) })
	default:
		a.addLater(a.item(), func(item int) { q.AddAfter(item, a.soon()) })
	}
}

// callAddWith names a priority and, if the queue has delays, sometimes a delay.
func (a *actor) callAddWith() {
	priority := a.rnd.IntN(9) - 4
	options := workqueue.AddOptions{Priority: &priority}
	if a.recipe.layer > 0 && a.rnd.IntN(3) == 0 {
		options.After = a.soon()
		a.addLater(a.item(), func(item int) { a.queue.AddWith(options, item) })
		return
	}
	a.add(a.item(), func(item int) { a.queue.AddWith(options, item) })
}

// callLen also checks that no item is queued twice: Len is at most the number of items.
func (a *actor) callLen() {
	n := 0
	a.guarded(func() { n = a.queue.Len() })
	if n < 0 || n > a.most {
		a.tally.violation(lengthWrong, "%d of %d distinct items are queued, with %s", n, a.most, a.recipe.text)
	}
	a.queue.ShuttingDown()
}

// callDone calls Done as a stranger does, for a loose or an alien item.
func (a *actor) callDone() {
	item := loose + a.rnd.IntN(far-loose)
	if a.rnd.IntN(4) == 0 {
		item = alien + a.rnd.IntN(items-alien)
	}
	a.guarded(func() { a.queue.Done(item) })
	if a.recipe.metrics != nil && a.recipe.traps {
		// A Get whose metric fails puts its item back, unless Done for the item came
		// first. The item may be lost in the second case.
		raise(&a.accounts[item].excused, a.accounts[item].announced.Load())
	}
}

// callRemove excuses an item that a removal had: the queue drops the item, and Run does not retry a held
// item that was removed.
func (a *actor) callRemove(remove func(item int) bool) {
	item := a.item()
	account := &a.accounts[item]
	removed := true // Also after a panic of the removal: the item may be gone.
	defer func() {
		if removed {
			// After the removal and not before: the removal may take an item that a handler has owed since.
			account.excuse()
		}
	}()
	account.removing.Add(1)
	defer account.removed.Add(1)
	a.guarded(func() { removed = remove(item) })
}

func (a *actor) callRemoveFunc() {
	a.callRemove(func(item int) bool { return a.queue.RemoveFunc(func(i int) bool { return i == item }) > 0 })
}

// callWait waits for at most some milliseconds. A wait that goes on after its context would hang
// the round.
func (a *actor) callWait(wait func(ctx context.Context) error) {
	a.guarded(func() {
		ctx, cancel := context.WithTimeout(context.Background(), a.soon())
		defer cancel()
		if err := wait(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, workqueue.ErrShutDown) {
			a.tally.violation(lengthWrong, "a wait has ended with %v", err)
		}
	})
}

func (a *actor) callReschedule(q delayer) {
	if a.rnd.IntN(4) == 0 {
		a.add(a.item(), func(item int) { q.Reschedule(item, 0) })
		return
	}
	a.addLater(a.item(), func(item int) { q.Reschedule(item, a.soon()) })
}

func (a *actor) callDebounce(q delayer) {
	maxWait := time.Duration(a.rnd.IntN(3)) * time.Millisecond // 0 is no maximum.
	if a.rnd.IntN(4) == 0 {
		a.add(a.item(), func(item int) { q.Debounce(item, 0, maxWait) })
		return
	}
	quiet := a.soon()
	if maxWait > 0 {
		quiet = min(quiet, maxWait)
	}
	a.addLater(a.item(), func(item int) { q.Debounce(item, quiet, maxWait) })
}

func (a *actor) callSnapshot() {
	limit := a.rnd.IntN(20)
	a.guarded(func() {
		for info := range a.queue.Items() {
			if info.Item < 0 {
				a.tally.violation(lengthWrong, "a visit of %v", info)
			}
		}
		s := a.queue.Snapshot(limit)
		if len(s.Queued) > limit || len(s.InFlight) > limit || len(s.Waiting) > limit || s.QueuedTotal > a.most {
			a.tally.violation(lengthWrong, "snapshot of at most %d has %d, %d and %d items, %d are queued",
				limit, len(s.Queued), len(s.InFlight), len(s.Waiting), s.QueuedTotal)
		}
	})
}

// scrape gathers the series as Prometheus does, in 1 of 50 calls.
func (a *actor) scrape(series *prometheus.Registry) {
	if a.rnd.IntN(50) > 0 {
		return
	}
	if _, err := series.Gather(); err != nil {
		a.tally.violation(wrongSeries, "%v, with %s", err, a.recipe.text)
	}
}
