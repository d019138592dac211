package linearizability

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"
	cg "k8s.io/client-go/util/workqueue"

	"github.com/seed16c08ea7/workqueue"
)

// A fault is what is wrong with a naive queue.
type fault int

const (
	nothing fault = iota
	acceptsSpuriousDone
	losesAnAdd        // of what is held
	losesAnAddAtTimes // one in 50
	lastInFirstOut
	handsOutTwice
	cancelLosesItem
	addAllInPieces
	lenCountsHeld
	drainForgetsQueued
	drainForgetsHeld
	acceptsAfterShutDown
	shutDownDropsQueued
	removeKeepsReAdd
	removeSaysNothing
	drainForgetsAnError
	snapshotInPieces
	removeFuncKeepsReAdd
	idleForgetsHeld
	idleForgetsQueued
	barrierForgetsHeld
	barrierForgetsQueued
	barrierPassesAtTheTake
	faults
)

var faultNames = [faults]string{"no fault", "a spurious Done is accepted", "an Add of a held item is lost",
	"an Add is lost at times", "the last in is the first out", "an item is handed out twice", "a canceled GetContext loses its item",
	"AddAll is not one", "Len counts what is held", "a drain does not wait for the queued", "a drain does not wait for the held",
	"an Add is accepted after ShutDown", "ShutDown drops what is queued", "Remove leaves the re-add", "Remove always says false",
	"a Drain does not say what it leaves", "a Snapshot is not of one instant",
	"RemoveFunc leaves the re-add", "WaitIdle does not wait for the held", "WaitIdle does not wait for the queued",
	"a Barrier does not wait for the held", "a Barrier does not wait for the queued", "a Barrier takes a hand-out for the end"}

// A naive queue is one lock around slices that are searched: the same
// specification, written down a second time, with a fault if asked for.
type naive struct {
	fault fault

	mu                sync.Mutex
	changed           sync.Cond
	line, held, again []int8
	down              bool
	released          int       // ShutDowns so far: each ends the drains before it
	adds              int       // and takes: when to go wrong
	ahead             []*[]int8 // what each Barrier waits for
}

func newNaive(f fault) *naive {
	q := &naive{fault: f}
	q.changed.L = &q.mu
	return q
}

func (q *naive) Add(item int8) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(item)
}

func (q *naive) addLocked(item int8) {
	defer q.changed.Broadcast()
	q.adds++
	isHeld := slices.Contains(q.held, item)
	switch {
	case q.down && q.fault != acceptsAfterShutDown || slices.Contains(q.line, item):
	case q.fault == losesAnAddAtTimes && q.adds%50 == 7:
	case !isHeld:
		q.line = append(q.line, item)
	case q.fault != losesAnAdd && !slices.Contains(q.again, item):
		q.again = append(q.again, item)
	}
}

func (q *naive) AddAll(items ...int8) int {
	if q.fault == addAllInPieces {
		for _, item := range items {
			q.Add(item)
			runtime.Gosched()
		}
		return len(items)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, item := range items {
		q.addLocked(item)
	}
	return len(items)
}

func (q *naive) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fault == lenCountsHeld {
		return len(q.line) + len(q.held)
	}
	return len(q.line)
}

func (q *naive) takeLocked() (item int8, ok bool) {
	if len(q.line) == 0 {
		return 0, false
	}
	at := 0
	if q.fault == lastInFirstOut {
		at = len(q.line) - 1
	}
	item = q.line[at]
	if q.fault != handsOutTwice || q.adds%8 != 5 {
		q.line = slices.Delete(q.line, at, at+1)
	}
	q.adds++
	q.held = append(q.held, item)
	if q.fault == barrierPassesAtTheTake {
		q.pass(item)
	}
	return item, true
}

func (q *naive) TryGet() (int8, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.takeLocked()
}

func (q *naive) Get() (item int8, shutdown bool) {
	item, err := q.GetContext(context.Background())
	return item, err != nil
}

func (q *naive) GetContext(ctx context.Context) (int8, error) {
	defer q.wakeAfter(ctx)()
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if ctx.Err() != nil {
			if q.fault == cancelLosesItem && len(q.line) > 0 {
				q.line = q.line[1:]
				q.changed.Broadcast()
			}
			return 0, ctx.Err()
		}
		if item, ok := q.takeLocked(); ok {
			return item, nil
		}
		if q.down {
			return 0, workqueue.ErrShutDown
		}
		q.changed.Wait()
	}
}

func (q *naive) Done(item int8) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.changed.Broadcast()
	at := slices.Index(q.held, item)
	if at >= 0 {
		q.held = slices.Delete(q.held, at, at+1)
		q.pass(item)
	} else if q.fault != acceptsSpuriousDone || !slices.Contains(q.line, item) {
		return
	}
	if again := slices.Index(q.again, item); again >= 0 || at < 0 {
		q.line = append(q.line, item)
		q.again = slices.DeleteFunc(q.again, func(i int8) bool { return i == item })
	}
}

func (q *naive) Remove(item int8) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.changed.Broadcast()
	before := len(q.line) + len(q.again)
	is := func(i int8) bool { return i == item }
	q.line = slices.DeleteFunc(q.line, is)
	if !slices.Contains(q.held, item) {
		q.pass(item)
	}
	if q.fault != removeKeepsReAdd {
		q.again = slices.DeleteFunc(q.again, is)
	}
	return q.fault != removeSaysNothing && len(q.line)+len(q.again) < before
}

func (q *naive) RemoveFunc(del func(item int8) bool) (removed int) {
	for item := range int8(maxItems) {
		if del(item) && q.removeOnce(item) {
			removed++
		}
	}
	return removed
}

