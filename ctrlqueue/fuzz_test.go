package ctrlqueue_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// This file plays random calls on both queues and compares what they return. There are
// two games, as the place of an item in its level differs in the two cases that the
// README has:
//
//	levels of its own	each item has levels that no other has, and all calls are allowed
//	common levels		the items share three levels, and no call is made that is one of the two cases

type game struct {
	ours, theirs *play
	items        []track
	common       bool
	calls        int
	log          []string
	parked       int
}

// A track has the facts about an item: whether it is ready or held, and when it is due.
type track struct {
	ready, held, waits bool
	due                time.Time
	failures           int
	retry              time.Time // when the limiter lets the item come again
	early              bool      // handed out before retry: a failure is the difference "early failure"
}

const fuzzItems = 6

func FuzzBothQueues(f *testing.F) {
	f.Fuzz(func(t *testing.T, script []byte, common bool) { playBoth(t, script, common) })
}

// TestBothQueuesRandom is a short search, in each test run.
func TestBothQueuesRandom(t *testing.T) {
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 16))
		script := make([]byte, 20+random.IntN(200))
		for i := range script {
			script[i] = byte(random.Uint32())
		}
		playBoth(t, script, seed%2 == 0)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func playBoth(t *testing.T, script []byte, common bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &game{ours: newPlay(t, ours, spread{newLimiter()}), theirs: newPlay(t, theirs, spread{newLimiter()}), items: make([]track, fuzzItems), common: common}
		defer g.ours.end()
		defer g.theirs.end()
		for len(script) >= 3 && !t.Failed() {
			g.call(script[0], script[1], script[2])
			script = script[3:]
			g.calls++
			g.compareAll()
		}
		if t.Failed() {
			t.Log("\n" + strings.Join(g.log, "\n"))
		}
	})
}

// call makes one call on both queues: a chooses the item, b the rest.
func (g *game) call(kind, a, b byte) {
	i := int(a) % fuzzItems
	switch kind % 16 {
	case 0, 1, 2, 3, 4:
		g.add(i, b, priorityqueue.AddOpts{})
	case 5, 6:
		g.add(i, b, priorityqueue.AddOpts{After: g.unique(time.Duration(1+b%8) * sec)})
	case 7:
		g.add(i, b, priorityqueue.AddOpts{RateLimited: true})
	case 8:
		g.add(i, b, priorityqueue.AddOpts{RateLimited: true, After: g.unique(time.Duration(1+b%8) * sec)})
	case 9, 10, 11:
		g.get()
	case 12, 13:
		g.done(i)
	case 14:
		g.sleep(g.unique(time.Duration(b%32) * 300 * time.Millisecond))
	case 15:
		g.forget(i, b)
	}
}

// spread is a limiter whose times differ from item to item, see unique.
type spread struct{ limiter }

func (s spread) When(item string) time.Duration {
	return s.limiter.When(item) + time.Duration(1+item[0]-'a')
}

// unique makes a time that no other item has: the order of two items that are due at one instant
// depends on earlier calls.
func (g *game) unique(d time.Duration) time.Duration {
	return d + time.Duration(g.calls)*time.Microsecond
}

func name(i int) string { return string(rune('a' + i)) }

func (g *game) add(i int, b byte, o priorityqueue.AddOpts) {
	item := &g.items[i]
	priority := int(b>>3)%3 - 1
	if !g.common {
		priority = (int(b>>3)-16)*fuzzItems + i
	}
	if priority != 0 || b%2 == 0 { // Priority 0 can be named in two ways.
		o.Priority = &priority
	}
	delay := o.After
	if o.RateLimited {
		limit := min(sec<<item.failures, time.Minute) + time.Duration(1+i)
		if delay == 0 || limit < delay {
			delay = limit
		}
	}
	if g.common && (item.held || delay == 0 && item.waits) || o.RateLimited && item.held && item.early {
		return
	}
	if o.RateLimited {
		item.retry = time.Now().Add(min(sec<<item.failures, time.Minute) + time.Duration(1+i))
		item.failures++
	}
	g.step(with(o, name(i)))
	switch due := time.Now().Add(delay); {
	case item.ready:
	case delay == 0:
		item.ready, item.waits = true, false
	case !item.waits || due.Before(item.due):
		item.waits, item.due = true, due
	}
}

