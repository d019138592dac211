package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// An actor is a goroutine that calls the queue at random. Half of the actors
// mostly add items, and return when adding ends. The other half are workers, and
// mostly handle items. Only workers call Get, and only workers go on until the
// queue is shut down.
type actor struct {
	*round
	rnd    *rand.Rand
	worker bool
}

// start starts the actors. Every second actor is a worker.
func (r *round) start() {
	r.adding.Store(true)
	for i := range r.goroutines {
		r.startOne(i%2 == 1)
	}
}

func (r *round) startOne(worker bool) {
	a := &actor{round: r, rnd: rand.New(rand.NewPCG(r.rnd.Uint64(), 0)), worker: worker}
	a.run()
}

// run starts the goroutine, and starts a new goroutine if foreign code ends the first.
func (a *actor) run() {
	a.actors.Go(func() {
		returned := false
		defer func() {
			if !returned {
				a.run()
			}
		}()
		a.loop()
		returned = true
	})
}

func (a *actor) loop() {
	for {
		switch adding := a.adding.Load(); {
		case !adding && !a.worker:
			return
		case adding && a.rnd.IntN(8) > 0 != a.worker:
			a.calls[a.rnd.IntN(len(a.calls))](a)
		case !a.work(adding):
			return
		}
	}
}

// work takes an item, if there is any, and handles the item as a worker does. The
// result is false when the queue is shut down.
func (a *actor) work(adding bool) (more bool) {
	item, ok, more := -1, false, true
	a.guarded(func() { item, ok, more = a.take(adding) })
	if ok {
		a.hold(item)
	}
	return more
}

func (a *actor) take(adding bool) (item int, ok, more bool) {
	switch kind := a.rnd.IntN(9); {
	case kind < 3:
		return a.takeBefore()
	case !a.worker || adding && kind < 5:
		item, ok = a.queue.TryGet()
		return item, ok, true
	case kind < 6:
		info, err := a.queue.GetInfo(context.Background())
		return info.Item, err == nil, err == nil
	}
	item, shutdown := a.queue.Get()
	return item, !shutdown, !shutdown
}

// takeBefore takes an item with a context whose deadline is random.
func (a *actor) takeBefore() (item int, ok, more bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(a.rnd.IntN(500))*time.Microsecond)
	defer cancel()
	item, err := a.queue.GetContext(ctx)
	switch {
	case err == nil:
		return item, true, true
	case errors.Is(err, workqueue.ErrShutDown):
		return 0, false, false
	case ctx.Err() == nil:
		a.tally.violation(panicked, "GetContext returned %v, and the context has not ended", err)
	}
	return 0, false, true
}

// hold handles an item from Get to Done. A forgotten item gets its Done from flush.
func (a *actor) hold(item int) {
	if item >= items { // A visitor of a lasting round.
		a.guarded(func() { a.queue.Done(item) })
		return
	}
	account := &a.accounts[item]
	if strict(item) {
		account.worked++
		a.inHand.Add(1)
		if n := account.held.Add(1); n != 1 {
			a.tally.violation(twoWorkers, "%d workers hold item %d, with %s", n, item, a.recipe.text)
		}
	}
	account.see()
	if a.rnd.IntN(32) == 0 {
		a.forget(item)
		return
	}
	defer a.finish(item)
	a.process(item)
}

func (a *actor) process(item int) {
	switch kind := a.rnd.IntN(64); {
	case kind < 4:
		a.addAgain(item)
	case kind < 8:
		a.retry(item)
	case kind < 16:
		runtime.Gosched()
	case kind < 18:
		time.Sleep(time.Duration(a.rnd.IntN(50)) * time.Microsecond)
	case kind < 20:
		a.guarded(func() { panic(fault("worker")) })
	case kind == 20:
		runtime.Goexit()
	}
}

func (a *actor) addAgain(item int) {
	if a.adding.Load() && item < far {
		a.add(item, a.queue.Add)
	}
}

// retry calls AddRateLimited, as after a failure, or Forget, as after a success.
// While actors add, half of the calls are failures.
func (a *actor) retry(item int) {
	q, ok := a.queue.(rateLimiter)
	switch {
	case !ok:
	case a.adding.Load() && a.rnd.IntN(2) == 0 && item < far:
		a.addRateLimited(q, item)
	default:
		a.guarded(func() {
			q.Forget(item)
			q.NumRequeues(item)
		})
	}
}

// addRateLimited adds the item without the limiter if AddRateLimited does not return.
func (a *actor) addRateLimited(q rateLimiter, item int) {
	added := false
	defer func() {
		if !added {
			a.add(item, a.queue.Add)
		}
	}()
	a.addLater(item, func(int) {
		q.AddRateLimited(item)
		added = true
	})
}