func (q *naive) removeOnce(item int8) bool {
	q.mu.Lock()
	again := slices.Contains(q.again, item)
	q.mu.Unlock()
	return !(again && q.fault == removeFuncKeepsReAdd) && q.Remove(item)
}

func (q *naive) WaitIdle(ctx context.Context) error {
	return q.wait(ctx, func() bool {
		return (len(q.line) == 0 || q.fault == idleForgetsQueued) && (len(q.held) == 0 || q.fault == idleForgetsHeld)
	})
}

func (q *naive) Barrier(ctx context.Context) error {
	q.mu.Lock()
	var ahead []int8
	if q.fault != barrierForgetsQueued {
		ahead = append(ahead, q.line...)
	}
	if q.fault != barrierForgetsHeld {
		ahead = append(ahead, q.held...)
	}
	q.ahead = append(q.ahead, &ahead)
	q.mu.Unlock()
	isThere := func(i int8) bool { return slices.Contains(q.line, i) || slices.Contains(q.held, i) } // Some faults lose items.
	return q.wait(ctx, func() bool { return !slices.ContainsFunc(ahead, isThere) })
}

func (q *naive) wait(ctx context.Context, over func() bool) error {
	defer q.wakeAfter(ctx)()
	q.mu.Lock()
	defer q.mu.Unlock()
	for !over() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		q.changed.Wait()
	}
	return nil
}

// pass tells the barriers of an item that is done or removed.
func (q *naive) pass(item int8) {
	for _, ahead := range q.ahead {
		*ahead = slices.DeleteFunc(*ahead, func(i int8) bool { return i == item })
	}
}

func (q *naive) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.down = true
	q.released++
	if q.fault == shutDownDropsQueued {
		q.line = nil
	}
	q.changed.Broadcast()
}

func (q *naive) ShutDownWithDrain() { q.drain(context.Background()) }

func (q *naive) drain(ctx context.Context) {
	defer q.wakeAfter(ctx)()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.down = true
	q.changed.Broadcast()
	for before := q.released; q.released == before && q.busyLocked() && ctx.Err() == nil; {
		q.changed.Wait()
	}
}

// wakeAfter has everybody look again when the context has ended.
func (q *naive) wakeAfter(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})
}

func (q *naive) busyLocked() bool {
	return len(q.line) > 0 && q.fault != drainForgetsQueued || len(q.held) > 0 && q.fault != drainForgetsHeld
}

func (q *naive) Drain(ctx context.Context) error {
	q.drain(ctx)
	s := q.Snapshot(maxItems)
	if len(s.Queued)+len(s.InFlight) == 0 || q.fault == drainForgetsAnError {
		return nil
	}
	return &workqueue.DrainError[int8]{Left: s}
}

func (q *naive) Snapshot(int) (s workqueue.Snapshot[int8]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, item := range q.line {
		s.Queued = append(s.Queued, workqueue.ItemInfo[int8]{Item: item})
	}
	if q.fault == snapshotInPieces {
		q.mu.Unlock()
		runtime.Gosched()
		q.mu.Lock()
	}
	for _, item := range q.held {
		info := workqueue.ItemInfo[int8]{Item: item, State: workqueue.ItemInFlight}
		if slices.Contains(q.again, item) {
			info.State = workqueue.ItemInFlightAgain
		}
		s.InFlight = append(s.InFlight, info)
	}
	return s
}

func (q *naive) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.down
}

// The checks above can fail: each fault makes illegal histories, most of them
// many. And without a fault there are none.
func TestBrokenQueuesHaveIllegalHistories(t *testing.T) {
	for f := range faults {
		t.Run(faultNames[f], func(t *testing.T) {
			n, illegal := 0, 0
			for ; n < someHistories() || illegal == 0 && f != nothing && n < manyHistories(); n++ {
				illegal += illegalHistory(t, newNaive(f), randomLoad(rand.New(rand.NewPCG(uint64(f), uint64(n))), true))
			}
			t.Logf("%d of %d histories are illegal", illegal, n)
			if (illegal > 0) != (f != nothing) {
				t.Errorf("%d of %d histories are illegal", illegal, n)
			}
		})
	}
}

// client-go fails the same check when somebody calls Done for what nobody
// holds (kubernetes/kubernetes#79934), and when it drains (#141079).
func TestClientGoHasIllegalHistories(t *testing.T) {
	for name, load := range map[string]func(rnd *rand.Rand) load{
		"spurious Done": func(rnd *rand.Rand) load {
			l := randomLoad(rnd, true)
			l.drains = 0
			return l
		},
		"drain": func(rnd *rand.Rand) load {
			l := randomLoad(rnd, false)
			l.drains = 1
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, illegal := 0, 0
			for ; n < someHistories() || illegal == 0 && n < manyHistories(); n++ {
				illegal += illegalHistory(t, cg.NewTyped[int8](), load(rand.New(rand.NewPCG(1, uint64(n)))))
			}
			if t.Logf("%d of %d histories are illegal", illegal, n); illegal == 0 {
				t.Error("no history is illegal: client-go now does as documented, or this check does not look")
			}
		})
	}
}

// someHistories is how many are mostly enough to find each of the faults in. On one
// processor some faults are in one of a hundred.
func someHistories() int {
	if raceEnabled {
		return 500
	}
	return 2000
}

// manyHistories is how many are enough on any machine.
func manyHistories() int { return 20 * someHistories() }

func illegalHistory(t *testing.T, q queue, l load) int {
	t.Helper()
	ops, ended := record(q, l)
	if !ended {
		t.Fatalf("calls of %+v do not return", l)
	}
	if porcupine.CheckOperations(spec(shape{}), ops) {
		return 0
	}
	return 1
}
