package linearizability

import (
	"context"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"
	cg "k8s.io/client-go/util/workqueue"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/internal/spec"
)

// A fault is a bug of a naive queue.
type fault int

const (
	nothing fault = iota
	acceptsSpuriousDone
	losesAnAdd        // of a held item
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

// A naive queue is the specification under one lock, with a fault or without.
type naive struct {
	fault fault

	mu      sync.Mutex
	changed sync.Cond
	spec    *spec.Queue[int8]
	calls   int // of Add and of Get: when to go wrong
}

func newNaive(f fault) *naive {
	q := &naive{fault: f, spec: spec.New(spec.Rules[int8]{})}
	q.changed.L = &q.mu
	return q
}

// lock begins a call, and the result ends it.
func (q *naive) lock() (unlock func()) {
	q.mu.Lock()
	return func() {
		q.changed.Broadcast()
		q.mu.Unlock()
	}
}

func (q *naive) Add(item int8) {
	defer q.lock()()
	q.add(item)
}

func (q *naive) add(item int8) {
	q.calls++
	_, held := q.spec.Held[item]
	down := q.spec.Down
	if q.fault == losesAnAddAtTimes && q.calls%50 == 7 || q.fault == losesAnAdd && held {
		return
	}
	q.spec.Down = down && q.fault != acceptsAfterShutDown
	q.spec.Add(item, spec.Place{})
	q.spec.Down = down
}

func (q *naive) AddAll(items ...int8) int {
	if q.fault == addAllInPieces {
		for _, item := range items {
			q.Add(item)
			runtime.Gosched()
		}
		return len(items)
	}
	defer q.lock()()
	for _, item := range items {
		q.add(item)
	}
	return len(items)
}

func (q *naive) Len() int {
	defer q.lock()()
	if q.fault == lenCountsHeld {
		return q.spec.Len() + len(q.spec.Held)
	}
	return q.spec.Len()
}

func (q *naive) get() (item int8, ok bool) {
	line := q.spec.Queued
	q.calls++
	if q.fault == handsOutTwice && q.calls%8 == 5 {
		i, ok := q.spec.Clone().Get()
		return i.Value, ok
	}
	if last := len(line) - 1; q.fault == lastInFirstOut && last > 0 {
		q.spec.Queued = slices.Insert(line[:last:last], 0, line[last])
	}
	i, ok := q.spec.Get()
	return i.Value, ok
}

func (q *naive) TryGet() (int8, bool) {
	defer q.lock()()
	return q.get()
}

func (q *naive) Get() (item int8, shutdown bool) {
	item, err := q.GetContext(context.Background())
	return item, err != nil
}

func (q *naive) GetContext(ctx context.Context) (item int8, err error) {
	err = q.wait(ctx, func() bool { return q.spec.Ready() || q.spec.Down }, func(err error) error {
		ok := err == nil
		if ok {
			item, ok = q.get()
		}
		switch {
		case err != nil && q.fault == cancelLosesItem && q.spec.Ready():
			q.spec.RemoveBelow(q.spec.Queued[0].Value)
		case err == nil && !ok:
			return workqueue.ErrShutDown
		}
		return err
	})
	return item, err
}

func (q *naive) Done(item int8) {
	defer q.lock()()
	if !q.spec.Done(item) && q.fault == acceptsSpuriousDone && q.spec.Pending(item) {
		q.spec.Queued = append(q.spec.Queued, spec.Item[int8]{Value: item})
	}
}

func (q *naive) Remove(item int8) bool { return q.remove(item, removeKeepsReAdd) }

func (q *naive) remove(item int8, keeps fault) bool {
	defer q.lock()()
	if q.fault == keeps && q.spec.Held[item].Marked {
		return false
	}
	return q.spec.Remove(item) && q.fault != removeSaysNothing
}

func (q *naive) RemoveFunc(del func(item int8) bool) (removed int) {
	for item := range int8(maxItems) {
		if del(item) && q.remove(item, removeFuncKeepsReAdd) {
			removed++
		}
	}
	return removed
}

// wait waits until over reports true, unless ctx ends first, and then calls the function with the
// lock held.
func (q *naive) wait(ctx context.Context, over func() bool, then func(error) error) error {
	defer context.AfterFunc(ctx, func() { q.lock()() })()
	defer q.lock()()
	for !over() && ctx.Err() == nil {
		q.changed.Wait()
	}
	return then(ctx.Err())
}

func as(err error) error { return err }

func (q *naive) WaitIdle(ctx context.Context) error {
	return q.wait(ctx, func() bool { return q.isIdle(idleForgetsQueued, idleForgetsHeld) }, as)
}

func (q *naive) isIdle(forgetsQueued, forgetsHeld fault) bool {
	return (q.spec.Len() == 0 || q.fault == forgetsQueued) && (len(q.spec.Held) == 0 || q.fault == forgetsHeld)
}

func (q *naive) Barrier(ctx context.Context) error {
	unlock := q.lock()
	ticket := q.spec.Barrier()
	var ahead []int8
	if q.fault != barrierForgetsQueued {
		for _, i := range q.spec.Queued {
			ahead = append(ahead, i.Value)
		}
	}
	if q.fault != barrierForgetsHeld {
		ahead = slices.AppendSeq(ahead, maps.Keys(q.spec.Held))
	}
	unlock()
	isBefore := func(item int8) bool {
		h, held := q.spec.Held[item]
		return held && h.Behind < ticket && q.fault != barrierPassesAtTheTake ||
			slices.ContainsFunc(q.spec.Queued, func(i spec.Item[int8]) bool { return i.Value == item && i.Behind < ticket })
	}
	return q.wait(ctx, func() bool { return !slices.ContainsFunc(ahead, isBefore) }, as)
}

func (q *naive) ShutDown() {
	defer q.lock()()
	q.spec.ShutDown()
	if q.fault == shutDownDropsQueued {
		for _, i := range q.spec.Line() {
			q.spec.RemoveBelow(i.Value)
		}
	}
}

func (q *naive) ShutDownWithDrain() { q.drain(context.Background()) }

func (q *naive) drain(ctx context.Context) {
	unlock := q.lock()
	ticket := q.spec.Drain()
	unlock()
	q.wait(ctx, func() bool { return q.spec.Drained(ticket) || q.isIdle(drainForgetsQueued, drainForgetsHeld) }, as)
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
	defer q.lock()()
	for at, i := range q.spec.Line() {
		s.Queued = append(s.Queued, workqueue.ItemInfo[int8]{Item: i.Value, Position: at + 1})
	}
	if q.fault == snapshotInPieces {
		q.mu.Unlock()
		runtime.Gosched()
		q.mu.Lock()
	}
	for item, h := range q.spec.Held {
		info := workqueue.ItemInfo[int8]{Item: item, State: workqueue.ItemInFlight}
		if h.Marked {
			info.State = workqueue.ItemInFlightAgain
		}
		s.InFlight = append(s.InFlight, info)
	}
	return s
}

func (q *naive) ShuttingDown() bool {
	defer q.lock()()
	return q.spec.Down
}

// The control of the checks above: each fault makes illegal histories, most faults many, and
// without a fault there are none.
func TestBrokenQueuesHaveIllegalHistories(t *testing.T) {
	for f := range faults {
		t.Run(faultNames[f], func(t *testing.T) {
			n, illegal, most := 0, 0, manyHistories()
			if f == nothing {
				most = someHistories()
			}
			for ; n < most && illegal < enough; n++ {
				illegal += illegalHistory(t, newNaive(f), randomLoad(rand.New(rand.NewPCG(uint64(f), uint64(n))), true))
			}
			t.Logf("%d of %d histories are illegal", illegal, n)
			if (illegal > 0) != (f != nothing) {
				t.Errorf("%d of %d histories are illegal", illegal, n)
			}
		})
	}
}

// client-go fails the same check when somebody calls Done for an item that nobody holds
// (kubernetes/kubernetes#79934), and when it drains (#141079).
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
			for ; n < manyHistories() && illegal < enough; n++ {
				illegal += illegalHistory(t, cg.NewTyped[int8](), load(rand.New(rand.NewPCG(1, uint64(n)))))
			}
			if t.Logf("%d of %d histories are illegal", illegal, n); illegal == 0 {
				t.Error("no history is illegal: client-go now does as documented, or this check does not look")
			}
		})
	}
}

// A control ends after enough illegal histories: more histories of the same fault show nothing new.
const enough = 4

// someHistories is mostly enough to find each of the faults. On one processor some faults show in
// one history of a hundred.
func someHistories() int {
	if raceEnabled {
		return 500
	}
	return 2000
}

// manyHistories is enough on any machine.
func manyHistories() int { return 20 * someHistories() }

func illegalHistory(t *testing.T, q queue, l load) int {
	t.Helper()
	ops, ended := record(q, l)
	if !ended {
		t.Fatalf("calls of %+v do not return", l)
	}
	if porcupine.CheckOperations(model(shape{}), ops) {
		return 0
	}
	return 1
}
