package main

import (
	"math/rand/v2"
	"runtime"
	"time"
)

// rounds are the kinds of rounds. A kind that is listed twice is played more often.
//
// The accounts are checked at the end of a burst. A burst hardly finds a lost add,
// because a later add of the item hides the loss. So bursts are short, and in
// other rounds each item is added once.
var rounds = []func(*round){(*round).burst, (*round).burst, (*round).oneShot, (*round).oneShot, (*round).withRun}

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
	switch kind := r.rnd.IntN(8); {
	case kind == 0 && delays:
		r.addLater(item, func(int) { delayer.AddAfter(item, a.soon()) })
	case kind == 1 && limits:
		a.addRateLimited(limited, item)
	case kind == 2 && delays:
		r.addLater(item, func(int) { delayer.Reschedule(item, a.soon()) })
	case kind == 3 && delays:
		r.addLater(item, func(int) { delayer.Debounce(item, min(a.soon(), time.Millisecond), time.Millisecond) })
	default:
		r.add(item, r.queue.Add)
	}
}
