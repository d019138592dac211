package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// An actor is a goroutine that makes calls at random. Half of them mostly add,
// the other half mostly work; only these may wait in Get, and go on until the
// queue is shut down.
type actor struct {
	*round
	rnd    *rand.Rand
	worker bool
}

// start lets the actors loose; those who only add end with adding.
func (r *round) start() {
	r.adding.Store(true)
	for i := range r.goroutines {
		a := &actor{round: r, rnd: rand.New(rand.NewPCG(r.rnd.Uint64(), uint64(i))), worker: i%2 == 1}
		a.run()
	}
}

// run starts the goroutine, and another one if foreign code ends it.
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

// work gets an item and does with it what workers do. It reports false when the
// queue is shut down.
func (a *actor) work(adding bool) (more bool) {
	item, ok, more := -1, false, true
	a.guarded(func() { item, ok, more = a.take(adding) })
	if ok {
		a.hold(item)
	}
	return more
}

func (a *actor) take(adding bool) (item int, ok, more bool) {
	if q, has := a.queue.(contextGetter); has && a.rnd.IntN(3) == 0 {
		return a.takeBefore(q)
	}
	q, has := a.queue.(tryGetter)
	switch {
	case has && (!a.worker || adding && a.rnd.IntN(3) == 0):
		item, ok = q.TryGet()
		return item, ok, true
	case !a.worker:
		return 0, false, true
	}
	if q, has := a.queue.(prioritizer); has && a.rnd.IntN(3) == 0 {
		info, err := q.GetInfo(context.Background())
		return info.Item, err == nil, err == nil
	}
	item, shutdown := a.queue.Get()
	return item, !shutdown, !shutdown
}

// takeBefore gets with a context that ends at any time.
func (a *actor) takeBefore(q contextGetter) (item int, ok, more bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(a.rnd.IntN(500))*time.Microsecond)
	defer cancel()
	item, err := q.GetContext(ctx)
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

// hold is what a worker does from Get to Done.
func (a *actor) hold(item int) {
	account := &a.accounts[item]
	if strict(item) {
		if !a.impl.shares {
			account.worked++
		}
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
	case kind < 20 && a.faults.Workers:
		a.guarded(func() { panic(fault("worker")) })
	case kind == 20 && a.faults.Workers:
		runtime.Goexit()
	}
}

func (a *actor) addAgain(item int) {
	if a.adding.Load() && item < far {
		a.add(item, a.queue.Add)
	}
}

// retry is what a worker does whose work has failed or, half of the time, has
// succeeded.
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

// addRateLimited adds the item without a limiter if that has prevented it.
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