// get sends a worker to each queue, and checks that both return the same.
func (g *game) get() {
	if g.parked == 1 { // Of two parked workers, either may get the item.
		return
	}
	mine, ok := g.ours.ask()
	other, okOther := g.theirs.ask()
	g.note(fmt.Sprintf("Get: %v, %v", mine, ok))
	g.same("Get", mine, ok, other, okOther)
	if !ok {
		g.parked++
		return
	}
	g.handedOut(mine)
}

func (g *game) handedOut(h hand) {
	for i := range g.items {
		if name(i) == h.item {
			g.items[i].ready, g.items[i].held = false, true
			g.items[i].early = time.Now().Before(g.items[i].retry)
		}
	}
}

func (g *game) done(i int) {
	g.items[i].held = false
	g.step(done(name(i)))
}

func (g *game) sleep(d time.Duration) {
	g.note(fmt.Sprintf("sleep %v", d))
	time.Sleep(d)
	synctest.Wait()
	for i := range g.items {
		if item := &g.items[i]; item.waits && !item.due.After(time.Now()) {
			item.waits, item.ready = false, true
		}
	}
}

// forget sometimes ends the game: after a shutdown both queues have to refuse all adds.
func (g *game) forget(i int, b byte) {
	if b < 4 {
		if !g.ours.shut {
			g.step(shutDown())
			g.parked = 0
			g.drop()
		}
		return
	}
	g.items[i].failures, g.items[i].retry, g.items[i].early = 0, time.Time{}, false
	g.step(forget(name(i)))
}

// drop collects the workers that the shutdown has released.
func (g *game) drop() {
	for {
		mine, ok := g.ours.arrived()
		other, okOther := g.theirs.arrived()
		g.same("a released worker", mine, ok, other, okOther)
		if !ok || !okOther {
			return
		}
	}
}

func (g *game) step(s step) {
	g.note(s.name)
	for _, p := range []*play{g.ours, g.theirs} {
		p.where = fmt.Sprintf("call %d, %s", g.calls, s.name)
		s.do(p)
	}
	synctest.Wait()
}

// compareAll compares the visible state after each call.
func (g *game) compareAll() {
	for g.parked > 0 {
		mine, ok := g.ours.arrived()
		other, okOther := g.theirs.arrived()
		g.same("a parked worker", mine, ok, other, okOther)
		if !ok || !okOther {
			break
		}
		g.parked--
		g.handedOut(mine)
	}
	again := 0
	for i := range g.items {
		if g.items[i].held && g.items[i].ready {
			again++
		}
		if n, m := g.ours.q.NumRequeues(name(i)), g.theirs.q.NumRequeues(name(i)); n != m {
			g.ours.errorf("NumRequeues of %s is %d, of controller-runtime %d", name(i), n, m)
		}
	}
	if n, m := g.ours.q.Len(), g.theirs.q.Len(); !g.ours.shut && n+again != m {
		g.ours.errorf("Len is %d, with %d held and added again, of controller-runtime %d", n, again, m)
	}
	if n, m := g.ours.q.ShuttingDown(), g.theirs.q.ShuttingDown(); n != m {
		g.ours.errorf("ShuttingDown is %v, of controller-runtime %v", n, m)
	}
}

// note keeps the call for the report of a failure.
func (g *game) note(what string) { g.log = append(g.log, fmt.Sprintf("%d: %s", g.calls, what)) }

func (g *game) same(what string, mine hand, ok bool, other hand, okOther bool) {
	g.ours.t.Helper()
	if mine != other || ok != okOther {
		g.ours.errorf("%s: %v, %v, of controller-runtime %v, %v", what, mine, ok, other, okOther)
	}
}
