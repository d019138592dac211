package main

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

// A round plays a queue from its beginning to its end, and keeps the accounts of the items.
type round struct {
	*options
	tally   *tally
	rnd     *rand.Rand
	recipe  *recipe
	queue   queue
	calls   []func(*actor)
	most    int                    // items in the queue
	phase   atomic.Pointer[string] // named if the round hangs
	actors  sync.WaitGroup
	adding  atomic.Bool // actors add; otherwise workers only empty the queue
	closing atomic.Bool // a ShutDown has been called, which releases drains
	over    atomic.Bool // nobody may call the queue any more

	accounts [items]account
	inHand   atomic.Int64 // strict items that workers hold
	quiet    time.Duration

	mu    sync.Mutex
	stash []int // items that workers took and forgot
}

func newRound(o *options, t *tally, rnd *rand.Rand) *round {
	r := &round{options: o, tally: t, rnd: rnd, most: items}
	r.at("making the queue")
	r.open(newRecipe(rnd, rnd.IntN(3), true, r.callBack))
	return r
}

func (r *round) open(k *recipe) {
	r.recipe = k
	r.queue = k.make()
	r.calls = callsOf(r.queue, k)
}

func (r *round) at(phase string) { r.phase.Store(&phase) }

// callBack lets foreign code call its queue, in the middle of a call of the queue.
func (r *round) callBack() {
	if r.over.Load() || r.queue == nil {
		return
	}
	if r.adding.Load() && rand.IntN(2) == 0 {
		r.add(rand.IntN(loose), r.queue.Add)
		return
	}
	r.queue.Len()
}

// add announces a version of the item and calls f, which adds the item without delay.
func (r *round) add(item int, f func(int)) {
	version := r.announce(item)
	unplaced := false // A function of an order has panicked, so nothing was added.
	defer func() {    // Even if foreign code has ended the goroutine.
		if !unplaced && !r.queue.ShuttingDown() {
			raise(&r.accounts[item].accepted, version)
		}
	}()
	r.guarded(func() {
		defer func() {
			p := recover()
			if unplaced = p == fault(badOrder); p != nil {
				panic(p)
			}
		}()
		f(item)
	})
}

// addLater is add for an f with a delay. A shutdown drops waiting items, so the version
// does not count as accepted.
func (r *round) addLater(item int, f func(int)) {
	r.announce(item)
	r.guarded(func() { f(item) })
}

func (r *round) announce(item int) (version int64) {
	if !r.queue.ShuttingDown() {
		r.accounts[item].adds.Add(1)
	}
	return r.accounts[item].announced.Add(1)
}

// guarded calls f, and recovers panics of foreign code. If a function of an order has
// panicked, nothing was added, and guarded calls f again. Any other panic is a violation.
func (r *round) guarded(f func()) {
	for r.panics(f) == badOrder {
	}
}

// badOrder is the panic of a function of an order.
const badOrder = "order"

func (r *round) panics(f func()) (made fault) {
	defer func() {
		var ok bool
		p := recover()
		if made, ok = p.(fault); p != nil && !ok {
			r.tally.violation(panicked, "%v, with %s", p, r.recipe.text)
		}
	}()
	f()
	return ""
}

// forget stashes an item instead of calling Done. flush calls Done for all stashed
// items.
func (r *round) forget(item int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stash = append(r.stash, item)
}

func (r *round) flush() {
	r.mu.Lock()
	stash := r.stash
	r.stash = nil
	r.mu.Unlock()
	for _, item := range stash {
		alone(func() { r.finish(item) })
	}
}

// alone calls f on a new goroutine, because foreign code may end the goroutine of f.
func alone(f func()) {
	var wg sync.WaitGroup
	wg.Go(f)
	wg.Wait()
}

// finish ends the hold of an item and calls Done.
func (r *round) finish(item int) {
	if strict(item) {
		r.inHand.Add(-1)
		r.accounts[item].held.Add(-1)
	}
	r.guarded(func() { r.queue.Done(item) })
}

// passTime sets the clock forwards, so that waiting items come due.
func (r *round) passTime() {
	d, delays := r.queue.(delayer)
	switch c := r.recipe.clock.(type) {
	case *testingclock.FakeClock:
		c.Step(time.Hour)
	case *leaper:
		raise(&c.offset, int64(72*time.Hour))
		c.offset.Add(int64(time.Hour))
		if delays { // The timers notice after up to 10 s, AddAfter at once.
			r.accounts[far].adds.Add(1)
			alone(func() { r.guarded(func() { d.AddAfter(far, 1) }) })
		}
	}
}

// moveClock sets the clock forwards and back while others call the queue.
func (r *round) moveClock(rnd *rand.Rand) {
	switch c := r.recipe.clock.(type) {
	case *testingclock.FakeClock:
		step := time.Duration(rnd.IntN(4000)-1000) * time.Microsecond
		c.SetTime(c.Now().Add(step))
	case *leaper:
		c.leap()
	}
}

// settle waits until the queue is empty and workers have seen every announced
// version. The result is false if the patience ends first.
func (r *round) settle() bool {
	r.at("settling")
	from := time.Now()
	for wait := 10 * time.Microsecond; ; wait = min(2*wait, time.Millisecond) {
		r.flush()
		if r.settled() {
			r.quiet = max(r.quiet, time.Since(from))
			return true
		}
		if time.Since(from) > r.patience {
			r.reportUnsettled()
			return false
		}
		r.passTime()
		time.Sleep(wait)
	}
}

func (r *round) settled() bool {
	if r.inHand.Load() > 0 || r.queue.Len() > 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.stash) == 0 && !slices.ContainsFunc(r.each(), (*account).pending)
}

func (r *round) each() []*account {
	all := make([]*account, len(r.accounts))
	for i := range r.accounts {
		all[i] = &r.accounts[i]
	}
	return all
}

func (r *round) reportUnsettled() {
	found := false
	for item, a := range r.each() {
		if a.pending() {
			found = true
			r.tally.violation(lost, "version %d of item %d, last seen %d, with %s", a.announced.Load(), item, a.seen.Load(), r.recipe.text)
		}
	}
	if !found {
		r.tally.violation(hang, "%d items are queued and %d in hand, with %s", r.queue.Len(), r.inHand.Load(), r.recipe.text)
	}
}

// audit checks the accounts at the end of the round.
func (r *round) audit() {
	adds, gets := 0, 0
	for item, a := range r.each() {
		adds += int(a.adds.Load())
		gets += int(a.gets.Load())
		if a.gets.Load() > a.adds.Load() {
			r.tally.violation(phantom, "item %d was added %d times and handed out %d times, with %s", item, a.adds.Load(), a.gets.Load(), r.recipe.text)
		}
		if a.missed() {
			r.tally.violation(lostAtEnd, "version %d of item %d, last seen %d, with %s", a.accepted.Load(), item, a.seen.Load(), r.recipe.text)
		}
	}
	r.tally.count(adds, gets, r.quiet)
}
