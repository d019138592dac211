package main

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed16c08ea7/workqueue"
)

// rounds are the kinds of rounds. A kind that is listed twice is played more often.
//
// The accounts are checked at the end of a burst. A burst hardly finds a lost add,
// because a later add of the item hides the loss. So bursts are short, and in
// other rounds each item is added once.
var rounds = []func(*round){(*round).burst, (*round).burst, (*round).oneShot, (*round).oneShot, (*round).inOrder, (*round).abandon, (*round).withRun}

// play plays a round, and reports whether the round has ended.
func play(o *options, t *tally, seed uint64) bool {
	rnd := rand.New(rand.NewPCG(seed, o.seed))
	before := runtime.NumGoroutine()
	r := newRound(o, t, rnd)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rounds[rnd.IntN(len(rounds))](r)
	}()
	select {
	case <-ended:
		checkGoroutines(o, t, before, r.recipe.text)
		return true
	case <-time.After(3*o.patience + time.Second):
		t.violation(hang, "round %d: %s, with %s", seed, *r.phase.Load(), r.recipe.text)
		return false
	}
}

// burst runs all actors for up to 50 ms. Half of the bursts end the queue while the
// actors still add.
func (r *round) burst() {
	r.at("a burst")
	r.start()
	clocks := rand.New(rand.NewPCG(r.rnd.Uint64(), 0))
	for range 1 + r.rnd.IntN(50) {
		time.Sleep(time.Millisecond)
		r.moveClock(clocks)
	}
	if r.rnd.IntN(2) == 0 {
		r.adding.Store(false)
		r.settle()
	}
	r.end()
}

// oneShot adds each item once, calls Done as strangers do, and then starts the workers.
func (r *round) oneShot() {
	r.at("one shot")
	a := &actor{round: r, rnd: r.rnd}
	for _, item := range r.rnd.Perm(far) {
		alone(func() { r.addOnce(a, item) })
	}
	for range 3 * items {
		alone(func() { r.guarded(func() { r.queue.Done(r.rnd.IntN(items)) }) })
	}
	r.start()
	r.adding.Store(false)
	r.settle()
	r.end()
}

func (r *round) addOnce(a *actor, item int) {
	delayer, delays := r.queue.(delayer)
	limited, limits := r.queue.(rateLimiter)
	rescheduler, reschedules := r.queue.(rescheduler)
	switch kind := r.rnd.IntN(8); {
	case kind == 0 && delays:
		r.addLater(item, func(int) { delayer.AddAfter(item, a.soon()) })
	case kind == 1 && limits:
		a.addRateLimited(limited, item)
	case kind == 2 && reschedules:
		r.addLater(item, func(int) { rescheduler.Reschedule(item, a.soon()) })
	case kind == 3 && reschedules:
		r.addLater(item, func(int) { rescheduler.Debounce(item, min(a.soon(), time.Millisecond), time.Millisecond) })
	default:
		r.add(item, r.queue.Add)
	}
}

// inOrder passes distinct items from one producer to one consumer.
func (r *round) inOrder() {
	r.at("in order")
	const n, backlog = 20_000, 5_000
	q := r.impl.plain()
	var taken atomic.Int64
	var producing sync.WaitGroup
	producing.Go(func() {
		for i := range n {
			for i-int(taken.Load()) > backlog {
				runtime.Gosched()
			}
			q.Add(i)
		}
	})
	for i := range n {
		item, shutdown := q.Get()
		if item != i || shutdown {
			r.tally.violation(disorder, "item %d was handed out at place %d", item, i)
		}
		taken.Add(1)
		q.Done(item)
	}
	producing.Wait()
	q.ShutDown()
	r.queue.ShutDown()
	r.tally.count(n, n, 0)
}

// abandon ends a queue whose items are all known. The queue has a recipe without
// traps and limits: the numbers must be exact, and a single worker holds many items.
func (r *round) abandon() {
	r.at("abandoning")
	r.queue.ShutDown()
	r.recipe = newRecipe(r.rnd, r.impl, false, false, nil)
	r.recipe.order.MaxInFlight = nil
	r.queue = r.impl.make(r.recipe)
	queued, held, waiting := 1+r.rnd.IntN(20), 1+r.rnd.IntN(20), 0
	for item := range queued + held {
		r.queue.Add(item)
	}
	var inHand []int
	for range held {
		item, _ := r.queue.Get()
		inHand = append(inHand, item)
	}
	if q, ok := r.queue.(delayer); ok {
		waiting = r.rnd.IntN(20)
		for item := range waiting {
			q.AddAfter(queued+held+item, math.MaxInt64) // Not the queued items: with OneEntry, a queued item does not wait.
		}
	}
	if q, ok := r.queue.(drainer); ok {
		r.abandonOnce(q, queued, held, waiting)
	}
	r.drainSlowly(inHand, queued)
	r.tally.count(queued+held+waiting, queued+held, 0)
}

// abandonOnce ends the queue with several drains at once. Each drain must list the
// queued and the held items, and at least one drain must list all waiting items.
func (r *round) abandonOnce(q drainer, queued, held, waiting int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.rnd.IntN(500))*time.Microsecond)
	defer cancel()
	var drains sync.WaitGroup
	var told atomic.Bool
	for range 3 {
		drains.Go(func() {
			var left *workqueue.DrainError[int]
			err := q.Drain(ctx)
			if !errors.As(err, &left) || left.Left.QueuedTotal != queued || left.Left.InFlightTotal != held || len(left.Left.Waiting) != left.Left.WaitingTotal {
				r.tally.violation(wrongDrain, "%v, but there are %d queued, %d in flight, with %s", err, queued, held, r.recipe.text)
				return
			}
			if left.Left.WaitingTotal == waiting {
				told.Store(true)
			}
			clear(left.Left.Waiting) // Drains share no list.
		})
	}
	drains.Wait()
	if !told.Load() {
		r.tally.violation(wrongDrain, "no drain tells of the %d that waited, with %s", waiting, r.recipe.text)
	}
}

// drainSlowly checks that a drain returns after the Done of the last item, and not
// before.
func (r *round) drainSlowly(inHand []int, queued int) {
	var drains sync.WaitGroup
	var returned atomic.Int32
	drain := func() {
		r.queue.ShutDownWithDrain()
		returned.Add(1)
	}
	for range 2 {
		drains.Go(func() { r.guarded(drain) })
	}
	for left := queued + len(inHand); left > 0; left-- {
		runtime.Gosched()
		if returned.Load() > 0 {
			r.tally.violation(earlyDrain, "%d of %d items are left, with %s", left, queued+len(inHand), r.recipe.text)
			break
		}
		if len(inHand) == 0 {
			item, _ := r.queue.Get()
			inHand = append(inHand, item)
		}
		r.queue.Done(inHand[0])
		inHand = inHand[1:]
	}
	r.at("waiting for drains of which nothing is left")
	drains.Wait()
}
